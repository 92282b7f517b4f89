// SPDX-License-Identifier: Apache-2.0
// First-order gradients of data flow by reverse accumulation. The rule of each operator (ops::kGradient) gives the
// gradients of its arguments from that of its result.
#include <algorithm>

#include "passes/pass_util.h"
#include "treadle/ops/gradient.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

/// A gradient of a value: of a tensor, or one for each field of a tuple. Undefined: none flowed there.
struct Grad {
  Expr tensor;
  std::vector<Grad> fields;

  bool defined() const {
    return tensor.defined() || std::any_of(fields.begin(), fields.end(), [](const Grad& g) { return g.defined(); });
  }
  void Include(const Grad& other) {
    if (other.tensor.defined()) tensor = tensor.defined() ? ops::CallOp("add", {tensor, other.tensor}) : other.tensor;
    if (fields.size() < other.fields.size()) fields.resize(other.fields.size());
    for (size_t i = 0; i < other.fields.size(); ++i) fields[i].Include(other.fields[i]);
  }
  /// As an expression of that type, zero where none flowed.
  Expr ToExpr(const Type& type) const {
    if (const auto* tuple = type.as<TupleTypeNode>()) {
      Array<Expr> parts;
      for (size_t i = 0; i < tuple->fields.size(); ++i) {
        parts.push_back((i < fields.size() ? fields[i] : Grad()).ToExpr(tuple->fields[i]));
      }
      return Tuple(parts);
    }
    if (tensor.defined()) return tensor;
    const auto* known = type.as<TensorTypeNode>();
    if (known == nullptr) throw Error(StrCat("Gradient: a value of type ", type->type_key(), " has no gradient"));
    return ops::MakeZeros(known->shape, known->dtype);
  }
};

class Accumulator {
 public:
  explicit Accumulator(const Function& func) : func_(func) {}

  Function Run() {
    std::vector<Expr> order;
    PostOrderVisit(func_->body, [&](const Expr& e) { order.push_back(e); });
    if (TensorTypeOf(func_->body) == nullptr) throw Error("Gradient: the function's result must be one tensor");
    grads_[Key(func_->body)].tensor = ops::CallOp("ones_like", {func_->body});
    for (size_t i = order.size(); i-- > 0;) {
      auto it = grads_.find(Key(order[i]));
      if (it != grads_.end() && it->second.defined()) Spread(order[i], it->second);
    }
    Array<Expr> results;
    for (const Var& param : func_->params) {
      const auto it = grads_.find(Key(param));
      if (it == grads_.end() && TensorTypeOf(param) != nullptr) {
        results.push_back(ops::CallOp("zeros_like", {param}));
      } else {
        results.push_back((it == grads_.end() ? Grad() : it->second).ToExpr(param->checked_type()));
      }
    }
    return Function(func_->params, Tuple({func_->body, Tuple(results)}), Type(), func_->type_params, func_->attrs,
                    func_->span);
  }

 private:
  static const Object* Key(const Expr& e) {
    const auto* var = e.as<VarNode>();
    return var != nullptr ? static_cast<const Object*>(var->vid.get()) : e.get();
  }
  /// What a rule gives for an argument: an expression, a tuple of them for a tuple.
  static Grad FromExpr(const Expr& expr) {
    Grad grad;
    const auto* tuple = expr.defined() ? expr.as<TupleNode>() : nullptr;
    if (tuple == nullptr) {
      grad.tensor = expr;
    } else {
      for (const Expr& field : tuple->fields) grad.fields.push_back(FromExpr(field));
    }
    return grad;
  }

  // Rules make expressions that hold parts of `grad`, a copy: what is reached may be added to meanwhile.
  void Spread(const Expr& expr, const Grad grad) {
    if (expr.as<VarNode>() || expr.as<ConstantNode>()) return;
    if (const auto* tuple = expr.as<TupleNode>()) {
      for (size_t i = 0; i < grad.fields.size(); ++i) grads_[Key(tuple->fields[i])].Include(grad.fields[i]);
      return;
    }
    if (const auto* item = expr.as<TupleGetItemNode>()) {
      Grad& whole = grads_[Key(item->tuple)];
      const auto index = static_cast<size_t>(item->index);
      if (whole.fields.size() <= index) whole.fields.resize(index + 1);
      whole.fields[index].Include(grad);
      return;
    }
    const auto* call = expr.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) {
      throw Error(StrCat("Gradient: ", expr->span.defined() ? expr->span.str() + ": " : "",
                         "only data flow of operators can be differentiated, not ", expr->type_key()));
    }
    const auto* type = call->type_as<TensorTypeNode>();
    const auto* rule = Downcast<Op>(call->op).GetAttr(ops::kGradient);
    if (rule == nullptr && type != nullptr && type->dtype.is_integral()) return;
    if (rule == nullptr) throw UnsupportedOpError(StrCat("Gradient: no rule for operator '", OpName(call), "'"), {});
    ops::GradientSite site{call, grad.tensor, {}};
    for (const Grad& field : grad.fields) site.grads.push_back(field.tensor);
    std::vector<Expr> grads = (*rule)(site);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) grads_[Key(call->args[i])].Include(FromExpr(grads[i]));
    }
  }

  Function func_;
  std::unordered_map<const Object*, Grad> grads_;
};

/// Data flow of operators that have rules: lets are gone, normalisations are arithmetic.
Function Prepare(const Function& func) {
  IRModule module = transform::ToGraphNormalForm()(IRModule::FromExpr(func));
  return Downcast<Function>(transform::SimplifyInference()(module)->Lookup("main"));
}

}  // namespace

Function Gradient(const Function& func) { return Downcast<Function>(InferType(Accumulator(Prepare(func)).Run())); }

namespace transform {

Pass FirstOrderGradient() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) { return Accumulator(Prepare(func)).Run(); },
      {"FirstOrderGradient", 0, {"InferType"}, "Replaces each function by that of its value and gradients"});
}

}  // namespace transform
}  // namespace treadle::relay
