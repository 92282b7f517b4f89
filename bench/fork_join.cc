// SPDX-License-Identifier: Apache-2.0
// What a parallel loop costs before it does anything: the time of TreadleBackendParallelLaunch with empty tasks, in a
// row (workers are still awake) and after a pause (they sleep). Prints JSON, microseconds.
// Build: clang++ -O2 -std=c++20 -I include bench/fork_join.cc -L build/lib -ltreadle_runtime -Wl,-rpath,$PWD/build/lib
// -o build/bench/fork_join; run: TREADLE_NUM_THREADS=2 build/bench/fork_join
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "treadle/runtime/c_backend_api.h"

namespace {

int Nothing(int, TreadleParallelGroupEnv* env, void* tasks) {
  *static_cast<int*>(tasks) = env->num_task;
  return 0;
}

double Now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Median and 90th percentile of `count` launches, each after a pause.
std::vector<double> Launches(int count, std::chrono::microseconds pause, int* tasks) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const double start = Now();
    TreadleBackendParallelLaunch(Nothing, tasks, 0);
    times.push_back(Now() - start);
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times[times.size() * 9 / 10]};
}

}  // namespace

int main() {
  int tasks = 0;
  Launches(1000, std::chrono::microseconds(0), &tasks);
  const auto hot = Launches(20000, std::chrono::microseconds(0), &tasks);
  const auto cold = Launches(200, std::chrono::microseconds(3000), &tasks);
  std::printf("{\"threads\": %d, \"hot_us\": %.2f, \"hot_p90_us\": %.2f, \"cold_us\": %.2f, \"cold_p90_us\": %.2f}\n",
              tasks, hot[0], hot[1], cold[0], cold[1]);
}
