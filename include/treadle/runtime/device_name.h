// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace treadle::runtime {

/// One more name for a type of device that DeviceTypeFromName knows, such as that of a target kind. The names that it
/// knows anyway keep their meaning.
void RegisterDeviceName(const std::string& name, int device_type);

}  // namespace treadle::runtime
