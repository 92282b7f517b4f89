// SPDX-License-Identifier: Apache-2.0
// Reductions' init statements move out of the reduction's loops.
#include "tir/block_access.h"
#include "tir/passes/pass_util.h"
#include "tir/thread_axis.h"

namespace treadle::tir {
namespace {

class InitLowerer : public StmtExprMutator {
 public:
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;

  struct Loop {
    const ForNode* node;
    std::vector<Stmt> before;  ///< statements to put before the loop
  };

  Stmt VisitStmt_(const ForNode* op) override {
    loops_.push_back({op, {}});
    bound_.insert(op->loop_var.get());
    Stmt result = StmtExprMutator::VisitStmt_(op);
    std::vector<Stmt> before = std::move(loops_.back().before);
    loops_.pop_back();
    if (before.empty()) return result;
    Array<Stmt> seq;
    for (const Stmt& stmt : before) seq.push_back(stmt);
    seq.push_back(result);
    return SeqStmt::Flatten(seq);
  }

  Stmt VisitStmt_(const BlockRealizeNode* op) override {
    const BlockNode* block = op->block.get();
    Block lowered = op->block;
    if (block->init.defined()) lowered = LowerBlock(op);
    // Loops outside of a block don't belong to the reductions within it.
    std::vector<Loop> outer = std::move(loops_);
    loops_.clear();
    for (const IterVar& iv : op->block->iter_vars) bound_.insert(iv->var.get());
    Stmt body = VisitStmt(lowered->body);
    loops_ = std::move(outer);
    if (body.same_as(lowered->body) && lowered.same_as(op->block)) return GetRef<Stmt>(op);
    Block result = lowered;
    result.CopyOnWrite()->body = body;
    return BlockRealize(op->iter_values, op->predicate, result, op->span);
  }

 private:
  /// The block without init. The init's own nest is queued before the outermost loop of the reduction.
  Block LowerBlock(const BlockRealizeNode* op) {
    Block block = op->block;
    BlockNode* node = block.CopyOnWrite();
    Stmt init = node->init;
    node->init = Stmt();

    std::unordered_set<const Object*> reduce_vars, spatial_vars;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      const bool reduce = block->iter_vars[i]->iter_type == IterVarType::kCommReduce;
      CollectVars(op->iter_values[i], reduce ? &reduce_vars : &spatial_vars);
    }
    // Bindings don't mention loops without iterations once they are simplified.
    bool nothing = false;
    for (const IterVar& iv : block->iter_vars) {
      nothing |= iv->iter_type == IterVarType::kCommReduce && is_const_int(iv->dom->extent, 0);
    }
    for (const Loop& loop : loops_) {
      const Object* var = loop.node->loop_var.get();
      if (nothing && is_const_int(loop.node->extent, 0) && spatial_vars.count(var) == 0) reduce_vars.insert(var);
    }
    size_t first = 0;
    while (first < loops_.size() && reduce_vars.count(loops_[first].node->loop_var.get()) == 0) ++first;
    if (first == loops_.size()) {
      node->body = SeqStmt::Flatten({init, node->body});
      return block;
    }
    std::unordered_set<const Object*> inner_reduce;
    bool separable = true;
    for (size_t i = first; i < loops_.size(); ++i) {
      const Object* var = loops_[i].node->loop_var.get();
      if (reduce_vars.count(var) == 0) continue;
      inner_reduce.insert(var);
      if (spatial_vars.count(var) != 0) separable = false;
    }
    PrimExpr predicate = make_bool(true);
    for (const PrimExpr& condition : SplitConjunction(op->predicate)) {
      std::unordered_set<const Object*> used;
      CollectVars(condition, &used);
      bool uses_reduce = false, uses_other = false;
      for (const Object* var : used) {
        uses_reduce |= inner_reduce.count(var) != 0;
        uses_other |= inner_reduce.count(var) == 0 && bound_.count(var) != 0;  // sizes of the function are neither
      }
      if (uses_reduce && uses_other && !EndsReduction(condition, inner_reduce)) separable = false;
      if (!uses_reduce) predicate = predicate && condition;
    }
    // A loop between whose extent depends on the reduction can't be copied without it.
    for (size_t i = first; i < loops_.size(); ++i) {
      const ForNode* loop = loops_[i].node;
      if (inner_reduce.count(loop->loop_var.get()) != 0) continue;
      if (UsesAnyVar(loop->min, inner_reduce) || UsesAnyVar(loop->extent, inner_reduce)) separable = false;
    }
    // What the loops make for init isn't there before them.
    if (ReadsWhatIsWritten(init, loops_[first].node->body)) separable = false;
    if (!separable) {
      PrimExpr at_start = make_bool(true);
      for (const IterVar& iv : block->iter_vars) {
        if (iv->iter_type == IterVarType::kCommReduce) at_start = at_start && equal(iv->var, iv->dom->min);
      }
      node->body = SeqStmt::Flatten({IfThenElse(at_start, init), node->body});
      return block;
    }
    loops_[first].before.push_back(InitNest(op, init, predicate, first, inner_reduce));
    return block;
  }

  /// Whether a condition only says how far the reduction of an element goes: its loops on one side, none of them on the
  /// other. An element whose reduction has no steps has its initial value.
  bool EndsReduction(const PrimExpr& condition, const std::unordered_set<const Object*>& inner_reduce) const {
    const auto* less = condition.as<LTNode>();
    const auto* at_most = condition.as<LENode>();
    if (less == nullptr && at_most == nullptr) return false;
    const PrimExpr& step = less != nullptr ? less->a : at_most->a;
    const PrimExpr& end = less != nullptr ? less->b : at_most->b;
    std::unordered_set<const Object*> used;
    CollectVars(step, &used);
    for (const Object* var : used) {
      if (bound_.count(var) != 0 && inner_reduce.count(var) == 0) return false;
    }
    return !UsesAnyVar(end, inner_reduce);
  }

  Stmt InitNest(const BlockRealizeNode* op, const Stmt& init, const PrimExpr& predicate, size_t first,
                const std::unordered_set<const Object*>& inner_reduce) {
    const BlockNode* block = op->block.get();
    std::unordered_set<const Object*> used;
    CollectVars(predicate, &used);
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      if (block->iter_vars[i]->iter_type != IterVarType::kCommReduce) CollectVars(op->iter_values[i], &used);
    }
    Map<Var, PrimExpr> loop_map, block_map;
    for (size_t i = first; i < loops_.size(); ++i) {
      const Var& var = loops_[i].node->loop_var;
      if (inner_reduce.count(var.get()) == 0) loop_map.Set(var, Var(var->name_hint + "_init", var.dtype()));
    }
    Array<IterVar> iter_vars;
    Array<PrimExpr> values;
    for (size_t i = 0; i < block->iter_vars.size(); ++i) {
      const IterVar& iv = block->iter_vars[i];
      if (iv->iter_type == IterVarType::kCommReduce) continue;
      Var fresh(iv->var->name_hint + "_init", iv->var.dtype());
      block_map.Set(iv->var, fresh);
      iter_vars.push_back(IterVar(iv->dom, fresh, iv->iter_type, iv->thread_tag));
      values.push_back(Substitute(op->iter_values[i], loop_map));
    }
    Array<BufferRegion> writes;
    for (const BufferRegion& region : block->writes) {
      Array<Range> ranges = region->region.Map([&](const Range& range) {
        return Range::FromMinExtent(Substitute(range->min, block_map), Substitute(range->extent, block_map));
      });
      writes.push_back(BufferRegion(region->buffer, ranges));
    }
    Block init_block(iter_vars, {}, writes, block->name_hint + "_init", Substitute(init, block_map));
    Stmt nest = BlockRealize(values, Substitute(predicate, loop_map), init_block);
    for (size_t i = loops_.size(); i-- > first;) {
      const ForNode* loop = loops_[i].node;
      // Loops that only the producers beside the reduction use don't matter to init.
      if (inner_reduce.count(loop->loop_var.get()) != 0 || used.count(loop->loop_var.get()) == 0) continue;
      ForKind kind = loop->kind == ForKind::kParallel ? ForKind::kSerial : loop->kind;
      nest =
          For(Downcast<Var>(loop_map.at(loop->loop_var)), Substitute(loop->min, loop_map),
              Substitute(loop->extent, loop_map), kind, nest, FreshThreadAxis(loop->thread_binding), loop->annotations);
    }
    return nest;
  }

  std::vector<Loop> loops_;
  std::unordered_set<const Object*> bound_;  ///< variables of loops and blocks
};

}  // namespace

PrimFunc LowerInit(PrimFunc func, const LowerConfig&) {
  Stmt body = InitLowerer().Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
