// SPDX-License-Identifier: Apache-2.0
// Allocated buffers shrink to the part that is used where they live: a producer computed inside a consumer's loop
// needs room for one step only.
#include "arith/loop_scope.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

using arith::IntSet;

/// The box of elements of a buffer that is used within its allocation, in terms of variables defined outside of it.
struct UsedRegion {
  Buffer buffer;
  std::vector<IntSet> dims;  ///< everything: not known
  bool touched = false;
  bool opaque = false;  ///< the pointer is used otherwise
};

class RegionCollector : public StmtExprVisitor {
 public:
  std::unordered_map<const Object*, UsedRegion> regions;  ///< by data pointer

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  void VisitExpr(const PrimExpr& e) override {
    // A shared subexpression is looked at once in each scope.
    if (e->use_count() > 1 && !e.as<VarNode>() && !seen_.insert(e.get()).second) return;
    StmtExprVisitor::VisitExpr(e);
  }
  void VisitStmt_(const ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    arith::LoopScope loop(analyzer_, op->loop_var, Range::FromMinExtent(op->min, op->extent));
    scope_.push_back({op->loop_var, Range::FromMinExtent(op->min, op->extent)});
    auto seen = std::exchange(seen_, {});
    VisitStmt(op->body);
    seen_ = std::move(seen);
    scope_.pop_back();
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    scope_.push_back({op->var, Range()});
    VisitStmt(op->body);
    scope_.pop_back();
  }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    scope_.push_back({op->var, Range()});
    VisitExpr(op->body);
    scope_.pop_back();
  }
  void VisitStmt_(const AllocateNode* op) override {
    const Buffer& buffer = op->buffer;
    if (buffer->strides.empty() && (!buffer->elem_offset.defined() || is_zero(buffer->elem_offset))) {
      UsedRegion region;
      region.buffer = buffer;
      region.dims.resize(buffer->shape.size());
      // Copies of a statement allocate under one pointer, and each uses a part of its own.
      region.opaque = regions.count(buffer->data.get()) != 0;
      regions[buffer->data.get()] = region;
      depth_[buffer->data.get()] = scope_.size();
    }
    VisitStmt(op->body);
  }
  void VisitExpr_(const VarNode* op) override {
    auto it = regions.find(op);
    if (it != regions.end()) it->second.opaque = true;
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Use(op->buffer, op->indices);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Use(op->buffer, op->indices);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
    VisitExpr(op->value);
  }
  void VisitExpr_(const CallNode* op) override {
    // The elements between two are used.
    constexpr size_t kBoth = 2;
    if (IsCallTo(op, "tir.address_of") && op->args.size() == kBoth) return StmtExprVisitor::VisitExpr_(op);
    if (IsCallTo(op, "tir.address_of") || IsCallTo(op, "tir.tvm_access_ptr")) {
      for (const PrimExpr& arg : op->args) {
        if (const auto* load = arg.as<BufferLoadNode>()) VisitExpr(load->buffer->data);
      }
    }
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const AttrStmtNode* op) override {
    if (const auto* buffer = op->node.as<BufferNode>()) VisitExpr(buffer->data);
    if (const auto* var = op->node.as<VarNode>()) VisitExpr(GetRef<PrimExpr>(var));
    StmtExprVisitor::VisitStmt_(op);
  }

 private:
  struct Variable {
    Var var;
    Range range;  ///< null: nothing is known
  };

  /// Values of `e` while the variables of scope_[from..] run.
  IntSet Relax(const PrimExpr& e, size_t from) {
    std::unordered_map<const Object*, size_t> position;
    for (size_t i = from; i < scope_.size(); ++i) position[scope_[i].var.get()] = i;
    return analyzer_.EvalSet(e, [&](const Var& v) -> std::optional<IntSet> {
      auto it = position.find(v.get());
      if (it == position.end()) return std::nullopt;
      const Range& range = scope_[it->second].range;
      if (!range.defined()) return IntSet::Everything();
      // The range itself may depend on loops between.
      IntSet low = RelaxBelow(range->min, from, it->second);
      IntSet high = RelaxBelow(range->min + range->extent - 1, from, it->second);
      return IntSet{low.min, high.max};
    });
  }
  IntSet RelaxBelow(const PrimExpr& e, size_t from, size_t end) {
    std::vector<Variable> saved(scope_.begin() + static_cast<std::ptrdiff_t>(end), scope_.end());
    scope_.resize(end);
    IntSet result = Relax(e, from);
    scope_.insert(scope_.end(), saved.begin(), saved.end());
    return result;
  }

  void Use(const Buffer& buffer, const Array<PrimExpr>& indices) {
    auto it = regions.find(buffer->data.get());
    if (it == regions.end()) return;
    UsedRegion& region = it->second;
    if (indices.size() != region.dims.size()) {
      region.opaque = true;
      return;
    }
    const size_t from = depth_.at(buffer->data.get());
    for (size_t d = 0; d < indices.size(); ++d) {
      IntSet set = indices[d].dtype().is_scalar() && !arith::ReadsData(indices[d]) ? Relax(indices[d], from)
                                                                                   : IntSet::Everything();
      if (!set.is_bounded() || UsesScope(set.min, from) || UsesScope(set.max, from)) set = IntSet::Everything();
      if (set.is_bounded()) set = {analyzer_.Simplify(set.min), analyzer_.Simplify(set.max)};
      region.dims[d] = region.touched ? Union(region.dims[d], set) : set;
    }
    region.touched = true;
  }

  bool UsesScope(const PrimExpr& e, size_t from) {
    return arith::UsesVar(e, [&](const VarNode* v) {
      for (size_t i = from; i < scope_.size(); ++i) {
        if (scope_[i].var.get() == v) return true;
      }
      return false;
    });
  }

  IntSet Union(const IntSet& a, const IntSet& b) {
    if (!a.is_bounded() || !b.is_bounded()) return IntSet::Everything();
    IntSet result;
    if (analyzer_.CanProveLessEqual(a.min, b.min))
      result.min = a.min;
    else if (analyzer_.CanProveLessEqual(b.min, a.min))
      result.min = b.min;
    if (analyzer_.CanProveLessEqual(b.max, a.max))
      result.max = a.max;
    else if (analyzer_.CanProveLessEqual(a.max, b.max))
      result.max = b.max;
    return result.is_bounded() ? result : IntSet::Everything();
  }

  arith::Analyzer analyzer_;
  std::vector<Variable> scope_;
  std::unordered_map<const Object*, size_t> depth_;
  std::unordered_set<const Object*> seen_;
};

struct Shrunk {
  Buffer buffer;
  std::vector<PrimExpr> begin;
};

/// The smaller buffers, by data pointer.
std::unordered_map<const Object*, Shrunk> ShrinkBuffers(const std::unordered_map<const Object*, UsedRegion>& regions) {
  std::unordered_map<const Object*, Shrunk> result;
  arith::Analyzer analyzer;
  for (const auto& [data, region] : regions) {
    if (region.opaque || !region.touched) continue;
    Array<PrimExpr> shape;
    Shrunk shrunk;
    bool smaller = false;
    for (size_t d = 0; d < region.dims.size(); ++d) {
      const PrimExpr& full = region.buffer->shape[d];
      const IntSet& set = region.dims[d];
      PrimExpr extent = full, begin = make_const(full.dtype(), 0);
      if (set.is_bounded()) {
        PrimExpr size = analyzer.Simplify(set.max - set.min + 1);
        const arith::ConstIntBound bound = analyzer.Bound(size);
        const int64_t* whole = AsConstInt(full);
        const bool useful =
            bound.max != arith::ConstIntBound::kPosInf && bound.max > 0 && (whole == nullptr || bound.max < *whole);
        if (useful) {
          extent = make_const(full.dtype(), bound.max);
          begin = set.min;
          smaller = true;
        }
      }
      shape.push_back(extent);
      shrunk.begin.push_back(begin);
    }
    if (!smaller) continue;
    const Buffer& b = region.buffer;
    shrunk.buffer = Buffer(b->data, b->dtype, shape, {}, PrimExpr(), b->name, b->data_alignment, 0, b->span);
    result.emplace(data, shrunk);
  }
  return result;
}

class BufferShrinker : public FoldingMutator {
 public:
  explicit BufferShrinker(std::unordered_map<const Object*, Shrunk> shrunk) : shrunk_(std::move(shrunk)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr result = FoldingMutator::VisitExpr_(op);
    const auto* load = result.as<BufferLoadNode>();
    auto it = shrunk_.find(load->buffer->data.get());
    if (it == shrunk_.end()) return result;
    return BufferLoad(it->second.buffer, Shift(it->second, load->indices), load->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Stmt result = FoldingMutator::VisitStmt_(op);
    const auto* store = result.as<BufferStoreNode>();
    auto it = shrunk_.find(store->buffer->data.get());
    if (it == shrunk_.end()) return result;
    return BufferStore(it->second.buffer, store->value, Shift(it->second, store->indices), store->span);
  }
  Stmt VisitStmt_(const AllocateNode* op) override {
    Stmt body = VisitStmt(op->body);
    auto it = shrunk_.find(op->buffer->data.get());
    return Allocate(it == shrunk_.end() ? op->buffer : it->second.buffer, body, op->annotations, op->span);
  }

 private:
  static Array<PrimExpr> Shift(const Shrunk& shrunk, const Array<PrimExpr>& indices) {
    Array<PrimExpr> result;
    for (size_t d = 0; d < indices.size(); ++d) result.push_back(indices[d] - shrunk.begin[d]);
    return result;
  }
  std::unordered_map<const Object*, Shrunk> shrunk_;
};

}  // namespace

PrimFunc CompactBuffers(PrimFunc func, const LowerConfig&) {
  RegionCollector collector;
  collector(func->body);
  auto shrunk = ShrinkBuffers(collector.regions);
  if (shrunk.empty()) return func;
  Stmt body = BufferShrinker(std::move(shrunk)).Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
