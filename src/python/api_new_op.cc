// SPDX-License-Identifier: Apache-2.0
// Operators that Python registers.
#include <array>
#include <atomic>
#include <utility>

#include "python/checked.h"
#include "treadle/base/error.h"
#include "treadle/ir/op.h"
#include "treadle/ir/type.h"

namespace treadle::python {

using runtime::PackedFunc;
using runtime::Registry;

namespace {

/// Relations are plain functions, which don't know their operator: each that Python gives has one of these.
constexpr size_t kMaxRelations = 64;

struct Relations {
  std::array<PackedFunc, kMaxRelations> functions;
  std::atomic<size_t> count{0};
  static Relations& Global() {
    static auto* relations = new Relations();
    return *relations;
  }
};

template <size_t I>
bool Relate(const Array<Type>& types, int num_inputs, const Attrs& attrs, TypeReporter& reporter) {
  Array<Type> inputs;
  for (int i = 0; i < num_inputs; ++i) {
    const Type& type = types[static_cast<size_t>(i)];
    if (!type.defined() || type.as<IncompleteTypeNode>() != nullptr) return false;
    inputs.push_back(type);
  }
  auto result = Relations::Global().functions[I](inputs, attrs).As<ObjectRef>();
  if (!result.defined()) return false;
  if (!result->IsInstance<TypeNode>()) {
    throw DTypeError(StrCat("a type relation must return a type or None, not ", result->type_key()));
  }
  reporter.Assign(types[types.size() - 1], Expect<Type>(result));
  return true;
}

template <size_t... I>
std::array<TypeRelationFn, sizeof...(I)> MakeRelations(std::index_sequence<I...>) {
  return {&Relate<I>...};
}

void AddTypeRelation(Op op, PackedFunc relation) {
  static const auto slots = MakeRelations(std::make_index_sequence<kMaxRelations>());
  Relations& relations = Relations::Global();
  const size_t slot = relations.count++;
  if (slot >= kMaxRelations) throw Error(StrCat("Python can register at most ", kMaxRelations, " type relations"));
  relations.functions[slot] = relation;
  OpRegistration(op->name).Relation(slots[slot]);
}

/// The relation of another operator.
void ShareTypeRelation(Op op, std::string other) { OpRegistration(op->name).Relation(Op::Get(other)->type_relation); }

void RegisterNewOp(std::string name, std::string description) {
  if (Op::Find(name).defined()) throw Error(StrCat("there is an operator '", name, "' already"));
  OpRegistration(name).Describe(std::move(description));
}

}  // namespace

void RegisterNewOpApi() {
  RegisterChecked("ir.RegisterOp", &RegisterNewOp);
  RegisterChecked("ir.OpAddTypeRel", &AddTypeRelation);
  RegisterChecked("ir.OpShareTypeRel", &ShareTypeRelation);
  RegisterChecked("ir.OpSetNumInputs", [](Op op, int count) { OpRegistration(op->name).NumInputs(count); });
  RegisterChecked("ir.OpSetSupportLevel", [](Op op, int level) { OpRegistration(op->name).SupportLevel(level); });
  RegisterChecked("ir.OpAddArgument", [](Op op, std::string name, std::string type, std::string description) {
    std::vector<OpArgument> arguments = op->arguments;
    arguments.push_back({std::move(name), std::move(type), std::move(description)});
    const int count = op->num_inputs;
    OpRegistration(op->name).Arguments(arguments).NumInputs(std::max(count, static_cast<int>(arguments.size())));
  });
}

}  // namespace treadle::python
