// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/type.h"

#include "treadle/ir/prim_expr.h"

namespace treadle {

TREADLE_DEFINE_NODE(PrimTypeNode);
TREADLE_DEFINE_NODE(PointerTypeNode);
TREADLE_DEFINE_NODE(TensorTypeNode);
TREADLE_DEFINE_NODE(TypeVarNode);
TREADLE_DEFINE_NODE(GlobalTypeVarNode);
TREADLE_DEFINE_NODE(TupleTypeNode);
TREADLE_DEFINE_NODE(TypeConstraintNode);
TREADLE_DEFINE_NODE(FuncTypeNode);
TREADLE_DEFINE_NODE(TypeCallNode);
TREADLE_DEFINE_NODE(RelayRefTypeNode);
TREADLE_DEFINE_NODE(IncompleteTypeNode);
TREADLE_DEFINE_NODE(TypeRelationNode);

PrimType::PrimType(DataType dtype) {
  auto node = MakeObject<PrimTypeNode>();
  node->dtype = dtype;
  data_ = std::move(node);
}

PointerType::PointerType(Type element_type, std::string storage_scope) {
  auto node = MakeObject<PointerTypeNode>();
  node->element_type = std::move(element_type);
  node->storage_scope = storage_scope.empty() ? "global" : std::move(storage_scope);
  data_ = std::move(node);
}

TensorType::TensorType(Array<PrimExpr> shape, DataType dtype, Span span) {
  auto node = MakeObject<TensorTypeNode>();
  // Constant dimensions are int64, so that equal shapes are structurally equal wherever they come from.
  node->shape = shape.Map([](const PrimExpr& dim) -> PrimExpr {
    const int64_t* value = AsConstInt(dim);
    return value != nullptr && dim.dtype() != DataType::Int(64) ? PrimExpr(*value) : dim;
  });
  node->dtype = dtype;
  node->span = std::move(span);
  data_ = std::move(node);
}

TensorType::TensorType(const std::vector<int64_t>& shape, DataType dtype) {
  Array<PrimExpr> dims;
  for (int64_t dim : shape) dims.push_back(PrimExpr(dim));
  *this = TensorType(dims, dtype);
}

namespace {
constexpr const char* kAnyName = "?";
}

PrimExpr AnyDim() { return tir::Var(kAnyName, DataType::Int(64)); }

bool IsAnyDim(const PrimExpr& dim) {
  const auto* var = dim.as<tir::VarNode>();
  return var != nullptr && var->name_hint == kAnyName;
}

std::vector<int64_t> StaticShape(const TensorTypeNode* type, const std::string& what) {
  std::vector<int64_t> shape;
  for (const PrimExpr& dim : type->shape) {
    const int64_t* value = AsConstInt(dim);
    if (value == nullptr) {
      throw ShapeError(StrCat(what, ": dimension ", shape.size(), " isn't a constant; a static shape is needed here"));
    }
    shape.push_back(*value);
  }
  return shape;
}

bool IsStatic(const TensorTypeNode* type) {
  for (const PrimExpr& dim : type->shape) {
    if (AsConstInt(dim) == nullptr) return false;
  }
  return true;
}

TypeVar::TypeVar(std::string name_hint, TypeKind kind, Span span) {
  auto node = MakeObject<TypeVarNode>();
  node->name_hint = std::move(name_hint);
  node->kind = kind;
  node->span = std::move(span);
  data_ = std::move(node);
}

GlobalTypeVar::GlobalTypeVar(std::string name_hint, TypeKind kind, Span span) {
  auto node = MakeObject<GlobalTypeVarNode>();
  node->name_hint = std::move(name_hint);
  node->kind = kind;
  node->span = std::move(span);
  data_ = std::move(node);
}

TupleType::TupleType(Array<Type> fields, Span span) {
  auto node = MakeObject<TupleTypeNode>();
  node->fields = std::move(fields);
  node->span = std::move(span);
  data_ = std::move(node);
}

FuncType::FuncType(Array<Type> arg_types, Type ret_type, Array<TypeVar> type_params,
                   Array<TypeConstraint> type_constraints, Span span) {
  auto node = MakeObject<FuncTypeNode>();
  node->arg_types = std::move(arg_types);
  node->ret_type = std::move(ret_type);
  node->type_params = std::move(type_params);
  node->type_constraints = std::move(type_constraints);
  node->span = std::move(span);
  data_ = std::move(node);
}

TypeCall::TypeCall(Type func, Array<Type> args, Span span) {
  auto node = MakeObject<TypeCallNode>();
  node->func = std::move(func);
  node->args = std::move(args);
  node->span = std::move(span);
  data_ = std::move(node);
}

RelayRefType::RelayRefType(Type value, Span span) {
  auto node = MakeObject<RelayRefTypeNode>();
  node->value = std::move(value);
  node->span = std::move(span);
  data_ = std::move(node);
}

IncompleteType::IncompleteType(TypeKind kind, Span span) {
  auto node = MakeObject<IncompleteTypeNode>();
  node->kind = kind;
  node->span = std::move(span);
  data_ = std::move(node);
}

TypeRelation::TypeRelation(std::string name, TypeRelationFn func, Array<Type> args, int num_inputs, Attrs attrs,
                           Span span) {
  auto node = MakeObject<TypeRelationNode>();
  node->name = std::move(name);
  node->func = func;
  node->args = std::move(args);
  node->num_inputs = num_inputs;
  node->attrs = std::move(attrs);
  node->span = std::move(span);
  data_ = std::move(node);
}

}  // namespace treadle
