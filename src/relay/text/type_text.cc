// SPDX-License-Identifier: Apache-2.0
#include "relay/text/type_text.h"

#include "treadle/base/stack_guard.h"
#include "treadle/ir/prim_expr.h"

namespace treadle::relay {
namespace {

class Writer {
 public:
  explicit Writer(const TypeNames& names) : names_(names) {}
  std::string text;

  void Write(const Type& type) {
    WithEnoughStack([&] { WriteKind(type); });
  }

  void WriteDim(const PrimExpr& dim) {
    WithEnoughStack([&] { WriteDimKind(dim); });
  }

 private:
  template <typename T>
  void WriteList(const Array<T>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) text += ", ";
      Write(items[i]);
    }
  }

  void WriteKind(const Type& type) {
    if (!type.defined()) {
      text += "_";
    } else if (const auto* tensor = type.as<TensorTypeNode>()) {
      WriteTensor(tensor);
    } else if (const auto* tuple = type.as<TupleTypeNode>()) {
      text += "(";
      WriteList(tuple->fields);
      text += tuple->fields.size() == 1 ? ",)" : ")";
    } else if (const auto* func = type.as<FuncTypeNode>()) {
      WriteFunc(func);
    } else if (const auto* var = type.as<TypeVarNode>()) {
      text += names_.type_var ? names_.type_var(var) : var->name_hint;
    } else if (const auto* global = type.as<GlobalTypeVarNode>()) {
      text += global->name_hint;
    } else if (const auto* call = type.as<TypeCallNode>()) {
      Write(call->func);
      text += "[";
      WriteList(call->args);
      text += "]";
    } else if (const auto* ref = type.as<RelayRefTypeNode>()) {
      text += "ref(";
      Write(ref->value);
      text += ")";
    } else if (const auto* prim = type.as<PrimTypeNode>()) {
      text += prim->dtype.str();
    } else if (const auto* pointer = type.as<PointerTypeNode>()) {
      text += "Pointer(";
      Write(pointer->element_type);
      text += ")";
    } else if (const auto* relation = type.as<TypeRelationNode>()) {
      text += relation->name + "(";
      WriteList(relation->args);
      text += ")";
    } else if (const auto* data = type.as<TypeDataNode>()) {
      text += data->header->name_hint;
    } else {
      text += "_";
    }
  }

  void WriteFunc(const FuncTypeNode* func) {
    if (names_.open) names_.open(func->type_params);
    text += "fn ";
    if (!func->type_params.empty()) {
      text += "[";
      WriteList(func->type_params);
      text += "]";
    }
    text += "(";
    WriteList(func->arg_types);
    text += ") -> ";
    // "where" belongs to the innermost function.
    const bool in_parentheses = !func->type_constraints.empty() && func->ret_type.as<FuncTypeNode>() != nullptr;
    if (in_parentheses) text += "(";
    Write(func->ret_type);
    if (in_parentheses) text += ")";
    for (const TypeConstraint& constraint : func->type_constraints) {
      text += " where ";
      Write(constraint);
    }
    if (names_.close) names_.close(func->type_params);
  }

  void WriteTensor(const TensorTypeNode* tensor) {
    if (tensor->shape.empty()) {
      text += tensor->dtype.str();
      return;
    }
    text += "Tensor[(";
    for (size_t i = 0; i < tensor->shape.size(); ++i) {
      if (i != 0) text += ", ";
      WriteDim(tensor->shape[i]);
    }
    text += "), " + tensor->dtype.str() + "]";
  }

  template <typename Node>
  bool WriteInfix(const PrimExpr& dim) {
    const auto* node = dim.as<Node>();
    if (node == nullptr) return false;
    text += "(";
    WriteDim(node->a);
    text += StrCat(" ", Node::kSymbol, " ");
    WriteDim(node->b);
    text += ")";
    return true;
  }
  template <typename Node>
  bool WritePrefix(const PrimExpr& dim) {
    const auto* node = dim.as<Node>();
    if (node == nullptr) return false;
    text += StrCat(Node::kSymbol, "(");
    WriteDim(node->a);
    text += ", ";
    WriteDim(node->b);
    text += ")";
    return true;
  }

  void WriteDimKind(const PrimExpr& dim) {
    if (const int64_t* value = AsConstInt(dim)) {
      text += std::to_string(*value);
    } else if (IsAnyDim(dim)) {
      text += "?";
    } else if (const auto* var = dim.as<tir::VarNode>()) {
      text += names_.dim_var ? names_.dim_var(var) : var->name_hint;
    } else if (const auto* cast = dim.as<tir::CastNode>()) {
      WriteDim(cast->value);
    } else if (!(WriteInfix<tir::AddNode>(dim) || WriteInfix<tir::SubNode>(dim) || WriteInfix<tir::MulNode>(dim) ||
                 WriteInfix<tir::DivNode>(dim) || WriteInfix<tir::ModNode>(dim) ||
                 WritePrefix<tir::FloorDivNode>(dim) || WritePrefix<tir::FloorModNode>(dim) ||
                 WritePrefix<tir::MinNode>(dim) || WritePrefix<tir::MaxNode>(dim))) {
      text += "?";
    }
  }

  const TypeNames& names_;
};

}  // namespace

std::string TypeText(const Type& type, const TypeNames& names) {
  Writer writer(names);
  writer.Write(type);
  return std::move(writer.text);
}
std::string TypeText(const Type& type) { return TypeText(type, TypeNames()); }

std::string DimText(const PrimExpr& dim, const TypeNames& names) {
  Writer writer(names);
  writer.WriteDim(dim);
  return std::move(writer.text);
}
std::string DimText(const PrimExpr& dim) { return DimText(dim, TypeNames()); }

}  // namespace treadle::relay
