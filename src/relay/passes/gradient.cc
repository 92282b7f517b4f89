// SPDX-License-Identifier: Apache-2.0
// First-order gradients of data flow by reverse accumulation. One rule per operator gives the gradients of its
// arguments from that of its result.
#include <functional>
#include <map>

#include "relay/passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {
namespace {

using ops::CallOp;

/// A call of the original function, whose nodes are all typed.
struct Site {
  const CallNode* call;
  Expr grad;  ///< of the result
  Expr result() const { return GetRef<Expr>(call); }
  Expr arg(size_t i) const { return call->args[i]; }
  const TensorTypeNode* type(size_t i) const { return TensorTypeOf(call->args[i]); }
};
/// Null entries: no gradient flows there.
using Rule = std::function<std::vector<Expr>(const Site&)>;

Expr Add(const Expr& a, const Expr& b) { return CallOp("add", {a, b}); }
Expr Sub(const Expr& a, const Expr& b) { return CallOp("subtract", {a, b}); }
Expr Mul(const Expr& a, const Expr& b) { return CallOp("multiply", {a, b}); }
Expr Div(const Expr& a, const Expr& b) { return CallOp("divide", {a, b}); }
Expr Neg(const Expr& a) { return CallOp("negative", {a}); }
Expr Scalar(const Site& s, double value) { return ops::ScalarConstant(s.type(0)->dtype, value); }

/// The gradient of an operand that was broadcast: summed over what was repeated.
Expr Collapse(const Site& s, const Expr& grad, size_t i) {
  if (ShapesEqual(s.type(i)->shape, s.call->type_as<TensorTypeNode>()->shape)) return grad;
  return CallOp("collapse_sum_like", {grad, s.arg(i)});
}
Expr Like(const Site& s, const Expr& grad) { return ops::MakeReshape(grad, s.type(0)->shape); }

Expr OnesLike(const Expr& e) { return CallOp("ones_like", {e}); }
Expr ZerosLike(const Expr& e) { return CallOp("zeros_like", {e}); }

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

int64_t Dim(const TensorTypeNode* type, size_t i) {
  const int64_t* dim = AsConstInt(type->shape[i]);
  if (dim == nullptr) throw ShapeError("gradients of convolution and pooling need static shapes");
  return *dim;
}

/// Padding as top, left, bottom, right.
std::vector<int64_t> Padding4(const std::vector<int64_t>& padding) {
  if (padding.size() == 1) return std::vector<int64_t>(4, padding[0]);
  if (padding.size() == 2) return {padding[0], padding[1], padding[0], padding[1]};
  return padding;
}

std::vector<Expr> Conv2DGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::ConvAttrs>();
  if (attrs->groups != 1 || attrs->data_layout != "NCHW" || attrs->kernel_layout != "OIHW") {
    throw Error("the gradient of nn.conv2d is implemented for groups=1 and layouts NCHW and OIHW");
  }
  const auto* data = s.type(0);
  const auto* weight = s.type(1);
  const auto* out = s.call->type_as<TensorTypeNode>();
  std::vector<int64_t> pad = Padding4(attrs->padding), extra(2);
  for (size_t i = 0; i < 2; ++i) {
    int64_t window = (Dim(weight, i + 2) - 1) * attrs->dilation[i] + 1;
    extra[i] = Dim(data, i + 2) - ((Dim(out, i + 2) - 1) * attrs->strides[i] - pad[i] - pad[i + 2] + window);
  }
  Expr to_data = ops::CallWith<ops::Conv2DTransposeAttrs>("nn.conv2d_transpose", {s.grad, s.arg(1)}, [&](auto& a) {
    a.strides = attrs->strides;
    a.padding = pad;
    a.dilation = attrs->dilation;
    a.output_padding = extra;
    a.channels = Dim(data, 1);
    a.kernel_size = std::vector<int64_t>{Dim(weight, 2), Dim(weight, 3)};
  });
  // The weight's gradient is a convolution of the inputs by the gradient, batch and channels exchanged.
  Expr windows = ops::CallWith<ops::Conv2DAttrs>(
      "nn.conv2d", {ops::MakeTranspose(s.arg(0), {1, 0, 2, 3}), ops::MakeTranspose(s.grad, {1, 0, 2, 3})},
      [&](auto& a) {
        a.strides = attrs->dilation;
        a.dilation = attrs->strides;
        a.padding = pad;
      });
  windows = ops::MakeStridedSlice(windows, {0, 0, 0, 0},
                                  {Dim(weight, 1), Dim(weight, 0), Dim(weight, 2), Dim(weight, 3)}, {1, 1, 1, 1});
  return {to_data, ops::MakeTranspose(windows, {1, 0, 2, 3})};
}

/// Each value of a pooled tensor repeated over its window; windows must tile the input.
Expr RepeatOverWindows(const Site& s, Expr pooled, const ops::PoolAttrs* attrs) {
  for (int64_t p : attrs->padding) {
    if (p != 0) throw Error("the gradient of pooling is implemented for windows without padding");
  }
  if (attrs->layout != "NCHW" || attrs->strides != attrs->pool_size) {
    throw Error("the gradient of pooling is implemented for layout NCHW and strides equal to the window");
  }
  for (size_t i = 0; i < 2; ++i) {
    if (Dim(s.type(0), i + 2) % attrs->pool_size[i] != 0) {
      throw ShapeError("the gradient of pooling needs windows that divide the input");
    }
    pooled = ops::CallWith<ops::RepeatAttrs>("repeat", {pooled}, [&](auto& a) {
      a.repeats = static_cast<int>(attrs->pool_size[i]);
      a.axis = static_cast<int>(i) + 2;
    });
  }
  return pooled;
}

std::vector<Expr> MaxPoolGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::PoolAttrs>();
  Expr is_max = CallOp("equal", {s.arg(0), RepeatOverWindows(s, s.result(), attrs)});
  Expr mask = ops::MakeCast(is_max, s.type(0)->dtype);
  return {Mul(RepeatOverWindows(s, s.grad, attrs), mask)};
}
std::vector<Expr> AvgPoolGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::PoolAttrs>();
  double count = static_cast<double>(attrs->pool_size[0] * attrs->pool_size[1]);
  return {Mul(RepeatOverWindows(s, s.grad, attrs), Scalar(s, 1 / count))};
}
std::vector<Expr> GlobalAvgPoolGradient(const Site& s) {
  double count = static_cast<double>(Dim(s.type(0), 2) * Dim(s.type(0), 3));
  return {Mul(Mul(s.grad, Scalar(s, 1 / count)), OnesLike(s.arg(0)))};
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

std::vector<Expr> TransposeGradient(const Site& s) {
  const auto* attrs = s.call->attrs_as<ops::TransposeAttrs>();
  size_t rank = s.type(0)->shape.size();
  std::vector<int64_t> inverse(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t axis =
        attrs->axes ? PositiveAxis(static_cast<int>((*attrs->axes)[i]), rank) : static_cast<int64_t>(rank - 1 - i);
    inverse[static_cast<size_t>(axis)] = static_cast<int64_t>(i);
  }
  return {ops::MakeTranspose(s.grad, inverse)};
}

std::vector<Expr> BiasAddGradient(const Site& s) {
  int64_t axis = PositiveAxis(s.call->attrs_as<ops::BiasAddAttrs>()->axis, s.type(0)->shape.size());
  return {s.grad, ops::MakeReduce("sum", s.grad, std::vector<int64_t>{axis}, false, /*exclude=*/true)};
}

/// The gradient of concatenate flows to the fields of its tuple: as a tuple.
std::vector<Expr> ConcatenateGradient(const Site& s) {
  const auto* fields = s.arg(0)->type_as<TupleTypeNode>();
  int axis = s.call->attrs_as<ops::ConcatenateAttrs>()->axis;
  Array<Expr> parts;
  int64_t begin = 0;
  for (const Type& field : fields->fields) {
    const auto* type = field.as<TensorTypeNode>();
    int positive = PositiveAxis(axis, type->shape.size());
    int64_t size = Dim(type, static_cast<size_t>(positive));
    parts.push_back(ops::MakeStridedSlice(s.grad, {begin}, {begin + size}, {1}, std::vector<int64_t>{positive}));
    begin += size;
  }
  return {Tuple(parts)};
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

const std::map<std::string, Rule>& Rules() {
  static const std::map<std::string, Rule> rules = {
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
      {"reshape", [](const Site& s) { return std::vector<Expr>{Like(s, s.grad)}; }},
      {"nn.batch_flatten", [](const Site& s) { return std::vector<Expr>{Like(s, s.grad)}; }},
      {"expand_dims", [](const Site& s) { return std::vector<Expr>{Like(s, s.grad)}; }},
      {"squeeze", [](const Site& s) { return std::vector<Expr>{Like(s, s.grad)}; }},
      {"broadcast_to", [](const Site& s) { return std::vector<Expr>{Collapse(s, s.grad, 0)}; }},
      {"copy", [](const Site& s) { return std::vector<Expr>{s.grad}; }},
      {"zeros_like", [](const Site&) { return std::vector<Expr>{Expr()}; }},
      {"ones_like", [](const Site&) { return std::vector<Expr>{Expr()}; }},
      {"greater", [](const Site&) { return std::vector<Expr>{Expr(), Expr()}; }},
      {"less", [](const Site&) { return std::vector<Expr>{Expr(), Expr()}; }},
      {"equal", [](const Site&) { return std::vector<Expr>{Expr(), Expr()}; }},
      {"one_hot", [](const Site&) { return std::vector<Expr>{Expr(), Expr(), Expr()}; }},
      {"sin", [](const Site& s) { return std::vector<Expr>{Mul(s.grad, CallOp("cos", {s.arg(0)}))}; }},
      {"cos", [](const Site& s) { return std::vector<Expr>{Neg(Mul(s.grad, CallOp("sin", {s.arg(0)})))}; }},
      {"abs", [](const Site& s) { return std::vector<Expr>{Mul(s.grad, CallOp("sign", {s.arg(0)}))}; }},
      {"power", PowerGradient},
      {"where", WhereGradient},
      {"maximum", [](const Site& s) { return ChoiceGradient(s, "greater_equal", "less"); }},
      {"minimum", [](const Site& s) { return ChoiceGradient(s, "less_equal", "greater"); }},
      {"clip", ClipGradient},
      {"cast", CastGradient},
      {"nn.leaky_relu", LeakyReluGradient},
      {"nn.cross_entropy", CrossEntropyGradient},
      {"nn.cross_entropy_with_logits", CrossEntropyWithLogitsGradient},
      {"nn.conv2d", Conv2DGradient},
      {"nn.dense", DenseGradient},
      {"nn.batch_matmul", BatchMatmulGradient},
      {"nn.max_pool2d", MaxPoolGradient},
      {"nn.avg_pool2d", AvgPoolGradient},
      {"nn.global_avg_pool2d", GlobalAvgPoolGradient},
      {"nn.softmax", SoftmaxGradient},
      {"nn.log_softmax", LogSoftmaxGradient},
      {"nn.bias_add", BiasAddGradient},
      {"transpose", TransposeGradient},
      {"concatenate", ConcatenateGradient},
  };
  return rules;
}

class Accumulator {
 public:
  explicit Accumulator(const Function& func) : func_(func) {}

  Function Run() {
    std::vector<Expr> order;
    PostOrderVisit(func_->body, [&](const Expr& e) { order.push_back(e); });
    if (TensorTypeOf(func_->body) == nullptr) throw Error("Gradient: the function's result must be one tensor");
    AddTo(func_->body, OnesLike(func_->body));
    for (size_t i = order.size(); i-- > 0;) {
      auto it = grads_.find(order[i].get());
      if (it != grads_.end()) Spread(order[i], it->second);
    }
    Array<Expr> results;
    for (const Var& param : func_->params) {
      auto it = grads_.find(param->vid.get());
      results.push_back(it == grads_.end() ? ZerosLike(param) : it->second);
    }
    return Function(func_->params, Tuple({func_->body, Tuple(results)}), Type(), func_->type_params, func_->attrs,
                    func_->span);
  }

 private:
  static const Object* Key(const Expr& e) {
    const auto* var = e.as<VarNode>();
    return var != nullptr ? static_cast<const Object*>(var->vid.get()) : e.get();
  }
  void AddTo(const Expr& target, const Expr& grad) {
    if (!grad.defined()) return;
    if (const auto* tuple = target.as<TupleNode>()) {
      for (size_t i = 0; i < tuple->fields.size(); ++i) {
        const auto* fields = grad.as<TupleNode>();
        AddTo(tuple->fields[i], fields != nullptr ? fields->fields[i] : Expr(TupleGetItem(grad, static_cast<int>(i))));
      }
      return;
    }
    Expr& sum = grads_[Key(target)];
    sum = sum.defined() ? Add(sum, grad) : grad;
  }

  void Spread(const Expr& expr, const Expr& grad) {
    if (expr.as<VarNode>() || expr.as<ConstantNode>()) return;
    const auto* call = expr.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) {
      throw Error(StrCat("Gradient: ", expr->span.defined() ? expr->span.str() + ": " : "",
                         "only data flow of operators can be differentiated, not ", expr->type_key()));
    }
    auto rule = Rules().find(OpName(call));
    if (rule == Rules().end())
      throw UnsupportedOpError(StrCat("Gradient: no rule for operator '", OpName(call), "'"), {});
    std::vector<Expr> grads = rule->second({call, grad});
    for (size_t i = 0; i < grads.size(); ++i) AddTo(call->args[i], grads[i]);
  }

  Function func_;
  std::unordered_map<const Object*, Expr> grads_;
};

}  // namespace

Function Gradient(const Function& func) {
  Function typed =
      func->checked_type_.defined() && func->body->checked_type_.defined() ? func : Downcast<Function>(InferType(func));
  return Downcast<Function>(InferType(Accumulator(typed).Run()));
}

namespace transform {

Pass FirstOrderGradient() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext&) { return Accumulator(func).Run(); },
      {"FirstOrderGradient", 0, {"InferType"}, "Replaces each function by that of its value and gradients"});
}

}  // namespace transform
}  // namespace treadle::relay
