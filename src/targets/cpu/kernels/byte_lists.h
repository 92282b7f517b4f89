// SPDX-License-Identifier: Apache-2.0
// Exact products of bytes by vpmaddubsw, which multiplies uint8 by int8 and adds two neighbours with saturation to 16
// bits. A sum of products with 0 .. 255 fits 16 bits if its positive weights add up to at most 128, and its negative
// ones, too. Words of four weights (quads) are ordered so that two at a time fit the same 16-bit sums, which one
// vpmaddwd then widens: five instructions for 64 products, where products of int16 take eight. A quad that fits with no
// other is widened by itself, which takes six for as many.
//
// Each block of 8 results has a list of its own, of the words of the data that its weights are multiplied by. A word
// may be used in other forms: as its complement, odd bytes x being 255 - x, for which odd weights are negated and the
// results are corrected by a constant, so that of two large weights of one sign one becomes negative; or with its bytes
// in another order, in which other weights are neighbours. A quad that fits in no form is split into the sum of two.
#pragma once

#include <functional>
#include <memory>

#include "treadle/ir/target.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::ops::cpu {

/// Results that share a list: the words of an AVX2 register.
inline constexpr int64_t kListBlock = 8;
/// Forms of a word: odd ones are complements of those before them, two have one order of bytes.
inline constexpr int64_t kMostForms = 6;
/// Which byte of a word is byte `byte` of its form `form`: 0 1 2 3, 0 2 1 3 or 1 2 3 0.
int64_t ByteOfForm(int64_t form, int64_t byte);
/// How many forms rows of `quads` words have: what a tile of rows has of them stays in an L1 cache, beside lists.
int64_t FormsOfRow(int64_t quads);

/// The lists of a weight.
struct ByteLists {
  runtime::NDArray weight;  ///< (blocks, entries, 2, 8) int32: words of four int8
  /// (blocks, entries + 1, 2) int32: of the data, form after form; last, the list's length and how many entries have
  /// two words, which come first
  runtime::NDArray words;
  runtime::NDArray correction;  ///< (blocks * 8) int32, added to sums
  int64_t quads = 0;
  double mean_entries = 0;  ///< of those that aren't there to make lists equally long; those of one word count less
  double mean_singles = 0;  ///< those of one word
  int64_t forms = 1;        ///< of words that are met: 1 or an even number

  int64_t entries() const { return weight.shape()[1]; }
  /// Whether they take less time than products of int16.
  bool Pay() const;
};

/// Lists for weights of `results` rows of `quads` words each; `at(r, q)`: the four weights of one. Words may be met
/// in `forms` forms.
ByteLists MakeByteLists(int64_t results, int64_t quads, const std::function<const int8_t*(int64_t, int64_t)>& at,
                        int64_t forms);

/// The lists of a constant int8 matrix (n, k) or, `k_first`, (k, n); null where they don't pay.
std::shared_ptr<const ByteLists> ListsOfMatrix(const runtime::NDArray& weight, bool k_first);

/// Whether the machine has vpmaddubsw in AVX2 registers, and no dot products of bytes.
bool HasByteLists(const TargetFeatures& machine);

}  // namespace treadle::ops::cpu
