// SPDX-License-Identifier: Apache-2.0
#include "tir/passes/narrow_types.h"

#include <unordered_map>

#include "tir/passes/pass_util.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/stack_guard.h"

namespace treadle::tir {
namespace {

class TypeNarrower : public StmtExprMutator {
 public:
  explicit TypeNarrower(int bits) : bits_(bits) {}

 protected:
  using StmtExprMutator::VisitExpr_;
  using StmtExprMutator::VisitStmt_;

  /// Where a narrow loop variable is read as a value of its old type, it is cast.
  PrimExpr VisitExpr_(const VarNode* op) override {
    auto it = narrow_.find(op);
    return it == narrow_.end() ? GetRef<PrimExpr>(op) : Cast(op->dtype, it->second);
  }
  PrimExpr VisitExpr_(const CastNode* op) override {
    const PrimExpr value = IsWide(op->value) ? Narrow(op->value) : None();
    if (!value.defined()) return StmtExprMutator::VisitExpr_(op);
    return value.dtype() == op->dtype ? value : PrimExpr(Cast(op->dtype, value));
  }
  PrimExpr VisitExpr_(const BufferLoadNode* op) override {
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return Index(e); });
    return indices.same_as(op->indices) ? GetRef<PrimExpr>(op) : BufferLoad(op->buffer, indices, op->span);
  }
  Stmt VisitStmt_(const BufferStoreNode* op) override {
    PrimExpr value = VisitExpr(op->value);
    Array<PrimExpr> indices = op->indices.Map([this](const PrimExpr& e) { return Index(e); });
    if (value.same_as(op->value) && indices.same_as(op->indices)) return GetRef<Stmt>(op);
    return BufferStore(op->buffer, value, indices, op->span);
  }
  Stmt VisitStmt_(const ForNode* op) override {
    analyzer_.Bind(op->loop_var, Range::FromMinExtent(op->min, op->extent));
    const PrimExpr low = Narrow(op->min), extent = Narrow(op->extent);
    const bool narrow = IsWide(op->loop_var) && !op->thread_binding.defined() && low.defined() && extent.defined() &&
                        Fits(op->loop_var) && Fits(op->min + op->extent);
    if (!narrow) return StmtExprMutator::VisitStmt_(op);
    const Var var(op->loop_var->name_hint, DataType::Int(bits_));
    narrow_[op->loop_var.get()] = var;
    return For(var, low, extent, op->kind, VisitStmt(op->body), op->thread_binding, op->annotations, op->span);
  }
#define TREADLE_NARROW_COMPARISON(Node, Make)                                                   \
  PrimExpr VisitExpr_(const Node* op) override {                                                \
    if (!IsWide(op->a)) return StmtExprMutator::VisitExpr_(op);                                 \
    const PrimExpr a = Narrow(op->a), b = Narrow(op->b);                                        \
    return a.defined() && b.defined() ? PrimExpr(Make(a, b)) : StmtExprMutator::VisitExpr_(op); \
  }
  TREADLE_NARROW_COMPARISON(EQNode, EQ)
  TREADLE_NARROW_COMPARISON(NENode, NE)
  TREADLE_NARROW_COMPARISON(LTNode, LT)
  TREADLE_NARROW_COMPARISON(LENode, LE)
  TREADLE_NARROW_COMPARISON(GTNode, GT)
  TREADLE_NARROW_COMPARISON(GENode, GE)
#undef TREADLE_NARROW_COMPARISON

 private:
  static PrimExpr None() { return PrimExpr(ObjectPtr<Object>()); }
  bool IsWide(const PrimExpr& e) const { return e.dtype().is_int() && e.dtype().bits() > bits_; }
  bool Fits(const PrimExpr& e) {
    const arith::ConstIntBound bound = analyzer_.Bound(e);
    const int64_t largest = (int64_t{1} << (bits_ - 1)) - 1;
    return bound.is_finite() && bound.min >= -largest - 1 && bound.max <= largest;
  }
  PrimExpr Index(const PrimExpr& e) {
    const PrimExpr narrow = Narrow(e);
    return narrow.defined() ? narrow : VisitExpr(e);
  }

  /// `e` in `bits_`, or null where a value within it might not fit or comes from memory. What isn't wider stays.
  PrimExpr Narrow(const PrimExpr& e) {
    if (!e.dtype().is_int() || e.dtype().bits() < bits_) return None();
    if (!IsWide(e)) return VisitExpr(e);
    return WithEnoughStack([&] { return NarrowWide(e); });
  }
  PrimExpr NarrowWide(const PrimExpr& e) {
    const PrimExpr no = None();
    if (const auto* ramp = e.as<RampNode>()) {
      const PrimExpr base = Narrow(ramp->base), stride = Narrow(ramp->stride);
      const PrimExpr last = ramp->base + ramp->stride * make_const(ramp->stride.dtype(), ramp->lanes - 1);
      return base.defined() && stride.defined() && Fits(last) ? Ramp(base, stride, ramp->lanes) : no;
    }
    if (const auto* broadcast = e.as<BroadcastNode>()) {
      const PrimExpr value = Narrow(broadcast->value);
      return value.defined() ? Broadcast(value, broadcast->lanes) : no;
    }
    if (e.dtype().lanes() != 1) return no;
    if (const auto* var = e.as<VarNode>()) {
      auto it = narrow_.find(var);
      return it == narrow_.end() ? no : PrimExpr(it->second);
    }
    if (!Fits(e)) return no;
    const DataType dtype = DataType::Int(bits_);
    if (const auto* number = e.as<IntImmNode>()) return IntImm(dtype, number->value);
    if (const auto* cast = e.as<CastNode>()) {
      if (!cast->value.dtype().is_int() && !cast->value.dtype().is_uint()) return no;
      const PrimExpr value = IsWide(cast->value) ? Narrow(cast->value) : VisitExpr(cast->value);
      return !value.defined() ? no : value.dtype() == dtype ? value : PrimExpr(Cast(dtype, value));
    }
    if (const auto* select = e.as<SelectNode>()) {
      const PrimExpr a = Narrow(select->true_value), b = Narrow(select->false_value);
      return a.defined() && b.defined() ? PrimExpr(Select(VisitExpr(select->condition), a, b)) : no;
    }
    return NarrowBinary(e);
  }
  PrimExpr NarrowBinary(const PrimExpr& e) {
#define TREADLE_NARROW_BINARY(Node, Make)                    \
  if (const auto* op = e.as<Node>()) {                       \
    const PrimExpr a = Narrow(op->a);                        \
    const PrimExpr b = a.defined() ? Narrow(op->b) : None(); \
    return b.defined() ? PrimExpr(Make(a, b)) : None();      \
  }
    TREADLE_NARROW_BINARY(AddNode, Add)
    TREADLE_NARROW_BINARY(SubNode, Sub)
    TREADLE_NARROW_BINARY(MulNode, Mul)
    TREADLE_NARROW_BINARY(DivNode, Div)
    TREADLE_NARROW_BINARY(ModNode, Mod)
    TREADLE_NARROW_BINARY(FloorDivNode, FloorDiv)
    TREADLE_NARROW_BINARY(FloorModNode, FloorMod)
    TREADLE_NARROW_BINARY(MinNode, Min)
    TREADLE_NARROW_BINARY(MaxNode, Max)
#undef TREADLE_NARROW_BINARY
    return None();
  }

  int bits_;
  arith::Analyzer analyzer_;
  std::unordered_map<const VarNode*, Var> narrow_;  ///< of a wide loop variable, the one that takes its place
};

}  // namespace

PrimFunc NarrowIndexTypes(PrimFunc func, int bits) {
  if (bits != 8 && bits != 16 && bits != 32) {
    throw Error(StrCat("NarrowDataType: ", bits, " bits; expected 8, 16 or 32"));
  }
  Stmt body = TypeNarrower(bits)(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
