// SPDX-License-Identifier: Apache-2.0
// The search for a problem's plan: rounds of proposals, a pure function of the seed and of what was measured, so that
// any number of workers leads to the same ones.
//
// First those that the analytic costs rank first, seeds from records of near problems, and a few from anywhere; then
// coordinate walks: what differs from the best plans in one field by one step, then by two or in two fields.
#pragma once

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "treadle/schedule/kernel.h"

namespace treadle::tune {

struct SearchOptions {
  uint64_t seed = 0;
  size_t batch = 32;      ///< most proposals of a round
  size_t by_cost = 12;    ///< of the first round: the cheapest by the cost model
  size_t at_random = 4;   ///< of the first round: from anywhere in the space
  double dropout = 0.03;  ///< of those that the cost model ranks first, part that is passed over
};

/// What became of a proposal.
struct Outcome {
  bool valid = false;   ///< built, ran, right
  bool better = false;  ///< won its race against the incumbent
  double ratio = 1;     ///< of its time to that of the default plan
};

class Search {
 public:
  /// `seeds` are plans that did well elsewhere, `tried` those that needn't be measured again.
  Search(const schedule::Kernel& kernel, const schedule::Problem& problem, const schedule::Machine& machine,
         const std::string& default_plan, const std::vector<std::string>& seeds, const std::set<std::string>& tried,
         const SearchOptions& options);

  /// A plan that is known to be better than the default: the first incumbent.
  void StartFrom(const std::string& plan, double ratio);
  /// The next plans to measure, as JSON, against incumbent(); empty: the search is over.
  std::vector<std::string> Propose();
  /// What became of them, in the same order.
  void Tell(const std::vector<Outcome>& outcomes);

  /// The best plan so far, and its time as a part of the default's.
  const std::string& incumbent() const { return incumbent_; }
  double ratio() const { return ratio_; }
  int round() const { return round_; }
  size_t space_size() const { return ranked_.size(); }

 private:
  void Add(const std::string& plan, std::vector<std::string>* batch);
  void FirstRound(std::vector<std::string>* batch);
  /// Neighbours of a plan: its field number `field` moved by `step` among the values of the space; "" where none.
  std::string Moved(const std::string& plan, const std::string& field, int step) const;
  void Neighbours(const std::string& plan, std::vector<std::string>* batch);

  const schedule::Kernel& kernel_;
  schedule::Problem problem_;
  schedule::Machine machine_;
  SearchOptions options_;
  std::vector<std::string> ranked_;  ///< the space, the cheapest first
  std::set<std::string> space_;
  std::map<std::string, std::vector<std::string>> values_;  ///< by field: the space's values, in order, as JSON
  std::vector<std::string> seeds_;
  std::set<std::string> tried_;
  std::mt19937_64 random_;
  std::string incumbent_, second_;
  double ratio_ = 1, second_ratio_ = 1e9;
  std::set<std::string> helped_;  ///< fields in which a better plan differed
  std::vector<std::string> proposed_;
  int round_ = 0, rounds_without_gain_ = 0;
};

}  // namespace treadle::tune
