// SPDX-License-Identifier: Apache-2.0
// Control flow that only the run decides.
#pragma once

#include <functional>
#include <vector>

#include "frontend/onnx/forks.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {

/// The values that branches give, chosen by `condition`; no values: that branch can't be run, for the reason given.
/// Dimensions in which the branches differ are unknown afterwards.
std::vector<relay::Expr> JoinBranches(ExprBuilder& n, const relay::Expr& condition, const std::vector<relay::Expr>& yes,
                                      const std::vector<relay::Expr>& no, const std::string& reason);

/// The node's outputs are results `first` and so on of the graph imported last: strings where those are.
void MarkTextResults(NodeImport& n, size_t first);
/// Which inputs of the node are strings; of Loop, as its body has them.
std::vector<bool> InputsText(const NodeImport& n);
std::vector<bool> LoopText(const NodeImport& n);
/// Throws ModelFormatError unless inputs `first_input` and so on are strings where results `first_result` and so on of
/// the graph imported last are, `count` of them: what a loop carries doesn't change its type.
void CheckCarriedText(const NodeImport& n, size_t first_input, size_t count, size_t first_result);

/// If of a condition that isn't known when compiling. Dimensions in which the branches differ are unknown afterwards.
/// Throws RankFork where they differ in rank.
std::vector<relay::Expr> ImportBranch(NodeImport& n, const relay::Expr& condition);

/// Loop as a function that calls itself. Scan outputs are collected row by row. Throws RankFork where the first trip
/// changes the rank of a carried value, and only the run knows whether there is one.
std::vector<relay::Expr> ImportDynamicLoop(NodeImport& n);

/// One trip of a loop: the carried values after it, what it adds to the collected rows, and whether there is another.
struct LoopTrip {
  std::vector<relay::Expr> carried, rows;
  relay::Expr go_on;  ///< null: always
};
/// The trip with that number, of the carried values before it. Must not use other values than those and constants.
using LoopTripFn = std::function<LoopTrip(const std::vector<relay::Expr>& carried, const relay::Expr& number)>;
/// `length` trips, a scalar that only the run knows: the carried values after the last, then the collected rows.
std::vector<relay::Expr> ImportCountedLoop(NodeImport& n, const std::vector<relay::Expr>& carried,
                                           const relay::Expr& length, const LoopTripFn& trip);

/// Refuses tensors carried from trip to trip whose elements are of another type after one.
void CheckKeptType(NodeImport& n, size_t state, const relay::Expr& next, const relay::Expr& before);

/// What a trip of a Scan makes of its states, the first values of `next`: they keep their shapes, which is checked in a
/// run where it isn't known.
std::vector<relay::Expr> KeptShapes(NodeImport& n, std::vector<relay::Expr> next,
                                    const std::vector<relay::Expr>& states);

/// Scan over sequences whose length isn't known, or large.
struct ScanSpec {
  std::vector<relay::Expr> states, sequences;
  std::vector<int64_t> in_axes, in_directions, out_axes, out_directions;
};
std::vector<relay::Expr> ImportDynamicScan(NodeImport& n, const ScanSpec& spec);

}  // namespace treadle::onnx
