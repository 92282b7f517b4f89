// SPDX-License-Identifier: Apache-2.0
// A region's steps as oneDNN primitives for some number of threads. Values have the layouts that primitives choose;
// reorders stand only where two that meet disagree, and where the region's inputs and outputs are. Weights are
// reordered when the plan is made.
//
// Steps (attributes beside "in" and "out"):
//   conv, deconv {strides, dilation, begin, end, groups}, dense {}, matmul {transpose: [a, b]}: data, weights, the bias
//     ("bias": true), a tensor that is added ("sum": true); "post": [{alg, alpha, beta}, ..] afterwards
//   pool {alg: max | avg | avg_padded, strides, kernel, begin, end}, eltwise {alg, alpha, beta}, binary {alg, axis},
//   reduce {alg, axes}, softmax {log, axis}, lrn {size, alpha, beta, k}, layer_norm {epsilon}: data, scale, shift,
//   concat {axis}, reshape, transpose {axes}, slice {offsets}
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "external/dnnl/runtime/api.h"
#include "external/steps.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::external {

/// Memory of one run of a plan, to be used by one thread at a time.
struct PlanState {
  std::shared_ptr<void> arena;
  std::vector<dnnl::memory> buffers;
  std::vector<std::unordered_map<int, dnnl::memory>> arguments;  ///< by primitive
};

class Plan {
 public:
  /// For the number of threads that oneDNN uses in the calling thread now.
  Plan(const Steps& steps, const std::vector<runtime::NDArray>& constants);

  std::unique_ptr<PlanState> NewState() const;
  /// `inputs` and `outputs`: addresses of compact tensors.
  void Run(PlanState* state, const std::vector<void*>& inputs, const std::vector<void*>& outputs) const;

 private:
  friend class PlanBuilder;
  enum class Place { kArena, kInput, kOutput, kFixed };
  /// Memory in one layout. Views share the place of what they look at.
  struct Buffer {
    api::Desc desc;
    Place place = Place::kArena;
    size_t index = 0;           ///< of the input or output
    int root = -1;              ///< the buffer whose memory this is
    size_t offset = 0;          ///< in the arena
    int first = -1, last = -1;  ///< primitives between which it lives
    dnnl::memory fixed;         ///< of kFixed: constants
  };
  struct Command {
    dnnl::primitive primitive;
    std::vector<std::pair<int, int>> arguments;  ///< oneDNN's argument, buffer
  };

  void Allocate();

  dnnl::engine engine_;
  std::vector<Buffer> buffers_;
  std::vector<Command> commands_;
  size_t arena_bytes_ = 0;
};

}  // namespace treadle::external
