// SPDX-License-Identifier: Apache-2.0
#include "cli/measured_run.h"

#include <chrono>

#include "cli/profile.h"

namespace treadle::cli {

std::vector<double> Measure(const runtime::NamedTensors& inputs, int repeat, int threads, PageRequest* page,
                            std::vector<runtime::OpTiming>* last) {
  runtime::ModelContext context = page->model.CreateContext();
  context.SetThreads(threads);
  for (const auto& [name, tensor] : inputs) context.SetInput(name, tensor);
  std::vector<double> whole;
  std::vector<std::vector<runtime::OpTiming>> runs;
  context.Run();
  for (int i = 0; i < repeat; ++i) {  // in turns, so that what else the machine does hits both
    const auto start = std::chrono::steady_clock::now();
    context.Run();
    whole.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    runs.push_back(context.RunProfiled());
  }
  page->timings = MedianOfRuns(runs);
  page->seconds = Summarise(whole).median;
  page->threads = threads;
  if (last != nullptr) *last = runs.back();
  return whole;
}

}  // namespace treadle::cli
