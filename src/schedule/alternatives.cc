// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/alternatives.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "treadle/base/json.h"

namespace treadle::schedule {
namespace {

thread_local AlternativesLog* current = nullptr;

std::string TextOf(const Plan& plan) { return plan.defined() ? ToJson(plan) : "null"; }

/// What of a plan the graph depends on, as text.
std::string GraphPart(const Kernel& kernel, const std::string& plan) {
  const Json json = Json::parse(plan);
  std::string part;
  if (!json.is_object()) return part;
  for (const std::string& field : kernel.graph_fields) part += json.at(field).dump() + ",";
  return part;
}

/// The cheapest plan of each form of a kernel that isn't among `known`.
void AddForms(const Kernel& kernel, const Problem& problem, const Machine& machine, std::set<std::string>* known,
              std::vector<Alternative>* others) {
  if (!kernel.space) {
    const double cycles = kernel.cycles ? kernel.cycles(problem, machine, Plan()) : -1;
    if (known->empty()) others->push_back({kernel.name, "null", cycles});
    return;
  }
  std::vector<std::pair<double, std::string>> plans;
  for (const Plan& plan : kernel.space(problem, machine)) {
    plans.emplace_back(kernel.cycles ? kernel.cycles(problem, machine, plan) : -1, TextOf(plan));
  }
  std::sort(plans.begin(), plans.end());
  for (const auto& [cycles, plan] : plans) {
    if (known->insert(GraphPart(kernel, plan)).second) others->push_back({kernel.name, plan, cycles});
  }
}

}  // namespace

std::string LayoutsOf(const std::string& op) { return op + ".layout"; }

AlternativesLog::AlternativesLog() {
  TREADLE_ICHECK(current == nullptr) << "one log of alternatives at a time";
  current = this;
}
AlternativesLog::~AlternativesLog() { current = nullptr; }

void AlternativesLog::Note(const std::string& op, const Problem& problem, const Machine& machine,
                           const Choice& choice) {
  const Candidate* best = choice.best();
  // Computations of users aren't of this problem alone.
  if (current == nullptr || best == nullptr || best->kernel->compute) return;
  GraphChoice noted{op, ToJson(problem), {best->kernel->name, TextOf(best->plan), best->cycles}, {}};
  auto& choices = current->choices_;
  if (std::any_of(choices.begin(), choices.end(), [&](const auto& c) { return c.problem == noted.problem; })) return;
  for (const Candidate& candidate : choice.candidates) {
    const Kernel& kernel = *candidate.kernel;
    if (!candidate.why_not.empty() || kernel.compute) continue;
    std::set<std::string> known;
    if (candidate.kernel == best->kernel) known.insert(GraphPart(kernel, noted.chosen.plan));
    AddForms(kernel, problem, machine, &known, &noted.others);
  }
  for (const Kernel* kernel : KernelsOf(LayoutsOf(op), best->kernel->target)) {
    std::set<std::string> known;
    AddForms(*kernel, problem, machine, &known, &noted.others);
  }
  std::sort(noted.others.begin(), noted.others.end(), [](const Alternative& a, const Alternative& b) {
    auto rank = [](const Alternative& x) { return std::tie(x.cycles, x.kernel, x.plan); };
    return std::make_pair(a.cycles < 0, rank(a)) < std::make_pair(b.cycles < 0, rank(b));
  });
  choices.push_back(std::move(noted));
}

}  // namespace treadle::schedule
