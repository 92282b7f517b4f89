// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/constants.h"

#include "treadle/runtime/scalar.h"

namespace treadle::ops {
namespace {

/// The tensor of a compact constant of rank 0 or 1; null for other expressions.
const runtime::NDArray* ListOf(const relay::Expr& expr) {
  const auto* constant = expr.as<relay::ConstantNode>();
  return constant == nullptr || constant->data.ndim() > 1 || !constant->data.IsCompact() ? nullptr : &constant->data;
}

}  // namespace

std::optional<std::vector<int64_t>> ConstIntegers(const relay::Expr& expr) {
  const runtime::NDArray* list = ListOf(expr);
  if (list == nullptr || !list->dtype().is_integral()) return std::nullopt;
  return runtime::ToInt64s(*list);
}

std::optional<std::vector<double>> ConstNumbers(const relay::Expr& expr) {
  const runtime::NDArray* list = ListOf(expr);
  if (list == nullptr || !runtime::IsNumber(list->dtype())) return std::nullopt;
  return runtime::ToDoubles(*list);
}

}  // namespace treadle::ops
