// SPDX-License-Identifier: Apache-2.0
// InterleaveStores: neighbouring stores of vectors whose elements lie between each other's become one store. Planes of
// an image that become pixels of two or four channels are stored so.

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

/// Vectors that become one, and the most elements of it.
constexpr int kCounts[] = {4, 2};
constexpr int kMostLanes = 64;

/// The index of a store of a vector whose elements are `stride` apart; null for others.
const RampNode* StridedIndex(const Stmt& stmt, int stride) {
  const auto* store = stmt.as<BufferStoreNode>();
  if (store == nullptr || store->indices.size() != 1 || !store->buffer->dtype.is_scalar()) return nullptr;
  const auto* ramp = store->indices[0].as<RampNode>();
  const int64_t* step = ramp != nullptr ? AsConstInt(ramp->stride) : nullptr;
  return step != nullptr && *step == stride && ramp->lanes * stride <= kMostLanes ? ramp : nullptr;
}

bool ReadsBuffer(const PrimExpr& e, const Buffer& buffer) {
  bool reads = false;
  PostOrderVisit(e, [&](const ObjectRef& node) {
    const auto* load = node.as<BufferLoadNode>();
    reads |= load != nullptr && load->buffer->data.same_as(buffer->data);
  });
  return reads;
}

/// One store in place of `count` from `first` on; null where they don't fill each other's gaps in order.
Stmt Interleaved(const Array<Stmt>& seq, size_t first, int count) {
  if (first + static_cast<size_t>(count) > seq.size()) return Stmt();
  const RampNode* start = StridedIndex(seq[first], count);
  if (start == nullptr) return Stmt();
  const auto* store = seq[first].as<BufferStoreNode>();
  arith::Analyzer analyzer;
  Array<PrimExpr> vectors, picked;
  for (int i = 0; i < count; ++i) {
    const Stmt& stmt = seq[first + static_cast<size_t>(i)];
    const RampNode* ramp = StridedIndex(stmt, count);
    const auto* other = stmt.as<BufferStoreNode>();
    if (ramp == nullptr || ramp->lanes != start->lanes || !other->buffer.same_as(store->buffer)) return Stmt();
    if (analyzer.ConstDifference(ramp->base, start->base) != i || ReadsBuffer(other->value, store->buffer)) {
      return Stmt();
    }
    vectors.push_back(other->value);
  }
  for (int lane = 0; lane < start->lanes; ++lane) {
    for (int i = 0; i < count; ++i) picked.push_back(PrimExpr(int32_t{i * start->lanes + lane}));
  }
  const PrimExpr index = Ramp(start->base, make_const(start->base.dtype(), 1), start->lanes * count);
  return BufferStore(store->buffer, Shuffle(vectors, picked), {index}, store->span);
}

class StoreInterleaver : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }
  Stmt VisitStmt_(const SeqStmtNode* op) override {
    Array<Stmt> seq;
    for (size_t i = 0; i < op->seq.size();) {
      Stmt merged;
      int taken = 1;
      for (const int count : kCounts) {
        if (merged.defined()) break;
        merged = Interleaved(op->seq, i, count);
        if (merged.defined()) taken = count;
      }
      seq.push_back(merged.defined() ? merged : VisitStmt(op->seq[i]));
      i += static_cast<size_t>(taken);
    }
    return seq.size() == 1 ? seq[0] : Stmt(SeqStmt(seq));
  }
};

}  // namespace

PrimFunc InterleaveStores(PrimFunc func, const LowerConfig&) {
  Stmt body = StoreInterleaver().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
