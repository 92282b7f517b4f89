// SPDX-License-Identifier: Apache-2.0
// Calls of host functions: what only the virtual machine runs, on values that kernels don't compute with.
#include "treadle/ops/attrs/host.h"

#include "ops/dynamic.h"
#include "ops/infer.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(HostCallAttrs);

namespace {

const GlobalTypeVar& SequenceVar() {
  static const GlobalTypeVar* var = new GlobalTypeVar("Sequence", TypeKind::kAdtHandle);  // never destroyed
  return *var;
}
const GlobalTypeVar& OptionalVar() {
  static const GlobalTypeVar* var = new GlobalTypeVar("Optional", TypeKind::kAdtHandle);  // never destroyed
  return *var;
}

Type ArgumentOf(const Type& type, const GlobalTypeVar& var) {
  const auto* call = type.as<TypeCallNode>();
  const auto* callee = call != nullptr ? call->func.as<GlobalTypeVarNode>() : nullptr;
  if (callee == nullptr || callee->name_hint != var->name_hint || call->args.size() != 1) return Type();
  return call->args[0];
}

Type HostCallInfer(const InferContext& context) {
  const auto* attrs = context.attrs<HostCallAttrs>();
  const Type tensor = attrs->dtype.is_void() ? Type(MapType()) : TensorOfRank(attrs->dtype, attrs->rank);
  if (attrs->kind == "sequence") return SequenceOf(tensor);
  if (attrs->kind == "optional") return OptionalOf(tensor);
  if (attrs->kind == "optional_sequence") return OptionalOf(SequenceOf(tensor));
  if (attrs->kind == "map") return MapType();
  if (attrs->kind != "tensor" || attrs->rank < 0) throw Error(StrCat("host functions don't return ", attrs->kind));
  return tensor;
}

}  // namespace

Type TensorOfRank(DataType dtype, int64_t rank) {
  if (rank < -1) return TupleType(Array<Type>{});
  if (rank < 0) return PrimType(dtype);
  Array<PrimExpr> shape;
  for (int64_t i = 0; i < rank; ++i) shape.push_back(AnyDim());
  return TensorType(shape, dtype);
}
Type SequenceOf(const Type& element) { return TypeCall(SequenceVar(), {element}); }
Type OptionalOf(const Type& value) { return TypeCall(OptionalVar(), {value}); }
Type MapType() { return TypeCall(GlobalTypeVar("Map", TypeKind::kAdtHandle), {}); }
Type ElementOfSequence(const Type& type) { return ArgumentOf(type, SequenceVar()); }
Type ValueOfOptional(const Type& type) { return ArgumentOf(type, OptionalVar()); }

void DefineHostTypes(IRModule* module) {
  IRModuleNode* node = module->CopyOnWrite();
  for (const GlobalTypeVar& var : {SequenceVar(), OptionalVar()}) {
    node->AddTypeDef(var, TypeData(var, {TypeVar("A", TypeKind::kType)}, {}));
  }
  const GlobalTypeVar map("Map", TypeKind::kAdtHandle);
  node->AddTypeDef(map, TypeData(map, {}, {}));
}

void RegisterHostOps() {
  OpRegistration("vm.host_call")
      .Describe("Calls a function of the virtual machine, on strings, sequences, optionals and maps.")
      .Arguments({{"values", "Any", "The arguments."}})
      .NumInputs(-1)
      .AttrsType<HostCallAttrs>()
      .Relation(Rule<HostCallInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kOpIsStateful, true)
      .Set(kNonComputational, true);
}

}  // namespace treadle::ops
