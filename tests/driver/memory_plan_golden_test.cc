// SPDX-License-Identifier: Apache-2.0
// Storage ids that Apache TVM 0.11 plans, measured by running it.
#include <fstream>

#include "driver/memory/memory_plan.h"
#include "passes/pass_test.h"
#include "treadle/base/json.h"

namespace treadle::driver {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

TEST(RelayMemoryPlan, GoldenPrograms) {
  std::ifstream file(TREADLE_SOURCE_DIR "/tests/data/golden/fusion_and_plan.json");
  const Json programs = Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  for (const Json& program : programs) {
    IRModule fused = relay::transform::FuseOps(2)(Parse(program["text"].get<std::string>()));
    relay::Function main = Downcast<relay::Function>(fused->Lookup("main"));
    MemoryPlan plan = GraphPlanMemory(main, MemoryPlanner::kRelay, /*share_reshapes=*/false);
    Json actual = Json::array();
    relay::PostOrderVisit(main->body, [&](const relay::Expr& e) {
      const char* kind = e.as<relay::VarNode>()        ? "Var"
                         : e.as<relay::CallNode>()     ? "Call"
                         : e.as<relay::ConstantNode>() ? "Constant"
                                                       : nullptr;
      if (kind != nullptr && plan.count(e)) actual.push_back({kind, plan.at(e).storage_ids});
    });
    EXPECT_EQ(actual.dump(), program["plan"].dump()) << "seed " << program["seed"].get<int64_t>() << "\n"
                                                     << Show(fused);
  }
}

}  // namespace
}  // namespace treadle::driver
