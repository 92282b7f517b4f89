// SPDX-License-Identifier: Apache-2.0
// What a Schedule holds: the function, the handles given out, and the steps taken.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tir/schedule/tree.h"
#include "treadle/base/json.h"

namespace treadle::tir {

struct ScheduleData {
  explicit ScheduleData(const PrimFunc& func) : state(func) {}

  struct Step {
    std::string name;
    Json inputs;   ///< array; handles are {"block": id} or {"loop": id}
    Json outputs;  ///< array of handles
  };

  ScheduleState state;
  IRModule module;
  GlobalVar var;
  std::map<std::string, BlockRV> blocks;
  std::unordered_map<const VarNode*, LoopRV> loops;
  std::vector<Step> steps;
  int next_block = 0, next_loop = 0;

  BlockRV BlockHandle(const std::string& name) {
    auto it = blocks.find(name);
    if (it != blocks.end()) return it->second;
    auto node = MakeObject<BlockRVNode>();
    node->name = name;
    node->id = next_block++;
    return blocks.emplace(name, BlockRV(ObjectPtr<Object>(node))).first->second;
  }
  LoopRV LoopHandle(const Var& loop_var) {
    auto it = loops.find(loop_var.get());
    if (it != loops.end()) return it->second;
    auto node = MakeObject<LoopRVNode>();
    node->var = loop_var;
    node->id = next_loop++;
    return loops.emplace(loop_var.get(), LoopRV(ObjectPtr<Object>(node))).first->second;
  }
  void Record(std::string name, Json inputs, Json outputs = Json::array()) {
    // A one-element initialiser list of an object is read as that object.
    if (!inputs.is_array()) inputs = Json::array({inputs});
    if (!outputs.is_array()) outputs = Json::array({outputs});
    if (name.rfind("get_", 0) != 0) state.UpdateEnclosingRegions();
    steps.push_back({std::move(name), std::move(inputs), std::move(outputs)});
  }

  static Json Ref(const BlockRV& block) { return {{"block", block->id}}; }
  static Json Ref(const LoopRV& loop) { return {{"loop", loop->id}}; }
  /// Of constants and strings; null for what a trace can't hold (symbolic sizes, objects).
  static Json Value(const ObjectRef& value);
};

}  // namespace treadle::tir
