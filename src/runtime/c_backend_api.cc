// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/c_backend_api.h"

#include "runtime/current_device.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/packed_func.h"
#include "treadle/runtime/thread_pool.h"

using treadle::runtime::Device;
using treadle::runtime::DeviceAPI;
using treadle::runtime::SetLastErrorFromException;

namespace {

/// An argument, called `name`, of which none may be null.
void Require(bool given, const char* name) {
  if (!given) throw treadle::Error(treadle::StrCat("the argument '", name, "' is null"));
}

}  // namespace

extern "C" {

int TreadleBackendParallelLaunch(TreadleParallelLambda lambda, void* cdata, int num_task) {
  if (lambda == nullptr) return treadle::runtime::SetLastError("the argument 'lambda' is null");
  return treadle::runtime::ParallelLaunch(lambda, cdata, num_task);
}

void* TreadleBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int, int) {
  try {
    if (device_id < 0) device_id = treadle::runtime::CurrentDeviceId(device_type);
    Device device{static_cast<DLDeviceType>(device_type), device_id};
    return DeviceAPI::Get(device)->AllocWorkspace(device, nbytes);
  } catch (...) {
    SetLastErrorFromException();
    return nullptr;
  }
}

int TreadleBackendFreeWorkspace(int device_type, int device_id, void* ptr) {
  try {
    if (device_id < 0) device_id = treadle::runtime::CurrentDeviceId(device_type);
    Device device{static_cast<DLDeviceType>(device_type), device_id};
    DeviceAPI::Get(device)->FreeWorkspace(device, ptr);
    return 0;
  } catch (...) {
    return SetLastErrorFromException();
  }
}

// Called by compiled code, through whose frames no exception can pass.
void TreadleBackendSetLastError(const char* message) {
  try {
    treadle::runtime::SetLastError(message != nullptr ? message : "unknown error");
  } catch (...) {
    SetLastErrorFromException();
  }
}

int TreadleBackendGetFuncFromEnv(void* mod_node, const char* func_name, void** out) {
  try {
    const auto* module = static_cast<const treadle::runtime::ModuleNode*>(mod_node);
    if (module == nullptr) throw treadle::Error("the module context of a compiled library isn't set");
    Require(func_name != nullptr, "func_name");
    Require(out != nullptr, "out");
    *out = const_cast<treadle::runtime::PackedFuncNode*>(module->GetFuncFromEnv(func_name).get());
    return 0;
  } catch (...) {
    return SetLastErrorFromException();
  }
}

int TreadleBackendFuncCall(void* func, TreadleValue* args, int* type_codes, int num_args, TreadleValue* ret,
                           int* ret_code) {
  try {
    Require(func != nullptr, "func");
    Require(ret != nullptr, "ret");
    Require(ret_code != nullptr, "ret_code");
    treadle::runtime::RetValue result;
    static_cast<const treadle::runtime::PackedFuncNode*>(func)->Call({args, type_codes, num_args}, &result);
    std::move(result).MoveToC(ret, ret_code);
    return 0;
  } catch (...) {
    return SetLastErrorFromException();
  }
}

}  // extern "C"
