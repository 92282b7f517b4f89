// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/implementation.h"

#include <atomic>
#include <map>
#include <mutex>

namespace treadle::ops {
namespace {

constexpr int kDefaultLevel = 10;

struct Table {
  std::mutex mutex;
  std::map<std::string, std::vector<Implementation>> by_op;
  std::map<std::string, FStrategy> strategies;
  std::atomic<bool> any{false};  ///< so that the usual case takes no lock
  static Table& Global() {
    static auto* table = new Table();
    return *table;
  }
};

std::vector<Implementation> AddedFor(const std::string& op_name) {
  Table& table = Table::Global();
  if (!table.any) return {};
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.by_op.find(op_name);
  return it == table.by_op.end() ? std::vector<Implementation>() : it->second;
}

FStrategy StrategyOf(const std::string& op_name) {
  Table& table = Table::Global();
  if (!table.any) return nullptr;
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.strategies.find(op_name);
  return it == table.strategies.end() ? FStrategy() : it->second;
}

}  // namespace

void SetStrategy(const std::string& op_name, FStrategy strategy) {
  Op::Get(op_name);  // throws when there is no such operator
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (strategy) {
    table.strategies[op_name] = std::move(strategy);
  } else {
    table.strategies.erase(op_name);
  }
  table.any = !table.by_op.empty() || !table.strategies.empty();
}

void AddImplementation(const std::string& op_name, Implementation implementation) {
  Op::Get(op_name);  // throws when there is no such operator
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto& list = table.by_op[op_name];
  std::erase_if(list, [&](const Implementation& other) { return other.name == implementation.name; });
  list.push_back(std::move(implementation));
  table.any = true;
}

bool RemoveImplementation(const std::string& op_name, const std::string& name) {
  Table& table = Table::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.by_op.find(op_name);
  if (it == table.by_op.end()) return false;
  const bool removed = std::erase_if(it->second, [&](const Implementation& i) { return i.name == name; }) != 0;
  if (it->second.empty()) table.by_op.erase(it);
  table.any = !table.by_op.empty() || !table.strategies.empty();
  return removed;
}

bool HasAddedImplementations() { return Table::Global().any; }

FTECompute SelectImplementation(const Op& op, const ImplementationContext& context,
                                std::vector<ImplementationChoice>* choices) {
  std::vector<Implementation> candidates;
  if (const FStrategy strategy = StrategyOf(op->name)) candidates = strategy(context);
  if (const FTECompute* own = op.GetAttr(kCompute)) {
    candidates.push_back({op->name + ".generic", kDefaultLevel, nullptr, *own});
  }
  for (Implementation& added : AddedFor(op->name)) candidates.push_back(std::move(added));
  int best = -1;
  std::vector<std::string> reasons(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].why_not) reasons[i] = candidates[i].why_not(context);
    if (!reasons[i].empty()) continue;
    if (best < 0 || candidates[i].plevel > candidates[static_cast<size_t>(best)].plevel) best = static_cast<int>(i);
  }
  for (size_t i = 0; choices != nullptr && i < candidates.size(); ++i) {
    const bool chosen = static_cast<int>(i) == best;
    std::string reason = reasons[i];
    if (chosen) {
      reason = candidates.size() == 1 ? "the only one" : "of the highest level among those that can be used";
    } else if (reason.empty()) {
      reason = "another has a higher level, or comes first";
    }
    choices->push_back({candidates[i].name, candidates[i].plevel, chosen, reason});
  }
  return best < 0 ? FTECompute() : candidates[static_cast<size_t>(best)].compute;
}

}  // namespace treadle::ops
