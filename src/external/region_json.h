// SPDX-License-Identifier: Apache-2.0
// Regions as JSON, for code generators whose run time interprets a list of steps.
//
//   {"values": [{"shape": [..], "dtype": "float32"}, ..],   inputs first, then constants, then results of steps
//    "inputs": n, "constants": m,
//    "steps": [{"op": name, "in": [value, ..], "out": value, further attributes}, ..],
//    "outputs": [value, ..]}
#pragma once

#include <string>
#include <vector>

#include "treadle/base/json.h"
#include "treadle/external/codegen.h"
#include "treadle/external/region.h"

namespace treadle::external {

class RegionWriter {
 public:
  /// Declares the inputs and constants of the region.
  explicit RegionWriter(const Region& region);
  /// The value of a node that is there already.
  int ValueOf(int node) const { return values_.at(static_cast<size_t>(node)); }
  /// Adds a step (without "in" and "out") whose result is that of `node`.
  void Step(int node, Json step, const std::vector<int>& in);
  /// Adds a step whose result is no node; returns its value.
  int Step(const Tensor& type, Json step, const std::vector<int>& in);
  /// The module of that kind, through runtime.module.create_<kind>, whose library is loaded where needed.
  Module Finish(const std::string& kind);

 private:
  int NewValue(const Tensor& type);
  const Region& region_;
  std::vector<int> values_;  ///< by node
  std::vector<std::string> constants_;
  Json types_ = Json::array(), steps_ = Json::array();
};

/// Throws TargetError when modules of that kind can't be made here.
void RequireRuntime(const std::string& kind);

}  // namespace treadle::external
