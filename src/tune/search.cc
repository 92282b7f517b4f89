// SPDX-License-Identifier: Apache-2.0
#include "tune/search.h"

#include <algorithm>

#include "treadle/base/json.h"

namespace treadle::tune {
namespace {

/// Rounds without a better plan after which there is none near.
constexpr int kPatience = 2;

}  // namespace

Search::Search(const schedule::Kernel& kernel, const schedule::Problem& problem, const schedule::Machine& machine,
               const std::string& default_plan, const std::vector<std::string>& seeds,
               const std::set<std::string>& tried, const SearchOptions& options)
    : kernel_(kernel),
      problem_(problem),
      machine_(machine),
      options_(options),
      seeds_(seeds),
      tried_(tried),
      random_(options.seed),
      incumbent_(default_plan) {
  tried_.insert(default_plan);
  std::vector<std::pair<double, std::string>> costs;
  for (const schedule::Plan& plan : kernel.space(problem, machine)) {
    const std::string text = schedule::ToJson(plan);
    if (!space_.insert(text).second) continue;
    costs.emplace_back(kernel.cycles ? kernel.cycles(problem, machine, plan) : 0, text);
  }
  std::sort(costs.begin(), costs.end());
  std::map<std::string, std::set<Json>> values;
  for (const auto& [cost, text] : costs) {
    ranked_.push_back(text);
    const Json plan = Json::parse(text);
    for (const auto& [key, value] : plan.items()) values[key].insert(value);
  }
  for (const auto& [key, of] : values) {
    if (of.size() < 2) continue;
    for (const Json& value : of) values_[key].push_back(value.dump());
  }
}

void Search::StartFrom(const std::string& plan, double ratio) {
  tried_.insert(plan);
  incumbent_ = plan;
  ratio_ = ratio;
}

void Search::Add(const std::string& plan, std::vector<std::string>* batch) {
  if (plan.empty() || batch->size() >= options_.batch || tried_.count(plan) != 0) return;
  if (space_.count(plan) == 0) {
    if (!kernel_.why_not_plan) return;
    try {
      if (!kernel_.why_not_plan(problem_, machine_, schedule::PlanFromJson(plan)).empty()) return;
    } catch (const Error&) {
      return;
    }
  }
  tried_.insert(plan);
  batch->push_back(plan);
}

void Search::FirstRound(std::vector<std::string>* batch) {
  for (const std::string& seed : seeds_) Add(seed, batch);
  const size_t most = std::min(options_.batch, batch->size() + options_.by_cost);
  for (const std::string& plan : ranked_) {
    if (batch->size() >= most) break;
    if (std::uniform_real_distribution<double>(0, 1)(random_) < options_.dropout) continue;
    Add(plan, batch);
  }
  for (size_t i = 0; i < options_.at_random && !ranked_.empty(); ++i) {
    Add(ranked_[random_() % ranked_.size()], batch);
  }
}

std::string Search::Moved(const std::string& plan, const std::string& field, int step) const {
  auto found = values_.find(field);
  Json json = Json::parse(plan);
  if (found == values_.end() || !json.contains(field)) return "";
  const std::vector<std::string>& values = found->second;
  const auto at = std::find(values.begin(), values.end(), json[field].dump());
  if (at == values.end()) return "";
  const auto index = (at - values.begin()) + step;
  if (index < 0 || index >= static_cast<std::ptrdiff_t>(values.size())) return "";
  json[field] = Json::parse(values[static_cast<size_t>(index)]);
  return json.dump();
}

void Search::Neighbours(const std::string& plan, std::vector<std::string>* batch) {
  for (const auto& [field, values] : values_) {
    for (int step : {1, -1}) Add(Moved(plan, field, step), batch);
  }
}

std::vector<std::string> Search::Propose() {
  proposed_.clear();
  if (round_ == 0) FirstRound(&proposed_);
  if (proposed_.empty() && rounds_without_gain_ < kPatience) {
    Neighbours(incumbent_, &proposed_);
    if (!second_.empty()) Neighbours(second_, &proposed_);
    if (rounds_without_gain_ > 0 || proposed_.empty()) {
      for (const auto& [field, values] : values_) {
        for (int step : {2, -2}) Add(Moved(incumbent_, field, step), &proposed_);
      }
      for (const std::string& a : helped_) {
        for (const auto& [b, values] : values_) {
          for (int step : {1, -1}) {
            for (int other : {1, -1}) {
              const std::string half = Moved(incumbent_, a, step);
              if (!half.empty() && b != a) Add(Moved(half, b, other), &proposed_);
            }
          }
        }
      }
    }
  }
  ++round_;
  return proposed_;
}

void Search::Tell(const std::vector<Outcome>& outcomes) {
  const std::string before = incumbent_;
  bool gained = false;
  for (size_t i = 0; i < outcomes.size() && i < proposed_.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    if (!outcome.valid) continue;
    if (outcome.better && outcome.ratio < ratio_) {
      if (incumbent_ != before) second_ = incumbent_, second_ratio_ = ratio_;
      incumbent_ = proposed_[i];
      ratio_ = outcome.ratio;
      gained = true;
    } else if (outcome.ratio < second_ratio_) {
      second_ = proposed_[i];
      second_ratio_ = outcome.ratio;
    }
  }
  rounds_without_gain_ = gained ? 0 : rounds_without_gain_ + 1;
  if (!gained) return;
  const Json old_plan = Json::parse(before), new_plan = Json::parse(incumbent_);
  for (const auto& [field, value] : new_plan.items()) {
    if (old_plan.contains(field) && old_plan[field] != value) helped_.insert(field);
  }
}

}  // namespace treadle::tune
