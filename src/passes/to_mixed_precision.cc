// SPDX-License-Identifier: Apache-2.0
// ToMixedPrecision: computes in a narrower float what tolerates it. Inputs and results of the function keep their
// types; a value exists at most once per type.
#include <map>
#include <set>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/traits.h"

namespace treadle::relay {
namespace {

/// Sums of many terms and functions that leave the narrow range stay wide.
MixedPrecisionKind KindOf(const Op& op, int missing_op_mode) {
  if (const auto kind = ops::MixedPrecisionRuleOf(op)) return *kind;
  const OpPatternKind pattern = op.GetAttr(kOpPattern, OpPatternKind::kOpaque);
  if (missing_op_mode == 0) throw Error(StrCat("ToMixedPrecision has no rule for operator '", op->name, "'"));
  return missing_op_mode == 1 && pattern <= OpPatternKind::kCommReduce ? MixedPrecisionKind::kFollow
                                                                       : MixedPrecisionKind::kNever;
}

class PrecisionMutator : public ExprMutator {
 public:
  PrecisionMutator(DataType narrow, int missing_op_mode) : narrow_(narrow), missing_op_mode_(missing_op_mode) {}

 private:
  using ExprMutator::VisitExpr_;
  static constexpr DataType Wide() { return DataType::Float(32); }

  /// Whether the rewritten value is narrow where the original was float32.
  bool IsNarrow(const Expr& old) const { return is_narrow_.count(old.get()) != 0; }
  static bool IsWideTensor(const Expr& e) {
    const auto* type = TensorTypeOf(e);
    return type != nullptr && type->dtype == Wide();
  }

  Expr As(const Expr& old, bool narrow) {
    Expr value = Mutate(old);
    if (!IsWideTensor(old) || IsNarrow(old) == narrow) {
      const auto* tuple = old.as<TupleNode>();
      if (tuple == nullptr) return value;
      Array<Expr> fields = tuple->fields.Map([&](const Expr& f) { return As(f, narrow); });
      return fields.same_as(tuple->fields) ? old : Tuple(fields, old->span);
    }
    Expr& cast = casts_[{old.get(), narrow}];
    if (!cast.defined()) cast = ops::MakeCast(value, narrow ? narrow_ : Wide());
    return cast;
  }

  bool AllNarrow(const Array<Expr>& args) {
    bool any = false;
    for (const Expr& arg : args) {
      if (const auto* tuple = arg.as<TupleNode>()) {
        if (!AllNarrow(tuple->fields)) return false;
        any = true;
        continue;
      }
      if (!IsWideTensor(arg)) continue;
      if (arg.as<ConstantNode>()) continue;
      Mutate(arg);
      if (!IsNarrow(arg)) return false;
      any = true;
    }
    return any;
  }

  Expr VisitExpr_(const CallNode* call) override {
    const auto* callee = call->op.as<OpNode>();
    if (callee == nullptr) {
      Array<Expr> args = call->args.Map([this](const Expr& arg) { return As(arg, false); });
      Expr op = Mutate(call->op);
      if (op.same_as(call->op) && args.same_as(call->args)) return GetRef<Expr>(call);
      return Call(op, args, call->attrs, call->type_args, call->span);
    }
    MixedPrecisionKind kind = KindOf(GetRef<Op>(callee), missing_op_mode_);
    bool narrow = kind == MixedPrecisionKind::kAlways || (kind == MixedPrecisionKind::kFollow && AllNarrow(call->args));
    if (!IsWideTensor(GetRef<Expr>(call)) || callee->name == "cast") narrow = false;
    if (callee->name.compare(0, 11, "annotation.") == 0) narrow = false;
    // An explicit output type asks for exactly that.
    if (const auto* conv = call->attrs.as<ops::ConvAttrs>()) narrow = narrow && !(conv->out_dtype == Wide());
    if (const auto* dense = call->attrs.as<ops::DenseAttrs>()) narrow = narrow && !(dense->out_dtype == Wide());
    Array<Expr> args = call->args.Map([&](const Expr& arg) { return As(arg, narrow); });
    if (narrow) is_narrow_.insert(call);
    if (args.same_as(call->args)) return GetRef<Expr>(call);
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }
  // Everything that isn't a call of an operator sees the original types.
  Expr VisitExpr_(const TupleNode* op) override {
    Array<Expr> fields = op->fields.Map([this](const Expr& f) { return As(f, false); });
    return fields.same_as(op->fields) ? GetRef<Expr>(op) : Tuple(fields, op->span);
  }
  Expr VisitExpr_(const FunctionNode* op) override {
    if (op->is_primitive()) return GetRef<Expr>(op);
    return WithBody(GetRef<Function>(op), As(op->body, false));
  }
  Expr VisitExpr_(const LetNode* op) override {
    std::vector<std::pair<const LetNode*, Expr>> chain;
    Expr rest = GetRef<Expr>(op);
    while (const auto* let = rest.as<LetNode>()) {
      chain.emplace_back(let, As(let->value, false));
      rest = let->body;
    }
    Expr result = As(rest, false);
    for (size_t i = chain.size(); i-- > 0;) {
      result = Let(chain[i].first->var, chain[i].second, result, chain[i].first->span);
    }
    return result;
  }
  Expr VisitExpr_(const IfNode* op) override {
    return If(Mutate(op->cond), As(op->true_branch, false), As(op->false_branch, false), op->span);
  }
  Clause VisitClause(const Clause& clause) override { return Clause(clause->lhs, As(clause->rhs, false)); }
  Expr VisitExpr_(const RefCreateNode* op) override { return RefCreate(As(op->value, false), op->span); }
  Expr VisitExpr_(const RefWriteNode* op) override { return RefWrite(Mutate(op->ref), As(op->value, false), op->span); }

  DataType narrow_;
  int missing_op_mode_;
  std::set<const Object*> is_narrow_;
  std::map<std::pair<const Object*, bool>, Expr> casts_;
};

}  // namespace

namespace transform {

Pass ToMixedPrecision(std::string mixed_type, int missing_op_mode) {
  if (mixed_type != "float16" && mixed_type != "bfloat16") {
    throw Error(StrCat("ToMixedPrecision computes in float16 or bfloat16, not in '", mixed_type, "'"));
  }
  DataType narrow = mixed_type == "float16" ? DataType::Float(16) : DataType::BFloat(16);
  return CreateFunctionPass(
      [narrow, missing_op_mode](const Function& func, const IRModule&, const PassContext&) {
        return Downcast<Function>(PrecisionMutator(narrow, missing_op_mode).Mutate(func));
      },
      {"ToMixedPrecision", 0, {"InferType"}, "Computes in a narrower float what tolerates it"});
}

}  // namespace transform
}  // namespace treadle::relay
