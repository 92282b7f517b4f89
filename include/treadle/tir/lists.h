// SPDX-License-Identifier: Apache-2.0
// Loops over the entries of lists of different lengths, stored as if all were as long as the longest.
#pragma once

namespace treadle::tir::attr {

/// Annotation of a loop over a list's entries, which the pass TrimLists reads: the list is as long as what the first
/// int32 that is read of each entry would be in one entry more.
inline constexpr const char* kListLength = "list_length";

}  // namespace treadle::tir::attr
