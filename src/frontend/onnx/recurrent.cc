// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM and DynamicQuantizeLSTM. Layers of the usual form are one operator (nn.lstm, nn.gru,
// qnn.contrib_lstm); others are unrolled over a sequence of known length, else a loop. Products with the inputs of all
// steps are one.
#include <algorithm>
#include <functional>
#include <optional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/contrib.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/moved_weights.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/symbolic_dims.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;
using Activation = std::function<Expr(const Expr&)>;

constexpr int64_t kMaxSteps = 10000;

/// A matrix that rows are multiplied by. That of bytes stands as (k, n) with a scale and a zero point, or as many as it
/// has columns; that of real numbers as (n, k).
struct Weight {
  Expr values, scale, zero;
};

/// What all operators share: sizes, operands in [seq, batch, ...] order, activations.
struct Recurrent {
  NodeImport& n;
  int64_t gates;
  bool quantised;  ///< weights are bytes
  DataType dtype;
  int64_t steps = 0, batch = 0;  ///< -1: known when the model runs, or none
  int64_t input = 0, hidden = 0, directions = 1;
  bool first_reversed = false;
  bool batch_first = false;
  double clip = 0;
  std::vector<Activation> activations;  ///< those of the first direction, then of the second
  size_t per_direction = 0;
  bool usual_activations = true;
  Expr x;      ///< where only a run knows the steps: those of the longest sequence
  Expr whole;  ///< x as it was given, where x has the steps of the longest sequence; else null
  Expr w, recurrent, biases, peepholes;  ///< inputs 1, 2, 3 and 7, of known sizes; null where they are left out
  Expr lengths;                          ///< of the sequences, where they may end early

  Recurrent(NodeImport& node, int64_t gate_count, const std::vector<std::string>& default_activations,
            bool weights_are_bytes = false);
  Expr Call(const char* op, const Array<Expr>& args) const { return n.Call(op, args); }
  /// Part `d` of an operand whose first dimension is the direction.
  Expr OfDirection(const Expr& value, int64_t d) const { return n.Squeeze(n.Slice(value, 0, d, d + 1), {0}); }
  /// Gate `g` of a [batch, gates * hidden] or [gates * hidden, ...] value.
  Expr Gate(const Expr& value, int64_t g, int axis = 1) const {
    return n.Slice(value, axis, g * hidden, (g + 1) * hidden);
  }
  /// Initial state of direction `d` from input `i`: [batch, hidden], zeros when it is left out; of a `whole` batch, or
  /// one row that stands for all where that does.
  Expr InitialState(size_t i, int64_t d, bool whole = false) const;
  /// Whether the layer is what an operator of its own computes, but for what the cell adds.
  bool IsUsual() const {
    const bool floats = dtype == DataType::Float(32) || dtype == DataType::Float(64);
    return floats && usual_activations && clip == 0;
  }
  /// x * W' + the sum of both biases (`recurrent_bias` of them only for gates below `biased_gates`), of all steps:
  /// [steps * batch, gates * hidden]; [steps, batch, gates * hidden] for a loop.
  Expr Projected(int64_t d, int64_t biased_gates) const;
  Expr BySteps(const Expr& projected) const;
  /// `rows` as [steps, batch, width] of `data`.
  Expr WithStepsOf(const Expr& data, const Expr& rows, int64_t width) const;
  /// The operand; where it's quantised, 0 at steps that no sequence has, which don't count for its range.
  Expr Counted() const;
  /// Of steps that x has, followed by zeros for those that no sequence has.
  Expr OfAllSteps(const Expr& y) const;
  /// What every step reads; within a loop, the variables that carry it. Weights stay constants there.
  std::vector<Expr> shared;
  /// The number of `value` in `shared`.
  size_t Share(const Expr& value);
  /// Input `i` of direction `d`; scale and zero point are inputs `scale` and the next where weights are bytes.
  Weight WeightOf(size_t i, size_t scale, int64_t d) const;
  /// A weight that every step reads.
  std::function<Weight()> SharedWeight(size_t i, size_t scale, int64_t d);
  /// Rows times a weight. Those for bytes become bytes, of one scale for all.
  Expr Product(const Expr& rows, const Weight& weight) const;
  Expr StepOf(const Expr& projected, int64_t t) const {
    if (batch >= 0) return n.Slice(projected, 0, t * batch, (t + 1) * batch);
    return n.Squeeze(n.Slice(n.Reshape(projected, {steps, -1, gates * hidden}), 0, t, t + 1), {0});
  }
  bool Reversed(int64_t d) const { return d == 1 || first_reversed; }
  Expr Clip(const Expr& value) const {
    if (clip == 0) return value;
    return n.Call("clip", {value}, {{"a_min", -clip}, {"a_max", clip}});
  }
  Expr Activate(int64_t d, size_t which, const Expr& value) const {
    return activations[static_cast<size_t>(d) * per_direction + which](Clip(value));
  }
  /// Whether sequences may end before the last step.
  bool HasLengths() const;
  /// [batch, 1] bool: step `t` belongs to the sequence.
  Expr InSequence(const Expr& t, const Expr& lengths) const {
    return n.ExpandDims(n.Call("less", {n.Cast(t, TypeOf(lengths)->dtype), lengths}), 1);
  }
  /// The states after a step, and the output of it, where sequences may have ended.
  Expr Keep(const Expr& inside, std::vector<Expr>& next, const std::vector<Expr>& states) const {
    for (size_t s = 0; s < next.size(); ++s) next[s] = n.Call("where", {inside, next[s], states[s]});
    return n.Call("where", {inside, next[0], n.Scalar(dtype, 0)});
  }

 private:
  void ReadActivations(const std::vector<std::string>& defaults);
  /// The sizes of the weights and of the operand's rows, of whatever of them is known.
  void ReadSizes();
  /// The number of steps of the longest sequence (1).
  Expr Longest() const;
  /// An input of this shape, -1: any size; null where it is left out. Refused where it has another.
  Expr Shaped(size_t i, const char* name, const Ints& expected) const;
};

Activation MakeActivation(NodeImport& n, DataType dtype, const std::string& name, double alpha, double beta) {
  auto unary = [&n](const char* op) -> Activation { return [&n, op](const Expr& x) { return n.Call(op, {x}); }; };
  if (name == "Sigmoid") return unary("sigmoid");
  if (name == "Tanh") return unary("tanh");
  if (name == "Relu") return unary("nn.relu");
  if (name == "HardSigmoid") {
    return [&n, dtype, alpha, beta](const Expr& x) {
      Expr line = n.Call("add", {n.Call("multiply", {x, n.Scalar(dtype, alpha)}), n.Scalar(dtype, beta)});
      return n.Call("clip", {line}, {{"a_min", 0.0}, {"a_max", 1.0}});
    };
  }
  if (name == "LeakyRelu")
    return [&n, alpha](const Expr& x) { return n.Call("nn.leaky_relu", {x}, {{"alpha", alpha}}); };
  if (name == "Affine") {
    return [&n, dtype, alpha, beta](const Expr& x) {
      return n.Call("add", {n.Call("multiply", {x, n.Scalar(dtype, alpha)}), n.Scalar(dtype, beta)});
    };
  }
  if (name == "ScaledTanh") {
    return [&n, dtype, alpha, beta](const Expr& x) {
      const Expr inner = n.Call("tanh", {n.Call("multiply", {x, n.Scalar(dtype, beta)})});
      return n.Call("multiply", {inner, n.Scalar(dtype, alpha)});
    };
  }
  if (name == "Elu") {
    return [&n, alpha](const Expr& x) { return StandardOp(n, "Elu", 6).Operand(x).Set("alpha", alpha).Import1(); };
  }
  if (name == "ThresholdedRelu") {  // of alpha itself, too, unlike the operator of this name
    return [&n, dtype, alpha](const Expr& x) {
      const Expr above = n.Call("greater_equal", {x, n.Scalar(dtype, alpha)});
      return n.Call("where", {above, x, n.Scalar(dtype, 0)});
    };
  }
  if (name == "Softsign" || name == "Softplus") {
    return [&n, name](const Expr& x) { return StandardOp(n, name, 1).Operand(x).Import1(); };
  }
  n.Unsupported(StrCat("activation ", QuoteName(name), " isn't implemented"));
}

/// The parameters of an activation: which of them it has, and their values where the node gives none.
struct ActivationParameters {
  std::optional<double> alpha, beta;
};
ActivationParameters ParametersOf(const std::string& name) {
  if (name == "HardSigmoid") return {0.2, 0.5};
  if (name == "LeakyRelu") return {0.01, std::nullopt};
  if (name == "Elu" || name == "ThresholdedRelu") return {1.0, std::nullopt};
  if (name == "Affine" || name == "ScaledTanh") return {1.0, name == "Affine" ? 0.0 : 1.0};
  return {};
}

void Recurrent::ReadActivations(const std::vector<std::string>& defaults) {
  per_direction = defaults.size();
  const Attribute* given = n.Find("activations");
  std::vector<std::string> names;
  for (int64_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  if (given != nullptr) {
    usual_activations = given->strings == names;
    names = given->strings;
  }
  if (names.size() != per_direction * static_cast<size_t>(directions)) {
    n.Invalid(StrCat("'activations' has ", names.size(), " entries"));
  }
  std::vector<double> alphas = n.Floats("activation_alpha", std::vector<double>());
  std::vector<double> betas = n.Floats("activation_beta", std::vector<double>());
  // Activations take them in turn, those that have parameters.
  size_t next_alpha = 0, next_beta = 0;
  auto take = [](const std::optional<double>& usual, const std::vector<double>& values, size_t* next) {
    return usual && *next < values.size() ? values[(*next)++] : usual.value_or(0);
  };
  for (const std::string& name : names) {
    const ActivationParameters usual = ParametersOf(name);
    const double alpha = take(usual.alpha, alphas, &next_alpha), beta = take(usual.beta, betas, &next_beta);
    activations.push_back(MakeActivation(n, dtype, name, alpha, beta));
  }
}

Recurrent::Recurrent(NodeImport& node, int64_t gate_count, const std::vector<std::string>& default_activations,
                     bool weights_are_bytes)
    : n(node), gates(gate_count), quantised(weights_are_bytes), dtype(node.DType(0)) {
  if (n.version() < 7) n.Ignore({"output_sequence"});
  batch_first = n.Int("layout", 0) != 0;
  clip = n.Float("clip", 0.0);
  if (clip < 0) n.Invalid("'clip' is negative");
  std::string direction = n.Str("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    n.Invalid(StrCat("'direction' is ", QuoteName(direction)));
  }
  directions = direction == "bidirectional" ? 2 : 1;
  first_reversed = direction == "reverse";
  if (n.Rank(0) != 3 || n.Rank(1) != 3 || n.Rank(2) != 3) n.Invalid("X, W and R have to be of rank 3");
  x = batch_first ? n.Transpose(n.In(0), {1, 0, 2}) : n.In(0);
  const int64_t* known_steps = AsConstInt(TypeOf(x)->shape[0]);
  steps = known_steps != nullptr && *known_steps > 0 ? *known_steps : -1;
  const int64_t* known_batch = AsConstInt(TypeOf(x)->shape[1]);
  batch = known_batch != nullptr && *known_batch > 0 ? *known_batch : -1;
  ReadSizes();
  const Expr given_lengths = Shaped(4, "sequence_lens", {batch});
  if (HasLengths()) {
    const Term of_samples = OfSameSize({n, given_lengths}, {{0, 1}}, {n, x}, "samples and 'sequence_lens'");
    lengths = CheckedValues(n, of_samples, "at_most", DimOf(n, x, 0), "sequence length");
    if (steps < 0) {
      whole = x;
      x = n.Call("dyn.take_rows", {x, n.Cast(Longest(), DataType::Int(64))});
    }
  }
  ReadActivations(default_activations);
}

void Recurrent::ReadSizes() {
  auto known = [&](size_t i, size_t axis) {
    const int64_t* size = AsConstInt(TypeOf(n.In(i))->shape[axis]);
    return size != nullptr ? *size : -1;
  };
  const size_t rows = quantised ? 2 : 1, columns = 3 - rows;
  hidden = known(2, columns);
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (hidden < 0 && known(i, rows) >= 0) hidden = known(i, rows) / gates;
  }
  const int64_t stated = n.Int("hidden_size", hidden);
  if (hidden >= 0 && stated != hidden) {
    n.Invalid(StrCat("'hidden_size' is ", stated, ", but the recurrent weights are of size ", hidden));
  }
  hidden = stated;
  if (hidden < 0) {
    n.Unsupported("neither 'hidden_size' nor the shapes of the weights, when compiling, tell the size of the state");
  }
  input = std::max(known(0, 2), known(1, columns));
  auto weight = [&](int64_t width) {
    return quantised ? Ints{directions, width, gates * hidden} : Ints{directions, gates * hidden, width};
  };
  x = WithSizes(Term(n, x), {-1, -1, input}, "X");
  w = Shaped(1, "W", weight(input));
  recurrent = Shaped(2, "R", weight(hidden));
  biases = Shaped(3, "B", {directions, 2 * gates * hidden});
  if (gates == 4) peepholes = Shaped(7, "P", {directions, 3 * hidden});
}

Expr Recurrent::Shaped(size_t i, const char* name, const Ints& expected) const {
  return n.Has(i) ? WithSizes(In(n, i), expected, name).expr() : Expr();
}

Expr Recurrent::InitialState(size_t i, int64_t d, bool whole) const {
  if (!n.Has(i) && batch < 0 && (steps < 0 || whole)) {
    Expr shape = n.Concat({n.Reshape(DimOf(n, x, 1), {1}), n.IntVector({hidden})}, 0);
    return n.Call("dyn.full", {n.Scalar(dtype, 0), shape}, {{"dtype", dtype}});
  }
  if (!n.Has(i) && batch < 0) return n.Const(ArrayOf(Ints(static_cast<size_t>(hidden), 0), {1, hidden}, dtype));
  if (!n.Has(i)) return n.Const(ArrayOf(Ints(static_cast<size_t>(batch * hidden), 0), {batch, hidden}, dtype));
  if (n.Rank(i) != 3) n.Invalid(StrCat("an initial state has rank ", n.Rank(i), ", expected 3"));
  const Term state(n, batch_first ? n.Transpose(n.In(i), {1, 0, 2}) : n.In(i));
  const Term sized = WithSizes(state, {directions, batch, hidden}, "an initial state");
  return OfDirection(OfSameSize(sized, {{1, 1}}, {n, x}, "batches of X and an initial state"), d);
}

size_t Recurrent::Share(const Expr& value) {
  std::optional<NDArray> weight = steps < 0 ? MovedWeight(value) : std::nullopt;
  shared.push_back(weight ? n.Const(*weight) : value);
  return shared.size() - 1;
}

Weight Recurrent::WeightOf(size_t i, size_t scale, int64_t d) const {
  Weight weight{OfDirection(i == 1 ? w : recurrent, d), Expr(), Expr()};
  if (!quantised) return weight;
  auto parameter = [&](size_t k) {
    const bool one = n.Rank(k) == 1;
    return OfDirection(Shaped(k, "a scale or zero point", one ? Ints{directions} : Ints{directions, gates * hidden}),
                       d);
  };
  weight.scale = parameter(scale);
  weight.zero = parameter(scale + 1);
  return weight;
}

std::function<Weight()> Recurrent::SharedWeight(size_t i, size_t scale, int64_t d) {
  const Weight weight = WeightOf(i, scale, d);
  const size_t values = Share(weight.values);
  if (!quantised) return [this, values] { return Weight{shared[values], Expr(), Expr()}; };
  const size_t scales = Share(weight.scale), zeros = Share(weight.zero);
  return [this, values, scales, zeros] { return Weight{shared[values], shared[scales], shared[zeros]}; };
}

Expr Recurrent::Product(const Expr& rows, const Weight& weight) const {
  if (!quantised) return n.Call("nn.dense", {rows, weight.values});
  const std::vector<Expr> bytes = StandardOp(n, "DynamicQuantizeLinear", 11).Operand(rows).Import(3);
  StandardOp product(n, "MatMulInteger", 10);
  product.Operand(bytes[0]).Operand(weight.values).Operand(bytes[2]).Operand(weight.zero);
  return n.Call("multiply", {n.Cast(product.Import1(), dtype), n.Call("multiply", {bytes[1], weight.scale})});
}

Expr Recurrent::Longest() const {
  const Expr none = n.Const(ArrayOf(Ints{0}, Ints{1}, TypeOf(lengths)->dtype));  // no samples have no maximum
  return n.Call("max", {n.Concat({lengths, none}, 0)}, {{"axis", Ints{0}}, {"keepdims", true}});
}

Expr Recurrent::OfAllSteps(const Expr& y) const {
  if (!whole.defined()) return y;
  std::vector<Term> widths(6, IntNum(n, 0));
  widths[1] = onnx::DimOf(Term(n, whole), 0) - onnx::DimOf(Term(n, y), 0);
  const Expr padded = n.Call("dyn.nn.pad", {y, Stack(widths).Reshape({3, 2}), n.Scalar(dtype, 0)},
                             {{"pad_mode", std::string("constant")}});
  return WithStepsOf(whole, padded, hidden);
}

Expr Recurrent::Counted() const {
  if (!quantised || !HasLengths() || whole.defined()) return x;
  const Expr of_all = n.Call("add", {n.Call("subtract", {lengths, lengths}), Longest()});
  return n.Call("sequence_mask", {x, of_all}, {{"axis", int64_t{0}}});
}

Expr Recurrent::Projected(int64_t d, int64_t biased_gates) const {
  // One product for the rows of all steps, however many there are.
  const Expr data = Counted();
  const Term all(n, data);
  const Expr rows = input >= 0
                        ? n.Reshape(data, {steps < 0 || batch < 0 ? -1 : steps * batch, input})
                        : ReshapeTo(all, {onnx::DimOf(all, 0) * onnx::DimOf(all, 1), onnx::DimOf(all, 2)}).expr();
  Expr y = Product(rows, WeightOf(1, 8, d));
  if (!n.Has(3)) return BySteps(y);
  Expr both = OfDirection(biases, d);
  int64_t width = gates * hidden;
  Expr bias = n.Slice(both, 0, 0, width);
  Expr second = n.Slice(both, 0, width, width + biased_gates * hidden);
  if (biased_gates < gates) {
    Expr none = n.Const(ArrayOf(Ints(static_cast<size_t>((gates - biased_gates) * hidden), 0),
                                {(gates - biased_gates) * hidden}, dtype));
    second = n.Concat({second, none}, 0);
  }
  return BySteps(n.Call("add", {y, n.Call("add", {bias, second})}));
}

Expr Recurrent::BySteps(const Expr& projected) const {
  if (steps >= 0) return projected;
  const int64_t width = gates * hidden;
  if (batch >= 0) return n.Reshape(projected, {-1, batch, width});
  return WithStepsOf(x, projected, width);
}

Expr Recurrent::WithStepsOf(const Expr& data, const Expr& rows, int64_t width) const {
  auto size = [&](int axis) { return n.Reshape(DimOf(n, data, axis), {1}); };
  const Expr shape = n.Concat({size(0), size(1), n.IntVector({width})}, 0);
  const Array<PrimExpr> hints = SizeHints(n.ShapeElements(shape), 3);
  return n.Call("dyn.reshape", {rows, shape}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

bool Recurrent::HasLengths() const {
  if (!n.Has(4)) return false;
  if (!n.IsKnown(4)) return true;
  Ints lengths = n.ConstantInts(4, "sequence_lens");
  return !std::all_of(lengths.begin(), lengths.end(), [this](int64_t l) { return l == steps; });
}

/// One direction: the hidden state of each step (in the order of the sequence) and the last states.
struct Unrolled {
  std::vector<Expr> outputs;
  Expr all_outputs;          ///< instead, of a loop or operator: [steps, batch, hidden]
  std::vector<Expr> states;  ///< h, and c of LSTM
};

/// The states after a step from its inputs, already multiplied by their weights, and the states before.
using Step = std::function<std::vector<Expr>(const Expr& x, const std::vector<Expr>& states)>;

/// As many steps as the run says.
Unrolled LoopOver(Recurrent& r, int64_t d, const Expr& projected, const std::vector<Expr>& states, const Step& step) {
  NodeImport& n = r.n;
  const size_t num_states = states.size();
  const bool has_lengths = r.HasLengths(), reversed = r.Reversed(d);
  Expr length = n.Reshape(DimOf(n, r.x, 0), {});
  std::vector<Expr> carried = states;
  carried.push_back(projected);
  carried.push_back(length);
  if (has_lengths) carried.push_back(r.lengths);
  const std::vector<Expr> outside = r.shared;
  const size_t first_shared = carried.size();
  for (const Expr& value : outside) {
    if (KnownValue(value) == nullptr) carried.push_back(value);
  }
  auto trip = [&](const std::vector<Expr>& values, const Expr& number) {
    const std::vector<Expr> before(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(num_states));
    const Expr one = n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Int(64)));
    const Expr t = reversed ? n.Call("subtract", {n.Call("subtract", {values[num_states + 1], one}), number}) : number;
    // Steps are counted by the rows that there are: no index has to be checked.
    Expr x = n.Call("take", {values[num_states], t}, {{"axis", int64_t{0}}, {"mode", "clip"}});
    size_t variable = first_shared;
    for (Expr& value : r.shared) {
      if (KnownValue(value) == nullptr) value = values[variable++];
    }
    LoopTrip result{step(x, before), {}, Expr()};
    r.shared = outside;
    Expr output = result.carried[0];
    if (has_lengths) output = r.Keep(r.InSequence(t, values[num_states + 2]), result.carried, before);
    result.rows = {output};
    result.carried.insert(result.carried.end(), values.begin() + static_cast<std::ptrdiff_t>(num_states), values.end());
    return result;
  };
  std::vector<Expr> all = ImportCountedLoop(n, carried, length, trip);
  r.shared.clear();
  Unrolled result;
  result.states.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(num_states));
  // Without a trip the sizes of what it gives aren't known.
  const Term x(n, r.x), rows(n, all.back());
  all.back() = ReshapeTo(rows, {onnx::DimOf(x, 0), onnx::DimOf(x, 1), IntNum(n, r.hidden)});
  result.all_outputs = reversed ? n.Call("reverse", {all.back()}, {{"axis", int64_t{0}}}) : all.back();
  return result;
}

/// Calls `step` for each step, and keeps states where a sequence has ended.
Unrolled Unroll(Recurrent& r, int64_t d, const Expr& projected, std::vector<Expr> states, const Step& step) {
  if (r.steps < 0) return LoopOver(r, d, projected, states, step);
  if (r.steps > kMaxSteps) {
    r.n.Unsupported(StrCat("sequences of more than ", kMaxSteps, " steps aren't implemented for this form of layer"));
  }
  Unrolled result;
  result.outputs.resize(static_cast<size_t>(r.steps));
  const bool has_lengths = r.HasLengths();
  for (int64_t i = 0; i < r.steps; ++i) {
    int64_t t = r.Reversed(d) ? r.steps - 1 - i : i;
    std::vector<Expr> next = step(r.StepOf(projected, t), states);
    Expr output = next[0];
    if (has_lengths) {
      Expr number = r.n.Scalar(r.n.DType(4), static_cast<double>(t));
      output = r.Keep(r.InSequence(number, r.lengths), next, states);
    }
    states = std::move(next);
    result.outputs[static_cast<size_t>(t)] = output;
  }
  r.shared.clear();
  result.states = std::move(states);
  return result;
}

/// Sequences that may end early, for an operator that takes all steps. In those that a sequence doesn't have, gates are
/// closed by large numbers, so that states stay: z of GRU is 1; of LSTM, i is 0 and f is 1. That keeps c of LSTM, but
/// not h, which is of the last step that there is; so its steps have to be in front, also where they are counted
/// backwards.
struct EndedSequences {
  const Recurrent& r;
  bool is_lstm, reversed;

  Expr Mask(const Expr& x, double value) const {
    return r.n.Call("sequence_mask", {x, r.lengths}, {{"axis", int64_t{0}}, {"mask_value", value}});
  }
  Expr Turned(const Expr& x) const {
    if (!is_lstm || !reversed) return x;
    return r.n.Call("reverse_sequence", {x, r.lengths}, {{"seq_axis", int64_t{0}}, {"batch_axis", int64_t{1}}});
  }
  /// What x gives to all gates (steps, batch, gates * hidden), closed at the end.
  Expr Closed(const Expr& x) const {
    constexpr double kLarge = 1e6;
    if (!is_lstm) return Mask(x, kLarge);
    const Expr turned = Turned(x);
    return r.n.Concat(
        {Mask(r.Gate(turned, 0, 2), -kLarge), Mask(r.n.Slice(turned, 2, r.hidden, r.gates * r.hidden), kLarge)}, 2);
  }
  /// The state h of LSTM after the steps that there are: of `all`, as they were computed, or as it was `before` them.
  Expr Last(const Expr& all, const Expr& before) const {
    NodeImport& n = r.n;
    const Expr states = n.Concat({n.ExpandDims(before, 0), all}, 0);
    const DataType index = DataType::Int(64);
    const Expr zeros = n.Call("zeros_like", {n.Cast(n.ExpandDims(before, 0), index)});
    const Expr places = n.Call("add", {zeros, n.Reshape(n.Cast(r.lengths, index), {1, -1, 1})});
    return n.Squeeze(n.Call("gather", {states, places}, {{"axis", int64_t{0}}}), {0});
  }
};

/// The layer as one operator, of the operands that are between x and the states.
Unrolled AsOperator(const Recurrent& r, const char* op, int64_t d, const Expr& projected,
                    const Array<Expr>& weight_and_more, const std::vector<size_t>& states, bool resets_state = false) {
  NodeImport& n = r.n;
  const EndedSequences ended{r, states.size() == 2, r.Reversed(d)};
  const bool ends = !r.quantised && r.HasLengths();
  const Expr given = r.steps < 0 ? projected : n.Reshape(projected, {r.steps, r.batch, r.gates * r.hidden});
  Array<Expr> operands{ends ? ended.Closed(given) : given};
  for (const Expr& e : weight_and_more) operands.push_back(e);
  for (size_t input : states) operands.push_back(r.InitialState(input, d, true));
  const bool reverse = r.Reversed(d) && !(ends && ended.is_lstm);
  const Expr results = n.Call(op, operands, {{"reverse", reverse}, {"resets_state", resets_state}});
  Unrolled result;
  result.all_outputs = n.Item(results, 0);
  for (size_t s = 0; s < states.size(); ++s) result.states.push_back(n.Item(results, static_cast<int>(s) + 1));
  if (!ends) return result;
  if (ended.is_lstm) result.states[0] = ended.Last(result.all_outputs, operands[operands.size() - 2]);
  result.all_outputs = ended.Mask(ended.Turned(result.all_outputs), 0);
  return result;
}

/// What qnn.contrib_lstm reads between x and the states: the weight in int8, its scales and zero points, and lengths.
Array<Expr> ByteOperands(const Recurrent& r, int64_t d) {
  NodeImport& n = r.n;
  constexpr int64_t kHalf = 128;
  const DataType number = DataType::Int(32);
  const int64_t columns = r.gates * r.hidden;
  auto of_columns = [&](const Expr& value) { return n.Call("broadcast_to", {value}, {{"shape", Ints{columns}}}); };
  Weight weight = r.WeightOf(2, 10, d);
  weight.zero = n.Cast(weight.zero, number);
  if (TypeOf(weight.values)->dtype == DataType::UInt(8)) {
    const DataType wide = DataType::Int(16);
    const Expr centred = n.Call("subtract", {n.Cast(weight.values, wide), n.Scalar(wide, kHalf)});
    weight.values = n.Cast(centred, DataType::Int(8));
    weight.zero = n.Call("subtract", {weight.zero, n.Scalar(number, kHalf)});
  }
  Expr lengths = r.lengths;
  if (!r.HasLengths()) {
    const Expr steps = r.steps >= 0 ? n.Scalar(number, static_cast<double>(r.steps)) : n.Reshape(DimOf(n, r.x, 0), {});
    lengths = r.batch >= 0
                  ? n.Call("broadcast_to", {steps}, {{"shape", Ints{r.batch}}})
                  : n.Call("dyn.full", {n.Cast(steps, number), n.Reshape(DimOf(n, r.x, 1), {1})}, {{"dtype", number}});
  }
  return {weight.values, of_columns(weight.scale), of_columns(weight.zero), n.Cast(lengths, number)};
}

/// The last values of state `s`, 0 of sequences without steps: what ONNX Runtime gives, also where there is an initial
/// state. The standard doesn't say.
Expr LastState(const Recurrent& r, const Expr& state, size_t s) {
  NodeImport& n = r.n;
  if (!r.HasLengths() || !n.Has(5 + s)) return state;
  const Expr empty = n.Call("equal", {r.lengths, n.Scalar(TypeOf(r.lengths)->dtype, 0)});
  return n.Call("where", {n.ExpandDims(empty, 1), n.Scalar(r.dtype, 0), state});
}

/// Y [steps, directions, batch, hidden] and the last states [directions, batch, hidden]; batch first with layout 1.
std::vector<Expr> Outputs(const Recurrent& r, const std::vector<Unrolled>& unrolled) {
  NodeImport& n = r.n;
  auto join = [&](const Array<Expr>& parts, int axis) { return parts.size() == 1 ? parts[0] : n.Concat(parts, axis); };
  Array<Expr> per_direction;
  for (const Unrolled& u : unrolled) {
    if (u.all_outputs.defined()) {
      per_direction.push_back(n.ExpandDims(r.OfAllSteps(u.all_outputs), 1));
      continue;
    }
    Array<Expr> steps;
    for (const Expr& h : u.outputs) steps.push_back(n.Reshape(h, {1, 1, r.batch, r.hidden}));
    per_direction.push_back(join(steps, 0));
  }
  Expr y = join(per_direction, 1);
  std::vector<Expr> outputs{r.batch_first ? n.Transpose(y, {2, 0, 1, 3}) : y};
  for (size_t s = 0; s < unrolled[0].states.size(); ++s) {
    Array<Expr> last;
    for (const Unrolled& u : unrolled) last.push_back(n.ExpandDims(LastState(r, u.states[s], s), 0));
    Expr state = join(last, 0);
    outputs.push_back(r.batch_first ? n.Transpose(state, {1, 0, 2}) : state);
  }
  return outputs;
}

std::vector<Expr> ImportRnn(NodeImport& n) {
  Recurrent r(n, 1, {"Tanh"});
  std::vector<Unrolled> unrolled;
  for (int64_t d = 0; d < r.directions; ++d) {
    Expr projected = r.Projected(d, 1);
    const auto recurrence = r.SharedWeight(2, 0, d);
    unrolled.push_back(Unroll(r, d, projected, {r.InitialState(5, d)}, [&](const Expr& x, const std::vector<Expr>& s) {
      Expr sum = n.Call("add", {x, r.Product(s[0], recurrence())});
      return std::vector<Expr>{r.Activate(d, 0, sum)};
    }));
  }
  return Outputs(r, unrolled);
}

/// Gates in the order z, r, h. With linear_before_reset the reset gate applies after the recurrent product.
std::vector<Expr> ImportGru(NodeImport& n) {
  Recurrent r(n, 3, {"Sigmoid", "Tanh"});
  bool linear = n.Flag("linear_before_reset", false);
  std::vector<Unrolled> unrolled;
  for (int64_t d = 0; d < r.directions; ++d) {
    Expr projected = r.Projected(d, linear ? 2 : 3);
    if (r.IsUsual()) {
      const Expr none = n.Const(ArrayOf(Ints(static_cast<size_t>(r.hidden), 0), {r.hidden}, r.dtype));
      const bool apart = linear && n.Has(3);  // else x has it
      const Expr bias = apart ? n.Slice(r.OfDirection(r.biases, d), 0, 5 * r.hidden, 6 * r.hidden) : none;
      unrolled.push_back(AsOperator(r, "nn.gru", d, projected, {r.OfDirection(r.recurrent, d), bias}, {5}, !linear));
      continue;
    }
    const Expr recurrence = r.OfDirection(r.recurrent, d);
    // One product for all gates that are multiplied with the state as it was.
    const size_t gates = r.Share(linear ? recurrence : n.Slice(recurrence, 0, 0, 2 * r.hidden));
    const bool biased = linear && n.Has(3);
    size_t last_gate = 0, hidden_bias = 0;
    if (!linear) last_gate = r.Share(r.Gate(recurrence, 2, 0));
    if (biased) hidden_bias = r.Share(n.Slice(r.OfDirection(r.biases, d), 0, 5 * r.hidden, 6 * r.hidden));
    unrolled.push_back(Unroll(r, d, projected, {r.InitialState(5, d)}, [&](const Expr& x, const std::vector<Expr>& s) {
      const Expr& h = s[0];
      Expr products = n.Call("nn.dense", {h, r.shared[gates]});
      Expr update = r.Activate(d, 0, n.Call("add", {r.Gate(x, 0), r.Gate(products, 0)}));
      Expr reset = r.Activate(d, 0, n.Call("add", {r.Gate(x, 1), r.Gate(products, 1)}));
      Expr recurrent;
      if (linear) {
        recurrent = r.Gate(products, 2);
        if (biased) recurrent = n.Call("add", {recurrent, r.shared[hidden_bias]});
        recurrent = n.Call("multiply", {reset, recurrent});
      } else {
        recurrent = n.Call("nn.dense", {n.Call("multiply", {reset, h}), r.shared[last_gate]});
      }
      Expr candidate = r.Activate(d, 1, n.Call("add", {r.Gate(x, 2), recurrent}));
      Expr rest = n.Call("subtract", {n.Scalar(r.dtype, 1), update});
      return std::vector<Expr>{n.Call("add", {n.Call("multiply", {rest, candidate}), n.Call("multiply", {update, h})})};
    }));
  }
  return Outputs(r, unrolled);
}

/// Gates in the order i, o, f, c; peepholes (input 7) in the order i, o, f.
std::vector<Expr> ImportLstmOf(NodeImport& n, bool quantised) {
  Recurrent r(n, 4, {"Sigmoid", "Tanh", "Tanh"}, quantised);
  bool input_forget = n.Flag("input_forget", false);
  std::vector<Unrolled> unrolled;
  for (int64_t d = 0; d < r.directions; ++d) {
    Expr projected = r.Projected(d, 4);
    if (!input_forget && !n.Has(7) && r.IsUsual()) {
      const bool bytes = r.quantised;
      const Array<Expr> operands = bytes ? ByteOperands(r, d) : Array<Expr>{r.OfDirection(r.recurrent, d)};
      unrolled.push_back(AsOperator(r, bytes ? "qnn.contrib_lstm" : "nn.lstm", d, projected, operands, {5, 6}));
      continue;
    }
    const auto recurrence = r.SharedWeight(2, 10, d);
    const size_t peepholes = n.Has(7) ? r.Share(r.OfDirection(r.peepholes, d)) : 0;
    auto peep = [&](const Expr& gate, const Expr& cell, int64_t g) {
      if (!n.Has(7)) return gate;
      return n.Call("add", {gate, n.Call("multiply", {r.Gate(r.shared[peepholes], g, 0), cell})});
    };
    std::vector<Expr> initial{r.InitialState(5, d), r.InitialState(6, d)};
    unrolled.push_back(Unroll(r, d, projected, initial, [&](const Expr& x, const std::vector<Expr>& s) {
      const Expr& c = s[1];
      Expr all = n.Call("add", {x, r.Product(s[0], recurrence())});
      Expr in = r.Activate(d, 0, peep(r.Gate(all, 0), c, 0));
      Expr forget =
          input_forget ? n.Call("subtract", {n.Scalar(r.dtype, 1), in}) : r.Activate(d, 0, peep(r.Gate(all, 2), c, 2));
      Expr candidate = r.Activate(d, 1, r.Gate(all, 3));
      Expr cell = n.Call("add", {n.Call("multiply", {forget, c}), n.Call("multiply", {in, candidate})});
      Expr out = r.Activate(d, 0, peep(r.Gate(all, 1), cell, 1));
      return std::vector<Expr>{n.Call("multiply", {out, r.activations[static_cast<size_t>(d) * 3 + 2](cell)}), cell};
    }));
  }
  return Outputs(r, unrolled);
}

std::vector<Expr> ImportLstm(NodeImport& n) { return ImportLstmOf(n, false); }

/// Weights of bytes [directions, input, 4 hidden], with scales and zero points at inputs 8 to 11.
std::vector<Expr> ImportDynamicQuantizeLstm(NodeImport& n) { return ImportLstmOf(n, true); }

}  // namespace

void RegisterRecurrentRules(RuleTable& table) {
  table.Add("RNN", {1, 7, 14, 22}, ImportRnn);
  table.Add("GRU", {3, 7, 14, 22}, ImportGru);
  table.Add("LSTM", {1, 7, 14, 22}, ImportLstm);
  AddContrib(table, "DynamicQuantizeLSTM", ImportDynamicQuantizeLstm);
}

}  // namespace treadle::onnx
