// SPDX-License-Identifier: Apache-2.0
// Devices: their names, and the interface through which the runtime allocates and copies on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "treadle/runtime/data_type.h"
#include "treadle/runtime/dlpack.h"

namespace treadle::runtime {

using Device = DLDevice;

/// Alignment in bytes of every buffer that the runtime allocates.
inline constexpr size_t kAllocAlignment = 128;
/// Alignment that generated code relies on: what tensors that are used in place must have.
inline constexpr size_t kTensorAlignment = 64;

inline bool SameDevice(Device a, Device b) { return a.device_type == b.device_type && a.device_id == b.device_id; }
inline Device Cpu(int id = 0) { return {kDLCPU, id}; }

/// "cpu", "cuda", "opencl", ...; "device_<n>" for an unknown type.
std::string DeviceTypeName(int device_type);
/// The inverse; also takes "llvm", "c" and "stackvm" (cpu) and "cl". Throws TargetError on an unknown name.
DLDeviceType DeviceTypeFromName(const std::string& name);
/// "cpu" for the first device of a type, else "cpu:1".
std::string DeviceName(Device device);
/// Parses "opencl" or "opencl:1".
Device ParseDevice(const std::string& text);

/// What can be asked of a device. Absent answers are std::monostate.
enum class DeviceAttr : int {
  kExist = 0,
  kMaxThreadsPerBlock = 1,
  kWarpSize = 2,
  kMaxSharedMemoryPerBlock = 3,
  kComputeVersion = 4,
  kDeviceName = 5,
  kMaxClockRate = 6,
  kMultiProcessorCount = 7,
  kMaxThreadDimensions = 8,
  kTotalMemory = 9,
};
using DeviceAttrValue = std::variant<std::monostate, int64_t, std::string>;

/// An order of execution on a device; null is the default one.
using StreamHandle = void*;

/// Memory and queues of one kind of device. Implementations are thread-safe and live for ever.
class DeviceAPI {
 public:
  virtual ~DeviceAPI() = default;

  virtual DeviceAttrValue GetAttr(Device device, DeviceAttr attr) = 0;
  /// Makes `device` the one that the calling thread's launches go to.
  virtual void SetDevice(Device device) = 0;
  /// Throws RuntimeError when memory is exhausted. `bytes` may be 0.
  virtual void* AllocDataSpace(Device device, size_t bytes, size_t alignment) = 0;
  virtual void FreeDataSpace(Device device, void* data) = 0;
  /// Copies between two tensors' buffers; one of the devices is this one, the other this one or the CPU.
  virtual void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                              Device from_device, Device to_device, StreamHandle stream) = 0;
  virtual void StreamSync(Device device, StreamHandle stream) = 0;
  virtual StreamHandle CreateStream(Device device);
  virtual void FreeStream(Device device, StreamHandle stream);
  /// Scratch memory that the same thread frees in reverse order; pooled.
  virtual void* AllocWorkspace(Device device, size_t bytes);
  virtual void FreeWorkspace(Device device, void* data);

  /// The implementation for a device; throws RuntimeError when there is none in this process.
  static DeviceAPI* Get(Device device);
  /// As Get, but null when there is none.
  static DeviceAPI* Find(int device_type);
  /// Adds the implementation for a device type; the CPU's is always there. `api` must live for ever.
  static void Register(int device_type, DeviceAPI* api);
  /// The device types that have an implementation.
  static std::vector<int> Registered();
};

}  // namespace treadle::runtime
