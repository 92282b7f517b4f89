// SPDX-License-Identifier: Apache-2.0
// Probabilities of classes from those of pairs of classes (Wu, Lin and Weng 2004, "Probability estimates for
// multi-class classification by pairwise coupling", the second method), as libsvm computes them.
#include <algorithm>
#include <cmath>

#include "runtime/vm/host/host.h"

namespace treadle::runtime::vm {
namespace {

constexpr float kLeast = 1e-7F;
constexpr int64_t kMaxClasses = 4096;

using Matrix = std::vector<std::vector<double>>;

/// `r`[i][j]: the probability of i where it is i or j.
std::vector<double> Couple(const Matrix& r) {
  const size_t k = r.size();
  Matrix q(k, std::vector<double>(k, 0));
  std::vector<double> p(k, 1.0 / static_cast<double>(k)), qp(k, 0);
  for (size_t t = 0; t < k; ++t) {
    for (size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t][t] += r[j][t] * r[j][t];
      q[t][j] = -r[j][t] * r[t][j];
    }
  }
  const double enough = 0.005 / static_cast<double>(k);
  for (size_t iteration = 0; iteration < std::max<size_t>(100, k); ++iteration) {
    double pqp = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < k; ++j) qp[t] += q[t][j] * p[j];
      pqp += p[t] * qp[t];
    }
    double error = 0;
    for (size_t t = 0; t < k; ++t) error = std::max(error, std::fabs(qp[t] - pqp));
    if (error < enough) break;
    for (size_t t = 0; t < k; ++t) {
      const double step = (-qp[t] + pqp) / q[t][t];
      p[t] += step;
      pqp = (pqp + step * (step * q[t][t] + 2 * qp[t])) / (1 + step) / (1 + step);
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + step * q[t][j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

/// (probabilities of pairs (rows, k (k - 1) / 2), k): (rows, k).
ObjectRef CoupleRows(HostRun& run, const HostArgs& args) {
  NDArray pairs = TensorArg(args, 0, DataType::Float(32));
  const int64_t k = IntArg(args, 1);
  if (k < 2 || k > kMaxClasses || pairs.ndim() != 2 || pairs.shape()[1] != k * (k - 1) / 2) {
    throw ShapeError(StrCat(ShapeString(pairs.shape()), " probabilities of pairs of ", k, " classes"));
  }
  const int64_t rows = pairs.shape()[0];
  NDArray result = run.alloc({rows, k}, DataType::Float(32));
  Matrix r(static_cast<size_t>(k), std::vector<double>(static_cast<size_t>(k), 0));
  for (int64_t row = 0; row < rows; ++row) {
    const float* p = pairs.Data<float>() + row * pairs.shape()[1];
    for (size_t i = 0; i < r.size(); ++i) {
      for (size_t j = i + 1; j < r.size(); ++j, ++p) {
        r[i][j] = std::clamp(*p, kLeast, 1 - kLeast);
        r[j][i] = 1 - r[i][j];
      }
    }
    const std::vector<double> coupled = Couple(r);
    for (size_t i = 0; i < coupled.size(); ++i) {
      result.Data<float>()[row * k + static_cast<int64_t>(i)] = static_cast<float>(coupled[i]);
    }
  }
  return result;
}

}  // namespace

void AddProbabilityFunctions(HostTable* table) { (*table)["svm.couple"] = CoupleRows; }

}  // namespace treadle::runtime::vm
