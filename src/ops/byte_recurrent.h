// SPDX-License-Identifier: Apache-2.0
// LSTM layers with weights of bytes, whose state is quantised before each step: what the operator (byte_recurrent.cc)
// and kernels of targets share.
//
// Sequences of a batch begin together, in reverse order at their own last step; after its end a sequence is 0 to the
// quantisation of the others' states, which have one scale and zero point.
#pragma once

#include <functional>

#include "ops/infer.h"
#include "treadle/tir/stmt.h"

namespace treadle::ops {

/// Operands of qnn.contrib_lstm; packed forms have more behind the zero points.
enum ByteLstmOperand { kByteX, kByteWeight, kByteScale, kByteZero, kByteLengths, kByteH, kByteC };

/// Where operands are; h and c follow the lengths.
struct ByteLstmPlaces {
  int scale = kByteScale, zero = kByteZero, lengths = kByteLengths;
};
/// Checks all operands but the weight and what follows from it. The states h of all steps (steps, batch, units), the
/// last h and c (batch, units).
Type InferByteLstm(const InferContext& context, int64_t units, const ByteLstmPlaces& at);

/// How states within [low, high], which has 0 in it, become bytes: as DynamicQuantizeLinear-11 says.
PrimExpr StateScale(const PrimExpr& low, const PrimExpr& high);
PrimExpr StateZero(const PrimExpr& low, const PrimExpr& scale);
/// int32 within 0 .. 255.
PrimExpr QuantisedState(const PrimExpr& h, const PrimExpr& scale, const PrimExpr& zero);

/// Of one sequence, at step `step` of the computation.
struct SequencePlace {
  PrimExpr length;
  PrimExpr inside;   ///< whether the step is one of the sequence
  PrimExpr counts;   ///< whether the state before the step counts for the range
  PrimExpr element;  ///< which element of the sequence it is
};
SequencePlace PlaceIn(const tir::Buffer& lengths, const PrimExpr& b, const PrimExpr& step, const PrimExpr& steps,
                      bool reverse);

void RegisterByteRecurrentOps();

}  // namespace treadle::ops
