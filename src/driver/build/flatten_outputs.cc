// SPDX-License-Identifier: Apache-2.0
#include "driver/build/flatten_outputs.h"

#include "treadle/relay/expr.h"
#include "treadle/relay/type_infer.h"

namespace treadle::driver {
namespace {

/// The tensors of a value of type `type`, from the left.
void CollectTensors(const relay::Expr& value, const Type& type, Array<relay::Expr>* tensors) {
  const auto* tuple = type.as<TupleTypeNode>();
  if (tuple == nullptr) return tensors->push_back(value);
  const auto* literal = value.as<relay::TupleNode>();
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    const relay::Expr field =
        literal != nullptr ? literal->fields[i] : relay::Expr(relay::TupleGetItem(value, static_cast<int>(i)));
    CollectTensors(field, tuple->fields[i], tensors);
  }
}

}  // namespace

IRModule FlattenOutputs(const IRModule& module) {
  const auto* given = module->Lookup("main").as<relay::FunctionNode>();
  if (given == nullptr) return module;
  // No pass: instruments see those that the build states.
  const IRModule typed = given->body->checked_type_.defined() ? module : relay::InferTypes(module);
  const auto* main = typed->Lookup("main").as<relay::FunctionNode>();
  const auto* tuple = main->body->type_as<TupleTypeNode>();
  if (tuple == nullptr) return module;
  bool nested = false;
  for (const Type& field : tuple->fields) nested |= field.as<TupleTypeNode>() != nullptr;
  if (!nested) return module;
  // What lets bind is seen in their body only.
  std::vector<const relay::LetNode*> lets;
  relay::Expr body = main->body;
  while (const auto* let = body.as<relay::LetNode>()) {
    lets.push_back(let);
    body = let->body;
  }
  Array<relay::Expr> tensors;
  CollectTensors(body, main->body->checked_type(), &tensors);
  relay::Expr result = relay::Tuple(tensors);
  for (size_t i = lets.size(); i-- > 0;) result = relay::Let(lets[i]->var, lets[i]->value, result);
  IRModule flat = typed;
  const relay::Function function(main->params, result, Type(), main->type_params, main->attrs);
  flat.CopyOnWrite()->Add(flat->GetGlobalVar("main"), function);
  return flat;
}

}  // namespace treadle::driver
