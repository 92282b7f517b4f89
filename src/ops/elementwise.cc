// SPDX-License-Identifier: Apache-2.0
// Operators that work on each element alone. Semantics: ONNX and NumPy, which agree on these.
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

const std::vector<OpArgument> kData = {{"data", "Tensor", "The input."}};

Type BoolInfer(const InferContext& context) { return TensorType(context.Tensor(0, "data")->shape, DataType::Bool()); }

Type FloatInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (!data->dtype.is_floating()) {
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

OpRegistration Unary(const char* name, const char* text, TypeRelationFn relation = Rule<IdentityInfer>) {
  return OpRegistration(name).Describe(text).Arguments(kData).SupportLevel(1).Relation(relation).Set(
      kOpPattern, OpPatternKind::kElemWise);
}

void RegisterMath() {
  struct {
    const char* name;
    const char* text;
  } const functions[] = {
      {"exp", "e to the power of x."},
      {"log", "Natural logarithm."},
      {"log2", "Logarithm to base 2."},
      {"log10", "Logarithm to base 10."},
      {"sqrt", "Square root."},
      {"rsqrt", "One over the square root."},
      {"sin", "Sine."},
      {"cos", "Cosine."},
      {"tan", "Tangent."},
      {"asin", "Arc sine."},
      {"acos", "Arc cosine."},
      {"atan", "Arc tangent."},
      {"sinh", "Hyperbolic sine."},
      {"cosh", "Hyperbolic cosine."},
      {"tanh", "Hyperbolic tangent."},
      {"asinh", "Inverse hyperbolic sine."},
      {"acosh", "Inverse hyperbolic cosine."},
      {"atanh", "Inverse hyperbolic tangent."},
      {"erf", "Error function."},
      {"sigmoid", "1 / (1 + exp(-x))."},
      {"fast_exp", "exp by a polynomial, for use where a relative error of 1e-5 will do."},
      {"fast_tanh", "tanh by a rational function, for use where an error of 1e-5 will do."},
      {"fast_erf", "erf by a rational function, for use where an error of 1e-5 will do."},
  };
  for (const auto& f : functions) Unary(f.name, f.text, Rule<FloatInfer>);
}

}  // namespace

void RegisterElementwiseOps() {
  RegisterMath();
  Unary("abs", "Absolute value.");
  Unary("negative", "-x.");
  Unary("sign", "-1, 0 or 1; NaN stays.");
  Unary("floor", "Greatest integer not above x.");
  Unary("ceil", "Least integer not below x.");
  Unary("round", "Nearest integer, halves to even.");
  Unary("trunc", "Integer part.");
  Unary("copy", "The same values in a tensor of its own.");
  Unary("zeros_like", "0 in the input's shape and type.");
  Unary("ones_like", "1 in the input's shape and type.");
  Unary("logical_not", "True where x is zero.");
  Unary("bitwise_not", "All bits inverted.", Rule<IntegralInfer>);
  Unary("isnan", "Whether x is NaN.", Rule<BoolInfer>);
  Unary("isinf", "Whether x is infinite.", Rule<BoolInfer>);
  Unary("isfinite", "Whether x is neither infinite nor NaN.", Rule<BoolInfer>);
  Unary("cast", "Conversion of the element type. Float to integer truncates and saturates.", Rule<CastInfer>)
      .AttrsType<CastAttrs>();
  Unary("reinterpret", "The same bits as another element type of equal size.", Rule<ReinterpretInfer>)
      .AttrsType<CastAttrs>();
  Unary("clip", "min(max(x, a_min), a_max).", Rule<ClipInfer>).AttrsType<ClipAttrs>();
  Unary("fixed_point_multiply", "x * multiplier * 2^(shift - 31), rounded half up; int32.", Rule<IntegralInfer>)
      .AttrsType<FixedPointMultiplyAttrs>();
  Unary("cast_like", "Conversion to the element type of the other tensor.", Rule<CastLikeInfer>)
      .Arguments({{"data", "Tensor", "The input."}, {"dtype_like", "Tensor", "Has the type of the result."}});
  Unary("full_like", "One value in the input's shape and type.", Rule<FullLikeInfer>)
      .Arguments({{"data", "Tensor", "Has the shape of the result."}, {"fill_value", "Tensor", "Scalar."}});
}

}  // namespace treadle::ops
