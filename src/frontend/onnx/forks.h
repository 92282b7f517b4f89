// SPDX-License-Identifier: Apache-2.0
// Results whose ranks only a run decides: what follows is imported for each of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx/node_import.h"

namespace treadle::onnx {

struct RankFork;

/// What a node gives on one side of a choice: values, or a further choice. With neither, that side can't be run.
struct ForkSide {
  std::vector<relay::Expr> values;
  std::shared_ptr<const RankFork> further;
  std::string why_not;  ///< the reason, of a side that can't be run

  bool runs() const { return !values.empty() || further != nullptr; }
};

/// Thrown by a rule whose results have other ranks on one side of a choice than on the other.
struct RankFork {
  relay::Expr condition;
  ForkSide yes, no;
  std::vector<bool> text;  ///< which values are strings
};

/// Whether one side has further choices, or values of other ranks than the other.
bool DifferInRank(const ForkSide& one, const ForkSide& other);

/// The results of a graph, of what follows one side of a choice.
struct Rest {
  ForkSide results;
  std::vector<bool> text, encoded;  ///< which values are strings, and which pass as bytes, as several ranks do
};
/// What `condition` chooses of two: outputs of a model are encoded where they differ in rank, those of other graphs are
/// a further choice. `where` names the node that chooses.
Rest JoinRests(ExprBuilder& n, const relay::Expr& condition, Rest (&rests)[2], bool of_model, const std::string& where);

/// Thrown by a rule that has to know how many entries an input lists, along its last dimension: the rule is applied to
/// each number of them.
struct UnknownLength {
  size_t input;
  std::string name;   ///< of the input, in the standard
  int64_t least = 0;  ///< entries that the operator takes; of inputs that aren't vectors at least 1
};
/// The values that a rule gives for lists of each length (at most 6), and which of them are strings. Throws a RankFork
/// where they differ in rank.
using ValuesAndText = std::pair<std::vector<relay::Expr>, std::vector<bool>>;
ValuesAndText ForLengths(NodeImport& n, const UnknownLength& list,
                         const std::function<ValuesAndText(const relay::Expr& listed)>& apply);

}  // namespace treadle::onnx
