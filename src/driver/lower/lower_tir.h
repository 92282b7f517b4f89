// SPDX-License-Identifier: Apache-2.0
// From scheduled functions to what backends take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tir/passes/passes.h"
#include "treadle/ir/target.h"
#include "treadle/tir/function.h"

namespace treadle::driver {

struct LowerOptions {
  bool simple_mode = false;  ///< leaves out loop partition and unrolling, for reading
  bool disable_vectorize = false;
  bool bounds_check = false;    ///< every access is checked at run time
  bool noalias = true;          ///< parameters don't overlap
  bool disable_assert = false;  ///< assertions written in functions are left out
  int unroll_max_step = 0;      ///< serial loops whose body has at most that many steps are unrolled; 0: none
  int unroll_max_depth = 8;
  int unroll_max_extent = 0;
  /// Called with the name of each pass and its result.
  std::function<void(const std::string& pass, const tir::PrimFunc& func)> after_pass;
  /// Options of the current PassContext (tir.disable_vectorize, tir.instrument_bound_checkers, tir.noalias,
  /// tir.disable_assert, tir.UnrollLoop).
  static LowerOptions FromContext();
};

/// Registers those options.
void RegisterLowerOptions();

/// What the passes are told.
tir::LowerConfig ConfigFor(const Target& target, const LowerOptions& options);

/// The function without the assertions written in it.
tir::PrimFunc WithoutAsserts(tir::PrimFunc func);

/// Runs the lowering passes: the result is in low-level form (loops, flat buffers, no blocks) and still has its
/// buffer_map. Backends add the calling convention.
tir::PrimFunc LowerPrimFunc(tir::PrimFunc func, const Target& target, const LowerOptions& options = {});

}  // namespace treadle::driver
