// SPDX-License-Identifier: Apache-2.0
// LabelOps: fused functions get the structural hash of their body, and the layouts that their operators' attributes
// name.
#include <fmt/format.h>

#include "passes/pass_util.h"
#include "treadle/ir/structural.h"
#include "treadle/runtime/reflection.h"

namespace treadle::relay {
namespace {

class Labeler : public ExprMutator {
 public:
  // Attributes change, types don't.
  Expr VisitExpr(const Expr& expr) override { return WithTypeOf(ExprMutator::VisitExpr(expr), expr.get()); }
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const FunctionNode* op) override {
    if (!op->is_primitive()) return ExprMutator::VisitExpr_(op);
    Map<String, ObjectRef> attrs = op->attrs->dict;
    attrs.Set("hash", String(fmt::format("{:016x}", StructuralHash(GetRef<Function>(op)))));
    PostOrderVisit(op->body, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      if (call == nullptr || !call->attrs.defined()) return;
      for (const FieldInfo& field : call->attrs->type_info()->fields) {
        if (field.kind != FieldKind::kString || field.name.find("layout") == std::string::npos) continue;
        const std::string& value = field.Get<std::string>(call->attrs.get());
        // The first operator that says something wins: it is the one nearest to the inputs.
        if (!value.empty() && !attrs.contains(field.name)) attrs.Set(field.name, String(value));
      }
    });
    return Function(op->params, op->body, op->ret_type, op->type_params, DictAttrs(attrs), op->span);
  }
};

}  // namespace

namespace transform {

Pass LabelOps() {
  return MutatorPass<Labeler>({"LabelOps", 1, {"InferType"}, "Labels fused functions with their hash and layouts"});
}

}  // namespace transform
}  // namespace treadle::relay
