// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/device_calls.h"

#include <utility>
#include <vector>

#include "runtime/builtins.h"
#include "treadle/base/error.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::runtime {
namespace {

class DeviceCallsModule final : public ModuleNode {
 public:
  explicit DeviceCallsModule(std::map<std::string, DeviceCall> calls) : calls_(std::move(calls)) {}

  std::string module_type() const override { return "device_calls"; }

  PackedFunc GetFunction(const std::string& name) const override {
    auto it = calls_.find(name);
    if (it == calls_.end() || imports().empty()) return nullptr;  // the imports are searched next
    PackedFunc kernel;
    for (size_t i = 0; !kernel && i < imports().size(); ++i) kernel = imports()[i].GetFunction(name, true);
    if (!kernel) return nullptr;
    const DeviceCall call = it->second;
    return PackedFunc([kernel, call](Args args, RetValue* ret) { CallThere(kernel, call, args, ret); });
  }

  void SaveToBinary(ByteWriter* writer) const override {
    writer->Write<uint64_t>(calls_.size());
    for (const auto& [name, call] : calls_) {
      writer->WriteString(name);
      writer->Write<int32_t>(call.device_type);
      writer->Write<uint32_t>(call.num_inputs);
    }
  }

  static Module LoadFromBinary(const std::string& bytes) {
    ByteReader reader(bytes, "device_calls module");
    std::map<std::string, DeviceCall> calls;
    for (uint64_t i = reader.ReadCount(16); i > 0; --i) {
      const std::string name(reader.ReadString());
      DeviceCall call;
      call.device_type = reader.Read<int32_t>();
      call.num_inputs = reader.Read<uint32_t>();
      calls.emplace(name, call);
    }
    reader.ExpectEnd();
    return Module(ObjectPtr<Object>(NewObject<DeviceCallsModule>(std::move(calls))));
  }

 private:
  static void CallThere(const PackedFunc& kernel, const DeviceCall& call, Args args, RetValue* ret) {
    const auto count = static_cast<size_t>(args.size());
    const Device device{static_cast<DLDeviceType>(call.device_type), 0};
    std::vector<NDArray> there;
    std::vector<TreadleValue> values(count);
    std::vector<int> codes(count, kTreadleDLTensor);
    for (size_t i = 0; i < count; ++i) {
      DLTensor* tensor = args[static_cast<int>(i)].AsDLTensor();
      values[i].v_handle = tensor;
      there.emplace_back();
      if (tensor->device.device_type == call.device_type) continue;
      there[i] = NDArray::Empty({tensor->shape, tensor->shape + tensor->ndim}, DataType(tensor->dtype), device);
      if (i < call.num_inputs) there[i].CopyFrom(*tensor);
      values[i].v_handle = there[i].handle();
    }
    kernel.CallPacked(Args(values.data(), codes.data(), args.size()), ret);
    for (size_t i = call.num_inputs; i < count; ++i) {
      if (there[i].defined()) there[i].CopyTo(*args[static_cast<int>(i)].AsDLTensor());
    }
  }

  std::map<std::string, DeviceCall> calls_;
};

}  // namespace

Module MakeDeviceCallsModule(std::map<std::string, DeviceCall> calls, const Module& library) {
  Module module(ObjectPtr<Object>(NewObject<DeviceCallsModule>(std::move(calls))));
  module.Import(library);
  return module;
}

void AddDeviceCallFunctions(const AddBuiltin& add) {
  add("runtime.module.loadbinary_device_calls",
      PackedFunc::FromTyped([](std::string bytes) { return DeviceCallsModule::LoadFromBinary(bytes); }));
}

}  // namespace treadle::runtime
