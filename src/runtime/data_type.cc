// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/data_type.h"

#include <string>
#include <string_view>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle {
namespace {

/// Types whose name isn't <code><bits>.
struct NamedType {
  const char* name;
  int code;
  int bits;
};

constexpr NamedType kNamedTypes[] = {
    {"bool", kDLUInt, 1},
    {"handle", kDLOpaqueHandle, 64},
    {"bfloat16", kDLBfloat, 16},
    {"float8_e3m4", kDLFloat8_e3m4, 8},
    {"float8_e4m3", kDLFloat8_e4m3, 8},
    {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
    {"float8_e5m2", kDLFloat8_e5m2, 8},
    {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
    {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
    {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},
    {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
    {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
};

/// Types named <prefix><bits>; `bits` are those allowed.
struct NumberedType {
  const char* prefix;
  int code;
  std::string_view bits;  ///< separated and surrounded by blanks
};

constexpr NumberedType kNumberedTypes[] = {
    {"int", kDLInt, " 1 2 4 8 16 32 64 128 "},
    {"uint", kDLUInt, " 1 2 4 8 16 32 64 128 "},
    {"float", kDLFloat, " 16 32 64 80 128 "},
    {"complex", kDLComplex, " 64 128 "},
};

[[noreturn]] void ThrowUnknown(const std::string& text) {
  const std::string name = text.substr(0, 64);
  std::vector<std::string> known = {"int8",   "int16",  "int32",   "int64",   "uint8",  "uint16",
                                    "uint32", "uint64", "float16", "float32", "float64"};
  for (const NamedType& type : kNamedTypes) known.emplace_back(type.name);
  throw DTypeError(StrCat("unknown data type \"", name,
                          "\": expected one such as float32, int8, uint8, bool, bfloat16, float8_e4m3fn or float32x4",
                          DidYouMean(name, known)));
}

/// Reads a decimal number without sign or leading zeros, at most `max`; -1 when `text` isn't one.
int ParseNumber(std::string_view text, int max) {
  if (text.empty() || text.size() > 5 || text[0] == '0') return -1;
  int value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value <= max ? value : -1;
}

constexpr std::string_view kCustom = "custom[";

/// The type that "custom[name]bits" stands for, void if it doesn't look like that. Throws DTypeError where no such type
/// is registered.
DataType FindCustom(std::string_view text) {
  const size_t end = text.find(']');
  if (text.substr(0, kCustom.size()) != kCustom || end == std::string_view::npos) return DataType::Void();
  const int bits = ParseNumber(text.substr(end + 1), 255);
  if (bits < 0) return DataType::Void();
  const std::string name(text.substr(kCustom.size(), end - kCustom.size()));
  const auto code = runtime::CustomDatatypeCode(name);
  if (!code) {
    throw DTypeError(StrCat("unknown custom data type \"", name.substr(0, 64),
                            "\": it has to be registered first, with target.datatype.register"));
  }
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    throw DTypeError(StrCat("custom[", name, "] of ", bits, " bits: expected 8, 16, 32 or 64"));
  }
  return DataType(*code, bits);
}

/// The scalar type called `name`, or void.
DataType FindScalar(std::string_view name) {
  if (const DataType custom = FindCustom(name); !custom.is_void()) return custom;
  for (const NamedType& type : kNamedTypes) {
    if (name == type.name) return DataType(type.code, type.bits);
  }
  for (const NumberedType& type : kNumberedTypes) {
    std::string_view prefix = type.prefix;
    if (name.substr(0, prefix.size()) != prefix) continue;
    std::string_view digits = name.substr(prefix.size());
    if (digits.empty() && type.code != kDLComplex) return DataType(type.code, 32);  // "int", "float"
    if (ParseNumber(digits, 255) < 0) continue;
    if (type.bits.find(" " + std::string(digits) + " ") == std::string_view::npos) continue;
    return DataType(type.code, ParseNumber(digits, 255));
  }
  return DataType::Void();
}

}  // namespace

DataType DataType::FromString(const std::string& text) {
  if (text == "void") return Void();
  DataType whole = FindScalar(text);
  if (!whole.is_void()) return whole;
  // The last 'x' separates the lanes: no scalar type's name ends in x and digits.
  size_t x = text.rfind('x');
  if (x == std::string::npos) ThrowUnknown(text);
  int lanes = ParseNumber(std::string_view(text).substr(x + 1), 65535);
  DataType scalar = FindScalar(std::string_view(text).substr(0, x));
  if (lanes < 0 || scalar.is_void()) ThrowUnknown(text);
  return scalar.with_lanes(lanes);
}

std::string DataType::str() const {
  if (is_void()) return "void";
  std::string name;
  for (const NamedType& type : kNamedTypes) {
    if (code() == type.code && bits() == type.bits) name = type.name;
  }
  if (name.empty()) {
    const char* prefix = "unknown";
    for (const NumberedType& type : kNumberedTypes) {
      if (code() == type.code) prefix = type.prefix;
    }
    if (code() == kBFloat) prefix = "bfloat";
    if (code() == kDLBool) prefix = "dlbool";
    name = prefix + std::to_string(bits());
    if (const auto custom = runtime::CustomDatatypeName(code())) {
      name = StrCat(kCustom, *custom, "]", bits());
    }
  }
  if (lanes() != 1) name += "x" + std::to_string(lanes());
  return name;
}

}  // namespace treadle
