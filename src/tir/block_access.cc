// SPDX-License-Identifier: Apache-2.0
#include "tir/block_access.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "arith/loop_scope.h"
#include "ir/scoped_entry.h"
#include "treadle/arith/analyzer.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::tir {
namespace {

using arith::IntSet;

/// Of one buffer: the interval in each dimension that covers all accesses seen.
struct Touched {
  Buffer buffer;
  std::vector<IntSet> dims;
};

class AccessCollector : public StmtExprVisitor {
 public:
  std::vector<Touched> reads, writes;
  explicit AccessCollector(const Array<Buffer>& allocated) {
    for (const Buffer& b : allocated) private_.insert(b.get());
  }
  void Run(const Stmt& stmt) { VisitStmt(stmt); }
  arith::Analyzer& analyzer() { return analyzer_; }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;

  void VisitStmt_(const ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    const Range range = Range::FromMinExtent(op->min, op->extent);
    IntSet set = IntSet::FromRange(range);
    // Ends in terms of other relaxed variables are relaxed in turn.
    set = {Eval(set.min).min, Eval(set.max).max};
    ScopedEntry relaxed(relaxed_, op->loop_var.get(), set);
    arith::LoopScope loop(analyzer_, op->loop_var, range);
    VisitStmt(op->body);
  }
  void VisitStmt_(const LetStmtNode* op) override {
    VisitExpr(op->value);
    ScopedEntry let(relaxed_, op->var.get(), LetSet(op->value));
    VisitStmt(op->body);
  }
  void VisitExpr_(const LetNode* op) override {
    VisitExpr(op->value);
    ScopedEntry let(relaxed_, op->var.get(), LetSet(op->value));
    VisitExpr(op->body);
  }
  void VisitExpr_(const BufferLoadNode* op) override {
    Touch(reads, op->buffer, op->indices);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    Touch(writes, op->buffer, op->indices);
    VisitExpr(op->value);
    for (const PrimExpr& index : op->indices) VisitExpr(index);
  }
  void VisitStmt_(const AllocateNode* op) override {
    private_.insert(op->buffer.get());
    VisitStmt(op->body);
  }
  /// A pointer handed to a call may be read and written anywhere.
  void VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.address_of") && op->args[0].as<BufferLoadNode>()) {
      const auto* load = op->args[0].as<BufferLoadNode>();
      TouchAll(load->buffer);
      for (const PrimExpr& index : load->indices) VisitExpr(index);
      return;
    }
    StmtExprVisitor::VisitExpr_(op);
  }
  void VisitStmt_(const BlockRealizeNode* op) override {
    for (const PrimExpr& value : op->iter_values) VisitExpr(value);
    VisitExpr(op->predicate);
    const BlockNode* block = op->block.get();
    for (const Buffer& b : block->alloc_buffers) private_.insert(b.get());
    for (const MatchBufferRegion& m : block->match_buffers) private_.insert(m->buffer.get());
    Map<Var, PrimExpr> values;
    for (size_t i = 0; i < op->iter_values.size(); ++i) values.Set(block->iter_vars[i]->var, op->iter_values[i]);
    auto touch = [&](std::vector<Touched>& list, const BufferRegion& region) {
      std::vector<IntSet> dims;
      for (const Range& range : region->region) {
        IntSet low = Eval(Substitute(range->min, values));
        IntSet high = is_const_int(range->extent, 1) ? low : Eval(Substitute(range->min + range->extent - 1, values));
        dims.push_back({low.min, high.max});
      }
      Merge(list, region->buffer, dims);
    };
    for (const BufferRegion& region : block->reads) touch(reads, region);
    for (const BufferRegion& region : block->writes) touch(writes, region);
  }

 private:
  IntSet LetSet(const PrimExpr& value) {
    return value.dtype().is_integral() && !arith::ReadsData(value) ? Eval(value) : IntSet::Everything();
  }
  IntSet Eval(const PrimExpr& e) {
    if (!e.defined()) return IntSet::Everything();
    if (arith::ReadsData(e)) return IntSet::Everything();
    return analyzer_.EvalSet(e, [this](const Var& var) -> std::optional<IntSet> {
      auto it = relaxed_.find(var.get());
      if (it == relaxed_.end()) return std::nullopt;
      return it->second;
    });
  }
  void Touch(std::vector<Touched>& list, const Buffer& buffer, const Array<PrimExpr>& indices) {
    if (private_.count(buffer.get())) return;
    std::vector<IntSet> dims;
    for (const PrimExpr& index : indices) {
      if (const auto* ramp = index.as<RampNode>()) {
        IntSet base = Eval(ramp->base);
        IntSet last = Eval(ramp->base + ramp->stride * (ramp->lanes - 1));
        dims.push_back(analyzer_.CanProveNonNegative(ramp->stride) ? IntSet{base.min, last.max} : IntSet());
      } else {
        dims.push_back(index.dtype().is_scalar() ? Eval(index) : IntSet::Everything());
      }
    }
    Merge(list, buffer, dims);
  }
  void TouchAll(const Buffer& buffer) {
    std::vector<IntSet> dims(buffer->shape.size());
    Merge(reads, buffer, dims);
    Merge(writes, buffer, dims);
  }
  void Merge(std::vector<Touched>& list, const Buffer& buffer, const std::vector<IntSet>& dims) {
    if (private_.count(buffer.get())) return;
    for (Touched& known : list) {
      if (!known.buffer.same_as(buffer)) continue;
      for (size_t i = 0; i < dims.size(); ++i) known.dims[i] = Hull(known.dims[i], dims[i]);
      return;
    }
    list.push_back({buffer, dims});
  }
  IntSet Hull(const IntSet& a, const IntSet& b) {
    if (!a.is_bounded() || !b.is_bounded()) return IntSet::Everything();
    std::optional<int64_t> low = analyzer_.ConstDifference(a.min, b.min);
    std::optional<int64_t> high = analyzer_.ConstDifference(a.max, b.max);
    if (!low || !high) {
      // Not comparable: the symbolic hull is kept where it is provable, else the whole dimension.
      if (analyzer_.CanProveLessEqual(a.min, b.min) && analyzer_.CanProveLessEqual(b.max, a.max)) return a;
      if (analyzer_.CanProveLessEqual(b.min, a.min) && analyzer_.CanProveLessEqual(a.max, b.max)) return b;
      return IntSet::Everything();
    }
    return {*low <= 0 ? a.min : b.min, *high >= 0 ? a.max : b.max};
  }

  arith::Analyzer analyzer_;
  std::unordered_map<const VarNode*, IntSet> relaxed_;
  std::unordered_set<const BufferNode*> private_;
};

Array<BufferRegion> ToRegions(arith::Analyzer& analyzer, const std::vector<Touched>& list) {
  Array<BufferRegion> regions;
  for (const Touched& touched : list) {
    Array<Range> region;
    for (size_t i = 0; i < touched.dims.size(); ++i) {
      const IntSet& set = touched.dims[i];
      if (!set.is_bounded()) {
        region.push_back(Range(touched.buffer->shape[i]));
      } else if (set.min.same_as(set.max)) {
        region.push_back(Range::FromMinExtent(set.min, make_const(set.min.dtype(), 1)));
      } else {
        region.push_back(Range::FromMinExtent(set.min, analyzer.Simplify(set.max - set.min + 1)));
      }
    }
    regions.push_back(BufferRegion(touched.buffer, region));
  }
  return regions;
}

bool SameRegion(const BufferRegion& a, const BufferRegion& b) {
  if (!a->buffer.same_as(b->buffer)) return false;
  for (size_t i = 0; i < a->region.size(); ++i) {
    if (!arith::ExprDeepEqual(a->region[i]->min, b->region[i]->min) ||
        !arith::ExprDeepEqual(a->region[i]->extent, b->region[i]->extent)) {
      return false;
    }
  }
  return true;
}

}  // namespace

BlockAccess DetectBlockAccess(const Stmt& body, const Stmt& init, const Array<Buffer>& allocated) {
  AccessCollector collector(allocated);
  if (init.defined()) collector.Run(init);
  collector.Run(body);
  BlockAccess access;
  access.writes = ToRegions(collector.analyzer(), collector.writes);
  for (const BufferRegion& read : ToRegions(collector.analyzer(), collector.reads)) {
    bool own = false;
    for (const BufferRegion& write : access.writes) own |= init.defined() && SameRegion(read, write);
    if (!own) access.reads.push_back(read);
  }
  return access;
}

Block WithDetectedAccess(Block block) {
  BlockAccess access = DetectBlockAccess(block->body, block->init, block->alloc_buffers);
  BlockNode* node = block.CopyOnWrite();
  node->reads = access.reads;
  node->writes = access.writes;
  return block;
}

bool ReadsWhatIsWritten(const Stmt& reader, const Stmt& within) {
  std::unordered_set<const Object*> read;
  PostOrderVisit(reader, [&](const ObjectRef& node) {
    if (const auto* load = node.as<BufferLoadNode>()) read.insert(load->buffer->data.get());
  });
  bool found = false;
  PostOrderVisit(within, [&](const ObjectRef& node) {
    if (const auto* store = node.as<BufferStoreNode>()) found |= read.count(store->buffer->data.get()) != 0;
    if (const auto* block = node.as<BlockNode>()) {
      for (const BufferRegion& region : block->writes) found |= read.count(region->buffer->data.get()) != 0;
    }
  });
  return found;
}

}  // namespace treadle::tir
