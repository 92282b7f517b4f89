// SPDX-License-Identifier: Apache-2.0
#include "driver/device_code.h"

#include "tir/passes/split_host_device.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::driver {

bool IsDevice(const Target& target) { return DeviceTypeOf(target) != kDLCPU; }

int DeviceTypeOf(const Target& target) { return backends::GetBackend(target->kind).device_type; }

Target HostOf(const Target& target) {
  if (!IsDevice(target)) return target;
  return target->host.defined() ? Downcast<Target>(target->host) : Target("llvm -mcpu=native");
}

DeviceCode GenerateDeviceCode(const std::vector<tir::PrimFunc>& funcs, const Target& target) {
  const backends::Backend& backend = backends::GetBackend(target->kind);
  DeviceCode code;
  std::vector<tir::PrimFunc> kernels;
  for (const tir::PrimFunc& func : funcs) {
    tir::HostDevice split = tir::SplitHostDevice(func, backend.device_type);
    code.host.push_back(split.host);
    kernels.insert(kernels.end(), split.kernels.begin(), split.kernels.end());
  }
  backends::Artifact artifact = backend.codegen(kernels, target, {});
  code.source = std::move(artifact.code);
  const std::string loader = "runtime.module.loadbinary_" + artifact.format;
  runtime::PackedFunc load = runtime::Registry::Get(loader);
  std::string problem = "it brings no loader";
  if (!load && runtime::LoadRuntimeOfKind(artifact.format, &problem)) load = runtime::Registry::Get(loader);
  if (!load) {
    throw RuntimeError(
        StrCat("target ", target->kind, ": its run time libtreadle_", artifact.format, ".so can't be used: ", problem));
  }
  TreadleByteArray bytes{artifact.module.data(), artifact.module.size()};
  code.module = load(&bytes).As<runtime::Module>();
  return code;
}

}  // namespace treadle::driver
