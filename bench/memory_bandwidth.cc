// SPDX-License-Identifier: Apache-2.0
// Prints the bandwidth at which cores read memory, as JSON: {"gbytes_per_s": {"1": 24.1, "2": ...}}. Each thread sums
// 256 MiB of its own, in huge pages where the system has them, in one stream or in four; the best of several passes
// counts. Small pages and one stream leave a third of the bandwidth of a Zen 4 core unused, many streams some of that
// of all cores.
//
// Build: clang++ -O3 -march=native -pthread memory_bandwidth.cc; run: memory_bandwidth [threads ...]
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kFloats = size_t{64} << 20;
#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr size_t kLanes = kBytes / sizeof(float), kSums = 8;
constexpr size_t kHugePage = size_t{2} << 20;
using Vector = float __attribute__((vector_size(kBytes), aligned(4), may_alias));

/// Ones, which are never given back.
const float* Ones() {
  void* memory = std::aligned_alloc(kHugePage, kFloats * sizeof(float));
  if (memory == nullptr) std::exit(1);
#ifdef MADV_HUGEPAGE
  madvise(memory, kFloats * sizeof(float), MADV_HUGEPAGE);
#endif
  auto* data = static_cast<float*>(memory);
  std::fill(data, data + kFloats, 1.0f);
  return data;
}

/// Sums that don't wait for each other: one alone would add more slowly than memory delivers.
template <size_t kStreams>
float Sum(const float* data) {
  constexpr size_t kPart = kFloats / kStreams, kPerStream = kSums / kStreams;
  Vector sums[kSums] = {};
  for (size_t i = 0; i < kPart; i += kLanes * kPerStream) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kSums; ++k) {
      sums[k] += *reinterpret_cast<const Vector*>(data + k / kPerStream * kPart + i + k % kPerStream * kLanes);
    }
  }
  float sum = 0;
  for (const Vector& v : sums) {
    for (size_t lane = 0; lane < kLanes; ++lane) sum += v[lane];
  }
  return sum;
}

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Measure(int threads) {
  std::vector<const float*> data(threads);
  for (const float*& part : data) part = Ones();
  double best = 0;
  for (int pass = 0; pass < 10; ++pass) {
    std::vector<std::thread> pool;
    std::vector<double> begin(threads), end(threads);
    std::vector<float> sums(threads);
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        begin[t] = Now();
        sums[t] = pass % 2 == 0 ? Sum<1>(data[t]) : Sum<4>(data[t]);
        end[t] = Now();
      });
    }
    for (auto& thread : pool) thread.join();
    for (float sum : sums) {
      if (!(sum > 0)) std::exit(1);  // the loop must not vanish
    }
    double seconds = *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
    best = std::max(best, 4.0 * static_cast<double>(kFloats) * threads / seconds);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("{\"gbytes_per_s\": {");
  for (int i = 1; i < std::max(argc, 2); ++i) {
    int threads = argc > 1 ? std::max(1, std::atoi(argv[i])) : 1;
    std::printf("%s\"%d\": %.2f", i > 1 ? ", " : "", threads, Measure(threads) * 1e-9);
  }
  std::printf("}}\n");
}
