// SPDX-License-Identifier: Apache-2.0
#include "tune/graph_search.h"

#include <algorithm>
#include <tuple>

#include "treadle/base/json.h"

namespace treadle::tune {

double PromiseOf(const schedule::Alternative& chosen, const schedule::Alternative& other) {
  // What is modelled to take twice as long isn't faster; what isn't modelled is seldom faster than what costs chose.
  constexpr double kHopeless = 2, kLayout = 0.3, kPlain = 0.01, kUnknown = 1;
  const double cycles = chosen.cycles > 0 ? chosen.cycles : kUnknown;
  if (other.cycles >= 0 && chosen.cycles > 0) return cycles * std::max(0.0, kHopeless - other.cycles / cycles);
  const schedule::Kernel* kernel = schedule::FindKernel(other.kernel);
  return cycles * (kernel != nullptr && kernel->level == schedule::kPlainLevel ? kPlain : kLayout);
}

std::string FormOf(const schedule::Alternative& alternative) {
  std::string text = alternative.kernel;
  const schedule::Kernel* kernel = schedule::FindKernel(alternative.kernel);
  const auto plan = Json::parse(alternative.plan);
  if (kernel == nullptr || !plan.is_object()) return text;
  for (const std::string& field : kernel->graph_fields) text += StrCat(" ", field, "=", plan.at(field).dump());
  return text;
}

std::string GraphStep::Line() const {
  const schedule::Kernel* kernel = schedule::FindKernel(to.kernel);
  return StrCat(R"({"problem":)", problem, R"(,"kernel":")", to.kernel, R"(","revision":)",
                kernel == nullptr ? 1 : kernel->revision, R"(,"plan":)", to.plan, "}\n");
}

std::vector<GraphStep> GraphSearch::Steps() const {
  std::vector<std::tuple<double, size_t, GraphStep>> ranked;
  for (const schedule::GraphChoice& choice : best_.choices) {
    for (const schedule::Alternative& other : choice.others) {
      GraphStep step{choice.op, choice.problem, choice.chosen, other, {}, {}};
      const double promise = PromiseOf(choice.chosen, other);
      if (promise <= 0 || done_.count(choice.problem + FormOf(other)) != 0) continue;
      if (hooks_.tried(choice.problem, other)) continue;
      ranked.emplace_back(-promise, ranked.size(), std::move(step));
    }
  }
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::vector<GraphStep> steps;
  for (auto& [promise, place, step] : ranked) steps.push_back(std::move(step));
  return steps;
}

bool GraphSearch::Try(GraphStep* step) {
  const std::string line = step->Line();
  done_.insert(step->problem + FormOf(step->to));
  Measured& measured = step->measured;
  measured.state = "error";
  GraphBuild build;
  try {
    build = hooks_.build(lines_ + line);
  } catch (const Error& e) {
    measured.error = e.what();
    return false;
  }
  if (build.hash == best_.hash) {
    measured.state = "rejected";
    measured.error = "the same code as the incumbent's";
    return false;
  }
  measured = hooks_.race(best_.path, build.path);
  if (measured.state != "raced") return false;
  step->confirmation = hooks_.confirm(best_.path, build.path);
  if (!step->confirmation.accepted) {
    measured.state = "rejected";
    measured.error = "not confirmed";
    return false;
  }
  lines_ += line;
  done_.insert(step->problem + FormOf(step->from));  // it lost this race
  best_ = std::move(build);
  ratio_ *= step->confirmation.result.ratio;
  return true;
}

void GraphSearch::Run(const std::string& lines, const GraphBuild& build) {
  lines_ = lines;
  best_ = build;
  // A step may bring new problems: neighbours in other layouts.
  for (std::vector<GraphStep> steps = Steps(); !steps.empty(); steps = Steps()) {
    bool gained = false;
    for (GraphStep& step : steps) {
      if (hooks_.time_is_up()) return;
      gained = Try(&step);
      hooks_.note(step);
      if (!gained) continue;
      won_.push_back(step);
      break;
    }
    if (!gained) return;
  }
}

}  // namespace treadle::tune
