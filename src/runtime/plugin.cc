// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

struct PluginTable {
  std::recursive_mutex mutex;  // registering a plug-in may load another
  std::map<void*, std::string> names;
  static PluginTable& Global() {
    static auto* table = new PluginTable();
    return *table;
  }
};

std::vector<std::string> SearchDirectories() {
  std::vector<std::string> directories;
  if (const char* text = std::getenv("TREADLE_PLUGIN_PATH")) {
    std::string path = text;
    for (size_t begin = 0; begin <= path.size();) {
      size_t end = std::min(path.find(':', begin), path.size());
      if (end > begin) directories.push_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  directories.push_back(RuntimeDirectory());
  return directories;
}

}  // namespace

std::string RuntimeDirectory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&RuntimeDirectory), &info) == 0 || info.dli_fname == nullptr) return ".";
  std::string file = info.dli_fname;
  size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

std::string LoadPluginFile(const std::string& path) {
  PluginTable& table = PluginTable::Global();
  std::lock_guard<std::recursive_mutex> lock(table.mutex);
  // A name without a slash would be looked up in the system's directories.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    throw TargetError(StrCat("can't load plug-in ", path, ": ", reason != nullptr ? reason : "unknown reason"));
  }
  auto known = table.names.find(handle);
  if (known != table.names.end()) return known->second;
  auto entry = reinterpret_cast<const PluginInfo* (*)()>(dlsym(handle, "treadle_plugin"));
  if (entry == nullptr) {
    dlclose(handle);
    throw TargetError(StrCat(path, " isn't a plug-in: it doesn't define treadle_plugin (TREADLE_PLUGIN)"));
  }
  const PluginInfo* info = entry();
  if (info == nullptr || info->abi != kPluginAbi) {
    const int abi = info == nullptr ? 0 : info->abi;
    dlclose(handle);
    throw TargetError(StrCat("plug-in ", path, " was compiled against other headers (interface ", abi, ", this is ",
                             kPluginAbi, "); compile it again"));
  }
  const std::string name = info->name;
  table.names.emplace(handle, name);  // before: what registers may ask for what it brings
  try {
    info->register_all();
  } catch (const std::exception& error) {
    // What it registered before it failed may point into its code: the library stays.
    table.names.erase(handle);
    throw TargetError(StrCat("plug-in '", name, "' (", path, ") failed to register: ", error.what()));
  } catch (...) {
    table.names.erase(handle);
    throw TargetError(StrCat("plug-in '", name, "' (", path, ") failed to register: an exception of another type"));
  }
  return name;
}

bool LoadRuntimeOfKind(const std::string& kind, std::string* problem) {
  for (char c : kind) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') {
      *problem = "no library can have that name";
      return false;
    }
  }
  const std::string name = "libtreadle_" + kind + ".so";
  *problem = StrCat("there is no ", name, " beside the runtime or in TREADLE_PLUGIN_PATH");
  for (const std::string& directory : SearchDirectories()) {
    const std::string path = directory + "/" + name;
    if (access(path.c_str(), F_OK) != 0) continue;
    try {
      LoadPluginFile(path);
      return true;
    } catch (const Error& error) {
      *problem = error.what();
      return false;
    }
  }
  return false;
}

}  // namespace treadle::runtime
