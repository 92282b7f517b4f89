// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/registry.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/builtins.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, PackedFunc> functions;

  static Table& Global() {
    static Table& table = Create();
    return table;
  }

 private:
  static Table& Create() {
    auto* table = new Table();  // never destroyed: functions may be called while the process ends
    ForEachBuiltin([table](const std::string& name, PackedFunc function) { table->functions[name] = function; });
    return *table;
  }
};

}  // namespace

void Registry::Register(const std::string& name, PackedFunc function, bool override) {
  if (!function) throw Error(StrCat("can't register \"", name, "\": the function is null"));
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto [it, inserted] = table.functions.emplace(name, function);
  if (inserted) return;
  if (!override) throw Error(StrCat("a global function \"", name, "\" exists already; pass override to replace it"));
  it->second = std::move(function);
}

PackedFunc Registry::Get(const std::string& name) {
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.functions.find(name);
  return it == table.functions.end() ? PackedFunc(nullptr) : it->second;
}

PackedFunc Registry::Require(const std::string& name) {
  PackedFunc function = Get(name);
  if (function) return function;
  std::string family = name.substr(0, name.rfind('.') + 1), similar;
  for (const std::string& other : ListNames()) {
    if (!family.empty() && other.compare(0, family.size(), family) == 0)
      similar += (similar.empty() ? "" : ", ") + other;
  }
  throw Error(StrCat("no global function \"", name, "\"", similar.empty() ? "" : "; there are: ", similar));
}

bool Registry::Remove(const std::string& name) {
  Table& table = Table::Global();
  PackedFunc removed;  // destroyed after the lock is released: its destructor may call back
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.functions.find(name);
  if (it == table.functions.end()) return false;
  removed = it->second;
  table.functions.erase(it);
  return true;
}

std::vector<std::string> Registry::ListNames() {
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : table.functions) names.push_back(name);
  return names;
}

}  // namespace treadle::runtime
