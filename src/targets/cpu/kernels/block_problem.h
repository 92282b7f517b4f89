// SPDX-License-Identifier: Apache-2.0
// What the kernels for weights with scales per block share (block_dense.cc, block_tiles.cc).
#pragma once

#include "targets/cpu/kernels/kernels.h"
#include "treadle/ops/attrs/qnn.h"

namespace treadle::ops::cpu {

/// data (m, k) times weights (k, n), which have a scale for every `block` numbers along k.
class BlockDenseProblemNode : public schedule::ProblemNode {
 public:
  int64_t m = 0, n = 0, k = 0, block = 0, bits = 8, digits = 1;
  bool symmetric = false;
  TREADLE_NODE(BlockDenseProblemNode, schedule::ProblemNode, "schedule.BlockDenseProblem")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("m", &BlockDenseProblemNode::m).Doc("rows; -1: dynamic");
    r.Field("n", &BlockDenseProblemNode::n).Doc("columns, with those that fill the last panel of 16");
    r.Field("k", &BlockDenseProblemNode::k).Doc("with those that fill the last block");
    r.Field("block", &BlockDenseProblemNode::block).Doc("numbers along k that share a scale");
    r.Field("bits", &BlockDenseProblemNode::bits).Doc("of a weight: 4 or 8");
    r.Field("digits", &BlockDenseProblemNode::digits).Doc("bytes of a number of the data");
    r.Field("symmetric", &BlockDenseProblemNode::symmetric).Doc("whether weights have no zero points of their own");
  }
};

/// The operator whose calls the kernels solve; that of block_dense.cc is what its rule makes of one.
inline constexpr const char* kBlockProduct = "qnn.contrib_block_product";

/// That of a call of the operator with operands of these types.
Problem BlockProductProblem(const BlockProductAttrs& attrs, const TensorTypeNode* data, const TensorTypeNode* weight);
/// Multiply-adds of such a product.
double BlockProductMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result);
/// The call as block_tiles.cc computes it.
relay::Expr TiledBlockProduct(const relay::CallNode* call);

}  // namespace treadle::ops::cpu
