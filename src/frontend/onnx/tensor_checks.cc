// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstring>

#include "frontend/onnx/checks.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"

namespace treadle::onnx {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 48;

[[noreturn]] void Fail(const std::string& where, const std::string& message) {
  throw ModelFormatError(StrCat(where, ": ", message));
}

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size() && i < 16; ++i) text += StrCat(i == 0 ? "" : ", ", dims[i]);
  return text + (dims.size() > 16 ? ", ...]" : "]");
}

int64_t CheckDims(const std::vector<int64_t>& dims, const std::string& where, const ReadLimits& limits) {
  if (static_cast<int64_t>(dims.size()) > limits.max_rank) {
    Fail(where, StrCat("rank ", dims.size(), "; the limit is ", limits.max_rank));
  }
  int64_t count = 1;
  bool zero = false;
  for (int64_t dim : dims) {
    if (dim < 0) Fail(where, StrCat("negative dimension in shape ", ShapeText(dims)));
    zero |= dim == 0;
  }
  if (zero) return 0;
  for (int64_t dim : dims) {
    if (__builtin_mul_overflow(count, dim, &count) || count > kMaxElements) {
      Fail(where, StrCat("shape ", ShapeText(dims), " has too many elements (the limit is 2^48)"));
    }
  }
  return count;
}

int64_t ParseCount(const std::string& text, const char* key, const std::string& where) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [position, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || position != end || value < 0) {
    Fail(where, StrCat("external data's ", key, " is ", QuoteName(text), ", expected a number of bytes"));
  }
  return value;
}

void MapExternal(Tensor& tensor, int64_t bytes, const std::string& where, ExternalFiles& files) {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  // Other keys ("checksum", "basepath") say nothing about where the data are.
  for (const auto& [key, value] : tensor.external_data) {
    if (key == "location") location = value;
    if (key == "offset") offset = ParseCount(value, "offset", where);
    if (key == "length") length = ParseCount(value, "length", where);
  }
  const MappedBytes& file = files.Open(location, where);
  auto size = static_cast<int64_t>(file.bytes.size());
  if (offset > size) {
    Fail(where, StrCat("external data begin at byte ", offset, " of ", QuoteName(location), ", which has ", size));
  }
  int64_t available = size - offset;
  if (length.value_or(bytes) > available) {
    Fail(where, StrCat("external data take bytes ", offset, " to ", offset, " + ", length.value_or(bytes), " of ",
                       QuoteName(location), ", which has ", size));
  }
  if (length && *length != bytes) {
    Fail(where, StrCat("external data have ", *length, " bytes, but ", ElemTypeName(tensor.data_type), " of shape ",
                       ShapeText(tensor.dims), " has ", bytes));
  }
  tensor.raw = file.bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes));
  tensor.owner = file.owner;
}

struct TypedField {
  const char* name;
  int64_t size;      ///< entries that the tensor has there
  int64_t expected;  ///< entries that its type wants there; -1 when the type doesn't use the field
};

/// How many entries each of the typed fields has to have for `count` elements.
std::vector<TypedField> TypedFields(const Tensor& tensor, int64_t count) {
  int64_t in_float = -1, in_int32 = -1, in_int64 = -1, in_double = -1, in_uint64 = -1, in_string = -1;
  int bits = ElemTypeBits(tensor.data_type);
  switch (tensor.data_type) {
    case ElemType::kFloat:
      in_float = count;
      break;
    case ElemType::kComplex64:
      in_float = 2 * count;
      break;
    case ElemType::kDouble:
      in_double = count;
      break;
    case ElemType::kComplex128:
      in_double = 2 * count;
      break;
    case ElemType::kInt64:
      in_int64 = count;
      break;
    case ElemType::kUInt32:
    case ElemType::kUInt64:
      in_uint64 = count;
      break;
    case ElemType::kString:
      in_string = count;
      break;
    // Types below a byte share entries: as many to an entry as fit into a byte.
    default:
      in_int32 = bits < 8 && bits != 6 ? CeilDiv(count * bits, 8) : count;
      break;
  }
  auto size = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  return {{"float_data", size(tensor.float_data), in_float},    {"int32_data", size(tensor.int32_data), in_int32},
          {"int64_data", size(tensor.int64_data), in_int64},    {"double_data", size(tensor.double_data), in_double},
          {"uint64_data", size(tensor.uint64_data), in_uint64}, {"string_data", size(tensor.string_data), in_string}};
}

}  // namespace

void FinishTensor(Tensor& tensor, const std::string& where, ExternalFiles& files, const ReadLimits& limits) {
  if (!IsKnownElemType(tensor.data_type)) {
    Fail(where, StrCat("element type ", static_cast<int32_t>(tensor.data_type), " isn't one of ONNX's"));
  }
  int64_t count = CheckDims(tensor.dims, where, limits);
  int64_t bits = 0;
  if (__builtin_mul_overflow(count, int64_t{ElemTypeBits(tensor.data_type)}, &bits)) {
    Fail(where, StrCat("shape ", ShapeText(tensor.dims), " has too many elements"));
  }
  int64_t bytes = CeilDiv(bits, 8);
  std::string type_text = StrCat(ElemTypeName(tensor.data_type), " of shape ", ShapeText(tensor.dims));
  bool is_string = tensor.data_type == ElemType::kString;
  if (tensor.external) {
    if (is_string) Fail(where, "strings can't be external data");
    if (tensor.raw) Fail(where, "has both raw_data and external data");
    MapExternal(tensor, bytes, where, files);
  }
  if (tensor.raw) {
    if (is_string) Fail(where, "strings can't be raw_data");
    if (static_cast<int64_t>(tensor.raw->size()) != bytes) {
      Fail(where, StrCat("raw_data has ", tensor.raw->size(), " bytes, but ", type_text, " has ", bytes));
    }
  }
  for (const TypedField& field : TypedFields(tensor, count)) {
    if (field.size == 0 && (tensor.raw || field.expected <= 0)) continue;
    if (tensor.raw) Fail(where, StrCat("has both raw data and ", field.name));
    if (field.expected < 0) Fail(where, StrCat("has ", field.name, ", but is ", type_text));
    if (field.size != field.expected) {
      Fail(where, StrCat(field.name, " has ", field.size, " values, but ", type_text, " has ", field.expected));
    }
  }
}

void CheckSparseTensor(const SparseTensor& tensor, const std::string& where, const ReadLimits& limits) {
  int64_t dense = CheckDims(tensor.dims, where, limits);
  if (tensor.dims.empty()) Fail(where, "a sparse tensor of rank 0");
  if (tensor.values.dims.size() != 1)
    Fail(where, StrCat("values have shape ", ShapeText(tensor.values.dims), ", expected one dimension"));
  int64_t count = tensor.values.dims[0];
  const Tensor& indices = tensor.indices;
  if (indices.data_type != ElemType::kInt64) Fail(where, "the indices aren't int64");
  auto rank = static_cast<int64_t>(tensor.dims.size());
  bool linear = indices.dims == std::vector<int64_t>{count};
  if (!linear && indices.dims != std::vector<int64_t>{count, rank}) {
    Fail(where, StrCat("indices have shape ", ShapeText(indices.dims), ", expected [", count, "] or [", count, ", ",
                       rank, "]"));
  }
  auto index_at = [&](int64_t i) {
    if (!indices.raw) return indices.int64_data[static_cast<size_t>(i)];
    int64_t value;
    std::memcpy(&value, indices.raw->data() + i * 8, 8);
    return value;
  };
  int64_t previous = -1;
  for (int64_t n = 0; n < count; ++n) {
    int64_t position = 0;
    for (int64_t d = 0; d < (linear ? 1 : rank); ++d) {
      int64_t index = linear ? index_at(n) : index_at(n * rank + d);
      int64_t extent = linear ? dense : tensor.dims[static_cast<size_t>(d)];
      if (index < 0 || index >= extent) Fail(where, StrCat("index ", index, " is out of range [0, ", extent, ")"));
      position = linear ? index : position * extent + index;
    }
    if (position <= previous) Fail(where, "the indices aren't in increasing order");
    previous = position;
  }
}

}  // namespace treadle::onnx
