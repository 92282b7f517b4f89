// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/run_limits.h"

namespace treadle::runtime {
namespace {

using Clock = std::chrono::steady_clock;

thread_local const RunLimitScope* current = nullptr;

Clock::time_point EndOf(double timeout_s) {
  if (!(timeout_s >= 0)) throw Error(StrCat("the time limit of a run is ", timeout_s, " s; expected 0 (none) or more"));
  constexpr double kNever = 1e9;  // what the clock can't count to either
  if (timeout_s == 0 || timeout_s > kNever) return Clock::time_point::max();
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
}

}  // namespace

RunLimitScope::RunLimitScope(const RunLimits& limits)
    : limits_(limits), end_(EndOf(limits.timeout_s)), outer_(current) {
  current = this;
}

RunLimitScope::~RunLimitScope() { current = outer_; }

void RunLimitScope::Check() const {
  if (limits_.cancel.has_value() && limits_.cancel->IsCancelled()) throw RunCancelled("the run was cancelled");
  if (end_ != Clock::time_point::max() && Clock::now() > end_) {
    throw RunTimeout(StrCat("the run took longer than its time limit of ", limits_.timeout_s, " s"));
  }
  if (outer_ != nullptr) outer_->Check();
}

const RunLimitScope* RunLimitScope::Current() { return current; }

}  // namespace treadle::runtime
