// SPDX-License-Identifier: Apache-2.0
#include "passes/channel_scale.h"

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

bool AllPositive(const ConstantNode* constant) {
  if (constant->data.dtype() != DataType::Float(32) || !constant->data.IsCompact()) return false;
  for (int64_t i = 0; i < constant->data.size(); ++i) {
    if (!(constant->data.Data<float>()[i] > 0)) return false;
  }
  return true;
}

bool IsConstantish(const Expr& expr, int depth) {
  if (expr.as<ConstantNode>()) return true;
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || depth > 16 || call->args.empty() || !IsPureOp(call)) return false;
  for (const Expr& arg : call->args) {
    if (!IsConstantish(arg, depth + 1)) return false;
  }
  return true;
}

}  // namespace

bool IsConstantish(const Expr& expr) { return IsConstantish(expr, 0); }

std::optional<Scale> AsChannelScale(const Expr& factor, const TensorTypeNode* data) {
  const auto* type = TensorTypeOf(factor);
  if (type == nullptr || data == nullptr || !IsStatic(type) || !IsConstantish(factor)) return std::nullopt;
  size_t rank = data->shape.size(), factor_rank = type->shape.size();
  if (factor_rank > rank || factor_rank == 0) return std::nullopt;
  int axis = -1;
  int64_t size = 0;
  for (size_t i = 0; i < factor_rank; ++i) {
    int64_t dim = *AsConstInt(type->shape[i]);
    if (dim == 1) continue;
    if (axis >= 0) return std::nullopt;
    axis = static_cast<int>(i + rank - factor_rank);
    size = dim;
  }
  if (axis < 0) return std::nullopt;
  const int64_t* channels = AsConstInt(data->shape[static_cast<size_t>(axis)]);
  if (channels == nullptr || *channels != size) return std::nullopt;
  Scale scale;
  scale.axis = axis;
  const auto* constant = factor.as<ConstantNode>();
  scale.positive = constant != nullptr && AllPositive(constant);
  scale.vector = factor_rank == 1 ? factor : ops::MakeReshape(factor, std::vector<int64_t>{size});
  return scale;
}

}  // namespace treadle::relay
