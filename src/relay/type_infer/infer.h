// SPDX-License-Identifier: Apache-2.0
// Inference of one function or expression: a walk that collects constraints and solves them as it goes, then a
// rewrite that attaches the types.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/diagnostic.h"
#include "relay/type_infer/unifier.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"

namespace treadle::relay {

/// The definition of a data type; null where the module has none.
TypeData LookupTypeData(const IRModule& module, const GlobalTypeVar& header);

/// Types of global functions, inferred on demand.
class GlobalTypes {
 public:
  virtual ~GlobalTypes() = default;
  /// The function's type; null when the module doesn't have it or its type can't be known.
  virtual Type TypeOf(const GlobalVar& var) = 0;
};

class Inferencer {
 public:
  Inferencer(IRModule module, GlobalTypes* globals, Diagnostics* diagnostics);

  /// Infers and returns the typed expression; unchanged where it was typed like that already. After errors the
  /// result is null.
  Expr Run(const Expr& expr);

 private:
  friend class Reporter;
  friend class TypeAttacher;

  /// A relation that waits for types.
  struct Constraint {
    std::string name;  ///< for messages
    Span span;
    std::function<bool(Constraint*)> solve;  ///< false: not enough known yet
    Array<Type> args;
    int num_inputs = 0;
    TypeRelationFn relation = nullptr;
    Attrs attrs;
    bool done = false;
  };

  Type Visit(const Expr& expr);
  Type VisitDataFlow(const Expr& root);
  Type Compute(const Expr& expr);
  /// Computes the type of a node whose children are known, and keeps it.
  Type Finish(const Expr& expr);
  Type ComputeCall(const CallNode* call);
  Type ComputeOpCall(const CallNode* call, const OpNode* op);
  Type Apply(const CallNode* call, const Type& callee, const Array<Type>& args);
  Type ComputeFunction(const FunctionNode* func);
  Type ComputeLet(const LetNode* let);
  Type ComputeIf(const IfNode* branch);
  Type ComputeMatch(const MatchNode* match);
  Type ComputeTupleGetItem(const TupleGetItemNode* item);
  Type ComputeRef(const Expr& expr);
  Type ComputeConstructor(const ConstructorNode* constructor);
  Type ComputeOp(const OpNode* op);
  Type TypeOfVar(const Var& var);
  void VisitPattern(const Pattern& pattern, const Type& type);
  /// Reports type names that don't exist or are applied to the wrong number of arguments.
  void CheckAnnotation(const Type& type, const Span& span);

  /// Unifies; a mismatch is reported as "`context`: ...".
  Type Unify(const Type& expected, const Type& actual, const Span& span, const std::string& context);
  void AddRelation(const std::string& name, TypeRelationFn relation, Array<Type> args, int num_inputs,
                   const Attrs& attrs, const Span& span);
  void AddConstraint(std::unique_ptr<Constraint> constraint);
  void Solve();
  bool SolveRelation(Constraint* constraint);
  void ReportUnsolved();
  void CheckMatches();

  IRModule module_;
  GlobalTypes* globals_;
  Diagnostics* diagnostics_;
  Unifier unifier_;
  std::unordered_map<const Object*, Type> types_;  ///< of nodes; of variables by their identity
  std::vector<Expr> order_;                        ///< nodes as they were typed
  std::unordered_map<const Object*, Array<Type>> type_args_;
  std::vector<std::unique_ptr<Constraint>> constraints_;
  std::unordered_map<const Object*, std::vector<size_t>> waiting_;  ///< hole -> constraints
  std::deque<size_t> queue_;
  bool solving_ = false;
  std::vector<Match> matches_;
  std::unordered_map<const Object*, Type> results_;  ///< of functions
  Span unify_span_;                                  ///< of what is being unified
  Span place_;                                       ///< of the expression that contains an operator as a value
};

/// Whether two types are structurally equal, with a fast path for tensors.
bool SameType(const Type& a, const Type& b);

}  // namespace treadle::relay
