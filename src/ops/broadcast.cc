// SPDX-License-Identifier: Apache-2.0
// Operators on two or more tensors whose shapes are broadcast. Semantics: ONNX (of opset 7 and later) and NumPy.
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
namespace {

const std::vector<OpArgument> kOperands = {{"lhs", "Tensor", "The left hand side."},
                                           {"rhs", "Tensor", "The right hand side."}};

Type IntegralBroadcastInfer(const InferContext& context) {
  CheckIntegral(context.Tensor(0, "lhs"), "lhs");
  return BroadcastInfer(context);
}

Type WhereInfer(const InferContext& context) {
  const auto* condition = context.Tensor(0, "condition");
  const auto* x = context.Tensor(1, "x");
  const auto* y = context.Tensor(2, "y");
  CheckSameDType(x, y);
  Array<PrimExpr> values = BroadcastShape(context, x->shape, y->shape);
  return TensorType(BroadcastShape(context, condition->shape, values), x->dtype);
}

Type BroadcastToInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<InitOpAttrs>();
  Array<PrimExpr> joint = BroadcastShape(context, data->shape, attrs->shape);
  bool fits = joint.size() == attrs->shape.size();
  for (size_t i = 0; fits && i < joint.size(); ++i) fits = IsAnyDim(joint[i]) || SameDim(joint[i], attrs->shape[i]);
  if (!fits) throw ShapeError(StrCat("can't broadcast ", ShapeText(data->shape), " to ", ShapeText(attrs->shape)));
  for (size_t i = 0; i < data->shape.size(); ++i) {
    RequireBroadcast(context, data->shape[i], attrs->shape[i + joint.size() - data->shape.size()]);
  }
  return TensorType(attrs->shape, data->dtype);
}

Type BroadcastToLikeInfer(const InferContext& context) {
  return TensorType(context.Tensor(1, "shape_like")->shape, context.Tensor(0, "data")->dtype);
}

using BinaryFn = PrimExpr (*)(PrimExpr, PrimExpr);

FTECompute BinaryCompute(std::string name, BinaryFn fn) {
  return [name = std::move(name), fn](const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
    const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
    const DataType dtype = OutTensor(out_type)->dtype;
    bool same = inputs[0].ndim() == inputs[1].ndim();
    for (size_t i = 0; same && i < shape.size(); ++i) same = SameDim(inputs[0]->shape[i], inputs[1]->shape[i]);
    return Array<Tensor>{Compute(
        shape,
        [&](const Array<PrimExpr>& i) {
          return StoredAs(dtype, fn(LoadBroadcast(inputs[0], i, shape), LoadBroadcast(inputs[1], i, shape)));
        },
        name, same ? tag::kElemWise : tag::kBroadcast)};
  };
}

PrimExpr FloorDivide(PrimExpr a, PrimExpr b) {
  return runtime::ActsAsFloat(a.dtype()) ? tir::floor(tir::div(a, b)) : tir::floordiv(a, b);
}
PrimExpr TruncMod(PrimExpr a, PrimExpr b) {
  return runtime::ActsAsFloat(a.dtype()) ? tir::fmod(a, b) : tir::truncmod(a, b);
}
PrimExpr FloorMod(PrimExpr a, PrimExpr b) {
  if (!runtime::ActsAsFloat(a.dtype())) return tir::floormod(a, b);
  PrimExpr rest = tir::fmod(a, b);
  PrimExpr other_sign = tir::not_equal(rest, tir::make_zero(a.dtype())) && tir::not_equal(rest < 0, b < 0);
  return tir::select(other_sign, rest + b, rest);
}
PrimExpr Power(PrimExpr a, PrimExpr b) {
  if (runtime::ActsAsFloat(a.dtype())) return tir::pow(a, b);
  // By squaring, wrapping as NumPy does. Beyond 63 only 0, 1 and -1 keep a value; below 0 only 1 and -1 have one.
  const DataType wide = DataType::Int(64);
  tir::Var base("base", a.dtype()), exponent("exponent", wide);
  PrimExpr square = base, result = tir::make_const(a.dtype(), 1);
  std::vector<std::pair<tir::Var, PrimExpr>> steps;
  auto named = [&](const char* name, const PrimExpr& value) {
    steps.emplace_back(tir::Var(name, value.dtype()), value);
    return PrimExpr(steps.back().first);
  };
  for (int bit = 0; bit < 6; ++bit) {
    const PrimExpr set =
        tir::bitwise_and(tir::right_shift(exponent, tir::make_const(wide, bit)), tir::make_const(wide, 1));
    result = named("power", tir::select(tir::not_equal(set, tir::make_zero(wide)), result * square, result));
    if (bit < 5) square = named("square", square * square);
  }
  const PrimExpr one = tir::make_const(a.dtype(), 1), zero = tir::make_zero(a.dtype());
  PrimExpr beyond = tir::select(tir::equal(base, one), one, zero);
  if (a.dtype().is_int()) {
    const PrimExpr odd = tir::not_equal(tir::bitwise_and(exponent, tir::make_const(wide, 1)), tir::make_zero(wide));
    const PrimExpr minus_one = tir::make_const(a.dtype(), -1);
    beyond = tir::select(tir::equal(base, minus_one), tir::select(odd, minus_one, one), beyond);
  }
  result = tir::select(exponent < 0 || exponent > 63, beyond, result);
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) result = tir::Let(it->first, it->second, result);
  return tir::Let(base, a, tir::Let(exponent, tir::cast(wide, b), result));
}

/// Shifts by the width or more (a negative amount counts as such) give what shifting one by one would.
PrimExpr ShiftInRange(const PrimExpr& b, PrimExpr* amount) {
  DataType dtype = b.dtype();
  PrimExpr in_range = b < dtype.bits();
  if (dtype.is_int()) in_range = b >= 0 && in_range;
  *amount = tir::select(in_range, b, tir::make_const(dtype, dtype.bits() - 1));
  return in_range;
}
PrimExpr LeftShift(PrimExpr a, PrimExpr b) {
  PrimExpr amount;
  PrimExpr in_range = ShiftInRange(b, &amount);
  return tir::select(in_range, tir::left_shift(a, amount), tir::make_zero(a.dtype()));
}
PrimExpr RightShift(PrimExpr a, PrimExpr b) {
  PrimExpr amount;
  PrimExpr in_range = ShiftInRange(b, &amount);
  PrimExpr shifted = tir::right_shift(a, amount);
  return a.dtype().is_int() ? shifted : tir::select(in_range, shifted, tir::make_zero(a.dtype()));
}

PrimExpr Truth(const PrimExpr& x) { return x.dtype().is_bool() ? x : tir::not_equal(x, tir::make_zero(x.dtype())); }
PrimExpr LogicalAnd(PrimExpr a, PrimExpr b) { return tir::cast(a.dtype(), Truth(a) && Truth(b)); }
PrimExpr LogicalOr(PrimExpr a, PrimExpr b) { return tir::cast(a.dtype(), Truth(a) || Truth(b)); }
PrimExpr LogicalXor(PrimExpr a, PrimExpr b) { return tir::cast(a.dtype(), tir::not_equal(Truth(a), Truth(b))); }

Array<Tensor> WhereCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        return tir::select(Truth(LoadBroadcast(inputs[0], i, shape)), LoadBroadcast(inputs[1], i, shape),
                           LoadBroadcast(inputs[2], i, shape));
      },
      "where", tag::kBroadcast)};
}

Array<Tensor> BroadcastToCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape, [&](const Array<PrimExpr>& i) { return LoadBroadcast(inputs[0], i, shape); }, "broadcast_to",
      tag::kBroadcast)};
}

/// Finite operands give finite results, unless `finite` says otherwise.
OpRegistration Binary(const char* name, const char* text, FTECompute compute,
                      TypeRelationFn relation = Rule<BroadcastInfer>, FiniteRule finite = FiniteRule::kAlways) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments(kOperands)
      .SupportLevel(1)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kFiniteRule, finite)
      .Set(kCompute, std::move(compute));
}
OpRegistration Binary(const char* name, const char* text, BinaryFn fn, TypeRelationFn relation = Rule<BroadcastInfer>,
                      FiniteRule finite = FiniteRule::kAlways) {
  return Binary(name, text, BinaryCompute(name, fn), relation, finite);
}

}  // namespace

void RegisterBroadcastOps() {
  Binary("add", "lhs + rhs.", tir::add).Set(kGradient, FGradient(gradient::OfAdd));
  Binary("subtract", "lhs - rhs.", tir::sub).Set(kGradient, FGradient(gradient::OfSubtract));
  Binary("multiply", "lhs * rhs.", tir::mul).Set(kGradient, FGradient(gradient::OfMultiply));
  Binary("divide", "lhs / rhs; integers truncate, a zero divisor gives 0.", tir::div, Rule<BroadcastInfer>,
         FiniteRule::kByScalar)
      .Set(kGradient, FGradient(gradient::OfDivide));
  Binary("floor_divide", "floor(lhs / rhs); an integer zero divisor gives 0.", FloorDivide, Rule<BroadcastInfer>,
         FiniteRule::kByScalar);
  Binary("mod", "Remainder of truncating division: has the sign of lhs. An integer zero divisor gives 0.", TruncMod,
         Rule<BroadcastInfer>, FiniteRule::kByScalar);
  Binary("floor_mod", "Remainder of floor division: has the sign of rhs. An integer zero divisor gives 0.", FloorMod,
         Rule<BroadcastInfer>, FiniteRule::kByScalar);
  Binary("power", "lhs to the power of rhs.", Power, Rule<BroadcastInfer>, FiniteRule::kNever)
      .Set(kCostly, true)
      .Set(kGradient, FGradient(gradient::OfPower))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  Binary("maximum", "The greater; NaN if either is.", tir::max).Set(kGradient, FGradient(gradient::OfMaximum));
  Binary("minimum", "The smaller; NaN if either is.", tir::min).Set(kGradient, FGradient(gradient::OfMinimum));
  Binary("left_shift", "lhs << rhs; 0 from the width on.", LeftShift, Rule<IntegralBroadcastInfer>);
  Binary("right_shift", "lhs >> rhs; arithmetic for signed types.", RightShift, Rule<IntegralBroadcastInfer>);
  Binary("bitwise_and", "Bits set in both.", tir::bitwise_and, Rule<IntegralBroadcastInfer>);
  Binary("bitwise_or", "Bits set in either.", tir::bitwise_or, Rule<IntegralBroadcastInfer>);
  Binary("bitwise_xor", "Bits set in one of them.", tir::bitwise_xor, Rule<IntegralBroadcastInfer>);
  Binary("logical_and", "Whether both are nonzero.", LogicalAnd).Set(kGradient, FGradient(gradient::None));
  Binary("logical_or", "Whether either is nonzero.", LogicalOr).Set(kGradient, FGradient(gradient::None));
  Binary("logical_xor", "Whether one of them is nonzero.", LogicalXor).Set(kGradient, FGradient(gradient::None));
  Binary("equal", "lhs == rhs.", tir::equal, Rule<CompareInfer>);
  Binary("not_equal", "lhs != rhs.", tir::not_equal, Rule<CompareInfer>);
  Binary("less", "lhs < rhs.", tir::less, Rule<CompareInfer>);
  Binary("less_equal", "lhs <= rhs.", tir::less_equal, Rule<CompareInfer>);
  Binary("greater", "lhs > rhs.", tir::greater, Rule<CompareInfer>);
  Binary("greater_equal", "lhs >= rhs.", tir::greater_equal, Rule<CompareInfer>);
  Binary("where", "x where the condition is nonzero, else y.", FTECompute(WhereCompute), Rule<WhereInfer>)
      .Arguments({{"condition", "Tensor", "What decides."},
                  {"x", "Tensor", "Taken where true."},
                  {"y", "Tensor", "Taken where false."}})
      .Set(kGradient, FGradient(gradient::OfWhere));
  Binary("broadcast_to", "Broadcast to a given shape.", FTECompute(BroadcastToCompute), Rule<BroadcastToInfer>)
      .Set(kValueRule, ValueRule::kMoves)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<InitOpAttrs>()
      .Set(kGradient, FGradient(gradient::OfBroadcastTo));
  Binary("broadcast_to_like", "Broadcast to the shape of the other tensor.", FTECompute(BroadcastToCompute),
         Rule<BroadcastToLikeInfer>)
      .Set(kValueRule, ValueRule::kMoves)
      .Arguments({{"data", "Tensor", "The input."}, {"shape_like", "Tensor", "Has the shape of the result."}})
      .Set(kGradient, FGradient(gradient::OfBroadcastToLike))
      .Set(relay::kLayoutRule, relay::FLayoutRule(nullptr));
}

}  // namespace treadle::ops
