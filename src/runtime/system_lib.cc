// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/system_lib.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/builtins.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/packed_func.h"

namespace treadle::runtime {
namespace {

/// Constructors of objects fill it before main: it must not wait for constructors of its own.
struct SystemLib {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<void*>> functions;  ///< those of a name, the newest last
  static SystemLib& Global() {
    static auto* lib = new SystemLib();
    return *lib;
  }
};

class SystemLibModuleNode final : public ModuleNode {
 public:
  explicit SystemLibModuleNode(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string module_type() const override { return "system_lib"; }
  PackedFunc GetFunction(const std::string& name) const override {
    SystemLib& lib = SystemLib::Global();
    std::lock_guard<std::mutex> lock(lib.mutex);
    auto it = lib.functions.find(prefix_ + name);
    if (it == lib.functions.end()) return nullptr;
    return PackedFunc::FromC(reinterpret_cast<TreadlePackedCFunc>(it->second.back()), nullptr, GetRef<Module>(this),
                             name);
  }

 private:
  std::string prefix_;
};

}  // namespace

void AddSystemLibFunctions(const AddBuiltin& add) {
  add("runtime.SystemLib", PackedFunc::FromTyped([](std::string prefix) {
        return Module(MakeObject<SystemLibModuleNode>(std::move(prefix)));
      }));
}

}  // namespace treadle::runtime

using treadle::runtime::SystemLib;

extern "C" {

void TreadleBackendRegisterSystemLibSymbol(const char* name, void* function) {
  SystemLib& lib = SystemLib::Global();
  std::lock_guard<std::mutex> lock(lib.mutex);
  lib.functions[name].push_back(function);
}

void TreadleBackendForgetSystemLibSymbol(const char* name, void* function) {
  SystemLib& lib = SystemLib::Global();
  std::lock_guard<std::mutex> lock(lib.mutex);
  auto it = lib.functions.find(name);
  if (it == lib.functions.end()) return;
  std::erase(it->second, function);
  if (it->second.empty()) lib.functions.erase(it);
}

}  // extern "C"
