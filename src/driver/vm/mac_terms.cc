// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/mac_terms.h"

#include <algorithm>
#include <cmath>

#include "driver/vm/symbolic_kernel.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/mac_count.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using runtime::vm::MacTerm;

constexpr int64_t kProbe = 1024;  ///< a size that windows of convolutions fit into
constexpr int kMostDegrees = 3;

/// The multiply-adds of one call as a function of the dynamic dimensions. Operators count those of known sizes; the
/// counts are products of sizes, so those at a few sizes tell which.
class CallMacs {
 public:
  CallMacs(const CallNode* call, relay::FMacCount count) : call_(call), count_(count) {
    for (const relay::Expr& arg : call->args) AddSizes(arg->checked_type());
    AddSizes(call->checked_type());
  }

  /// Times dimensions as `find` gives them for a size; nothing where it fails, or the count is no such product.
  template <typename F>
  std::optional<MacTerm> Term(const F& find) const {
    std::vector<int64_t> sizes(open_.size(), kProbe);
    const double base = Count(sizes);
    MacTerm term{base, {}};
    for (size_t i = 0; i < open_.size() && base > 0; ++i) {
      sizes[i] = 2 * kProbe;
      const double degree = std::log2(Count(sizes) / base);
      sizes[i] = kProbe;
      if (degree != std::round(degree) || degree < 0 || degree > kMostDegrees) return std::nullopt;
      for (int k = 0; k < static_cast<int>(degree); ++k) {
        term.factor /= static_cast<double>(kProbe);
        if (!find(open_[i], &term)) return std::nullopt;
      }
    }
    return term;
  }

 private:
  void AddSizes(const Type& type) {
    std::vector<TensorType> tensors;
    FlattenTensorTypes(type, &tensors);
    for (const TensorType& tensor : tensors) {
      for (const PrimExpr& dim : tensor->shape) {
        if (AsConstInt(dim) == nullptr && Find(dim) == open_.size()) open_.push_back(dim);
      }
    }
  }
  size_t Find(const PrimExpr& dim) const {
    return static_cast<size_t>(std::find_if(open_.begin(), open_.end(),
                                            [&](const PrimExpr& other) { return arith::ExprDeepEqual(dim, other); }) -
                               open_.begin());
  }
  Type Closed(const Type& type, const std::vector<int64_t>& sizes) const {
    const auto* tensor = type.as<TensorTypeNode>();
    if (tensor == nullptr) return type;
    return TensorType(tensor->shape.Map([&](const PrimExpr& dim) {
      return AsConstInt(dim) != nullptr ? dim : PrimExpr(sizes[Find(dim)]);
    }),
                      tensor->dtype);
  }
  double Count(const std::vector<int64_t>& sizes) const {
    Array<Type> arguments;
    for (const relay::Expr& arg : call_->args) arguments.push_back(Closed(arg->checked_type(), sizes));
    return count_(call_->attrs, arguments, Closed(call_->checked_type(), sizes));
  }

  const CallNode* call_;
  relay::FMacCount count_;
  std::vector<PrimExpr> open_;
};

/// Adds the dimension, or the dimensions, whose product `size` is.
bool AddDims(const PrimExpr& size, const std::vector<TensorType>& tensors, MacTerm* term) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (size_t d = 0; d < tensors[t]->shape.size(); ++d) {
      if (!arith::ExprDeepEqual(tensors[t]->shape[d], size)) continue;
      term->dims.emplace_back(static_cast<uint32_t>(t), static_cast<uint32_t>(d));
      return true;
    }
  }
  if (const int64_t* value = AsConstInt(size)) {
    term->factor *= static_cast<double>(*value);
    return true;
  }
  const auto* product = size.as<tir::MulNode>();
  return product != nullptr && AddDims(product->a, tensors, term) && AddDims(product->b, tensors, term);
}

}  // namespace

std::optional<std::vector<MacTerm>> MacTermsOf(const relay::Function& func) {
  std::vector<TensorType> tensors;
  for (const relay::Var& param : func->params) FlattenTensorTypes(param->type_annotation, &tensors);
  FlattenTensorTypes(func->body->checked_type(), &tensors);
  std::vector<MacTerm> terms;
  bool known = true;
  relay::PostOrderVisit(func->body, [&](const relay::Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    const relay::FMacCount* count = op == nullptr ? nullptr : GetRef<Op>(op).GetAttr(relay::kMacCount);
    if (count == nullptr || !known) return;
    std::optional<MacTerm> term;
    try {
      term = CallMacs(call, *count).Term([&](const PrimExpr& size, MacTerm* t) { return AddDims(size, tensors, t); });
    } catch (const Error&) {
      // The operator doesn't take the sizes that were tried.
    }
    known = term.has_value();
    if (known) terms.push_back(*std::move(term));
  });
  if (!known) return std::nullopt;
  return terms;
}

}  // namespace treadle::driver
