// SPDX-License-Identifier: Apache-2.0
// First-order gradients of data flow by reverse accumulation. One rule per operator gives the gradients of its
// arguments from that of its result.
#include <algorithm>

#include "passes/gradient_rules.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using namespace gradient;  // NOLINT(google-build-using-namespace): rules read best with bare names

/// The gradient of an operand that was broadcast: summed over what was repeated.
Expr Collapse(const Site& s, const Expr& grad, size_t i) {
  if (ShapesEqual(s.type(i)->shape, s.call->type_as<TensorTypeNode>()->shape)) return grad;
  return CallOp("collapse_sum_like", {grad, s.arg(i)});
}

/// The axes that a reduction removes or sets to 1, in order.
std::vector<int64_t> ReducedAxes(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::ReduceAttrs>();
  size_t rank = s.type(0)->shape.size();
  std::vector<bool> listed(rank, !attrs->axis);
  if (attrs->axis) {
    for (int64_t axis : *attrs->axis) listed[static_cast<size_t>(PositiveAxis(static_cast<int>(axis), rank))] = true;
  }
  std::vector<int64_t> axes;
  for (size_t i = 0; i < rank; ++i) {
    if (listed[i] != (attrs->exclude && attrs->axis.has_value())) axes.push_back(static_cast<int64_t>(i));
  }
  return axes;
}

/// `reduced` (the result or its gradient) with the shape that broadcasts against the operand.
Expr KeepDims(const Site& s, Expr reduced) {
  if (s.call->attrs_as<ops::ReduceAttrs>()->keepdims) return reduced;
  for (int64_t axis : ReducedAxes(s)) reduced = ops::MakeExpandDims(reduced, static_cast<int>(axis));
  return reduced;
}

Expr SumGradient(const Site& s) { return Mul(KeepDims(s, s.grad), OnesLike(s.arg(0))); }

double ReducedElements(const Site& s) {
  double count = 1;
  for (int64_t axis : ReducedAxes(s)) {
    const int64_t* dim = AsConstInt(s.type(0)->shape[static_cast<size_t>(axis)]);
    if (dim == nullptr) throw ShapeError("gradient of mean over a dimension of unknown size");
    count *= static_cast<double>(*dim);
  }
  return count;
}

/// max and min: shared by the elements that have the value.
std::vector<Expr> ExtremeGradient(const Site& s) {
  Expr chosen = ops::MakeCast(CallOp("equal", {s.arg(0), KeepDims(s, s.result())}), s.type(0)->dtype);
  Expr count = ops::MakeReduce("sum", chosen, ReducedAxes(s), true);
  return {Mul(Div(chosen, count), KeepDims(s, s.grad))};
}

/// variance(data, mean)
std::vector<Expr> VarianceGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::VarianceAttrs>();
  Expr step = Mul(KeepDims(s, s.grad), Scalar(s, 2 / (ReducedElements(s) - (attrs->unbiased ? 1 : 0))));
  Expr to_data = Mul(Sub(s.arg(0), s.arg(1)), step);
  return {to_data, CallOp("collapse_sum_like", {Neg(to_data), s.arg(1)})};
}

std::vector<Expr> MatmulGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::MatmulAttrs>();
  if (s.type(0)->shape.size() != 2) throw ShapeError("the gradient of nn.matmul needs matrices");
  auto product = [](Expr a, Expr b, bool transpose_a, bool transpose_b) {
    if (transpose_a) a = ops::MakeTranspose(a, {1, 0});
    if (!transpose_b) b = ops::MakeTranspose(b, {1, 0});
    return ops::MakeDense(a, b);
  };
  const bool a = attrs->transpose_a, b = attrs->transpose_b;
  return {a ? product(s.arg(1), s.grad, b, true) : product(s.grad, s.arg(1), false, !b),
          b ? product(s.grad, s.arg(0), true, a) : product(s.arg(0), s.grad, !a, false)};
}

/// prelu(data, alpha): alpha runs along one axis.
std::vector<Expr> PReluGradient(const Site& s) {
  const size_t rank = s.type(0)->shape.size();
  const int64_t axis = PositiveAxis(s.call->attrs_as<ops::PReluAttrs>()->axis, rank);
  std::vector<int64_t> shape(rank, 1);
  shape[static_cast<size_t>(axis)] = Dim(s.type(1), 0);
  Expr zero = Scalar(s, 0);
  Expr positive = CallOp("greater", {s.arg(0), zero});
  Expr to_data = CallOp("where", {positive, s.grad, Mul(s.grad, ops::MakeReshape(s.arg(1), shape))});
  Expr to_alpha = Mul(s.grad, CallOp("minimum", {s.arg(0), zero}));
  return {to_data, ops::MakeReduce("sum", to_alpha, std::vector<int64_t>{axis}, false, /*exclude=*/true)};
}

std::vector<Expr> DenseGradient(const Site& s) {
  if (s.type(0)->shape.size() != 2) throw ShapeError("the gradient of nn.dense needs a matrix as data");
  // data (m, k), weight (n, k), grad (m, n)
  Expr transposed = ops::MakeTranspose(s.grad, {1, 0});
  return {ops::MakeDense(s.grad, ops::MakeTranspose(s.arg(1), {1, 0})),
          ops::MakeDense(transposed, ops::MakeTranspose(s.arg(0), {1, 0}))};
}

std::vector<Expr> BatchMatmulGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::BatchMatmulAttrs>();
  if (attrs->transpose_a || !attrs->transpose_b) {
    throw Error("the gradient of nn.batch_matmul is implemented for transpose_a=False, transpose_b=True");
  }
  auto product = [](const Expr& a, const Expr& b) { return CallOp("nn.batch_matmul", {a, b}); };
  auto swap = [](const Expr& e) { return ops::MakeTranspose(e, {0, 2, 1}); };
  return {product(s.grad, swap(s.arg(1))), product(swap(s.grad), swap(s.arg(0)))};
}

std::vector<Expr> SoftmaxGradient(const Site& s) {
  int64_t axis = s.call->attrs_as<ops::SoftmaxAttrs>()->axis;
  Expr weighted = Mul(s.grad, s.result());
  return {Sub(weighted, Mul(ops::MakeReduce("sum", weighted, std::vector<int64_t>{axis}, true), s.result()))};
}
std::vector<Expr> LogSoftmaxGradient(const Site& s) {
  int64_t axis = s.call->attrs_as<ops::SoftmaxAttrs>()->axis;
  Expr sum = ops::MakeReduce("sum", s.grad, std::vector<int64_t>{axis}, true);
  return {Sub(s.grad, Mul(CallOp("exp", {s.result()}), sum))};
}

std::vector<Expr> BiasAddGradient(const Site& s) {
  int64_t axis = PositiveAxis(s.call->attrs_as<ops::BiasAddAttrs>()->axis, s.type(0)->shape.size());
  return {s.grad, ops::MakeReduce("sum", s.grad, std::vector<int64_t>{axis}, false, /*exclude=*/true)};
}

/// 1 where the comparison holds, else 0, in the operands' type.
Expr Mask(const Site& s, const char* comparison, const Expr& a, const Expr& b) {
  return ops::MakeCast(CallOp(comparison, {a, b}), s.type(0)->dtype);
}

/// maximum and minimum: to the operand that was taken, to the first where both are equal.
std::vector<Expr> ChoiceGradient(const Site& s, const char* first_taken, const char* second_taken) {
  return {Collapse(s, Mul(s.grad, Mask(s, first_taken, s.arg(0), s.arg(1))), 0),
          Collapse(s, Mul(s.grad, Mask(s, second_taken, s.arg(0), s.arg(1))), 1)};
}

std::vector<Expr> ClipGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::ClipAttrs>();
  Expr inside = Mul(Mask(s, "less_equal", Scalar(s, attrs->a_min), s.arg(0)),
                    Mask(s, "less_equal", s.arg(0), Scalar(s, attrs->a_max)));
  return {Mul(s.grad, inside)};
}

std::vector<Expr> LeakyReluGradient(const Site& s) {
  double alpha = s.call->attrs_as<ops::LeakyReluAttrs>()->alpha;
  Expr positive = Mask(s, "greater", s.arg(0), Scalar(s, 0));
  return {Mul(s.grad, Add(Mul(positive, Scalar(s, 1 - alpha)), Scalar(s, alpha)))};
}

std::vector<Expr> CastGradient(const Site& s) {
  if (!s.type(0)->dtype.is_floating()) return {Expr()};
  return {ops::MakeCast(s.grad, s.type(0)->dtype)};
}

/// predictions, targets (batch, classes) -> scalar
std::vector<Expr> CrossEntropyGradient(const Site& s) {
  Expr part = Neg(Div(s.grad, Scalar(s, static_cast<double>(Dim(s.type(0), 0)))));
  return {Mul(part, Div(s.arg(1), s.arg(0))), Mul(part, CallOp("log", {s.arg(0)}))};
}
std::vector<Expr> CrossEntropyWithLogitsGradient(const Site& s) {
  Expr part = Neg(Div(s.grad, Scalar(s, static_cast<double>(Dim(s.type(0), 0)))));
  return {Mul(part, s.arg(1)), Mul(part, s.arg(0))};
}

std::vector<Expr> PowerGradient(const Site& s) {
  Expr to_base = Mul(s.grad, Mul(s.arg(1), CallOp("power", {s.arg(0), Sub(s.arg(1), Scalar(s, 1))})));
  Expr to_exponent = Mul(s.grad, Mul(s.result(), CallOp("log", {s.arg(0)})));
  return {Collapse(s, to_base, 0), Collapse(s, to_exponent, 1)};
}

std::vector<Expr> WhereGradient(const Site& s) {
  Expr zero = ZerosLike(s.grad);
  return {Expr(), Collapse(s, CallOp("where", {s.arg(0), s.grad, zero}), 1),
          Collapse(s, CallOp("where", {s.arg(0), zero, s.grad}), 2)};
}

/// The rule of an operator of one operand whose derivative is an expression of operand and result.
Rule Unary(const std::function<Expr(const Site&)>& derivative) {
  return [derivative](const Site& s) { return std::vector<Expr>{Mul(s.grad, derivative(s))}; };
}

/// Results that don't follow small changes of the operands.
void AddConstantRules(std::map<std::string, Rule>* rules) {
  for (const char* name : {"zeros_like",  "ones_like",   "zeros",    "ones",         "greater",     "greater_equal",
                           "less",        "less_equal",  "equal",    "not_equal",    "logical_and", "logical_or",
                           "logical_xor", "logical_not", "isnan",    "isinf",        "isfinite",    "sign",
                           "floor",       "ceil",        "round",    "trunc",        "one_hot",     "argmax",
                           "argmin",      "argsort",     "shape_of", "ndarray_size", "arange"}) {
    rules->emplace(name, [](const Site& s) { return std::vector<Expr>(s.call->args.size()); });
  }
}

std::map<std::string, Rule> ScalarRules() {
  auto squared = [](const Site& s) { return Square(s.arg(0)); };
  auto one = [](const Site& s) { return Scalar(s, 1); };
  return {
      {"sin", Unary([](const Site& s) { return CallOp("cos", {s.arg(0)}); })},
      {"cos", Unary([](const Site& s) { return Neg(CallOp("sin", {s.arg(0)})); })},
      {"tan", Unary([=](const Site& s) { return Add(one(s), Square(s.result())); })},
      {"sinh", Unary([](const Site& s) { return CallOp("cosh", {s.arg(0)}); })},
      {"cosh", Unary([](const Site& s) { return CallOp("sinh", {s.arg(0)}); })},
      {"asin", Unary([=](const Site& s) { return CallOp("rsqrt", {Sub(one(s), squared(s))}); })},
      {"acos", Unary([=](const Site& s) { return Neg(CallOp("rsqrt", {Sub(one(s), squared(s))})); })},
      {"atan", Unary([=](const Site& s) { return Div(one(s), Add(one(s), squared(s))); })},
      {"asinh", Unary([=](const Site& s) { return CallOp("rsqrt", {Add(squared(s), one(s))}); })},
      {"acosh", Unary([=](const Site& s) { return CallOp("rsqrt", {Sub(squared(s), one(s))}); })},
      {"atanh", Unary([=](const Site& s) { return Div(one(s), Sub(one(s), squared(s))); })},
      {"erf", Unary([=](const Site& s) { return Mul(Scalar(s, 1.1283791670955126), Exp(Neg(squared(s)))); })},
      {"log2", Unary([](const Site& s) { return Div(Scalar(s, 1.4426950408889634), s.arg(0)); })},
      {"log10", Unary([](const Site& s) { return Div(Scalar(s, 0.4342944819032518), s.arg(0)); })},
      {"rsqrt", Unary([](const Site& s) { return Mul(Scalar(s, -0.5), Mul(s.result(), Square(s.result()))); })},
      {"abs", Unary([](const Site& s) { return CallOp("sign", {s.arg(0)}); })},
  };
}

std::map<std::string, Rule> TensorRules() {
  return {
      {"add", [](const Site& s) { return std::vector<Expr>{Collapse(s, s.grad, 0), Collapse(s, s.grad, 1)}; }},
      {"subtract",
       [](const Site& s) { return std::vector<Expr>{Collapse(s, s.grad, 0), Collapse(s, Neg(s.grad), 1)}; }},
      {"multiply",
       [](const Site& s) {
         return std::vector<Expr>{Collapse(s, Mul(s.grad, s.arg(1)), 0), Collapse(s, Mul(s.grad, s.arg(0)), 1)};
       }},
      {"divide",
       [](const Site& s) {
         Expr to_rhs = Neg(Div(Mul(s.grad, s.result()), s.arg(1)));
         return std::vector<Expr>{Collapse(s, Div(s.grad, s.arg(1)), 0), Collapse(s, to_rhs, 1)};
       }},
      {"negative", [](const Site& s) { return std::vector<Expr>{Neg(s.grad)}; }},
      {"exp", [](const Site& s) { return std::vector<Expr>{Mul(s.grad, s.result())}; }},
      {"log", [](const Site& s) { return std::vector<Expr>{Div(s.grad, s.arg(0))}; }},
      {"sqrt", [](const Site& s) { return std::vector<Expr>{Div(s.grad, Mul(s.result(), Scalar(s, 2)))}; }},
      {"tanh",
       [](const Site& s) { return std::vector<Expr>{Mul(s.grad, Sub(Scalar(s, 1), Mul(s.result(), s.result())))}; }},
      {"sigmoid",
       [](const Site& s) { return std::vector<Expr>{Mul(s.grad, Mul(s.result(), Sub(Scalar(s, 1), s.result())))}; }},
      {"nn.relu",
       [](const Site& s) {
         Expr mask = ops::MakeCast(CallOp("greater", {s.arg(0), Scalar(s, 0)}), s.type(0)->dtype);
         return std::vector<Expr>{Mul(s.grad, mask)};
       }},
      {"sum", [](const Site& s) { return std::vector<Expr>{SumGradient(s)}; }},
      {"mean", [](const Site& s) { return std::vector<Expr>{Mul(SumGradient(s), Scalar(s, 1 / ReducedElements(s)))}; }},
      {"broadcast_to", [](const Site& s) { return std::vector<Expr>{Collapse(s, s.grad, 0)}; }},
      {"copy", [](const Site& s) { return std::vector<Expr>{s.grad}; }},
      {"power", PowerGradient},
      {"where", WhereGradient},
      {"maximum", [](const Site& s) { return ChoiceGradient(s, "greater_equal", "less"); }},
      {"minimum", [](const Site& s) { return ChoiceGradient(s, "less_equal", "greater"); }},
      {"clip", ClipGradient},
      {"cast", CastGradient},
      {"nn.leaky_relu", LeakyReluGradient},
      {"nn.cross_entropy", CrossEntropyGradient},
      {"nn.cross_entropy_with_logits", CrossEntropyWithLogitsGradient},
      {"nn.dense", DenseGradient},
      {"nn.batch_matmul", BatchMatmulGradient},
      {"nn.softmax", SoftmaxGradient},
      {"nn.log_softmax", LogSoftmaxGradient},
      {"nn.bias_add", BiasAddGradient},
      {"nn.matmul", MatmulGradient},
      {"nn.prelu", PReluGradient},
      {"max", ExtremeGradient},
      {"min", ExtremeGradient},
      {"variance", VarianceGradient},
      {"collapse_sum_like",
       [](const Site& s) { return std::vector<Expr>{CallOp("broadcast_to_like", {s.grad, s.arg(0)}), Expr()}; }},
      {"broadcast_to_like", [](const Site& s) { return std::vector<Expr>{Collapse(s, s.grad, 0), Expr()}; }},
  };
}

const std::map<std::string, Rule>& Rules() {
  static const std::map<std::string, Rule> rules = [] {
    std::map<std::string, Rule> all = TensorRules();
    all.merge(ScalarRules());
    all.merge(WindowRules());
    all.merge(MoveRules());
    AddConstantRules(&all);
    return all;
  }();
  return rules;
}

/// A gradient of a value: of a tensor, or one for each field of a tuple. Undefined: none flowed there.
struct Grad {
  Expr tensor;
  std::vector<Grad> fields;

  bool defined() const {
    return tensor.defined() || std::any_of(fields.begin(), fields.end(), [](const Grad& g) { return g.defined(); });
  }
  void Include(const Grad& other) {
    if (other.tensor.defined()) tensor = tensor.defined() ? Add(tensor, other.tensor) : other.tensor;
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
    grads_[Key(func_->body)].tensor = OnesLike(func_->body);
    for (size_t i = order.size(); i-- > 0;) {
      auto it = grads_.find(Key(order[i]));
      if (it != grads_.end() && it->second.defined()) Spread(order[i], it->second);
    }
    Array<Expr> results;
    for (const Var& param : func_->params) {
      const auto it = grads_.find(Key(param));
      if (it == grads_.end() && TensorTypeOf(param) != nullptr) {
        results.push_back(ZerosLike(param));
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
    auto rule = Rules().find(OpName(call));
    if (rule == Rules().end())
      throw UnsupportedOpError(StrCat("Gradient: no rule for operator '", OpName(call), "'"), {});
    Site site{call, grad.tensor, {}};
    for (const Grad& field : grad.fields) site.grads.push_back(field.tensor);
    std::vector<Expr> grads = rule->second(site);
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
