// SPDX-License-Identifier: Apache-2.0
// Shared libraries that add functions, module kinds and external code generators to a running process.
//
// A plug-in exports one C function, which the macro below defines:
//
//   void RegisterMyAccel() { Registry::Register("runtime.module.loadbinary_myaccel", ...); }
//   TREADLE_PLUGIN("myaccel", RegisterMyAccel)
//
// The run-time part of the external code generator that makes modules of type K is found without being named: the first
// time a model needs modules of that type, libtreadle_K.so is loaded from the directory of the runtime or from those of
// the environment variable TREADLE_PLUGIN_PATH (separated by ':').
#pragma once

#include <string>

#include "treadle/runtime/c_types.h"

namespace treadle::runtime {

/// Changes with every incompatible change of the headers.
inline constexpr int kPluginAbi = 1;

struct PluginInfo {
  int abi;  ///< kPluginAbi of the headers that the plug-in was compiled with
  const char* name;
  void (*register_all)();  ///< may throw treadle::Error
};

/// Loads the library at `path` and calls its registration, once per process; returns the plug-in's name. Throws
/// TargetError that names the file: missing, not a plug-in, compiled against other headers, failing registration.
std::string LoadPluginFile(const std::string& path);

/// Loads libtreadle_<kind>.so as described above. False when there is none, or when it can't be loaded; `problem`
/// receives the reason. Registration that throws is false too.
bool LoadRuntimeOfKind(const std::string& kind, std::string* problem);

/// The directory that holds libtreadle_runtime.so.
std::string RuntimeDirectory();

}  // namespace treadle::runtime

#define TREADLE_PLUGIN(name, register_all)                                                                   \
  extern "C" TREADLE_API const ::treadle::runtime::PluginInfo* treadle_plugin() {                            \
    static const ::treadle::runtime::PluginInfo info{::treadle::runtime::kPluginAbi, name, &(register_all)}; \
    return &info;                                                                                            \
  }
