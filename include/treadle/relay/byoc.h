// SPDX-License-Identifier: Apache-2.0
// What external code generators tell the partitioning passes: which operators they take. (Bring your own codegen.)
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "treadle/ir/op.h"
#include "treadle/ir/transform.h"
#include "treadle/relay/dataflow_pattern.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

/// Whether an external code generator takes this typed call. `reason` receives why not, for reports.
using TargetPredicate = std::function<bool(const CallNode* call, std::string* reason)>;

/// Declares that `compiler` takes calls of operator `op_name` for which the predicate holds (null: all).
void RegisterExternalOp(const std::string& compiler, const std::string& op_name, TargetPredicate predicate = nullptr);
/// Whether `compiler` takes the call of an operator.
bool ExternalOpSupported(const std::string& compiler, const CallNode* call, std::string* reason = nullptr);

/// A tree of operators, as an external code generator takes it for one operator of its own. A leaf without a name
/// stands for any value, "constant" for a constant.
struct OpTree {
  std::string op;
  std::vector<OpTree> args;
};
inline OpTree AnyValue() { return {"", {}}; }
inline OpTree AnyConstant() { return {"constant", {}}; }

/// The tree in the language of patterns.
DFPattern ToPattern(const OpTree& tree);

struct CompositePattern {
  std::string name;  ///< "<compiler>.<operator>"
  OpTree tree;       ///< used where there is no `pattern`
  /// A further condition on the call at the root; null: none.
  std::function<bool(const CallNode* root)> check;
  DFPattern pattern = DFPattern();

  CompositePattern(std::string name, OpTree tree, std::function<bool(const CallNode*)> check = nullptr)
      : name(std::move(name)), tree(std::move(tree)), check(std::move(check)) {}
  CompositePattern(std::string name, DFPattern pattern, std::function<bool(const CallNode*)> check = nullptr)
      : name(std::move(name)), check(std::move(check)), pattern(std::move(pattern)) {}
};

namespace transform {

/// Calls of operators that form one of the patterns (tried in order, each on the whole function) become calls of a
/// function with attributes Composite (the pattern's name) and PartitionedFromPattern. Inner values must have no other
/// use; operands of add and multiply are tried both ways.
treadle::transform::Pass MergeComposite(std::vector<CompositePattern> patterns);

}  // namespace transform

/// Calls of operators in `module` that `compiler` doesn't take, with the reason: one line per operator name.
std::string ExternalRejections(const IRModule& module, const std::string& compiler);

}  // namespace treadle::relay
