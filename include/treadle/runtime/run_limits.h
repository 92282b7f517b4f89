// SPDX-License-Identifier: Apache-2.0
// Ends runs early: at another thread's wish, or after a time.
//
//   CancelToken stop;  // a copy for the thread that may want to end it
//   RunLimitScope limits({.cancel = stop, .timeout_s = 0.5});
//   model.Run(inputs);  // throws RunCancelled or RunTimeout where it was ended
//
// Runs of the scope's thread are looked after: before each kernel, at each parallel task of a kernel, at each jump and
// call of the virtual machine, and in the loops of interpreted kernels. A kernel of machine code (or its task) that has
// begun is finished. The model and its contexts can be used as before afterwards; a context that was ended has no
// outputs of that run.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "treadle/base/error.h"

namespace treadle::runtime {

/// A run that a CancelToken ended.
class RunCancelled : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  const char* kind() const override { return "RunCancelled"; }
};

/// A run that took longer than it was allowed to.
class RunTimeout : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  const char* kind() const override { return "RunTimeout"; }
};

/// A wish to end runs. Copies are the same token; any thread, also a signal handler, may set it.
class CancelToken {
 public:
  CancelToken() : cancelled_(std::make_shared<std::atomic<bool>>(false)) {}
  /// Ends runs under the token, those that begin later too, until it is taken back.
  void Cancel(bool cancelled = true) const { cancelled_->store(cancelled, std::memory_order_relaxed); }
  bool IsCancelled() const { return cancelled_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> cancelled_;
};

struct RunLimits {
  std::optional<CancelToken> cancel;
  double timeout_s = 0;  ///< seconds from the scope's beginning; 0: no limit. Negative ones and NaN are an Error.
};

/// Limits of all runs that the calling thread begins while the scope lasts, besides those of scopes around it.
class RunLimitScope {
 public:
  explicit RunLimitScope(const RunLimits& limits);
  ~RunLimitScope();
  RunLimitScope(const RunLimitScope&) = delete;
  RunLimitScope& operator=(const RunLimitScope&) = delete;

  /// Throws RunCancelled or RunTimeout where a limit is exceeded. Any thread may ask.
  void Check() const;
  /// The innermost scope of the calling thread; null where there is none.
  static const RunLimitScope* Current();

 private:
  RunLimits limits_;
  std::chrono::steady_clock::time_point end_;
  const RunLimitScope* outer_;
};

}  // namespace treadle::runtime
