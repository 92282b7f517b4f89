// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/equal_sizes.h"

#include <algorithm>

#include "treadle/arith/analyzer.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {

namespace {

using relay::CallNode;
using relay::Expr;

/// Variables of a kernel that stand for sizes which are taken to be others of its sizes.
class EqualSizes {
 public:
  /// All sizes are equal.
  void Add(const std::vector<PrimExpr>& sizes) {
    std::vector<PrimExpr> parts;
    for (const PrimExpr& size : sizes) parts.push_back(Replaced(size));
    // One that isn't a variable can't be replaced.
    const auto fixed = std::find_if(parts.begin(), parts.end(),
                                    [](const PrimExpr& part) { return part.as<tir::VarNode>() == nullptr; });
    const PrimExpr kept = fixed == parts.end() ? parts[0] : *fixed;
    for (const PrimExpr& part : parts) {
      const auto* var = part.as<tir::VarNode>();
      if (var == nullptr || part.same_as(kept)) continue;
      if (arith::UsesVar(kept, [&](const tir::VarNode* used) { return used == var; })) continue;
      const Array<tir::Var> replaced{GetRef<tir::Var>(var)};
      if (std::any_of(variables.begin(), variables.end(), [&](const tir::Var& known) { return known.get() == var; }))
        continue;
      for (PrimExpr& value : values) value = SubstituteDims(value, replaced, {kept});
      variables.push_back(replaced[0]);
      values.push_back(kept);
    }
  }
  PrimExpr Replaced(const PrimExpr& size) const { return SubstituteDims(size, variables, values); }

  Array<tir::Var> variables;
  std::vector<PrimExpr> values;
};

/// Finds broadcasts in expressions of sizes.
class BroadcastFinder : public tir::ExprVisitor {
 public:
  explicit BroadcastFinder(EqualSizes* found) : found_(found) {}
  using tir::ExprVisitor::VisitExpr_;
  void VisitExpr_(const tir::SelectNode* op) override {
    std::vector<PrimExpr> parts;
    CollectBroadcast(GetRef<PrimExpr>(op), &parts);
    if (parts.size() > 1) return found_->Add(parts);
    ExprVisitor::VisitExpr_(op);
  }

 private:
  EqualSizes* found_;
};

Type ReplacedType(const Type& type, const EqualSizes& sizes) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    return TupleType(tuple->fields.Map([&](const Type& field) { return ReplacedType(field, sizes); }));
  }
  const auto* tensor = type.as<TensorTypeNode>();
  return TensorType(tensor->shape.Map([&](const PrimExpr& dim) { return sizes.Replaced(dim); }), tensor->dtype);
}

}  // namespace

std::optional<SizeForm> FormForEqualSizes(const SymbolicKernel& kernel, arith::Analyzer* analyzer) {
  EqualSizes sizes;
  BroadcastFinder finder(&sizes);
  bool by_values = false;
  relay::PostOrderVisit(kernel.func->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr) return;
    by_values =
        by_values || call->op.as<OpNode>() == nullptr || Downcast<Op>(call->op).GetAttr(kDataDependentShape, false);
    std::vector<TensorType> tensors;
    FlattenTensorTypes(e->checked_type(), &tensors);
    for (const TensorType& tensor : tensors) {
      for (const PrimExpr& dim : tensor->shape) {
        if (AsConstInt(dim) == nullptr) finder(dim);
      }
    }
  });
  if (by_values || sizes.variables.empty()) return std::nullopt;
  Array<Type> types;
  for (const relay::Var& param : kernel.func->params) types.push_back(ReplacedType(param->type_annotation, sizes));
  const auto no_element = [](size_t, int64_t) -> PrimExpr {
    throw InternalError("internal error: the shape of a kernel for equal sizes depends on values");
  };
  SizeForm form{MakeSymbolicKernel(kernel.func, types, no_element, analyzer), {}};
  for (size_t i = 0; i < sizes.values.size(); ++i) {
    const auto in_caller = [&](const PrimExpr& size) { return SubstituteDims(size, kernel.variables, kernel.values); };
    const PrimExpr equal = tir::equal(in_caller(sizes.variables[i]), in_caller(sizes.values[i]));
    form.condition = form.condition.defined() ? tir::And(form.condition, equal) : equal;
  }
  return form;
}

}  // namespace treadle::driver
