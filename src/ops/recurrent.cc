// SPDX-License-Identifier: Apache-2.0
// Recurrent layers over any number of steps: LSTM and GRU, with the products of their inputs made before. Semantics:
// ONNX LSTM-14 and GRU-14 with their default activations.
#include "ops/recurrent.h"

#include "ops/byte_recurrent.h"
#include "ops/families.h"
#include "ops/loops.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/recurrent.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(RecurrentAttrs);

namespace {

void CheckShape(const InferContext& context, const TensorTypeNode* type, const Array<PrimExpr>& expected,
                const char* name) {
  bool fits = type->shape.size() == expected.size();
  for (size_t i = 0; fits && i < expected.size(); ++i) {
    fits = SameDim(type->shape[i], expected[i]) || context.Equal(type->shape[i], expected[i]);
  }
  if (!fits) throw ShapeError(StrCat(name, " is ", TypeText(type), ", expected a shape ", ShapeText(expected)));
}

template <RecurrentCell kCell>
Type Infer(const InferContext& context) {
  const auto *x = context.Tensor(kRecurrentX, "x"), *weight = context.Tensor(kRecurrentWeight, "weight");
  CheckResetsState(context, kCell);
  const Type result = InferRecurrent(context, kCell);
  const PrimExpr& units = OutTensor(result)->shape[2];
  CheckSameDType(x, weight);
  CheckShape(context, weight, {DimMul(units, Dim(GatesOf(kCell))), units}, "weight");
  return result;
}

/// A step of GRU whose gate r multiplies the state, of sample `b`: all units of that gate before the product of the
/// next. Gate z waits where the result will stand.
tir::Stmt ResettingStep(const Array<tir::Buffer>& in, const Array<tir::Buffer>& out, const tir::Buffer& reset,
                        const PrimExpr& t, const PrimExpr& b) {
  constexpr int64_t kUpdate = 0, kReset = 1, kCandidate = 2;
  const PrimExpr units = out[1]->shape[1];
  const tir::Buffer& weight = in[kRecurrentWeight];
  const tir::Buffer sum = tir::DeclBuffer({Index(1)}, out[0]->dtype, "sum", "local");
  const Array<PrimExpr> here{Index(0)};
  // Gate `gate` of unit u, of the products with `state`; `use` stores what its sum gives.
  auto gate_of = [&](int64_t gate, const PrimExpr& u, const std::function<PrimExpr(PrimExpr)>& state,
                     const std::function<tir::Stmt(PrimExpr)>& use) -> tir::Stmt {
    PrimExpr given = Load(in[kRecurrentX], {t, b, units * Index(gate) + u});
    if (gate == kCandidate) given = given + Load(in[kRecurrentWeight + 1], {u});
    const tir::Stmt products = Loop(units, "k", [&](const PrimExpr& k) -> tir::Stmt {
      return Store(sum, Load(sum, here) + state(k) * Load(weight, {units * Index(gate) + u, k}), here);
    });
    return InOrder({Store(sum, given, here), products, use(Load(sum, here))});
  };
  auto old = [&](const PrimExpr& k) { return Load(out[1], {b, k}); };
  const tir::Stmt gates = Loop(units, "u", [&](const PrimExpr& u) -> tir::Stmt {
    return InOrder(
        {gate_of(kUpdate, u, old, [&](const PrimExpr& z) { return Store(out[0], tir::sigmoid(z), {t, b, u}); }),
         gate_of(kReset, u, old, [&](const PrimExpr& r) { return Store(reset, tir::sigmoid(r) * old(u), {u}); })});
  });
  const tir::Stmt states = Loop(units, "u", [&](const PrimExpr& u) -> tir::Stmt {
    auto kept = [&](const PrimExpr& k) { return Load(reset, {k}); };
    return gate_of(kCandidate, u, kept, [&](const PrimExpr& h) {
      return Store(out[0], GruMix(Load(out[0], {t, b, u}), h, old(u)), {t, b, u});
    });
  });
  return tir::Allocate(sum, InOrder({gates, states}));
}

/// Samples in parallel; of each, a step after the other. The state is kept where the last one is wanted.
template <RecurrentCell kCell>
Array<Tensor> RecurrentCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  constexpr auto kState = static_cast<size_t>(StateOperand(kCell));
  constexpr bool kIsLstm = kCell == RecurrentCell::kLstm;
  constexpr int64_t kGates = GatesOf(kCell);
  const bool reverse = attrs.as<RecurrentAttrs>()->reverse;
  const bool resets = !kIsLstm && attrs.as<RecurrentAttrs>()->resets_state;
  const TensorTypeNode* all = OutTensor(out_type, 0);
  const PrimExpr steps = all->shape[0], batch = all->shape[1], units = all->shape[2];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    auto copy_units = [&](const tir::Buffer& from, const tir::Buffer& to, const PrimExpr& b) {
      return Loop(units, "u", [&](const PrimExpr& u) { return Store(to, Load(from, {b, u}), {b, u}); });
    };
    tir::Buffer sums = tir::DeclBuffer({Index(kGates)}, all->dtype, "sums", "local");
    tir::Buffer reset = tir::DeclBuffer({units}, all->dtype, "reset", "global");
    auto unit = [&](const PrimExpr& t, const PrimExpr& b, const PrimExpr& u) -> tir::Stmt {
      auto given = [&](int64_t gate) { return Load(in[kRecurrentX], {t, b, units * Index(gate) + u}); };
      Array<tir::Stmt> parts;
      for (int64_t g = 0; g < kGates; ++g) {
        const bool candidate = !kIsLstm && g == kGates - 1;
        parts.push_back(Store(sums, candidate ? Load(in[kState - 1], {u}) : given(g), {Index(g)}));
      }
      parts.push_back(Loop(units, "k", [&](const PrimExpr& k) -> tir::Stmt {
        Array<tir::Stmt> products;
        for (int64_t g = 0; g < kGates; ++g) {
          const PrimExpr w = Load(in[kRecurrentWeight], {units * Index(g) + u, k});
          products.push_back(Store(sums, Load(sums, {Index(g)}) + Load(out[1], {b, k}) * w, {Index(g)}));
        }
        return tir::SeqStmt(products);
      }));
      std::vector<PrimExpr> of_gates;
      for (int64_t g = 0; g < kGates; ++g) of_gates.push_back(Load(sums, {Index(g)}));
      if (kIsLstm) parts.push_back(Store(out[2], LstmCell(of_gates, Load(out[2], {b, u})), {b, u}));
      const PrimExpr h = kIsLstm ? LstmOutput(of_gates, Load(out[2], {b, u}))
                                 : GruOutput(of_gates, given(kGates - 1), Load(out[1], {b, u}));
      parts.push_back(Store(out[0], h, {t, b, u}));
      return tir::Allocate(sums, tir::SeqStmt(parts));
    };
    return LoopNest(
        {batch}, "b",
        [&](const Array<PrimExpr>& i) -> tir::Stmt {
          const PrimExpr b = i[0];
          Array<tir::Stmt> parts{copy_units(in[kState], out[1], b)};
          if (kIsLstm) parts.push_back(copy_units(in[kState + 1], out[2], b));
          parts.push_back(ForSteps(steps, reverse, [&](const PrimExpr& t) -> tir::Stmt {
            tir::Stmt step = resets ? ResettingStep(in, out, reset, t, b)
                                    : Loop(units, "u", [&](const PrimExpr& u) { return unit(t, b, u); });
            tir::Stmt keep =
                Loop(units, "u", [&](const PrimExpr& u) { return Store(out[1], Load(out[0], {t, b, u}), {b, u}); });
            return tir::SeqStmt(Array<tir::Stmt>{step, keep});
          }));
          return resets ? tir::Stmt(tir::Allocate(reset, tir::SeqStmt(parts))) : tir::Stmt(tir::SeqStmt(parts));
        },
        true);
  };
  std::vector<Array<PrimExpr>> shapes{all->shape};
  shapes.resize(kIsLstm ? 3 : 2, {batch, units});
  const std::vector<DataType> dtypes(shapes.size(), all->dtype);
  return te::Extern(shapes, dtypes, inputs, body, kIsLstm ? "lstm" : "gru", "recurrent");
}

double RecurrentMacs(const Attrs&, const Array<Type>& arguments, const Type&) {
  return Elements(ShapeOf(arguments[kRecurrentX])) * DimOf(arguments[kRecurrentWeight], 1);
}

template <RecurrentCell kCell>
void RegisterCell(const char* name, const char* text) {
  RecurrentOp(name, text, kCell, "(gates * units, units), rows of the first gate first")
      .AttrsType<RecurrentAttrs>()
      .SupportLevel(10)
      .Relation(Rule<Infer<kCell>>)
      .Set(relay::kMacCount, relay::FMacCount(RecurrentMacs))
      .Set(kCompute, FTECompute(RecurrentCompute<kCell>));
}

}  // namespace

void CheckResetsState(const InferContext& context, RecurrentCell cell) {
  const bool resets = context.attrs<RecurrentAttrs>()->resets_state;
  if (resets && cell != RecurrentCell::kGru) throw Error("resets_state is an attribute of nn.gru only");
}

Type InferRecurrent(const InferContext& context, RecurrentCell cell) {
  const auto* x = context.Tensor(kRecurrentX, "x");
  const int state = StateOperand(cell);
  CheckRank(x, 3, "x");
  const auto* weight = context.Tensor(kRecurrentWeight, "weight");
  if (weight->shape.size() < 2 || DimValue(weight->shape[1]) < 1) {
    throw ShapeError(StrCat("the weight's number of units has to be known and positive: ", TypeText(weight)));
  }
  if (x->dtype != DataType::Float(32) && x->dtype != DataType::Float(64)) {
    throw DTypeError(StrCat("x must be float32 or float64, is ", x->dtype));
  }
  const PrimExpr batch = x->shape[1], units = weight->shape[1];
  CheckShape(context, x, {x->shape[0], batch, DimMul(units, Dim(GatesOf(cell)))}, "x");
  const Type last = TensorType({batch, units}, x->dtype);
  auto check = [&](int i, const Array<PrimExpr>& shape, const char* name) {
    CheckSameDType(x, context.Tensor(i, name));
    CheckShape(context, context.Tensor(i, name), shape, name);
  };
  check(state, {batch, units}, "h");
  Array<Type> results{TensorType({x->shape[0], batch, units}, x->dtype), last};
  if (cell == RecurrentCell::kGru) {
    check(state - 1, {units}, "bias");
  } else {
    check(state + 1, {batch, units}, "c");
    results.push_back(last);
  }
  return TupleType(results);
}

PrimExpr LstmCell(const std::vector<PrimExpr>& sums, const PrimExpr& c) {
  return tir::sigmoid(sums[2]) * c + tir::sigmoid(sums[0]) * tir::tanh(sums[3]);
}

PrimExpr LstmOutput(const std::vector<PrimExpr>& sums, const PrimExpr& new_c) {
  return tir::sigmoid(sums[1]) * tir::tanh(new_c);
}

PrimExpr GruOutput(const std::vector<PrimExpr>& sums, const PrimExpr& candidate, const PrimExpr& h) {
  return GruMix(tir::sigmoid(sums[0]), candidate + tir::sigmoid(sums[1]) * sums[2], h);
}

PrimExpr GruMix(const PrimExpr& update, const PrimExpr& sum, const PrimExpr& h) {
  return (tir::make_const(update.dtype(), 1.0) - update) * tir::tanh(sum) + update * h;
}

tir::Stmt ForSteps(const PrimExpr& steps, bool reverse, const std::function<tir::Stmt(const PrimExpr&)>& body) {
  return Loop(steps, "t", [&](const PrimExpr& t) { return body(reverse ? steps - 1 - t : t); });
}

OpRegistration RecurrentOp(const std::string& name, const std::string& text, RecurrentCell cell,
                           const std::string& weight) {
  std::vector<OpArgument> arguments{
      {"x", "Tensor", "(steps, batch, gates * units): products of the inputs, with biases"},
      {"weight", "Tensor", weight}};
  if (cell == RecurrentCell::kGru)
    arguments.push_back({"bias", "Tensor", "(units), of the product that gate r multiplies"});
  arguments.push_back({"h", "Tensor", "(batch, units) before the first step"});
  if (cell == RecurrentCell::kLstm) arguments.push_back({"c", "Tensor", "(batch, units) before the first step"});
  return OpRegistration(name)
      .Describe(text)
      .Arguments(arguments)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
}

void RegisterRecurrentOps() {
  RegisterCell<RecurrentCell::kLstm>("nn.lstm", "A long short-term memory layer, gates in the order i, o, f, c.");
  RegisterCell<RecurrentCell::kGru>("nn.gru", "A layer of gated recurrent units, gates in the order z, r, h.");
  RegisterByteRecurrentOps();
}

}  // namespace treadle::ops
