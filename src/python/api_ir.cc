// SPDX-License-Identifier: Apache-2.0
// What all IRs share: constants, types, modules, operators, structural equality.
#include <limits>

#include "python/checked.h"
#include "treadle/base/error.h"
#include "treadle/ir/module.h"
#include "treadle/ir/op.h"
#include "treadle/ir/structural_tolerance.h"
#include "treadle/ir/target_kind.h"
#include "treadle/ir/type.h"
#include "treadle/ops/traits.h"
#include "treadle/runtime/reflection.h"

namespace treadle::runtime {

PrimExpr ArgConverter<PrimExpr>::From(const ArgValue& value) {
  if (value.type_code() == kTreadleInt) {
    const auto number = value.As<int64_t>();
    const bool small = number >= std::numeric_limits<int32_t>::min() && number <= std::numeric_limits<int32_t>::max();
    return small ? PrimExpr(static_cast<int32_t>(number)) : PrimExpr(number);
  }
  if (value.type_code() == kTreadleFloat) return FloatImm(DataType::Float(32), value.As<double>());
  ObjectRef object = value.AsObjectRef();
  if (!object.defined() || !object->IsInstance<PrimExprNode>()) value.ThrowMismatch("a scalar expression");
  return PrimExpr(object.data());
}

}  // namespace treadle::runtime

namespace treadle::python {
namespace {

using runtime::Registry;

/// Tensors of the tuple that a call gives; 0: no tuple.
int64_t OpNumResults(const Op& op, const Attrs& attrs) { return ops::NumResultsOf(op, attrs); }

/// [number of inputs, type key of the attributes ("" for none), argument names, attribute names, descriptions of the
/// arguments and of the attributes, default attributes (null for none), names of attributes without a default].
Array<ObjectRef> OpInfo(const std::string& name) {
  const Op& op = Op::Get(name);
  Array<ObjectRef> arguments, attributes, argument_docs, attribute_docs, required;
  for (const OpArgument& argument : op.get()->arguments) {
    arguments.push_back(String(argument.name));
    argument_docs.push_back(String(argument.description));
  }
  const TypeInfo* type = op.get()->attrs_type;
  ObjectRef defaults;
  if (type != nullptr) {
    for (const FieldInfo& field : type->fields) {
      attributes.push_back(String(field.name));
      attribute_docs.push_back(String(field.doc));
      if (field.required) required.push_back(String(field.name));
    }
    if (type->create) defaults = ObjectRef(ObjectPtr<Object>(type->create()));
  }
  return {IntImm(DataType::Int(64), op.get()->num_inputs),
          String(type != nullptr ? type->key : ""),
          arguments,
          attributes,
          argument_docs,
          attribute_docs,
          defaults,
          required};
}

void RegisterModules() {
  RegisterChecked("ir.IRModule", [](Map<GlobalVar, BaseFunc> functions, Map<GlobalTypeVar, TypeData> types) {
    return IRModule(functions, types);
  });
  RegisterChecked("ir.Module_FromExpr", [](AnyValue value) {
    if (value.as<BaseFuncNode>() != nullptr) return IRModule::FromExpr(Expect<BaseFunc>(value));
    return IRModule::FromExpr(Expect<RelayExpr>(value));
  });
  RegisterChecked("ir.Module_GetGlobalVar",
                  [](IRModule module, std::string name) { return module->GetGlobalVar(name); });
  RegisterChecked("ir.Module_ContainGlobalVar",
                  [](IRModule module, std::string name) { return module->ContainGlobalVar(name); });
  RegisterChecked("ir.Module_Lookup", [](IRModule module, GlobalVar var) { return module->Lookup(var); });
  RegisterChecked("ir.Module_Lookup_str", [](IRModule module, std::string name) { return module->Lookup(name); });
  // Modules are shared freely: a change goes into a copy.
  RegisterChecked("ir.Module_WithFunction", [](IRModule module, GlobalVar var, BaseFunc func) {
    module.CopyOnWrite()->Add(var, func);
    return module;
  });
  RegisterChecked("ir.Module_WithAttr", [](IRModule module, std::string key, ObjectRef value) {
    Map<String, ObjectRef> attrs = module->attrs.defined() ? module->attrs->dict : Map<String, ObjectRef>();
    attrs.Set(key, value);
    module.CopyOnWrite()->attrs = DictAttrs(attrs);
    return module;
  });
  RegisterChecked("ir.Module_GetAttr", [](IRModule module, std::string key) {
    auto value = module->attrs.defined() ? module->attrs->dict.Get(key) : std::nullopt;
    return value ? *value : ObjectRef();
  });
  RegisterChecked("ir.Module_Update", [](IRModule module, IRModule other) {
    IRModuleNode* node = module.CopyOnWrite();
    for (const auto& [var, type] : other->type_definitions) {
      if (!node->type_definitions.contains(var)) node->AddTypeDef(var, type);
    }
    for (const auto& [var, func] : other->functions) {
      node->Add(node->ContainGlobalVar(var->name_hint) ? node->GetGlobalVar(var->name_hint) : var, func);
    }
    return module;
  });
}

void RegisterTypes() {
  RegisterChecked("ir.PrimType", [](DataType dtype) { return PrimType(dtype); });
  RegisterChecked("ir.PointerType", [](Type element, std::string scope) { return PointerType(element, scope); });
  RegisterChecked("ir.TensorType", [](Array<PrimExpr> shape, DataType dtype) { return TensorType(shape, dtype); });
  RegisterChecked("ir.TupleType", [](Array<Type> fields) { return TupleType(fields); });
  RegisterChecked("ir.FuncType",
                  [](Array<Type> args, Type ret, Array<TypeVar> params, Array<TypeConstraint> constraints) {
                    return FuncType(args, ret, params, constraints);
                  });
  RegisterChecked("ir.TypeVar", [](std::string name, int kind) { return TypeVar(name, static_cast<TypeKind>(kind)); });
  RegisterChecked("ir.GlobalTypeVar",
                  [](std::string name, int kind) { return GlobalTypeVar(name, static_cast<TypeKind>(kind)); });
  RegisterChecked("ir.TypeCall", [](Type func, Array<Type> args) { return TypeCall(func, args); });
  RegisterChecked("ir.TypeData", [](GlobalTypeVar header, Array<TypeVar> vars, Array<Constructor> constructors) {
    return TypeData(header, vars, constructors);
  });
  RegisterChecked("ir.Constructor", [](std::string name, Array<Type> inputs, GlobalTypeVar type) {
    return Constructor(name, inputs, type);
  });
  RegisterChecked("ir.RelayRefType", [](Type value) { return RelayRefType(value); });
  RegisterChecked("ir.IncompleteType", [](int kind) { return IncompleteType(static_cast<TypeKind>(kind)); });
  RegisterChecked("ir.AnyDim", [] { return AnyDim(); });
  RegisterChecked("ir.IsAnyDim", [](PrimExpr dim) { return IsAnyDim(dim); });
}

void RegisterTargets() {
  RegisterChecked("target.Target", [](std::string text) { return Target(text); });
  RegisterChecked("target.WithHost", [](Target target, Target host) { return Target::WithHost(target, host); });
  RegisterChecked("target.AsText", [](Target target) { return target.str(); });
  RegisterChecked("target.ListKinds", [] {
    Map<String, String> kinds;
    for (const auto& [name, doc] : Target::ListKinds()) kinds.Set(name, doc);
    return kinds;
  });
  RegisterChecked("target.ListTags", [] {
    Map<String, String> tags;
    for (const auto& [name, text] : Target::ListTags()) tags.Set(name, text);
    return tags;
  });
  RegisterChecked("target.ListOptions", [](std::string kind) {
    Array<Map<String, String>> rows;
    for (const auto* options : {&GetTargetKind(kind).options, &CommonTargetOptions()}) {
      for (const TargetOption& option : *options) {
        Map<String, String> row;
        row.Set("name", option.name);
        row.Set("type", option.TypeName());
        row.Set("expected", option.Expected());
        row.Set("doc", option.doc);
        rows.push_back(row);
      }
    }
    return rows;
  });
}

}  // namespace

void RegisterIrApi() {
  RegisterChecked("ir.StructuralEqual",
                  [](ObjectRef a, ObjectRef b, bool map_free_vars) { return StructuralEqual(a, b, map_free_vars); });
  RegisterChecked("ir.StructuralEqualWithin", &StructuralEqualWithin);
  RegisterChecked("ir.StructuralDifference", [](ObjectRef a, ObjectRef b, bool map_free_vars) {
    return StructuralDifference(a, b, map_free_vars);
  });
  RegisterChecked("ir.StructuralHash", [](ObjectRef a, bool map_free_vars) {
    return static_cast<int64_t>(StructuralHash(a, map_free_vars));
  });
  RegisterChecked("ir.IntImm", [](DataType dtype, int64_t value) { return IntImm(dtype, value); });
  RegisterChecked("ir.FloatImm", [](DataType dtype, double value) { return FloatImm(dtype, value); });
  RegisterChecked("ir.GlobalVar", [](std::string name) { return GlobalVar(name); });
  RegisterChecked("ir.DictAttrs", [](Map<String, ObjectRef> dict) { return DictAttrs(dict); });
  RegisterChecked("ir.BaseFunc_WithAttr", [](BaseFunc func, std::string key, ObjectRef value) {
    auto dict = func->attrs->dict;
    dict.Set(key, value);
    return dict;
  });
  RegisterChecked("ir.GetOp", [](std::string name) { return Op::Get(name); });
  RegisterChecked("ir.HasOp", [](std::string name) { return Op::Find(name).defined(); });
  RegisterChecked("ir.OpInfo", &OpInfo);
  RegisterChecked("ir.OpNumResults", &OpNumResults);
  RegisterChecked("ir.ListOpNames", [] {
    Array<String> names;
    for (const std::string& name : Op::ListNames()) names.push_back(name);
    return names;
  });
  RegisterChecked("ir.MakeAttrs", [](std::string type_key, Map<String, ObjectRef> values, std::string what) {
    const TypeInfo* type = TypeInfo::Find(type_key);
    if (type == nullptr) throw Error(StrCat("no node type ", type_key));
    return MakeAttrsFromMap(type, values, what);
  });
  RegisterTypes();
  RegisterModules();
  RegisterTargets();
}

}  // namespace treadle::python
