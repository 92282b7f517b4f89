// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/pattern_functor.h"

namespace treadle::relay {

void PatternVisitor::VisitPattern_(const PatternWildcardNode*) {}
void PatternVisitor::VisitPattern_(const PatternVarNode* op) { VisitVar(op->var); }
void PatternVisitor::VisitPattern_(const PatternConstructorNode* op) {
  VisitConstructor(op->constructor);
  for (const Pattern& pattern : op->patterns) VisitPattern(pattern);
}
void PatternVisitor::VisitPattern_(const PatternTupleNode* op) {
  for (const Pattern& pattern : op->patterns) VisitPattern(pattern);
}
void PatternVisitor::VisitVar(const Var& var) {
  if (var->type_annotation.defined()) VisitType(var->type_annotation);
}
void PatternVisitor::VisitConstructor(const Constructor& constructor) {
  for (const Type& type : constructor->inputs) VisitType(type);
}
void PatternVisitor::VisitType(const Type&) {}

Pattern PatternMutator::VisitPattern_(const PatternWildcardNode* op) { return GetRef<Pattern>(op); }
Pattern PatternMutator::VisitPattern_(const PatternVarNode* op) {
  auto known = vars_.find(op->var->vid.get());
  Var var = known != vars_.end() ? known->second : VisitVar(op->var);
  vars_[op->var->vid.get()] = var;
  return var.same_as(op->var) ? GetRef<Pattern>(op) : PatternVar(var, op->span);
}
Pattern PatternMutator::VisitPattern_(const PatternConstructorNode* op) {
  Constructor constructor = VisitConstructor(op->constructor);
  auto patterns = op->patterns.Map([this](const Pattern& pattern) { return VisitPattern(pattern); });
  if (constructor.same_as(op->constructor) && patterns.same_as(op->patterns)) return GetRef<Pattern>(op);
  return PatternConstructor(constructor, patterns, op->span);
}
Pattern PatternMutator::VisitPattern_(const PatternTupleNode* op) {
  auto patterns = op->patterns.Map([this](const Pattern& pattern) { return VisitPattern(pattern); });
  return patterns.same_as(op->patterns) ? GetRef<Pattern>(op) : PatternTuple(patterns, op->span);
}
Var PatternMutator::VisitVar(const Var& var) {
  if (!var->type_annotation.defined()) return var;
  Type type = VisitType(var->type_annotation);
  return type.same_as(var->type_annotation) ? var : Var(var->vid, type, var->span);
}
Constructor PatternMutator::VisitConstructor(const Constructor& constructor) { return constructor; }
Type PatternMutator::VisitType(const Type& type) { return type; }

}  // namespace treadle::relay
