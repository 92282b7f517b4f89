// SPDX-License-Identifier: Apache-2.0
// Dispatch, visiting and rewriting of the patterns of match clauses. Patterns of any depth are walked: see
// expr_functor.h.
#pragma once

#include <unordered_map>
#include <utility>

#include "treadle/base/stack_guard.h"
#include "treadle/ir/functor.h"
#include "treadle/relay/expr.h"

namespace treadle::relay {

template <typename FType>
class PatternFunctor;

/// The kinds of patterns, in one list.
#define TREADLE_RELAY_PATTERN_KINDS(X) \
  X(PatternWildcardNode) X(PatternVarNode) X(PatternConstructorNode) X(PatternTupleNode)

template <typename R, typename... Args>
class PatternFunctor<R(const Pattern& n, Args...)> {
 public:
  virtual ~PatternFunctor() = default;
  R operator()(const Pattern& n, Args... args) { return VisitPattern(n, std::forward<Args>(args)...); }

  virtual R VisitPattern(const Pattern& n, Args... args) {
    TREADLE_ICHECK(n.defined()) << "null pattern: a pass before this one may have produced invalid IR";
    static const FType table = MakeTable();
    return WithEnoughStack([&]() -> R { return table(n, this, std::forward<Args>(args)...); });
  }

#define TREADLE_DECLARE_VISIT(Node)                               \
  virtual R VisitPattern_(const Node* op, Args... args) {         \
    return VisitPatternDefault_(op, std::forward<Args>(args)...); \
  }
  TREADLE_RELAY_PATTERN_KINDS(TREADLE_DECLARE_VISIT)
#undef TREADLE_DECLARE_VISIT

  /// Called for kinds that the subclass doesn't handle: throws an InternalError that names the kind.
  virtual R VisitPatternDefault_(const Object* op, Args...) {
    throw InternalError(StrCat("internal error: functor doesn't handle node kind ", op->type_key()));
  }

 private:
  using Self = PatternFunctor<R(const Pattern& n, Args...)>;
  using FType = NodeFunctor<R(const ObjectRef& n, Self* self, Args...)>;

  static FType MakeTable() {
    FType table;
#define TREADLE_SET_DISPATCH(Node)                                                              \
  table.template set_dispatch<Node>([](const ObjectRef& n, Self* self, Args... args) {          \
    return self->VisitPattern_(static_cast<const Node*>(n.get()), std::forward<Args>(args)...); \
  });
    TREADLE_RELAY_PATTERN_KINDS(TREADLE_SET_DISPATCH)
#undef TREADLE_SET_DISPATCH
    return table;
  }
};

/// Visits a pattern and what it consists of.
class PatternVisitor : public PatternFunctor<void(const Pattern& n)> {
 public:
  void VisitPattern_(const PatternWildcardNode* op) override;
  void VisitPattern_(const PatternVarNode* op) override;
  void VisitPattern_(const PatternConstructorNode* op) override;
  void VisitPattern_(const PatternTupleNode* op) override;
  virtual void VisitVar(const Var& var);
  virtual void VisitConstructor(const Constructor& constructor);
  virtual void VisitType(const Type& type);
};

/// Rewrites a pattern; an unchanged one is returned as the identical object. A variable that occurs several times is
/// rewritten once.
class PatternMutator : public PatternFunctor<Pattern(const Pattern& n)> {
 public:
  Pattern Mutate(const Pattern& pattern) { return VisitPattern(pattern); }
  Pattern VisitPattern_(const PatternWildcardNode* op) override;
  Pattern VisitPattern_(const PatternVarNode* op) override;
  Pattern VisitPattern_(const PatternConstructorNode* op) override;
  Pattern VisitPattern_(const PatternTupleNode* op) override;
  /// Only the annotation may change by default.
  virtual Var VisitVar(const Var& var);
  virtual Constructor VisitConstructor(const Constructor& constructor);
  virtual Type VisitType(const Type& type);

 private:
  std::unordered_map<const Object*, Var> vars_;
};

}  // namespace treadle::relay
