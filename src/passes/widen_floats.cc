// SPDX-License-Identifier: Apache-2.0
// WidenFloats: what a module computes in float32, float16 or bfloat16 is computed in float64.
#include "passes/widen_floats.h"

#include <algorithm>
#include <type_traits>

#include "passes/pass_util.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/reflection.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

const DataType kWide = DataType::Float(64);

bool IsNarrow(DataType dtype) {
  return dtype.is_bfloat16() || (dtype.is_float() && (dtype.bits() == 16 || dtype.bits() == 32));
}

Type Widened(const Type& type) {
  if (!type.defined()) return type;
  if (const auto* tensor = type.as<TensorTypeNode>()) {
    return IsNarrow(tensor->dtype) ? TensorType(tensor->shape, kWide) : type;
  }
  const auto widened = [](const Type& t) { return Widened(t); };
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    Array<Type> fields = tuple->fields.Map(widened);
    return fields.same_as(tuple->fields) ? type : TupleType(fields);
  }
  if (const auto* func = type.as<FuncTypeNode>()) {
    return FuncType(func->arg_types.Map(widened), Widened(func->ret_type), func->type_params, func->type_constraints);
  }
  if (const auto* call = type.as<TypeCallNode>()) return TypeCall(call->func, call->args.Map(widened));
  return type;
}

/// A copy with wide element types where attributes name narrow ones.
Attrs Widened(const Attrs& attrs) {
  if (!attrs.defined() || attrs->type_info()->create == nullptr) return attrs;
  const std::vector<FieldInfo>& fields = attrs->type_info()->fields;
  const bool any = std::any_of(fields.begin(), fields.end(), [&](const FieldInfo& field) {
    return field.kind == FieldKind::kDataType && IsNarrow(field.Get<DataType>(attrs.get()));
  });
  if (!any) return attrs;
  ObjectPtr<Object> copy(attrs->type_info()->create());
  for (const FieldInfo& field : fields) {
    VisitField(field, attrs.get(), [&](const auto& value) {
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<T, DataType>) {
        field.GetMutable<T>(copy.get()) = IsNarrow(value) ? kWide : value;
      } else {
        field.GetMutable<T>(copy.get()) = value;
      }
    });
  }
  return Attrs(copy);
}

class FloatWidener : public MixedModeMutator {
 public:
  /// Of main: parameters as they are, their values widened before the body.
  Function Main(const Function& func) {
    const auto wide = Downcast<Function>(Mutate(func));
    Array<Var> params;
    Map<Var, Expr> values;
    for (size_t i = 0; i < func->params.size(); ++i) {
      const auto* type = func->params[i]->type_annotation.as<TensorTypeNode>();
      const bool narrow = type != nullptr && IsNarrow(type->dtype);
      if (type == nullptr && !wide->params[i].same_as(func->params[i])) {
        throw Error(StrCat("main's parameter ", func->params[i]->name_hint(),
                           " isn't a tensor: a model with such parameters can't be computed in float64"));
      }
      params.push_back(func->params[i]);
      if (narrow) values.Set(wide->params[i], ops::MakeCast(func->params[i], kWide));
    }
    return Function(params, Bind(wide->body, values), wide->ret_type, func->type_params, func->attrs, func->span);
  }

 private:
  using MixedModeMutator::Rewrite_;
  using MixedModeMutator::VisitExpr_;

  Expr VisitExpr_(const ConstantNode* op) override {
    const runtime::NDArray& data = op->data;
    if (!IsNarrow(data.dtype())) return GetRef<Expr>(op);
    return Constant(runtime::FromDoubles(runtime::ToDoubles(data), data.shape(), kWide), op->span);
  }
  Expr VisitExpr_(const VarNode* op) override {
    const Type type = Widened(op->type_annotation);
    return type.same_as(op->type_annotation) ? GetRef<Expr>(op) : Var(op->name_hint(), type, op->span);
  }
  Type VisitType(const Type& type) override { return Widened(type); }

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = static_cast<const CallNode*>(post.get());
    if (pre->op.as<OpNode>() == nullptr) return post;
    const Attrs attrs = Widened(call->attrs);
    const Expr wide =
        attrs.same_as(call->attrs) ? post : Call(call->op, call->args, attrs, call->type_args, call->span);
    if (wide.same_as(GetRef<Expr>(pre)) || Accepts(wide, pre)) return wide;
    // Of float32 alone, as operators on quantised tensors are.
    Array<Expr> args;
    for (size_t i = 0; i < pre->args.size(); ++i) args.push_back(AsBefore(call->args[i], pre->args[i]->checked_type()));
    const Call narrow(pre->op, args, pre->attrs, pre->type_args, pre->span);
    return FromNarrow(narrow, pre->checked_type());
  }

  /// Whether the operator takes operands of the widened types.
  static bool Accepts(const Expr& wide, const CallNode* pre) {
    const auto* call = static_cast<const CallNode*>(wide.get());
    Array<Expr> args;
    for (size_t i = 0; i < pre->args.size(); ++i) {
      const bool constant = call->args[i].as<ConstantNode>() != nullptr;
      args.push_back(constant ? call->args[i] : Var("x", Widened(pre->args[i]->checked_type())));
    }
    try {
      InferType(Call(call->op, args, call->attrs, call->type_args));
      return true;
    } catch (const TypeInferError&) {
      return false;
    }
  }

  static Expr AsBefore(const Expr& value, const Type& type) {
    if (const auto* tensor = type.as<TensorTypeNode>()) {
      return IsNarrow(tensor->dtype) ? ops::MakeCast(value, tensor->dtype) : value;
    }
    const auto* tuple = type.as<TupleTypeNode>();
    if (tuple == nullptr || Widened(type).same_as(type)) return value;
    Array<Expr> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      fields.push_back(AsBefore(TupleGetItem(value, static_cast<int>(i)), tuple->fields[i]));
    }
    return Tuple(fields);
  }
  static Expr FromNarrow(const Expr& value, const Type& type) {
    if (const auto* tensor = type.as<TensorTypeNode>()) {
      return IsNarrow(tensor->dtype) ? ops::MakeCast(value, kWide) : value;
    }
    const auto* tuple = type.as<TupleTypeNode>();
    if (tuple == nullptr || Widened(type).same_as(type)) return value;
    Array<Expr> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      fields.push_back(FromNarrow(TupleGetItem(value, static_cast<int>(i)), tuple->fields[i]));
    }
    return Tuple(fields);
  }
};

}  // namespace

namespace transform {

void RegisterWidenFloatsOption() {
  treadle::transform::RegisterPassConfig(
      kWidenFloats, "bool", "everything is computed in float64, a reference; results of main are float64 (false)");
}

Pass WidenFloats() {
  return CreateModulePass(
      [](const IRModule& module, const PassContext&) {
        IRModule result = module;
        FloatWidener widener;
        for (const auto& [var, base] : module->functions) {
          if (base.as<FunctionNode>() == nullptr) continue;
          const auto func = Downcast<Function>(base);
          const Function wide =
              var->name_hint == "main" ? widener.Main(func) : Downcast<Function>(widener.Mutate(func));
          result.CopyOnWrite()->Add(var, wide);
        }
        return result;
      },
      {"WidenFloats", 0, {"InferType"}, "Computes in float64 what the module states in narrower floats"});
}

}  // namespace transform
}  // namespace treadle::relay
