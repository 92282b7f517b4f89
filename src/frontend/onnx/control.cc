// SPDX-License-Identifier: Apache-2.0
// Control flow that is decided when compiling: branches whose condition is known, short loops whose number of trips
// is. The rest: loop.cc.
#include <algorithm>
#include <functional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/values.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// Trips of a loop that is unrolled: longer ones are run as loops.
constexpr int64_t kMaxUnrolled = 32;

std::optional<bool> KnownBool(NodeImport& n, const Expr& expr) {
  auto known = n.KnownElements(expr);
  if (!known || known->size() != 1 || !TypeOf(expr)->dtype.is_bool()) return std::nullopt;
  return (*known)[0] != 0;
}

std::vector<Expr> ImportIf(NodeImport& n) {
  for (const char* branch : {"then_branch", "else_branch"}) n.Find(branch);
  Expr condition = n.In(0);
  if (TypeOf(condition)->dtype != DataType::Bool()) n.Invalid("the condition isn't bool");
  if (auto known = KnownBool(n, condition)) {
    std::vector<Expr> outputs = n.ForkingSubgraph(*known ? "then_branch" : "else_branch");
    MarkTextResults(n, 0);
    return outputs;
  }
  return ImportBranch(n, condition);
}

/// Values of a loop's scan output, one per trip, as one tensor with a new dimension `axis`.
Expr Stack(NodeImport& n, const std::vector<Expr>& values, int axis) {
  Array<Expr> parts;
  for (const Expr& value : values) parts.push_back(n.ExpandDims(value, axis));
  return parts.size() == 1 ? parts[0] : n.Concat(parts, axis);
}

/// The loop unrolled; nothing where the number of trips isn't known, or is large.
std::optional<std::vector<Expr>> Unroll(NodeImport& n, const Graph& body) {
  int64_t trips = INT64_MAX;
  if (n.Has(0)) {
    auto known = n.KnownElements(n.In(0));
    if (!known || known->size() != 1) return std::nullopt;
    trips = (*known)[0];
  }
  std::optional<bool> go_on = true;
  if (n.Has(1)) go_on = KnownBool(n, n.In(1));
  if (!go_on || (trips > kMaxUnrolled && !n.Has(1))) return std::nullopt;
  std::vector<Expr> carried;
  for (size_t i = 2; i < n.num_inputs(); ++i) carried.push_back(n.In(i));
  if (body.outputs.size() < carried.size() + 1) n.Invalid("the body has too few outputs");
  size_t scans = body.outputs.size() - carried.size() - 1;
  std::vector<std::vector<Expr>> scanned(scans);
  for (int64_t trip = 0; trip < trips && *go_on; ++trip) {
    if (trip == kMaxUnrolled) return std::nullopt;
    std::vector<Expr> inputs{n.Const(ArrayOf(Ints{trip}, Ints{}, DataType::Int(64))),
                             n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Bool()))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Expr> outputs = n.Subgraph("body", inputs, LoopText(n));
    CheckCarriedText(n, 2, carried.size(), 1);
    for (size_t i = 0; i < carried.size(); ++i) CheckKeptType(n, i, outputs[i + 1], carried[i]);
    go_on = KnownBool(n, outputs[0]);
    if (!go_on) return std::nullopt;
    std::copy(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size()), carried.begin());
    for (size_t i = 0; i < scans; ++i) scanned[i].push_back(outputs[1 + carried.size() + i]);
  }
  for (const std::vector<Expr>& values : scanned) {
    if (values.empty()) return std::nullopt;
    for (const Expr& value : values) {
      if (!StructuralEqual(value.checked_type(), values[0].checked_type())) return std::nullopt;
    }
    carried.push_back(Stack(n, values, 0));
  }
  return carried;
}

/// Inputs: greatest number of trips, condition to go on, carried values. The body takes the trip's number, the
/// condition and the carried values, and gives the condition, the carried values and the scan outputs.
std::vector<Expr> ImportLoop(NodeImport& n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  std::optional<std::vector<Expr>> outputs = Unroll(n, *body->g);
  if (!outputs) outputs = ImportDynamicLoop(n);
  MarkTextResults(n, 1);
  return *outputs;
}

/// A per-value attribute of Scan: axes or directions, 0 by default.
Ints PerValue(NodeImport& n, const char* name, size_t count) {
  Ints values = n.Ints(name, Ints(count, 0));
  if (values.size() != count) n.Invalid(StrCat("'", name, "' has ", values.size(), " entries, expected ", count));
  return values;
}

/// 0 forward, 1 backward.
Ints Directions(NodeImport& n, const char* name, size_t count) {
  Ints values = PerValue(n, name, count);
  for (int64_t value : values) {
    if (value != 0 && value != 1) n.Invalid(StrCat("'", name, "' has ", value, ", expected 0 or 1"));
  }
  return values;
}

/// Inputs: states, then sequences. The body takes the states and one slice of each sequence, and gives the new states
/// and one slice of each result. Unrolled.
std::vector<Expr> ImportScan(NodeImport& n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  int64_t count = n.Int("num_scan_inputs");
  auto inputs = static_cast<int64_t>(n.num_inputs());
  if (count < 1 || count > inputs) n.Invalid(StrCat("'num_scan_inputs' is ", count, " of ", inputs, " inputs"));
  auto states_count = static_cast<size_t>(inputs - count);
  auto scans = static_cast<size_t>(count);
  if (body->g->outputs.size() < states_count) n.Invalid("the body has too few outputs");
  size_t results = body->g->outputs.size() - states_count;
  Ints in_axes = PerValue(n, "scan_input_axes", scans);
  Ints in_directions = Directions(n, "scan_input_directions", scans);
  Ints out_axes = PerValue(n, "scan_output_axes", results);
  Ints out_directions = Directions(n, "scan_output_directions", results);
  std::vector<Expr> states;
  for (size_t i = 0; i < states_count; ++i) states.push_back(n.In(i));
  ScanSpec spec{states, {}, in_axes, in_directions, out_axes, out_directions};
  int64_t length = -1;
  bool known = true;
  for (size_t i = 0; i < scans; ++i) {
    spec.sequences.push_back(n.In(states_count + i));
    in_axes[i] = spec.in_axes[i] = n.Axis(in_axes[i], n.Rank(states_count + i));
    const int64_t* size = AsConstInt(TypeOf(spec.sequences[i])->shape[static_cast<size_t>(in_axes[i])]);
    known = known && size != nullptr;
    if (size != nullptr && length >= 0 && *size != length) n.Invalid("the sequences have different lengths");
    if (size != nullptr) length = *size;
  }
  if (!known || length == 0 || length > kMaxUnrolled) {
    std::vector<Expr> outputs = ImportDynamicScan(n, spec);
    MarkTextResults(n, 0);
    return outputs;
  }
  std::vector<std::vector<Expr>> collected(results);
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Expr> arguments = states;
    for (size_t i = 0; i < scans; ++i) {
      auto axis = static_cast<int>(in_axes[i]);
      int64_t at = in_directions[i] == 0 ? t : length - 1 - t;
      arguments.push_back(n.Squeeze(n.Slice(n.In(states_count + i), axis, at, at + 1), {axis}));
    }
    std::vector<Expr> outputs = n.Subgraph("body", arguments, InputsText(n));
    CheckCarriedText(n, 0, states_count, 0);
    outputs = KeptShapes(n, outputs, states);
    std::copy(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(states_count), states.begin());
    for (size_t i = 0; i < results; ++i) collected[i].push_back(outputs[states_count + i]);
  }
  for (size_t i = 0; i < results; ++i) {
    if (out_directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    states.push_back(Stack(n, collected[i], n.Axis(out_axes[i], RankOf(collected[i][0]) + 1)));
  }
  MarkTextResults(n, 0);
  return states;
}

/// A value whose first dimension has to be as large as the batch when the model runs.
Expr OfBatch(const Term& x, const Term& batch) {
  NodeImport& n = x.node();
  std::vector<Term> sizes{EqualTo(DimOf(x, 0), batch, "size of a batch beside another's")};
  Array<PrimExpr> hints = TypeOf(x)->shape;
  for (int d = 0; d < x.rank(); ++d) {
    if (d > 0) sizes.push_back(DimOf(x, d));
    if (IsAnyDim(hints[static_cast<size_t>(d)])) hints.Set(static_cast<size_t>(d), PrimExpr(int64_t{-1}));
  }
  return n.Call("dyn.reshape", {x, Stack(sizes)}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}});
}

/// Version 8 has a batch in front of everything: one sample after the other. Inputs: lengths of the sequences, states,
/// sequences. Beyond the end of its sequence a sample has zeros as results.
class Scan8 {
 public:
  explicit Scan8(NodeImport& n);
  std::vector<Expr> Outputs() { return batch_ < 1 || batch_ > kMaxUnrolled ? Looped() : Unrolled(); }

 private:
  void ReadBatch();
  void ReadLengths();
  std::vector<Expr> Scanned(const std::function<Expr(size_t)>& sample);
  std::vector<Expr> Looped();
  std::vector<Expr> Unrolled();

  NodeImport& n_;
  std::vector<Expr> operands_;  ///< states, sequences; lengths, where there are several
  size_t states_ = 0, scans_ = 0, results_ = 0;
  Ints directions_;
  int64_t batch_ = -1;  ///< -1: known when the model runs
  bool has_lengths_ = false;
};

Scan8::Scan8(NodeImport& n) : n_(n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  const int64_t count = n.Int("num_scan_inputs"), inputs = static_cast<int64_t>(n.num_inputs()) - 1;
  if (count < 1 || count > inputs) n.Invalid(StrCat("'num_scan_inputs' is ", count, " of ", inputs, " inputs"));
  states_ = static_cast<size_t>(inputs - count);
  scans_ = static_cast<size_t>(count);
  if (body->g->outputs.size() < states_) n.Invalid("the body has too few outputs");
  results_ = body->g->outputs.size() - states_;
  directions_ = Directions(n, "directions", scans_);
  for (size_t i = 1; i < n.num_inputs(); ++i) {
    if (n.Rank(i) < (i <= states_ ? 1 : 2))
      n.Invalid(StrCat("input ", i, " has rank ", n.Rank(i), ", which has no batch"));
    operands_.push_back(n.In(i));
  }
  ReadLengths();
  ReadBatch();
}

void Scan8::ReadBatch() {
  for (const Expr& operand : operands_) {
    const int64_t* size = AsConstInt(TypeOf(operand)->shape[0]);
    if (size != nullptr && batch_ >= 0 && *size != batch_) n_.Invalid("the inputs have batches of different sizes");
    if (size != nullptr) batch_ = *size;
  }
}

void Scan8::ReadLengths() {
  if (!n_.Has(0)) return;
  if (n_.Rank(0) != 1) n_.Invalid("'sequence_lens' isn't a vector");
  const Term steps = DimOf(Term(n_, operands_[states_]), 1), lengths = In(n_, 0).As(DataType::Int(64));
  const auto known = n_.KnownElements(lengths), limit = n_.KnownElements(steps);
  if (known && limit) {
    for (const int64_t length : *known) {
      if (length < 1 || length > limit->front()) {
        n_.Invalid(StrCat("'sequence_lens' has ", length, ", expected 1 to ", limit->front()));
      }
    }
  }
  const Term positive = AtLeast(lengths, 1, "length of a sequence");
  operands_.push_back(CheckedValues(n_, positive, "at_most", steps, "length of a sequence"));
  has_lengths_ = true;
}

/// The rows of a sequence that ends early, and zeros up to `length`.
Expr WithZeroRows(const Term& rows, const Term& length) {
  std::vector<Term> sizes{length};
  for (int d = 1; d < rows.rank(); ++d) sizes.push_back(DimOf(rows, d));
  const Term all = Concat({rows, Full(rows.Number(0), Stack(sizes))}, 0);
  const Term cut = SliceAxis(all, 0, IntNum(rows.node(), 0), length);
  const auto known = rows.node().KnownElements(length);
  if (!known || known->front() == 0) return cut;
  Ints shape(static_cast<size_t>(rows.rank()), 0);  // 0: as it is
  shape[0] = known->front();
  return cut.Reshape(shape);
}

/// States and results of one sample.
std::vector<Expr> Scan8::Scanned(const std::function<Expr(size_t)>& sample) {
  ScanSpec spec{{}, {}, Ints(scans_, 0), directions_, Ints(results_, 0), Ints(results_, 0)};
  for (size_t i = 0; i < states_; ++i) spec.states.push_back(sample(i));
  for (size_t i = 0; i < scans_; ++i) spec.sequences.push_back(sample(states_ + i));
  if (!has_lengths_) return ImportDynamicScan(n_, spec);
  const Term first(n_, spec.sequences[0]), steps = DimOf(first, 0), length(n_, sample(operands_.size() - 1));
  for (Expr& sequence : spec.sequences) {
    const Term whole = OfSameSize(Term(n_, sequence), {{0, 0}}, first, "lengths of the sequences");
    sequence = SliceAxis(whole, 0, IntNum(n_, 0), length);
  }
  std::vector<Expr> outputs = ImportDynamicScan(n_, spec);
  for (size_t i = states_; i < outputs.size(); ++i) outputs[i] = WithZeroRows(Term(n_, outputs[i]), steps);
  return outputs;
}

std::vector<Expr> Scan8::Looped() {
  std::vector<Expr> values = operands_;
  const Term length = DimOf(Term(n_, values[0]), 0);
  for (size_t i = 1; i < values.size(); ++i) values[i] = OfBatch(Term(n_, values[i]), length);
  auto trip = [&](const std::vector<Expr>& carried, const Expr& number) {
    auto sample = [&](size_t i) {
      return n_.Call("take", {carried[i], number}, {{"axis", int64_t{0}}, {"mode", std::string("error")}});
    };
    return LoopTrip{carried, Scanned(sample), Expr()};
  };
  std::vector<Expr> all = ImportCountedLoop(n_, values, length, trip);
  return {all.begin() + static_cast<std::ptrdiff_t>(values.size()), all.end()};
}

std::vector<Expr> Scan8::Unrolled() {
  std::vector<Expr> operands = operands_;
  for (Expr& operand : operands) {
    const bool known = AsConstInt(TypeOf(operand)->shape[0]) != nullptr;
    if (!known) operand = OfBatch(Term(n_, operand), IntNum(n_, batch_));
  }
  std::vector<std::vector<Expr>> samples(states_ + results_);
  for (int64_t b = 0; b < batch_; ++b) {
    std::vector<Expr> outputs = Scanned([&](size_t i) { return n_.Squeeze(n_.Slice(operands[i], 0, b, b + 1), {0}); });
    for (size_t i = 0; i < samples.size(); ++i) samples[i].push_back(outputs.at(i));
  }
  std::vector<Expr> outputs;
  for (const std::vector<Expr>& values : samples) outputs.push_back(Stack(n_, values, 0));
  return outputs;
}

std::vector<Expr> ImportScan8(NodeImport& n) { return Scan8(n).Outputs(); }

}  // namespace

void RegisterControlRules(RuleTable& table) {
  table.Add("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, ImportIf);
  table.Add("Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, ImportLoop);
  table.Add("Scan", {8}, ImportScan8);
  table.Add("Scan", {9, 11, 16, 19, 21, 23, 24, 25}, ImportScan);
}

}  // namespace treadle::onnx
