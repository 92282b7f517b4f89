// SPDX-License-Identifier: Apache-2.0
// The search for what a graph decides: algorithms, their forms, blocks of channels. Each alternative changes what the
// operators around it do, too, so whole models are raced: coordinate descent from what costs chose, one problem after
// the other, those first that may save most.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/unfinished.h"
#include "treadle/schedule/alternatives.h"
#include "tune/measure.h"

namespace treadle::tune {

/// A model that was compiled with lines of kPlansOption.
struct GraphBuild {
  std::shared_ptr<const runtime::TemporaryDirectory> folder;  ///< of the library, which is removed with it; may be null
  std::string path;                                           ///< of the library
  uint64_t hash = 0;                                          ///< of its bytes
  std::vector<schedule::GraphChoice> choices;
};

/// One alternative, and what became of it.
struct GraphStep {
  std::string op, problem;
  schedule::Alternative from, to;
  Measured measured;          ///< of whole models; "raced" where it is confirmed, too
  Confirmation confirmation;  ///< of those that won their race
  /// The line of kPlansOption.
  std::string Line() const;
};

class GraphSearch {
 public:
  /// What it needs; tests have their own.
  struct Hooks {
    /// Throws Error where the graph can't be compiled so.
    std::function<GraphBuild(const std::string& lines)> build;
    /// Whole models: whether the second is faster.
    std::function<Measured(const std::string& incumbent, const std::string& candidate)> race;
    std::function<Confirmation(const std::string& incumbent, const std::string& candidate)> confirm;
    std::function<bool()> time_is_up;
    /// Whether an alternative needn't be measured again.
    std::function<bool(const std::string& problem, const schedule::Alternative& alternative)> tried;
    std::function<void(const GraphStep& step)> note;  ///< is told each step when it is done
  };
  explicit GraphSearch(Hooks hooks) : hooks_(std::move(hooks)) {}

  /// From a graph that was built with `lines`; to the end, or until the time is up.
  void Run(const std::string& lines, const GraphBuild& build);
  /// Those that won, in order.
  const std::vector<GraphStep>& won() const { return won_; }
  /// The best model, the lines it takes, and its time as a part of the first one's.
  const GraphBuild& best() const { return best_; }
  const std::string& lines() const { return lines_; }
  double ratio() const { return ratio_; }

 private:
  /// Those of the best graph that weren't tried: the most promising first.
  std::vector<GraphStep> Steps() const;
  /// Tries one; true where it won.
  bool Try(GraphStep* step);

  Hooks hooks_;
  std::string lines_;
  GraphBuild best_;
  std::vector<GraphStep> won_;
  std::set<std::string> done_;  ///< problems with forms that were tried, or lost
  double ratio_ = 1;
};

/// "conv2d.winograd side=4": a kernel with the fields of its plan that the graph depends on.
std::string FormOf(const schedule::Alternative& alternative);

/// Seconds, in units of the cost model, that an alternative may save: more for dear problems and near costs. 0: not
/// worth measuring.
double PromiseOf(const schedule::Alternative& chosen, const schedule::Alternative& other);

}  // namespace treadle::tune
