// SPDX-License-Identifier: Apache-2.0
// Fork-join parallelism for compiled code: one set of worker threads for the whole process.
//
// A launch claims workers that are idle, up to the calling thread's limit, and takes part itself: each thread begins
// with its share of the tasks and then takes what others haven't begun. Launches from several threads share the
// workers, so that two models running side by side don't start more threads than the process may use. A launch from
// inside a task runs serially. Idle workers spin for a moment, then sleep; for a loop that took less than waking a
// thread when it ran last, none is woken.
#pragma once

#include <cstdint>
#include <functional>

#include "treadle/runtime/c_backend_api.h"

namespace treadle::runtime {

/// Default maximum number of threads of a launch by the calling thread: see DefaultThreads in
/// cpu_topology.h. A thread that is bound to few CPUs uses no more threads than that.
int DefaultConcurrency();
/// The calling thread's limit.
int MaxConcurrency();
/// Sets the calling thread's limit; 0 restores the default. Negative numbers are an Error.
void SetMaxConcurrency(int threads);

/// Sets the calling thread's limit for a scope; 0 leaves it as it is.
class ConcurrencyScope {
 public:
  explicit ConcurrencyScope(int threads);
  ~ConcurrencyScope();
  ConcurrencyScope(const ConcurrencyScope&) = delete;
  ConcurrencyScope& operator=(const ConcurrencyScope&) = delete;

 private:
  int saved_;
};

/// A model's run in the calling thread, with a limit as of ConcurrencyScope. While it lasts, also between its launches,
/// launches of other threads leave it a processor.
class RunScope {
 public:
  explicit RunScope(int threads);
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  ConcurrencyScope concurrency_;
  void* pool_ = nullptr;  ///< that this thread is counted in
};

/// Runs `lambda` for task 0 .. n-1 and waits; n is `num_task` where positive, else chosen from the number of threads
/// that are free, for a negative `num_task` at most -num_task.
/// Returns 0, or -1 with the error of the lowest task that failed as the thread's last error.
int ParallelLaunch(TreadleParallelLambda lambda, void* cdata, int num_task);

/// Calls `body(begin, end)` on consecutive parts of [0, size), in parallel. Throws what the lowest part threw.
void ParallelFor(int64_t size, const std::function<void(int64_t, int64_t)>& body);

/// Number of worker threads that exist now (the calling threads not counted).
int WorkerThreads();

}  // namespace treadle::runtime
