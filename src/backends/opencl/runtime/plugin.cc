// SPDX-License-Identifier: Apache-2.0
// Entry point of libtreadle_opencl.so, which the runtime loads when a device or module of kind "opencl" is asked for.
#include "backends/opencl/runtime/opencl_device.h"
#include "backends/opencl/runtime/opencl_module.h"
#include "treadle/runtime/registry.h"

extern "C" __attribute__((visibility("default"))) void treadle_plugin_register() {
  using namespace treadle::runtime;  // NOLINT(google-build-using-namespace)
  DeviceAPI::Register(kDLOpenCL, opencl::OpenCLDeviceAPI::Global());
  Registry::RegisterTyped(
      "runtime.module.loadbinary_opencl", [](ArgValue bytes) { return opencl::LoadOpenCLModule(bytes.AsString()); },
      true);
}
