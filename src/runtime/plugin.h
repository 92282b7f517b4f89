// SPDX-License-Identifier: Apache-2.0
// Run times of devices, which are libraries of their own.
#pragma once

#include <string>

namespace treadle::runtime {

/// Loads libtreadle_<kind>.so from beside the runtime, if it is there, and calls its treadle_plugin_register(), which
/// registers a DeviceAPI and loaders of modules. Each library is looked for once. Whether it was found, now or before.
bool LoadPlugin(const std::string& kind);

}  // namespace treadle::runtime
