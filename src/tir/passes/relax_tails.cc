// SPDX-License-Identifier: Apache-2.0
// Incomplete register tiles: where the end of a row of dynamic length cuts off part of an unrolled loop that fills a
// local buffer, the elements beyond the end repeat the last one. What they hold is never used; the tile
// is computed without a branch per element. Where the end cuts off lanes of a vectorised loop, all lanes are
// computed, and only what is read from elsewhere is masked. A buffer of a length that only a run knows, of which
// vectors are stored up to its end, grows by what the last of them is too long: a load right behind a masked store
// waits for it.
#include <algorithm>
#include <optional>

#include "tir/buffer_replacer.h"
#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"

namespace treadle::tir {
namespace {

/// Replaces a variable in what is stored, except in the elements of the buffer that is stored into.
class ValueAt : public FoldingMutator {
 public:
  ValueAt(const Buffer& own, const Var& var, PrimExpr value) : own_(own), var_(var), value_(std::move(value)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const VarNode* op) override { return op == var_.get() ? value_ : GetRef<PrimExpr>(op); }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    return op->buffer->data.same_as(own_->data) ? GetRef<PrimExpr>(op) : FoldingMutator::VisitExpr_(op);
  }

 private:
  const Buffer& own_;
  const Var& var_;
  PrimExpr value_;
};

/// Reads from other buffers what a condition on a vectorised variable allows, and zeros in the other lanes.
class MaskedLoads : public FoldingMutator {
 public:
  MaskedLoads(const Buffer& own, const Var& lane, PrimExpr condition)
      : own_(own), lane_(lane), condition_(std::move(condition)) {}

 protected:
  using FoldingMutator::VisitExpr_;
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    PrimExpr load = GetRef<PrimExpr>(op);
    if (op->buffer->data.same_as(own_->data)) return load;
    if (!arith::UsesVar(load, [&](const VarNode* v) { return v == lane_.get(); })) return load;
    return if_then_else(condition_, load, zero_bits(load.dtype()));
  }

 private:
  const Buffer& own_;
  const Var& lane_;
  PrimExpr condition_;
};

/// Whether computing an expression with zeros and what a buffer happens to hold does no harm: a division of integers
/// may fail by what is loaded, or by what `lane` is beyond the end.
bool IsHarmless(const PrimExpr& e, const Var& lane) {
  const auto varies = [&](const PrimExpr& divisor) {
    return arith::ReadsData(divisor) || arith::UsesVar(divisor, [&](const VarNode* v) { return v == lane.get(); });
  };
  const auto fails = [&](const auto* op) { return op != nullptr && !op->dtype.is_float() && varies(op->b); };
  bool harmless = true, divides = false, looks_up = false;
  PostOrderVisit(e, [&](const ObjectRef& node) {
    if (fails(node.as<DivNode>()) || fails(node.as<ModNode>())) harmless = false;
    if (fails(node.as<FloorDivNode>()) || fails(node.as<FloorModNode>())) harmless = false;
    if (const auto* call = node.as<CallNode>()) harmless = harmless && EffectOf(call) == CallEffect::kPure;
    divides |= node.as<DivNode>() || node.as<ModNode>() || node.as<FloorDivNode>() || node.as<FloorModNode>();
    const auto* load = node.as<BufferLoadNode>();
    if (load == nullptr) return;
    for (const PrimExpr& index : load->indices) looks_up |= arith::ReadsData(index);
  });
  // Places that are looked up, in rows that are divided from joined loops, have vectors under a statement's mask only.
  if (divides && looks_up) return false;
  return harmless;
}

/// The loops around a statement, as far as they matter here.
class LoopStack {
 public:
  void Push(const ForNode* op) {
    loops_.push_back(op);
    const bool unrolled = op->kind == ForKind::kUnrolled && is_zero(op->min);
    if (unrolled) unrolled_.push_back(op->loop_var);
    if (!unrolled && op->kind != ForKind::kVectorized) others_.insert(op->loop_var.get());
  }
  void Pop(const ForNode* op) {
    if (!unrolled_.empty() && unrolled_.back().same_as(op->loop_var)) unrolled_.pop_back();
    others_.erase(op->loop_var.get());
    loops_.pop_back();
  }

  /// A variable of an unrolled loop, and the last of its values for which a condition holds.
  struct Tail {
    Var var;
    PrimExpr last;
  };
  /// The tails that the conditions of a statement that stores into a local buffer cut off, and those conditions that
  /// hold for a whole tile or not at all.
  struct Tails {
    std::vector<Tail> tails;
    std::vector<PrimExpr> whole;
    Var lane;        ///< of the vectorised loop whose lanes are cut off; null where none are
    PrimExpr lanes;  ///< the condition under which a lane isn't
  };
  /// Nothing where conditions are something else.
  std::optional<Tails> TailsOf(const IfThenElseNode* op, const BufferStoreNode* store) {
    if (op->else_case.defined()) return std::nullopt;
    for (const PrimExpr& index : store->indices) {
      if (UsesAnyVar(index, others_)) return std::nullopt;  // not the buffer of one tile
    }
    Tails result;
    for (const PrimExpr& part : SplitConjunction(op->condition)) {
      if (!arith::ReadsData(part) && !UsesTile(part)) {
        result.whole.push_back(part);
        continue;
      }
      if (const Var lane = LaneOf(part, store); lane.defined()) {
        if (result.lane.defined() && !result.lane.same_as(lane)) return std::nullopt;
        result.lane = lane;
        result.lanes = result.lanes.defined() ? result.lanes && part : part;
        continue;
      }
      auto tail = TailOf(part, store);
      if (!tail) return std::nullopt;
      result.tails.push_back(*tail);
    }
    return result;
  }

 private:
  std::optional<Tail> TailOf(const PrimExpr& condition, const BufferStoreNode* store) {
    PrimExpr difference;  // <= 0
    if (const auto* lt = condition.as<LTNode>()) difference = lt->a - lt->b + 1;
    if (const auto* le = condition.as<LENode>()) difference = le->a - le->b;
    if (!difference.defined() || !difference.dtype().is_int() || !difference.dtype().is_scalar()) return std::nullopt;
    if (arith::ReadsData(difference)) return std::nullopt;
    for (const Var& var : unrolled_) {
      auto is_var = [&](const VarNode* v) { return v == var.get(); };
      if (!arith::UsesVar(difference, is_var)) continue;
      // Not what is summed over: repeating that would change the sum.
      bool stored = false;
      for (const PrimExpr& index : store->indices) stored = stored || arith::UsesVar(index, is_var);
      std::vector<PrimExpr> linear = analyzer_.DetectLinear(difference, {var});
      if (!stored || linear.size() != 2) return std::nullopt;
      const PrimExpr slope = analyzer_.Simplify(linear[0]);
      const int64_t* coefficient = AsConstInt(slope);
      PrimExpr rest = analyzer_.Simplify(Substitute(linear[1], SingleValues()));
      if (coefficient == nullptr || *coefficient <= 0) return std::nullopt;
      // Of a bound that is the same for all tiles unrolling leaves nothing beyond the end, and the buffer may end
      // there: what follows is another row.
      if (!UsesOthers(rest) || UsesUnrolled(rest)) return std::nullopt;
      PrimExpr last = analyzer_.Simplify(floordiv(neg(rest), make_const(rest.dtype(), *coefficient)));
      return Tail{var, cast(var.dtype(), last)};
    }
    return std::nullopt;
  }
  /// The variable of a vectorised loop whose last lanes a condition cuts off, if the buffer has room for all of them;
  /// else null.
  Var LaneOf(const PrimExpr& condition, const BufferStoreNode* store) {
    const auto* lt = condition.as<LTNode>();
    const auto* le = condition.as<LENode>();
    if ((lt == nullptr && le == nullptr) || arith::ReadsData(condition)) return Var();
    const PrimExpr difference = lt != nullptr ? lt->a - lt->b : le->a - le->b;
    if (loops_.empty() || loops_.back()->kind != ForKind::kVectorized || !difference.dtype().is_int()) return Var();
    const Var& lane = loops_.back()->loop_var;
    if (!IsHarmless(store->value, lane)) return Var();
    if (UsesUnrolled(difference)) return Var();
    std::vector<PrimExpr> linear = analyzer_.DetectLinear(difference, {lane});
    if (linear.size() != 2) return Var();
    const PrimExpr slope = analyzer_.Simplify(linear[0]);
    const int64_t* coefficient = AsConstInt(slope);
    if (coefficient == nullptr || *coefficient <= 0 || store->indices.size() != 1) return Var();
    const bool stored = arith::UsesVar(store->indices[0], [&](const VarNode* v) { return v == lane.get(); });
    const int64_t* room = store->buffer->shape.size() == 1 ? AsConstInt(store->buffer->shape[0]) : nullptr;
    if (!stored || room == nullptr) return Var();
    arith::Analyzer within;
    for (const ForNode* loop : loops_) within.Bind(loop->loop_var, Range::FromMinExtent(loop->min, loop->extent));
    const arith::ConstIntBound bound = within.Bound(store->indices[0]);
    return bound.min >= 0 && bound.max < *room ? lane : Var();
  }
  /// The variables of loops of one iteration.
  Map<Var, PrimExpr> SingleValues() const {
    Map<Var, PrimExpr> values;
    for (const ForNode* loop : loops_) {
      if (is_one(loop->extent)) values.Set(loop->loop_var, loop->min);
    }
    return values;
  }
  /// Whether it depends on the place in a tile: on unrolled or vectorised loops.
  bool UsesTile(const PrimExpr& e) const {
    return arith::UsesVar(e, [&](const VarNode* v) {
      return std::any_of(loops_.begin(), loops_.end(),
                         [&](const ForNode* loop) { return loop->loop_var.get() == v && others_.count(v) == 0; });
    });
  }
  /// Whether it depends on anything but the place in a tile.
  bool UsesOthers(const PrimExpr& e) const {
    return arith::UsesVar(e, [&](const VarNode* v) {
      return std::none_of(loops_.begin(), loops_.end(),
                          [&](const ForNode* loop) { return loop->loop_var.get() == v && others_.count(v) == 0; });
    });
  }
  bool UsesUnrolled(const PrimExpr& e) const {
    return arith::UsesVar(e, [&](const VarNode* v) {
      for (const Var& var : unrolled_) {
        if (var.get() == v) return true;
      }
      return false;
    });
  }

  std::vector<Var> unrolled_;
  std::unordered_set<const Object*> others_;
  std::vector<const ForNode*> loops_;
  arith::Analyzer analyzer_;
};

bool IsLocal(const AllocateNode* op) {
  const auto* pointer = op->buffer->data->type_annotation.as<PointerTypeNode>();
  return pointer != nullptr && pointer->storage_scope == "local";
}

/// Finds the local buffers into which each statement stores up to some end only: beyond it nothing is ever set, so that
/// nothing can be meant to be read there.
class TailFinder : public StmtExprVisitor {
 public:
  std::unordered_set<const Object*> refused;  ///< Allocate nodes

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const AllocateNode* op) override {
    const Object*& current = allocations_[op->buffer->data.get()];
    const Object* outer = std::exchange(current, op);
    StmtExprVisitor::VisitStmt_(op);
    allocations_[op->buffer->data.get()] = outer;
  }
  void VisitStmt_(const ForNode* op) override {
    loops_.Push(op);
    StmtExprVisitor::VisitStmt_(op);
    loops_.Pop(op);
  }
  void VisitStmt_(const IfThenElseNode* op) override {
    const auto* store = op->then_case.as<BufferStoreNode>();
    fine_ = store != nullptr && loops_.TailsOf(op, store) ? store : nullptr;
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitStmt_(const BufferStoreNode* op) override {
    if (std::exchange(fine_, nullptr) != op) Refuse(op->buffer->data.get());
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitExpr_(const VarNode* op) override { Refuse(op); }  // its address goes elsewhere

 private:
  void Refuse(const Object* data) {
    auto it = allocations_.find(data);
    if (it != allocations_.end() && it->second != nullptr) refused.insert(it->second);
  }
  std::unordered_map<const Object*, const Object*> allocations_;
  const BufferStoreNode* fine_ = nullptr;  ///< what comes next, if it stores up to some end only
  LoopStack loops_;
};

class TailRelaxer : public StmtMutator {
 public:
  explicit TailRelaxer(const std::unordered_set<const Object*>& refused) : refused_(refused) {}

 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const AllocateNode* op) override {
    const Object* data = op->buffer->data.get();
    const bool outer = relaxed_[data];
    relaxed_[data] = IsLocal(op) && refused_.count(op) == 0;
    Stmt result = StmtMutator::VisitStmt_(op);
    relaxed_[data] = outer;
    return result;
  }
  Stmt VisitStmt_(const ForNode* op) override {
    loops_.Push(op);
    Stmt result = StmtMutator::VisitStmt_(op);
    loops_.Pop(op);
    return result;
  }
  Stmt VisitStmt_(const IfThenElseNode* op) override {
    const auto* store = op->then_case.as<BufferStoreNode>();
    if (store == nullptr || !relaxed_[store->buffer->data.get()]) return StmtMutator::VisitStmt_(op);
    auto tails = loops_.TailsOf(op, store);
    if (!tails) return StmtMutator::VisitStmt_(op);
    PrimExpr any = make_bool(true), value = store->value;
    for (const PrimExpr& condition : tails->whole) any = any && condition;
    if (tails->lane.defined()) {
      value = MaskedLoads(store->buffer, tails->lane, tails->lanes).Rewrite(value);
      Map<Var, PrimExpr> first;
      first.Set(tails->lane, make_zero(tails->lane.dtype()));
      any = any && Substitute(tails->lanes, first);
    }
    for (const auto& [var, last] : tails->tails) {
      value = ValueAt(store->buffer, var, min(var, last)).Rewrite(value);
      any = any && (last >= make_zero(last.dtype()));
    }
    return IfThenElse(analyzer_.Simplify(any), BufferStore(store->buffer, value, store->indices), Stmt(), op->span);
  }

 private:
  const std::unordered_set<const Object*>& refused_;
  std::unordered_map<const Object*, bool> relaxed_;
  LoopStack loops_;
  arith::Analyzer analyzer_;
};

/// A store of a vector's lanes into a buffer, up to the buffer's end.
struct VectorAtEnd {
  const BufferStoreNode* store;
  Var lane;
  PrimExpr within;  ///< that a lane is before the end
  PrimExpr others;  ///< the remaining conditions, the same for all lanes
};

std::optional<VectorAtEnd> VectorAtEndOf(const ForNode* loop, arith::Analyzer* analyzer) {
  const auto* branch = loop->body.as<IfThenElseNode>();
  if (loop->kind != ForKind::kVectorized || branch == nullptr || branch->else_case.defined()) return std::nullopt;
  const auto* store = branch->then_case.as<BufferStoreNode>();
  if (store == nullptr || store->buffer->shape.size() != 1 || AsConstInt(loop->extent) == nullptr) return std::nullopt;
  const PrimExpr& extent = store->buffer->shape[0];
  if (AsConstInt(extent) != nullptr || !is_zero(loop->min)) return std::nullopt;
  const auto is_lane = [&](const VarNode* v) { return v == loop->loop_var.get(); };
  VectorAtEnd result{store, loop->loop_var, PrimExpr(), make_bool(true)};
  for (const PrimExpr& part : SplitConjunction(branch->condition)) {
    if (!arith::UsesVar(part, is_lane)) {
      result.others = result.others && part;
      continue;
    }
    const auto* lt = part.as<LTNode>();
    const auto* le = part.as<LENode>();
    if (result.within.defined() || (lt == nullptr && le == nullptr) || arith::ReadsData(part)) return std::nullopt;
    const PrimExpr beyond = lt != nullptr ? lt->a - lt->b : le->a - le->b - 1;  // below 0 within
    if (!beyond.dtype().is_int() || !is_zero(analyzer->Simplify(store->indices[0] - extent - beyond)))
      return std::nullopt;
    result.within = part;
  }
  const std::vector<PrimExpr> linear = analyzer->DetectLinear(store->indices[0], {loop->loop_var});
  if (!result.within.defined() || linear.size() != 2 || !is_one(analyzer->Simplify(linear[0]))) return std::nullopt;
  if (!IsHarmless(store->value, loop->loop_var)) return std::nullopt;
  return result;
}

/// Finds how many elements vectors at the ends of buffers take beyond them.
class EndFinder : public StmtExprVisitor {
 public:
  std::unordered_map<const Object*, int64_t> beyond;  ///< by data pointer
  Map<Buffer, Buffer> padded;                         ///< of those that are allocated once

  void Find(const Stmt& body) {
    VisitStmt(body);
    for (const Buffer& buffer : allocated_) {
      const Object* data = buffer->data.get();
      auto it = beyond.find(data);
      if (it == beyond.end()) continue;
      if (allocations_[data] != 1 || opaque_.count(data) != 0) continue;
      Buffer longer = buffer;
      BufferNode* node = longer.CopyOnWrite();
      node->shape = {buffer->shape[0] + make_const(buffer->shape[0].dtype(), it->second)};
      padded.Set(buffer, longer);
    }
  }

 protected:
  using StmtExprVisitor::VisitExpr_;
  using StmtExprVisitor::VisitStmt_;
  void VisitStmt_(const AllocateNode* op) override {
    ++allocations_[op->buffer->data.get()];
    allocated_.push_back(op->buffer);
    VisitStmt(op->body);
  }
  void VisitStmt_(const ForNode* op) override {
    if (const auto end = VectorAtEndOf(op, &analyzer_)) {
      int64_t& most = beyond[end->store->buffer->data.get()];
      most = std::max(most, *AsConstInt(op->extent) - 1);
    }
    StmtExprVisitor::VisitStmt_(op);
  }
  void VisitExpr_(const VarNode* op) override { opaque_.insert(op); }  // its address goes elsewhere

 private:
  std::unordered_map<const Object*, int> allocations_;
  std::vector<Buffer> allocated_;
  std::unordered_set<const Object*> opaque_;
  arith::Analyzer analyzer_;
};

/// Stores whole vectors at the ends of buffers that have room for them.
class WholeVectors : public StmtMutator {
 public:
  explicit WholeVectors(const Map<Buffer, Buffer>& padded) : padded_(padded) {}

 protected:
  using StmtMutator::VisitStmt_;
  Stmt VisitStmt_(const ForNode* op) override {
    const auto end = VectorAtEndOf(op, &analyzer_);
    if (!end || !padded_.Get(end->store->buffer)) return StmtMutator::VisitStmt_(op);
    const BufferStoreNode* store = end->store;
    Map<Var, PrimExpr> first;
    first.Set(end->lane, make_zero(end->lane.dtype()));
    const PrimExpr any = analyzer_.Simplify(end->others && Substitute(end->within, first));
    const PrimExpr value = MaskedLoads(store->buffer, end->lane, end->within).Rewrite(store->value);
    For loop = GetRef<For>(op);
    loop.CopyOnWrite()->body = IfThenElse(any, BufferStore(store->buffer, value, store->indices, store->span), Stmt());
    return loop;
  }

 private:
  const Map<Buffer, Buffer>& padded_;
  arith::Analyzer analyzer_;
};

Stmt StoreWholeVectors(const Stmt& body) {
  EndFinder finder;
  finder.Find(body);
  if (finder.padded.empty()) return body;
  return ReplaceBuffers(WholeVectors(finder.padded)(body), finder.padded);
}

}  // namespace

PrimFunc RelaxTails(PrimFunc func, const LowerConfig& config) {
  if (config.simple_mode) return func;
  TailFinder finder;
  finder(func->body);
  Stmt body = StoreWholeVectors(TailRelaxer(finder.refused)(func->body));
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
