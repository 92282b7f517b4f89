// SPDX-License-Identifier: Apache-2.0
// Several implementations of one operator, and the choice among them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

/// What a choice depends on.
struct ImplementationContext {
  const Attrs& attrs;
  const Array<te::Tensor>& inputs;
  const Type& out_type;
  const Target& target;  ///< null where there is none (constant folding)
};

/// One way to compute an operator.
struct Implementation {
  std::string name;  ///< "conv2d.winograd"
  int plevel = 10;   ///< of those that can be used, the one of the highest level is; among equals, the first
  /// Why it can't be used here, or ""; null: it can always be.
  std::function<std::string(const ImplementationContext&)> why_not;
  FTECompute compute;
};

/// What became of one implementation in a choice.
struct ImplementationChoice {
  std::string name;
  int plevel;
  bool chosen;
  std::string reason;
};

/// Adds an implementation besides the operator's own compute, which is called "<operator>.generic" and has level 10.
/// One of the same name is replaced. An operator that doesn't exist is an Error. Thread-safe.
void AddImplementation(const std::string& op_name, Implementation implementation);
/// Takes an added implementation away; false where there is none.
bool RemoveImplementation(const std::string& op_name, const std::string& name);
/// Gives the implementations of a call, those that can't be used with the reason (why_not). Of equal level they come
/// before the operator's own compute.
using FStrategy = std::function<std::vector<Implementation>(const ImplementationContext&)>;
/// Sets an operator's strategy; null takes it away. An operator that doesn't exist is an Error. Thread-safe.
void SetStrategy(const std::string& op_name, FStrategy strategy);
/// Whether any were added: what is compiled then depends on more than the compiler.
bool HasAddedImplementations();

/// The compute to use for a call of `op`; null where the operator has none. `choices`, where it isn't null, receives
/// all implementations and why each was chosen or not.
FTECompute SelectImplementation(const Op& op, const ImplementationContext& context,
                                std::vector<ImplementationChoice>* choices = nullptr);

}  // namespace treadle::ops
