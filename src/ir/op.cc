// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/op.h"

#include <algorithm>
#include <mutex>

#include "treadle/base/suggest.h"

namespace treadle {

TREADLE_DEFINE_NODE(OpNode);

namespace {

struct OpTable {
  std::mutex mutex;
  std::map<std::string, Op> ops;

  static OpTable& Global() {
    static auto* table = new OpTable();
    return *table;
  }
};

}  // namespace

const Op& Op::Get(const std::string& name) {
  OpTable& table = OpTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.ops.find(name);
  if (it != table.ops.end()) return it->second;
  std::vector<std::string> names;
  for (const auto& [known, op] : table.ops) names.push_back(known);
  throw Error(StrCat("unknown operator '", name, "'", DidYouMean(name, names)));
}

Op Op::Find(const std::string& name) {
  OpTable& table = OpTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.ops.find(name);
  return it == table.ops.end() ? Op() : it->second;
}

std::vector<std::string> Op::ListNames() {
  OpTable& table = OpTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  std::vector<std::string> names;
  for (const auto& [name, op] : table.ops) names.push_back(name);
  return names;
}

OpRegistration::OpRegistration(const std::string& name) {
  OpTable& table = OpTable::Global();
  std::lock_guard<std::mutex> lock(table.mutex);
  auto it = table.ops.find(name);
  if (it == table.ops.end()) {
    auto node = MakeObject<OpNode>();
    node->name = name;
    it = table.ops.emplace(name, Op(ObjectPtr<Object>(node))).first;
  }
  node_ = const_cast<OpNode*>(it->second.get());
}

OpRegistration& OpRegistration::Describe(std::string text) {
  node_->description = std::move(text);
  return *this;
}
OpRegistration& OpRegistration::Arguments(std::vector<OpArgument> arguments) {
  node_->num_inputs = static_cast<int>(arguments.size());
  node_->arguments = std::move(arguments);
  return *this;
}
OpRegistration& OpRegistration::NumInputs(int n) {
  node_->num_inputs = n;
  return *this;
}
OpRegistration& OpRegistration::SupportLevel(int level) {
  node_->support_level = level;
  return *this;
}
OpRegistration& OpRegistration::Relation(TypeRelationFn relation) {
  node_->type_relation = relation;
  return *this;
}

}  // namespace treadle
