// SPDX-License-Identifier: Apache-2.0
// What a Schedule holds: the function, the handles given out, and the steps taken.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "tir/schedule/tree.h"

namespace treadle::tir {

struct ScheduleData {
  explicit ScheduleData(const PrimFunc& func) : state(func) {}

  struct Step {
    std::string name;
    nlohmann::json inputs;   ///< array; handles are {"block": id} or {"loop": id}
    nlohmann::json outputs;  ///< array of handles
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
  void Record(std::string name, nlohmann::json inputs, nlohmann::json outputs = nlohmann::json::array()) {
    // A one-element initialiser list of an object is read as that object.
    if (!inputs.is_array()) inputs = nlohmann::json::array({inputs});
    if (!outputs.is_array()) outputs = nlohmann::json::array({outputs});
    if (name.rfind("get_", 0) != 0) state.UpdateEnclosingRegions();
    steps.push_back({std::move(name), std::move(inputs), std::move(outputs)});
  }

  static nlohmann::json Ref(const BlockRV& block) { return {{"block", block->id}}; }
  static nlohmann::json Ref(const LoopRV& loop) { return {{"loop", loop->id}}; }
  /// Of constants and strings; null for what a trace can't hold (symbolic sizes, objects).
  static nlohmann::json Value(const ObjectRef& value);
};

}  // namespace treadle::tir
