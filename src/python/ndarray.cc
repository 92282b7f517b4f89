// SPDX-License-Identifier: Apache-2.0
// Devices and tensors. Python sees the elements as NumPy arrays of bytes; treadle._nd gives them shape and type.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/convert.h"
#include "treadle/base/error.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::python {
namespace {

using runtime::Device;
using runtime::NDArray;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

NDArray Tensor(const Handle& self) {
  if (self.ref.as<runtime::NDArrayNode>() == nullptr) throw DTypeError("expected an NDArray");
  return NDArray(self.ref.data());
}

void DeleteUnusedCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    if (managed->deleter != nullptr) managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
}

nb::object ToCapsule(const Handle& self, bool versioned) {
  NDArray tensor = Tensor(self);
  PyObject* capsule = versioned ? PyCapsule_New(tensor.ToDLPackVersioned(), "dltensor_versioned", DeleteUnusedCapsule)
                                : PyCapsule_New(tensor.ToDLPack(), "dltensor", DeleteUnusedCapsule);
  return nb::steal(capsule);
}

nb::object FromCapsule(nb::handle capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    NDArray taken = NDArray::FromDLPack(managed);
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");  // before anything else can fail
    return FromObjectRef(taken);
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor")) throw DTypeError("expected a DLPack capsule that isn't used yet");
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  NDArray taken = NDArray::FromDLPack(managed);
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return FromObjectRef(taken);
}

/// The elements as a NumPy array of bytes that shares them.
nb::object BytesOf(nb::handle self) {
  NDArray tensor = Tensor(nb::cast<Handle&>(self));
  if (tensor.device().device_type != kDLCPU || !tensor.IsCompact()) throw Error("expected a compact tensor on the CPU");
  auto size = static_cast<size_t>(tensor.nbytes());
  return nb::cast(nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>(tensor.data_ptr(), {size}, nb::borrow(self)));
}

/// A tensor over the memory of a NumPy array of bytes.
nb::object FromBytes(Bytes bytes, const std::vector<int64_t>& shape, const std::string& dtype, bool read_only,
                     nb::object owner) {
  const DataType type = DataType::FromString(dtype);
  if (runtime::TensorBytes(shape, type) != static_cast<int64_t>(bytes.size())) {
    throw ShapeError(StrCat("a tensor of shape ", runtime::ShapeString(shape), " and type ", dtype, " needs ",
                            runtime::TensorBytes(shape, type), " bytes, not ", bytes.size()));
  }
  return FromObjectRef(
      NDArray::View(bytes.data(), shape, type, runtime::Cpu(), ShareOwner(std::move(owner)), read_only));
}

/// The type of NumPy's own numbers; void for others.
DataType TypeOfNumbers(nb::dlpack::dtype type) {
  constexpr int kBool = 6;
  if (type.lanes != 1) return DataType();
  if (type.code == kBool && type.bits == 8) return DataType(DataType::kUInt, 1);
  const bool known = type.code == DataType::kInt || type.code == DataType::kUInt || type.code == DataType::kFloat;
  return known && type.bits >= 8 && type.bits <= 64 ? DataType(type.code, type.bits) : DataType();
}

/// A tensor over the memory of a NumPy array; None where that takes a conversion.
nb::object FromNumpy(nb::object array) {
  nb::ndarray<nb::device::cpu, nb::c_contig> view;
  if (!nb::try_cast(array, view, /*convert=*/false)) return nb::none();
  const DataType type = TypeOfNumbers(view.dtype());
  if (type.is_void()) return nb::none();
  std::vector<int64_t> shape(view.shape_ptr(), view.shape_ptr() + view.ndim());
  return FromObjectRef(
      NDArray::View(view.data(), shape, type, runtime::Cpu(), ShareOwner(std::move(array)), /*read_only=*/false));
}

/// A NumPy array over the elements of a tensor; None where it has to be copied or its type isn't NumPy's own.
nb::object ToNumpy(nb::handle self) {
  NDArray tensor = Tensor(nb::cast<Handle&>(self));
  const DataType type = tensor.dtype();
  if (tensor.device().device_type != kDLCPU || !tensor.IsCompact() || !type.is_scalar()) return nb::none();
  nb::dlpack::dtype numbers{static_cast<uint8_t>(type.code()), static_cast<uint8_t>(type.bits()), 1};
  if (type.is_bool()) numbers = nb::dtype<bool>();
  if (TypeOfNumbers(numbers).is_void() || tensor.nbytes() == 0) return nb::none();
  std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return nb::cast(
      nb::ndarray<nb::numpy>(tensor.data_ptr(), shape.size(), shape.data(), nb::borrow(self), nullptr, numbers));
}

nb::object Attribute(const Device& device, runtime::DeviceAttr what) {
  const auto value = runtime::DeviceAPI::Get(device)->GetAttr(device, what);
  if (const auto* number = std::get_if<int64_t>(&value)) return nb::int_(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return nb::str(text->c_str());
  return nb::none();
}

}  // namespace

void BindNDArray(nb::module_& module) {
  nb::class_<Device>(module, "Device")
      .def("__init__", [](Device* self, int type, int id) { new (self) Device{static_cast<DLDeviceType>(type), id}; })
      .def("__init__", [](Device* self, const std::string& text) { new (self) Device(runtime::ParseDevice(text)); })
      .def_prop_ro("device_type", [](const Device& self) { return static_cast<int>(self.device_type); })
      .def_prop_ro("device_id", [](const Device& self) { return self.device_id; })
      .def_prop_ro("device_name", [](const Device& self) { return runtime::DeviceTypeName(self.device_type); })
      .def("__eq__",
           [](const Device& self, nb::handle other) {
             return nb::isinstance<Device>(other) && runtime::SameDevice(self, nb::cast<Device>(other));
           })
      .def_prop_ro("exist",
                   [](const Device& self) {
                     auto* api = runtime::DeviceAPI::Find(self.device_type);
                     if (api == nullptr) return false;
                     auto found = api->GetAttr(self, runtime::DeviceAttr::kExist);
                     return std::get_if<int64_t>(&found) != nullptr && std::get<int64_t>(found) != 0;
                   })
      .def_prop_ro("max_threads_per_block",
                   [](const Device& self) { return Attribute(self, runtime::DeviceAttr::kMaxThreadsPerBlock); })
      .def_prop_ro("max_shared_memory_per_block",
                   [](const Device& self) { return Attribute(self, runtime::DeviceAttr::kMaxSharedMemoryPerBlock); })
      .def_prop_ro("multi_processor_count",
                   [](const Device& self) { return Attribute(self, runtime::DeviceAttr::kMultiProcessorCount); })
      .def_prop_ro("total_memory",
                   [](const Device& self) { return Attribute(self, runtime::DeviceAttr::kTotalMemory); })
      .def_prop_ro("model", [](const Device& self) { return Attribute(self, runtime::DeviceAttr::kDeviceName); })
      .def("sync", [](const Device& self) { runtime::DeviceAPI::Get(self)->StreamSync(self, nullptr); })
      .def("__hash__", [](const Device& self) { return static_cast<int>(self.device_type) * 1024 + self.device_id; })
      .def("__repr__", [](const Device& self) {
        return StrCat(runtime::DeviceTypeName(self.device_type), "(", self.device_id, ")");
      });

  module.def("nd_empty", [](const std::vector<int64_t>& shape, const std::string& dtype, Device device) {
    return FromObjectRef(NDArray::Empty(shape, DataType::FromString(dtype), device));
  });
  module.def("nd_shape", [](const Handle& self) { return nb::tuple(nb::cast(Tensor(self).shape())); });
  module.def("nd_dtype", [](const Handle& self) { return Tensor(self).dtype().str(); });
  module.def("nd_device", [](const Handle& self) { return Tensor(self).device(); });
  module.def("nd_copy", [](const Handle& self, Device device) { return FromObjectRef(Tensor(self).Copy(device)); });
  module.def("nd_copy_from", [](const Handle& self, const Handle& other) { Tensor(self).CopyFrom(Tensor(other)); });
  module.def("nd_bytes", &BytesOf);
  module.def("nd_from_bytes", &FromBytes);
  module.def("nd_to_numpy", &ToNumpy);
  module.def("nd_from_numpy", &FromNumpy);
  module.def("nd_to_capsule", &ToCapsule);
  module.def("nd_from_capsule", &FromCapsule);
}

}  // namespace treadle::python
