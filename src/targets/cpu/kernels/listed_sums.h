// SPDX-License-Identifier: Apache-2.0
// What products with lists of words of bytes (byte_lists.h) share, matrix products (listed_matmul.cc) and convolutions
// (listed_conv.cc): a step of the sum, plans of register tiles, their cost, and their schedule. Results are rows of
// columns; each 8 columns have a list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "targets/cpu/kernels/byte_lists.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {

inline constexpr int64_t kListBytes = 4, kListWords = 2;  ///< bytes of a word, words of an entry

/// A step of a sum: the products of an entry. `rows(offset)` is the byte `offset` (of the index type) of the row.
struct ListedOperands {
  te::Tensor weight;     ///< (blocks, entries, 2, 8) int32
  te::Tensor words;      ///< (blocks, entries + 1, 2) int32
  int64_t unit;          ///< bytes that `words` count
  te::IterVar entry;     ///< the reduction
  DataType index_dtype;  ///< of indices of bytes
};
PrimExpr ListedTerm(const ListedOperands& operands, const PrimExpr& block, const PrimExpr& lane,
                    const std::function<PrimExpr(const PrimExpr& offset)>& rows);

/// Results of which a plan is made.
struct ListedSizes {
  int64_t runs = 1;     ///< of rows that tiles divide
  int64_t rows = 1;     ///< of a run; -1: dynamic
  int64_t columns = 8;  ///< with those that fill the last block
  int64_t entries = 0;  ///< of a list
  int64_t bytes = 0;    ///< that a list reads of a row
};

class ListedPlanNode : public PlanNode {
 public:
  int64_t mr = 1, mc_tiles = 1;
  TREADLE_DECLARE_NODE(ListedPlanNode, PlanNode, "schedule.ListedPlan");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mr", &ListedPlanNode::mr).Doc("register tile: rows");
    r.Field("mc_tiles", &ListedPlanNode::mc_tiles).Doc("tiles of rows that use a list before the next one");
  }
};

std::vector<Plan> ListedSpace(const ListedSizes& sizes);
double ListedCycles(const ListedSizes& sizes, const Machine& machine, const Plan& plan);
std::string WhyNotListedPlan(const ListedSizes& sizes, const Plan& plan);

/// Computes the sums `product` of a tile of rows list after list, from registers into memory, where what follows reads
/// them; false, and nothing done, where it isn't one block. The last two of its `rank` axes are rows and columns.
bool ComputeLists(Schedule& sch, const BlockRV& product, const LoopRV& tile, const LoopRV& readers, size_t rank);
/// Registers the kernel `name` that plans loops of operator `op`: of results as `sizes` has them, scheduled by `apply`.
void RegisterListedLoops(const char* name, const char* op, ListedSizes (*sizes)(const Problem&),
                         decltype(Kernel::apply) apply);
/// Marks the reduction of `product` as a loop over lists of at most `entries`.
void MarkLists(Schedule& sch, const BlockRV& product, int64_t entries);

}  // namespace treadle::ops::cpu
