// SPDX-License-Identifier: Apache-2.0
// Small functions to schedule. Float values that the tests feed are integers, so results are exact.
#pragma once

#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"

namespace treadle::testing_util {

inline PrimExpr Dim(int64_t n) { return PrimExpr(static_cast<int>(n)); }

inline tir::PrimFunc Matmul(int m, int n, int depth) {
  using namespace te;  // NOLINT(google-build-using-namespace)
  Tensor a = Placeholder({Dim(m), Dim(depth)}, DataType::Float(32), "A");
  Tensor b = Placeholder({Dim(depth), Dim(n)}, DataType::Float(32), "B");
  IterVar k = ReduceAxis(Range(Dim(depth)), "k");
  Tensor c = Compute({Dim(m), Dim(n)}, [&](const Array<Var>& i) { return Sum(a(i[0], k) * b(k, i[1]), {k}); }, "C");
  return CreatePrimFunc({a, b, c});
}

/// T0 = A * A, T1 = T0 * T0, ...
inline tir::PrimFunc Chain(int n, int length) {
  using namespace te;  // NOLINT(google-build-using-namespace)
  Tensor a = Placeholder({Dim(n)}, DataType::Float(32), "A");
  Tensor t = a;
  for (int step = 0; step < length; ++step) {
    Tensor x = t;
    t = Compute({Dim(n)}, [&](const Array<Var>& i) { return x(i[0]) * x(i[0]); }, StrCat("T", step));
  }
  return CreatePrimFunc({a, t});
}

/// Two channels, padded convolution of height and width n, and max with 0.
inline tir::PrimFunc ConvRelu(int n, int window) {
  using namespace te;  // NOLINT(google-build-using-namespace)
  int p = window / 2;
  Tensor data = Placeholder({Dim(2), Dim(n), Dim(n)}, DataType::Float(32), "data");
  Tensor weight = Placeholder({Dim(3), Dim(2), Dim(window), Dim(window)}, DataType::Float(32), "weight");
  Tensor pad = Compute(
      {Dim(2), Dim(n + 2 * p), Dim(n + 2 * p)},
      [&](const Array<Var>& i) {
        PrimExpr inside = i[1] >= p && i[1] < n + p && i[2] >= p && i[2] < n + p;
        return tir::if_then_else(inside, data(i[0], i[1] - p, i[2] - p), PrimExpr(0.0f));
      },
      "pad");
  IterVar c = ReduceAxis(Range(Dim(2)), "c"), y = ReduceAxis(Range(Dim(window)), "ky"),
          x = ReduceAxis(Range(Dim(window)), "kx");
  Tensor conv = Compute(
      {Dim(3), Dim(n), Dim(n)},
      [&](const Array<Var>& i) { return Sum(pad(c, i[1] + y, i[2] + x) * weight(i[0], c, y, x), {c, y, x}); }, "conv");
  Tensor relu = Compute(
      {Dim(3), Dim(n), Dim(n)}, [&](const Array<Var>& i) { return tir::max(conv(i[0], i[1], i[2]), PrimExpr(0.0f)); },
      "relu");
  return CreatePrimFunc({data, weight, relu});
}

inline tir::PrimFunc Softmax(int rows, int columns) {
  using namespace te;  // NOLINT(google-build-using-namespace)
  Tensor a = Placeholder({Dim(rows), Dim(columns)}, DataType::Float(32), "A");
  IterVar k = ReduceAxis(Range(Dim(columns)), "k"), k1 = ReduceAxis(Range(Dim(columns)), "k");
  Tensor max = Compute({Dim(rows)}, [&](const Array<Var>& i) { return MaxReduce(a(i[0], k), {k}); }, "max");
  Tensor exp = Compute(
      {Dim(rows), Dim(columns)}, [&](const Array<Var>& i) { return tir::exp(a(i[0], i[1]) - max(i[0])); }, "exp");
  Tensor sum = Compute({Dim(rows)}, [&](const Array<Var>& i) { return Sum(exp(i[0], k1), {k1}); }, "sum");
  Tensor out =
      Compute({Dim(rows), Dim(columns)}, [&](const Array<Var>& i) { return exp(i[0], i[1]) / sum(i[0]); }, "softmax");
  return CreatePrimFunc({a, out});
}

}  // namespace treadle::testing_util
