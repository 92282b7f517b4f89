// SPDX-License-Identifier: Apache-2.0
// Builds a batch of candidates and races each against the incumbent. What a worker does, here or on another machine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/file_io.h"
#include "tune/build.h"
#include "tune/child.h"
#include "tune/race.h"

namespace treadle::tune {

struct MeasureOptions {
  BuildLimits build;
  int threads = 0;          ///< that kernels run on; 0: all
  double block = 0.002;     ///< seconds of a block of runs
  double patience = 20;     ///< seconds that the child may take to load and fill what it needs
  double watchdog = 3;      ///< seconds that a candidate may take for a few runs, besides 100 times the incumbent
  int memory_mib = 4096;    ///< of the child, besides the tensors
  double tolerance = 1e-4;  ///< largest difference of results, as a part of their range
  int processes = 12;       ///< of a confirmation, at most
  int pairs = 14;           ///< in each of them
  RaceRules race;
};

/// What became of a candidate.
struct Measured {
  std::string plan;
  std::string state;  ///< "raced": faster than the incumbent; "rejected"; "error"
  std::string error;  ///< of "error": why; of "rejected": how
  Interval result;    ///< to the incumbent
  int pairs = 0, disturbed = 0;
  double seconds = 0;  ///< of the incumbent
};

/// Bytes that copies of a task's constants take at least while it is raced: as many as the model has of constants, so
/// that a run finds them where it would in the model, but not more than keep them out of all caches.
int64_t BytesOfCopies(const Task& task);

class Worker {
 public:
  explicit Worker(const MeasureOptions& options);

  /// Builds some of them at a time, then races these one after the other; `each` is told at once. Candidates of equal
  /// code are raced once. Throws where even the incumbent can't be built or run.
  std::vector<Measured> Batch(const Task& task, const std::string& incumbent, const std::vector<std::string>& plans,
                              const std::function<void(const Measured&)>& each = nullptr);
  /// One race of two libraries that are built.
  Measured RaceOne(const Task& task, const Built& incumbent, const Built& candidate);
  /// Seconds of a call with the plan, roughly.
  double Time(const Task& task, const std::string& plan);
  /// In fresh processes against the default plan.
  Confirmation ConfirmPlan(const Task& task, const std::string& plan);
  /// Two compiled models in turns, until it is clear whether `b` is faster than `a`, in a fresh process. Throws where
  /// `a` can't be run.
  Measured RaceLibraries(const std::string& a, const std::string& b, const RaceRules& rules, double tolerance);
  /// The same in several fresh processes, of so many pairs each.
  Confirmation ConfirmLibraries(const std::string& a, const std::string& b, double at_most);
  /// Two compiled models in turns: the ratio of b's times to a's.
  Interval RaceModels(const std::string& a, const std::string& b, double seconds, int pairs, double* worst);

 private:
  /// A child that has the task's arguments, and the incumbent in slot 0.
  MeasureChild& Child(const Task& task, const Built& incumbent);
  /// What becomes of a candidate; `met`: those that were raced, by their code.
  Measured Judge(const Task& task, const Built& incumbent, const Built& candidate, std::map<uint64_t, Measured>* met);
  void DropChild();
  /// Two compiled models into the slots; seconds of a run of the first.
  static double LoadLibraries(MeasureChild* child, const std::string& a, const std::string& b);
  std::vector<Pair> Pairs(MeasureChild* child, int count, double block, double seconds);
  Built BuildOne(const Task& task, const std::string& plan);

  MeasureOptions options_;
  runtime::TemporaryDirectory folder_;
  std::unique_ptr<MeasureChild> child_;
  std::string child_state_;  ///< task and incumbent that it has
  int loaded_ = 0;           ///< libraries that it has opened
  double incumbent_seconds_ = 0;
  int builds_ = 0;
};

}  // namespace treadle::tune
