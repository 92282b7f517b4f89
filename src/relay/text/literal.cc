// SPDX-License-Identifier: Apache-2.0
#include "relay/text/literal.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

struct Suffix {
  const char* text;
  DataType dtype;
};

constexpr Suffix kSuffixes[] = {
    {"f", DataType::Float(32)},     {"f64", DataType::Float(64)}, {"f16", DataType::Float(16)},
    {"bf16", DataType::BFloat(16)}, {"i8", DataType::Int(8)},     {"i16", DataType::Int(16)},
    {"i32", DataType::Int(32)},     {"i64", DataType::Int(64)},   {"u8", DataType::UInt(8)},
    {"u16", DataType::UInt(16)},    {"u32", DataType::UInt(32)},  {"u64", DataType::UInt(64)},
    {"f32", DataType::Float(32)},
};

template <typename T>
NDArray Scalar(T value, DataType dtype) {
  return NDArray::FromBytes(&value, {}, dtype);
}

template <typename T>
NDArray ParseInt(const std::string& digits, DataType dtype) {
  T value{};
  const char* begin = digits.data() + (digits[0] == '+' ? 1 : 0);
  auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    throw ModelFormatError(StrCat("number ", digits, " doesn't fit into ", dtype));
  }
  return Scalar(value, dtype);
}

template <typename T>
T ParseFloat(const std::string& digits) {
  std::string text = digits;
  bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  T value{};
  if (text == "inf") {
    value = std::numeric_limits<T>::infinity();
  } else if (text == "nan") {
    value = std::numeric_limits<T>::quiet_NaN();
  } else {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      // Too small is zero, too great is an error.
      long double wide = 0;
      const auto widest = std::from_chars(text.data(), text.data() + text.size(), wide);
      const bool tiny = text.find("e-") != std::string::npos || text.find("E-") != std::string::npos;
      if (widest.ec == std::errc::result_out_of_range ? !tiny : wide > 1)
        throw ModelFormatError(StrCat("number ", digits, " is too great for its type"));
      value = static_cast<T>(wide);
    } else if (error != std::errc() || end != text.data() + text.size()) {
      throw ModelFormatError(StrCat("'", digits, "' isn't a number"));
    }
  }
  return negative ? -value : value;
}

NDArray ScalarSmallFloat(const FloatFormat& format, const std::string& digits, DataType dtype) {
  const double value = ParseFloat<double>(digits);
  const uint16_t bits = static_cast<uint16_t>(EncodeFloat(format, value));
  if (std::isfinite(value) && !std::isfinite(DecodeFloat(format, bits))) {
    throw ModelFormatError(StrCat("number ", digits, " is too great for its type"));
  }
  return Scalar(bits, dtype);
}

std::string IntText(const NDArray& data) {
  const int64_t value = runtime::ElementAsInt64(data, 0);
  return data.dtype().is_int() ? std::to_string(value) : std::to_string(static_cast<uint64_t>(value));
}

}  // namespace

std::string FloatText(double value, bool single) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  if (std::isnan(value)) return "nan";
  char buffer[64];
  auto end = single
                 ? std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(value), std::chars_format::general)
                 : std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::general);
  return std::string(buffer, end.ptr);
}

std::optional<std::string> LiteralOf(const NDArray& tensor) {
  if (tensor.ndim() != 0) return std::nullopt;
  DataType dtype = tensor.dtype();
  if (!dtype.is_scalar()) return std::nullopt;
  NDArray data = tensor.device().device_type == kDLCPU ? tensor : tensor.Copy();
  if (dtype.is_bool()) {
    const uint8_t value = *data.Data<uint8_t>();
    if (value > 1) return std::nullopt;
    return value != 0 ? "True" : "False";
  }
  if (dtype == DataType::Int(32)) return IntText(data);
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.dtype != dtype) continue;
    if (dtype.is_integral()) return IntText(data) + suffix.text;
    const double value = runtime::ElementAsDouble(data, 0);
    if (std::isnan(value)) {
      for (const char* name : {"nan", "-nan"}) {
        const NDArray usual = ScalarFromText(name, dtype);
        if (std::memcmp(usual.data_ptr(), data.data_ptr(), dtype.bits() / 8) == 0) return StrCat(name, suffix.text);
      }
      return std::nullopt;  // has a payload of its own
    }
    return FloatText(value, dtype.bits() <= 32) + suffix.text;
  }
  return std::nullopt;
}

/// How many bytes the UTF-8 character at `at` has; 0: what stands there isn't one.
size_t CharacterSize(const std::string& text, size_t at) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  const size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return bad ? 0 : size;
}

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const size_t size = CharacterSize(text, i);
    if (size > 1) {
      quoted.append(text, i, size);
      i += size - 1;
      continue;
    }
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\t':
        quoted += "\\t";
        break;
      case '\r':
        quoted += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 127) {
          constexpr char kHex[] = "0123456789abcdef";
          quoted += StrCat("\\x", kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]);
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

std::optional<DataType> DTypeOfSuffix(const std::string& text) {
  for (const Suffix& suffix : kSuffixes) {
    if (text == suffix.text) return suffix.dtype;
  }
  return std::nullopt;
}

NDArray ScalarFromText(const std::string& digits, DataType dtype) {
  if (dtype == DataType::Float(64)) return Scalar(ParseFloat<double>(digits), dtype);
  if (dtype == DataType::Float(32)) return Scalar(ParseFloat<float>(digits), dtype);
  if (dtype == DataType::Float(16)) return ScalarSmallFloat(kFloat16Format, digits, dtype);
  if (dtype == DataType::BFloat(16)) return ScalarSmallFloat(kBFloat16Format, digits, dtype);
  switch (dtype.bits() * (dtype.is_int() ? 1 : -1)) {
    case 8:
      return ParseInt<int8_t>(digits, dtype);
    case 16:
      return ParseInt<int16_t>(digits, dtype);
    case 32:
      return ParseInt<int32_t>(digits, dtype);
    case 64:
      return ParseInt<int64_t>(digits, dtype);
    case -8:
      return ParseInt<uint8_t>(digits, dtype);
    case -16:
      return ParseInt<uint16_t>(digits, dtype);
    case -32:
      return ParseInt<uint32_t>(digits, dtype);
    case -64:
      return ParseInt<uint64_t>(digits, dtype);
    default:
      throw ModelFormatError(StrCat("no literals of type ", dtype));
  }
}

NDArray ScalarBool(bool value) { return Scalar(static_cast<uint8_t>(value), DataType::Bool()); }

}  // namespace treadle::relay
