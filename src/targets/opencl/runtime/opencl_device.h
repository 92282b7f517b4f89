// SPDX-License-Identifier: Apache-2.0
// OpenCL devices: one context and one in-order queue each. A tensor's data pointer is its cl_mem.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "targets/opencl/runtime/opencl_library.h"
#include "treadle/runtime/device.h"

namespace treadle::runtime::opencl {

/// One device with what it can do.
struct OpenCLDevice {
  cl_device_id id = nullptr;
  // Made when the device is first used: a context alone takes hundreds of megabytes of some devices' memory.
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  std::string name, version, extensions;
  int64_t max_threads_per_block = 0, shared_memory = 0, total_memory = 0, compute_units = 0, clock_rate = 0;
  int64_t max_allocation = 0;
  std::vector<size_t> max_threads;  ///< per dimension of a work group
  int64_t threads_in_step = 1;
  bool fp16 = false, fp64 = false;
  bool rounds_correctly = false;  ///< divisions and square roots of float32, where a program asks for it
};

class OpenCLDeviceAPI final : public DeviceAPI {
 public:
  static OpenCLDeviceAPI* Global();

  DeviceAttrValue GetAttr(Device device, DeviceAttr attr) override;
  void SetDevice(Device device) override;
  void* AllocDataSpace(Device device, size_t bytes, size_t alignment) override;
  void FreeDataSpace(Device device, void* data) override;
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                      Device from_device, Device to_device, StreamHandle stream) override;
  void StreamSync(Device device, StreamHandle stream) override;
  StreamHandle CreateStream(Device device) override;
  void FreeStream(Device device, StreamHandle stream) override;

  /// The device of this number, ready for use; a RuntimeError that says how many there are.
  const OpenCLDevice& Get(int device_id);
  /// Number of the device that the calling thread's launches go to.
  int CurrentDevice() const;
  int NumDevices();

 private:
  void Discover();
  OpenCLDevice& Find(int device_id);
  std::mutex opening_;
  std::once_flag discovered_;
  std::vector<OpenCLDevice> devices_;
};

}  // namespace treadle::runtime::opencl
