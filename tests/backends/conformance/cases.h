// SPDX-License-Identifier: Apache-2.0
// Programs that every backend must run with the same results.
#pragma once

#include <string>
#include <vector>

#include "treadle/runtime/ndarray.h"
#include "treadle/tir/function.h"

namespace treadle::conformance {

struct Case {
  std::string name;
  tir::PrimFunc func;                    ///< schedulable form
  std::vector<runtime::NDArray> inputs;  ///< of all parameters; outputs hold garbage
  size_t num_inputs;                     ///< the parameters after these are outputs
  double tolerance;                      ///< relative; 0: bits must agree
};

/// All cases, freshly built.
std::vector<Case> AllCases();

/// Runs `func` on the arguments. A backend joins by giving one.
using Runner = void (*)(const tir::PrimFunc& func, const std::vector<runtime::NDArray>& args);
/// Runs every case in `runner` and in the interpreter (on the function as it is) and compares (gtest expectations).
void ExpectConformance(Runner runner);

}  // namespace treadle::conformance
