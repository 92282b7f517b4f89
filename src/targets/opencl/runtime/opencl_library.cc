// SPDX-License-Identifier: Apache-2.0
#include "targets/opencl/runtime/opencl_library.h"

#include <dlfcn.h>

#include <map>

#include "treadle/base/error.h"

namespace treadle::runtime::opencl {
namespace {

struct Loaded {
  Library library;
  std::string why;  ///< empty when all is there
};

Loaded Load() {
  Loaded loaded;
  void* handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    loaded.why = reason != nullptr ? reason : "libOpenCL.so.1 isn't there";
    return loaded;
  }
#define TREADLE_OPENCL_FIND(name)                                                              \
  loaded.library.name = reinterpret_cast<decltype(loaded.library.name)>(dlsym(handle, #name)); \
  if (loaded.library.name == nullptr) loaded.why = "libOpenCL.so.1 has no function " #name;
  TREADLE_OPENCL_FUNCTIONS(TREADLE_OPENCL_FIND)
#undef TREADLE_OPENCL_FIND
  return loaded;
}

const Loaded& Get() {
  static const auto* loaded = new Loaded(Load());  // never unloaded: drivers keep threads
  return *loaded;
}

}  // namespace

const Library* FindLibrary(std::string* why) {
  const Loaded& loaded = Get();
  if (loaded.why.empty()) return &loaded.library;
  if (why != nullptr) *why = loaded.why;
  return nullptr;
}

const Library& RequireLibrary() {
  std::string why;
  const Library* library = FindLibrary(&why);
  if (library == nullptr) {
    throw RuntimeError(StrCat("OpenCL isn't available: ", why,
                              "; install the loader (Debian: ocl-icd-libopencl1) and a driver, such as pocl-opencl-icd "
                              "for this machine's processor"));
  }
  return *library;
}

std::string ErrorName(cl_int code) {
  static const std::map<cl_int, const char*> names = {
      {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
      {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
      {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
      {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
      {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
      {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
      {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
      {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
      {CL_INVALID_PROGRAM, "CL_INVALID_PROGRAM"},
      {CL_INVALID_KERNEL, "CL_INVALID_KERNEL"},
      {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
      {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE"},
      {CL_INVALID_OPERATION, "CL_INVALID_OPERATION"},
      {CL_MEM_COPY_OVERLAP, "CL_MEM_COPY_OVERLAP"},
      {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
      {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
      {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
      {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE"},
      {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
      {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
      {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
      {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
      {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE"},
      {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
      {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE"},
  };
  auto it = names.find(code);
  return it != names.end() ? StrCat(it->second, " (", code, ")") : StrCat("OpenCL error ", code);
}

void Check(cl_int code, const char* function) {
  if (code != CL_SUCCESS) throw RuntimeError(StrCat(function, ": ", ErrorName(code)));
}

}  // namespace treadle::runtime::opencl
