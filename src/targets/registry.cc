// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "targets/backend.h"
#include "targets/llvm/codegen.h"
#include "targets/register.h"

namespace treadle::targets {
namespace {

std::map<std::string, Backend>& Table() {
  static std::map<std::string, Backend> table;
  return table;
}
std::mutex& TableMutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void RegisterBackend(Backend backend) {
  std::lock_guard<std::mutex> lock(TableMutex());
  const std::string name = backend.name;
  Table()[name] = std::move(backend);
}

void RegisterAllBackends() {
  static std::once_flag once;
  std::call_once(once, [] {
    RegisterCBackend();
    RegisterLLVMBackend();
    RegisterNullBackend();
    RegisterOpenCLBackend();
    RegisterStackVMBackend();
  });
}

const Backend& GetBackend(const std::string& kind) {
  RegisterAllBackends();
  std::lock_guard<std::mutex> lock(TableMutex());
  auto it = Table().find(kind);
  if (it != Table().end()) return it->second;
  std::string known;
  for (const auto& [name, backend] : Table()) known += (known.empty() ? "" : ", ") + name;
  throw TargetError(StrCat("there is no backend for target kind \"", kind, "\"; this build has: ", known));
}

std::vector<std::string> ListBackends() {
  RegisterAllBackends();
  std::lock_guard<std::mutex> lock(TableMutex());
  std::vector<std::string> names;
  for (const auto& [name, backend] : Table()) names.push_back(name);
  return names;
}

}  // namespace treadle::targets
