// SPDX-License-Identifier: Apache-2.0
// Unification of types (Robinson's algorithm) with holes bound in place, and of symbolic dimensions.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "treadle/ir/module.h"
#include "treadle/ir/prim_expr.h"
#include "treadle/ir/type.h"

namespace treadle::relay {

class Unifier {
 public:
  /// Called when a hole is bound.
  std::function<void(const Object* hole)> on_bound;
  /// Called with the constraints of a polymorphic function that is used at a type which isn't.
  std::function<void(const TypeConstraint& constraint)> on_constraint;

  /// The first of two types is what there is, the second what is expected: for messages.
  bool actual_first = false;

  Type NewHole(const Span& span = Span()) { return IncompleteType(TypeKind::kType, span); }

  /// Follows the bindings of holes at the top of `type`.
  Type Resolve(Type type) const;
  /// Replaces all bound holes and instantiated dimensions.
  Type Substitute(const Type& type) const;
  /// Whether a hole that isn't bound occurs.
  bool HasHole(const Type& type) const;
  /// Appends the unbound holes in `type`.
  void CollectHoles(const Type& type, std::vector<const Object*>* holes) const;

  /// The most specific type that both stand for; null when there is none: `why` says which parts differ.
  Type Unify(const Type& a, const Type& b, std::string* why);
  /// As for dimensions; null on failure.
  PrimExpr UnifyDim(const PrimExpr& a, const PrimExpr& b);

  /// The dimension with what is known about its variables put in.
  PrimExpr ResolveDim(const PrimExpr& dim) const;

  /// A copy of the type with type parameters replaced by holes (appended to `type_args`) and constraints kept.
  FuncType Instantiate(const FuncType& type, Array<Type>* type_args, const Span& span);
  /// A copy with fresh symbolic dimensions that a caller's shapes bind. For calls of global functions.
  Type FreshenDims(const Type& type);

  /// How many parts the type has when written out, shared ones counted each time; at most kMaxParts.
  int64_t CountParts(const Type& type) const { return PartsOf(type).count; }
  static constexpr int64_t kMaxParts = int64_t{1} << 20;

 private:
  struct Parts {
    int64_t count;
    bool settled;  ///< nothing in it will ever be replaced
  };
  Parts PartsOf(const Type& type) const;
  Parts CountPartsOf(const Type& type) const;
  Type UnifyResolved(const Type& a, const Type& b, std::string* why);
  Type UnifyTensor(const TensorType& a, const TensorType& b, std::string* why);
  Type UnifyFunc(const FuncType& a, const FuncType& b, std::string* why);
  bool UnifyList(const Array<Type>& a, const Array<Type>& b, Array<Type>* result, std::string* why);
  bool Occurs(const Object* hole, const Type& type) const;
  std::string Mismatch(const Type& a, const Type& b) const;

  std::unordered_map<const Object*, Type> holes_;
  std::unordered_map<const Object*, PrimExpr> dims_;  ///< what variables are known to be
  std::unordered_set<const Object*> flexible_;        ///< dimensions made by FreshenDims
  std::vector<ObjectRef> keep_alive_;
  mutable std::unordered_map<const Object*, std::pair<Type, Parts>> parts_;  ///< of types that aren't leaves
};

/// A copy of the type of a function with type parameters of its own, so that it may be used where those of the
/// function itself are in scope.
FuncType WithFreshTypeParams(const FuncType& type);
/// Replaces type variables.
Type SubstituteTypeVars(const Type& type, const std::unordered_map<const Object*, Type>& values);
/// Rewrites `type` bottom-up: `leaf` may replace holes, type variables and dimensions (null: keep).
Type RewriteType(const Type& type, const std::function<Type(const Type&)>& leaf,
                 const std::function<PrimExpr(const PrimExpr&)>& dim);

}  // namespace treadle::relay
