// SPDX-License-Identifier: Apache-2.0
// Types of the graph IR and of functions.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"

namespace treadle {

enum class TypeKind : int {
  kType = 0,
  kShapeVar = 1,
  kBaseType = 2,
  kConstraint = 4,
  kAdtHandle = 5,
  kTypeData = 6,
};

/// Type of a scalar in loop-level code.
class PrimTypeNode : public TypeNode {
 public:
  DataType dtype;
  TREADLE_DECLARE_NODE(PrimTypeNode, TypeNode, "PrimType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &PrimTypeNode::dtype);
  }
};
class PrimType : public Type {
 public:
  explicit PrimType(DataType dtype);
  TREADLE_REF(PrimType, Type, PrimTypeNode);
};

/// Pointer to `element_type` in memory of `storage_scope` ("" and "global" are the same).
class PointerTypeNode : public TypeNode {
 public:
  Type element_type;
  std::string storage_scope;
  TREADLE_DECLARE_NODE(PointerTypeNode, TypeNode, "PointerType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("element_type", &PointerTypeNode::element_type);
    r.Field("storage_scope", &PointerTypeNode::storage_scope);
  }
};
class PointerType : public Type {
 public:
  explicit PointerType(Type element_type, std::string storage_scope = "");
  TREADLE_REF(PointerType, Type, PointerTypeNode);
};

/// A tensor. Each dimension is an integer expression: a constant, or symbolic. `?` in texts is a fresh variable
/// made by AnyDim().
class TensorTypeNode : public TypeNode {
 public:
  Array<PrimExpr> shape;
  DataType dtype;
  TREADLE_DECLARE_NODE(TensorTypeNode, TypeNode, "relay.TensorType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("shape", &TensorTypeNode::shape);
    r.Field("dtype", &TensorTypeNode::dtype);
  }
};
class TensorType : public Type {
 public:
  TensorType(Array<PrimExpr> shape, DataType dtype, Span span = Span());
  /// Of constant dimensions (int64).
  TensorType(const std::vector<int64_t>& shape, DataType dtype);
  TREADLE_REF(TensorType, Type, TensorTypeNode);
  static TensorType Scalar(DataType dtype) { return TensorType(Array<PrimExpr>(), dtype); }
};

/// A fresh dimension about which nothing is known.
PrimExpr AnyDim();
/// Whether `dim` is a variable made by AnyDim().
bool IsAnyDim(const PrimExpr& dim);
/// Dimensions of a static shape; throws ShapeError that names `what` when one is symbolic.
std::vector<int64_t> StaticShape(const TensorTypeNode* type, const std::string& what);
/// Whether all dimensions are constants.
bool IsStatic(const TensorTypeNode* type);

class TypeVarNode : public TypeNode {
 public:
  std::string name_hint;
  TypeKind kind = TypeKind::kType;
  TREADLE_DECLARE_NODE(TypeVarNode, TypeNode, "relay.TypeVar");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name_hint", &TypeVarNode::name_hint).Ignored();
    r.Field("kind", &TypeVarNode::kind);
  }
};
class TypeVar : public Type {
 public:
  explicit TypeVar(std::string name_hint, TypeKind kind = TypeKind::kType, Span span = Span());
  TREADLE_REF(TypeVar, Type, TypeVarNode);
};

/// Name of an algebraic data type.
class GlobalTypeVarNode : public TypeNode {
 public:
  std::string name_hint;
  TypeKind kind = TypeKind::kAdtHandle;
  TREADLE_DECLARE_NODE(GlobalTypeVarNode, TypeNode, "relay.GlobalTypeVar");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name_hint", &GlobalTypeVarNode::name_hint);
    r.Field("kind", &GlobalTypeVarNode::kind);
  }
};
class GlobalTypeVar : public Type {
 public:
  explicit GlobalTypeVar(std::string name_hint, TypeKind kind = TypeKind::kAdtHandle, Span span = Span());
  TREADLE_REF(GlobalTypeVar, Type, GlobalTypeVarNode);
};

class TupleTypeNode : public TypeNode {
 public:
  Array<Type> fields;
  TREADLE_DECLARE_NODE(TupleTypeNode, TypeNode, "TupleType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("fields", &TupleTypeNode::fields);
  }
};
class TupleType : public Type {
 public:
  explicit TupleType(Array<Type> fields, Span span = Span());
  TREADLE_REF(TupleType, Type, TupleTypeNode);
};

/// A constraint between types; the only one is TypeRelation.
class TypeConstraintNode : public TypeNode {
 public:
  TREADLE_DECLARE_NODE(TypeConstraintNode, TypeNode, "TypeConstraint");
};
class TypeConstraint : public Type {
 public:
  TREADLE_BASE_REF(TypeConstraint, Type, TypeConstraintNode);
};

class FuncTypeNode : public TypeNode {
 public:
  Array<TypeVar> type_params;
  Array<Type> arg_types;
  Type ret_type;
  Array<TypeConstraint> type_constraints;
  TREADLE_DECLARE_NODE(FuncTypeNode, TypeNode, "FuncType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("type_params", &FuncTypeNode::type_params).Defines();
    r.Field("arg_types", &FuncTypeNode::arg_types);
    r.Field("ret_type", &FuncTypeNode::ret_type);
    r.Field("type_constraints", &FuncTypeNode::type_constraints);
  }
};
class FuncType : public Type {
 public:
  FuncType(Array<Type> arg_types, Type ret_type, Array<TypeVar> type_params = {},
           Array<TypeConstraint> type_constraints = {}, Span span = Span());
  TREADLE_REF(FuncType, Type, FuncTypeNode);
};

/// Application of a type constructor: `List[A]`.
class TypeCallNode : public TypeNode {
 public:
  Type func;
  Array<Type> args;
  TREADLE_DECLARE_NODE(TypeCallNode, TypeNode, "relay.TypeCall");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("func", &TypeCallNode::func);
    r.Field("args", &TypeCallNode::args);
  }
};
class TypeCall : public Type {
 public:
  TypeCall(Type func, Array<Type> args, Span span = Span());
  TREADLE_REF(TypeCall, Type, TypeCallNode);
};

/// Mutable cell.
class RelayRefTypeNode : public TypeNode {
 public:
  Type value;
  TREADLE_DECLARE_NODE(RelayRefTypeNode, TypeNode, "relay.RefType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &RelayRefTypeNode::value);
  }
};
class RelayRefType : public Type {
 public:
  explicit RelayRefType(Type value, Span span = Span());
  TREADLE_REF(RelayRefType, Type, RelayRefTypeNode);
};

/// A hole that unification fills. Identity is the object.
class IncompleteTypeNode : public TypeNode {
 public:
  TypeKind kind = TypeKind::kType;
  TREADLE_DECLARE_NODE(IncompleteTypeNode, TypeNode, "IncompleteType");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("kind", &IncompleteTypeNode::kind);
  }
};
class IncompleteType : public Type {
 public:
  explicit IncompleteType(TypeKind kind, Span span = Span());
  TREADLE_REF(IncompleteType, Type, IncompleteTypeNode);
};

/// What a type relation uses to constrain types and to report.
class TypeReporter {
 public:
  virtual ~TypeReporter() = default;
  /// Unifies `dst` with `src`; a mismatch is reported at the current span.
  virtual void Assign(const Type& dst, const Type& src) = 0;
  /// Whether two dimensions are equal as far as can be known; unifies symbolic ones.
  virtual bool AssertEqual(const PrimExpr& lhs, const PrimExpr& rhs) = 0;
  /// Reports an error at the current span, with the operator's name in front.
  virtual void Error(const std::string& message) = 0;
};

/// Relation of an operator over [argument types..., result type]. Returns false where too little is known yet:
/// it is asked again when one of the types becomes more precise. Problems go to `reporter.Error` (then returns
/// true). `num_inputs` types come first.
using TypeRelationFn = bool (*)(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter);

/// A pending constraint: `func` over `args`, the first `num_inputs` being inputs.
class TypeRelationNode : public TypeConstraintNode {
 public:
  std::string name;  ///< of the operator or relation
  TypeRelationFn func = nullptr;
  Array<Type> args;
  int num_inputs = 0;
  Attrs attrs;
  TREADLE_DECLARE_NODE(TypeRelationNode, TypeConstraintNode, "relay.TypeRelation");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name", &TypeRelationNode::name);
    r.Field("args", &TypeRelationNode::args);
    r.Field("num_inputs", &TypeRelationNode::num_inputs);
    r.Field("attrs", &TypeRelationNode::attrs);
  }
};
class TypeRelation : public TypeConstraint {
 public:
  TypeRelation(std::string name, TypeRelationFn func, Array<Type> args, int num_inputs, Attrs attrs,
               Span span = Span());
  TREADLE_REF(TypeRelation, TypeConstraint, TypeRelationNode);
};

}  // namespace treadle
