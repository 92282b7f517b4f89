// SPDX-License-Identifier: Apache-2.0
// Conversions between real and quantised tensors. Semantics: ONNX QuantizeLinear and DequantizeLinear; requantisation
// is done in float32 with halves to even, as ONNX Runtime does it, not in fixed point.
#include "ops/qnn.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/layout.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(QuantizeAttrs);
TREADLE_DEFINE_NODE(DequantizeAttrs);
TREADLE_DEFINE_NODE(RequantizeAttrs);
TREADLE_DEFINE_NODE(RoundClipAttrs);
TREADLE_DEFINE_NODE(BlockDenseAttrs);
TREADLE_DEFINE_NODE(BlockProductAttrs);
TREADLE_DEFINE_NODE(ListedDenseAttrs);

namespace qnn {

using relay::Expr;

DataType DTypeOf(const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  TREADLE_ICHECK(tensor != nullptr) << "an operand of a quantised operator is no tensor";
  return tensor->dtype;
}

bool IsZero(const Expr& value) {
  const auto* constant = value.as<relay::ConstantNode>();
  if (constant == nullptr || !constant->data.IsCompact()) return false;
  const char* bytes = constant->data.Data<char>();
  return std::all_of(bytes, bytes + constant->data.size() * runtime::ElementBytes(constant->data.dtype()),
                     [](char c) { return c == 0; });
}

Expr AlongAxis(const Expr& value, const Type& type, int axis, size_t rank) {
  const auto* tensor = type.as<TensorTypeNode>();
  if (tensor == nullptr || tensor->shape.size() != 1) return value;
  if (DimValue(tensor->shape[0]) == 1) return MakeReshape(value, std::vector<int64_t>{});
  const int trailing = static_cast<int>(rank) - 1 - NormalizeAxis(axis, rank);
  return trailing > 0 ? MakeExpandDims(value, 1, trailing) : value;
}

Expr Add(const Expr& a, const Expr& b) { return CallOp("add", {a, b}); }
Expr Sub(const Expr& a, const Expr& b) { return CallOp("subtract", {a, b}); }
Expr Mul(const Expr& a, const Expr& b) { return CallOp("multiply", {a, b}); }

namespace {

/// A zero point that is one known number.
std::optional<int64_t> KnownZero(const Expr& zero_point) {
  if (!zero_point.defined()) return 0;
  const auto* constant = zero_point.as<relay::ConstantNode>();
  if (constant == nullptr || constant->data.size() != 1 || !constant->data.shape().empty()) return std::nullopt;
  const runtime::NDArray& data = constant->data;
  if (data.dtype() == DataType::UInt(8)) return *data.Data<uint8_t>();
  if (data.dtype() == DataType::Int(8)) return *data.Data<int8_t>();
  if (data.dtype() == DataType::UInt(16)) return *data.Data<uint16_t>();
  if (data.dtype() == DataType::Int(16)) return *data.Data<int16_t>();
  if (data.dtype() == DataType::Int(32)) return *data.Data<int32_t>();
  return std::nullopt;
}

}  // namespace

Expr Quotient(Expr real, const Expr& scale, const Expr& zero_point, DataType dtype) {
  const auto* constant = scale.as<relay::ConstantNode>();
  const bool scalar = constant != nullptr && constant->data.dtype() == DataType::Float(32) &&
                      constant->data.shape().empty() && KnownZero(zero_point);
  if (!scalar) return Saturate(CallOp("divide", {real, scale}), zero_point, dtype);
  return Saturate(real, zero_point, dtype, *constant->data.Data<float>());
}

Expr Saturate(Expr real, const Expr& zero_point, DataType dtype, double divisor) {
  const DataType f32 = DataType::Float(32);
  const double low = dtype.is_uint() ? 0 : -static_cast<double>(int64_t{1} << (dtype.bits() - 1));
  const double high = static_cast<double>(int64_t{1} << (dtype.is_uint() ? dtype.bits() : dtype.bits() - 1)) - 1;
  constexpr int64_t kLargest = 1 << 17;  // such bounds are exact in float32
  const auto zero = KnownZero(zero_point);
  if (zero && std::abs(*zero) <= kLargest) {
    const auto z = static_cast<double>(*zero);
    Expr rounded = CallWith<RoundClipAttrs>("qnn.contrib_round_clip", {real}, [&](auto& a) {
      a.a_min = low - z;
      a.a_max = high - z;
      a.divisor = divisor;
    });
    if (*zero != 0) rounded = Add(rounded, ScalarConstant(DataType::Int(32), *zero));
    return MakeCast(rounded, dtype);
  }
  if (divisor != 1) real = CallOp("divide", {real, ScalarConstant(f32, divisor)});
  real = Add(CallOp("round", {real}), MakeCast(zero_point, f32));
  return MakeCast(MakeClip(real, low, high), dtype);
}

Expr Dequantized(const Expr& value, const Expr& scale, const Expr& zero_point) {
  Expr x = value;
  if (zero_point.defined() && !IsZero(zero_point)) {
    x = Sub(MakeCast(x, DataType::Int(32)), MakeCast(zero_point, DataType::Int(32)));
  }
  return Mul(MakeCast(x, DataType::Float(32)), scale);
}

namespace {

void CheckQuantized(DataType dtype, const char* what) {
  if (!dtype.is_integral() || dtype.is_bool() || dtype.bits() > 16) {
    throw DTypeError(StrCat(what, " must be integers of at most 16 bits, not ", dtype));
  }
}

/// Scale (float32) and zero point (integers): scalars, or rank 1 with as many elements as dimension `axis` of `data`.
void CheckParameters(const InferContext& context, int scale, int zero_point, const TensorTypeNode* data, int axis) {
  for (int i : {scale, zero_point}) {
    const auto* type = context.Tensor(i, i == scale ? "scale" : "zero_point");
    if (i == scale && type->dtype != DataType::Float(32)) {
      throw DTypeError(StrCat("scale must be float32, not ", type->dtype));
    }
    if (i == zero_point) CheckIntegral(type, "zero_point");
    if (type->shape.size() > 1)
      throw ShapeError(StrCat("scales and zero points have rank 0 or 1, not ", TypeText(type)));
    if (type->shape.empty() || DimValue(type->shape[0]) == 1) continue;
    const auto at = static_cast<size_t>(NormalizeAxis(axis, data->shape.size()));
    if (!SameDim(type->shape[0], data->shape[at]) && !context.Equal(type->shape[0], data->shape[at])) {
      throw ShapeError(
          StrCat(TypeText(type), " doesn't have one element for each of dimension ", at, " of ", TypeText(data)));
    }
  }
}

Type QuantizeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<QuantizeAttrs>();
  if (data->dtype != DataType::Float(32)) throw DTypeError(StrCat("data must be float32, not ", data->dtype));
  CheckQuantized(attrs->out_dtype, "results");
  CheckParameters(context, 1, 2, data, attrs->axis);
  return TensorType(data->shape, attrs->out_dtype);
}

Expr QuantizeRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* a = attrs.as<QuantizeAttrs>();
  const size_t rank = types[0].as<TensorTypeNode>()->shape.size();
  const Expr scale = AlongAxis(args[1], types[1], a->axis, rank);
  return Quotient(args[0], scale, AlongAxis(args[2], types[2], a->axis, rank), a->out_dtype);
}

Type DequantizeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<DequantizeAttrs>();
  CheckIntegral(data, "data");
  CheckParameters(context, 1, 2, data, attrs->axis);
  return TensorType(data->shape, DataType::Float(32));
}

Expr DequantizeRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const int axis = attrs.as<DequantizeAttrs>()->axis;
  const size_t rank = types[0].as<TensorTypeNode>()->shape.size();
  return Dequantized(args[0], AlongAxis(args[1], types[1], axis, rank), AlongAxis(args[2], types[2], axis, rank));
}

constexpr const char* kToEven = "TONEVEN";
constexpr const char* kUpward = "UPWARD";
constexpr const char* kToNearest = "TONEAREST";

Type RequantizeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<RequantizeAttrs>();
  CheckIntegral(data, "data");
  CheckQuantized(attrs->out_dtype, "results");
  if (attrs->rounding != kToEven && attrs->rounding != kUpward && attrs->rounding != kToNearest) {
    throw Error(StrCat("rounding must be ", kToEven, ", ", kUpward, " or ", kToNearest, ", not ", attrs->rounding));
  }
  if (attrs->compute_dtype != "float32") {
    throw Error(StrCat("requantisation computes in float32, not ", attrs->compute_dtype));
  }
  CheckParameters(context, 1, 2, data, attrs->axis);
  CheckParameters(context, 3, 4, data, attrs->axis);
  return TensorType(data->shape, attrs->out_dtype);
}

/// float32 to the nearest integer; halves go up, or else away from zero. What is taken off is exact, so that the
/// largest float below a half isn't taken for one.
Expr RoundHalves(const Expr& real, bool upward) {
  const DataType f32 = DataType::Float(32);
  const Expr whole = CallOp(upward ? "floor" : "trunc", {real});
  const Expr rest = Sub(real, whole);
  const auto reaches = [&](const char* compare, double bound) {
    return MakeCast(CallOp(compare, {rest, ScalarConstant(f32, bound)}), f32);
  };
  const Expr up = Add(whole, reaches("greater_equal", 0.5));
  return upward ? up : Sub(up, reaches("less_equal", -0.5));
}

Expr RequantizeRule(const Attrs& attrs, const Array<Expr>& args, const Array<Type>& types) {
  const auto* a = attrs.as<RequantizeAttrs>();
  const size_t rank = types[0].as<TensorTypeNode>()->shape.size();
  auto along = [&](size_t i) { return AlongAxis(args[i], types[i], a->axis, rank); };
  // One factor for both scales: the sum is rounded once.
  Expr factor = CallOp("divide", {along(1), along(3)});
  const Expr real = Dequantized(args[0], factor, along(2));
  if (a->rounding == kToEven) return Saturate(real, along(4), a->out_dtype);
  return Saturate(RoundHalves(real, a->rounding == kUpward), along(4), a->out_dtype);
}

Type RoundClipInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<RoundClipAttrs>();
  constexpr double kLargest = 1 << 23;
  if (data->dtype != DataType::Float(32)) throw DTypeError(StrCat("data must be float32, not ", data->dtype));
  for (double bound : {attrs->a_min, attrs->a_max}) {
    if (!(std::abs(bound) <= kLargest) || bound != std::trunc(bound)) {
      throw Error(StrCat("bounds must be integers within +-2^23, not ", bound));
    }
  }
  return TensorType(data->shape, DataType::Int(32));
}

Array<Tensor> RoundClipCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<RoundClipAttrs>();
  const DataType f32 = DataType::Float(32);
  const PrimExpr low = tir::make_const(f32, a->a_min), high = tir::make_const(f32, a->a_max);
  const PrimExpr divisor = tir::make_const(f32, a->divisor);
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr x = inputs[0](i);
        return tir::round_clamped(a->divisor == 1 ? x : x / divisor, low, high);
      },
      "round_clip", tag::kElemWise)};
}

/// data, low, high: float32, the bounds of rank 0.
Type RoundClampInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  for (int i = 0; i < 3; ++i) {
    const auto* type = context.Tensor(i, i == 0 ? "data" : "bound");
    if (type->dtype != DataType::Float(32)) throw DTypeError(StrCat("operands must be float32, not ", type->dtype));
    if (i > 0) CheckRank(type, 0, "bound");
  }
  return TensorType(data->shape, DataType::Int(32));
}

Array<Tensor> RoundClampCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const Array<PrimExpr> number;
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) { return tir::round_clamped(inputs[0](i), inputs[1](number), inputs[2](number)); },
      "round_clamp", tag::kElemWise)};
}

/// data, scale: float32, the scale of rank 0.
Type DivideByScaleInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *scale = context.Tensor(1, "scale");
  for (const auto* type : {data, scale}) {
    if (type->dtype != DataType::Float(32)) throw DTypeError(StrCat("operands must be float32, not ", type->dtype));
  }
  CheckRank(scale, 0, "scale");
  return TensorType(data->shape, data->dtype);
}

Array<Tensor> DivideByScaleCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) { return tir::divide_by_scale(inputs[0](i), inputs[1](Array<PrimExpr>())); },
      "divide_by_scale", tag::kElemWise)};
}

/// data (8 bits), table (256).
Type LookupInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *table = context.Tensor(1, "table");
  CheckIntegral(data, "data");
  CheckRank(table, 1, "table");
  if (data->dtype.bits() != 8 || DimValue(table->shape[0]) != 256) {
    throw ShapeError("needs data of 8 bits and a table of 256 entries");
  }
  return TensorType(data->shape, table->dtype);
}

Array<Tensor> LookupCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const DataType bits = DataType::UInt(8);
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) {
        return inputs[1](tir::cast(DataType::Int(32), tir::reinterpret(bits, inputs[0](i))));
      },
      "lookup", tag::kElemWise)};
}

/// The data's layout; the table stays as it is.
std::optional<relay::LaidOutCall> LookupLayoutRule(const relay::CallNode* call, relay::LayoutArgs& args) {
  const relay::ChannelLayout layout = args.LayoutOf(0);
  if (layout.is_plain()) return std::nullopt;
  return relay::LaidOutCall{relay::Call(call->op, {args.Get(0, layout), args.Plain(1)}, call->attrs, {}, call->span),
                            layout, relay::PaddingUse::kApart};
}

OpArgument Scale(const char* of) { return {StrCat(of, "_scale"), "Tensor", "float32; rank 0, or 1 along `axis`"}; }
OpArgument ZeroPoint(const char* of) {
  return {StrCat(of, "_zero_point"), "Tensor", "Integers; rank 0, or 1 along `axis`"};
}

}  // namespace
}  // namespace qnn

void RegisterQnnOps() {
  using namespace qnn;  // NOLINT(google-build-using-namespace)
  OpRegistration("qnn.quantize")
      .Describe("Integers for real numbers: data / scale rounded half to even, plus the zero point, saturated.")
      .Arguments({{"data", "Tensor", "float32"}, Scale("output"), ZeroPoint("output")})
      .AttrsType<QuantizeAttrs>()
      .SupportLevel(11)
      .Relation(Rule<QuantizeInfer>)
      .Set(relay::kQnnCanonicalize, relay::FLegalize(QuantizeRule));
  OpRegistration("qnn.dequantize")
      .Describe("Real numbers for integers: (data - zero_point) * scale.")
      .Arguments({{"data", "Tensor", "Integers"}, Scale("input"), ZeroPoint("input")})
      .AttrsType<DequantizeAttrs>()
      .SupportLevel(11)
      .Relation(Rule<DequantizeInfer>)
      .Set(relay::kQnnCanonicalize, relay::FLegalize(DequantizeRule));
  OpRegistration("qnn.requantize")
      .Describe("Integers of other scale and zero point: (data - in) * (in_scale / out_scale), rounded half to even.")
      .Arguments(
          {{"data", "Tensor", "Integers"}, Scale("input"), ZeroPoint("input"), Scale("output"), ZeroPoint("output")})
      .AttrsType<RequantizeAttrs>()
      .SupportLevel(11)
      .Relation(Rule<RequantizeInfer>)
      .Set(relay::kQnnCanonicalize, relay::FLegalize(RequantizeRule));
  OpRegistration("qnn.contrib_round_clip")
      .Describe("data / divisor, clamped to [a_min, a_max] and rounded half to even, in int32; NaN gives a_min.")
      .Arguments({{"data", "Tensor", "float32"}})
      .AttrsType<RoundClipAttrs>()
      .SupportLevel(11)
      .Relation(Rule<RoundClipInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCompute, FTECompute(RoundClipCompute));
  OpRegistration("qnn.contrib_round_clamp")
      .Describe("data clamped to [low, high] and rounded half to even, in int32; NaN gives low.")
      .Arguments({{"data", "Tensor", "float32"},
                  {"low", "Tensor", "Scalar, an integer within +-2^23"},
                  {"high", "Tensor", "Scalar, an integer within +-2^23"}})
      .SupportLevel(11)
      .Relation(Rule<RoundClampInfer>)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCompute, FTECompute(RoundClampCompute));
  OpRegistration("qnn.contrib_divide_by_scale")
      .Describe("data / scale, where no more is known of the scale than that it is between 2^-100 and 2^100.")
      .Arguments({{"data", "Tensor", "float32"}, {"scale", "Tensor", "Scalar, between 2^-100 and 2^100"}})
      .SupportLevel(11)
      .Relation(Rule<DivideByScaleInfer>)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kFiniteRule, FiniteRule::kByScalar)
      .Set(kCompute, FTECompute(DivideByScaleCompute));
  OpRegistration("qnn.contrib_lookup")
      .Describe("The table's entry for each byte, in the order of their bits.")
      .Arguments({{"data", "Tensor", "uint8 or int8"}, {"table", "Tensor", "256 entries"}})
      .SupportLevel(11)
      .Relation(Rule<LookupInfer>)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(relay::kLayoutRule, relay::FLayoutRule(LookupLayoutRule))
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCompute, FTECompute(LookupCompute));
}

}  // namespace treadle::ops
