// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/model.h"

#include <array>

#include "frontend/onnx/utf8.h"
#include "treadle/base/checked_math.h"

namespace treadle::onnx {
namespace {

struct ElemTypeInfo {
  const char* name;
  int bits;
};

// Indexed by the number of the type in onnx.proto.
constexpr std::array<ElemTypeInfo, 29> kElemTypes = {{
    {"undefined", 0},      {"float", 32},    {"uint8", 8},        {"int8", 8},           {"uint16", 16},
    {"int16", 16},         {"int32", 32},    {"int64", 64},       {"string", 0},         {"bool", 8},
    {"float16", 16},       {"double", 64},   {"uint32", 32},      {"uint64", 64},        {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16}, {"float8e4m3fn", 8}, {"float8e4m3fnuz", 8}, {"float8e5m2", 8},
    {"float8e5m2fnuz", 8}, {"uint4", 4},     {"int4", 4},         {"float4e2m1", 4},     {"float8e8m0", 8},
    {"uint2", 2},          {"int2", 2},      {"float6e2m3", 6},   {"float6e3m2", 6},
}};

constexpr std::array<const char*, 15> kAttributeTypes = {
    "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
    "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};

}  // namespace

bool IsKnownElemType(ElemType type) {
  return type > ElemType::kUndefined && static_cast<size_t>(type) < kElemTypes.size();
}

std::string ElemTypeName(ElemType type) {
  if (type != ElemType::kUndefined && !IsKnownElemType(type)) return StrCat("type ", static_cast<int32_t>(type));
  return kElemTypes[static_cast<size_t>(type)].name;
}

int ElemTypeBits(ElemType type) { return IsKnownElemType(type) ? kElemTypes[static_cast<size_t>(type)].bits : 0; }

const char* AttributeTypeName(Attribute::Type type) {
  auto index = static_cast<size_t>(type);
  return index < kAttributeTypes.size() ? kAttributeTypes[index] : "unknown";
}

std::string QuoteName(std::string_view name) {
  constexpr size_t kMaxShown = 200;
  std::string result = "'";
  size_t shown = 0;
  while (shown < name.size() && shown < kMaxShown) {
    const size_t length = Utf8CharacterLength(name.substr(shown));
    const auto byte = static_cast<unsigned char>(name[shown]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      result += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      ++shown;
    } else {
      result += name.substr(shown, length);
      shown += length;
    }
  }
  if (shown < name.size()) result += "...";
  return result + "'";
}

int64_t Tensor::NumElements() const { return treadle::NumElements(dims); }

std::string Node::DisplayName() const { return name.empty() ? StrCat(op_type, "#", index) : name; }

const Attribute* Node::FindAttribute(std::string_view attribute_name) const {
  for (const Attribute& attribute : attributes) {
    if (attribute.name == attribute_name) return &attribute;
  }
  return nullptr;
}

}  // namespace treadle::onnx
