// SPDX-License-Identifier: Apache-2.0
// What a graph could have chosen otherwise: other kernels for its operators, other forms of the chosen ones, other
// blocks of channels for their results. A tuner asks for it, and measures whole graphs.
#pragma once

#include <string>
#include <vector>

#include "treadle/schedule/kernel.h"

namespace treadle::schedule {

/// A kernel with a plan, as a line of kPlansOption states it for the problem of its choice.
struct Alternative {
  std::string kernel, plan;  ///< name; JSON, "null" where the kernel has none
  double cycles = -1;        ///< by the kernel's model; -1: not modelled
};

struct GraphChoice {
  std::string op;       ///< "nn.conv2d"
  std::string problem;  ///< JSON
  Alternative chosen;
  std::vector<Alternative> others;  ///< the cheapest first; those that aren't modelled last
};

/// Kernels of this operator stand for layouts of an operator's result instead of algorithms: they are never chosen by
/// costs, but a line of kPlansOption may state one (see kernels/conv_block.cc).
std::string LayoutsOf(const std::string& op);

/// Collects, on this thread and while it exists, the choices of graphs. One at a time.
class AlternativesLog {
 public:
  AlternativesLog();
  ~AlternativesLog();
  AlternativesLog(const AlternativesLog&) = delete;
  AlternativesLog& operator=(const AlternativesLog&) = delete;
  /// By problem, each once, in the order of the graph.
  const std::vector<GraphChoice>& choices() const { return choices_; }
  /// Adds a choice to this thread's log; without one, nothing.
  static void Note(const std::string& op, const Problem& problem, const Machine& machine, const Choice& choice);

 private:
  std::vector<GraphChoice> choices_;
};

}  // namespace treadle::schedule
