// SPDX-License-Identifier: Apache-2.0
// Annotations of loops that say how to lower them.
#pragma once

namespace treadle::tir::attr {

/// LoopPartition doesn't cut the loop, but gives its body two forms, one of them without conditions.
inline constexpr const char* kPartitionWhole = "partition_whole";
/// The loop isn't unrolled, neither by UnrollLoop nor by LLVM.
inline constexpr const char* kNoUnroll = "no_unroll";

}  // namespace treadle::tir::attr
