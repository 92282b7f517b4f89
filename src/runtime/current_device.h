// SPDX-License-Identifier: Apache-2.0
// The device that a thread's launches go to.
#pragma once

#include "treadle/runtime/device.h"

namespace treadle::runtime {

/// Calls SetDevice and remembers the device for the calling thread.
void SetCurrentDevice(Device device);
/// Number of the device that the calling thread set last; 0 where it is of another type.
int CurrentDeviceId(int device_type);

}  // namespace treadle::runtime
