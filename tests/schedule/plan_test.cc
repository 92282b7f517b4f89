// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/plan.h"

#include <gtest/gtest.h>

#include "treadle/schedule/kernel.h"
#include "treadle/schedule/machine.h"
#include "treadle/schedule/problems.h"

namespace treadle::schedule {
namespace {

class TestPlanNode : public PlanNode {
 public:
  int64_t rows = 3;
  bool packed = true;
  TREADLE_NODE(TestPlanNode, PlanNode, "schedule.TestPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("rows", &TestPlanNode::rows);
    r.Field("packed", &TestPlanNode::packed);
  }
};

class OtherPlanNode : public PlanNode {
 public:
  int64_t rows = 3;
  TREADLE_NODE(OtherPlanNode, PlanNode, "schedule.OtherPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("rows", &OtherPlanNode::rows);
  }
};

Plan TestPlan(int64_t rows) {
  return Make<Plan, TestPlanNode>([&](auto& plan) { plan.rows = rows; });
}

/// The message of the error that reading `text` throws.
std::string ErrorOf(const std::string& text) {
  TestPlanNode::StaticTypeInfo();  // known once it was asked for
  try {
    PlanFromJson(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(PlanTest, PrintsItsFields) {
  EXPECT_EQ(ToJson(TestPlan(5)), R"({"type":"schedule.TestPlan","rows":5,"packed":true})");
}

TEST(PlanTest, ReadsWhatItPrints) {
  const std::string text = ToJson(TestPlan(-1));
  EXPECT_EQ(ToJson(PlanFromJson(text)), text);
  EXPECT_EQ(PlanFromJson(text).as<TestPlanNode>()->rows, -1);
}

TEST(PlanTest, RefusesAMissingField) {
  EXPECT_NE(ErrorOf(R"({"type":"schedule.TestPlan","rows":5})").find("'packed'"), std::string::npos);
}

TEST(PlanTest, RefusesAnUnknownField) {
  const std::string text = R"({"type":"schedule.TestPlan","rows":5,"packed":true,"columns":1})";
  EXPECT_NE(ErrorOf(text).find("no field 'columns'"), std::string::npos);
}

TEST(PlanTest, RefusesAFieldOfAnotherType) {
  EXPECT_NE(ErrorOf(R"({"type":"schedule.TestPlan","rows":1.5,"packed":true})").find("'rows'"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"type":"schedule.TestPlan","rows":1,"packed":"yes"})").find("'packed'"), std::string::npos);
}

TEST(PlanTest, RefusesWhatIsNoPlan) {
  EXPECT_FALSE(ErrorOf("").empty());
  EXPECT_FALSE(ErrorOf("[1, 2]").empty());
  EXPECT_FALSE(ErrorOf(R"({"type":"Map"})").empty());
  EXPECT_NE(ErrorOf(ToJson(Make<Problem, ConvProblemNode>([](auto&) {}))).find("is no plan"), std::string::npos);
}

TEST(PlanTest, SchemasOfDifferentFieldsDiffer) {
  EXPECT_EQ(SchemaHash(TestPlanNode::StaticTypeInfo()).size(), 16U);
  EXPECT_NE(SchemaHash(TestPlanNode::StaticTypeInfo()), SchemaHash(OtherPlanNode::StaticTypeInfo()));
}

TEST(DefaultPlanTest, APlanWithoutACostReplacesNoneThatHasOne) {
  Kernel kernel;
  kernel.space = [](const Problem&, const Machine&) {
    return std::vector<Plan>{TestPlan(1), TestPlan(2), TestPlan(3)};
  };
  kernel.cycles = [](const Problem&, const Machine&, const Plan& plan) {
    const int64_t rows = plan.as<TestPlanNode>()->rows;
    return rows == 2 ? -1.0 : 10.0 / static_cast<double>(rows);
  };
  const Candidate best = DefaultPlan(kernel, Problem(), Machine());
  EXPECT_EQ(best.plan.as<TestPlanNode>()->rows, 3);
  EXPECT_EQ(best.cycles, 10.0 / 3);
}

TEST(ProblemTest, TheKeyLeavesOutWhatIsKnownOfTheGraph) {
  auto make = [](const relay::ChannelLayout& layout) {
    return ToJson(Make<Problem, ConvProblemNode>([&](auto& p) {
      p.ic = p.oc = 64;
      p.in_layout = layout;
    }));
  };
  EXPECT_EQ(make({16}), make({}));
  EXPECT_EQ(ToJson(ProblemFromJson(make({}))), make({}));
}

}  // namespace
}  // namespace treadle::schedule
