// SPDX-License-Identifier: Apache-2.0
// The search on a space whose times are known.
#include "tune/search.h"

#include <gtest/gtest.h>

#include <set>

#include "treadle/schedule/problems.h"

namespace treadle::tune {
namespace {

using schedule::Make;
using schedule::Plan;
using schedule::Problem;

class GridPlanNode : public schedule::PlanNode {
 public:
  int64_t x = 0, y = 0;
  TREADLE_NODE(GridPlanNode, schedule::PlanNode, "schedule.TestGridPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("x", &GridPlanNode::x);
    r.Field("y", &GridPlanNode::y);
  }
};

Plan At(int64_t x, int64_t y) {
  return Make<Plan, GridPlanNode>([&](auto& plan) {
    plan.x = x;
    plan.y = y;
  });
}

/// 24 x 24 plans; the cost model thinks that (4, 4) is the best, measured it is (11, 9).
schedule::Kernel Grid() {
  GridPlanNode::StaticTypeInfo();
  schedule::Kernel kernel;
  kernel.name = "test.grid";
  kernel.plan_type = GridPlanNode::StaticTypeInfo();
  kernel.space = [](const Problem&, const schedule::Machine&) {
    std::vector<Plan> plans;
    for (int x = 0; x < 24; ++x) {
      for (int y = 0; y < 24; ++y) plans.push_back(At(x, y));
    }
    return plans;
  };
  kernel.cycles = [](const Problem&, const schedule::Machine&, const Plan& plan) {
    const auto& p = *plan.as<GridPlanNode>();
    return static_cast<double>((p.x - 4) * (p.x - 4) + (p.y - 4) * (p.y - 4));
  };
  return kernel;
}

double TimeOf(const std::string& plan) {
  const Plan p = schedule::PlanFromJson(plan);
  const auto& grid = *p.as<GridPlanNode>();
  return 1 + 0.01 * static_cast<double>((grid.x - 11) * (grid.x - 11) + (grid.y - 9) * (grid.y - 9));
}

struct Tuned {
  std::string best;
  std::vector<std::string> proposals;
};

/// Measures each round with `workers` that take its plans in turns: outcomes come in the order of the round.
Tuned Tune(const schedule::Kernel& kernel, int workers, uint64_t seed = 0, const std::vector<std::string>& seeds = {},
           const std::set<std::string>& tried = {}) {
  const Problem problem = Make<Problem, schedule::MatmulProblemNode>([](auto&) {});
  const std::string first = schedule::ToJson(At(4, 4));
  SearchOptions options;
  options.seed = seed;
  Search search(kernel, problem, schedule::Machine(), first, seeds, tried, options);
  Tuned run;
  const double base = TimeOf(first);
  for (std::vector<std::string> plans = search.Propose(); !plans.empty(); plans = search.Propose()) {
    std::vector<Outcome> outcomes(plans.size());
    const double incumbent = search.ratio();
    for (int w = workers - 1; w >= 0; --w) {
      for (size_t i = static_cast<size_t>(w); i < plans.size(); i += static_cast<size_t>(workers)) {
        const double ratio = TimeOf(plans[i]) / base;
        outcomes[i] = {true, ratio < incumbent, ratio};
      }
    }
    run.proposals.insert(run.proposals.end(), plans.begin(), plans.end());
    search.Tell(outcomes);
  }
  run.best = search.incumbent();
  return run;
}

TEST(SearchTest, WalksFromTheModelsChoiceToTheFastest) {
  const Tuned run = Tune(Grid(), 1);
  EXPECT_EQ(run.best, schedule::ToJson(At(11, 9)));
  EXPECT_LT(run.proposals.size(), 250u);  // of 576
}

TEST(SearchTest, ProposalsDontDependOnTheNumberOfWorkers) {
  const schedule::Kernel kernel = Grid();
  EXPECT_EQ(Tune(kernel, 1, 3).proposals, Tune(kernel, 7, 3).proposals);
  EXPECT_NE(Tune(kernel, 1, 3).proposals, Tune(kernel, 1, 4).proposals);
}

TEST(SearchTest, NothingIsProposedTwiceNorWhatWasTried) {
  const std::string tried = schedule::ToJson(At(5, 4));
  const Tuned run = Tune(Grid(), 1, 0, {}, {tried});
  const std::set<std::string> distinct(run.proposals.begin(), run.proposals.end());
  EXPECT_EQ(distinct.size(), run.proposals.size());
  EXPECT_EQ(distinct.count(tried), 0u);
}

TEST(SearchTest, SeedsComeFirstAndForeignPlansAreRefused) {
  const std::string seed = schedule::ToJson(At(10, 9)), foreign = R"({"type":"schedule.TestGridPlan","x":99,"y":0})";
  const Tuned run = Tune(Grid(), 1, 0, {foreign, seed});
  EXPECT_EQ(run.proposals[0], seed);
  EXPECT_EQ(std::count(run.proposals.begin(), run.proposals.end(), foreign), 0);
}

}  // namespace
}  // namespace treadle::tune
