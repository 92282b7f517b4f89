// SPDX-License-Identifier: Apache-2.0
// Arithmetic on float16 and bfloat16 becomes arithmetic on float32, rounded where its result is stored or is an operand
// of something else. What lies between operations of one expression isn't rounded, as C allows (FLT_EVAL_METHOD): that
// is faster and nearer to the exact result.
#include "tir/passes/pass_util.h"

namespace treadle::tir {
namespace {

class NarrowFloatLegalizer : public FoldingMutator {
 protected:
  using FoldingMutator::VisitExpr_;

  static bool IsNarrow(DataType t) { return t.is_float16() || t.is_bfloat16(); }
  static PrimExpr Wide(const PrimExpr& e) {
    const DataType wide = DataType::Float(32, e.dtype().lanes());
    const auto* rounded = e.as<CastNode>();
    return rounded != nullptr && rounded->value.dtype() == wide ? rounded->value : PrimExpr(Cast(wide, e));
  }

  /// `op` of `a` and `b` widened; the result is narrow again unless it is a truth value.
  template <typename Ref, typename Node>
  PrimExpr Binary(const Node* op) {
    PrimExpr a = VisitExpr(op->a), b = VisitExpr(op->b);
    const DataType t = a.dtype();
    if (!IsNarrow(t)) return a.same_as(op->a) && b.same_as(op->b) ? GetRef<PrimExpr>(op) : PrimExpr(Ref(a, b));
    PrimExpr wide = Ref(Wide(a), Wide(b));
    return wide.dtype().is_bool() ? wide : PrimExpr(Cast(t, wide));
  }
#define TREADLE_WIDEN(Name) \
  PrimExpr VisitExpr_(const Name##Node* op) override { return Binary<Name>(op); }
  TREADLE_WIDEN(Add)
  TREADLE_WIDEN(Sub)
  TREADLE_WIDEN(Mul)
  TREADLE_WIDEN(Div)
  TREADLE_WIDEN(Min)
  TREADLE_WIDEN(Max)
  TREADLE_WIDEN(EQ)
  TREADLE_WIDEN(NE)
  TREADLE_WIDEN(LT)
  TREADLE_WIDEN(LE)
  TREADLE_WIDEN(GT)
  TREADLE_WIDEN(GE)
#undef TREADLE_WIDEN
};

}  // namespace

PrimFunc LegalizeNarrowFloat(PrimFunc func, const LowerConfig& config) {
  if (config.native_float16) return func;
  Stmt body = NarrowFloatLegalizer().Rewrite(func->body);
  return WithBody(std::move(func), body);
}

}  // namespace treadle::tir
