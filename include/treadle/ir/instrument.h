// SPDX-License-Identifier: Apache-2.0
// Instruments that need no particular IR: timing and printing of passes. Those that check graph IR are in
// treadle/relay/instrument.h.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "treadle/ir/transform.h"

namespace treadle::transform {

/// Measures passes as a tree: a Sequential holds those that it ran.
class PassTiming : public PassInstrument {
 public:
  std::string name() const override { return "PassTimingInstrument"; }
  void EnterPassContext() override;
  void RunBeforePass(const IRModule& module, const PassInfo& info) override;
  void RunAfterPass(const IRModule& module, const PassInfo& info) override;

  /// A line per pass, in order, indented by depth: time with and without the passes inside, shares of the whole and of
  /// the pass around it. "FuseOps: 120us [100us] (12.00%; 24.00%)".
  std::string Render() const;
  /// Microseconds of the outermost passes together.
  double TotalMicroseconds() const;
  TREADLE_DECLARE_NODE(PassTiming, PassInstrument, "instrument.PassTiming");

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string name;
    size_t depth = 0;
    double microseconds = -1;  ///< -1: still running
    Clock::time_point start;
  };
  std::vector<Entry> entries_;   ///< in order of start
  std::vector<size_t> running_;  ///< indices into entries_, outermost first
};
ObjectPtr<PassTiming> MakePassTiming();

/// Calls `show` before or after (`before`) each pass of the given names; without names: each pass.
ObjectPtr<PassInstrument> MakePassObserver(std::vector<std::string> names, bool before,
                                           std::function<void(const IRModule&, const PassInfo&)> show);

}  // namespace treadle::transform
