// SPDX-License-Identifier: Apache-2.0
// Small integer results of kernels as expressions: what programs compute shapes with needs no kernel.
#include "driver/lower/lower_te.h"
#include "driver/vm/symbolic_kernel.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/prim_functor.h"
#include "treadle/te/evaluate.h"

namespace treadle::driver {
namespace {

constexpr int64_t kMaxSteps = 20000;

/// Whether the integer registers of the VM can compute the expression.
class OnlyIntegers : public tir::ExprVisitor {
 public:
  bool ok = true;
  int nodes = 0;
  void VisitExpr(const PrimExpr& e) override {
    ok = ok && e.dtype().is_integral() && e.dtype().is_scalar() && ++nodes < 200;
    if (ok) tir::ExprVisitor::VisitExpr(e);
  }
  using tir::ExprVisitor::VisitExpr_;
  void VisitExpr_(const tir::CallNode*) override { ok = false; }
};

}  // namespace

std::optional<std::vector<std::vector<PrimExpr>>> SymbolicElements(
    const SymbolicKernel& kernel, const std::function<PrimExpr(size_t, int64_t)>& param, int64_t max_elements) {
  std::vector<std::vector<int64_t>> shapes;
  int64_t total = 0;
  for (const TensorType& type : kernel.results) {
    if (!type->dtype.is_integral() || !IsStatic(type.get())) return std::nullopt;
    shapes.push_back(StaticShape(type.get(), "result"));
    total += NumElements(shapes.back());
    if (total > max_elements) return std::nullopt;
  }
  std::vector<std::vector<PrimExpr>> elements;
  try {
    TensorFunction tensors = LowerToTensors(kernel.func);
    te::EvaluateOptions options;
    options.max_steps = kMaxSteps;
    te::ElementEvaluator evaluator(tensors.inputs, param, options);
    for (size_t r = 0; r < shapes.size(); ++r) {
      elements.emplace_back();
      for (int64_t flat = 0, n = NumElements(shapes[r]); flat < n; ++flat) {
        std::vector<int64_t> index(shapes[r].size());
        int64_t rest = flat;
        for (size_t d = index.size(); d-- > 0; rest /= shapes[r][d]) index[d] = rest % shapes[r][d];
        PrimExpr value = evaluator.Element(tensors.outputs[r], index);
        OnlyIntegers check;
        if (value.defined()) check(value);
        if (!value.defined() || !check.ok) return std::nullopt;
        elements.back().push_back(value);
      }
    }
  } catch (const UnsupportedOpError&) {
    return std::nullopt;
  }
  return elements;
}

}  // namespace treadle::driver
