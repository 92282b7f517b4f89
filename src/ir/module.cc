// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/module.h"

namespace treadle {

TREADLE_DEFINE_NODE(BaseFuncNode);
TREADLE_DEFINE_NODE(ConstructorNode);
TREADLE_DEFINE_NODE(TypeDataNode);
TREADLE_DEFINE_NODE(IRModuleNode);

BaseFuncNode::BaseFuncNode() : attrs(Map<String, ObjectRef>()) {}

bool BaseFuncNode::HasNonzeroAttr(const std::string& key) const {
  auto value = attrs->dict.Get(key);
  if (!value) return false;
  const auto* imm = value->as<IntImmNode>();
  return imm != nullptr && imm->value != 0;
}

Constructor::Constructor(std::string name_hint, Array<Type> inputs, GlobalTypeVar belong_to, int tag) {
  auto node = MakeObject<ConstructorNode>();
  node->name_hint = std::move(name_hint);
  node->inputs = std::move(inputs);
  node->belong_to = std::move(belong_to);
  node->tag = tag;
  data_ = std::move(node);
}

TypeData::TypeData(GlobalTypeVar header, Array<TypeVar> type_vars, Array<Constructor> constructors) {
  auto node = MakeObject<TypeDataNode>();
  node->header = std::move(header);
  node->type_vars = std::move(type_vars);
  node->constructors = std::move(constructors);
  data_ = std::move(node);
}

IRModuleNode::IRModuleNode() : attrs(Map<String, ObjectRef>()) {}

IRModule::IRModule(Map<GlobalVar, BaseFunc> functions, Map<GlobalTypeVar, TypeData> type_definitions) {
  auto node = MakeObject<IRModuleNode>();
  for (const auto& [var, type] : type_definitions) node->AddTypeDef(var, type);
  for (const auto& [var, func] : functions) node->Add(var, func);
  data_ = std::move(node);
}

GlobalVar IRModuleNode::GetGlobalVar(const std::string& name) const {
  auto var = global_vars.Get(name);
  if (var) return *var;
  std::string known;
  for (const auto& [key, unused] : global_vars) known += (known.empty() ? "" : ", ") + key.str();
  throw Error(StrCat("module has no function '", name, "'; it has: ", known.empty() ? "none" : known));
}

BaseFunc IRModuleNode::Lookup(const std::string& name) const { return Lookup(GetGlobalVar(name)); }

BaseFunc IRModuleNode::Lookup(const GlobalVar& var) const {
  auto func = functions.Get(var);
  if (!func) throw Error(StrCat("module has no definition of '", var->name_hint, "'"));
  return *func;
}

TypeData IRModuleNode::LookupTypeDef(const GlobalTypeVar& var) const {
  auto data = type_definitions.Get(var);
  if (!data) throw Error(StrCat("module has no definition of type '", var->name_hint, "'"));
  return *data;
}

void IRModuleNode::Add(const GlobalVar& var, const BaseFunc& func) {
  auto known = global_vars.Get(var->name_hint);
  if (known && !known->same_as(var)) {
    throw Error(StrCat("module already has another function '", var->name_hint, "'"));
  }
  global_vars.Set(var->name_hint, var);
  functions.Set(var, func);
}

void IRModuleNode::AddTypeDef(const GlobalTypeVar& var, const TypeData& type) {
  auto known = global_type_vars.Get(var->name_hint);
  if (known && !known->same_as(var)) throw Error(StrCat("module already has another type '", var->name_hint, "'"));
  global_type_vars.Set(var->name_hint, var);
  type_definitions.Set(var, type);
}

void IRModuleNode::Remove(const GlobalVar& var) {
  functions.erase(var);
  global_vars.erase(var->name_hint);
}

}  // namespace treadle
