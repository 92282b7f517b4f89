// SPDX-License-Identifier: Apache-2.0
// Operators that work on each element alone. Semantics: ONNX and NumPy, which agree on these.
#include <cmath>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/stored_as.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(CastAttrs);
TREADLE_DEFINE_NODE(ClipAttrs);
TREADLE_DEFINE_NODE(FixedPointMultiplyAttrs);

namespace {

const std::vector<OpArgument> kData = {{"data", "Tensor", "The input."}};

Type BoolInfer(const InferContext& context) { return TensorType(context.Tensor(0, "data")->shape, DataType::Bool()); }

Type FloatInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (!runtime::ActsAsFloat(data->dtype)) {
    throw DTypeError(StrCat("data must be of a floating-point type, not ", data->dtype));
  }
  return context.type(0);
}

Type IntegralInfer(const InferContext& context) {
  CheckIntegral(context.Tensor(0, "data"), "data");
  return context.type(0);
}

Type CastInfer(const InferContext& context) {
  DataType dtype = context.attrs<CastAttrs>()->dtype;
  if (dtype.is_void() || dtype.is_handle()) throw DTypeError(StrCat("can't cast to ", dtype));
  return TensorType(context.Tensor(0, "data")->shape, dtype);
}

Type ReinterpretInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  DataType dtype = context.attrs<CastAttrs>()->dtype;
  if (dtype.bits() != data->dtype.bits()) {
    throw DTypeError(StrCat("reinterpret needs types of equal size, not ", data->dtype, " and ", dtype));
  }
  return TensorType(data->shape, dtype);
}

Type CastLikeInfer(const InferContext& context) {
  return TensorType(context.Tensor(0, "data")->shape, context.Tensor(1, "dtype_like")->dtype);
}

Type ClipInfer(const InferContext& context) {
  context.attrs<ClipAttrs>();
  return IdentityInfer(context);
}

Type FullLikeInfer(const InferContext& context) {
  CheckRank(context.Tensor(1, "fill_value"), 0, "fill_value");
  return IdentityInfer(context);
}

using ElementFn = PrimExpr (*)(PrimExpr);

/// Applies `fn` to each element.
FTECompute MapCompute(std::string name, ElementFn fn) {
  return [name = std::move(name), fn](const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
    const Tensor& x = inputs[0];
    const DataType dtype = OutTensor(out_type)->dtype;
    auto element = [&](const Array<PrimExpr>& i) { return StoredAs(dtype, fn(x(i))); };
    return Array<Tensor>{Compute(x->shape, element, name, tag::kElemWise)};
  };
}

PrimExpr Sign(PrimExpr x) {
  PrimExpr one = tir::make_const(x.dtype(), 1);
  if (x.dtype().is_uint()) return tir::select(tir::equal(x, tir::make_zero(x.dtype())), x, one);
  return tir::select(x > 0, one, tir::select(x < 0, tir::make_const(x.dtype(), -1), x));
}

PrimExpr LogicalNot(PrimExpr x) {
  if (x.dtype().is_bool()) return tir::logical_not(x);
  return tir::cast(x.dtype(), tir::equal(x, tir::make_zero(x.dtype())));
}

PrimExpr Copy(PrimExpr x) { return x; }
PrimExpr NearestEven(PrimExpr x) { return tir::nearbyint(std::move(x)); }
PrimExpr Negative(PrimExpr x) {
  if (runtime::ActsAsFloat(x.dtype())) return tir::neg(std::move(x));  // 0 - x would make 0 of 0 instead of -0
  return tir::make_zero(x.dtype()) - x;
}

/// x * tanh(log(1 + exp(x))). With n = exp(x) * (exp(x) + 2), that is x * n / (n + 2): one exponential, nothing
/// cancels.
PrimExpr Mish(PrimExpr x) {
  // Beyond, the quotient is 1.
  constexpr double kOne = 20, kOneOfHalf = 5;
  tir::Var e("e", x.dtype()), n("n", x.dtype());
  PrimExpr most = tir::make_const(x.dtype(), x.dtype().bits() < 32 ? kOneOfHalf : kOne);
  PrimExpr two = tir::make_const(x.dtype(), 2);
  PrimExpr ratio = tir::Let(n, e * (e + two), tir::div(n, n + two));
  return x * tir::Let(e, tir::exp(tir::min(x, most)), ratio);
}

/// x / 2 * (1 + erf(x / sqrt(2))), of float32 as x * (1/2 + x P(x^2) / Q(x^2)): a rational function fitted to the
/// normal distribution on [-5.5, 5.5], beyond which it is 0 or 1 (error below 2^-26). Errors of the result are below
/// 2^-22 |x|, about twice those of the formula in float32.
PrimExpr Gelu(PrimExpr x) {
  const DataType dtype = x.dtype();
  auto number = [&](double v) { return tir::make_const(dtype, v); };
  if (dtype.bits() == 16) return tir::cast(dtype, Gelu(tir::cast(DataType::Float(32, dtype.lanes()), x)));
  if (dtype.bits() != 32) return number(0.5) * x * (tir::erf(x * number(0.70710678118654752)) + number(1));
  constexpr double kEnd = 5.5;
  constexpr double kP[] = {0.3989422346213427,     0.03385277424812132,   0.004677268909427957,
                           0.00016882702307678379, 6.352131532078197e-06, 2.2749335000073353e-08};
  constexpr double kQ[] = {1.0,
                           0.25152223940425766,
                           0.028645945810988515,
                           0.0018844524566902978,
                           7.364795757596346e-05,
                           1.1975040498960191e-06};
  tir::Var t("t", dtype), z("z", dtype);
  auto polynomial = [&](const double(&c)[6]) {
    PrimExpr sum = number(c[5]);
    for (int i = 4; i >= 0; --i) sum = sum * z + number(c[i]);
    return sum;
  };
  PrimExpr share = tir::Let(z, t * t, t * tir::div(polynomial(kP), polynomial(kQ)) + number(0.5));
  // Below the end, the result stays that of the end: zero but for what rounding leaves of it.
  tir::Var low("low", dtype);
  PrimExpr result = low * tir::max(tir::Let(t, tir::min(low, number(kEnd)), share), number(0));
  return tir::Let(low, tir::max(x, number(-kEnd)), result);
}

Array<Tensor> CastCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  DataType dtype = OutTensor(out_type)->dtype;
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        if (dtype.is_bool()) return tir::not_equal(x(i), tir::make_zero(x->dtype));
        return tir::cast(dtype, x(i));
      },
      "cast", tag::kElemWise)};
}

Array<Tensor> ReinterpretCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  DataType dtype = OutTensor(out_type)->dtype;
  return {Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return tir::reinterpret(dtype, x(i)); }, "reinterpret",
      tag::kElemWise)};
}

Array<Tensor> ClipCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ClipAttrs>();
  const Tensor& x = inputs[0];
  PrimExpr low = SaturatedConst(x->dtype, a->a_min);
  PrimExpr high = SaturatedConst(x->dtype, a->a_max);
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr value = x(i);
        if (a->a_min != -INFINITY) value = tir::max(value, low);
        if (a->a_max != INFINITY) value = tir::min(value, high);
        return value;
      },
      "clip", tag::kElemWise)};
}

Array<Tensor> FixedPointMultiplyCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<FixedPointMultiplyAttrs>();
  const Tensor& x = inputs[0];
  if (a->shift < -31 || a->shift > 30) throw ShapeError(StrCat("shift must be in [-31, 30], is ", a->shift));
  int64_t right = 31 - a->shift;
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr product = tir::cast(DataType::Int(64), x(i)) * static_cast<int64_t>(a->multiplier);
        PrimExpr rounded = product + (int64_t{1} << (right - 1));
        return tir::cast(x->dtype, tir::right_shift(rounded, Index(right)));
      },
      "fixed_point_multiply", tag::kElemWise)};
}

/// A tensor of the shape of operand 0 filled with a constant.
FTECompute FillLike(std::string name, int value) {
  return [name = std::move(name), value](const Attrs&, const Array<Tensor>& inputs, const Type&) {
    PrimExpr fill = tir::make_const(inputs[0]->dtype, value);
    return Array<Tensor>{Compute(inputs[0]->shape, [&](const Array<PrimExpr>&) { return fill; }, name, tag::kElemWise)};
  };
}

Array<Tensor> FullLikeCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>&) { return tir::cast(inputs[0]->dtype, inputs[1](Array<PrimExpr>())); }, "full_like",
      tag::kElemWise)};
}

OpRegistration Unary(const char* name, const char* text, FTECompute compute,
                     TypeRelationFn relation = Rule<IdentityInfer>) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments(kData)
      .SupportLevel(1)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kCompute, std::move(compute));
}
OpRegistration Unary(const char* name, const char* text, ElementFn fn, TypeRelationFn relation = Rule<IdentityInfer>) {
  return Unary(name, text, MapCompute(name, fn), relation);
}

using gradient::Add;
using gradient::Div;
using gradient::Exp;
using gradient::Grads;
using gradient::Mul;
using gradient::Neg;
using gradient::Scalar;
using gradient::Site;
using gradient::Square;
using gradient::Sub;
using gradient::Times;
using relay::MixedPrecisionKind;

/// A function of floats.
OpRegistration Math(const char* name, const char* text, ElementFn fn, FiniteRule finite) {
  return Unary(name, text, fn, Rule<FloatInfer>).Set(kFiniteRule, finite).Set(kCostly, true);
}

void RegisterMath() {
  Math("exp", "e to the power of x.", tir::exp, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return s.result(); }))
      .Set(kFastForm, "fast_exp")
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("log", "Natural logarithm.", tir::log, FiniteRule::kNever)
      .Set(kGradient, FGradient([](const Site& s) { return Grads{Div(s.grad, s.arg(0))}; }))
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("log2", "Logarithm to base 2.", tir::log2, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return Div(Scalar(s, 1.4426950408889634), s.arg(0)); }))
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("log10", "Logarithm to base 10.", tir::log10, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return Div(Scalar(s, 0.4342944819032518), s.arg(0)); }))
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("sqrt", "Square root.", tir::sqrt, FiniteRule::kNever).Set(kGradient, FGradient([](const Site& s) {
                                                                    return Grads{
                                                                        Div(s.grad, Mul(s.result(), Scalar(s, 2)))};
                                                                  }));
  Math("rsqrt", "One over the square root.", tir::rsqrt, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return Mul(Scalar(s, -0.5), Mul(s.result(), Square(s.result()))); }));
  Math("sin", "Sine.", tir::sin, FiniteRule::kAlways).Set(kGradient, Times([](const Site& s) {
                                                            return CallOp("cos", {s.arg(0)});
                                                          }));
  Math("cos", "Cosine.", tir::cos, FiniteRule::kAlways).Set(kGradient, Times([](const Site& s) {
                                                              return Neg(CallOp("sin", {s.arg(0)}));
                                                            }));
  Math("tan", "Tangent.", tir::tan, FiniteRule::kAlways).Set(kGradient, Times([](const Site& s) {
                                                               return Add(Scalar(s, 1), Square(s.result()));
                                                             }));
  Math("asin", "Arc sine.", tir::asin, FiniteRule::kNever).Set(kGradient, Times([](const Site& s) {
                                                                 return CallOp("rsqrt",
                                                                               {Sub(Scalar(s, 1), Square(s.arg(0)))});
                                                               }));
  Math("acos", "Arc cosine.", tir::acos, FiniteRule::kNever).Set(kGradient, Times([](const Site& s) {
                                                                   return Neg(CallOp(
                                                                       "rsqrt", {Sub(Scalar(s, 1), Square(s.arg(0)))}));
                                                                 }));
  Math("atan", "Arc tangent.", tir::atan, FiniteRule::kAlways).Set(kGradient, Times([](const Site& s) {
                                                                     return Div(Scalar(s, 1),
                                                                                Add(Scalar(s, 1), Square(s.arg(0))));
                                                                   }));
  Math("sinh", "Hyperbolic sine.", tir::sinh, FiniteRule::kNever).Set(kGradient, Times([](const Site& s) {
                                                                        return CallOp("cosh", {s.arg(0)});
                                                                      }));
  Math("cosh", "Hyperbolic cosine.", tir::cosh, FiniteRule::kNever).Set(kGradient, Times([](const Site& s) {
                                                                          return CallOp("sinh", {s.arg(0)});
                                                                        }));
  Math("tanh", "Hyperbolic tangent.", tir::tanh, FiniteRule::kAlways)
      .Set(kGradient, Times([](const Site& s) { return Sub(Scalar(s, 1), Mul(s.result(), s.result())); }))
      .Set(kFastForm, "fast_tanh");
  Math("asinh", "Inverse hyperbolic sine.", tir::asinh, FiniteRule::kAlways)
      .Set(kGradient, Times([](const Site& s) { return CallOp("rsqrt", {Add(Square(s.arg(0)), Scalar(s, 1))}); }));
  Math("acosh", "Inverse hyperbolic cosine.", tir::acosh, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return CallOp("rsqrt", {Sub(Square(s.arg(0)), Scalar(s, 1))}); }));
  Math("atanh", "Inverse hyperbolic tangent.", tir::atanh, FiniteRule::kNever)
      .Set(kGradient, Times([](const Site& s) { return Div(Scalar(s, 1), Sub(Scalar(s, 1), Square(s.arg(0)))); }));
  Math("erf", "Error function.", tir::erf, FiniteRule::kAlways)
      .Set(kGradient,
           Times([](const Site& s) { return Mul(Scalar(s, 1.1283791670955126), Exp(Neg(Square(s.arg(0))))); }))
      .Set(kFastForm, "fast_erf")
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("sigmoid", "1 / (1 + exp(-x)).", tir::sigmoid, FiniteRule::kAlways)
      .Set(kGradient, Times([](const Site& s) { return Mul(s.result(), Sub(Scalar(s, 1), s.result())); }));
  Math("fast_exp", "exp where a relative error of 1e-5 will do.", tir::exp, FiniteRule::kNever)
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
  Math("fast_tanh", "tanh where an error of 1e-5 will do.", tir::tanh, FiniteRule::kAlways);
  Math("fast_erf", "erf where an error of 1e-5 will do.", tir::erf, FiniteRule::kAlways)
      .Set(relay::kMixedPrecision, MixedPrecisionKind::kNever);
}

}  // namespace

void RegisterElementwiseOps() {
  RegisterMath();
  Unary("abs", "Absolute value.", tir::abs)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kScaleRule, ScaleRule::kPositive)
      .Set(kGradient, Times([](const Site& s) { return CallOp("sign", {s.arg(0)}); }));
  Unary("negative", "-x.", Negative)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kScaleRule, ScaleRule::kAlways)
      .Set(kGradient, FGradient([](const Site& s) { return Grads{Neg(s.grad)}; }));
  Unary("sign", "-1, 0 or 1; NaN stays.", Sign)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("floor", "Greatest integer not above x.", tir::floor)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("ceil", "Least integer not below x.", tir::ceil)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("round", "Nearest integer, halves to even.", NearestEven)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("trunc", "Integer part.", tir::trunc)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("copy", "The same values in a tensor of its own.", Copy)
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kScaleRule, ScaleRule::kAlways)
      .Set(kGradient, FGradient(gradient::Unchanged));
  Unary("zeros_like", "0 in the input's shape and type.", FillLike("zeros_like", 0))
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("ones_like", "1 in the input's shape and type.", FillLike("ones_like", 1))
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("logical_not", "True where x is zero.", LogicalNot)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::None));
  Unary("bitwise_not", "All bits inverted.", tir::bitwise_not, Rule<IntegralInfer>)
      .Set(kFiniteRule, FiniteRule::kAlways);
  Unary("isnan", "Whether x is NaN.", tir::isnan, Rule<BoolInfer>).Set(kFiniteRule, FiniteRule::kAlways);
  Unary("isinf", "Whether x is infinite.", tir::isinf, Rule<BoolInfer>).Set(kFiniteRule, FiniteRule::kAlways);
  Unary("isfinite", "Whether x is neither infinite nor NaN.", tir::isfinite, Rule<BoolInfer>)
      .Set(kFiniteRule, FiniteRule::kAlways);
  Unary("nn.gelu", "x / 2 * (1 + erf(x / sqrt(2))).", Gelu, Rule<FloatInfer>)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCostly, true);
  Unary("nn.mish", "x * tanh(log(1 + exp(x))).", Mish, Rule<FloatInfer>)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCostly, true);
  Unary("cast", "Conversion of the element type. Float to integer truncates and saturates; to bool: nonzero.",
        FTECompute(CastCompute), Rule<CastInfer>)
      .AttrsType<CastAttrs>()
      .Set(kFiniteRule, FiniteRule::kNever)
      .Set(kGradient, FGradient(gradient::OfCast));
  Unary("reinterpret", "The same bits as another element type of equal size.", FTECompute(ReinterpretCompute),
        Rule<ReinterpretInfer>)
      .AttrsType<CastAttrs>()
      .Set(kFiniteRule, FiniteRule::kNever);
  Unary("clip", "min(max(x, a_min), a_max).", FTECompute(ClipCompute), Rule<ClipInfer>)
      .AttrsType<ClipAttrs>()
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::OfClip));
  Unary("fixed_point_multiply", "x * multiplier * 2^(shift - 31), rounded half up; int32.",
        FTECompute(FixedPointMultiplyCompute), Rule<IntegralInfer>)
      .AttrsType<FixedPointMultiplyAttrs>()
      .Set(kFiniteRule, FiniteRule::kAlways);
  Unary("cast_like", "Conversion to the element type of the other tensor.", FTECompute(CastCompute),
        Rule<CastLikeInfer>)
      .Arguments({{"data", "Tensor", "The input."}, {"dtype_like", "Tensor", "Has the type of the result."}})
      .Set(kFiniteRule, FiniteRule::kNever);
  Unary("full_like", "One value in the input's shape and type.", FTECompute(FullLikeCompute), Rule<FullLikeInfer>)
      .Arguments({{"data", "Tensor", "Has the shape of the result."}, {"fill_value", "Tensor", "Scalar."}})
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kGradient, FGradient(gradient::OfFullLike));
}

}  // namespace treadle::ops
