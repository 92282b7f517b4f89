// SPDX-License-Identifier: Apache-2.0
// Memory of the host.
#pragma once

#include "treadle/runtime/device.h"

namespace treadle::runtime {

/// The one implementation for kDLCPU.
DeviceAPI* CpuDeviceAPI();

/// Bytes that the calling thread's workspace pool holds, in use or not.
size_t CpuWorkspaceBytes();
/// Gives the calling thread's unused workspace memory back.
void ReleaseCpuWorkspace();

}  // namespace treadle::runtime
