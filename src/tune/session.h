// SPDX-License-Identifier: Apache-2.0
// `treadle tune`: the tasks of a model in turns, until the time is up; then the whole model decides what stays.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "treadle/schedule/records.h"
#include "tune/measure.h"
#include "tune/search.h"

namespace treadle::tune {

struct TuneOptions {
  std::string model;  ///< path: .onnx or .relay; a name where there is `compile_model`
  driver::CompileOptions compile;
  /// Compiles what isn't a file.
  std::function<driver::CompiledModel(const driver::CompileOptions&)> compile_model;
  std::string output;  ///< file of records, appended to
  double seconds = 600;
  int trials = 0;  ///< candidates to measure at most; 0: as many as there is time for
  uint64_t seed = 0;
  bool resume = true;    ///< plans that the file has needn't be measured again
  bool dry_run = false;  ///< only tells what there is to tune
  bool graph = true;     ///< algorithms and layouts, too; else plans of kernels alone
  MeasureOptions measure;
  SearchOptions search;
  /// A line for people, several times a second at most; `done` of the tasks' work, 0 to 1.
  std::function<void(const std::string& line)> progress;
};

/// A candidate that was measured.
struct Trial {
  std::string plan, state, error;
  double ratio = 1, lo = 1, hi = 1;  ///< of its time to that of the default plan
  double at = 0;                     ///< seconds since the session began
};

struct TaskReport {
  std::string name, plan, default_plan;
  int uses = 1, measured = 0, errors = 0;
  size_t space = 0;  ///< plans that the kernel names for the problem
  double seconds = 0, ratio = 1, lo = 1, hi = 1;
  std::string state;  ///< "default", "confirmed", "not confirmed", "withdrawn"
  std::string first_error;
  std::vector<Trial> trials;
};

/// An algorithm or layout that the graph could have had.
struct GraphReport {
  std::string op, name, from, to, state, error;
  double ratio = 1, lo = 1, hi = 1;  ///< of the whole model's time
  double at = 0;
};

struct TuneReport {
  std::string name, target, machine;
  std::vector<GraphReport> graph;
  std::vector<TaskReport> tasks;
  Interval model;         ///< tuned over default
  bool accepted = false;  ///< the model is faster with the records
  double predicted = 1;   ///< from the kernels' ratios and shares
  double seconds = 0;
  int measured = 0;
  std::string ToJson() const;
  std::string ToText() const;
  /// A page that needs nothing beside itself.
  std::string ToHtml() const;
};

/// Throws Error where nothing can be measured; what single candidates do is recorded.
TuneReport Tune(const TuneOptions& options);

/// Plans that did well for the most similar problems of the same kernel, nearest first.
std::vector<std::string> NearestPlans(const std::vector<schedule::TuningRecord>& records, const Task& task,
                                      size_t count);

}  // namespace treadle::tune
