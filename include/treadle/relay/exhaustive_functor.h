// SPDX-License-Identifier: Apache-2.0
// ExprFunctor for functors that must know every kind of node.
#pragma once

#include "treadle/relay/expr_functor.h"

namespace treadle::relay {

template <typename FType>
class ExhaustiveExprFunctor;

/// As ExprFunctor, but the compiler refuses to make an object of a subclass that lacks a kind: none has a default.
template <typename R, typename... Args>
class ExhaustiveExprFunctor<R(const Expr& n, Args...)> : public ExprFunctor<R(const Expr& n, Args...)> {
 public:
#define TREADLE_REQUIRE_VISIT(Node) R VisitExpr_(const Node* op, Args... args) override = 0;
  TREADLE_RELAY_EXPR_KINDS(TREADLE_REQUIRE_VISIT)
#undef TREADLE_REQUIRE_VISIT
};

}  // namespace treadle::relay
