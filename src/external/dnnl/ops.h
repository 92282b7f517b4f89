// SPDX-License-Identifier: Apache-2.0
// What oneDNN takes, and how single operators are written as steps for its run time (external/dnnl/runtime/plan.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "external/region_json.h"

namespace treadle::external::dnnl {

/// Operators with their predicates.
std::vector<std::pair<std::string, relay::TargetPredicate>> Operators();

/// Convolutions and products of matrices: additions and activations may follow in the same primitive.
bool IsAnchor(const RegionNode& node);
/// Operators that only move elements.
bool MovesOnly(const std::string& op);

/// y = f(x) of one operand as {"alg", "alpha", "beta"}: activations and arithmetic with a number. `x`: the node of the
/// operand. Nothing when the operator isn't one.
struct Eltwise {
  int x;
  std::string alg;
  double alpha = 0, beta = 0;
  Json ToJson() const { return {{"kind", "eltwise"}, {"alg", alg}, {"alpha", alpha}, {"beta", beta}}; }
};
std::optional<Eltwise> AsEltwise(const Region& region, int node);

/// A node as one step: its attributes and the nodes that it reads. Throws Error for an operator that it doesn't know.
Json StepOf(const Region& region, int node, std::vector<int>* in);

}  // namespace treadle::external::dnnl
