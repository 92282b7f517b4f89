// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/device.h"

#include <array>
#include <atomic>
#include <map>
#include <mutex>

#include "runtime/cpu_device.h"
#include "runtime/current_device.h"
#include "treadle/base/error.h"
#include "treadle/runtime/device_name.h"
#include "treadle/runtime/plugin.h"

namespace treadle::runtime {
namespace {

struct DeviceTypeEntry {
  const char* name;
  DLDeviceType type;
};

// The first name of a type is the one that is printed.
constexpr DeviceTypeEntry kDeviceTypes[] = {
    {"cpu", kDLCPU},
    {"cuda", kDLCUDA},
    {"nvptx", kDLCUDA},
    {"cuda_host", kDLCUDAHost},
    {"opencl", kDLOpenCL},
    {"cl", kDLOpenCL},
    {"vulkan", kDLVulkan},
    {"metal", kDLMetal},
    {"vpi", kDLVPI},
    {"rocm", kDLROCM},
    {"rocm_host", kDLROCMHost},
    {"ext_dev", kDLExtDev},
    {"cuda_managed", kDLCUDAManaged},
    {"oneapi", kDLOneAPI},
    {"webgpu", kDLWebGPU},
    {"hexagon", kDLHexagon},
    {"maia", kDLMAIA},
};

constexpr int kMaxDeviceTypes = 64;

/// Implementations by device type; lock-free so that allocation needn't take a lock to find its device.
std::array<std::atomic<DeviceAPI*>, kMaxDeviceTypes>& Table() {
  static auto* table = [] {
    auto* created = new std::array<std::atomic<DeviceAPI*>, kMaxDeviceTypes>();
    (*created)[kDLCPU] = CpuDeviceAPI();
    return created;
  }();
  return *table;
}

/// Names that came with targets.
struct RegisteredNames {
  std::mutex mutex;
  std::map<std::string, DLDeviceType> types;
  static RegisteredNames& Global() {
    static auto* names = new RegisteredNames();
    return *names;
  }
};

}  // namespace

void RegisterDeviceName(const std::string& name, int device_type) {
  RegisteredNames& registered = RegisteredNames::Global();
  std::lock_guard<std::mutex> lock(registered.mutex);
  registered.types[name] = static_cast<DLDeviceType>(device_type);
}

std::string DeviceTypeName(int device_type) {
  for (const DeviceTypeEntry& entry : kDeviceTypes) {
    if (entry.type == device_type) return entry.name;
  }
  return StrCat("device_", device_type);
}

DLDeviceType DeviceTypeFromName(const std::string& name) {
  for (const DeviceTypeEntry& entry : kDeviceTypes) {
    if (name == entry.name) return entry.type;
  }
  RegisteredNames& registered = RegisteredNames::Global();
  std::lock_guard<std::mutex> lock(registered.mutex);
  if (auto it = registered.types.find(name); it != registered.types.end()) return it->second;
  throw TargetError(StrCat("unknown device \"", name, "\"; expected such as cpu, cpu:0 or opencl"));
}

std::string DeviceName(Device device) {
  std::string name = DeviceTypeName(device.device_type);
  return device.device_id == 0 ? name : StrCat(name, ":", device.device_id);
}

Device ParseDevice(const std::string& text) {
  size_t colon = text.find(':');
  Device device{DeviceTypeFromName(text.substr(0, colon)), 0};
  if (colon == std::string::npos) return device;
  std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos) {
    throw TargetError(StrCat("bad device \"", text, "\": expected NAME or NAME:NUMBER"));
  }
  device.device_id = std::stoi(digits);
  return device;
}

StreamHandle DeviceAPI::CreateStream(Device) { return nullptr; }
void DeviceAPI::FreeStream(Device, StreamHandle) {}
void* DeviceAPI::AllocWorkspace(Device device, size_t bytes) { return AllocDataSpace(device, bytes, kAllocAlignment); }
void DeviceAPI::FreeWorkspace(Device device, void* data) { FreeDataSpace(device, data); }

DeviceAPI* DeviceAPI::Find(int device_type) {
  if (device_type < 0 || device_type >= kMaxDeviceTypes) return nullptr;
  const std::atomic<DeviceAPI*>& entry = Table()[device_type];
  DeviceAPI* api = entry.load(std::memory_order_acquire);
  std::string problem;
  if (api == nullptr && LoadRuntimeOfKind(DeviceTypeName(device_type), &problem)) {
    api = entry.load(std::memory_order_acquire);
  }
  return api;
}

DeviceAPI* DeviceAPI::Get(Device device) {
  DeviceAPI* api = Find(device.device_type);
  if (api == nullptr) {
    std::string names;
    for (int type : Registered()) names += (names.empty() ? "" : ", ") + DeviceTypeName(type);
    throw RuntimeError(StrCat("device ", DeviceName(device), " isn't available in this process; available: ", names));
  }
  return api;
}

namespace {
thread_local Device current_device{kDLCPU, 0};
}  // namespace

void SetCurrentDevice(Device device) {
  DeviceAPI::Get(device)->SetDevice(device);
  current_device = device;
}

int CurrentDeviceId(int device_type) {
  return current_device.device_type == device_type ? current_device.device_id : 0;
}

void DeviceAPI::Register(int device_type, DeviceAPI* api) {
  TREADLE_ICHECK(device_type >= 0 && device_type < kMaxDeviceTypes) << "device type " << device_type;
  Table()[device_type].store(api, std::memory_order_release);
}

std::vector<int> DeviceAPI::Registered() {
  std::vector<int> types;
  for (int type = 0; type < kMaxDeviceTypes; ++type) {
    if (Table()[type].load(std::memory_order_acquire) != nullptr) types.push_back(type);
  }
  return types;
}

}  // namespace treadle::runtime
