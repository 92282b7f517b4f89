// SPDX-License-Identifier: Apache-2.0
// Kernels of other devices, called with tensors of any device.
#pragma once

#include <map>
#include <string>

#include "treadle/runtime/module.h"

namespace treadle::runtime {

/// A kernel of a device: its arguments are inputs, then results.
struct DeviceCall {
  int device_type = 0;  ///< DLDeviceType; the first device of the kind
  uint32_t num_inputs = 0;
};

/// A module of type "device_calls" that imports `library`. Of its functions those in `calls` take tensors of any
/// device: inputs that are elsewhere are copied to the kernel's device, and results from it. Programs of the virtual
/// machine place values where kernels want them; this is for those that don't.
Module MakeDeviceCallsModule(std::map<std::string, DeviceCall> calls, const Module& library);

}  // namespace treadle::runtime
