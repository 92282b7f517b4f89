// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/op_versions.h"
#include "frontend/onnx_builder.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::onnx {
namespace {

using namespace ::treadle::onnx::testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr ElemType kF32 = ElemType::kFloat;

ImportResult Import(const Message& model, const ImportOptions& options = {}) {
  return FromOnnx(ReadMessage(model), options);
}

relay::Function MainOf(const ImportResult& result) { return Downcast<relay::Function>(result.mod->Lookup("main")); }

/// Names of the operators called, in the order of evaluation.
std::vector<std::string> OpsOf(const ImportResult& result) {
  std::vector<std::string> ops;
  relay::PostOrderVisit(MainOf(result), [&](const relay::Expr& expr) {
    if (const auto* call = expr.as<relay::CallNode>()) ops.push_back(Downcast<Op>(call->op)->name);
  });
  return ops;
}

std::vector<int64_t> ResultShape(const ImportResult& result) {
  return StaticShape(MainOf(result)->body->type_as<TensorTypeNode>(), "result");
}

template <typename E, typename F>
std::string ErrorOf(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

/// A graph of one node with inputs of the given shapes, and constant inputs.
Message OneNode(const Message& node, const std::vector<std::vector<Dim>>& shapes, int64_t opset,
                const std::vector<Message>& initializers = {}) {
  GraphParts parts;
  parts.nodes = {node};
  parts.initializers = initializers;
  const char* names[] = {"a", "b", "c"};
  for (size_t i = 0; i < shapes.size(); ++i) parts.inputs.push_back(ValueMessage(names[i], kF32, shapes[i]));
  parts.outputs = {ValueMessage("y", kF32, {})};
  return ModelMessage(GraphMessage(parts), opset);
}

TEST(Importer, NamesCallsByNodes) {
  ImportResult result = Import(OneNode(NodeMessage("Relu", {"a"}, {"y"}, {}, "first relu"), {{2, 3}}, 13));
  const auto* call = MainOf(result)->body.as<relay::CallNode>();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->span->source_name, "first relu");
  EXPECT_THAT(OpsOf(result), ElementsAre("nn.relu"));
  EXPECT_THAT(result.input_names, ElementsAre("a"));
  EXPECT_THAT(result.output_names, ElementsAre("y"));
}

TEST(Importer, MakesParametersOfWeights) {
  Message model = OneNode(NodeMessage("Add", {"a", "w"}, {"y"}), {{2, 3}}, 13,
                          {FloatTensor("w", {3}, {1, 2, 3}), FloatTensor("unused", {2}, {1, 2})});
  ImportResult result = Import(model);
  EXPECT_THAT(result.params, SizeIs(1));
  EXPECT_THAT(MainOf(result)->params, SizeIs(2));
  EXPECT_EQ(MainOf(result)->params[1]->name_hint(), "w");
  ImportOptions options;
  options.freeze_params = true;
  result = Import(model, options);
  EXPECT_TRUE(result.params.empty());
  EXPECT_THAT(MainOf(result)->params, SizeIs(1));
}

TEST(Importer, InputsThatHaveInitializersAreWeights) {
  GraphParts parts;
  parts.nodes = {NodeMessage("Add", {"a", "w"}, {"y"})};
  parts.initializers = {FloatTensor("w", {2}, {1, 2})};
  parts.inputs = {ValueMessage("a", kF32, {2}), ValueMessage("w", kF32, {2})};
  parts.outputs = {ValueMessage("y", kF32, {2})};
  EXPECT_THAT(Import(ModelMessage(GraphMessage(parts))).input_names, ElementsAre("a"));
}

TEST(Importer, ListsEveryUnsupportedNode) {
  GraphParts parts;
  parts.nodes = {NodeMessage("NoSuchOp", {"a"}, {"b"}, {}, "one"), NodeMessage("Relu", {"b"}, {"c"}),
                 NodeMessage("Foo", {"c"}, {"d"}, {}, "two", "com.acme"),
                 NodeMessage("Relu", {"d"}, {"y"}, {FloatAttr("surprise", 1)}, "three")};
  parts.inputs = {ValueMessage("a", kF32, {2})};
  parts.outputs = {ValueMessage("y", kF32, {2})};
  try {
    Import(ModelMessage(GraphMessage(parts)));
    FAIL() << "no error";
  } catch (const UnsupportedOpError& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnsupported);
    EXPECT_THAT(e.nodes(), ElementsAre(HasSubstr("'one' (NoSuchOp, opset 13): ONNX has no such operator"),
                                       HasSubstr("'two' (com.acme.Foo, opset 0)")));
    EXPECT_THAT(e.what(), HasSubstr("can't import 2 nodes: NoSuchOp x 1, com.acme.Foo x 1"));
  }
}

TEST(Importer, RefusesUnknownAttributesInputsAndOutputs) {
  auto error = [](const Message& node, const std::vector<std::vector<Dim>>& shapes) {
    return ErrorOf<UnsupportedOpError>([&] { Import(OneNode(node, shapes, 13)); });
  };
  EXPECT_THAT(error(NodeMessage("Relu", {"a"}, {"y"}, {FloatAttr("surprise", 1)}, "n"), {{2}}),
              HasSubstr("'n' (Relu, opset 13): attribute 'surprise' isn't implemented"));
  EXPECT_THAT(error(NodeMessage("Relu", {"a", "b"}, {"y"}), {{2}, {2}}), HasSubstr("input 1 isn't implemented"));
  EXPECT_THAT(error(NodeMessage("Relu", {"a"}, {"y", "i"}), {{2}}), HasSubstr("output 1 isn't implemented"));
}

TEST(Importer, RefusesOperatorsNewerThanTheModel) {
  EXPECT_THAT(ErrorOf<UnsupportedOpError>([] { Import(OneNode(NodeMessage("Gelu", {"a"}, {"y"}), {{2}}, 13)); }),
              HasSubstr("exists since opset 20, the model imports 13"));
  EXPECT_THAT(ErrorOf<UnsupportedOpError>([] { Import(OneNode(NodeMessage("Relu", {"a"}, {"y"}), {{2}}, 99)); }),
              HasSubstr("opset 99"));
  EXPECT_THAT(ErrorOf<UnsupportedOpError>([] { Import(OneNode(NodeMessage("Upsample", {"a"}, {"y"}), {{2}}, 11)); }),
              HasSubstr("version 10 of the operator isn't implemented"));
}

TEST(Importer, NamesTheNodeInShapeErrors) {
  EXPECT_THAT(
      ErrorOf<ShapeError>([] { Import(OneNode(NodeMessage("Add", {"a", "b"}, {"y"}, {}, "sum"), {{2}, {3}}, 13)); }),
      HasSubstr("node 'sum' (Add): "));
  EXPECT_THAT(ErrorOf<ModelFormatError>(
                  [] { Import(OneNode(NodeMessage("Concat", {"a"}, {"y"}, {IntAttr("axis", 5)}, "cat"), {{2}}, 13)); }),
              HasSubstr("node 'cat' (Concat): axis 5 is out of range for rank 1"));
}

TEST(Importer, FixesDimensionsByInputAndByName) {
  Message model = OneNode(NodeMessage("Add", {"a", "b"}, {"y"}), {{"batch", 3}, {"batch", 3}}, 13);
  ImportOptions options;
  options.dims = {{"batch", 4}};
  EXPECT_THAT(ResultShape(Import(model, options)), ElementsAre(4, 3));
  options.dims.clear();
  options.shapes = {{"a", {5, 3}}};
  EXPECT_THAT(ResultShape(Import(model, options)), ElementsAre(5, 3));
}

TEST(Importer, RefusesUnknownInputsDimensionsAndContradictions) {
  Message model = OneNode(NodeMessage("Add", {"a", "b"}, {"y"}), {{"batch", 3}, {"batch", 3}}, 13);
  auto error = [&](std::map<std::string, std::vector<int64_t>> shapes, std::map<std::string, int64_t> dims) {
    ImportOptions options;
    options.shapes = std::move(shapes);
    options.dims = std::move(dims);
    return ErrorOf<Error>([&] { Import(model, options); });
  };
  EXPECT_EQ(error({{"z", {1}}}, {}), "the model has no input 'z'; its inputs are: 'a', 'b'");
  EXPECT_EQ(error({}, {{"seq", 1}}), "no input has a dimension called 'seq'; there are: 'batch'");
  EXPECT_THAT(error({{"a", {1}}}, {}), HasSubstr("input 'a' has rank 2, the given shape has rank 1"));
  EXPECT_THAT(error({{"a", {1, 3}}, {"b", {2, 3}}}, {}), HasSubstr("dimension 'batch' is 2 here and 1 elsewhere"));
}

TEST(Importer, KeepsSymbolicDimensions) {
  ImportResult result = Import(OneNode(NodeMessage("Relu", {"a"}, {"y"}), {{"batch", 3}}, 13));
  const auto* type = MainOf(result)->body->type_as<TensorTypeNode>();
  EXPECT_EQ(AsConstInt(type->shape[0]), nullptr);
  EXPECT_FALSE(IsAnyDim(type->shape[0]));
}

TEST(Importer, ComputesShapesFromShapes) {
  // y = Reshape(a, Concat(Slice(Shape(a), 0, 1), [-1]))
  GraphParts parts;
  parts.nodes = {NodeMessage("Shape", {"a"}, {"shape"}), NodeMessage("Slice", {"shape", "zero", "one"}, {"batch"}),
                 NodeMessage("Concat", {"batch", "rest"}, {"target"}, {IntAttr("axis", 0)}),
                 NodeMessage("Reshape", {"a", "target"}, {"y"})};
  parts.initializers = {Int64Tensor("zero", {1}, {0}), Int64Tensor("one", {1}, {1}), Int64Tensor("rest", {1}, {-1})};
  parts.inputs = {ValueMessage("a", kF32, {2, 3, 4})};
  parts.outputs = {ValueMessage("y", kF32, {2, 12})};
  ImportResult result = Import(ModelMessage(GraphMessage(parts)));
  EXPECT_THAT(OpsOf(result), ElementsAre("reshape"));
  EXPECT_THAT(ResultShape(result), ElementsAre(2, 12));
}

TEST(Importer, InlinesFunctions) {
  Message function;  // Twice(x) = alpha * x, alpha by attribute
  function.Bytes(1, "Scale").Bytes(4, "x").Bytes(5, "z").Bytes(6, "factor").Bytes(10, "local");
  function.Sub(7, NodeMessage("LeakyRelu", {"x"}, {"z"}, {Message().Bytes(1, "alpha").Bytes(21, "factor").Int(20, 1)}));
  function.Sub(9, Message().Int(2, 16));
  Message model = OneNode(NodeMessage("Scale", {"a"}, {"y"}, {FloatAttr("factor", 0.5f)}, "s", "local"), {{2}}, 16);
  model.Sub(25, function).Sub(8, Message().Bytes(1, "local").Int(2, 1));
  ImportResult result = Import(model);
  EXPECT_THAT(OpsOf(result), ElementsAre("nn.leaky_relu"));
  EXPECT_EQ(MainOf(result)->body->span->source_name, "s/LeakyRelu#0");
}

TEST(Importer, StopsRecursiveFunctions) {
  Message function;
  function.Bytes(1, "F").Bytes(4, "x").Bytes(5, "z").Bytes(10, "local");
  function.Sub(7, NodeMessage("F", {"x"}, {"z"}, {}, "", "local"));
  Message model = OneNode(NodeMessage("F", {"a"}, {"y"}, {}, "", "local"), {{2}}, 16);
  model.Sub(25, function).Sub(8, Message().Bytes(1, "local").Int(2, 1));
  EXPECT_THAT(ErrorOf<ModelFormatError>([&] { Import(model); }), HasSubstr("nested more than 64 deep"));
}

TEST(Importer, ImportsLongChains) {
  constexpr int kLength = 20000;
  GraphParts parts;
  for (int i = 0; i < kLength; ++i) parts.nodes.push_back(NodeMessage("Relu", {StrCat("v", i)}, {StrCat("v", i + 1)}));
  parts.inputs = {ValueMessage("v0", kF32, {2})};
  parts.outputs = {ValueMessage(StrCat("v", kLength), kF32, {2})};
  EXPECT_THAT(OpsOf(Import(ModelMessage(GraphMessage(parts)))), SizeIs(kLength));
}

TEST(OpVersions, AreSortedAndLookedUp) {
  std::vector<std::string_view> ops = AllOps();
  EXPECT_TRUE(std::is_sorted(ops.begin(), ops.end()));
  EXPECT_THAT(VersionsOfOp("Conv"), ElementsAre(1, 11, 22));
  EXPECT_TRUE(VersionsOfOp("NoSuchOp").empty());
}

TEST(SupportedOps, ListsVersions) {
  for (const SupportedOp& op : SupportedOps()) {
    EXPECT_FALSE(op.versions.empty()) << op.name;
    if (op.name == "Conv") {
      EXPECT_TRUE(op.missing_versions.empty());
    }
  }
}

}  // namespace
}  // namespace treadle::onnx
