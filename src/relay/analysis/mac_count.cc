// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/mac_count.h"

#include <algorithm>

#include "treadle/relay/expr_functor.h"

namespace treadle::relay {
namespace {

bool IsStaticTensor(const Type& type) {
  const auto* tensor = type.as<TensorTypeNode>();
  return tensor != nullptr && std::all_of(tensor->shape.begin(), tensor->shape.end(),
                                          [](const PrimExpr& dim) { return AsConstInt(dim) != nullptr; });
}

double MacCount(const CallNode* call) {
  const auto* op = call->op.as<OpNode>();
  const FMacCount* count = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kMacCount);
  if (count == nullptr) return 0;
  Array<Type> arguments;
  for (const Expr& arg : call->args) arguments.push_back(arg->checked_type());
  const Type& result = call->checked_type();
  if (!IsStaticTensor(result) || !std::all_of(arguments.begin(), arguments.end(), IsStaticTensor)) return 0;
  return (*count)(call->attrs, arguments, result);
}

}  // namespace

double TotalMacCount(const Expr& expr) {
  double total = 0;
  PostOrderVisit(expr, [&total](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) total += MacCount(call);
  });
  return total;
}

double MacShare(const Expr& expr) {
  double share = 1;
  PostOrderVisit(expr, [&share](const Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    const FMacShare* of_call = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(kMacShare);
    if (of_call == nullptr) return;
    Array<Type> arguments;
    for (const Expr& arg : call->args) arguments.push_back(arg->checked_type());
    share = std::min(share, (*of_call)(arguments));
  });
  return share;
}

}  // namespace treadle::relay
