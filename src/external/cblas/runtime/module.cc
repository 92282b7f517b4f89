// SPDX-License-Identifier: Apache-2.0
// Modules of type "cblas". Each product is split among Treadle's threads; the library itself runs on one thread, so
// that a model uses as many as it was told to.
#include <cblas.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "external/steps.h"
#include "treadle/base/int_math.h"
#include "treadle/external/region_module.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/thread_pool.h"

// Not declared by every BLAS library.
extern "C" __attribute__((weak)) void openblas_set_num_threads(int threads);

namespace treadle::external {

using runtime::NDArray;

namespace {

struct Matmul {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;
  bool one_a, one_b;  ///< the operand is one matrix for all of the batch
};

void Gemm(const Matmul& s, int64_t m, int64_t n, const float* a, const float* b, float* c) {
  const auto lda = static_cast<int>(s.transpose_a ? s.m : s.k), ldb = static_cast<int>(s.transpose_b ? s.k : s.n);
  cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(s.k), 1.0f, a, lda, b, ldb, 0.0f, c,
              static_cast<int>(s.n));
}
void Gemm(const Matmul& s, int64_t m, int64_t n, const double* a, const double* b, double* c) {
  const auto lda = static_cast<int>(s.transpose_a ? s.m : s.k), ldb = static_cast<int>(s.transpose_b ? s.k : s.n);
  cblas_dgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans,
              static_cast<int>(m), static_cast<int>(n), static_cast<int>(s.k), 1.0, a, lda, b, ldb, 0.0, c,
              static_cast<int>(s.n));
}

template <typename T>
void RunMatmul(const Matmul& s, const T* a, const T* b, T* c) {
  auto matrix = [&](int64_t i, const T** x, const T** y, T** z) {
    *x = s.one_a ? a : a + i * s.m * s.k;
    *y = s.one_b ? b : b + i * s.k * s.n;
    *z = c + i * s.m * s.n;
  };
  const T *x, *y;
  T* z;
  if (s.batch >= runtime::MaxConcurrency()) {
    runtime::ParallelFor(s.batch, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T *p, *q;
        T* r;
        matrix(i, &p, &q, &r);
        Gemm(s, s.m, s.n, p, q, r);
      }
    });
    return;
  }
  // Parts of at least 16 rows or columns, in whole multiples of that.
  constexpr int64_t kGrain = 16;
  const bool by_rows = s.m >= s.n;
  const int64_t parts = CeilDiv(by_rows ? s.m : s.n, kGrain);
  for (int64_t i = 0; i < s.batch; ++i) {
    matrix(i, &x, &y, &z);
    runtime::ParallelFor(parts, [&](int64_t begin, int64_t end) {
      if (begin >= end) return;
      const int64_t from = begin * kGrain, to = std::min(end * kGrain, by_rows ? s.m : s.n);
      if (by_rows) {
        Gemm(s, to - from, s.n, s.transpose_a ? x + from : x + from * s.k, y, z + from * s.n);
      } else {
        Gemm(s, s.m, to - from, x, s.transpose_b ? y + from * s.k : y + from, z + from);
      }
    });
  }
}

class CblasModule final : public RegionModule {
 public:
  explicit CblasModule(RegionParts parts)
      : RegionModule("cblas", std::move(parts)), steps_(Steps::FromJson(text(), "cblas region " + symbol())) {
    for (const Steps::Step& step : steps_.steps) matmuls_.push_back(Read(step));
  }

  void Init(const std::vector<NDArray>& constants) override {
    if (constants.size() != steps_.constants) throw Error(StrCat(symbol(), ": wrong number of constants"));
    constants_ = constants;
    if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
  }

  void Run(const std::vector<const DLTensor*>& args) const override {
    std::vector<void*> data(steps_.values.size(), nullptr);
    for (size_t i = 0; i < steps_.inputs; ++i) data[i] = Argument(args, i, i);
    for (size_t i = 0; i < constants_.size(); ++i) data[steps_.inputs + i] = constants_[i].data_ptr();
    for (size_t k = 0; k < steps_.outputs.size(); ++k) {
      void* place = Argument(args, steps_.inputs + k, steps_.outputs[k]);
      if (data[steps_.outputs[k]] == nullptr) data[steps_.outputs[k]] = place;
    }
    std::vector<NDArray> temporaries;
    for (size_t i = 0; i < steps_.steps.size(); ++i) {
      const Steps::Step& step = steps_.steps[i];
      const Steps::Value& value = steps_.values[step.out];
      if (data[step.out] == nullptr) {
        temporaries.push_back(NDArray::Empty(value.shape, value.dtype));
        data[step.out] = temporaries.back().data_ptr();
      }
      const void *a = data[step.in[0]], *b = data[step.in[1]];
      if (value.dtype.bits() == 32) {
        RunMatmul(matmuls_[i], static_cast<const float*>(a), static_cast<const float*>(b),
                  static_cast<float*>(data[step.out]));
      } else {
        RunMatmul(matmuls_[i], static_cast<const double*>(a), static_cast<const double*>(b),
                  static_cast<double*>(data[step.out]));
      }
    }
    for (size_t k = 0; k < steps_.outputs.size(); ++k) {
      const Steps::Value& value = steps_.values[steps_.outputs[k]];
      void* place = Argument(args, steps_.inputs + k, steps_.outputs[k]);
      if (place == data[steps_.outputs[k]]) continue;
      std::memcpy(place, data[steps_.outputs[k]], static_cast<size_t>(runtime::TensorBytes(value.shape, value.dtype)));
    }
  }

 private:
  void* Argument(const std::vector<const DLTensor*>& args, size_t i, size_t value) const {
    return CheckArgument(args, i, steps_.values[value].shape, steps_.values[value].dtype);
  }

  int64_t Size(size_t value) const {
    int64_t size = 1;
    for (int64_t dim : steps_.values[value].shape) size *= dim;
    return size;
  }

  /// Reads a step and checks that the products stay within the operands.
  Matmul Read(const Steps::Step& step) const {
    const auto fail = [&](const char* problem) {
      throw ModelFormatError(StrCat("cblas region ", symbol(), ": ", problem));
    };
    if (step.op != "matmul" || step.in.size() != 2) fail("an operator that isn't a product of two matrices");
    Matmul s{};
    try {
      s = {step.attrs.at("batch").get<int64_t>(),
           step.attrs.at("m").get<int64_t>(),
           step.attrs.at("n").get<int64_t>(),
           step.attrs.at("k").get<int64_t>(),
           step.attrs.at("transpose").at(0).get<bool>(),
           step.attrs.at("transpose").at(1).get<bool>(),
           step.attrs.at("one").at(0).get<bool>(),
           step.attrs.at("one").at(1).get<bool>()};
    } catch (const JsonError& error) {
      fail(error.what());
    }
    constexpr int64_t kMax = std::numeric_limits<int>::max();
    for (int64_t dim : {s.batch, s.m, s.n, s.k}) {
      if (dim <= 0 || dim > kMax) fail("a size out of range");
    }
    // As floating-point numbers: no overflow, and exact where it matters.
    auto is = [](double product, int64_t size) { return product == static_cast<double>(size); };
    const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
    const auto batch = static_cast<double>(s.batch);
    if (!is((s.one_a ? 1 : batch) * m * k, Size(step.in[0])) || !is((s.one_b ? 1 : batch) * k * n, Size(step.in[1])) ||
        !is(batch * m * n, Size(step.out))) {
      fail("sizes that don't fit the operands");
    }
    const DataType dtype = steps_.values[step.out].dtype;
    if ((dtype != DataType::Float(32) && dtype != DataType::Float(64)) || steps_.values[step.in[0]].dtype != dtype ||
        steps_.values[step.in[1]].dtype != dtype) {
      fail("operands of a type that BLAS doesn't have");
    }
    return s;
  }

  const Steps steps_;
  std::vector<Matmul> matmuls_;
  std::vector<NDArray> constants_;
};

void RegisterCblas() { RegisterRegionModule<CblasModule>("cblas"); }

}  // namespace
}  // namespace treadle::external

TREADLE_PLUGIN("cblas", treadle::external::RegisterCblas)
