// SPDX-License-Identifier: Apache-2.0
// Dispatch, visiting and rewriting of scalar expressions.
#pragma once

#include <utility>

#include "treadle/base/stack_guard.h"
#include "treadle/ir/functor.h"
#include "treadle/ir/prim_expr.h"

namespace treadle::tir {
// clang-format off
#define TREADLE_PRIM_EXPR_KINDS(X)                                                                                    \
  X(VarNode)                                                                                                          \
  X(IntImmNode)                                                                                                       \
  X(FloatImmNode) X(StringImmNode) X(CastNode) X(AddNode) X(SubNode) X(MulNode) X(DivNode) X(ModNode) X(FloorDivNode) \
      X(FloorModNode) X(MinNode) X(MaxNode) X(EQNode) X(NENode) X(LTNode) X(LENode) X(GTNode) X(GENode) X(AndNode)    \
          X(OrNode) X(NotNode) X(SelectNode) X(RampNode) X(BroadcastNode) X(ShuffleNode) X(LetNode) X(CallNode)       \
              X(BufferLoadNode) X(ProducerLoadNode) X(ReduceNode) X(IterVarNode)
// clang-format on
template <typename FType>
class ExprFunctor;

template <typename R, typename... Args>
class ExprFunctor<R(const PrimExpr& n, Args...)> {
 public:
  virtual ~ExprFunctor() = default;
  R operator()(const PrimExpr& n, Args... args) { return VisitExpr(n, std::forward<Args>(args)...); }
  virtual R VisitExpr(const PrimExpr& n, Args... args) {
    TREADLE_ICHECK(n.defined()) << "null expression";
    static const FType table = MakeTable();
    return WithEnoughStack([&]() -> R { return table(n, this, std::forward<Args>(args)...); });
  }
#define TREADLE_DECLARE_VISIT(Node) \
  virtual R VisitExpr_(const Node* op, Args... args) { return VisitExprDefault_(op, std::forward<Args>(args)...); }
  TREADLE_PRIM_EXPR_KINDS(TREADLE_DECLARE_VISIT)
#undef TREADLE_DECLARE_VISIT
  virtual R VisitExprDefault_(const Object* op, Args...) {
    throw InternalError(StrCat("internal error: functor doesn't handle expression kind ", op->type_key()));
  }

 private:
  using Self = ExprFunctor<R(const PrimExpr& n, Args...)>;
  using FType = NodeFunctor<R(const ObjectRef& n, Self* self, Args...)>;
  static FType MakeTable() {
    FType table;
#define TREADLE_SET_DISPATCH(Node)                                                           \
  table.template set_dispatch<Node>([](const ObjectRef& n, Self* self, Args... args) {       \
    return self->VisitExpr_(static_cast<const Node*>(n.get()), std::forward<Args>(args)...); \
  });
    TREADLE_PRIM_EXPR_KINDS(TREADLE_SET_DISPATCH)
#undef TREADLE_SET_DISPATCH
    return table;
  }
};

extern template class ExprFunctor<void(const PrimExpr&)>;
extern template class ExprFunctor<PrimExpr(const PrimExpr&)>;

class ExprVisitor : public ExprFunctor<void(const PrimExpr&)> {
 protected:
#define TREADLE_OVERRIDE_VISIT(Node) void VisitExpr_(const Node* op) override;
  TREADLE_PRIM_EXPR_KINDS(TREADLE_OVERRIDE_VISIT)
#undef TREADLE_OVERRIDE_VISIT
};

/// Returns the identical object where nothing changed.
class ExprMutator : public ExprFunctor<PrimExpr(const PrimExpr&)> {
 protected:
#define TREADLE_OVERRIDE_VISIT(Node) PrimExpr VisitExpr_(const Node* op) override;
  TREADLE_PRIM_EXPR_KINDS(TREADLE_OVERRIDE_VISIT)
#undef TREADLE_OVERRIDE_VISIT
};

}  // namespace treadle::tir
