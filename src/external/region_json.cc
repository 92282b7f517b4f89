// SPDX-License-Identifier: Apache-2.0
#include "external/region_json.h"

#include "treadle/base/error.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

RegionWriter::RegionWriter(const Region& region) : region_(region), values_(region.nodes.size(), -1) {
  for (RegionNode::Kind kind : {RegionNode::kInput, RegionNode::kConstant}) {
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      const RegionNode& node = region.nodes[i];
      if (node.kind != kind) continue;
      values_[i] = NewValue(node.type);
      if (kind == RegionNode::kConstant) constants_.push_back(StrCat(region.symbol, "_const_", node.index));
    }
  }
}

int RegionWriter::NewValue(const Tensor& type) {
  types_.push_back({{"shape", type.shape}, {"dtype", type.dtype.str()}});
  return static_cast<int>(types_.size()) - 1;
}

int RegionWriter::Step(const Tensor& type, Json step, const std::vector<int>& in) {
  const int out = NewValue(type);
  step["in"] = in;
  step["out"] = out;
  steps_.push_back(std::move(step));
  return out;
}

void RegionWriter::Step(int node, Json step, const std::vector<int>& in) {
  values_[static_cast<size_t>(node)] = Step(region_.nodes[static_cast<size_t>(node)].type, std::move(step), in);
}

Module RegionWriter::Finish(const std::string& kind) {
  RequireRuntime(kind);
  Json outputs = Json::array();
  for (int output : region_.outputs) outputs.push_back(ValueOf(output));
  Json graph{{"values", types_},
             {"inputs", region_.params.size()},
             {"constants", constants_.size()},
             {"steps", steps_},
             {"outputs", outputs}};
  Array<String> constants;
  for (const std::string& name : constants_) constants.push_back(name);
  return runtime::Registry::Require("runtime.module.create_" + kind)(region_.symbol, graph.dump(), constants)
      .As<Module>();
}

void RequireRuntime(const std::string& kind) {
  std::string problem;
  if (runtime::Registry::Get("runtime.module.create_" + kind)) return;
  if (!runtime::LoadRuntimeOfKind(kind, &problem)) {
    throw TargetError(StrCat("its run-time library can't be loaded: ", problem));
  }
}

}  // namespace treadle::external
