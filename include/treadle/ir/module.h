// SPDX-License-Identifier: Apache-2.0
// Functions and the module that holds them.
#pragma once

#include <optional>
#include <string>

#include "treadle/ir/attrs.h"
#include "treadle/ir/expr.h"
#include "treadle/ir/type.h"

namespace treadle {

/// What relay::Function and tir::PrimFunc share.
class BaseFuncNode : public RelayExprNode {
 public:
  DictAttrs attrs;
  BaseFuncNode();
  TREADLE_DECLARE_NODE(BaseFuncNode, RelayExprNode, "BaseFunc");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("attrs", &BaseFuncNode::attrs);
  }
  /// The attribute as `Ref`, or nothing; an attribute of another class is an InternalError.
  template <typename Ref>
  std::optional<Ref> GetAttr(const std::string& key) const {
    auto value = attrs->dict.Get(key);
    if (!value) return std::nullopt;
    return Downcast<Ref>(*value);
  }
  /// Whether the attribute is a non-zero integer.
  bool HasNonzeroAttr(const std::string& key) const;
};
class BaseFunc : public RelayExpr {
 public:
  TREADLE_BASE_REF(BaseFunc, RelayExpr, BaseFuncNode);
};

/// `func` with one attribute set (value null: removed).
template <typename Func>
Func WithAttr(Func func, const std::string& key, ObjectRef value) {
  auto* node = func.CopyOnWrite();
  auto dict = node->attrs->dict;
  if (value.defined()) {
    dict.Set(key, value);
  } else {
    dict.erase(key);
  }
  node->attrs = DictAttrs(dict);
  return func;
}

/// A constructor of an algebraic data type.
class ConstructorNode : public RelayExprNode {
 public:
  std::string name_hint;
  Array<Type> inputs;
  GlobalTypeVar belong_to;
  int tag = -1;  ///< position among the constructors of its type; unique within a module's types
  TREADLE_DECLARE_NODE(ConstructorNode, RelayExprNode, "relay.Constructor");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("name_hint", &ConstructorNode::name_hint);
    r.Field("inputs", &ConstructorNode::inputs);
    r.Field("belong_to", &ConstructorNode::belong_to).Ignored();
    r.Field("tag", &ConstructorNode::tag);
  }
};
class Constructor : public RelayExpr {
 public:
  Constructor(std::string name_hint, Array<Type> inputs, GlobalTypeVar belong_to, int tag = -1);
  TREADLE_REF(Constructor, RelayExpr, ConstructorNode);
};

/// Definition of an algebraic data type.
class TypeDataNode : public TypeNode {
 public:
  GlobalTypeVar header;
  Array<TypeVar> type_vars;
  Array<Constructor> constructors;
  TREADLE_DECLARE_NODE(TypeDataNode, TypeNode, "relay.TypeData");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("header", &TypeDataNode::header);
    r.Field("type_vars", &TypeDataNode::type_vars).Defines();
    r.Field("constructors", &TypeDataNode::constructors);
  }
};
class TypeData : public Type {
 public:
  TypeData(GlobalTypeVar header, Array<TypeVar> type_vars, Array<Constructor> constructors);
  TREADLE_REF(TypeData, Type, TypeDataNode);
};

/// Functions by name and definitions of data types. Passes are pure: they return a new module.
class IRModuleNode : public Object {
 public:
  Map<GlobalVar, BaseFunc> functions;
  Map<GlobalTypeVar, TypeData> type_definitions;
  Map<String, String> source_map;  ///< source name -> text, for diagnostics
  DictAttrs attrs;
  Map<String, GlobalVar> global_vars;           ///< by name
  Map<String, GlobalTypeVar> global_type_vars;  ///< by name
  IRModuleNode();
  TREADLE_DECLARE_NODE(IRModuleNode, Object, "IRModule");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("functions", &IRModuleNode::functions);
    r.Field("type_definitions", &IRModuleNode::type_definitions);
    r.Field("source_map", &IRModuleNode::source_map).Ignored();
    r.Field("attrs", &IRModuleNode::attrs);
    r.Field("global_vars", &IRModuleNode::global_vars).Ignored();
    r.Field("global_type_vars", &IRModuleNode::global_type_vars).Ignored();
  }

  /// The function or its variable by name; throws Error naming what exists when absent.
  GlobalVar GetGlobalVar(const std::string& name) const;
  BaseFunc Lookup(const std::string& name) const;
  BaseFunc Lookup(const GlobalVar& var) const;
  bool ContainGlobalVar(const std::string& name) const { return global_vars.contains(name); }
  TypeData LookupTypeDef(const GlobalTypeVar& var) const;
  /// Adds or replaces. Another variable of the same name is an error.
  void Add(const GlobalVar& var, const BaseFunc& func);
  void AddTypeDef(const GlobalTypeVar& var, const TypeData& type);
  void Remove(const GlobalVar& var);
};
class IRModule : public ObjectRef {
 public:
  explicit IRModule(Map<GlobalVar, BaseFunc> functions, Map<GlobalTypeVar, TypeData> type_definitions = {});
  /// A module whose "main" is `expr`, wrapped into a function of its free variables when it isn't one. (relay)
  static IRModule FromExpr(const RelayExpr& expr);
  TREADLE_REF(IRModule, ObjectRef, IRModuleNode);
  /// An empty module.
  static IRModule Empty() { return IRModule(Map<GlobalVar, BaseFunc>()); }
};

}  // namespace treadle
