// SPDX-License-Identifier: Apache-2.0
#include "driver/lower/lower_te.h"

#include <functional>
#include <unordered_map>

#include "passes/fuse_siblings.h"
#include "targets/cpu/machine_costs.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/scalar.h"
#include "treadle/schedule/kernel.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::TupleGetItemNode;
using relay::TupleNode;

constexpr size_t kMaxNameLength = 80;

/// Tensor types of a (nested) tuple type, flattened.
void FlattenTypes(const Type& type, std::vector<TensorType>* out) {
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) FlattenTypes(field, out);
  } else {
    TREADLE_ICHECK(type.as<TensorTypeNode>()) << "kernels take and give tensors, not " << type->type_key();
    out->push_back(Downcast<TensorType>(type));
  }
}

PrimExpr ScalarOf(const runtime::NDArray& data) {
  const DataType dtype = data.dtype();
  if (!runtime::IsNumber(dtype)) throw DTypeError(StrCat("scalar constant of dtype ", dtype, " can't be lowered"));
  if (dtype.is_integral()) return IntImm(dtype, runtime::ElementAsInt64(data, 0));
  return FloatImm(dtype, runtime::ElementAsDouble(data, 0));
}

class TensorLowerer : public relay::ExprFunctor<Array<te::Tensor>(const Expr&)> {
 public:
  TensorLowerer(const Target& target, std::string* explanation) : target_(target), explanation_(explanation) {}

  /// `given`: tensors for the (flattened) parameters instead of placeholders; null: placeholders.
  TensorFunction Lower(const relay::Function& func, const Array<te::Tensor>* given = nullptr) {
    TensorFunction result;
    for (const relay::Var& param : func->params) {
      std::vector<TensorType> types;
      FlattenTypes(param->checked_type(), &types);
      Array<te::Tensor> tensors;
      for (size_t i = 0; i < types.size(); ++i) {
        std::string name = param->name_hint();
        if (types.size() > 1) name += "_" + std::to_string(i);
        const size_t at = result.inputs.size();
        TREADLE_ICHECK(given == nullptr || at < given->size()) << "fewer tensors than parameters";
        tensors.push_back(given != nullptr ? (*given)[at] : te::Placeholder(types[i]->shape, types[i]->dtype, name));
        result.inputs.push_back(tensors.back());
      }
      memo_[param] = tensors;
    }
    // Lower in post order, so that depth doesn't matter.
    relay::PostOrderVisit(func->body, [this](const Expr& e) {
      if (e.as<OpNode>() == nullptr && memo_.count(e) == 0) memo_[e] = ExprFunctor::VisitExpr(e);
    });
    result.outputs = MakeDistinct(memo_.at(func->body), result.inputs);
    if (func->HasNonzeroAttr(relay::kSiblings)) result.outputs = InOneNest(result.outputs);
    result.name = FusedFunctionName(func);
    return result;
  }

  Array<te::Tensor> VisitExpr(const Expr& e) override { return memo_.at(e); }

  Array<te::Tensor> VisitExpr_(const ConstantNode* op) override {
    if (!op->is_scalar()) {
      throw ShapeError(
          StrCat("a function to lower holds a constant of ", op->data.size(),
                 " elements: only scalars are part of kernels, others are parameters, as FuseOps makes them"));
    }
    PrimExpr value = ScalarOf(op->data);
    return {te::Compute({}, [&](const Array<te::Var>&) { return value; }, "constant", te::tag::kConstant)};
  }

  Array<te::Tensor> VisitExpr_(const TupleNode* op) override {
    Array<te::Tensor> fields;
    for (const Expr& field : op->fields) {
      for (const te::Tensor& t : VisitExpr(field)) fields.push_back(t);
    }
    return fields;
  }

  Array<te::Tensor> VisitExpr_(const TupleGetItemNode* op) override {
    const auto* type = op->tuple->type_as<TupleTypeNode>();
    TREADLE_ICHECK(type != nullptr) << "projection of something that isn't a tuple";
    size_t first = 0;
    std::vector<TensorType> types;
    for (int i = 0; i < op->index; ++i) FlattenTypes(type->fields[i], &types);
    first = types.size();
    FlattenTypes(type->fields[op->index], &types);
    Array<te::Tensor> all = VisitExpr(op->tuple);
    return Array<te::Tensor>(all.begin() + static_cast<std::ptrdiff_t>(first),
                             all.begin() + static_cast<std::ptrdiff_t>(types.size()));
  }

  Array<te::Tensor> VisitExpr_(const CallNode* call) override {
    const auto* op = call->op.as<OpNode>();
    TREADLE_ICHECK(op != nullptr) << "a kernel calls something that isn't an operator";
    Array<te::Tensor> inputs;
    for (const Expr& arg : call->args) {
      for (const te::Tensor& t : VisitExpr(arg)) inputs.push_back(t);
    }
    const ops::FTECompute compute = ComputationOf(call, inputs);
    if (!compute) {
      std::string place = call->span.defined() ? call->span.str() : op->name;
      throw UnsupportedOpError(StrCat("no implementation of operator '", op->name, "' (at ", place, ")"), {place});
    }
    return AtNode(call, [&] { return compute(call->attrs, inputs, call->checked_type()); });
  }

 private:
  /// What `compute` returns; its errors say which imported node they are about.
  template <typename Compute>
  static Array<te::Tensor> AtNode(const CallNode* call, Compute&& compute) {
    if (!call->span.defined() || call->span->line != 0) return compute();
    const std::string place = StrCat("node '", call->span->source_name, "' (", call->op.as<OpNode>()->name, "): ");
    try {
      return compute();
    } catch (const UnsupportedOpError& e) {
      throw UnsupportedOpError(place + e.what(), {place + e.what()});
    } catch (const ShapeError& e) {
      throw ShapeError(place + e.what());
    } catch (const DTypeError& e) {
      throw DTypeError(place + e.what());
    }
  }

  /// The computation that is chosen for a call; null where there is none.
  ops::FTECompute ComputationOf(const CallNode* call, const Array<te::Tensor>& inputs) {
    const Op op = Downcast<Op>(call->op);
    const ops::FTECompute* own = op.GetAttr(ops::kCompute);
    if (explanation_ == nullptr && !schedule::HasAddedKernels(op->name))
      return own == nullptr ? ops::FTECompute() : *own;
    const schedule::CallContext context{call->attrs, inputs, call->checked_type(), target_};
    const schedule::Choice choice = schedule::ChooseComputation(op, context, MachineOfTarget());
    if (explanation_ != nullptr) *explanation_ += Explain(call, choice);
    const schedule::Candidate* best = choice.best();
    if (schedule::ChoiceLog::IsOn() && choice.candidates.size() > 1) {
      const std::string place = call->span.defined() ? StrCat(" (", call->span.str(), ")") : "";
      schedule::ChoiceLog::Note(StrCat("# ", op->name, place, "\n", schedule::ToText(choice)));
    }
    if (best != nullptr && best->kernel->compute) return best->kernel->compute;
    return best == nullptr || own == nullptr ? ops::FTECompute() : *own;
  }

  schedule::Machine MachineOfTarget() const {
    return target_.defined() ? ops::cpu::MachineOf(target_) : schedule::Machine();
  }

  static std::string Explain(const CallNode* call, const schedule::Choice& choice) {
    std::string text = call->op.as<OpNode>()->name;
    if (call->span.defined()) text += " (" + call->span.str() + ")";
    text += ":\n";
    for (const schedule::Candidate& candidate : choice.candidates) {
      const bool chosen = &candidate == choice.best();
      std::string reason = candidate.why_not;
      if (chosen) {
        reason = choice.candidates.size() == 1 ? "the only one" : "of the highest level among those that can be used";
      } else if (reason.empty()) {
        reason = "another has a higher level, costs less, or comes first";
      }
      text += StrCat("  ", chosen ? "* " : "  ", candidate.kernel->name, ", level ", candidate.kernel->level, ": ",
                     reason, "\n");
    }
    return text;
  }

  /// Results of one shape as those of one computation, so that they are scheduled as one loop nest.
  static Array<te::Tensor> InOneNest(const Array<te::Tensor>& outputs) {
    const te::FBatchCompute elements = [&](const Array<te::Var>& i) {
      const Array<PrimExpr> index(i.begin(), i.end());
      Array<PrimExpr> values;
      for (const te::Tensor& t : outputs) values.push_back(t(index));
      return values;
    };
    return te::BatchCompute(outputs[0]->shape, elements, "siblings", te::tag::kInjective);
  }

  /// Outputs must be buffers of their own: those that are inputs or occur twice become copies.
  static Array<te::Tensor> MakeDistinct(const Array<te::Tensor>& outputs, const Array<te::Tensor>& inputs) {
    Array<te::Tensor> result;
    for (const te::Tensor& t : outputs) {
      bool taken = false;
      for (const te::Tensor& other : inputs) taken |= other == t;
      for (const te::Tensor& other : result) taken |= other == t;
      if (!taken) {
        result.push_back(t);
        continue;
      }
      result.push_back(te::Compute(
          t->shape, [&](const Array<te::Var>& i) { return t(Array<PrimExpr>(i.begin(), i.end())); }, "copy",
          te::tag::kInjective));
    }
    return result;
  }

  const Target& target_;
  std::string* explanation_;
  std::unordered_map<Expr, Array<te::Tensor>, ObjectPtrHash, ObjectPtrEqual> memo_;
};

}  // namespace

std::string FusedFunctionName(const relay::Function& func) {
  std::string name = "fused";
  relay::PostOrderVisit(func->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr) return;
    if (const auto* op = call->op.as<OpNode>()) name += "_" + op->name;
  });
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (name.size() <= kMaxNameLength) return name;
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a: the same in every process
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return name.substr(0, kMaxNameLength) + "_" + HexText(hash, 16);
}

TensorFunction LowerToTensors(const relay::Function& func, const Target& target) {
  return TensorLowerer(target, nullptr).Lower(func);
}

Array<te::Tensor> ComputeOnTensors(const relay::Function& func, const Array<te::Tensor>& inputs, const Target& target) {
  return TensorLowerer(target, nullptr).Lower(func, &inputs).outputs;
}

std::string ExplainImplementations(const relay::Function& func, const Target& target) {
  std::string text;
  TensorLowerer(target, &text).Lower(func);
  return text;
}

}  // namespace treadle::driver
