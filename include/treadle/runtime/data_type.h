// SPDX-License-Identifier: Apache-2.0
// Scalar and vector element types.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "treadle/base/int_math.h"
#include "treadle/runtime/dlpack.h"

namespace treadle {

/// Element type: code, bits of one lane, and lanes (1 for scalars). A value type with DLDataType's layout.
class DataType {
 public:
  enum Code : uint8_t {
    kInt = kDLInt,
    kUInt = kDLUInt,
    kFloat = kDLFloat,
    kHandle = kDLOpaqueHandle,
    kBFloat = kDLBfloat,
    kFloat8E4M3FN = kDLFloat8_e4m3fn,
    kFloat8E5M2 = kDLFloat8_e5m2,
    kFloat8E4M3FNUZ = kDLFloat8_e4m3fnuz,
    kFloat8E5M2FNUZ = kDLFloat8_e5m2fnuz,
  };

  /// Void: a handle of 0 bits.
  constexpr DataType() : DataType(kHandle, 0, 0) {}
  constexpr DataType(int code, int bits, int lanes = 1)
      : data_{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)} {}
  constexpr DataType(DLDataType dtype) : data_(dtype) {}   // NOLINT(google-explicit-constructor)
  constexpr operator DLDataType() const { return data_; }  // NOLINT(google-explicit-constructor)

  constexpr int code() const { return data_.code; }
  constexpr int bits() const { return data_.bits; }
  constexpr int lanes() const { return data_.lanes; }
  /// Bytes of one lane in memory, rounded up.
  constexpr int bytes() const { return CeilDiv(bits(), 8); }
  constexpr bool is_scalar() const { return lanes() == 1; }
  constexpr bool is_vector() const { return lanes() > 1; }
  constexpr bool is_bool() const { return code() == kUInt && bits() == 1; }
  constexpr bool is_int() const { return code() == kInt; }
  /// Unsigned, bool included.
  constexpr bool is_uint() const { return code() == kUInt; }
  constexpr bool is_integral() const { return is_int() || is_uint(); }
  constexpr bool is_float() const { return code() == kFloat; }
  constexpr bool is_bfloat16() const { return code() == kBFloat && bits() == 16; }
  constexpr bool is_float16() const { return is_float() && bits() == 16; }
  constexpr bool is_float8() const { return code() >= kDLFloat8_e3m4 && code() <= kDLFloat8_e8m0fnu; }
  /// Any floating-point type, bfloat16 and float8 included.
  constexpr bool is_floating() const { return is_float() || code() == kBFloat || is_float8(); }
  constexpr bool is_handle() const { return code() == kHandle && bits() != 0; }
  constexpr bool is_void() const { return code() == kHandle && bits() == 0; }

  constexpr DataType with_lanes(int lanes) const { return {code(), bits(), lanes}; }
  constexpr DataType with_bits(int bits) const { return {code(), bits, lanes()}; }
  /// The scalar type of one lane.
  constexpr DataType element_of() const { return with_lanes(1); }

  constexpr bool operator==(const DataType& other) const {
    return code() == other.code() && bits() == other.bits() && lanes() == other.lanes();
  }
  constexpr bool operator!=(const DataType& other) const { return !(*this == other); }

  static constexpr DataType Int(int bits, int lanes = 1) { return {kInt, bits, lanes}; }
  static constexpr DataType UInt(int bits, int lanes = 1) { return {kUInt, bits, lanes}; }
  static constexpr DataType Float(int bits, int lanes = 1) { return {kFloat, bits, lanes}; }
  static constexpr DataType BFloat(int bits = 16, int lanes = 1) { return {kBFloat, bits, lanes}; }
  static constexpr DataType Bool(int lanes = 1) { return {kUInt, 1, lanes}; }
  static constexpr DataType Handle() { return {kHandle, 64, 1}; }
  static constexpr DataType Void() { return {}; }

  /// Parses "float32", "int8", "uint8", "bool", "bfloat16", "float8_e4m3fn", "float32x4", "handle", "void".
  /// Throws DTypeError on anything else.
  static DataType FromString(const std::string& text);
  /// The inverse of FromString.
  std::string str() const;

 private:
  DLDataType data_;
};

/// Of any stream, complete where it is used: this header needs none.
template <typename Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& os, const DataType& dtype) {
  return os << dtype.str();
}

}  // namespace treadle
