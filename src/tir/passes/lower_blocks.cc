// SPDX-License-Identifier: Apache-2.0
// Blocks become plain statements; their buffers are allocated around the innermost loop that holds all uses.
#include <algorithm>

#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

/// Finds, for each buffer that a block allocates, the statement around whose body the allocation goes: a loop, or the
/// allocating block.
class PlacementFinder : public StmtExprVisitor {
 public:
  /// Statement (ForNode or BlockNode) -> buffers to allocate there.
  std::unordered_map<const Object*, std::vector<Buffer>> Run(const Stmt& body) {
    VisitStmt(body);
    std::unordered_map<const Object*, std::vector<Buffer>> result;
    for (const Buffer& buffer : order_) {
      const Allocation& allocation = allocations_.at(buffer->data.get());
      result[allocation.path.empty() ? allocation.block : allocation.path.back()].push_back(buffer);
    }
    return result;
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  struct Allocation {
    const Object* block;              ///< that declares the buffer
    std::vector<const Object*> path;  ///< loops and blocks that all uses so far have in common, from `block` inwards
    size_t depth;                     ///< length of path_ where the block is
    bool used = false;
  };

  void VisitStmt_(const ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    const bool scope = leaf_depth_ == 0;
    if (scope) path_.push_back(op);
    VisitStmt(op->body);
    if (scope) path_.pop_back();
  }

  void VisitStmt_(const BlockRealizeNode* op) override {
    for (const PrimExpr& value : op->iter_values) VisitExpr(value);
    VisitExpr(op->predicate);
    const BlockNode* block = op->block.get();
    // What a reduction writes lives through all of the reduction's loops.
    const size_t outer_limit = limit_;
    std::unordered_set<const Object*> reduce_vars;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (block->iter_vars[i]->iter_type == IterVarType::kCommReduce) CollectVars(op->iter_values[i], &reduce_vars);
    }
    for (size_t i = 0; i < path_.size() && i < limit_; ++i) {
      const auto* loop = static_cast<const Object*>(path_[i]);
      if (loop->IsInstance<ForNode>() && reduce_vars.count(static_cast<const ForNode*>(loop)->loop_var.get()) != 0) {
        limit_ = i;
      }
    }
    for (const Buffer& buffer : block->alloc_buffers) {
      allocations_[buffer->data.get()] = {block, {}, path_.size(), false};
      order_.push_back(buffer);
    }
    for (const MatchBufferRegion& match : block->match_buffers) {
      views_[match->buffer->data.get()] = match->source->buffer->data;
    }
    const bool leaf = IsLeaf(block);
    if (leaf) ++leaf_depth_;
    VisitStmt(block->body);
    if (leaf) --leaf_depth_;
    limit_ = outer_limit;
  }

  void VisitExpr_(const VarNode* op) override {
    if (op->dtype.is_handle()) Use(op, false);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Use(op->buffer->data.get(), false);
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Use(op->buffer->data.get(), true);
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  static bool IsLeaf(const BlockNode* block) {
    bool leaf = true;
    PostOrderVisit(block->body, [&](const ObjectRef& node) {
      if (node->IsInstance<BlockRealizeNode>()) leaf = false;
    });
    return leaf;
  }

  void Use(const Object* data, bool write) {
    for (auto view = views_.find(data); view != views_.end(); view = views_.find(data)) data = view->second.get();
    auto it = allocations_.find(data);
    if (it == allocations_.end()) return;
    Allocation& allocation = it->second;
    size_t end = path_.size();
    if (write) end = std::min(end, limit_);
    // Memory doesn't begin inside a vectorised loop.
    std::vector<const Object*> path;
    for (size_t i = allocation.depth; i < end; ++i) {
      if (path_[i]->IsInstance<ForNode>() && static_cast<const ForNode*>(path_[i])->kind == ForKind::kVectorized) break;
      path.push_back(path_[i]);
    }
    if (!allocation.used) {
      allocation.path = std::move(path);
      allocation.used = true;
      return;
    }
    size_t common = 0;
    while (common < path.size() && common < allocation.path.size() && path[common] == allocation.path[common]) ++common;
    allocation.path.resize(common);
  }

  std::vector<const Object*> path_;  ///< loops outside of leaf blocks
  std::unordered_map<const Object*, Allocation> allocations_;
  std::unordered_map<const Object*, Var> views_;
  std::vector<Buffer> order_;
  size_t limit_ = SIZE_MAX;  ///< depth of the outermost loop of a reduction that we are in
  int leaf_depth_ = 0;
};

class BlockLowerer : public FoldingMutator {
 public:
  using Marks = std::unordered_map<const Object*, Map<String, ObjectRef>>;
  BlockLowerer(std::unordered_map<const Object*, std::vector<Buffer>> placement, Marks marks)
      : placement_(std::move(placement)), marks_(std::move(marks)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;

  struct View {
    Buffer source;
    std::vector<PrimExpr> begin;  ///< start of the region in the source
    size_t skipped = 0;           ///< leading dimensions that the view doesn't have
  };

  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = values_.find(op);
    return it == values_.end() ? GetRef<PrimExpr>(op) : it->second;
  }
  PrimExpr VisitExpr_(const IterVarNode* op) override { return VisitExpr(op->var); }

  Stmt VisitStmt_(const ForNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    auto it = placement_.find(op);
    if (it == placement_.end()) return result;
    const auto* loop = result.as<ForNode>();
    return For(loop->loop_var, loop->min, loop->extent, loop->kind, WithAllocations(loop->body, it->second),
               loop->thread_binding, loop->annotations, loop->span);
  }

  Stmt VisitStmt_(const BlockRealizeNode* op) override {
    const BlockNode* block = op->block.get();
    TREADLE_ICHECK(!block->init.defined()) << "init of block " << block->name_hint << " isn't lowered";
    PrimExpr predicate = VisitExpr(op->predicate);
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      values_[block->iter_vars[i]->var.get()] = VisitExpr(op->iter_values[i]);
    }
    Forget();
    for (const MatchBufferRegion& match : block->match_buffers) AddView(match, block);
    Stmt body = VisitStmt(block->body);
    if (auto it = placement_.find(block); it != placement_.end()) body = WithAllocations(body, it->second);
    for (const auto& [key, value] : block->annotations) {
      if (key.str().rfind(attr::kPragmaPrefix, 0) != 0) continue;
      if (value->IsInstance<PrimExprNode>()) body = AttrStmt(ObjectRef(), key, Downcast<PrimExpr>(value), body);
    }
    if (is_one(predicate)) return body;
    PrimExpr guard;
    for (const PrimExpr& condition : SplitConjunction(predicate)) {
      PrimExpr part = likely(condition);
      guard = guard.defined() ? guard && part : part;
    }
    return IfThenElse(guard, body);
  }

  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const auto* load = result.as<BufferLoadNode>();
    auto it = views_.find(load->buffer.get());
    if (it == views_.end()) return result;
    return VisitExpr(BufferLoad(it->second.source, Through(it->second, load->indices)));
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* store = result.as<BufferStoreNode>();
    auto it = views_.find(store->buffer.get());
    if (it == views_.end()) return result;
    return BufferStore(it->second.source, store->value, Through(it->second, store->indices));
  }

 private:
  Stmt WithAllocations(Stmt body, const std::vector<Buffer>& buffers) const {
    for (size_t i = buffers.size(); i-- > 0;) {
      auto marks = marks_.find(buffers[i]->data.get());
      body = Allocate(buffers[i], body, marks == marks_.end() ? Map<String, ObjectRef>() : marks->second);
    }
    return body;
  }

  void AddView(const MatchBufferRegion& match, const BlockNode* block) {
    View view;
    view.source = match->source->buffer;
    const size_t source_rank = match->source->region.size();
    const size_t rank = match->buffer->shape.size();
    if (rank > source_rank) {
      throw Error(StrCat("block ", block->name_hint, ": view ", match->buffer->name, " of rank ", rank, " on buffer ",
                         view.source->name, " of rank ", source_rank));
    }
    view.skipped = source_rank - rank;
    for (const Range& range : match->source->region) view.begin.push_back(VisitExpr(range->min));
    // A view of a view is one of the first buffer.
    auto outer = views_.find(view.source.get());
    if (outer != views_.end()) {
      Array<PrimExpr> begin;
      for (const PrimExpr& e : view.begin) begin.push_back(e);
      Array<PrimExpr> through = Through(outer->second, begin);
      view.source = outer->second.source;
      view.skipped += outer->second.skipped;
      view.begin.assign(through.begin(), through.end());
    }
    views_[match->buffer.get()] = view;
  }

  static Array<PrimExpr> Through(const View& view, const Array<PrimExpr>& indices) {
    Array<PrimExpr> result;
    for (size_t i = 0; i < view.begin.size(); ++i) {
      result.push_back(i < view.skipped ? view.begin[i] : view.begin[i] + indices[i - view.skipped]);
    }
    return result;
  }

  std::unordered_map<const Object*, std::vector<Buffer>> placement_;
  Marks marks_;  ///< annotations of allocations, by pointer
  std::unordered_map<const Object*, PrimExpr> values_;
  std::unordered_map<const Object*, View> views_;
};

/// What blocks say of the buffers that they write: double buffering, and alignment of strides (dimension, factor and
/// offset), as annotations of their allocations.
BlockLowerer::Marks MarkedBuffers(const Stmt& body) {
  BlockLowerer::Marks result;
  PostOrderVisit(body, [&](const ObjectRef& node) {
    const auto* block = node.as<BlockNode>();
    if (block == nullptr) return;
    auto written = [&](const PrimExpr& e) -> const Object* {
      const int64_t* index = AsConstInt(e);
      if (index == nullptr || *index < 0 || *index >= static_cast<int64_t>(block->writes.size())) return nullptr;
      return block->writes[static_cast<size_t>(*index)]->buffer->data.get();
    };
    if (auto mark = block->annotations.Get(attr::kDoubleBufferScope); mark && (*mark)->IsInstance<PrimExprNode>()) {
      const Object* data = written(Downcast<PrimExpr>(*mark));
      if (data != nullptr) result[data].Set(attr::kDoubleBufferScope, PrimExpr(1));
    }
    auto align = block->annotations.Get(attr::kStorageAlignment);
    if (!align || !(*align)->IsInstance<ArrayNode>()) return;
    for (const ObjectRef& entry : Downcast<Array<ObjectRef>>(*align)) {
      const auto values = Downcast<Array<PrimExpr>>(entry);  // number of the buffer, then those three
      const Object* data = values.size() == 4 ? written(values[0]) : nullptr;
      if (data == nullptr) continue;
      Array<ObjectRef> known;
      if (auto before = result[data].Get(attr::kStorageAlignment)) known = Downcast<Array<ObjectRef>>(*before);
      known.push_back(Array<PrimExpr>{values[1], values[2], values[3]});
      result[data].Set(attr::kStorageAlignment, known);
    }
  });
  return result;
}

}  // namespace

PrimFunc LowerBlocks(PrimFunc func, const LowerConfig&) {
  auto placement = PlacementFinder().Run(func->body);
  Stmt body = BlockLowerer(std::move(placement), MarkedBuffers(func->body)).Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
