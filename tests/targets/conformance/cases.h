// SPDX-License-Identifier: Apache-2.0
// Programs that every backend must run with the same results.
#pragma once

#include <functional>
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

/// Compiles all functions (named by their global_symbol) at once and returns what runs the k-th.
using Runner = std::function<void(size_t k, const std::vector<runtime::NDArray>& args)>;
using Compiler = std::function<Runner(const std::vector<tir::PrimFunc>& funcs)>;
/// Runs every case in a backend and in the interpreter (on the function as it is) and compares (gtest expectations).
/// `every` 4 takes each fourth case only, for backends whose compilers are slow.
void ExpectConformance(const Compiler& compile, size_t every = 1);

}  // namespace treadle::conformance
