// SPDX-License-Identifier: Apache-2.0
#include "tune/race.h"

#include <algorithm>
#include <cmath>

namespace treadle::tune {
namespace {

/// What a won pair adds to the evidence, and what a lost one does.
double Step(bool won, double odds) { return std::log((won ? odds : 1 - odds) / 0.5); }
/// Evidence at which the other error is below `error`.
double Bound(double error, double other) { return std::log((1 - other) / error); }

bool IsUsable(const Pair& pair) { return !pair.disturbed && pair.incumbent > 0 && pair.candidate > 0; }

}  // namespace

Interval MedianOf(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const size_t n = ratios.size();
  const double median = n % 2 == 1 ? ratios[n / 2] : (ratios[n / 2 - 1] + ratios[n / 2]) / 2;
  // Ranks n/2 -+ 0.98 sqrt(n): the normal approximation of the binomial distribution.
  const double half = 0.98 * std::sqrt(static_cast<double>(n));
  const double low = std::floor(static_cast<double>(n) / 2 - half), high = std::ceil(static_cast<double>(n) / 2 + half);
  const auto first = static_cast<size_t>(std::max(0.0, low));
  const size_t last = std::min(n - 1, static_cast<size_t>(high));
  return {median, ratios[first], ratios[last]};
}

void Race::Add(const Pair& pair) {
  if (decided()) return;
  if (!IsUsable(pair)) {
    ++disturbed_;
    return;
  }
  const double ratio = pair.candidate / pair.incumbent;
  ratios_.push_back(ratio);
  if (ratios_.size() == 1 && ratio > rules_.hopeless) {
    verdict_ = "hopeless";
    return;
  }
  evidence_ += Step(ratio < 1, rules_.odds);
  // A process as such makes a percent of the ratio: what may be worth having by a little is left to confirmations.
  constexpr double kNearly = 2.0 / 3;
  const double needed = 1 - kNearly * (1 - rules_.at_most);
  if (evidence_ <= -Bound(rules_.miss, rules_.error)) {
    verdict_ = "not faster";
  } else if (evidence_ >= Bound(rules_.error, rules_.miss)) {
    if (MedianOf(ratios_).ratio <= needed) {
      verdict_ = "faster";
    } else if (pairs() >= rules_.most_pairs) {
      verdict_ = "not faster";
    }
  } else if (pairs() >= rules_.most_pairs) {
    verdict_ = "no decision";
  }
}

Confirmation Confirm(const std::vector<std::vector<Pair>>& processes, double at_most) {
  constexpr double kError = 0.0001, kMiss = 0.05, kOdds = 0.75;
  constexpr size_t kAgree = 4;  // of as many less than one differs
  Confirmation confirmation;
  std::vector<double> all;
  double evidence = 0;
  size_t differ = 0;
  for (const std::vector<Pair>& pairs : processes) {
    std::vector<double> own;
    for (const Pair& pair : pairs) {
      if (!IsUsable(pair)) continue;
      own.push_back(pair.candidate / pair.incumbent);
      evidence += Step(own.back() < 1, kOdds);
    }
    if (own.empty() || MedianOf(own).ratio >= 1) ++differ;
    all.insert(all.end(), own.begin(), own.end());
  }
  confirmation.pairs = static_cast<int>(all.size());
  confirmation.processes = static_cast<int>(processes.size());
  confirmation.result = MedianOf(all);
  // Of few processes only what is further from 1, as in sequential tests of means.
  const double rounds = static_cast<double>(processes.size()) / kConfirmRound;
  const double needed = 1 - (1 - at_most) * std::max(1.0, 2 / std::sqrt(rounds));
  confirmation.accepted =
      kAgree * differ < processes.size() && evidence >= Bound(kError, kMiss) && confirmation.result.ratio <= needed;
  confirmation.open = !confirmation.accepted && !all.empty() && evidence > -Bound(kMiss, kError);
  return confirmation;
}

}  // namespace treadle::tune
