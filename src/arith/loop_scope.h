// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "treadle/arith/analyzer.h"

namespace treadle::arith {

/// While alive, the variable of a loop lies in its range; afterwards nothing is known of it. Passes copy loops, so that
/// one variable may be that of several loops of other ranges: what holds in one must not be used for the next.
class LoopScope {
 public:
  LoopScope(Analyzer& analyzer, const tir::Var& var, const tir::Range& range) : analyzer_(analyzer), var_(var) {
    analyzer_.Bind(var, range);
  }
  ~LoopScope() { analyzer_.Bind(var_, ConstIntBound()); }
  LoopScope(const LoopScope&) = delete;
  LoopScope& operator=(const LoopScope&) = delete;

 private:
  Analyzer& analyzer_;
  tir::Var var_;
};

}  // namespace treadle::arith
