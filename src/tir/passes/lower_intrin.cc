// SPDX-License-Identifier: Apache-2.0
// Mathematical functions become arithmetic, so that they vectorise and need no library.
#include "tir/passes/math_functions.h"
#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

class IntrinLowerer : public FoldingMutator {
 protected:
  using FoldingMutator::VisitExpr_;

  PrimExpr VisitExpr_(const CallNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const auto* call = result.as<CallNode>();
    if (call == nullptr || call->args.empty()) return result;
    const auto* intrinsic = call->op.as<OpNode>();
    if (intrinsic == nullptr || !call->args[0].dtype().is_floating()) return result;
    const DataType dtype = call->args[0].dtype();
    const std::string name = intrinsic->name.substr(4);
    if (dtype.bits() >= 32) return ExpandMathFunction(name, call->args.ToVector(), result);
    // Narrow floats are computed with as float32.
    const DataType f32 = DataType::Float(32, dtype.lanes());
    std::vector<PrimExpr> wide;
    for (const PrimExpr& arg : call->args) {
      wide.push_back(arg.dtype() == dtype ? Cast(f32, arg) : arg);
    }
    PrimExpr expanded = ExpandMathFunction(name, wide, PrimExpr());
    if (!expanded.defined()) return result;
    return expanded.dtype() == f32 ? PrimExpr(Cast(dtype, expanded)) : expanded;
  }
};

}  // namespace

PrimFunc LowerIntrin(PrimFunc func, const LowerConfig&) {
  Stmt body = IntrinLowerer().Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
