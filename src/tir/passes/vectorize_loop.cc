// SPDX-License-Identifier: Apache-2.0
// Vectorised loops become vector expressions. Statement by statement: one that has no vector form runs in a serial
// loop of its own over the lanes.
#include <algorithm>

#include "tir/passes/pass_util.h"
#include "tir/shared_conditions.h"

namespace treadle::tir {
namespace {

/// Thrown where an expression or statement has no vector form.
struct NoVectorForm {};

PrimExpr ToLanes(const PrimExpr& e, int lanes) {
  if (e.dtype().lanes() == lanes) return e;
  if (!e.dtype().is_scalar()) throw NoVectorForm();
  return Broadcast(e, lanes);
}

/// Rewrites the body of one loop; `var` takes the values min, min+1, .. in the lanes.
class Vectorizer : public FoldingMutator {
 public:
  Vectorizer(Var var, PrimExpr min, int lanes) : var_(std::move(var)), min_(std::move(min)), lanes_(lanes) {
    ramp_ = Ramp(min_, make_const(var_.dtype(), 1), lanes);
  }

 protected:
  using FoldingMutator::VisitExpr_;
  using FoldingMutator::VisitStmt_;

  /// What is a vector already, from a loop inside this one, has no room for a second kind of lanes.
  PrimExpr VisitExpr(const PrimExpr& e) override {
    if (e.dtype().is_vector() && UsesLanes(e)) throw NoVectorForm();
    return FoldingMutator::VisitExpr(e);
  }

  PrimExpr VisitExpr_(const VarNode* op) override {
    if (op == var_.get()) return ramp_;
    auto it = lets_.find(op);
    return it == lets_.end() ? GetRef<PrimExpr>(op) : it->second;
  }

  // ---- Arithmetic: ramps stay ramps ----

  template <typename Node>
  PrimExpr Linear(const Node* op, PrimExpr (*function)(PrimExpr, PrimExpr), bool subtract) {
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
    if (a.dtype().is_scalar() && b.dtype().is_scalar()) return function(a, b);
    const auto* ra = a.as<RampNode>();
    const auto* rb = b.as<RampNode>();
    if (ra && b.dtype().is_scalar()) return Ramp(function(ra->base, b), ra->stride, lanes_);
    if (rb && a.dtype().is_scalar()) {
      return Ramp(function(a, rb->base), subtract ? neg(rb->stride) : rb->stride, lanes_);
    }
    if (ra && rb) {
      PrimExpr stride = function(ra->stride, rb->stride);
      PrimExpr base = function(ra->base, rb->base);
      return is_zero(stride) ? PrimExpr(Broadcast(base, lanes_)) : Ramp(base, stride, lanes_);
    }
    return function(ToLanes(a, lanes_), ToLanes(b, lanes_));
  }
  PrimExpr VisitExpr_(const AddNode* op) override { return Linear(op, add, false); }
  PrimExpr VisitExpr_(const SubNode* op) override { return Linear(op, sub, true); }
  PrimExpr VisitExpr_(const MulNode* op) override {
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
    if (a.dtype().is_scalar() && b.dtype().is_scalar()) return a * b;
    const auto* ra = a.as<RampNode>();
    const auto* rb = b.as<RampNode>();
    if (ra && b.dtype().is_scalar()) return Ramp(ra->base * b, ra->stride * b, lanes_);
    if (rb && a.dtype().is_scalar()) return Ramp(a * rb->base, a * rb->stride, lanes_);
    return ToLanes(a, lanes_) * ToLanes(b, lanes_);
  }
  template <typename Node>
  PrimExpr Quotient(const Node* op, bool remainder) {
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
    const auto* ramp = a.as<RampNode>();
    const int64_t* divisor = AsConstInt(b);
    const int64_t* stride = ramp ? AsConstInt(ramp->stride) : nullptr;
    // Lanes within one aligned group have one quotient.
    if (divisor && stride && *stride >= 1 && *divisor > 0) {
      const int64_t reach = *stride * lanes_;
      if (*divisor % reach == 0 && KnownDivisor(ramp->base) % reach == 0) {
        if (remainder) return Ramp(floormod(ramp->base, b), ramp->stride, lanes_);
        return Broadcast(floordiv(ramp->base, b), lanes_);
      }
      // Lanes that are whole multiples of the divisor apart: quotients form a ramp.
      if (*stride % *divisor == 0) {
        PrimExpr step = make_const(b.dtype(), *stride / *divisor);
        if (remainder) return Broadcast(floormod(ramp->base, b), lanes_);
        return Ramp(floordiv(ramp->base, b), step, lanes_);
      }
    }
    return remainder ? PrimExpr(FloorMod(ToLanes(a, lanes_), ToLanes(b, lanes_)))
                     : PrimExpr(FloorDiv(ToLanes(a, lanes_), ToLanes(b, lanes_)));
  }
  PrimExpr VisitExpr_(const FloorDivNode* op) override { return Quotient(op, false); }
  PrimExpr VisitExpr_(const FloorModNode* op) override { return Quotient(op, true); }

#define TREADLE_VECTORIZE_BINARY(Name)                                     \
  PrimExpr VisitExpr_(const Name##Node* op) override {                     \
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);                   \
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op); \
    if (a.dtype().is_scalar() && b.dtype().is_scalar()) return Name(a, b); \
    return Name(ToLanes(a, lanes_), ToLanes(b, lanes_));                   \
  }
  TREADLE_VECTORIZE_BINARY(Div)
  TREADLE_VECTORIZE_BINARY(Mod)
  TREADLE_VECTORIZE_BINARY(Min)
  TREADLE_VECTORIZE_BINARY(Max)
  TREADLE_VECTORIZE_BINARY(EQ)
  TREADLE_VECTORIZE_BINARY(NE)
  TREADLE_VECTORIZE_BINARY(And)
  TREADLE_VECTORIZE_BINARY(Or)
#undef TREADLE_VECTORIZE_BINARY

  /// A comparison of its first or its second operand, which the other is a limit of: one decides for all lanes where
  /// they are a group of values and the limit is where such a group begins.
  template <typename Ref, typename Node>
  PrimExpr Comparison(const Node* op, bool first) {
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
    if (a.same_as(op->a) && b.same_as(op->b)) return GetRef<PrimExpr>(op);
    if (a.dtype().is_scalar() && b.dtype().is_scalar()) return Ref(a, b);
    const auto* ramp = (first ? a : b).template as<RampNode>();
    const PrimExpr& limit = first ? b : a;
    const int64_t* stride = ramp != nullptr ? AsConstInt(ramp->stride) : nullptr;
    if (stride != nullptr && *stride >= 1 && limit.dtype().is_scalar()) {
      const int64_t reach = *stride * lanes_;
      if (KnownDivisor(ramp->base) % reach == 0 && KnownDivisor(limit) % reach == 0) {
        return first ? Ref(ramp->base, b) : Ref(a, ramp->base);
      }
    }
    return Ref(ToLanes(a, lanes_), ToLanes(b, lanes_));
  }
  PrimExpr VisitExpr_(const LTNode* op) override { return Comparison<LT>(op, true); }
  PrimExpr VisitExpr_(const GENode* op) override { return Comparison<GE>(op, true); }
  PrimExpr VisitExpr_(const GTNode* op) override { return Comparison<GT>(op, false); }
  PrimExpr VisitExpr_(const LENode* op) override { return Comparison<LE>(op, false); }

  PrimExpr VisitExpr_(const NotNode* op) override {
    PrimExpr a = VisitExpr(op->a);
    return a.same_as(op->a) ? GetRef<PrimExpr>(op) : PrimExpr(Not(a));
  }
  PrimExpr VisitExpr_(const CastNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    if (value.same_as(op->value)) return GetRef<PrimExpr>(op);
    // Index arithmetic doesn't overflow, so a widened ramp is a ramp of widened parts.
    const auto* ramp = value.as<RampNode>();
    if (ramp && op->dtype.is_int() && value.dtype().is_int() && op->dtype.bits() >= value.dtype().bits()) {
      return Ramp(cast(op->dtype.element_of(), ramp->base), cast(op->dtype.element_of(), ramp->stride), lanes_);
    }
    return Cast(op->dtype.with_lanes(value.dtype().lanes()), value);
  }
  PrimExpr VisitExpr_(const SelectNode* op) override {
    PrimExpr condition = VisitExpr(op->condition);
    PrimExpr yes = VisitExpr(op->true_value), no = VisitExpr(op->false_value);
    if (condition.same_as(op->condition) && yes.same_as(op->true_value) && no.same_as(op->false_value)) {
      return GetRef<PrimExpr>(op);
    }
    if (condition.dtype().is_scalar() && yes.dtype().is_scalar() && no.dtype().is_scalar()) {
      return Select(condition, yes, no);
    }
    return Select(ToLanes(condition, lanes_), ToLanes(yes, lanes_), ToLanes(no, lanes_));
  }
  PrimExpr VisitExpr_(const LetNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    Var var = Bound(op->var, value.dtype());
    PrimExpr body = VisitExpr(op->body);
    if (value.same_as(op->value) && body.same_as(op->body)) return GetRef<PrimExpr>(op);
    return Let(var, value, body);
  }

  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    // Whether neighbours are read or one element for all, as of operands that a run may broadcast, is decided once.
    for (const PrimExpr& index : op->indices) {
      const PrimExpr condition = SharedConditionIn(index, [this](const PrimExpr& e) { return UsesLanes(e); });
      if (!condition.defined()) continue;
      const PrimExpr load = GetRef<PrimExpr>(op), yes = TakeSide(load, condition, true);
      return VisitExpr(if_then_else(condition, yes, TakeSide(load, condition, false)));
    }
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    if (indices.same_as(op->indices)) {
      if (!IsAlwaysThere(op)) ReadOnce();
      return GetRef<PrimExpr>(op);
    }
    if (indices.size() != 1 || op->buffer->dtype.lanes() != 1) throw NoVectorForm();
    PrimExpr load = BufferLoad(op->buffer, indices, op->span);
    if (load.dtype().is_scalar()) {
      ReadOnce();
      return load;
    }
    if (!mask_.defined()) return load;
    return CallIntrin(load.dtype(), "tir.masked_load", {load, mask_, zero_bits(load.dtype())});
  }

  PrimExpr VisitExpr_(const CallNode* op) override {
    if (IsCallTo(op, "tir.if_then_else")) return Conditional(op);
    Array<PrimExpr> args = op->args.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    if (args.same_as(op->args)) {
      if (mask_.defined() && EffectOf(op) == CallEffect::kOpaque) throw NoVectorForm();
      return GetRef<PrimExpr>(op);
    }
    bool vector = false;
    for (const PrimExpr& arg : args) vector = vector || arg.dtype().is_vector();
    if (!vector) return Call(op->dtype, op->op, args, op->span);
    if (EffectOf(op) != CallEffect::kPure || IsCallTo(op, "tir.call_pure_extern") ||
        IsCallTo(op, "tir.call_llvm_pure_intrin") || IsCallTo(op, "tir.address_of") || !op->dtype.is_scalar()) {
      throw NoVectorForm();
    }
    Array<PrimExpr> wide;
    for (const PrimExpr& arg : args) wide.push_back(ToLanes(arg, lanes_));
    return Call(op->dtype.with_lanes(lanes_), op->op, wide, op->span);
  }

  // ---- Statements ----

  Stmt VisitStmt(const Stmt& stmt) override {
    if (mask_.defined()) return FoldingMutator::VisitStmt(stmt);
    const auto lets = lets_;
    try {
      return FoldingMutator::VisitStmt(stmt);
    } catch (const NoVectorForm&) {
      Forget();
      mask_ = PrimExpr();
      falls_ = true;
      reads_once_ = false;
      lets_ = lets;
      if (stmt.as<SeqStmtNode>()) throw;
      return Serial(stmt);
    }
  }

  Stmt VisitStmt_(const BufferStoreNode* op) override {
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return VisitExpr(e); });
    PrimExpr value = VisitExpr(op->value);
    const bool same = indices.same_as(op->indices) && value.same_as(op->value);
    if (same && !mask_.defined()) return GetRef<Stmt>(op);
    if (indices.size() != 1 || op->buffer->dtype.lanes() != 1) throw NoVectorForm();
    const bool vector_index = indices[0].dtype().is_vector();
    if (!vector_index && (mask_.defined() || value.dtype().is_vector())) throw NoVectorForm();
    if (!vector_index) return BufferStore(op->buffer, value, indices, op->span);
    value = ToLanes(value, lanes_);
    if (!mask_.defined()) return BufferStore(op->buffer, value, indices, op->span);
    return Evaluate(CallIntrin(DataType::Int(32), "tir.masked_store", {BufferLoad(op->buffer, indices), mask_, value}));
  }

  Stmt VisitStmt_(const IfThenElseNode* op) override {
    PrimExpr condition = VisitExpr(op->condition);
    if (condition.dtype().is_scalar()) {
      Stmt then_case = VisitStmt(op->then_case);
      Stmt else_case = op->else_case.defined() ? VisitStmt(op->else_case) : Stmt();
      return IfThenElse(condition, then_case, else_case, op->span);
    }
    condition = TakeOffLikely(condition);
    const bool outer_falls = std::exchange(falls_, falls_ && Falls(condition));
    const bool outer_reads = std::exchange(reads_once_, false);
    Stmt then_case = UnderMask(condition, [&] { return VisitStmt(op->then_case); });
    // Where any lane runs, the first one does.
    if (reads_once_) then_case = IfThenElse(AtFirstLane(op->condition), then_case, Stmt(), op->span);
    reads_once_ = reads_once_ || outer_reads;
    falls_ = false;
    Stmt else_case;
    if (op->else_case.defined()) else_case = UnderMask(Not(condition), [&] { return VisitStmt(op->else_case); });
    falls_ = outer_falls;
    return else_case.defined() ? SeqStmt::Flatten({then_case, else_case}) : then_case;
  }

  Stmt VisitStmt_(const ForNode* op) override {
    PrimExpr min = VisitExpr(op->min), extent = VisitExpr(op->extent);
    if (min.dtype().is_vector() || extent.dtype().is_vector()) throw NoVectorForm();
    // An inner loop of vectors is run lane by lane of this one.
    if (op->kind == ForKind::kVectorized || op->kind == ForKind::kParallel) throw NoVectorForm();
    Stmt body = VisitStmt(op->body);
    return For(op->loop_var, min, extent, op->kind, body, op->thread_binding, op->annotations, op->span);
  }

  Stmt VisitStmt_(const LetStmtNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    Var var = Bound(op->var, value.dtype());
    return LetStmt(var, value, FoldingMutator::VisitStmt(op->body), op->span);
  }
  Stmt VisitStmt_(const AllocateNode*) override { throw NoVectorForm(); }
  Stmt VisitStmt_(const AssertStmtNode* op) override {
    PrimExpr condition = VisitExpr(op->condition);
    if (condition.dtype().is_vector() || mask_.defined()) throw NoVectorForm();
    return AssertStmt(condition, op->message, FoldingMutator::VisitStmt(op->body), op->span);
  }
  Stmt VisitStmt_(const WhileNode* op) override {
    std::unordered_set<const Object*> self{var_.get()};
    bool uses = mask_.defined();
    PostOrderVisit(GetRef<Stmt>(op), [&](const ObjectRef& node) {
      uses = uses || node.get() == var_.get() || lets_.count(node.get()) != 0;
    });
    if (uses) throw NoVectorForm();
    return GetRef<Stmt>(op);
  }
  Stmt VisitStmt_(const EvaluateNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    if (value.same_as(op->value) && !mask_.defined()) return GetRef<Stmt>(op);
    if (!HasNoSideEffect(op->value)) throw NoVectorForm();
    return NoOp();
  }

 private:
  /// The variable that stands for `var` where that is bound to a value of `dtype`. Several lets may bind one variable
  /// around parts that they share, and what has become of these is remembered.
  Var Bound(const Var& var, DataType dtype) {
    auto it = lets_.find(var.get());
    Var before = it == lets_.end() ? var : Downcast<Var>(it->second);
    if (before.dtype() == dtype) return before;
    if (it != lets_.end()) Forget();
    if (var.dtype() == dtype) {
      lets_.erase(var.get());
      return var;
    }
    const Var wide(var->name_hint, dtype);
    lets_[var.get()] = wide;
    return wide;
  }

  /// Whether the lanes of this loop make a difference to an expression.
  bool UsesLanes(const PrimExpr& e) const {
    bool uses = false;
    PostOrderVisit(
        e, [&](const ObjectRef& node) { uses = uses || node.get() == var_.get() || lets_.count(node.get()) != 0; });
    return uses;
  }

  static PrimExpr TakeOffLikely(const PrimExpr& e) {
    if (const auto* call = e.as<CallNode>(); call && IsCallTo(call, "tir.likely")) return TakeOffLikely(call->args[0]);
    if (const auto* op = e.as<AndNode>()) return And(TakeOffLikely(op->a), TakeOffLikely(op->b));
    return e;
  }

  /// Whether an element can be read under no condition: one at a number within the buffer.
  static bool IsAlwaysThere(const BufferLoadNode* load) {
    for (size_t d = 0; d < load->indices.size(); ++d) {
      const int64_t* index = AsConstInt(load->indices[d]);
      const int64_t* extent = AsConstInt(load->buffer->shape[d]);
      if (index == nullptr || extent == nullptr || *index < 0 || *index >= *extent) return false;
    }
    return load->indices.size() == load->buffer->shape.size();
  }

  /// Reading what is the same for all lanes, under conditions that differ by lane where no lane may be allowed to.
  void ReadOnce() {
    if (!mask_.defined()) return;
    if (!falls_) throw NoVectorForm();
    reads_once_ = true;
  }

  /// Whether a condition that holds in some lane holds in all lanes before it: comparisons of a rising ramp with what
  /// is the same for all.
  static bool Falls(const PrimExpr& condition) {
    if (const auto* both = condition.as<AndNode>()) return Falls(both->a) && Falls(both->b);
    const auto rises = [](const PrimExpr& e, const PrimExpr& limit) {
      const auto* ramp = e.as<RampNode>();
      const int64_t* stride = ramp != nullptr ? AsConstInt(ramp->stride) : nullptr;
      return stride != nullptr && *stride >= 0 && limit.as<BroadcastNode>() != nullptr;
    };
    if (condition.as<BroadcastNode>()) return true;
    if (const auto* op = condition.as<LTNode>()) return rises(op->a, op->b);
    if (const auto* op = condition.as<LENode>()) return rises(op->a, op->b);
    if (const auto* op = condition.as<GTNode>()) return rises(op->b, op->a);
    if (const auto* op = condition.as<GENode>()) return rises(op->b, op->a);
    return false;
  }

  PrimExpr AtFirstLane(const PrimExpr& e) const {
    PostOrderVisit(e, [&](const ObjectRef& node) {
      if (lets_.count(node.get()) != 0) throw NoVectorForm();
    });
    Map<Var, PrimExpr> vmap;
    vmap.Set(var_, min_);
    return Substitute(e, vmap);
  }

  template <typename F>
  auto UnderMask(const PrimExpr& condition, F&& f) -> decltype(f()) {
    PrimExpr outer = mask_;
    mask_ = outer.defined() ? PrimExpr(And(outer, condition)) : condition;
    Forget();
    auto result = f();
    mask_ = outer;
    Forget();
    return result;
  }

  PrimExpr Conditional(const CallNode* op) {
    PrimExpr condition = VisitExpr(op->args[0]);
    if (condition.dtype().is_scalar()) {
      PrimExpr yes = VisitExpr(op->args[1]), no = VisitExpr(op->args[2]);
      const int lanes = std::max(yes.dtype().lanes(), no.dtype().lanes());
      if (condition.same_as(op->args[0]) && yes.same_as(op->args[1]) && no.same_as(op->args[2])) {
        return GetRef<PrimExpr>(op);
      }
      return Call(op->dtype.with_lanes(lanes), op->op, {condition, ToLanes(yes, lanes), ToLanes(no, lanes)});
    }
    condition = TakeOffLikely(condition);
    const bool outer_falls = std::exchange(falls_, false);
    PrimExpr yes = UnderMask(condition, [&] { return VisitExpr(op->args[1]); });
    PrimExpr no = UnderMask(Not(condition), [&] { return VisitExpr(op->args[2]); });
    falls_ = outer_falls;
    yes = ToLanes(yes, lanes_);
    no = ToLanes(no, lanes_);
    // masked_load(x, condition, 0) with 0 otherwise is the whole of it.
    if (const auto* load = yes.as<CallNode>();
        load && !mask_.defined() && IsCallTo(load, "tir.masked_load") && load->args[1].same_as(condition)) {
      if (is_zero(no) || no.as<BroadcastNode>()) {
        return Call(load->dtype, load->op, {load->args[0], condition, no});
      }
    }
    return Select(condition, yes, no);
  }

  Stmt Serial(const Stmt& stmt) const {
    // Variables that were given vector form are scalars here.
    Var lane(var_->name_hint, var_.dtype());
    Map<Var, PrimExpr> vmap;
    vmap.Set(var_, lane);
    if (!lets_.empty()) {
      bool uses = false;
      PostOrderVisit(stmt, [&](const ObjectRef& node) { uses = uses || lets_.count(node.get()) != 0; });
      if (uses) throw NoVectorForm();
    }
    return For(lane, min_, make_const(var_.dtype(), lanes_), ForKind::kSerial, Substitute(stmt, vmap));
  }

  Var var_;
  PrimExpr min_;
  int lanes_;
  PrimExpr ramp_;
  PrimExpr mask_;            ///< lanes that are active; null: all
  bool falls_ = true;        ///< whether a statement can be guarded: the first lane is active where any is
  bool reads_once_ = false;  ///< whether the statement under the mask reads what is the same for all lanes
  std::unordered_map<const Object*, PrimExpr> lets_;
};

class LoopVectorizer : public StmtExprMutator {
 public:
  explicit LoopVectorizer(bool disabled) : disabled_(disabled) {}
  Stmt Run(const Stmt& body) { return VisitStmt(body); }

 protected:
  using StmtExprMutator::VisitStmt_;
  PrimExpr VisitExpr(const PrimExpr& e) override { return e; }

  Stmt VisitStmt_(const ForNode* op) override {
    Stmt stmt = StmtExprMutator::VisitStmt_(op);  // inner loops first
    const auto* loop = stmt.as<ForNode>();
    if (loop == nullptr || loop->kind != ForKind::kVectorized) return stmt;
    Stmt serial = For(loop->loop_var, loop->min, loop->extent, ForKind::kSerial, loop->body, IterVar(),
                      loop->annotations, loop->span);
    const int64_t* extent = AsConstInt(loop->extent);
    if (disabled_ || extent == nullptr || *extent < 1 || *extent > kMaxLanes) return serial;
    if (*extent == 1) {
      Map<Var, PrimExpr> vmap;
      vmap.Set(loop->loop_var, loop->min);
      return Substitute(loop->body, vmap);
    }
    try {
      return Vectorizer(loop->loop_var, loop->min, static_cast<int>(*extent)).Rewrite(loop->body);
    } catch (const NoVectorForm&) {
      return serial;
    }
  }

 private:
  static constexpr int64_t kMaxLanes = 256;
  bool disabled_;
};

}  // namespace

PrimFunc VectorizeLoop(PrimFunc func, const LowerConfig& config) {
  Stmt body = LoopVectorizer(config.disable_vectorize).Run(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
