// SPDX-License-Identifier: Apache-2.0
// The two code generators of the tutorial.
#include <fstream>

#include "external/external_test_util.h"
#include "treadle/runtime/registry.h"

namespace treadle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// The article's graph: three chains on tensors of (10, 10).
const char kChains[] = R"(
fn (%x: Tensor[(10, 10), float32], %w0: Tensor[(10, 10), float32], %w1: Tensor[(10, 10), float32],
    %w2: Tensor[(10, 10), float32], %w3: Tensor[(10, 10), float32], %w4: Tensor[(10, 10), float32],
    %w5: Tensor[(10, 10), float32], %w6: Tensor[(10, 10), float32], %w7: Tensor[(10, 10), float32]) {
  %0 = add(%x, %w0);
  %1 = subtract(%0, %w1);
  %2 = multiply(%1, %w2);
  %3 = add(%x, %w3);
  %4 = subtract(%3, %w4);
  %5 = multiply(%4, %w5);
  %6 = add(%x, %w6);
  %7 = subtract(%6, %w7);
  (%2, %5, %7)
})";

relay::Function Region(const std::string& body, const std::string& symbol, const std::string& shape = "(10, 10)") {
  std::string type = "Tensor[" + shape + ", float32]";
  IRModule module =
      ParseGraph("fn (%a: " + type + ", %b: " + type + ", %c: " + type + ", %d: " + type + ") { " + body + " }");
  auto main = Downcast<relay::Function>(module->Lookup("main"));
  return WithAttr(main, attr::kGlobalSymbol, String(symbol));
}

runtime::Module Generate(const std::string& codegen, const relay::Function& region) {
  return runtime::Registry::Require("relay.ext." + codegen)(region).As<runtime::Module>();
}

TEST(ArticleGraph, RunsWithC) { ExpectSameResults(kChains, {"c"}); }
TEST(ArticleGraph, RunsWithJson) { ExpectSameResults(kChains, {"json"}); }

TEST(CSource, NumbersFunctionsFromTheResultBackwards) {
  std::string code = Generate("ccompiler", Region("multiply(subtract(add(%a, %b), %c), %d)", "gcc_0"))->GetSource("");
  EXPECT_THAT(code, HasSubstr("CSOURCE_BINARY_OP_2D(gcc_0_0, *, 10, 10, float)"));
  EXPECT_THAT(code, HasSubstr("CSOURCE_BINARY_OP_2D(gcc_0_1, -, 10, 10, float)"));
  EXPECT_THAT(code, HasSubstr("CSOURCE_BINARY_OP_2D(gcc_0_2, +, 10, 10, float)"));
  EXPECT_THAT(code, HasSubstr("gcc_0_2(in0, in1, buf_0);"));
}

TEST(CSource, OneDimensionReusedInputsAndSwappedParameters) {
  ExpectSameResults(R"(
fn (%b: Tensor[(7), float32], %a: Tensor[(7), float32]) { subtract(add(%a, %b), %a) })",
                    {"c"});
}

TEST(CSource, BroadcastsAndElementwiseFunctions) {
  ExpectSameResults(R"(
fn (%a: Tensor[(2, 3, 4), float32], %b: Tensor[(3, 1), float32], %c: Tensor[(4), float32]) {
  %0 = multiply(nn.relu(add(%a, %b)), %c);
  %1 = sigmoid(%0);
  %2 = maximum(tanh(%1), clip(%a, a_min=-0.5f, a_max=0.5f));
  (exp(%2), nn.leaky_relu(%0, alpha=0.1f), %1)
})",
                    {"c"});
}

TEST(CSource, MatrixProducts) {
  ExpectSameResults(R"(
fn (%a: Tensor[(3, 4), float32], %b: Tensor[(5, 4), float32], %c: Tensor[(2, 3, 4), float32],
    %d: Tensor[(2, 4, 6), float32]) {
  %0 = nn.dense(%a, %b, units=None);
  %1 = nn.batch_matmul(%c, %d, transpose_b=False);
  (nn.relu(%0), reshape(%1, newshape=[6, 6]))
})",
                    {"c"});
}

TEST(CSource, WorkspaceIsReused) {
  std::string body = "%a";
  for (int i = 0; i < 6; ++i) body = "add(" + body + ", %b)";
  std::string code = Generate("c", Region(body, "chain"))->GetSource("");
  EXPECT_THAT(code, HasSubstr("buf_1"));
  EXPECT_THAT(code, Not(HasSubstr("buf_2")));
}

TEST(CSource, ConstantsLargeAndSmall) {
  IRModule module = ParseGraph(R"(
fn (%x: Tensor[(16, 16), float32], %w: Tensor[(16, 16), float32], %b: Tensor[(16), float32]) {
  add(multiply(%x, %w), %b) })");
  runtime::ParamList params{{"w", Values({16, 16}, 3)}, {"b", Values({16}, 4)}};
  driver::CompiledModel with = BuildWith(module, {"c"}, params);
  EXPECT_THAT(ExternalSource(with), HasSubstr("extern const float"));
  EXPECT_THAT(ExternalSource(with), HasSubstr("static const float"));
  ExpectClose(RunModel(ExportAndLoad(with)), RunModel(ExportAndLoad(BuildWith(module, {}, params))));
}

TEST(ExampleJson, WritesTheArticlesLines) {
  runtime::Module module =
      Generate("examplejsoncompiler", Region("multiply(subtract(add(%a, %b), %c), %d)", "subgraph_0"));
  EXPECT_EQ(module->GetSource(""),
            "subgraph_0\n"
            "  input 0 10 10\n"
            "  input 1 10 10\n"
            "  input 2 10 10\n"
            "  input 3 10 10\n"
            "  add 4 inputs: 0 1 shape: 10 10\n"
            "  sub 5 inputs: 4 2 shape: 10 10\n"
            "  mul 6 inputs: 5 3 shape: 10 10\n");
}

TEST(ExampleJson, RunsSeveralGraphsOfAFile) {
  TemporaryFile file(".examplejson");
  std::ofstream(file.path()) << "subgraph_0\n  input 0 2\n  input 1 2\n  add 2 inputs: 0 1 shape: 2\n"
                                "subgraph_1\n  input 0 2\n  const 1 shape: 1 values: 3\n  mul 2 inputs: 0 1 shape: 2\n";
  driver::RegisterAll();
  runtime::Module module = runtime::Module::LoadFromFile(file.path(), "examplejson");
  runtime::PackedFunc add = module.GetFunction("subgraph_0"), multiply = module.GetFunction("subgraph_1");
  NDArray x = NDArray::FromVector<float>({1, 2}, {2}, DataType::Float(32));
  NDArray out = NDArray::Empty({2}, DataType::Float(32));
  for (int i = 0; i < 2; ++i) {
    add(x, x, out);
    EXPECT_EQ(out.Data<float>()[1], 4);
    multiply(x, out);
    EXPECT_EQ(out.Data<float>()[1], 6);
  }
  EXPECT_FALSE(module.GetFunction("subgraph_2"));
  NDArray wrong = NDArray::Empty({3}, DataType::Float(32));
  EXPECT_THAT([&] { add(x, wrong, out); }, ThrowsMessage<ShapeError>(HasSubstr("argument 1")));
}

TEST(ExampleJson, MalformedLinesAreReportedWithTheirNumber) {
  driver::RegisterAll();
  auto load = [](const std::string& text) {
    TemporaryFile file(".examplejson");
    std::ofstream(file.path()) << text;
    runtime::Module::LoadFromFile(file.path());
  };
  EXPECT_THAT([&] { load("g\n  input 0 2\n  div 1 inputs: 0 0 shape: 2\n"); },
              ThrowsMessage<ModelFormatError>(HasSubstr("line 3: unknown operator 'div'")));
  EXPECT_THAT([&] { load("g\n  input 0 2\n  add 1 inputs: 0 7 shape: 2\n"); },
              ThrowsMessage<ModelFormatError>(HasSubstr("node 7")));
  EXPECT_THAT([&] { load("g\n  input 0 4000000000 4000000000\n"); }, ::testing::Throws<Error>());
  EXPECT_THAT([&] { load("  input 0 2\n"); }, ThrowsMessage<ModelFormatError>(HasSubstr("line 1")));
}

TEST(ExampleJson, ConstantsAndSeveralResults) {
  driver::CompiledModel with = ExpectSameResults(R"(
fn (%x: Tensor[(2, 3), float32]) { %0 = add(%x, 0.1f); %1 = multiply(%0, %0); (exp(%0), tanh(%1)) })",
                                                 {"json"}, 1e-4f);
  EXPECT_THAT(ExternalSource(with), HasSubstr("values: 0.1"));
}

}  // namespace
}  // namespace treadle::testing
