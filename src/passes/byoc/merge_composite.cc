// SPDX-License-Identifier: Apache-2.0
// MergeComposite: groups of operators that an external code generator takes as one become functions.
#include "passes/pass_util.h"
#include "treadle/relay/byoc.h"

namespace treadle::relay {

DFPattern ToPattern(const OpTree& tree) {
  if (tree.op.empty()) return Wildcard();
  if (tree.op == "constant") return IsConstant();
  std::vector<DFPattern> args;
  for (const OpTree& arg : tree.args) args.push_back(ToPattern(arg));
  return IsOp(tree.op)(args);
}

namespace transform {

Pass MergeComposite(std::vector<CompositePattern> patterns) {
  std::vector<Pass> passes;
  for (const CompositePattern& composite : patterns) {
    const DFPattern pattern = composite.pattern.defined() ? composite.pattern : ToPattern(composite.tree);
    const auto check = [accepts = composite.check](const Expr& root) {
      return !accepts || accepts(root.as<CallNode>());
    };
    const Map<String, ObjectRef> attrs{{attr::kComposite, String(composite.name)}};
    passes.push_back(CreateFunctionPass(
        [pattern, check, attrs](const Function& func, const IRModule&, const PassContext&) {
          return Downcast<Function>(PartitionPattern(pattern, func, attrs, check));
        },
        {"MergeComposite", 0, {"InferType"}, "Groups operators that an external code generator takes as one"}));
  }
  return Sequential(passes, "MergeComposite");
}

}  // namespace transform
}  // namespace treadle::relay
