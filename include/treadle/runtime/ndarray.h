// SPDX-License-Identifier: Apache-2.0
// Tensors: reference-counted DLPack descriptors of memory on some device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "treadle/base/int_math.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/data_type.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/dlpack.h"
#include "treadle/runtime/object.h"
#include "treadle/runtime/reflection.h"

namespace treadle::runtime {

/// Shape, type and memory of a tensor. `tensor.shape` and `.strides` point into this node.
class NDArrayNode : public Object {
 public:
  DLTensor tensor{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< empty when compact
  bool read_only = false;        ///< such as parameters mapped from a file
  /// Keeps the memory alive; shared by views.
  std::shared_ptr<void> storage;

  NDArrayNode() = default;
  NDArrayNode(const NDArrayNode&) = delete;
  NDArrayNode& operator=(const NDArrayNode&) = delete;
  TREADLE_DECLARE_NODE(NDArrayNode, Object, "runtime.NDArray");
};

/// Bytes of one element in memory: bools and types below 8 bits take a byte per lane.
inline int64_t ElementBytes(DataType dtype) { return CeilDiv(static_cast<int64_t>(dtype.bits()) * dtype.lanes(), 8); }
/// Bytes of a compact tensor; throws ShapeError on negative dimensions and above 2^48 bytes.
int64_t TensorBytes(const std::vector<int64_t>& shape, DataType dtype);
/// Refuses what can't be a tensor: rank, shape, strides, element type, device, memory. `what` begins the message.
/// `with_data`: memory as well.
void CheckTensor(const DLTensor& tensor, const char* what, bool with_data = true);
/// Whether elements lie in row-major order without gaps.
bool IsCompact(const DLTensor& tensor);
/// "(1, 3, 224, 224)"; "(3,)" and "()" for ranks 1 and 0.
std::string ShapeString(const int64_t* shape, int ndim);
inline std::string ShapeString(const std::vector<int64_t>& shape) {
  return ShapeString(shape.data(), static_cast<int>(shape.size()));
}
/// Copies between tensors of equal shape and type on any devices. Strided ones must be on the CPU.
/// Throws ShapeError or DTypeError on a mismatch.
void CopyTensor(const DLTensor& from, const DLTensor& to);

class NDArray : public ObjectRef {
 public:
  TREADLE_BASE_REF(NDArray, ObjectRef, NDArrayNode);

  /// Uninitialised compact tensor.
  static NDArray Empty(const std::vector<int64_t>& shape, DataType dtype, Device device = Cpu());
  /// A tensor on the CPU with a copy of `data` (compact, TensorBytes long).
  static NDArray FromBytes(const void* data, const std::vector<int64_t>& shape, DataType dtype);
  /// As FromBytes for typed values; their number must be that of the shape.
  template <typename T>
  static NDArray FromVector(const std::vector<T>& values, const std::vector<int64_t>& shape, DataType dtype);
  /// A tensor over memory that someone else owns; `storage` (may be null) is held as long as the tensor.
  static NDArray View(void* data, const std::vector<int64_t>& shape, DataType dtype, Device device,
                      std::shared_ptr<void> storage, bool read_only = false);

  /// A view of a caller's tensor, which has to outlive it. Throws as CheckTensor.
  static NDArray Borrow(const DLTensor& tensor);

  /// Same memory, other shape and type (of at most the same number of bytes).
  NDArray CreateView(const std::vector<int64_t>& shape, DataType dtype) const;
  /// A new compact tensor with the same contents.
  NDArray Copy(Device device = Cpu()) const;
  void CopyFrom(const NDArray& other) const;
  void CopyFrom(const DLTensor& other) const;
  void CopyTo(const NDArray& other) const;
  void CopyTo(const DLTensor& other) const;
  /// `bytes` must be nbytes(); the tensor compact.
  void CopyFromBytes(const void* data, size_t bytes) const;
  void CopyToBytes(void* data, size_t bytes) const;

  /// Takes over a DLPack tensor (calls its deleter when the last reference goes). Where that throws, the tensor is
  /// still the caller's and its deleter wasn't called.
  static NDArray FromDLPack(DLManagedTensor* managed);
  static NDArray FromDLPack(DLManagedTensorVersioned* managed);
  /// A DLPack tensor that shares this memory; the receiver calls its deleter.
  DLManagedTensor* ToDLPack() const;
  DLManagedTensorVersioned* ToDLPackVersioned() const;

  /// Writes and reads one tensor in the format of parameter files (params.h). Read tensors are on the CPU.
  void Save(ByteWriter* writer) const;
  static NDArray Load(ByteReader* reader);

  /// The tensor whose `tensor` member `handle` points to (what code 13 of the packed calling convention carries).
  static NDArray FromHandle(const DLTensor* handle);

  const DLTensor& dl_tensor() const { return get()->tensor; }
  DLTensor* handle() const { return const_cast<DLTensor*>(&get()->tensor); }
  const std::vector<int64_t>& shape() const { return get()->shape; }
  int ndim() const { return get()->tensor.ndim; }
  DataType dtype() const { return DataType(get()->tensor.dtype); }
  Device device() const { return get()->tensor.device; }
  int64_t size() const;
  int64_t nbytes() const;
  bool IsCompact() const { return runtime::IsCompact(dl_tensor()); }
  bool read_only() const { return get()->read_only; }
  /// Start of the elements (byte_offset applied).
  void* data_ptr() const { return static_cast<char*>(get()->tensor.data) + get()->tensor.byte_offset; }
  /// The elements of a compact CPU tensor. The caller answers for T.
  template <typename T>
  T* Data() const {
    return static_cast<T*>(data_ptr());
  }

 private:
  static ObjectPtr<NDArrayNode> Create(const std::vector<int64_t>& shape, DataType dtype, Device device);
};

template <typename T>
NDArray NDArray::FromVector(const std::vector<T>& values, const std::vector<int64_t>& shape, DataType dtype) {
  if (TensorBytes(shape, dtype) != static_cast<int64_t>(values.size() * sizeof(T))) {
    throw ShapeError(StrCat("a tensor of shape ", ShapeString(shape), " and type ", dtype, " can't hold ",
                            values.size(), " values of ", sizeof(T), " bytes"));
  }
  return FromBytes(values.data(), shape, dtype);
}

}  // namespace treadle::runtime

namespace treadle {
using runtime::NDArray;
using runtime::NDArrayNode;
}  // namespace treadle
