// SPDX-License-Identifier: Apache-2.0
// What a model gives a tuner to do: the problems of its kernels, each in the fused function where it takes the longest.
#pragma once

#include <string>
#include <vector>

#include "treadle/driver/compile.h"
#include "treadle/ir/target.h"
#include "treadle/relay/expr.h"
#include "treadle/runtime/data_type.h"
#include "treadle/schedule/kernel.h"

namespace treadle::tune {

/// A tensor that a kernel is called with.
struct Argument {
  std::vector<int64_t> shape;
  DataType dtype;
  bool constant = false;  ///< weights
};

struct Task {
  std::string problem, kernel;  ///< as in records
  std::string plan;             ///< the default one, JSON
  std::string symbol;
  relay::Function source;
  Target target;
  std::vector<Argument> arguments;  ///< inputs, then outputs
  size_t num_outputs = 1;
  int uses = 1;        ///< calls in the model
  double seconds = 0;  ///< of a call with the default plan; 0: not measured yet
  /// Of all constants of the model, which a run reads before it comes to this kernel again; 0: not known.
  int64_t model_constants = 0;

  std::string Name() const;
  /// For workers on other machines.
  std::string ToJson() const;
  /// Throws Error, ModelFormatError.
  static Task FromJson(const std::string& text);
};

/// The tasks of a compiled model, in order of its kernels. Functions of dynamic shapes, and kernels whose space has one
/// plan, give none.
std::vector<Task> ExtractTasks(const driver::CompiledModel& model);

}  // namespace treadle::tune
