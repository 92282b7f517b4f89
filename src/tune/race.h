// SPDX-License-Identifier: Apache-2.0
// Which of two is faster, from times that were taken in turns: a sequential test of signs (SPRT). On a machine that
// others use too, times of one moment can be compared, those of two moments can't.
#pragma once

#include <string>
#include <vector>

namespace treadle::tune {

/// Times of neighbouring blocks of runs, in seconds per run.
struct Pair {
  double incumbent = 0, candidate = 0;
  bool disturbed = false;  ///< something else ran on the cores meanwhile: left out
};

struct RaceRules {
  double odds = 0.7;       ///< part of the pairs that a candidate worth having wins
  double error = 0.05;     ///< of taking one that is no faster
  double miss = 0.02;      ///< of missing one that is
  double at_most = 0.985;  ///< median ratio that is worth having
  double hopeless = 1.3;   ///< ratio of the first pair from which on nothing else is measured
  int most_pairs = 60;
};

/// What 95 % of medians would lie in.
struct Interval {
  double ratio = 1, lo = 1, hi = 1;
};
/// Of ratios; {1, 1, 1} without any. The interval is that of order statistics: no shape of the noise is assumed.
Interval MedianOf(std::vector<double> ratios);

class Race {
 public:
  explicit Race(const RaceRules& rules) : rules_(rules) {}
  void Add(const Pair& pair);
  /// Whether more pairs would change nothing.
  bool decided() const { return !verdict_.empty(); }
  bool accepted() const { return verdict_ == "faster"; }
  /// "faster", "hopeless", "not faster", "no decision"; "" while it goes on.
  const std::string& verdict() const { return verdict_; }
  Interval result() const { return MedianOf(ratios_); }
  int pairs() const { return static_cast<int>(ratios_.size()); }
  int disturbed() const { return disturbed_; }

 private:
  RaceRules rules_;
  std::vector<double> ratios_;
  double evidence_ = 0;  ///< log of the likelihood ratio
  int disturbed_ = 0;
  std::string verdict_;
};

/// The pairs of several fresh processes together: a sequential test, too, which is asked again after each round of
/// kConfirmRound processes. Accepted where signs say so at an error of 0.01 %, the medians of more than three quarters
/// of the processes agree, and the median of all is at most `at_most`, or further from 1 while there are few processes:
/// a process as such makes a percent or two.
struct Confirmation {
  bool accepted = false;
  bool open = false;  ///< neither accepted nor lost: more processes may tell
  Interval result;
  int pairs = 0, processes = 0;
};
inline constexpr int kConfirmRound = 3;
Confirmation Confirm(const std::vector<std::vector<Pair>>& processes, double at_most = 0.985);

}  // namespace treadle::tune
