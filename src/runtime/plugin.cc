// SPDX-License-Identifier: Apache-2.0
#include "runtime/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace treadle::runtime {
namespace {

/// Directory of the library that this code is in.
std::string OwnDirectory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&LoadPlugin), &info) == 0 || info.dli_fname == nullptr) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool Load(const std::string& kind) {
  const bool plain = std::all_of(kind.begin(), kind.end(), [](unsigned char c) { return std::islower(c) || c == '_'; });
  if (!plain) return false;
  const std::string path = OwnDirectory() + "/libtreadle_" + kind + ".so";
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return false;
  auto* entry = reinterpret_cast<void (*)()>(dlsym(handle, "treadle_plugin_register"));
  if (entry == nullptr) return false;
  entry();
  return true;
}

}  // namespace

bool LoadPlugin(const std::string& kind) {
  static std::recursive_mutex mutex;  // recursive: registering may ask for devices
  static auto* found = new std::map<std::string, bool>();
  std::lock_guard<std::recursive_mutex> lock(mutex);
  auto [it, inserted] = found->emplace(kind, false);
  if (inserted) it->second = Load(kind);
  return it->second;
}

}  // namespace treadle::runtime
