// SPDX-License-Identifier: Apache-2.0
// The tensor expressions that the attention kernels schedule (attention.cc), and the operators that they define.
#pragma once

#include "targets/cpu/kernels/kernels.h"

namespace treadle::ops::cpu {

inline constexpr const char *kPackedAttention = "attention.packed", *kPairAttention = "attention.pairs",
                            *kTileAttention = "attention.tiles", *kPackingAttention = "attention.packing";

/// nn.contrib_packed_attention, nn.contrib_tile_attention and nn.contrib_packing_attention.
void RegisterPackedAttentionOps();

/// Sizes of operands as they are, query (batch.., m, s), key (batch.., n, s), value (batch.., n, d): dynamic ones are
/// -1.
void SetAttentionSizes(const Array<PrimExpr>& query, const Array<PrimExpr>& key, const Array<PrimExpr>& value,
                       AttentionProblemNode* p);

}  // namespace treadle::ops::cpu
