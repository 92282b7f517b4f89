// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/tensor_data.h"

#include <cstring>
#include <vector>

#include "runtime/file_backed.h"
#include "runtime/mapped_memory.h"
#include "treadle/base/error.h"

namespace treadle::onnx {
namespace {

constexpr uintptr_t kViewAlignment = 64;  ///< that of tensors which the runtime allocates

/// Elements of 4 or 2 bits, from low to high within each byte, to one byte each.
void Unpack(const uint8_t* bytes, int64_t count, int bits, bool is_signed, uint8_t* out) {
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  const int sign = is_signed ? 1 << (bits - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    int value = (bytes[i / per_byte] >> (bits * static_cast<int>(i % per_byte))) & mask;
    out[i] = static_cast<uint8_t>((value ^ sign) - sign);
  }
}

/// The tensor's bytes as raw_data would have them. `storage` holds them when the tensor keeps them elsewhere.
std::string_view RawBytes(const Tensor& tensor, std::vector<char>& storage) {
  if (tensor.raw) return *tensor.raw;
  auto copy = [&storage](const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    storage.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(storage.data(), values.data(), storage.size());
  };
  auto narrow = [&storage](const auto& values, size_t bytes) {
    storage.resize(values.size() * bytes);
    for (size_t i = 0; i < values.size(); ++i) std::memcpy(storage.data() + i * bytes, &values[i], bytes);
  };
  switch (tensor.data_type) {
    case ElemType::kFloat:
      copy(tensor.float_data);
      break;
    case ElemType::kDouble:
      copy(tensor.double_data);
      break;
    case ElemType::kInt64:
      copy(tensor.int64_data);
      break;
    case ElemType::kUInt64:
      copy(tensor.uint64_data);
      break;
    case ElemType::kUInt32:
      narrow(tensor.uint64_data, 4);
      break;
    default:
      narrow(tensor.int32_data, static_cast<size_t>(std::max(1, ElemTypeBits(tensor.data_type) / 8)));
  }
  return {storage.data(), storage.size()};
}

}  // namespace

std::optional<DataType> ToDataType(ElemType type) {
  switch (type) {
    case ElemType::kFloat:
      return DataType::Float(32);
    case ElemType::kDouble:
      return DataType::Float(64);
    case ElemType::kFloat16:
      return DataType::Float(16);
    case ElemType::kBFloat16:
      return DataType::BFloat(16);
    case ElemType::kInt8:
    case ElemType::kInt4:
    case ElemType::kInt2:
      return DataType::Int(8);
    case ElemType::kUInt8:
    case ElemType::kUInt4:
    case ElemType::kUInt2:
      return DataType::UInt(8);
    case ElemType::kInt16:
      return DataType::Int(16);
    case ElemType::kUInt16:
      return DataType::UInt(16);
    case ElemType::kInt32:
      return DataType::Int(32);
    case ElemType::kUInt32:
      return DataType::UInt(32);
    case ElemType::kInt64:
      return DataType::Int(64);
    case ElemType::kUInt64:
      return DataType::UInt(64);
    case ElemType::kBool:
      return DataType::Bool();
    case ElemType::kFloat8E4M3FN:
      return DataType(DataType::kFloat8E4M3FN, 8);
    case ElemType::kFloat8E4M3FNUZ:
      return DataType(DataType::kFloat8E4M3FNUZ, 8);
    case ElemType::kFloat8E5M2:
      return DataType(DataType::kFloat8E5M2, 8);
    case ElemType::kFloat8E5M2FNUZ:
      return DataType(DataType::kFloat8E5M2FNUZ, 8);
    default:
      return std::nullopt;
  }
}

DataType ToDataTypeOrThrow(ElemType type, const std::string& where) {
  if (auto dtype = ToDataType(type)) return *dtype;
  std::string message = StrCat(where, ": element type ", ElemTypeName(type), " isn't supported");
  throw UnsupportedOpError(message, {message});
}

NDArray ToNDArray(const Tensor& tensor, const std::string& where, bool in_file) {
  DataType dtype = ToDataTypeOrThrow(tensor.data_type, where);
  std::vector<char> storage;
  std::string_view bytes = RawBytes(tensor, storage);
  int bits = ElemTypeBits(tensor.data_type);
  bool as_it_is = bits >= 8 && tensor.data_type != ElemType::kBool;
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kViewAlignment == 0;
  if (as_it_is && tensor.raw && !bytes.empty() && aligned && tensor.views) {
    auto owner = std::const_pointer_cast<void>(tensor.owner);
    return NDArray::View(const_cast<char*>(bytes.data()), tensor.dims, dtype, runtime::Cpu(), owner, true);
  }
  if (as_it_is && tensor.raw && in_file) {
    if (auto owner = runtime::CopyToFile(bytes.data(), bytes.size())) {
      runtime::ReleasePages(bytes.data(), bytes.size());
      return NDArray::View(const_cast<void*>(owner.get()), tensor.dims, dtype, runtime::Cpu(),
                           std::const_pointer_cast<void>(owner), true);
    }
  }
  NDArray array = NDArray::Empty(tensor.dims, dtype);
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  auto* to = array.Data<uint8_t>();
  if (bits < 8) {
    bool is_signed = tensor.data_type == ElemType::kInt4 || tensor.data_type == ElemType::kInt2;
    Unpack(from, array.size(), bits, is_signed, to);
  } else if (!as_it_is) {
    for (int64_t i = 0; i < array.size(); ++i) to[i] = from[i] != 0 ? 1 : 0;
  } else if (!bytes.empty()) {
    std::memcpy(to, from, bytes.size());
  }
  if (tensor.raw) runtime::ReleasePages(bytes.data(), bytes.size());  // of the model's file
  return array;
}

NDArray ToNDArray(const SparseTensor& tensor, const std::string& where) {
  NDArray values = ToNDArray(tensor.values, where);
  NDArray indices = ToNDArray(tensor.indices, where);
  NDArray result = NDArray::Empty(tensor.dims, values.dtype());
  int64_t element = runtime::ElementBytes(values.dtype());
  if (result.nbytes() > 0) std::memset(result.data_ptr(), 0, static_cast<size_t>(result.nbytes()));
  const auto* index = indices.Data<int64_t>();
  int64_t per_value = indices.ndim() == 1 ? 1 : static_cast<int64_t>(tensor.dims.size());
  for (int64_t n = 0; n < values.size(); ++n) {
    int64_t position = index[n * per_value];
    for (int64_t d = 1; d < per_value; ++d) {
      position = position * tensor.dims[static_cast<size_t>(d)] + index[n * per_value + d];
    }
    std::memcpy(result.Data<char>() + position * element, values.Data<char>() + n * element,
                static_cast<size_t>(element));
  }
  return result;
}

}  // namespace treadle::onnx
