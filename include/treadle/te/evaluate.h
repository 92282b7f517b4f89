// SPDX-License-Identifier: Apache-2.0
// Elements of tensor expressions at constant indices, without a kernel: numbers, or expressions of symbolic dimensions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "treadle/arith/analyzer.h"
#include "treadle/te/tensor.h"

namespace treadle::te {

/// What is evaluated is exact: integer arithmetic as machines wrap it, float arithmetic and roundings that every
/// machine does alike. Elements that need more (functions such as exp, statements, memory) aren't known.
struct EvaluateOptions {
  /// Simplifies expressions; a fresh one where null. Bind to it what is known of the dimensions' variables.
  arith::Analyzer* analyzer = nullptr;
  /// Integers that aren't numbers are int64 whatever the tensor's type, so that casts between int32 and int64 don't
  /// stand in the way of simplification: what indices and sizes need, which don't overflow.
  bool sizes = false;
  /// Most steps (elements of tensors on the way, steps of reductions) in all.
  int64_t max_steps = 200000;
};

class ElementEvaluator {
 public:
  /// `input(i, k)`: element k (in row-major order) of the tensor inputs[i]; null where it isn't known. The functions
  /// are called as elements are asked for.
  ElementEvaluator(const Array<Tensor>& inputs, std::function<PrimExpr(size_t, int64_t)> input,
                   EvaluateOptions options = {});
  ~ElementEvaluator();
  ElementEvaluator(const ElementEvaluator&) = delete;
  ElementEvaluator& operator=(const ElementEvaluator&) = delete;

  /// The element of `tensor`, whose dimensions are constants: an IntImm or FloatImm of the tensor's type, or an
  /// expression; null where it isn't known.
  PrimExpr Element(const Tensor& tensor, const std::vector<int64_t>& index);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace treadle::te
