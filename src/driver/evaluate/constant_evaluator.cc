// SPDX-License-Identifier: Apache-2.0
#include "driver/evaluate/constant_evaluator.h"

#include "driver/evaluate/op_evaluator.h"
#include "runtime/file_backed.h"
#include "runtime/mapped_memory.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/evaluate.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::Constant;
using relay::ConstantNode;
using relay::Expr;
using runtime::NDArray;

/// Gives back the pages of operands that are mapped from a model's files, once they have been read.
struct ReleaseOperands {
  const std::vector<NDArray>& operands;
  ~ReleaseOperands() {
    for (const NDArray& operand : operands) {
      if (operand.IsCompact()) runtime::ReleasePages(operand.data_ptr(), static_cast<size_t>(operand.nbytes()));
    }
  }
};

/// Packed weights are as large as those of the model, and stay until the library is written.
NDArray OutOfShortMemory(const NDArray& made) {
  constexpr int64_t kLeast = int64_t{4} << 20;
  if (made.nbytes() < kLeast || !runtime::MemoryIsShort()) return made;
  return runtime::ToFile(made);
}

}  // namespace

Expr EvaluateConstant(const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr) return Expr();
  Op op = Downcast<Op>(call->op);
  if (op.GetAttr(kDataDependentShape, false)) return Expr();
  Operands operands;
  std::vector<NDArray>& args = operands.tensors;
  for (const Expr& arg : call->args) {
    if (const auto* tuple = arg.as<relay::TupleNode>()) {
      operands.fields.push_back(static_cast<int>(tuple->fields.size()));
      for (const Expr& field : tuple->fields) {
        if (field.as<ConstantNode>() == nullptr) return Expr();
        args.push_back(field.as<ConstantNode>()->data);
      }
    } else if (const auto* constant = arg.as<ConstantNode>()) {
      operands.fields.push_back(-1);
      args.push_back(constant->data);
    } else {
      return Expr();
    }
  }
  int64_t given = 0;
  for (const NDArray& arg : args) {
    if (runtime::IsCustomDatatype(arg.dtype())) return Expr();
    given += arg.nbytes();
  }
  const int64_t limit = std::max(kMaxFoldedBytes, 2 * given);
  std::vector<const TensorTypeNode*> types;
  if (const auto* tuple = call->type_as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) types.push_back(field.as<TensorTypeNode>());
  } else {
    types.push_back(call->type_as<TensorTypeNode>());
  }
  for (const TensorTypeNode* type : types) {
    if (type == nullptr || !IsStatic(type) || runtime::IsCustomDatatype(type->dtype)) return Expr();
    if (runtime::TensorBytes(StaticShape(type, op->name), type->dtype) > limit) return Expr();
  }
  // Weights that have been packed aren't needed in their first form, as a rule.
  const ReleaseOperands release{args};
  if (types.size() == 1) {
    auto direct = ops::EvaluateInBulk(op, args, call->attrs, types[0]);
    if (direct) return Constant(OutOfShortMemory(*direct), call->span);
  }
  if (!HasComputeRule(op)) return Expr();
  OpResults results = EvaluateOp(op, call->attrs, operands);
  Array<Expr> fields;
  for (const NDArray& tensor : results.tensors) fields.push_back(Constant(tensor, call->span));
  return results.is_tuple ? Expr(relay::Tuple(fields)) : fields[0];
}

}  // namespace treadle::driver
