// SPDX-License-Identifier: Apache-2.0
#include "targets/opencl/runtime/opencl_device.h"

#include "treadle/base/error.h"

namespace treadle::runtime::opencl {
namespace {

thread_local int current_device = 0;

template <typename T>
T Info(const Library& cl, cl_device_id device, cl_device_info what) {
  T value{};
  Check(cl.clGetDeviceInfo(device, what, sizeof(value), &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string TextInfo(const Library& cl, cl_device_id device, cl_device_info what) {
  size_t size = 0;
  Check(cl.clGetDeviceInfo(device, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  Check(cl.clGetDeviceInfo(device, what, size, text.data(), nullptr), "clGetDeviceInfo");
  return text.substr(0, text.find('\0'));
}

OpenCLDevice Describe(const Library& cl, cl_device_id id) {
  OpenCLDevice device;
  device.id = id;
  device.name = TextInfo(cl, id, CL_DEVICE_NAME);
  device.version = TextInfo(cl, id, CL_DEVICE_VERSION);
  device.extensions = TextInfo(cl, id, CL_DEVICE_EXTENSIONS);
  device.max_threads_per_block = static_cast<int64_t>(Info<size_t>(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  device.shared_memory = static_cast<int64_t>(Info<cl_ulong>(cl, id, CL_DEVICE_LOCAL_MEM_SIZE));
  device.total_memory = static_cast<int64_t>(Info<cl_ulong>(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE));
  device.max_allocation = static_cast<int64_t>(Info<cl_ulong>(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  device.compute_units = Info<cl_uint>(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS);
  device.clock_rate = int64_t{Info<cl_uint>(cl, id, CL_DEVICE_MAX_CLOCK_FREQUENCY)} * 1000;
  const auto dimensions = Info<cl_uint>(cl, id, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS);
  device.max_threads.resize(dimensions);
  Check(cl.clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, dimensions * sizeof(size_t), device.max_threads.data(),
                           nullptr),
        "clGetDeviceInfo");
  device.fp16 = device.extensions.find("cl_khr_fp16") != std::string::npos;
  device.fp64 = device.extensions.find("cl_khr_fp64") != std::string::npos;
  const auto rounding = Info<cl_device_fp_config>(cl, id, CL_DEVICE_SINGLE_FP_CONFIG);
  device.rounds_correctly = (rounding & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  if (device.extensions.find("cl_nv_device_attribute_query") != std::string::npos) {
    constexpr cl_device_info warp_size = 0x4003;  // CL_DEVICE_WARP_SIZE_NV
    device.threads_in_step = Info<cl_uint>(cl, id, warp_size);
  }
  return device;
}

void Open(const Library& cl, OpenCLDevice* device) {
  cl_int code = CL_SUCCESS;
  cl_context context = cl.clCreateContext(nullptr, 1, &device->id, nullptr, nullptr, &code);
  Check(code, "clCreateContext");
  device->queue = cl.clCreateCommandQueue(context, device->id, 0, &code);
  if (code != CL_SUCCESS) cl.clReleaseContext(context);
  Check(code, "clCreateCommandQueue");
  device->context = context;
}

cl_mem Memory(const void* data) { return static_cast<cl_mem>(const_cast<void*>(data)); }

}  // namespace

OpenCLDeviceAPI* OpenCLDeviceAPI::Global() {
  static auto* api = new OpenCLDeviceAPI();  // never destroyed: tensors in statics may outlive it
  return api;
}

void OpenCLDeviceAPI::Discover() {
  std::call_once(discovered_, [this] {
    const Library* cl = FindLibrary();
    if (cl == nullptr) return;
    cl_uint count = 0;
    if (cl->clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return;  // a loader without drivers
    std::vector<cl_platform_id> platforms(count);
    Check(cl->clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    for (cl_device_type type : {cl_device_type{CL_DEVICE_TYPE_GPU}, cl_device_type{CL_DEVICE_TYPE_ACCELERATOR},
                                cl_device_type{CL_DEVICE_TYPE_CPU}}) {
      for (cl_platform_id platform : platforms) {
        if (cl->clGetDeviceIDs(platform, type, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
        std::vector<cl_device_id> ids(count);
        Check(cl->clGetDeviceIDs(platform, type, count, ids.data(), nullptr), "clGetDeviceIDs");
        for (cl_device_id id : ids) devices_.push_back(Describe(*cl, id));
      }
    }
  });
}

int OpenCLDeviceAPI::NumDevices() {
  Discover();
  return static_cast<int>(devices_.size());
}

OpenCLDevice& OpenCLDeviceAPI::Find(int device_id) {
  RequireLibrary();
  const int count = NumDevices();
  if (count == 0) {
    throw RuntimeError("OpenCL has no device on this machine; install a driver, such as pocl-opencl-icd");
  }
  if (device_id < 0 || device_id >= count) {
    throw RuntimeError(StrCat("there is no device opencl:", device_id, "; this machine has ", count));
  }
  return devices_[static_cast<size_t>(device_id)];
}

const OpenCLDevice& OpenCLDeviceAPI::Get(int device_id) {
  OpenCLDevice& device = Find(device_id);
  std::lock_guard<std::mutex> lock(opening_);
  if (device.context == nullptr) Open(RequireLibrary(), &device);
  return device;
}

int OpenCLDeviceAPI::CurrentDevice() const { return current_device; }

void OpenCLDeviceAPI::SetDevice(Device device) {
  Find(device.device_id);
  current_device = device.device_id;
}

DeviceAttrValue OpenCLDeviceAPI::GetAttr(Device device, DeviceAttr attr) {
  if (attr == DeviceAttr::kExist) return int64_t{device.device_id >= 0 && device.device_id < NumDevices()};
  const OpenCLDevice& found = Find(device.device_id);
  switch (attr) {
    case DeviceAttr::kMaxThreadsPerBlock:
      return found.max_threads_per_block;
    case DeviceAttr::kWarpSize:
      return found.threads_in_step;
    case DeviceAttr::kMaxSharedMemoryPerBlock:
      return found.shared_memory;
    case DeviceAttr::kComputeVersion:
      return found.version;
    case DeviceAttr::kDeviceName:
      return found.name;
    case DeviceAttr::kMaxClockRate:
      return found.clock_rate;
    case DeviceAttr::kMultiProcessorCount:
      return found.compute_units;
    case DeviceAttr::kMaxThreadDimensions: {
      std::string text;
      for (size_t n : found.max_threads) text += StrCat(text.empty() ? "[" : ", ", n);
      return text + "]";
    }
    case DeviceAttr::kTotalMemory:
      return found.total_memory;
    default:
      return std::monostate();
  }
}

void* OpenCLDeviceAPI::AllocDataSpace(Device device, size_t bytes, size_t) {
  const Library& cl = RequireLibrary();
  const OpenCLDevice& found = Get(device.device_id);
  if (bytes > static_cast<size_t>(found.max_allocation)) {
    throw RuntimeError(StrCat("device ", DeviceName(device), " can't allocate ", bytes, " bytes at once; its limit is ",
                              found.max_allocation));
  }
  cl_int code = CL_SUCCESS;
  cl_mem memory = cl.clCreateBuffer(found.context, CL_MEM_READ_WRITE, bytes == 0 ? 1 : bytes, nullptr, &code);
  if (code != CL_SUCCESS) {
    throw RuntimeError(StrCat("out of memory on ", DeviceName(device), ": ", bytes, " bytes: ", ErrorName(code)));
  }
  return memory;
}

void OpenCLDeviceAPI::FreeDataSpace(Device, void* data) {
  // The queue is in order and holds its own references: what still runs may finish with the memory.
  RequireLibrary().clReleaseMemObject(Memory(data));
}

void OpenCLDeviceAPI::CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes,
                                     Device from_device, Device to_device, StreamHandle) {
  if (bytes == 0) return;
  const Library& cl = RequireLibrary();
  const bool from_cl = from_device.device_type == kDLOpenCL, to_cl = to_device.device_type == kDLOpenCL;
  if (from_cl && to_cl) {
    if (from_device.device_id != to_device.device_id) {
      std::vector<char> buffer(bytes);
      CopyDataFromTo(from, from_offset, buffer.data(), 0, bytes, from_device, Cpu(), nullptr);
      return CopyDataFromTo(buffer.data(), 0, to, to_offset, bytes, Cpu(), to_device, nullptr);
    }
    return Check(cl.clEnqueueCopyBuffer(Get(to_device.device_id).queue, Memory(from), Memory(to), from_offset,
                                        to_offset, bytes, 0, nullptr, nullptr),
                 "clEnqueueCopyBuffer");
  }
  if (from_cl) {
    return Check(cl.clEnqueueReadBuffer(Get(from_device.device_id).queue, Memory(from), CL_TRUE, from_offset, bytes,
                                        static_cast<char*>(to) + to_offset, 0, nullptr, nullptr),
                 "clEnqueueReadBuffer");
  }
  Check(cl.clEnqueueWriteBuffer(Get(to_device.device_id).queue, Memory(to), CL_TRUE, to_offset, bytes,
                                static_cast<const char*>(from) + from_offset, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
}

void OpenCLDeviceAPI::StreamSync(Device device, StreamHandle stream) {
  const Library& cl = RequireLibrary();
  auto* queue = stream != nullptr ? static_cast<cl_command_queue>(stream) : Get(device.device_id).queue;
  Check(cl.clFinish(queue), "clFinish");
}

StreamHandle OpenCLDeviceAPI::CreateStream(Device device) {
  const OpenCLDevice& found = Get(device.device_id);
  cl_int code = CL_SUCCESS;
  cl_command_queue queue = RequireLibrary().clCreateCommandQueue(found.context, found.id, 0, &code);
  Check(code, "clCreateCommandQueue");
  return queue;
}

void OpenCLDeviceAPI::FreeStream(Device, StreamHandle stream) {
  if (stream != nullptr) RequireLibrary().clReleaseCommandQueue(static_cast<cl_command_queue>(stream));
}

}  // namespace treadle::runtime::opencl
