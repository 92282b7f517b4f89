// SPDX-License-Identifier: Apache-2.0
// Allocations that stand together share memory where they aren't in use at the same time.
#include <algorithm>

#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

/// Which pointers occur in a statement.
class PointerCollector : public SharedExprVisitor {
 public:
  explicit PointerCollector(std::unordered_set<const Object*>* found) : found_(found) {}

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitExpr_(const VarNode* op) override { found_->insert(op); }
  void VisitExpr_(const BufferLoadNode* op) override {
    found_->insert(op->buffer->data.get());
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    found_->insert(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    if (const auto* buffer = op->node.as<BufferNode>()) found_->insert(buffer->data.get());
    found_->insert(op->node.get());
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  std::unordered_set<const Object*>* found_;
};

/// Accesses of some buffers, given by pointer, go to others instead.
class AccessReplacer : public FoldingMutator {
 public:
  explicit AccessReplacer(const std::unordered_map<const Object*, Buffer>& buffers) : buffers_(buffers) {}

 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = buffers_.find(op);
    return it == buffers_.end() ? GetRef<PrimExpr>(op) : PrimExpr(it->second->data);
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    auto it = buffers_.find(op->buffer->data.get());
    if (it == buffers_.end()) return result;
    return BufferLoad(it->second, result.as<BufferLoadNode>()->indices, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    auto it = buffers_.find(op->buffer->data.get());
    if (it == buffers_.end()) return result;
    const auto* store = result.as<BufferStoreNode>();
    return BufferStore(it->second, store->value, store->indices, op->span);
  }

 private:
  const std::unordered_map<const Object*, Buffer>& buffers_;
};

struct Slot {
  Buffer buffer;  ///< whose memory it is
  int64_t size;   ///< elements
  size_t last;    ///< statement of the last use so far
};

class StorageSharer : public StmtMutator {
 protected:
  using StmtMutator::VisitStmt_;

  Stmt VisitStmt_(const AllocateNode* op) override {
    std::vector<const AllocateNode*> chain{op};
    while (const auto* inner = chain.back()->body.as<AllocateNode>()) chain.push_back(inner);
    const auto* seq = chain.back()->body.as<SeqStmtNode>();
    if (seq == nullptr || chain.size() < 2) return StmtMutator::VisitStmt_(op);

    std::unordered_map<const Object*, std::pair<size_t, size_t>> live;
    for (size_t i = 0; i < seq->seq.size(); ++i) {
      std::unordered_set<const Object*> used;
      PointerCollector collector(&used);
      collector(seq->seq[i]);
      for (const AllocateNode* allocate : chain) {
        const Object* data = allocate->buffer->data.get();
        if (used.count(data) == 0) continue;
        auto [it, first] = live.emplace(data, std::make_pair(i, i));
        it->second.second = i;
      }
    }
    std::vector<const AllocateNode*> order;  // of first use; what is never used goes
    for (const AllocateNode* allocate : chain) {
      if (live.count(allocate->buffer->data.get()) != 0) order.push_back(allocate);
    }
    std::sort(order.begin(), order.end(), [&](const AllocateNode* a, const AllocateNode* b) {
      return live.at(a->buffer->data.get()) < live.at(b->buffer->data.get());
    });
    std::vector<Slot> slots;
    std::vector<const AllocateNode*> kept;
    std::unordered_map<const Object*, Buffer> replacement;
    for (const AllocateNode* allocate : order) {
      const auto [first, last] = live.at(allocate->buffer->data.get());
      Slot* slot = FindSlot(slots, allocate, first);
      if (slot == nullptr) {
        kept.push_back(allocate);
        if (IsShareable(allocate)) slots.push_back({allocate->buffer, *AsConstInt(allocate->buffer->shape[0]), last});
        continue;
      }
      slot->last = last;
      replacement.emplace(allocate->buffer->data.get(), slot->buffer);
    }
    Stmt body = VisitStmt(GetRef<Stmt>(seq));
    if (!replacement.empty()) body = AccessReplacer(replacement).Rewrite(body);
    for (size_t i = kept.size(); i-- > 0;) body = Allocate(kept[i]->buffer, body, kept[i]->annotations, kept[i]->span);
    return body;
  }

 private:
  /// Small ones are left to become registers.
  static constexpr int64_t kMinBytes = 4096;
  static bool IsShareable(const AllocateNode* op) {
    const Buffer& buffer = op->buffer;
    const int64_t* size = buffer->shape.size() == 1 ? AsConstInt(buffer->shape[0]) : nullptr;
    return size != nullptr && *size * buffer->dtype.bytes() >= kMinBytes && op->annotations.empty() &&
           buffer->strides.empty();
  }
  /// The smallest free memory of the same kind that is large enough.
  static Slot* FindSlot(std::vector<Slot>& slots, const AllocateNode* op, size_t first) {
    if (!IsShareable(op)) return nullptr;
    const int64_t size = *AsConstInt(op->buffer->shape[0]);
    Slot* best = nullptr;
    for (Slot& slot : slots) {
      const bool fits = slot.last < first && slot.size >= size && slot.buffer->dtype == op->buffer->dtype &&
                        slot.buffer.scope() == op->buffer.scope();
      if (fits && (best == nullptr || slot.size < best->size)) best = &slot;
    }
    return best;
  }
};

}  // namespace

PrimFunc StorageRewrite(PrimFunc func, const LowerConfig&) {
  Stmt body = StorageSharer()(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
