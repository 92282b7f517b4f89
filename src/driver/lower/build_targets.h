// SPDX-License-Identifier: Apache-2.0
// For which devices, and on which host, a model is built.
#pragma once

#include <map>
#include <string>

#include "treadle/driver/compile.h"
#include "treadle/ir/target.h"

namespace treadle::driver {

/// Option of the pass context: device type of what isn't annotated, when there are several devices.
inline constexpr const char* kFallbackDevice = "relay.fallback_device_type";

/// The targets of a build by device type (DLDeviceType); at least one.
struct BuildTargets {
  std::map<int, Target> by_device;
  Target host;  ///< of the code that calls kernels
  int fallback_device = 1;

  bool heterogeneous() const { return by_device.size() > 1; }
  /// Device type of values that no plan assigns to a device.
  int default_device() const { return heterogeneous() ? fallback_device : by_device.begin()->first; }
  const Target& default_target() const { return by_device.at(default_device()); }
  /// The target of a device type (0: the default one); TargetError when there is none.
  const Target& ForDevice(int device_type) const;
};

/// Device type that code for a kind of target runs on.
int DeviceTypeOfTarget(const Target& target);

/// Checks and completes the targets that `options` name. The host is the one given (as an option, or by one of the
/// targets; they must agree), else the first target for CPUs, else llvm, or stackvm where this build has no llvm.
/// With several targets, the fallback device is that of the pass context (default: the CPU); it gets a target when it
/// has none.
BuildTargets ResolveTargets(const CompileOptions& options);

}  // namespace treadle::driver
