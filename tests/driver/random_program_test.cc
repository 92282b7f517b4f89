// SPDX-License-Identifier: Apache-2.0
// Random programs survive printing and parsing, and keep type and value through every pass. TREADLE_RANDOM_PROGRAMS
// sets how many are tried, TREADLE_RANDOM_SEED the first seed.
#include <cstdlib>
#include <set>

#include "tests_common/random_relay.h"
#include "tests_common/relay_eval.h"
#include "treadle/ir/structural.h"
#include "treadle/ir/transform.h"
#include "treadle/passes/passes.h"

namespace treadle::testing {
namespace {

int Setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

/// What is compared, and how closely.
struct PassCase {
  std::string name;
  double tolerance = 1e-3;
  bool same_type = true;
};

std::vector<PassCase> PassCases() {
  const std::map<std::string, PassCase> special = {
      {"FastMath", {"", 2e-2}}, {"ToMixedPrecision", {"", 1, false}},  // float16 throughout: only that it runs
  };
  std::vector<PassCase> cases;
  for (const std::string& name : transform::ListPassNames()) {
    // Gradients change what functions return, by design; WidenFloats does, and is for data flow.
    if (name == "FirstOrderGradient" || name == "WidenFloats") continue;
    auto it = special.find(name);
    PassCase entry = it == special.end() ? PassCase() : it->second;
    entry.name = name;
    cases.push_back(entry);
  }
  return cases;
}

std::string MainType(const IRModule& module) {
  return relay::PrettyPrint(Downcast<relay::Function>(module->Lookup("main"))->checked_type());
}

void CheckText(const IRModule& module) {
  const std::string text = relay::AsText(module);
  IRModule again = relay::ParseModule(text);
  EXPECT_EQ(StructuralDifference(module, again), "") << text;
  EXPECT_EQ(relay::AsText(again), text);
}

/// "" when the pass keeps the program's type and value.
std::string Check(const PassCase& entry, const IRModule& module, const std::vector<Value>& inputs,
                  const Value& expected) {
  try {
    // Normalisations don't fuse: builds write them as arithmetic before.
    const IRModule before = entry.name == "FuseOps" ? transform::GetPass("SimplifyInference")(module) : module;
    IRModule after = relay::InferTypes(transform::GetPass(entry.name)(before));
    if (entry.same_type && MainType(after) != MainType(module)) return "the type becomes " + MainType(after);
    if (entry.tolerance >= 1) {
      EvalModule(after, inputs);
      return "";
    }
    std::string difference = DifferenceOfValues(expected, EvalModule(after, inputs), entry.tolerance);
    if (!difference.empty()) difference += "\n" + relay::PrettyPrint(after);
    return difference;
  } catch (const Error& e) {
    return e.what();
  }
}

void CheckPrograms(RandomProgramOptions options, int first, int count) {
  driver::RegisterAll();
  transform::PassContext context = transform::PassContext::Current();
  std::set<std::string> failed;  // one program for each pass is enough
  for (int seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(StrCat("seed ", seed));
    IRModule module;
    ASSERT_NO_THROW(module = RandomProgram(static_cast<unsigned>(seed), options).Generate());
    CheckText(module);
    const std::vector<Value> inputs = RandomInputs(module, static_cast<unsigned>(seed));
    const Value expected = EvalModule(module, inputs);
    for (const PassCase& entry : PassCases()) {
      if (failed.count(entry.name) != 0) continue;
      const std::string problem = Check(entry, module, inputs, expected);
      if (problem.empty()) continue;
      failed.insert(entry.name);
      ADD_FAILURE() << entry.name << " on seed " << seed << ": " << problem << "\n" << relay::PrettyPrint(module);
    }
  }
}

TEST(RandomProgram, DataFlowKeepsItsValueThroughEveryPass) {
  CheckPrograms({/*control_flow=*/false, /*size=*/25}, Setting("TREADLE_RANDOM_SEED", 1),
                Setting("TREADLE_RANDOM_PROGRAMS", 15));
}

TEST(RandomProgram, ControlFlowKeepsItsValueThroughEveryPass) {
  CheckPrograms({/*control_flow=*/true, /*size=*/30}, Setting("TREADLE_RANDOM_SEED", 1000),
                Setting("TREADLE_RANDOM_PROGRAMS", 15));
}

}  // namespace
}  // namespace treadle::testing
