// SPDX-License-Identifier: Apache-2.0
#include "targets/opencl/runtime/opencl_module.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <mutex>
#include <unordered_map>

#include "runtime/file_io.h"
#include "targets/opencl/runtime/opencl_device.h"
#include "treadle/base/error.h"

namespace treadle::runtime::opencl {
namespace {

constexpr uint32_t kFormatVersion = 2;
constexpr std::array<const char*, 6> kAxisTags = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                                  "threadIdx.x", "threadIdx.y", "threadIdx.z"};

/// A kernel built for one device. Its arguments are state, so that launches take turns.
struct BuiltKernel {
  cl_kernel kernel = nullptr;
  size_t max_threads = 0;
  std::mutex mutex;
};

class OpenCLModuleNode final : public ModuleNode {
 public:
  explicit OpenCLModuleNode(std::string_view bytes) : bytes_(bytes) {
    ByteReader reader(bytes, "OpenCL module");
    const auto version = reader.Read<uint32_t>();
    if (version == 0 || version > kFormatVersion) {
      reader.Fail(StrCat("format version ", version, ", expected ", kFormatVersion));
    }
    source_ = reader.ReadString();
    for (uint64_t n = reader.ReadCount(24); n > 0; --n) {
      KernelInfo kernel;
      kernel.name = reader.ReadString();
      for (uint64_t k = reader.ReadCount(2); k > 0; --k) {
        const auto code = reader.Read<uint8_t>(), bits = reader.Read<uint8_t>();
        kernel.args.emplace_back(code, bits, 1);
      }
      for (uint64_t k = reader.ReadCount(8); k > 0; --k) {
        const std::string tag(reader.ReadString());
        size_t axis = 0;
        while (axis < kAxisTags.size() && tag != kAxisTags[axis]) ++axis;
        if (axis == kAxisTags.size()) reader.Fail(StrCat("unknown thread axis '", tag, "'"));
        kernel.axes.push_back(static_cast<int>(axis));
      }
      if (version > 1) {
        for (uint64_t& threads : kernel.block) threads = reader.Read<uint64_t>();
        kernel.shared_bytes = reader.Read<uint64_t>();
      }
      kernels_.emplace(kernel.name, kernel);
    }
    reader.ExpectEnd();
  }

  ~OpenCLModuleNode() override {
    const Library* cl = FindLibrary();
    for (auto& [key, built] : built_) {
      if (cl != nullptr && built->kernel != nullptr) cl->clReleaseKernel(built->kernel);
    }
    for (auto& [device, program] : programs_) cl->clReleaseProgram(program);
  }

  std::string module_type() const override { return "opencl"; }
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = kernels_.find(name);
    if (it == kernels_.end()) return nullptr;
    const KernelInfo* info = &it->second;
    auto self = GetRef<Module>(this);
    return PackedFunc([this, self, info](Args args, RetValue*) { Launch(*info, args); });
  }
  std::string GetSource(const std::string&) const override { return source_; }
  void SaveToFile(const std::string& path, const std::string&) const override { runtime::WriteFile(path, source_); }
  void SaveToBinary(ByteWriter* writer) const override { writer->WriteRaw(bytes_.data(), bytes_.size()); }

 private:
  void Launch(const KernelInfo& info, const Args& args) const {
    const size_t count = info.args.size(), axes = info.axes.size();
    if (static_cast<size_t>(args.size()) != count + axes) {
      throw Error(
          StrCat("kernel ", info.name, " takes ", count, " arguments and ", axes, " extents, got ", args.size()));
    }
    const int device_id = OpenCLDeviceAPI::Global()->CurrentDevice();
    const OpenCLDevice& device = OpenCLDeviceAPI::Global()->Get(device_id);
    std::array<size_t, 6> extents = {1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < axes; ++i) {
      const auto extent = args[static_cast<int>(count + i)].As<int64_t>();
      if (extent <= 0) return;  // nothing to do
      extents[static_cast<size_t>(info.axes[i])] = static_cast<size_t>(extent);
    }
    // What the device can't run in any case is said before its compiler says it in words of its own.
    CheckThreads(info, device, extents, static_cast<size_t>(device.max_threads_per_block));
    BuiltKernel& built = Build(info.name, device_id);
    CheckThreads(info, device, extents, built.max_threads);
    std::array<size_t, 3> local{}, global{};
    for (size_t d = 0; d < 3; ++d) {
      local[d] = extents[3 + d];
      if (__builtin_mul_overflow(extents[d], local[d], &global[d])) {
        throw Error(StrCat("kernel ", info.name, ": the number of threads overflows"));
      }
    }
    const Library& cl = RequireLibrary();
    std::lock_guard<std::mutex> lock(built.mutex);
    for (size_t i = 0; i < count; ++i) SetArgument(cl, built.kernel, i, info.args[i], args[static_cast<int>(i)]);
    const cl_int code = cl.clEnqueueNDRangeKernel(device.queue, built.kernel, 3, nullptr, global.data(), local.data(),
                                                  0, nullptr, nullptr);
    if (code != CL_SUCCESS) {
      throw RuntimeError(StrCat("kernel ", info.name, ": device ", device.name, " doesn't launch ", extents[0], " x ",
                                extents[1], " x ", extents[2], " blocks of ", extents[3], " x ", extents[4], " x ",
                                extents[5], " threads: ", ErrorName(code)));
    }
    Check(cl.clFlush(device.queue), "clFlush");
  }

  /// Throws where a block has more threads than the device has in a dimension, or more than `allowed`.
  static void CheckThreads(const KernelInfo& info, const OpenCLDevice& device, const std::array<size_t, 6>& extents,
                           size_t allowed) {
    size_t threads = 1;
    for (size_t d = 0; d < 3; ++d) {
      if (d < device.max_threads.size() && extents[3 + d] > device.max_threads[d]) {
        throw RuntimeError(StrCat("kernel ", info.name, ": ", kAxisTags[3 + d], " has extent ", extents[3 + d],
                                  "; device ", device.name, " allows ", device.max_threads[d]));
      }
      if (__builtin_mul_overflow(threads, extents[3 + d], &threads) || threads > allowed) {
        throw RuntimeError(StrCat("kernel ", info.name, ": a block of ", extents[3], " x ", extents[4], " x ",
                                  extents[5], " threads; device ", device.name, " allows ", allowed,
                                  " for this kernel"));
      }
    }
  }
  /// Throws where one of the program's kernels, which a device builds together, can't run there.
  void CheckKernels(const OpenCLDevice& device) const {
    for (const auto& [name, info] : kernels_) {
      std::array<size_t, 6> extents = {1, 1, 1, 1, 1, 1};
      for (size_t d = 0; d < 3; ++d) extents[3 + d] = std::max<size_t>(info.block[d], 1);
      CheckThreads(info, device, extents, static_cast<size_t>(device.max_threads_per_block));
      if (info.shared_bytes <= static_cast<uint64_t>(device.shared_memory)) continue;
      throw RuntimeError(StrCat("kernel ", name, " needs ", info.shared_bytes,
                                " bytes of memory that the threads of a block share; device ", device.name, " has ",
                                device.shared_memory, ". Expected a schedule with smaller buffers in scope shared"));
    }
  }

  static void SetArgument(const Library& cl, cl_kernel kernel, size_t i, DataType dtype, const ArgValue& arg) {
    auto set = [&](auto value) {
      const auto* bytes = static_cast<const void*>(&value);
      // Of a buffer the handle itself is the argument.
      constexpr size_t size = sizeof(value);  // NOLINT(bugprone-sizeof-expression)
      Check(cl.clSetKernelArg(kernel, static_cast<cl_uint>(i), size, bytes), "clSetKernelArg");
    };
    if (dtype.is_handle()) return set(static_cast<cl_mem>(arg.value().v_handle));
    if (dtype.is_floating()) {
      const auto value = arg.As<double>();
      return dtype.bits() == 64 ? set(value) : set(static_cast<float>(value));
    }
    const auto value = arg.As<int64_t>();
    switch (dtype.bits()) {
      case 64:
        return set(value);
      case 32:
        return set(static_cast<int32_t>(value));
      case 16:
        return set(static_cast<int16_t>(value));
      default:
        return set(static_cast<int8_t>(value));
    }
  }

  BuiltKernel& Build(const std::string& name, int device_id) const {
    std::lock_guard<std::mutex> lock(mutex_);
    if (auto it = built_.find({name, device_id}); it != built_.end()) return *it->second;
    const Library& cl = RequireLibrary();
    const OpenCLDevice& device = OpenCLDeviceAPI::Global()->Get(device_id);
    cl_int code = CL_SUCCESS;
    auto fresh = std::make_unique<BuiltKernel>();
    fresh->kernel = cl.clCreateKernel(Program(cl, device, device_id), name.c_str(), &code);
    Check(code, "clCreateKernel");
    Check(cl.clGetKernelWorkGroupInfo(fresh->kernel, device.id, CL_KERNEL_WORK_GROUP_SIZE, sizeof(fresh->max_threads),
                                      &fresh->max_threads, nullptr),
          "clGetKernelWorkGroupInfo");
    return *(built_[{name, device_id}] = std::move(fresh));
  }

  /// The program built for a device. The caller holds the lock.
  cl_program Program(const Library& cl, const OpenCLDevice& device, int device_id) const {
    auto it = programs_.find(device_id);
    if (it != programs_.end()) return it->second;
    CheckKernels(device);
    const char* text = source_.c_str();
    const size_t size = source_.size();
    cl_int code = CL_SUCCESS;
    cl_program program = cl.clCreateProgramWithSource(device.context, 1, &text, &size, &code);
    Check(code, "clCreateProgramWithSource");
    // Divisions and square roots may be off by several units in the last place unless this is asked for.
    const std::string options =
        StrCat("-cl-std=CL1.2", device.rounds_correctly ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    code = cl.clBuildProgram(program, 1, &device.id, options.c_str(), nullptr, nullptr);
    if (code != CL_SUCCESS) {
      size_t log_size = 0;
      cl.clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &log_size);
      std::string log(log_size, '\0');
      cl.clGetProgramBuildInfo(program, device.id, CL_PROGRAM_BUILD_LOG, log_size, log.data(), nullptr);
      cl.clReleaseProgram(program);
      throw RuntimeError(
          StrCat("device ", device.name, " can't build the kernels: ", ErrorName(code), ": ", log.substr(0, 4000)));
    }
    programs_[device_id] = program;
    return program;
  }

  std::string bytes_, source_;
  std::unordered_map<std::string, KernelInfo> kernels_;
  mutable std::mutex mutex_;
  mutable std::map<int, cl_program> programs_;
  mutable std::map<std::pair<std::string, int>, std::unique_ptr<BuiltKernel>> built_;
};

}  // namespace

Module LoadOpenCLModule(std::string_view bytes) {
  return Module(ObjectPtr<Object>(MakeObject<OpenCLModuleNode>(bytes)));
}

}  // namespace treadle::runtime::opencl
