// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/moved_weights.h"

#include "treadle/ops/evaluate.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr int kMostCalls = 64;

bool OnlyMoves(const Op& op) {
  return op.GetAttr(kReshapeOp, false) || op->name == "transpose" || op->name == "strided_slice" ||
         op->name == "concatenate";
}

/// `budget`: calls that may still be looked at.
std::optional<NDArray> Evaluate(const Expr& expr, int* budget) {
  if (const auto* constant = expr.as<relay::ConstantNode>()) return constant->data;
  const auto* call = expr.as<relay::CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr || --*budget < 0) return std::nullopt;
  const Op op = Downcast<Op>(call->op);
  const auto* type = call->type_as<TensorTypeNode>();
  if (!OnlyMoves(op) || type == nullptr || !IsStatic(type)) return std::nullopt;
  std::vector<NDArray> operands;
  auto add = [&](const Expr& operand) {
    std::optional<NDArray> value = Evaluate(operand, budget);
    if (value) operands.push_back(*value);
    return value.has_value();
  };
  for (const Expr& arg : call->args) {
    const auto* tuple = arg.as<relay::TupleNode>();
    if (tuple == nullptr && !add(arg)) return std::nullopt;
    if (tuple == nullptr) continue;
    for (const Expr& field : tuple->fields) {
      if (!add(field)) return std::nullopt;
    }
  }
  return ops::EvaluateInBulk(op, operands, call->attrs, type);
}

}  // namespace

std::optional<NDArray> MovedWeight(const Expr& expr) {
  int budget = kMostCalls;
  return Evaluate(expr, &budget);
}

}  // namespace treadle::onnx
