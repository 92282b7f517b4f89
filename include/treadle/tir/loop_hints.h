// SPDX-License-Identifier: Apache-2.0
// Annotations of loops that say how to lower them.
#pragma once

namespace treadle::tir::attr {

/// Conditions that LoopPartition can't cut the loop at: it gives the body two forms, one of them without conditions.
inline constexpr const char* kPartitionWhole = "partition_whole";
/// The loop isn't unrolled, neither by UnrollLoop nor by LLVM.
inline constexpr const char* kNoUnroll = "no_unroll";
/// The loop is over the entries of a list, stored as if all lists were as long as the longest: it ends, by TrimLists,
/// where the list does, whose length is what the first int32 that is read of each entry would be in one entry more.
inline constexpr const char* kListLength = "list_length";
/// Of the entries of such a list, those that have weights other than zero for the second word of tir.dot_two_words come
/// first: how many, is the int32 beside the length. TrimLists gives the others a loop of their own.
inline constexpr const char* kListPairs = "list_pairs";

}  // namespace treadle::tir::attr
