// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/vm_values.h"

#include <unordered_map>

#include "treadle/base/stack_guard.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/vm/values.h"

namespace treadle::driver {
namespace {

using runtime::AdtValue;
using runtime::AdtValueNode;

using TypeArgs = std::unordered_map<const Object*, Type>;

/// The type with a data type's parameters replaced; only as deep as values are taken apart.
Type Instantiate(const Type& type, const TypeArgs& args) {
  if (!type.defined()) return type;
  if (type.as<TypeVarNode>()) {
    auto it = args.find(type.get());
    return it == args.end() ? type : it->second;
  }
  auto inner = [&](const Type& t) { return Instantiate(t, args); };
  if (const auto* tuple = type.as<TupleTypeNode>()) return TupleType(tuple->fields.Map(inner));
  if (const auto* call = type.as<TypeCallNode>()) return TypeCall(call->func, call->args.Map(inner));
  if (const auto* ref = type.as<RelayRefTypeNode>()) return RelayRefType(inner(ref->value));
  return type;
}

}  // namespace

ObjectRef ToVmValue(const Value& value) {
  return WithEnoughStack([&]() -> ObjectRef {
    auto all = [](const Array<Value>& fields) {
      std::vector<ObjectRef> result;
      for (const Value& field : fields) result.push_back(ToVmValue(field));
      return result;
    };
    if (const auto* tuple = value.as<TupleValueNode>()) return AdtValue(runtime::kTupleTag, all(tuple->fields));
    if (const auto* data = value.as<ConstructorValueNode>()) return AdtValue(data->tag, all(data->fields));
    if (const auto* ref = value.as<RefValueNode>()) return runtime::RefValue(ToVmValue(ref->value));
    if (value.as<ClosureValueNode>())
      throw Error("a function of the interpreter can't be given to the virtual machine");
    return value;
  });
}

Value FromVmValue(const ObjectRef& value, const Type& type, const IRModule& module) {
  return WithEnoughStack([&]() -> Value {
    if (const auto* ref = value.as<runtime::RefValueNode>()) {
      const auto* ref_type = type.as<RelayRefTypeNode>();
      return RefValue(FromVmValue(ref->value, ref_type != nullptr ? ref_type->value : Type(), module));
    }
    const auto* data = value.as<AdtValueNode>();
    if (data == nullptr) return value;
    Array<Value> fields;
    const auto* call = type.as<TypeCallNode>();
    const Type header = call != nullptr ? call->func : type;
    if (!header.as<GlobalTypeVarNode>()) {
      const auto* tuple = type.as<TupleTypeNode>();
      for (size_t i = 0; i < data->fields.size(); ++i) {
        bool known = tuple != nullptr && i < tuple->fields.size();
        fields.push_back(FromVmValue(data->fields[i], known ? tuple->fields[i] : Type(), module));
      }
      return TupleValue(fields);
    }
    const TypeData definition = module->LookupTypeDef(Downcast<GlobalTypeVar>(header));
    TypeArgs args;
    for (size_t i = 0; call != nullptr && i < definition->type_vars.size() && i < call->args.size(); ++i) {
      args[definition->type_vars[i].get()] = call->args[i];
    }
    for (const Constructor& constructor : definition->constructors) {
      if (constructor->tag != data->tag) continue;
      for (size_t i = 0; i < data->fields.size(); ++i) {
        fields.push_back(FromVmValue(data->fields[i], Instantiate(constructor->inputs[i], args), module));
      }
      return ConstructorValue(constructor, fields);
    }
    throw InternalError(StrCat("internal error: data of an unknown constructor ", data->tag));
  });
}

}  // namespace treadle::driver
