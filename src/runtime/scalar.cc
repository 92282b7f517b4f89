// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/scalar.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

/// Truncated towards zero, saturated to what `bits` bits hold; NaN is 0.
int64_t TruncateInt(double value, int bits) {
  if (std::isnan(value)) return 0;
  const double limit = std::ldexp(1.0, bits - 1);
  if (value >= limit) return static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  if (value < -limit) return std::numeric_limits<int64_t>::min() >> (64 - bits);
  return static_cast<int64_t>(value);
}
uint64_t TruncateUInt(double value, int bits) {
  if (!(value > 0)) return 0;
  if (value >= std::ldexp(1.0, bits)) return ~uint64_t{0} >> (64 - bits);
  return static_cast<uint64_t>(value);
}

/// Integers of `bits` bits in elements of type T: reads and writes.
template <typename T>
struct IntCodec {
  int bits;

  /// The low bits of a byte, extended; all others fill their element.
  int64_t ToInt(T element) const {
    const int unused = static_cast<int>(sizeof(T)) * 8 - bits;
    if (unused == 0) return static_cast<int64_t>(element);
    const auto high = static_cast<T>(static_cast<std::make_unsigned_t<T>>(element) << unused);
    return static_cast<int64_t>(static_cast<T>(high >> unused));
  }
  double ToDouble(T element) const {
    if constexpr (std::is_same_v<T, uint64_t>) return static_cast<double>(element);
    return static_cast<double>(ToInt(element));
  }
  T FromInt(int64_t value) const {
    const int unused = 64 - bits;
    const auto high = static_cast<uint64_t>(value) << unused;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(high) >> unused);
    return static_cast<T>(high >> unused);
  }
  T FromDouble(double value) const {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(TruncateInt(value, bits));
    return static_cast<T>(TruncateUInt(value, bits));
  }
  using Element = T;
};

struct BoolCodec {
  using Element = uint8_t;
  int64_t ToInt(uint8_t element) const { return element != 0 ? 1 : 0; }
  double ToDouble(uint8_t element) const { return element != 0 ? 1 : 0; }
  uint8_t FromInt(int64_t value) const { return value != 0 ? 1 : 0; }
  uint8_t FromDouble(double value) const { return value != 0 ? 1 : 0; }
};

template <typename T>
struct FloatCodec {
  using Element = T;
  int64_t ToInt(T element) const { return TruncateInt(static_cast<double>(element), 64); }
  double ToDouble(T element) const { return static_cast<double>(element); }
  T FromInt(int64_t value) const { return static_cast<T>(value); }
  T FromDouble(double value) const { return static_cast<T>(value); }
};

template <typename T>
struct SmallFloatCodec {
  using Element = T;
  FloatFormat format;
  int64_t ToInt(T element) const { return TruncateInt(ToDouble(element), 64); }
  double ToDouble(T element) const { return static_cast<double>(DecodeFloat(format, element)); }
  /// Where float64 can't hold the integer, it is rounded to odd first: the format's rounding is the only one then.
  T FromInt(int64_t value) const {
    const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const bool inexact = magnitude >> 53 != 0 && (magnitude & 0x7ff) != 0;
    const uint64_t odd = inexact ? (magnitude & ~uint64_t{0x7ff}) | 0x800 : magnitude;
    return FromDouble(value < 0 ? -static_cast<double>(odd) : static_cast<double>(odd));
  }
  T FromDouble(double value) const { return static_cast<T>(EncodeFloat(format, value)); }
};

/// Calls `f` with the codec of the type.
template <typename F>
auto WithCodec(DataType dtype, F&& f) {
  if (dtype.is_scalar()) {
    const int bits = dtype.bits();
    if (dtype.is_bool()) return f(BoolCodec{});
    if (dtype.is_integral() && bits >= 2 && bits <= 64 && (bits <= 8 || bits == 16 || bits == 32 || bits == 64)) {
      switch (dtype.bytes()) {
        case 1:
          return dtype.is_int() ? f(IntCodec<int8_t>{bits}) : f(IntCodec<uint8_t>{bits});
        case 2:
          return dtype.is_int() ? f(IntCodec<int16_t>{bits}) : f(IntCodec<uint16_t>{bits});
        case 4:
          return dtype.is_int() ? f(IntCodec<int32_t>{bits}) : f(IntCodec<uint32_t>{bits});
        default:
          return dtype.is_int() ? f(IntCodec<int64_t>{bits}) : f(IntCodec<uint64_t>{bits});
      }
    }
    if (dtype.is_float() && bits == 64) return f(FloatCodec<double>{});
    if (dtype.is_float() && bits == 32) return f(FloatCodec<float>{});
    if (const auto format = SmallFloatFormat(dtype)) {
      return bits == 16 ? f(SmallFloatCodec<uint16_t>{*format}) : f(SmallFloatCodec<uint8_t>{*format});
    }
  }
  throw DTypeError(StrCat("elements of type ", dtype, " aren't numbers that can be read and written"));
}

template <typename T, typename Get>
std::vector<T> ReadAll(const NDArray& tensor, Get get) {
  const bool plain = tensor.IsCompact() && tensor.device().device_type == kDLCPU;
  const NDArray compact = plain ? tensor : tensor.Copy();
  return WithCodec(compact.dtype(), [&](const auto& codec) {
    using Element = typename std::decay_t<decltype(codec)>::Element;
    const auto* data = compact.Data<Element>();
    std::vector<T> values(static_cast<size_t>(compact.size()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = get(codec, data[i]);
    return values;
  });
}

template <typename T, typename Make>
NDArray WriteAll(const std::vector<T>& values, const std::vector<int64_t>& shape, DataType dtype, Make make) {
  NDArray array = NDArray::Empty(shape, dtype);
  if (array.size() != static_cast<int64_t>(values.size())) {
    throw ShapeError(StrCat("a tensor of shape ", ShapeString(shape), " can't hold ", values.size(), " elements"));
  }
  WithCodec(dtype, [&](const auto& codec) {
    auto* data = array.Data<typename std::decay_t<decltype(codec)>::Element>();
    for (size_t i = 0; i < values.size(); ++i) data[i] = make(codec, values[i]);
  });
  return array;
}

}  // namespace

std::optional<FloatFormat> SmallFloatFormat(DataType dtype) {
  if (dtype.is_float16()) return kFloat16Format;
  if (dtype.is_bfloat16()) return kBFloat16Format;
  switch (dtype.code()) {
    case DataType::kFloat8E4M3FN:
      return kFloat8E4M3FNFormat;
    case DataType::kFloat8E4M3FNUZ:
      return kFloat8E4M3FNUZFormat;
    case DataType::kFloat8E5M2:
      return kFloat8E5M2Format;
    case DataType::kFloat8E5M2FNUZ:
      return kFloat8E5M2FNUZFormat;
    case kDLFloat4_e2m1fn:
      return kFloat4E2M1Format;
    default:
      return std::nullopt;
  }
}

bool IsNumber(DataType dtype) {
  if (!dtype.is_scalar()) return false;
  const int bits = dtype.bits();
  if (dtype.is_integral()) return bits >= 1 && (bits <= 8 || bits == 16 || bits == 32 || bits == 64);
  return (dtype.is_float() && (bits == 64 || bits == 32)) || SmallFloatFormat(dtype).has_value();
}

double LoadDouble(DataType dtype, const void* data, int64_t i) {
  return WithCodec(dtype, [&](const auto& codec) {
    return codec.ToDouble(static_cast<const typename std::decay_t<decltype(codec)>::Element*>(data)[i]);
  });
}

int64_t LoadInt64(DataType dtype, const void* data, int64_t i) {
  return WithCodec(dtype, [&](const auto& codec) {
    return codec.ToInt(static_cast<const typename std::decay_t<decltype(codec)>::Element*>(data)[i]);
  });
}

void StoreDouble(DataType dtype, void* data, int64_t i, double value) {
  WithCodec(dtype, [&](const auto& codec) {
    static_cast<typename std::decay_t<decltype(codec)>::Element*>(data)[i] = codec.FromDouble(value);
  });
}

void StoreInt64(DataType dtype, void* data, int64_t i, int64_t value) {
  WithCodec(dtype, [&](const auto& codec) {
    static_cast<typename std::decay_t<decltype(codec)>::Element*>(data)[i] = codec.FromInt(value);
  });
}

std::vector<double> ToDoubles(const NDArray& tensor) {
  return ReadAll<double>(tensor, [](const auto& codec, auto element) { return codec.ToDouble(element); });
}
std::vector<int64_t> ToInt64s(const NDArray& tensor) {
  return ReadAll<int64_t>(tensor, [](const auto& codec, auto element) { return codec.ToInt(element); });
}
NDArray FromDoubles(const std::vector<double>& values, const std::vector<int64_t>& shape, DataType dtype) {
  return WriteAll(values, shape, dtype, [](const auto& codec, double value) { return codec.FromDouble(value); });
}
NDArray FromInt64s(const std::vector<int64_t>& values, const std::vector<int64_t>& shape, DataType dtype) {
  return WriteAll(values, shape, dtype, [](const auto& codec, int64_t value) { return codec.FromInt(value); });
}

}  // namespace treadle::runtime
