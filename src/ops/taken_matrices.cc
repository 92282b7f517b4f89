// SPDX-License-Identifier: Apache-2.0
#include "ops/taken_matrices.h"

#include "ops/infer.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/transform.h"

namespace treadle::ops {
namespace {

constexpr size_t kRank = 3;

/// The type of a float32 tensor of rank 3; null for others.
const TensorTypeNode* Matrices(const relay::ExprNode* e) {
  const auto* type = e->type_as<TensorTypeNode>();
  const bool fits = type != nullptr && type->shape.size() == kRank && type->dtype == DataType::Float(32);
  return fits ? type : nullptr;
}

bool IsTaken(const relay::Expr& e) {
  if (!relay::IsCallOf(e, Op::Get("take"))) return false;
  const auto* call = e.as<relay::CallNode>();
  const auto *from = Matrices(call->args[0].get()), *taken = Matrices(call);
  if (from == nullptr || taken == nullptr || call->attrs_as<TakeAttrs>()->axis != 0) return false;
  for (size_t d = 1; d < kRank; ++d) {
    if (AsConstInt(from->shape[d]) == nullptr || !StructuralEqual(from->shape[d], taken->shape[d])) return false;
  }
  return true;
}

}  // namespace

std::optional<OpPatternKind> PatternOfTake(const relay::CallNode* call) {
  if (!IsTaken(GetRef<relay::Expr>(call))) return std::nullopt;
  return OpPatternKind::kBroadcast;
}

std::optional<OpPatternKind> PatternOfProduct(const relay::CallNode* call) {
  const auto* product = Matrices(call);
  if (product == nullptr) return std::nullopt;
  // By one column, or one row.
  const bool once = (tir::is_one(product->shape[2]) && IsTaken(call->args[0])) ||
                    (tir::is_one(product->shape[1]) && IsTaken(call->args[1]));
  return once ? std::optional(OpPatternKind::kCommReduce) : std::nullopt;
}

}  // namespace treadle::ops
