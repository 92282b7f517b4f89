// SPDX-License-Identifier: Apache-2.0
#include "treadle/relay/instrument.h"

#include <gmock/gmock.h>

#include "passes/pass_test.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

constexpr const char* kText = "fn (%x: Tensor[(4), float32]) { exp(%x) }";

std::string MessageOf(const ObjectPtr<treadle::transform::PassInstrument>& instrument, const Pass& pass) {
  IRModule module = Parse(kText);
  PassContext context = PassContext::Create();
  context.CopyOnWrite()->instruments = {instrument};
  PassContext::Scope scope(context);
  try {
    pass(module);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A pass that replaces main by what `make` gives for its parameter.
Pass Replacing(const std::function<Expr(const Var& param)>& make) {
  return treadle::transform::CreateModulePass(
      [make](IRModule module, const PassContext&) {
        Function main = Downcast<Function>(module->Lookup("main"));
        module.CopyOnWrite()->Add(module->GetGlobalVar("main"), Function(main->params, make(main->params[0])));
        return module;
      },
      {"Replacing", 0, {}, ""});
}

TEST(PassVerifier, LetsGoodPassesThrough) { EXPECT_EQ(MessageOf(MakePassVerifier(), transform::ToANormalForm()), ""); }

TEST(PassVerifier, NamesThePassThatLeavesAVariableUnbound) {
  Var stray("stray", TensorType(std::vector<int64_t>{4}, DataType::Float(32)));
  EXPECT_THAT(MessageOf(MakePassVerifier(), Replacing([&](const Var&) { return stray; })),
              HasSubstr("pass Replacing made a module that isn't well formed: @main uses %stray"));
}

TEST(PassVerifier, NamesThePassThatMakesAnIllTypedModule) {
  std::string message =
      MessageOf(MakePassVerifier(), Replacing([](const Var& x) -> Expr {
                  Constant wide(runtime::NDArray::FromVector<float>({1, 2, 3}, {3}, DataType::Float(32)));
                  return Call(Op::Get("add"), {x, wide});
                }));
  EXPECT_THAT(message, HasSubstr("pass Replacing made a module that isn't well formed"));
  EXPECT_THAT(message, HasSubstr("add"));
}

TEST(NumericCheck, NamesThePassThatChangesAResult) {
  // Stands for an interpreter: the result is the number of calls in main.
  auto run = [](const IRModule& module, const std::vector<runtime::NDArray>&) {
    float calls = 0;
    PostOrderVisit(module->Lookup("main"), [&](const Expr& e) { calls += e.as<CallNode>() != nullptr ? 1 : 0; });
    return std::vector<runtime::NDArray>{runtime::NDArray::FromVector<float>({calls}, {}, DataType::Float(32))};
  };
  EXPECT_EQ(MessageOf(MakeNumericCheck(run), Replacing([](const Var& x) -> Expr { return Call(Op::Get("log"), {x}); })),
            "");
  EXPECT_THAT(MessageOf(MakeNumericCheck(run), Replacing([](const Var& x) -> Expr { return x; })),
              HasSubstr("pass Replacing changed what main computes: result 0: element 0 was 1 and is 0"));
}

}  // namespace
}  // namespace treadle::relay
