// SPDX-License-Identifier: Apache-2.0
// Prints the bandwidth at which cores read memory, as JSON: {"gbytes_per_s": {"1": 24.1, "2": ...}}. Each thread sums
// 256 MiB of its own; the best of several passes counts.
// Build: clang++ -O3 -march=native -ffast-math -pthread memory_bandwidth.cc; run: memory_bandwidth [threads ...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kFloats = size_t{64} << 20;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Measure(int threads) {
  std::vector<std::vector<float>> data(threads, std::vector<float>(kFloats, 1.0f));
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    std::vector<std::thread> pool;
    std::vector<double> begin(threads), end(threads);
    std::vector<float> sums(threads);
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&, t] {
        begin[t] = Now();
        float sum = 0;
        for (float x : data[t]) sum += x;
        sums[t] = sum;
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
