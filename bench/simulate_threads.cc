// SPDX-License-Identifier: Apache-2.0
// How a compiled model would scale over more cores than there are: the tasks of its parallel loops are run one after
// the other and timed, as many as so many threads would get, then dealt out as the thread pool deals them (ranges of
// consecutive tasks, work stealing). Memory and caches are those of one core, which has them for itself. Prints JSON;
// with `calls`, a row for each call of the model.
// Build: clang++ -O2 -std=c++20 -rdynamic -I include bench/simulate_threads.cc -L build/lib -ltreadle_runtime
// -Wl,-rpath,$PWD/build/lib -o build/bench/simulate_threads; run: build/bench/simulate_threads THREADS model.so [calls]
// (model.so compiled with -num-cores=THREADS; bench/thread_scaling.py does all that).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "treadle/runtime/c_backend_api.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/model.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTasksPerThread = 4;

double Now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// Seconds that a parallel loop takes beside its tasks: the launcher writes to, and waits for, each thread in turn.
/// What bench/fork_join.cc measures of two, and the transfer of two cache lines for each further one.
double ForkJoin(int threads) { return threads < 2 ? 0 : 0.4e-6 + 0.1e-6 * (threads - 2); }

/// A parallel loop: seconds of its tasks.
struct Launch {
  std::vector<double> tasks;
};
int simulated_threads = 1;
bool inside = false;
std::vector<Launch>* launches = nullptr;

/// Seconds until all tasks are done by threads that begin with ranges of them and then take those of others.
double Makespan(const std::vector<double>& tasks, int threads) {
  const int count = static_cast<int>(tasks.size()), all = std::min(threads, count);
  std::vector<int> next(all), end(all);
  std::vector<double> busy(all, 0);
  for (int t = 0; t < all; ++t) {
    next[t] = t * count / all;
    end[t] = (t + 1) * count / all;
  }
  for (int done = 0; done < count; ++done) {
    const int thread = static_cast<int>(std::min_element(busy.begin(), busy.end()) - busy.begin());
    int from = thread;
    while (next[from] >= end[from]) from = (from + 1) % all;
    busy[thread] += tasks[next[from]++];
  }
  return *std::max_element(busy.begin(), busy.end());
}

/// A call of the model: seconds outside of parallel loops, and its loops.
struct Call {
  std::string name;
  double serial = 0;
  std::vector<std::vector<double>> loops;

  double Alone() const {
    double seconds = serial;
    for (const auto& tasks : loops) {
      for (double task : tasks) seconds += task;
    }
    return seconds;
  }
  double With(int threads) const {
    double seconds = serial;
    for (const auto& tasks : loops) seconds += ForkJoin(threads) + Makespan(tasks, threads);
    return seconds;
  }
  size_t Parts() const {
    size_t most = 0;
    for (const auto& tasks : loops) most = std::max(most, tasks.size());
    return most;
  }
};

/// One run; the tasks of equal runs are the same.
std::vector<Call> RunOnce(treadle::runtime::GraphContext* graph) {
  std::vector<Launch> made;
  std::vector<Call> calls;
  launches = &made;
  double begin = Now();
  graph->RunVisiting([&](uint32_t node, uint32_t output, const treadle::runtime::NDArray&) {
    if (output != 0) return;
    Call call{graph->model().spec().nodes[node].name, Now() - begin, {}};
    for (const Launch& launch : made) {
      for (double task : launch.tasks) call.serial -= task;
      call.loops.push_back(launch.tasks);
    }
    made.clear();
    calls.push_back(std::move(call));
    begin = Now();
  });
  launches = nullptr;
  return calls;
}

/// The least of each task and call: what others take from this process only lengthens them.
void TakeLeast(const std::vector<Call>& from, std::vector<Call>* to) {
  if (to->empty()) *to = from;
  for (size_t i = 0; i < to->size(); ++i) {
    (*to)[i].serial = std::min((*to)[i].serial, from[i].serial);
    for (size_t l = 0; l < (*to)[i].loops.size(); ++l) {
      auto& tasks = (*to)[i].loops[l];
      for (size_t t = 0; t < tasks.size(); ++t) tasks[t] = std::min(tasks[t], from[i].loops[l][t]);
    }
  }
}

void SetInputs(const treadle::runtime::Model& model, treadle::runtime::ModelContext* context) {
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  for (const auto& input : model.inputs()) {
    std::vector<int64_t> shape = input.shape;
    for (int64_t& size : shape) size = std::max<int64_t>(1, size);
    auto value = treadle::runtime::NDArray::Empty(shape, input.dtype, treadle::runtime::Device{kDLCPU, 0});
    std::memset(value.data_ptr(), 0, value.nbytes());
    if (input.dtype == treadle::DataType::Float(32)) {
      auto* data = static_cast<float*>(value.data_ptr());
      for (size_t i = 0; i < value.nbytes() / sizeof(float); ++i) data[i] = normal(random);
    }
    context->SetInput(input.name, value);
  }
}

}  // namespace

/// Takes the place of the runtime's.
extern "C" int TreadleBackendParallelLaunch(TreadleParallelLambda lambda, void* cdata, int num_task) {
  const int most = num_task > 0 ? num_task : num_task == 0 ? std::numeric_limits<int>::max() : -num_task;
  TreadleParallelGroupEnv env{nullptr, num_task > 0 ? num_task : std::min(most, kTasksPerThread * simulated_threads)};
  const bool nested = inside;
  Launch launch;
  inside = true;
  int status = 0;
  for (int task = 0; task < env.num_task && status == 0; ++task) {
    const double start = Now();
    status = lambda(task, &env, cdata);
    launch.tasks.push_back(Now() - start);
  }
  inside = nested;
  if (!nested && launches != nullptr) launches->push_back(std::move(launch));
  return status;
}

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: simulate_threads THREADS model.so [calls]\n"), 2;
  constexpr int kRuns = 15;
  simulated_threads = std::max(1, std::atoi(argv[1]));
  const auto model = treadle::runtime::Model::Load(argv[2]);
  auto context = model.CreateContext();
  SetInputs(model, &context);
  context.Run();
  treadle::runtime::GraphContext* graph = context.executor().graph();
  if (graph == nullptr) return std::fprintf(stderr, "%s runs in the virtual machine, not as a graph\n", argv[2]), 2;
  std::vector<Call> calls;
  for (int run = 0; run < kRuns; ++run) TakeLeast(RunOnce(graph), &calls);
  double alone = 0, together = 0;
  for (const Call& call : calls) alone += call.Alone(), together += call.With(simulated_threads);
  std::printf("{\"threads\": %d, \"alone_ms\": %.4f, \"ms\": %.4f, \"speedup\": %.2f}\n", simulated_threads,
              alone * 1e3, together * 1e3, alone / together);
  if (argc < 4) return 0;
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
    const auto lost = [](const Call& c) { return c.With(simulated_threads) - c.Alone() / simulated_threads; };
    return lost(a) > lost(b);
  });
  std::printf("%10s %10s %8s %6s %6s  %s\n", "alone us", "us", "speedup", "loops", "parts", "call, by what it loses");
  for (const Call& call : calls) {
    std::printf("%10.1f %10.1f %8.2f %6zu %6zu  %s\n", call.Alone() * 1e6, call.With(simulated_threads) * 1e6,
                call.Alone() / call.With(simulated_threads), call.loops.size(), call.Parts(), call.name.c_str());
  }
}
