// SPDX-License-Identifier: Apache-2.0
// The tensor expressions that the attention kernels schedule (attention.cc), and the operators that they define.
#pragma once

#include "ops/attention.h"
#include "targets/cpu/kernels/kernels.h"

namespace treadle::ops::cpu {

inline constexpr const char *kPackedAttention = "attention.packed", *kPairAttention = "attention.pairs",
                            *kTileAttention = "attention.tiles", *kPackingAttention = "attention.packing";

/// nn.contrib_packed_attention, nn.contrib_tile_attention and nn.contrib_packing_attention.
void RegisterPackedAttentionOps();

/// Starts the registration of a form of attention whose operands are those of nn.attention, of dynamic sizes; with a
/// form for one query.
OpRegistration OpenAttentionOp(const char* name, const char* text);

/// Sizes of operands as they are, query (batch.., m, s), key (batch.., n, s), value (batch.., n, d): dynamic ones are
/// -1.
void SetAttentionSizes(const Array<PrimExpr>& query, const Array<PrimExpr>& key, const Array<PrimExpr>& value,
                       AttentionProblemNode* p);

}  // namespace treadle::ops::cpu
