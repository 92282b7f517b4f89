// SPDX-License-Identifier: Apache-2.0
// Roots of the expression classes: scalar expressions (PrimExpr) of all loop-level code and shapes, and
// expressions of the graph IR (RelayExpr).
#pragma once

#include <string>

#include "treadle/ir/span.h"
#include "treadle/runtime/container.h"
#include "treadle/runtime/data_type.h"

namespace treadle {

class BaseExprNode : public Object {
 public:
  Span span;  ///< may be null
  TREADLE_DECLARE_NODE(BaseExprNode, Object, "BaseExpr");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("span", &BaseExprNode::span).Ignored();
  }
};

class BaseExpr : public ObjectRef {
 public:
  TREADLE_BASE_REF(BaseExpr, ObjectRef, BaseExprNode);
};

/// A scalar (or short vector) computed in a register.
class PrimExprNode : public BaseExprNode {
 public:
  DataType dtype;
  TREADLE_DECLARE_NODE(PrimExprNode, BaseExprNode, "PrimExpr");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("dtype", &PrimExprNode::dtype);
  }
};

class PrimExpr : public BaseExpr {
 public:
  PrimExpr(int32_t value);  // NOLINT(google-explicit-constructor): an int32 constant
  PrimExpr(int64_t value);  // NOLINT(google-explicit-constructor): an int64 constant
  PrimExpr(float value);    // NOLINT(google-explicit-constructor): a float32 constant
  TREADLE_BASE_REF(PrimExpr, BaseExpr, PrimExprNode);
  DataType dtype() const { return get()->dtype; }
};

/// An integer constant. `dtype` is a scalar int, uint or bool.
class IntImmNode : public PrimExprNode {
 public:
  int64_t value = 0;
  TREADLE_DECLARE_NODE(IntImmNode, PrimExprNode, "IntImm");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &IntImmNode::value);
  }
};
class IntImm : public PrimExpr {
 public:
  /// Throws DTypeError where `value` doesn't fit `dtype`.
  IntImm(DataType dtype, int64_t value, Span span = Span());
  TREADLE_REF(IntImm, PrimExpr, IntImmNode);
};

/// A floating-point constant, held as a double that is exactly representable in `dtype`.
class FloatImmNode : public PrimExprNode {
 public:
  double value = 0;
  TREADLE_DECLARE_NODE(FloatImmNode, PrimExprNode, "FloatImm");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("value", &FloatImmNode::value);
  }
};
class FloatImm : public PrimExpr {
 public:
  FloatImm(DataType dtype, double value, Span span = Span());
  TREADLE_REF(FloatImm, PrimExpr, FloatImmNode);
};

/// The value if `expr` is an integer constant, else null.
inline const int64_t* AsConstInt(const PrimExpr& expr) {
  const auto* imm = expr.as<IntImmNode>();
  return imm ? &imm->value : nullptr;
}

class TypeNode : public Object {
 public:
  Span span;
  TREADLE_DECLARE_NODE(TypeNode, Object, "Type");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("span", &TypeNode::span).Ignored();
  }
};
class Type : public ObjectRef {
 public:
  TREADLE_BASE_REF(Type, ObjectRef, TypeNode);
};

/// An expression of the graph IR.
class RelayExprNode : public BaseExprNode {
 public:
  Type checked_type_;  ///< set by type inference; null before
  TREADLE_DECLARE_NODE(RelayExprNode, BaseExprNode, "RelayExpr");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("_checked_type_", &RelayExprNode::checked_type_).Ignored();
  }
  /// The inferred type; an InternalError when inference hasn't run.
  const Type& checked_type() const {
    TREADLE_ICHECK(checked_type_.defined()) << "type of " << type_key() << " isn't inferred yet";
    return checked_type_;
  }
  /// The inferred type as `T` (such as TensorTypeNode), or null.
  template <typename T>
  const T* type_as() const {
    return checked_type_.as<T>();
  }
};
class RelayExpr : public BaseExpr {
 public:
  TREADLE_BASE_REF(RelayExpr, BaseExpr, RelayExprNode);
  const Type& checked_type() const { return get()->checked_type(); }
};

/// Name of a function of the module. Identity is the object; a module has one per name.
class GlobalVarNode : public RelayExprNode {
 public:
  std::string name_hint;
  TREADLE_DECLARE_NODE(GlobalVarNode, RelayExprNode, "GlobalVar");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name_hint", &GlobalVarNode::name_hint);
  }
};
class GlobalVar : public RelayExpr {
 public:
  explicit GlobalVar(std::string name_hint, Type type = Type(), Span span = Span());
  TREADLE_REF(GlobalVar, RelayExpr, GlobalVarNode);
};

}  // namespace treadle
