// SPDX-License-Identifier: Apache-2.0
// The text that generated C begins with.
#pragma once

namespace treadle::targets {

/// Types of the calling convention, and what needs the C library.
inline constexpr const char* kCHeader = R"(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define TREADLE_WEAK __attribute__((weak))
#define TREADLE_INLINE static inline __attribute__((unused))
#else
#define TREADLE_WEAK
#define TREADLE_INLINE static inline
#endif

/* Before 12.3, GCC 12 vectorizes some sums of integers wrongly. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ == 12 && __GNUC_MINOR__ < 3
#define TREADLE_INTEGER_SUMS __attribute__((noinline, optimize("no-tree-loop-vectorize")))
#else
#define TREADLE_INTEGER_SUMS
#endif

typedef struct {
  void* data;
  struct {
    int32_t device_type;
    int32_t device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} TreadleTensor;

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
} TreadleArg;

/* Set by the loader when there is one. */
void (*__TreadleBackendSetLastError)(const char* message) TREADLE_WEAK = 0;

TREADLE_INLINE int32_t treadle_fail(const char* message) {
  if (__TreadleBackendSetLastError) __TreadleBackendSetLastError(message);
  return -1;
}

#define TREADLE_REINTERPRET(From, To, name)       \
  TREADLE_INLINE To treadle_bits_##name(From x) { \
    To y;                                         \
    memcpy(&y, &x, sizeof(y));                    \
    return y;                                     \
  }
TREADLE_REINTERPRET(float, int32_t, f32_i32)
TREADLE_REINTERPRET(float, uint32_t, f32_u32)
TREADLE_REINTERPRET(int32_t, float, i32_f32)
TREADLE_REINTERPRET(uint32_t, float, u32_f32)
TREADLE_REINTERPRET(double, int64_t, f64_i64)
TREADLE_REINTERPRET(double, uint64_t, f64_u64)
TREADLE_REINTERPRET(int64_t, double, i64_f64)
TREADLE_REINTERPRET(uint64_t, double, u64_f64)
)";

/// What generated code in C and in its relatives calls.
inline constexpr const char* kCHelpers = R"(/* Division: x / 0 and x % 0 are 0, MIN / -1 is MIN. */
#define TREADLE_DIVISION(T, U, name)                                                     \
  TREADLE_INLINE T treadle_div_##name(T a, T b) {                                        \
    return (T)(b == 0 ? 0 : b == (T)-1 && (T)-1 < (T)1 ? (T)((U)0 - (U)a) : (T)(a / b)); \
  }                                                                                      \
  TREADLE_INLINE T treadle_mod_##name(T a, T b) {                                        \
    return (T)(b == 0 || (b == (T)-1 && (T)-1 < (T)1) ? 0 : a % b);                      \
  }                                                                                      \
  TREADLE_INLINE T treadle_floormod_##name(T a, T b) {                                   \
    T r = treadle_mod_##name(a, b);                                                      \
    return (T)(r != 0 && (r < (T)1) != (b < (T)1) ? r + b : r);                          \
  }                                                                                      \
  TREADLE_INLINE T treadle_floordiv_##name(T a, T b) {                                   \
    T r = treadle_mod_##name(a, b);                                                      \
    T q = treadle_div_##name(a, b);                                                      \
    return (T)(r != 0 && (r < (T)1) != (b < (T)1) ? q - 1 : q);                          \
  }                                                                                      \
  TREADLE_INLINE T treadle_shl_##name(T a, T b) {                                        \
    return (U)b >= 8 * sizeof(T) ? (T)0 : (T)((uint64_t)a << b);                         \
  }                                                                                      \
  TREADLE_INLINE T treadle_shr_##name(T a, T b) {                                        \
    if ((U)b < 8 * sizeof(T)) return (T)(a >> b);                                        \
    return (T)((T)-1 < (T)1 ? a >> (8 * sizeof(T) - 1) : 0);                             \
  }
TREADLE_DIVISION(int8_t, uint8_t, i8)
TREADLE_DIVISION(int16_t, uint16_t, i16)
TREADLE_DIVISION(int32_t, uint32_t, i32)
TREADLE_DIVISION(int64_t, uint64_t, i64)
TREADLE_DIVISION(uint8_t, uint8_t, u8)
TREADLE_DIVISION(uint16_t, uint16_t, u16)
TREADLE_DIVISION(uint32_t, uint32_t, u32)
TREADLE_DIVISION(uint64_t, uint64_t, u64)

/* Conversion from float truncates and saturates; NaN gives 0. */
#define TREADLE_SATURATE(T, name, low, high)     \
  TREADLE_INLINE T treadle_to_##name(double x) { \
    if (!(x == x)) return 0;                     \
    if (x <= (double)(low)) return low;          \
    if (x >= (double)(high)) return high;        \
    return (T)x;                                 \
  }
TREADLE_SATURATE(int8_t, i2, -2, 1)
TREADLE_SATURATE(int8_t, i4, -8, 7)
TREADLE_SATURATE(int8_t, i8, INT8_MIN, INT8_MAX)
TREADLE_SATURATE(int16_t, i16, INT16_MIN, INT16_MAX)
TREADLE_SATURATE(int32_t, i32, INT32_MIN, INT32_MAX)
TREADLE_SATURATE(int64_t, i64, INT64_MIN, INT64_MAX)
TREADLE_SATURATE(uint8_t, u2, 0, 3)
TREADLE_SATURATE(uint8_t, u4, 0, 15)
TREADLE_SATURATE(uint8_t, u8, 0, UINT8_MAX)
TREADLE_SATURATE(uint16_t, u16, 0, UINT16_MAX)
TREADLE_SATURATE(uint32_t, u32, 0, UINT32_MAX)
TREADLE_SATURATE(uint64_t, u64, 0, UINT64_MAX)

#define TREADLE_MIN_MAX(T, name)                                                       \
  TREADLE_INLINE T treadle_min_##name(T a, T b) { return a != a ? a : a < b ? a : b; } \
  TREADLE_INLINE T treadle_max_##name(T a, T b) { return a != a ? a : a > b ? a : b; }
TREADLE_MIN_MAX(float, f32)
TREADLE_MIN_MAX(double, f64)

TREADLE_INLINE float treadle_from_bf16(uint16_t x) { return treadle_bits_u32_f32((uint32_t)x << 16); }
TREADLE_INLINE uint16_t treadle_to_bf16(float x) {
  const uint32_t bits = treadle_bits_f32_u32(x);
  if (x != x) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
TREADLE_INLINE float treadle_from_f16(uint16_t x) {
  const uint32_t magnitude = x & 0x7fffu;
  uint32_t bits = treadle_bits_f32_u32(treadle_bits_u32_f32(magnitude << 13) * treadle_bits_u32_f32(0x77800000u));
  if (magnitude >= 0x7c00u) bits = magnitude > 0x7c00u ? 0x7fc00000u : 0x7f800000u;
  return treadle_bits_u32_f32(bits | ((uint32_t)(x & 0x8000u) << 16));
}
TREADLE_INLINE uint16_t treadle_to_f16(float x) {
  const uint32_t bits = treadle_bits_f32_u32(x);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code;
  if (magnitude > 0x7f800000u) {
    code = 0x7e00u;
  } else if (magnitude >= 0x477ff000u) {
    code = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    code = treadle_bits_f32_u32(treadle_bits_u32_f32(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    code = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return (uint16_t)(code | sign);
}

/* Formats of 8 bits, E for the exponent and M for the mantissa. S says which values aren't
   finite: 0 infinities and NaN as in IEEE 754, 1 NaN, 2 a NaN in place of -0. */
#define TREADLE_SMALL_ALL(E, M) ((1u << (E + M)) - 1)
#define TREADLE_SMALL_INF(E, M) ((TREADLE_SMALL_ALL(E, M) >> M) << M)
#define TREADLE_SMALL_LIMIT(E, M, S) \
  ((S) == 0 ? TREADLE_SMALL_INF(E, M) - 1 : (S) == 1 ? TREADLE_SMALL_ALL(E, M) - 1 : TREADLE_SMALL_ALL(E, M))
#define TREADLE_SMALL_NAN(E, M, S) \
  ((S) == 0 ? TREADLE_SMALL_INF(E, M) | (1u << (M - 1)) : (S) == 2 ? 1u << (E + M) : TREADLE_SMALL_ALL(E, M))
#define TREADLE_SMALL_FLOAT(name, E, M, BIAS, S)                                                                    \
  TREADLE_INLINE float treadle_from_##name(uint8_t x) {                                                             \
    const uint32_t magnitude = x & TREADLE_SMALL_ALL(E, M);                                                         \
    const uint32_t sign = (uint32_t)((x >> (E + M)) & 1) << 31;                                                     \
    uint32_t bits = (magnitude << (23 - M)) + ((127u - BIAS) << 23);                                                \
    if (magnitude < (1u << M)) {                                                                                    \
      bits = treadle_bits_f32_u32((float)magnitude * treadle_bits_u32_f32((128u - BIAS - M) << 23));                \
    }                                                                                                               \
    if ((S) == 0 && magnitude == TREADLE_SMALL_INF(E, M)) bits = 0x7f800000u;                                       \
    if (((S) == 0 && magnitude > TREADLE_SMALL_INF(E, M)) || ((S) == 1 && magnitude == TREADLE_SMALL_ALL(E, M)) ||  \
        ((S) == 2 && magnitude == 0 && sign != 0)) {                                                                \
      bits = 0x7fc00000u;                                                                                           \
    }                                                                                                               \
    return treadle_bits_u32_f32(bits | sign);                                                                       \
  }                                                                                                                 \
  TREADLE_INLINE uint8_t treadle_to_##name(float x) {                                                               \
    const uint32_t bits = treadle_bits_f32_u32(x), magnitude = bits & 0x7fffffffu;                                  \
    const uint32_t sign = (S) == 2 ? 0 : (bits >> 31) << (E + M), magic = (151u - BIAS - M) << 23;                  \
    uint32_t code;                                                                                                  \
    if (magnitude > 0x7f800000u) return (uint8_t)(sign | TREADLE_SMALL_NAN(E, M, S));              \
    if (magnitude < ((128u - BIAS) << 23)) {                                                                        \
      code = treadle_bits_f32_u32(treadle_bits_u32_f32(magnitude) + treadle_bits_u32_f32(magic)) - magic;           \
    } else {                                                                                                        \
      code = (magnitude - ((127u - BIAS) << 23) + ((1u << (22 - M)) - 1) + ((magnitude >> (23 - M)) & 1)) >> (23 - M); \
    }                                                                                                               \
    if (code > TREADLE_SMALL_LIMIT(E, M, S)) {                                                                      \
      return (uint8_t)(sign | ((S) == 0 ? TREADLE_SMALL_INF(E, M) : TREADLE_SMALL_NAN(E, M, S)));                   \
    }                                                                                                               \
    if ((S) == 2 && code != 0) code |= (bits >> 31) << (E + M);                                                     \
    return (uint8_t)(sign | code);                                                                                  \
  }
TREADLE_SMALL_FLOAT(float8_e4m3fn, 4, 3, 7, 1)
TREADLE_SMALL_FLOAT(float8_e4m3fnuz, 4, 3, 8, 2)
TREADLE_SMALL_FLOAT(float8_e5m2, 5, 2, 15, 0)
TREADLE_SMALL_FLOAT(float8_e5m2fnuz, 5, 2, 16, 2)
TREADLE_INLINE int32_t treadle_popcount(uint64_t x) {
  int32_t n = 0;
  for (; x != 0; x &= x - 1) ++n;
  return n;
}
TREADLE_INLINE int32_t treadle_clz(uint64_t x, int32_t bits) {
  int32_t n = bits;
  for (; x != 0; x >>= 1) --n;
  return n;
}
)";

}  // namespace treadle::targets
