// SPDX-License-Identifier: Apache-2.0
// Control flow that is decided when compiling: branches whose condition is known, loops whose number of trips is.
// A branch that isn't is computed on both sides and selected from, where both give one type.
#include <algorithm>

#include "frontend/onnx/rules.h"
#include "treadle/ir/structural.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

constexpr int64_t kMaxTrips = 10000;

std::optional<bool> KnownBool(const Expr& expr) {
  const auto* constant = expr.as<relay::ConstantNode>();
  if (constant == nullptr || constant->data.size() != 1 || !constant->data.dtype().is_bool()) return std::nullopt;
  return IntsOf(constant->data)[0] != 0;
}

/// Whether evaluating the expression may stop the model with an error: a branch not taken must not.
bool MayFail(const Expr& expr) {
  bool found = false;
  relay::PostOrderVisit(expr, [&](const Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    if (call == nullptr) return;
    const auto* op = call->op.as<OpNode>();
    found |= op == nullptr || op->name == "take" || op->name == "gather" || op->name == "gather_nd" ||
             op->name == "scatter" || op->name == "scatter_nd";
  });
  return found;
}

std::vector<Expr> ImportIf(NodeImport& n) {
  n.Find("then_branch");
  n.Find("else_branch");
  Expr condition = n.In(0);
  if (TypeOf(condition)->dtype != DataType::Bool()) n.Invalid("the condition isn't bool");
  if (auto known = KnownBool(condition)) return n.Subgraph(*known ? "then_branch" : "else_branch", {});
  std::vector<Expr> yes = n.Subgraph("then_branch", {});
  std::vector<Expr> no = n.Subgraph("else_branch", {});
  if (yes.size() != no.size()) n.Invalid("the branches have different numbers of outputs");
  if (RankOf(condition) > 0) condition = n.Reshape(condition, {});
  std::vector<Expr> outputs;
  for (size_t i = 0; i < yes.size(); ++i) {
    if (!StructuralEqual(yes[i].checked_type(), no[i].checked_type())) {
      n.Unsupported("the condition isn't known when compiling, and the branches give different types");
    }
    if (MayFail(yes[i]) || MayFail(no[i])) {
      n.Unsupported("the condition isn't known when compiling, and a branch may fail on bad indices");
    }
    outputs.push_back(n.Call("where", {condition, yes[i], no[i]}));
  }
  return outputs;
}

/// Values of a loop's scan output, one per trip, as one tensor with a new dimension `axis`.
Expr Stack(NodeImport& n, const std::vector<Expr>& values, int axis) {
  Array<Expr> parts;
  for (const Expr& value : values) parts.push_back(n.ExpandDims(value, axis));
  return parts.size() == 1 ? parts[0] : n.Concat(parts, axis);
}

/// Inputs: greatest number of trips, condition to go on, carried values. The body takes the trip's number, the
/// condition and the carried values, and gives the condition, the carried values and the scan outputs. Unrolled.
std::vector<Expr> ImportLoop(NodeImport& n) {
  const Attribute* body = n.Find("body");
  if (body == nullptr || !body->g) n.Invalid("attribute 'body' is missing");
  int64_t trips = n.Has(0) ? n.ConstantInt(0, "M") : INT64_MAX;
  std::optional<bool> go_on = true;
  if (n.Has(1)) {
    go_on = KnownBool(n.In(1));
    if (!go_on) n.Unsupported("the condition isn't known when compiling");
  }
  std::vector<Expr> carried;
  for (size_t i = 2; i < n.num_inputs(); ++i) carried.push_back(n.In(i));
  if (body->g->outputs.size() < carried.size() + 1) n.Invalid("the body has too few outputs");
  size_t scans = body->g->outputs.size() - carried.size() - 1;
  std::vector<std::vector<Expr>> scanned(scans);
  for (int64_t trip = 0; trip < trips && *go_on; ++trip) {
    if (trip == kMaxTrips) n.Unsupported(StrCat("loops of more than ", kMaxTrips, " trips aren't implemented"));
    std::vector<Expr> inputs{n.Const(ArrayOf(Ints{trip}, Ints{}, DataType::Int(64))),
                             n.Const(ArrayOf(Ints{1}, Ints{}, DataType::Bool()))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    std::vector<Expr> outputs = n.Subgraph("body", inputs);
    go_on = KnownBool(outputs[0]);
    if (!go_on) n.Unsupported("the condition of the body isn't known when compiling");
    std::copy(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size()), carried.begin());
    for (size_t i = 0; i < scans; ++i) scanned[i].push_back(outputs[1 + carried.size() + i]);
  }
  for (const std::vector<Expr>& values : scanned) {
    if (values.empty()) n.Unsupported("scan outputs of a loop without trips aren't implemented");
    carried.push_back(Stack(n, values, 0));
  }
  return carried;
}

/// A per-value attribute of Scan: axes or directions, 0 by default.
Ints PerValue(NodeImport& n, const char* name, size_t count) {
  Ints values = n.Ints(name, Ints(count, 0));
  if (values.size() != count) n.Invalid(StrCat("'", name, "' has ", values.size(), " entries, expected ", count));
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
  Ints in_directions = PerValue(n, "scan_input_directions", scans);
  Ints out_axes = PerValue(n, "scan_output_axes", results);
  Ints out_directions = PerValue(n, "scan_output_directions", results);
  std::vector<Expr> states;
  for (size_t i = 0; i < states_count; ++i) states.push_back(n.In(i));
  int64_t length = -1;
  for (size_t i = 0; i < scans; ++i) {
    in_axes[i] = n.Axis(in_axes[i], n.Rank(states_count + i));
    int64_t size = n.StaticDim(n.In(states_count + i), static_cast<int>(in_axes[i]));
    if (length >= 0 && size != length) n.Invalid("the sequences have different lengths");
    length = size;
  }
  if (length > kMaxTrips) n.Unsupported(StrCat("sequences of more than ", kMaxTrips, " aren't implemented"));
  if (length == 0 && results > 0) n.Unsupported("results of empty sequences aren't implemented");
  std::vector<std::vector<Expr>> collected(results);
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Expr> arguments = states;
    for (size_t i = 0; i < scans; ++i) {
      auto axis = static_cast<int>(in_axes[i]);
      int64_t at = in_directions[i] == 0 ? t : length - 1 - t;
      arguments.push_back(n.Squeeze(n.Slice(n.In(states_count + i), axis, at, at + 1), {axis}));
    }
    std::vector<Expr> outputs = n.Subgraph("body", arguments);
    std::copy(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(states_count), states.begin());
    for (size_t i = 0; i < results; ++i) collected[i].push_back(outputs[states_count + i]);
  }
  for (size_t i = 0; i < results; ++i) {
    if (out_directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    states.push_back(Stack(n, collected[i], n.Axis(out_axes[i], RankOf(collected[i][0]) + 1)));
  }
  return states;
}

}  // namespace

void RegisterControlRules(RuleTable& table) {
  table.Add("If", {1, 11, 13, 16, 19, 21, 23, 24, 25}, ImportIf);
  table.Add("Loop", {1, 11, 13, 16, 19, 21, 23, 24, 25}, ImportLoop);
  table.Add("Scan", {9, 11, 16, 19, 21, 23, 24, 25}, ImportScan);
}

}  // namespace treadle::onnx
