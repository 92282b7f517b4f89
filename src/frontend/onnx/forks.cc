// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/forks.h"

#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {

using relay::Expr;

namespace {

constexpr int64_t kMostListed = 6;

/// Encodes the values that have another rank, or are encoded, on the other side; which those are.
std::vector<bool> EncodeRanks(ExprBuilder& n, Rest (&rests)[2]) {
  const bool runs[2] = {rests[0].results.runs(), rests[1].results.runs()};
  std::vector<bool> encoded(rests[runs[0] ? 0 : 1].results.values.size(), false);
  for (size_t i = 0; i < encoded.size(); ++i) {
    for (int side = 0; side < 2; ++side) encoded[i] = encoded[i] || (runs[side] && rests[side].encoded[i]);
    if (runs[0] && runs[1]) {
      const ForkSide one{{rests[0].results.values[i]}, nullptr, ""}, other{{rests[1].results.values[i]}, nullptr, ""};
      encoded[i] = encoded[i] || DifferInRank(one, other);
    }
    for (int side = 0; side < 2; ++side) {
      if (!encoded[i] || !runs[side] || rests[side].encoded[i]) continue;
      Expr& value = rests[side].results.values[i];
      value = EncodeOutput(n, value, rests[side].text.at(i));
    }
  }
  return encoded;
}

/// Lengths that follow one another, whose results are of the same ranks: a value for all of them.
struct LengthGroup {
  int64_t from, to;
  ForkSide side;
  std::vector<bool> text;
};

/// What the rule gives for lists of one length, or tensors whose last dimension has it.
LengthGroup GroupOf(const Term& entries, int64_t length, const std::string& name,
                    const std::function<ValuesAndText(const relay::Expr& listed)>& apply) {
  LengthGroup group{length, length, {}, {}};
  try {
    std::vector<int64_t> sizes(static_cast<size_t>(entries.rank()), -1);
    sizes.back() = length;
    const Term listed = entries.rank() == 1 ? OfLength(entries, length) : WithSizes(entries, sizes, name.c_str());
    std::tie(group.side.values, group.text) = apply(listed);
  } catch (const RankFork& fork) {
    group.side.further = std::make_shared<RankFork>(fork);
    group.text = fork.text;
  } catch (const UnsupportedNode& e) {
    group.side.why_not = e.what();
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    group.side.why_not = e.what();
  }
  return group;
}

}  // namespace

bool DifferInRank(const ForkSide& one, const ForkSide& other) {
  if (one.further != nullptr || other.further != nullptr) return true;
  for (size_t i = 0; i < std::min(one.values.size(), other.values.size()); ++i) {
    const auto* a = one.values[i]->type_as<TensorTypeNode>();
    const auto* b = other.values[i]->type_as<TensorTypeNode>();
    if (a != nullptr && b != nullptr && a->dtype == b->dtype && a->shape.size() != b->shape.size()) return true;
  }
  return false;
}

Rest JoinRests(ExprBuilder& n, const Expr& condition, Rest (&rests)[2], bool of_model, const std::string& where) {
  ForkSide &yes = rests[0].results, &no = rests[1].results;
  if (!yes.runs() && !no.runs()) return rests[0];
  Rest joined;
  joined.text = rests[yes.runs() ? 0 : 1].text;
  if (of_model) {
    joined.encoded = EncodeRanks(n, rests);
  } else if (DifferInRank(yes, no)) {
    joined.results.further = std::make_shared<RankFork>(RankFork{condition, yes, no, joined.text});
    return joined;
  }
  const std::string reason = StrCat(where, "this branch can't be run: ", yes.runs() ? no.why_not : yes.why_not);
  joined.results.values = JoinBranches(n, condition, yes.values, no.values, reason);
  return joined;
}

ValuesAndText ForLengths(NodeImport& n, const UnknownLength& list,
                         const std::function<ValuesAndText(const relay::Expr& listed)>& apply) {
  const Term entries = In(n, list.input), count = DimOf(entries, entries.rank() - 1);
  std::vector<LengthGroup> groups;
  std::string reason, fitting;
  for (int64_t length = list.least; length <= kMostListed; ++length) {
    LengthGroup group = GroupOf(entries, length, list.name, apply);
    if (!group.side.runs()) {
      if (reason.empty()) reason = group.side.why_not;
      continue;
    }
    fitting += StrCat(fitting.empty() ? "" : ", ", length);
    if (groups.empty() || DifferInRank(groups.back().side, group.side)) {
      groups.push_back(group);
      continue;
    }
    LengthGroup& last = groups.back();
    last.to = length;
    last.side.values = JoinBranches(n, count == IntNum(n, length), group.side.values, last.side.values, "");
  }
  if (groups.empty()) n.Unsupported(reason);
  const bool cut = groups.back().to == kMostListed;  // more might fit
  const std::string why_not = StrCat("'", list.name, "' has another number of entries than ", fitting,
                                     cut ? "; more have to be known when compiling: give the inputs' shapes "
                                           "(--input-shapes), or declare the result's"
                                         : "");
  ForkSide rest{{}, nullptr, why_not};
  for (size_t i = groups.size(); i-- > 0;) {
    const LengthGroup& group = groups[i];
    Term fits = count == IntNum(n, group.from);
    if (group.to > group.from) fits = count >= IntNum(n, group.from) && count <= IntNum(n, group.to);
    rest = ForkSide{{}, std::make_shared<RankFork>(RankFork{fits, group.side, rest, group.text}), ""};
  }
  const LengthGroup& first = groups[0];
  if (groups.size() > 1 || first.side.further != nullptr) throw RankFork(*rest.further);
  const std::string where = StrCat("node ", QuoteName(n.node().DisplayName()), " (", n.node().op_type, "): ");
  return {JoinBranches(n, rest.further->condition, first.side.values, {}, where + why_not), first.text};
}

}  // namespace treadle::onnx
