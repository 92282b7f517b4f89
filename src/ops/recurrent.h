// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: what the operators (recurrent.cc) and kernels of targets share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/infer.h"
#include "treadle/ir/op.h"
#include "treadle/tir/stmt.h"

namespace treadle::ops {

/// What a step computes. Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", gates i, o, f, c; Cho et al. 2014,
/// "Learning Phrase Representations using RNN Encoder-Decoder", gates z, r, h, or in the form of cuDNN: the gate r
/// multiplies the product of the state, not the state (RecurrentAttrs::resets_state).
enum class RecurrentCell { kLstm, kGru };

constexpr int64_t GatesOf(RecurrentCell cell) { return cell == RecurrentCell::kLstm ? 4 : 3; }
inline constexpr int kRecurrentX = 0, kRecurrentWeight = 1;
/// The operand that is the state h before the first step: behind x, the weight and, of GRU, the bias.
constexpr int StateOperand(RecurrentCell cell) { return cell == RecurrentCell::kLstm ? 2 : 3; }

/// Checks all operands but the weight, and gives the results' types: the states h of all steps (steps, batch, units),
/// the last h and, of LSTM, c (batch, units).
Type InferRecurrent(const InferContext& context, RecurrentCell cell);
/// Error where the attributes (RecurrentAttrs) ask a cell other than GRU to reset its state.
void CheckResetsState(const InferContext& context, RecurrentCell cell);

// Of one unit; `sums` of each gate, of what x gives and the products with the state.
/// The new c, and h, which follows from it.
PrimExpr LstmCell(const std::vector<PrimExpr>& sums, const PrimExpr& c);
PrimExpr LstmOutput(const std::vector<PrimExpr>& sums, const PrimExpr& new_c);
/// The new h. `candidate`: what x gives for gate h, which isn't in its sum.
PrimExpr GruOutput(const std::vector<PrimExpr>& sums, const PrimExpr& candidate, const PrimExpr& h);
/// The new h of what gate z (its value) and gate h (its sum) give.
PrimExpr GruMix(const PrimExpr& update, const PrimExpr& sum, const PrimExpr& h);

/// `body` for the number of each step, in the layer's order.
tir::Stmt ForSteps(const PrimExpr& steps, bool reverse, const std::function<tir::Stmt(const PrimExpr&)>& body);

/// Starts the registration of a form of the layer.
OpRegistration RecurrentOp(const std::string& name, const std::string& text, RecurrentCell cell,
                           const std::string& weight);

}  // namespace treadle::ops
