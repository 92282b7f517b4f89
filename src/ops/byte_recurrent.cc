// SPDX-License-Identifier: Apache-2.0
// qnn.contrib_lstm: com.microsoft's DynamicQuantizeLSTM of the usual form, the products of its inputs made before.
#include "ops/byte_recurrent.h"

#include "ops/loops.h"
#include "ops/macs.h"
#include "ops/recurrent.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/recurrent.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::ops {

namespace {

constexpr int64_t kGates = GatesOf(RecurrentCell::kLstm);
const DataType kFloat = DataType::Float(32), kInt = DataType::Int(32);

void CheckOperand(const InferContext& context, int i, DataType dtype, const Array<PrimExpr>& shape, const char* name) {
  const auto* type = context.Tensor(i, name);
  bool fits = type->shape.size() == shape.size();
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    fits = SameDim(type->shape[d], shape[d]) || context.Equal(type->shape[d], shape[d]);
  }
  if (!fits) throw ShapeError(StrCat(name, " is ", TypeText(type), ", expected a shape ", ShapeText(shape)));
  if (type->dtype != dtype) throw DTypeError(StrCat(name, " must be ", dtype, ", is ", type->dtype));
}

Type Infer(const InferContext& context) {
  const auto* weight = context.Tensor(kByteWeight, "weight");
  CheckResetsState(context, RecurrentCell::kLstm);
  CheckRank(weight, 2, "weight");
  const int64_t units = DimValue(weight->shape[0]);
  if (units < 1) {
    throw ShapeError(StrCat("the weight's number of units has to be known and positive: ", TypeText(weight)));
  }
  CheckOperand(context, kByteWeight, DataType::Int(8), {Dim(units), Dim(kGates * units)}, "weight");
  return InferByteLstm(context, units, {});
}

/// A step after the other, of all samples: they share the scale of their states.
class StepWriter {
 public:
  StepWriter(const Array<tir::Buffer>& in, const Array<tir::Buffer>& out, bool reverse)
      : in_(in), out_(out), reverse_(reverse), range_(tir::DeclBuffer({Index(2)}, kFloat, "range", "local")) {
    steps_ = in[kByteX]->shape[0], batch_ = out[1]->shape[0], units_ = out[1]->shape[1];
  }

  tir::Stmt Begin() const {
    return ForUnits([&](const PrimExpr& b, const PrimExpr& u) -> tir::Stmt {
      return InOrder(
          {Store(out_[1], Load(in_[kByteH], {b, u}), {b, u}), Store(out_[2], Load(in_[kByteC], {b, u}), {b, u})});
    });
  }

  tir::Stmt Step(const PrimExpr& step) const {
    const PrimExpr none = tir::make_zero(kFloat);
    auto widen = [&](const PrimExpr& b, const PrimExpr& u) -> tir::Stmt {
      const PrimExpr h = tir::select(Place(b, step).counts, Load(out_[1], {b, u}), none);
      return InOrder({Store(range_, tir::min(Load(range_, {Index(0)}), h), {Index(0)}),
                      Store(range_, tir::max(Load(range_, {Index(1)}), h), {Index(1)})});
    };
    const PrimExpr low = Load(range_, {Index(0)}), high = Load(range_, {Index(1)});
    auto with_scale = [&](const PrimExpr& scale) {
      return LetIn("zero", StateZero(low, scale), [&](const PrimExpr& zero) -> tir::Stmt {
        return Loop(batch_, "b", [&](const PrimExpr& b) { return Sample(step, b, scale, zero); });
      });
    };
    return tir::Allocate(range_, InOrder({Store(range_, none, {Index(0)}), Store(range_, none, {Index(1)}),
                                          ForUnits(widen), LetIn("scale", StateScale(low, high), with_scale)}));
  }

 private:
  tir::Stmt ForUnits(const std::function<tir::Stmt(const PrimExpr& b, const PrimExpr& u)>& body) const {
    return Loop(batch_, "b",
                [&](const PrimExpr& b) { return Loop(units_, "u", [&](const PrimExpr& u) { return body(b, u); }); });
  }
  SequencePlace Place(const PrimExpr& b, const PrimExpr& step) const {
    return PlaceIn(in_[kByteLengths], b, step, steps_, reverse_);
  }

  tir::Stmt Sample(const PrimExpr& step, const PrimExpr& b, const PrimExpr& scale, const PrimExpr& zero) const {
    const SequencePlace place = Place(b, step);
    auto units = [&](const std::function<tir::Stmt(PrimExpr)>& body) { return Loop(units_, "u", body); };
    const tir::Stmt inside = InOrder(
        {units([&](const PrimExpr& u) { return Unit(place.element, b, u, scale, zero); }),
         units([&](const PrimExpr& u) { return Store(out_[1], Load(out_[0], {place.element, b, u}), {b, u}); })});
    const tir::Stmt outside =
        units([&](const PrimExpr& u) { return Store(out_[0], tir::make_zero(kFloat), {step, b, u}); });
    return tir::IfThenElse(place.inside, inside, outside);
  }

  tir::Stmt Unit(const PrimExpr& t, const PrimExpr& b, const PrimExpr& u, const PrimExpr& scale,
                 const PrimExpr& zero) const {
    tir::Buffer sums = tir::DeclBuffer({Index(kGates)}, kInt, "sums", "local");
    auto column = [&](int64_t g) { return units_ * Index(g) + u; };
    std::vector<tir::Stmt> parts;
    for (int64_t g = 0; g < kGates; ++g) parts.push_back(Store(sums, tir::make_zero(kInt), {Index(g)}));
    parts.push_back(Loop(units_, "k", [&](const PrimExpr& k) -> tir::Stmt {
      std::vector<tir::Stmt> products;
      const PrimExpr h = QuantisedState(Load(out_[1], {b, k}), scale, zero) - zero;
      for (int64_t g = 0; g < kGates; ++g) {
        const PrimExpr w = tir::cast(kInt, Load(in_[kByteWeight], {k, column(g)})) - Load(in_[kByteZero], {column(g)});
        products.push_back(Store(sums, Load(sums, {Index(g)}) + h * w, {Index(g)}));
      }
      return InOrder(products);
    }));
    std::vector<PrimExpr> of_gates;
    for (int64_t g = 0; g < kGates; ++g) {
      const PrimExpr factor = scale * Load(in_[kByteScale], {column(g)});
      of_gates.push_back(Load(in_[kByteX], {t, b, column(g)}) + tir::cast(kFloat, Load(sums, {Index(g)})) * factor);
    }
    parts.push_back(Store(out_[2], LstmCell(of_gates, Load(out_[2], {b, u})), {b, u}));
    parts.push_back(Store(out_[0], LstmOutput(of_gates, Load(out_[2], {b, u})), {t, b, u}));
    return tir::Allocate(sums, InOrder(parts));
  }

  Array<tir::Buffer> in_, out_;
  bool reverse_;
  tir::Buffer range_;
  PrimExpr steps_, batch_, units_;
};

Array<Tensor> ByteLstmCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const bool reverse = attrs.as<RecurrentAttrs>()->reverse;
  const TensorTypeNode* all = OutTensor(out_type, 0);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const StepWriter writer(in, out, reverse);
    const tir::Stmt steps = Loop(all->shape[0], "step", [&](const PrimExpr& step) { return writer.Step(step); });
    return InOrder({writer.Begin(), steps});
  };
  const Array<PrimExpr> state{all->shape[1], all->shape[2]};
  return te::Extern({all->shape, state, state}, {kFloat, kFloat, kFloat}, inputs, body, "byte_lstm", "recurrent");
}

double Macs(const Attrs&, const Array<Type>& arguments, const Type&) {
  return Elements(ShapeOf(arguments[kByteX])) * DimOf(arguments[kByteWeight], 0);
}

}  // namespace

Type InferByteLstm(const InferContext& context, int64_t units, const ByteLstmPlaces& at) {
  const auto* x = context.Tensor(kByteX, "x");
  CheckRank(x, 3, "x");
  const PrimExpr batch = x->shape[1], columns = Dim(kGates * units);
  CheckOperand(context, kByteX, kFloat, {x->shape[0], batch, columns}, "x");
  CheckOperand(context, at.scale, kFloat, {columns}, "scale");
  CheckOperand(context, at.zero, kInt, {columns}, "zero_point");
  CheckOperand(context, at.lengths, kInt, {batch}, "lengths");
  CheckOperand(context, at.lengths + 1, kFloat, {batch, Dim(units)}, "h");
  CheckOperand(context, at.lengths + 2, kFloat, {batch, Dim(units)}, "c");
  const Type last = TensorType({batch, Dim(units)}, kFloat);
  return TupleType({TensorType({x->shape[0], batch, Dim(units)}, kFloat), last, last});
}

PrimExpr StateScale(const PrimExpr& low, const PrimExpr& high) {
  const PrimExpr scale = (high - low) / tir::make_const(kFloat, 255.0);
  return tir::select(scale > tir::make_zero(kFloat), scale, tir::make_const(kFloat, 1.0));
}

PrimExpr StateZero(const PrimExpr& low, const PrimExpr& scale) {
  const PrimExpr zero = (tir::make_zero(kFloat) - low) / scale;
  return tir::round_clamped(zero, tir::make_zero(kFloat), tir::make_const(kFloat, 255.0));
}

PrimExpr QuantisedState(const PrimExpr& h, const PrimExpr& scale, const PrimExpr& zero) {
  constexpr double kBeyond = 512;
  const PrimExpr rounded =
      tir::round_clamped(h / scale, tir::make_const(kFloat, -kBeyond), tir::make_const(kFloat, kBeyond));
  return Clamp(rounded + zero, tir::make_zero(kInt), tir::make_const(kInt, int64_t{255}));
}

SequencePlace PlaceIn(const tir::Buffer& lengths, const PrimExpr& b, const PrimExpr& step, const PrimExpr& steps,
                      bool reverse) {
  const PrimExpr length = tir::min(tir::cast(step.dtype(), Load(lengths, {b})), steps);
  const PrimExpr inside = step < length;
  return {length, inside, step <= length, reverse ? tir::select(inside, length - 1 - step, step) : step};
}

void RegisterByteRecurrentOps() {
  OpRegistration("qnn.contrib_lstm")
      .Describe(
          "A long short-term memory layer, gates in the order i, o, f, c, with a recurrent weight of bytes: the states "
          "of all samples are quantised to uint8 before each step, as by DynamicQuantizeLinear.")
      .Arguments({{"x", "Tensor", "(steps, batch, 4 * units): products of the inputs, with biases"},
                  {"weight", "Tensor", "(units, 4 * units) int8"},
                  {"scale", "Tensor", "(4 * units) of the weight"},
                  {"zero_point", "Tensor", "(4 * units) int32, of the weight"},
                  {"lengths", "Tensor", "(batch) int32, of the sequences"},
                  {"h", "Tensor", "(batch, units) before the first step"},
                  {"c", "Tensor", "(batch, units) before the first step"}})
      .AttrsType<RecurrentAttrs>()
      .SupportLevel(10)
      .Relation(Rule<Infer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(relay::kMacCount, relay::FMacCount(Macs))
      .Set(kCompute, FTECompute(ByteLstmCompute));
}

}  // namespace treadle::ops
