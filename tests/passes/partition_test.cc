// SPDX-License-Identifier: Apache-2.0
// Partitioning for external code generators, and devices.
#include <random>

#include "passes/pass_test.h"
#include "treadle/relay/byoc.h"
#include "treadle/relay/device.h"

namespace treadle::relay {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)

IRModule Partition(const std::string& text, const char* compiler = "test_compiler") {
  IRModule module = Parse(text);
  for (const char* op : {"add", "subtract", "multiply"}) RegisterExternalOp("test_compiler", op);
  RegisterExternalOp("test_other", "exp");
  module = transform::AnnotateTarget({compiler})(module);
  module = transform::MergeCompilerRegions()(module);
  return transform::PartitionGraph()(module);
}

TEST(PartitionGraph, WholeExpressionIsOneFunction) {
  IRModule result = Partition(R"(
fn (%a: Tensor[(10, 10), float32], %b: Tensor[(10, 10), float32], %c: Tensor[(10, 10), float32],
    %d: Tensor[(10, 10), float32]) {
  multiply(subtract(add(%a, %b), %c), %d)
})");
  Function main = Downcast<Function>(result->Lookup("main"));
  EXPECT_NE(Show(result).find("@tvmgen_default_test_compiler_main_0(%a, %b, %c, %d)"), std::string::npos)
      << Show(result);
  Function outlined = Downcast<Function>(result->Lookup("tvmgen_default_test_compiler_main_0"));
  EXPECT_EQ(outlined->params[3]->name_hint(), "test_compiler_0_i3");
  EXPECT_TRUE(outlined->HasNonzeroAttr(attr::kInline));
  EXPECT_EQ(outlined->GetAttr<String>(attr::kCompiler)->str(), "test_compiler");
}

TEST(PartitionGraph, UnsupportedOperatorsStay) {
  IRModule result = Partition("fn (%a: Tensor[(4), float32]) { add(exp(add(%a, %a)), %a) }");
  EXPECT_EQ(result->functions.size(), 3u) << Show(result);
  EXPECT_NE(Show(result).find("exp("), std::string::npos);
}

TEST(PartitionGraph, RegionAroundAnotherOperatorIsntMerged) {
  // The sum needs both the product and, through exp, itself: one region would wait for itself.
  IRModule result = Partition("fn (%a: Tensor[(4), float32]) { %0 = add(%a, %a); multiply(%0, exp(%0)) }");
  EXPECT_EQ(result->functions.size(), 3u) << Show(result);
}

TEST(PartitionGraph, RegionsInACycleAreNamed) {
  // Annotated by hand: the product is in one region with the sum, which what it multiplies with depends on.
  const IRModule module = Parse(R"(
fn (%x: Tensor[(4), float32]) {
  %0 = add(annotation.compiler_begin(%x, compiler="first"), annotation.compiler_begin(%x, compiler="first"));
  %1 = annotation.compiler_end(%0, compiler="first");
  %2 = annotation.compiler_end(exp(annotation.compiler_begin(%1, compiler="second")), compiler="second");
  annotation.compiler_end(multiply(%0, annotation.compiler_begin(%2, compiler="first")), compiler="first")
})");
  try {
    transform::MergeCompilerRegions()(module);
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("in a cycle, or on regions of one: region 0 (first), region 1 (second)"), std::string::npos)
        << text;
  }
}

TEST(PartitionGraph, SeveralResultsBecomeATuple) {
  IRModule result =
      Partition("fn (%a: Tensor[(4), float32]) { %0 = add(%a, %a); %1 = multiply(%0, %0); (exp(%0), exp(%1)) }");
  EXPECT_EQ(result->functions.size(), 2u) << Show(result);
  EXPECT_NE(Show(result).find(".1"), std::string::npos) << Show(result);
}

TEST(PartitionGraph, RandomGraphsHaveNoCycles) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::string text = "fn (%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {\n";
    std::vector<std::string> values{"%x", "%y"};
    for (int i = 0; i < 15; ++i) {
      auto pick = [&] { return values[values.size() - 1 - random() % std::min<size_t>(5, values.size())]; };
      std::string a = pick(), b = pick();
      std::string name = "%" + std::to_string(i);
      text += name + " = " + (random() % 2 ? "add(" + a + ", " + b + ")" : "exp(" + a + ")") + ";\n";
      values.push_back(name);
    }
    text += "(%14, %13)\n}";
    IRModule result = Partition(text);  // a cycle would end in an InternalError or an ill-formed program
    std::string message;
    for (const auto& [var, func] : result->functions) EXPECT_TRUE(WellFormed(func, &message)) << message;
  }
}

TEST(MergeComposite, GroupsConvolutionWithBiasAndActivation) {
  CompositePattern pattern{
      "dnnl.conv2d_bias_relu", {"nn.relu", {{"add", {{"nn.conv2d", {AnyValue(), AnyValue()}}, AnyValue()}}}}, nullptr};
  IRModule module = Parse(
      "fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4, 1, 1), float32]) { "
      "nn.relu(add(%b, nn.conv2d(%x, %w))) }");
  std::string text = Show(transform::MergeComposite({pattern})(module));
  EXPECT_NE(text.find("Composite=\"dnnl.conv2d_bias_relu\""), std::string::npos) << text;
  EXPECT_NE(text.find("PartitionedFromPattern=\"nn.conv2d_add_nn.relu_\""), std::string::npos) << text;
}

std::string Copies(const std::string& text, int fallback) {
  IRModule result = transform::RewriteAnnotatedOps(fallback)(Parse(text));
  std::string found;
  PostOrderVisit(result->Lookup("main"), [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr || call->op.as<OpNode>()->name != "device_copy") return;
    std::string attrs;
    for (const FieldInfo& field : call->attrs->type_info()->fields) {
      attrs += (attrs.empty() ? "" : ">") + std::to_string(field.Get<int>(call->attrs.get()));
    }
    found += (found.empty() ? "" : " ") + attrs;
  });
  return found;
}

TEST(RewriteAnnotatedOps, ReadersOnOneDeviceShareACopy) {
  EXPECT_EQ(Copies(R"(
fn (%x: Tensor[(5), float32], %y: Tensor[(5), float32], %z: Tensor[(5), float32]) {
  %0 = add(%x, %y);
  %1 = on_device(%0, device_type=2);
  %2 = on_device(%0, device_type=2);
  (subtract(%1, %z), subtract(%2, %z))
})",
                   1),
            "2>1");
}

TEST(RewriteAnnotatedOps, NoCopiesOnOneDevice) {
  EXPECT_EQ(Copies(R"(
fn (%x: Tensor[(5), float32]) { on_device(exp(on_device(log(%x), device_type=2)), device_type=2) })",
                   2),
            "");
}

TEST(RewriteAnnotatedOps, CopiesBetweenAnnotatedOperators) {
  EXPECT_EQ(Copies(R"(
fn (%x: Tensor[(5), float32], %y: Tensor[(5), float32], %z: Tensor[(5), float32]) {
  on_device(subtract(on_device(add(%x, %y), device_type=1), %z), device_type=2)
})",
                   1),
            "1>2");
}

TEST(RewriteAnnotatedOps, ProjectionsAreCopiedNotTheTuple) {
  EXPECT_EQ(Copies(R"(
fn (%x: Tensor[(4), float32]) {
  %0 = split(%x, indices_or_sections=2);
  %1 = on_device(%0, device_type=2);
  subtract(%1.0, %1.1)
})",
                   1),
            "2>1 2>1");
}

TEST(CollectDeviceInfo, ParametersFollowTheirConsumer) {
  IRModule module = transform::RewriteAnnotatedOps(1)(Parse(R"(
fn (%x: Tensor[(4), float32], %y: Tensor[(4), float32]) {
  %0 = on_device(exp(%x), device_type=2);
  add(%0, %y)
})"));
  Function main = Downcast<Function>(module->Lookup("main"));
  DeviceMap devices = CollectDeviceInfo(main);
  EXPECT_EQ(devices.at(main->params[0]), 2);
  EXPECT_EQ(devices.at(main->params[1]), 1);
  EXPECT_EQ(devices.at(main->body), 1);
}

}  // namespace
}  // namespace treadle::relay
