// SPDX-License-Identifier: Apache-2.0
// Scalars of 16 bits and less as bit patterns: IEEE binary16, bfloat16, the OCP 8-bit formats (E4M3FN, E5M2),
// their FNUZ variants and FP4 E2M1 (OFP8 1.0 and OCP MX 1.0 specifications; ONNX "Float stored in 8 bits").
//
// Encoding rounds to nearest, ties to even. It takes a double, so that float and double values are both rounded
// once. Decoding is exact.
#pragma once

#include <bit>
#include <cstdint>

namespace treadle {

/// How a small floating-point format spends its largest codes.
enum class FloatSpecials : uint8_t {
  kIeee,       ///< largest exponent: infinity (mantissa 0) and NaN
  kFinite,     ///< no infinity; NaN is the all-ones code of either sign ("FN")
  kUnsigned0,  ///< no infinity and no negative zero; NaN is the code of negative zero ("FNUZ")
  kNone,       ///< neither infinity nor NaN; encoding saturates (NaN becomes the largest value, as in OCP MX)
};

/// A format of one sign bit, `exponent` and `mantissa` bits; `bias` of the exponent.
struct FloatFormat {
  int exponent;
  int mantissa;
  int bias;
  FloatSpecials specials;

  constexpr int bits() const { return 1 + exponent + mantissa; }
  constexpr uint32_t sign_mask() const { return 1u << (exponent + mantissa); }
  constexpr uint32_t mantissa_mask() const { return (1u << mantissa) - 1; }
  /// Code (without sign) of the largest finite value.
  constexpr uint32_t max_finite() const {
    uint32_t all = sign_mask() - 1;
    if (specials == FloatSpecials::kIeee) return all - mantissa_mask() - 1;
    return specials == FloatSpecials::kFinite ? all - 1 : all;
  }
  /// Code (without sign) of infinity; only for kIeee.
  constexpr uint32_t infinity() const { return sign_mask() - 1 - mantissa_mask(); }
  constexpr uint32_t nan() const {
    if (specials == FloatSpecials::kIeee) return infinity() | (1u << (mantissa - 1));
    return specials == FloatSpecials::kUnsigned0 ? sign_mask() : sign_mask() - 1;
  }
};

inline constexpr FloatFormat kFloat16Format{5, 10, 15, FloatSpecials::kIeee};
inline constexpr FloatFormat kBFloat16Format{8, 7, 127, FloatSpecials::kIeee};
inline constexpr FloatFormat kFloat8E4M3FNFormat{4, 3, 7, FloatSpecials::kFinite};
inline constexpr FloatFormat kFloat8E4M3FNUZFormat{4, 3, 8, FloatSpecials::kUnsigned0};
inline constexpr FloatFormat kFloat8E5M2Format{5, 2, 15, FloatSpecials::kIeee};
inline constexpr FloatFormat kFloat8E5M2FNUZFormat{5, 2, 16, FloatSpecials::kUnsigned0};
inline constexpr FloatFormat kFloat4E2M1Format{2, 1, 1, FloatSpecials::kNone};

/// The code nearest to `value`. Beyond the largest finite value: that value when `saturate`, else infinity where the
/// format has it and NaN where it hasn't. NaN stays NaN with its sign.
constexpr uint32_t EncodeFloat(const FloatFormat& format, double value, bool saturate = false) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = (bits >> 63) != 0 ? format.sign_mask() : 0;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const bool is_nan = exponent == 0x7ff && fraction != 0;
  if (is_nan && format.specials == FloatSpecials::kNone) return format.max_finite();
  if (is_nan) return format.specials == FloatSpecials::kUnsigned0 ? format.nan() : (sign | format.nan());

  uint32_t code = 0;
  bool overflow = exponent == 0x7ff;
  // Subnormal doubles are far below half of the smallest subnormal of every format here.
  if (!overflow && exponent != 0) {
    const uint64_t significand = fraction | (uint64_t{1} << 52);
    const int target = exponent - 1023 + format.bias;  // biased exponent if normal
    // Bits to drop so that the last kept bit has the weight of the format's unit in the last place.
    const int shift = 52 - format.mantissa + (target >= 1 ? 0 : 1 - target);
    if (shift <= 53) {
      const uint64_t kept = significand >> shift;
      const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
      const uint64_t half = uint64_t{1} << (shift - 1);
      const uint64_t rounded = kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1 : 0);
      // A carry out of the mantissa runs into the exponent field, which is what is wanted.
      const int64_t base = target >= 1 ? (static_cast<int64_t>(target) - 1) << format.mantissa : 0;
      const int64_t wide = base + static_cast<int64_t>(rounded);
      overflow = wide > static_cast<int64_t>(format.max_finite());
      code = overflow ? 0 : static_cast<uint32_t>(wide);
    }
  }
  if (overflow) {
    if (saturate || format.specials == FloatSpecials::kNone) return sign | format.max_finite();
    if (format.specials == FloatSpecials::kIeee) return sign | format.infinity();
    return format.specials == FloatSpecials::kUnsigned0 ? format.nan() : (sign | format.nan());
  }
  if (code == 0 && format.specials == FloatSpecials::kUnsigned0) return 0;
  return sign | code;
}

/// The value of `code`; bits above the format's are ignored.
constexpr float DecodeFloat(const FloatFormat& format, uint32_t code) {
  const bool negative = (code & format.sign_mask()) != 0;
  const uint32_t magnitude = code & (format.sign_mask() - 1);
  const uint32_t sign = negative ? 0x80000000u : 0u;
  const bool is_nan = format.specials == FloatSpecials::kIeee        ? magnitude > format.infinity()
                      : format.specials == FloatSpecials::kFinite    ? magnitude == format.nan()
                      : format.specials == FloatSpecials::kUnsigned0 ? negative && magnitude == 0
                                                                     : false;
  if (is_nan) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (format.specials == FloatSpecials::kIeee && magnitude == format.infinity()) {
    return std::bit_cast<float>(sign | 0x7f800000u);
  }
  int exponent = static_cast<int>(magnitude >> format.mantissa);
  uint32_t fraction = magnitude & format.mantissa_mask();
  if (exponent == 0) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    if (format.bias == 127) return std::bit_cast<float>(sign | (fraction << (23 - format.mantissa)));
    exponent = 1;
    while ((fraction >> format.mantissa) == 0) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= format.mantissa_mask();
  }
  const uint32_t biased = static_cast<uint32_t>(exponent - format.bias + 127);
  return std::bit_cast<float>(sign | (biased << 23) | (fraction << (23 - format.mantissa)));
}

constexpr uint16_t FloatToHalf(double value) { return static_cast<uint16_t>(EncodeFloat(kFloat16Format, value)); }
constexpr float HalfToFloat(uint16_t code) { return DecodeFloat(kFloat16Format, code); }
constexpr uint16_t FloatToBFloat16(double value) { return static_cast<uint16_t>(EncodeFloat(kBFloat16Format, value)); }
constexpr float BFloat16ToFloat(uint16_t code) { return std::bit_cast<float>(static_cast<uint32_t>(code) << 16); }

}  // namespace treadle
