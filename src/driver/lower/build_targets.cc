// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/build_targets.h"

#include "treadle/ir/transform.h"
#include "treadle/runtime/device.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {

int DeviceTypeOfTarget(const Target& target) { return targets::GetTargetSpec(target).device_type; }

const Target& BuildTargets::ForDevice(int device_type) const {
  auto it = by_device.find(device_type == 0 ? default_device() : device_type);
  if (it != by_device.end()) return it->second;
  std::string known;
  for (const auto& [type, target] : by_device) {
    known += StrCat(known.empty() ? "" : ", ", runtime::DeviceTypeName(type), " (", target->kind, ")");
  }
  throw TargetError(StrCat("the model uses device ", runtime::DeviceTypeName(device_type),
                           ", but there are targets only for: ", known));
}

BuildTargets ResolveTargets(const CompileOptions& options) {
  std::map<int, Target> by_device;
  for (const auto& [device, text] : options.device_targets) {
    Target target(text);
    by_device.emplace(device == 0 ? DeviceTypeOfTarget(target) : device, target);
  }
  if (by_device.empty()) {
    Target target(options.target);
    by_device.emplace(DeviceTypeOfTarget(target), target);
  }
  int fallback = static_cast<int>(transform::PassContext::Current()->GetConfigInt(kFallbackDevice, kDLCPU));
  if (by_device.size() > 1 && by_device.count(fallback) == 0) {
    by_device.emplace(fallback, targets::DefaultTarget(fallback));
  }

  bool chosen = !options.target_host.empty();
  Target host = chosen ? Target(options.target_host) : targets::DefaultTarget(kDLCPU);
  for (const auto& [device, target] : by_device) {
    if (chosen || !target->host.defined()) continue;
    host = Downcast<Target>(target->host);
    chosen = true;
  }
  const bool chosen_by_user = chosen;
  for (const auto& [device, target] : by_device) {
    if (chosen || device != kDLCPU) continue;
    host = target;
    chosen = true;
  }

  BuildTargets result{{}, host, fallback};
  for (const auto& [device, target] : by_device) {
    const bool own_host = device == kDLCPU && (!chosen_by_user || host.str() == target.str());
    result.by_device.emplace(device, own_host ? target : Target::WithHost(target, host));
  }
  return result;
}

}  // namespace treadle::driver
