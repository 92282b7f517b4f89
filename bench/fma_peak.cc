// SPDX-License-Identifier: Apache-2.0
// Prints the machine's peak of single-precision multiply-adds as JSON: {"bits": 512, "gflops": {"1": 110.2, "2": ...}}.
// Independent accumulators hide the latency of the FMA units; the best of many short runs counts.
// Build: clang++ -O3 -march=native -ffp-contract=fast -pthread fma_peak.cc -o fma_peak; run: fma_peak [threads ...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kAccumulators = 24;
#elif defined(__AVX__)
constexpr int kBytes = 32, kAccumulators = 12;
#else
constexpr int kBytes = 16, kAccumulators = 12;
#endif
constexpr int kLanes = kBytes / static_cast<int>(sizeof(float));
using Vector = float __attribute__((vector_size(kBytes)));

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Runs `iterations` rounds of one multiply-add on each accumulator; returns their sum, so that all are needed.
__attribute__((noinline)) float Burn(long iterations, float factor, float addend) {
  Vector acc[kAccumulators];
  Vector x = Vector{} + factor, y = Vector{} + addend;
  for (int i = 0; i < kAccumulators; ++i) acc[i] = Vector{} + static_cast<float>(i);
  for (long n = 0; n < iterations; ++n) {
#pragma GCC unroll 32  // sums have to stay in registers
    for (int i = 0; i < kAccumulators; ++i) {
      acc[i] = acc[i] * x + y;
#if defined(__x86_64__)
      __asm__ volatile("" : "+v"(acc[i]));
#else
      __asm__ volatile("" : "+w"(acc[i]));
#endif
    }
  }
  Vector sum{};
  for (int i = 0; i < kAccumulators; ++i) sum += acc[i];
  return sum[0];
}

/// Operations per second of one burst on `threads` threads that start together.
double Measure(int threads, long iterations) {
  std::vector<std::thread> pool;
  std::vector<double> begin(threads), end(threads);
  std::vector<float> sink(threads);
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      begin[t] = Now();
      sink[t] = Burn(iterations, 0.999f, 0.001f);
      end[t] = Now();
    });
  }
  for (auto& thread : pool) thread.join();
  const double seconds = *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
  return 2.0 * kLanes * kAccumulators * static_cast<double>(iterations) * threads / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::max(1, std::atoi(argv[i])));
  if (counts.empty()) counts = {1};
  std::printf("{\"bits\": %d, \"gflops\": {", kBytes * 8);
  for (size_t i = 0; i < counts.size(); ++i) {
    double best = 0;
    for (int run = 0; run < 40; ++run) best = std::max(best, Measure(counts[i], 1000000));
    std::printf("%s\"%d\": %.1f", i > 0 ? ", " : "", counts[i], best * 1e-9);
  }
  std::printf("}}\n");
}
