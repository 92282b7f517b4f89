// SPDX-License-Identifier: Apache-2.0
// Random tensor programs, and random steps that schedule them.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "treadle/runtime/ndarray.h"
#include "treadle/te/schedule.h"
#include "treadle/tir/schedule.h"

namespace treadle::testing_random {

/// The same draws everywhere: no distribution of the standard library, whose results differ.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int Below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  int Between(int low, int high) { return low + Below(high - low + 1); }
  bool Chance(int one_in) { return Below(one_in) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& choices) {
    return choices[static_cast<size_t>(Below(static_cast<int>(choices.size())))];
  }
  /// Whole numbers from -9 to 9, so that sums are exact in every dtype and order.
  runtime::NDArray Tensor(const std::vector<int64_t>& shape, DataType dtype, int low = -9, int high = 9);

 private:
  std::mt19937 engine_;
};

struct Program {
  std::string kind;
  Array<te::Tensor> params;
  std::vector<runtime::NDArray> args;  ///< the last `outputs` ones are the results
  size_t outputs = 1;
  tir::PrimFunc func;
};

/// One of all kinds: element-wise, broadcast, transpose, reductions (of several values, with conditions, argmax),
/// matrix products, convolutions, gathers, pooling, concatenation, divisions, recurrences, statements, masks, casts ..;
/// some with symbolic dimensions, some counted in 64 bits, some without elements.
Program RandomProgram(Random& random);

/// How often steps were taken and refused.
struct StepCounts {
  std::map<std::string, std::pair<int, int>> by_primitive;  ///< taken, refused
  int taken = 0, refused = 0;
  std::string Summary() const;
};

/// Applies one random primitive to random blocks and loops. What the schedule refuses (an Error that isn't internal)
/// is counted and leaves it as it was. `threads`: also binds loops to a grid of threads.
void RandomStep(tir::Schedule& schedule, Random& random, bool threads, StepCounts* counts);

/// The same for stages of tensor expressions. Caches and factored reductions are added to the graph.
void RandomStageStep(te::TeSchedule& schedule, Random& random, bool threads, StepCounts* counts);

}  // namespace treadle::testing_random
