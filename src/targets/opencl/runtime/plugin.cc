// SPDX-License-Identifier: Apache-2.0
// Entry point of libtreadle_opencl.so, which the runtime loads when a device or module of kind "opencl" is asked for.
#include "treadle/runtime/plugin.h"

#include "targets/opencl/runtime/opencl_device.h"
#include "targets/opencl/runtime/opencl_module.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime::opencl {
namespace {

void RegisterOpenCL() {
  DeviceAPI::Register(kDLOpenCL, OpenCLDeviceAPI::Global());
  Registry::RegisterTyped(
      "runtime.module.loadbinary_opencl", [](ArgValue bytes) { return LoadOpenCLModule(bytes.AsString()); }, true);
}

}  // namespace
}  // namespace treadle::runtime::opencl

TREADLE_PLUGIN("opencl", treadle::runtime::opencl::RegisterOpenCL)
