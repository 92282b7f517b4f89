// SPDX-License-Identifier: Apache-2.0
// One check per rule of the standard that is easily got wrong: what a node becomes, by operators and shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/importer.h"
#include "frontend/onnx_builder.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::onnx {
namespace {

using namespace ::treadle::onnx::testing;  // NOLINT(google-build-using-namespace)
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

struct Imported {
  Ints shape;
  std::vector<std::string> ops;
};

/// Imports one node with input "a" of the given shape; other inputs are the initializers.
Imported Import(const Message& node, const std::vector<Dim>& shape, int64_t opset,
                const std::vector<Message>& initializers = {}) {
  GraphParts parts;
  parts.nodes = {node};
  parts.initializers = initializers;
  parts.inputs = {ValueMessage("a", ElemType::kFloat, shape)};
  parts.outputs = {ValueMessage("y", ElemType::kFloat, {})};
  ImportResult result = FromOnnx(ReadMessage(ModelMessage(GraphMessage(parts), opset)));
  auto main = Downcast<relay::Function>(result.mod->Lookup("main"));
  Imported imported;
  imported.shape = StaticShape(main->body->type_as<TensorTypeNode>(), "result");
  relay::PostOrderVisit(main, [&](const relay::Expr& expr) {
    if (const auto* call = expr.as<relay::CallNode>()) imported.ops.push_back(Downcast<Op>(call->op)->name);
  });
  return imported;
}

Message Zeros(const std::string& name, const Ints& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return FloatTensor(name, dims, std::vector<float>(static_cast<size_t>(count), 0));
}

TEST(ImportConv, ReadsPaddingStridesAndGroups) {
  auto conv = [](const std::vector<Message>& attributes, const Ints& weight = {4, 3, 3, 3}) {
    return Import(NodeMessage("Conv", {"a", "w"}, {"y"}, attributes), {1, 3, 10, 11}, 11, {Zeros("w", weight)}).shape;
  };
  EXPECT_THAT(conv({}), ElementsAre(1, 4, 8, 9));
  EXPECT_THAT(conv({IntsAttr("pads", {0, 1, 2, 3})}), ElementsAre(1, 4, 10, 13));
  EXPECT_THAT(conv({IntsAttr("strides", {2, 1}), IntsAttr("dilations", {1, 2})}), ElementsAre(1, 4, 4, 7));
  EXPECT_THAT(conv({StringAttr("auto_pad", "SAME_UPPER"), IntsAttr("strides", {2, 2})}), ElementsAre(1, 4, 5, 6));
  EXPECT_THAT(conv({IntAttr("group", 3)}, {6, 1, 3, 3}), ElementsAre(1, 6, 8, 9));
  EXPECT_THROW(conv({IntAttr("group", 2)}), ModelFormatError);
  EXPECT_THROW(conv({IntsAttr("strides", {0, 1})}), ModelFormatError);
  EXPECT_THROW(conv({IntsAttr("kernel_shape", {5, 5})}), ModelFormatError);
}

TEST(ImportConvTranspose, PadsToTheOutputShape) {
  auto conv = [](const std::vector<Message>& attributes) {
    return Import(NodeMessage("ConvTranspose", {"a", "w"}, {"y"}, attributes), {1, 3, 5, 5}, 11,
                  {Zeros("w", {3, 2, 3, 3})})
        .shape;
  };
  EXPECT_THAT(conv({IntsAttr("strides", {2, 2})}), ElementsAre(1, 2, 11, 11));
  EXPECT_THAT(conv({IntsAttr("strides", {2, 2}), IntsAttr("output_shape", {10, 12})}), ElementsAre(1, 2, 10, 12));
  EXPECT_THAT(conv({IntsAttr("strides", {2, 2}), StringAttr("auto_pad", "SAME_LOWER")}), ElementsAre(1, 2, 10, 10));
}

TEST(ImportPool, RoundsUpInCeilMode) {
  auto pool = [](const char* op, const std::vector<Message>& attributes) {
    return Import(NodeMessage(op, {"a"}, {"y"}, attributes), {1, 2, 7, 7}, 12).shape;
  };
  std::vector<Message> attributes{IntsAttr("kernel_shape", {2, 2}), IntsAttr("strides", {2, 2})};
  EXPECT_THAT(pool("MaxPool", attributes), ElementsAre(1, 2, 3, 3));
  attributes.push_back(IntAttr("ceil_mode", 1));
  EXPECT_THAT(pool("MaxPool", attributes), ElementsAre(1, 2, 4, 4));
  attributes.push_back(IntAttr("count_include_pad", 1));
  EXPECT_THAT(pool("AveragePool", attributes), ElementsAre(1, 2, 4, 4));
}

TEST(ImportReshape, CopiesAndInfersDimensions) {
  auto reshape = [](const Ints& shape, const std::vector<Message>& attributes = {}) {
    return Import(NodeMessage("Reshape", {"a", "s"}, {"y"}, attributes), {2, 3, 4}, 14,
                  {Int64Tensor("s", {static_cast<int64_t>(shape.size())}, shape)})
        .shape;
  };
  EXPECT_THAT(reshape({0, -1}), ElementsAre(2, 12));
  EXPECT_THAT(reshape({4, 0, 2}), ElementsAre(4, 3, 2));
  EXPECT_THROW(reshape({-1, -1}), ModelFormatError);
  EXPECT_THROW(reshape({-2, 12}), ModelFormatError);
  EXPECT_THROW(reshape({0, -1}, {IntAttr("allowzero", 1)}), ModelFormatError);
  EXPECT_THROW(reshape({5, 5}), ShapeError);
}

TEST(ImportSlice, ClampsBoundsAsTheStandardSays) {
  auto slice = [](int64_t start, int64_t end, int64_t step) {
    return Import(NodeMessage("Slice", {"a", "b", "e", "x", "s"}, {"y"}), {10}, 13,
                  {Int64Tensor("b", {1}, {start}), Int64Tensor("e", {1}, {end}), Int64Tensor("x", {1}, {0}),
                   Int64Tensor("s", {1}, {step})})
        .shape[0];
  };
  EXPECT_EQ(slice(1, 5, 1), 4);
  EXPECT_EQ(slice(0, INT64_MAX, 1), 10);
  EXPECT_EQ(slice(-3, INT64_MAX, 2), 2);
  EXPECT_EQ(slice(-1, INT64_MIN, -1), 10);
  EXPECT_EQ(slice(8, 2, -2), 3);
  EXPECT_EQ(slice(5, 2, 1), 0);
  EXPECT_EQ(slice(-20, 20, -1), 0);
  EXPECT_THROW(slice(0, 1, 0), ModelFormatError);
}

TEST(ImportSplit, TakesSizesFromAttributesInputsAndCounts) {
  auto split = [](const Message& node, int64_t opset, const std::vector<Message>& initializers = {}) {
    return Import(node, {7, 2}, opset, initializers).shape;
  };
  EXPECT_THAT(split(NodeMessage("Split", {"a"}, {"y", "z"}, {IntsAttr("split", {3, 4})}), 11), ElementsAre(3, 2));
  EXPECT_THAT(split(NodeMessage("Split", {"a", "s"}, {"z", "y"}), 13, {Int64Tensor("s", {2}, {3, 4})}),
              ElementsAre(4, 2));
  EXPECT_THAT(split(NodeMessage("Split", {"a"}, {"z", "y"}, {IntAttr("num_outputs", 2)}), 18), ElementsAre(3, 2));
  EXPECT_THROW(split(NodeMessage("Split", {"a"}, {"y", "z"}), 11), ModelFormatError);
  EXPECT_THROW(split(NodeMessage("Split", {"a"}, {"y", "z"}, {IntsAttr("split", {3, 3})}), 11), ModelFormatError);
}

TEST(ImportUnsqueeze, CountsAxesInTheResult) {
  EXPECT_THAT(Import(NodeMessage("Unsqueeze", {"a", "x"}, {"y"}), {2, 3}, 13, {Int64Tensor("x", {2}, {-1, 1})}).shape,
              ElementsAre(2, 1, 3, 1));
  EXPECT_THAT(Import(NodeMessage("Unsqueeze", {"a"}, {"y"}, {IntsAttr("axes", {0, 1})}), {2, 3}, 11).shape,
              ElementsAre(1, 1, 2, 3));
}

TEST(ImportFlatten, MakesAMatrix) {
  auto flatten = [](int64_t axis) {
    return Import(NodeMessage("Flatten", {"a"}, {"y"}, {IntAttr("axis", axis)}), {2, 3, 4}, 13).shape;
  };
  EXPECT_THAT(flatten(0), ElementsAre(1, 24));
  EXPECT_THAT(flatten(1), ElementsAre(2, 12));
  EXPECT_THAT(flatten(-1), ElementsAre(6, 4));
  EXPECT_THAT(flatten(3), ElementsAre(24, 1));
}

TEST(ImportMatMul, BroadcastsBatches) {
  auto matmul = [](const std::vector<Dim>& a, const Ints& b) {
    return Import(NodeMessage("MatMul", {"a", "b"}, {"y"}), a, 13, {Zeros("b", b)}).shape;
  };
  EXPECT_THAT(matmul({2, 3}, {3, 4}), ElementsAre(2, 4));
  EXPECT_THAT(matmul({5, 2, 3}, {3, 4}), ElementsAre(5, 2, 4));
  EXPECT_THAT(matmul({5, 1, 2, 3}, {6, 3, 4}), ElementsAre(5, 6, 2, 4));
  EXPECT_THAT(matmul({3}, {3, 4}), ElementsAre(4));
  EXPECT_THAT(matmul({2, 3}, {3}), ElementsAre(2));
  EXPECT_THAT(matmul({3}, {3}), ElementsAre());
  EXPECT_THAT(matmul({2, 3}, {5, 3, 4}), ElementsAre(5, 2, 4));
  EXPECT_THROW(matmul({2, 3}, {4, 4}), Error);
}

TEST(ImportSoftmax, FlattensBeforeOpset13) {
  auto softmax = [](int64_t opset, int64_t axis) {
    return Import(NodeMessage("Softmax", {"a"}, {"y"}, {IntAttr("axis", axis)}), {2, 3, 4}, opset).ops;
  };
  EXPECT_THAT(softmax(13, 1), ElementsAre("nn.softmax"));
  EXPECT_THAT(softmax(11, 2), ElementsAre("nn.softmax"));
  EXPECT_THAT(softmax(11, 1), ElementsAre("reshape", "nn.softmax", "reshape"));
}

TEST(ImportReduce, TakesAxesFromAttributeOrInput) {
  EXPECT_THAT(Import(NodeMessage("ReduceMean", {"a"}, {"y"}, {IntsAttr("axes", {-1})}), {2, 3}, 13).shape,
              ElementsAre(2, 1));
  EXPECT_THAT(Import(NodeMessage("ReduceMean", {"a", "x"}, {"y"}, {IntAttr("keepdims", 0)}), {2, 3}, 18,
                     {Int64Tensor("x", {1}, {0})})
                  .shape,
              ElementsAre(3));
  EXPECT_THAT(Import(NodeMessage("ReduceSum", {"a"}, {"y"}), {2, 3}, 13).shape, ElementsAre(1, 1));
  EXPECT_THAT(Import(NodeMessage("ReduceSum", {"a"}, {"y"}, {IntAttr("noop_with_empty_axes", 1)}), {2, 3}, 13).ops,
              ElementsAre());
}

TEST(ImportArithmetic, BroadcastsAtAnAxisBeforeOpset7) {
  auto add = [](const std::vector<Message>& attributes) {
    return Import(NodeMessage("Add", {"a", "b"}, {"y"}, attributes), {2, 3, 4}, 6, {Zeros("b", {3})}).ops;
  };
  EXPECT_THAT(add({IntAttr("broadcast", 1), IntAttr("axis", 1)}), ElementsAre("expand_dims", "add"));
  EXPECT_THROW(add({}), ModelFormatError);
}

TEST(ImportClip, TakesBoundsFromAttributesOrInputs) {
  EXPECT_THAT(Import(NodeMessage("Clip", {"a"}, {"y"}, {FloatAttr("min", 0), FloatAttr("max", 6)}), {2}, 6).ops,
              ElementsAre("clip"));
  EXPECT_THAT(Import(NodeMessage("Clip", {"a", "", "m"}, {"y"}), {2}, 13, {FloatTensor("m", {}, {6})}).ops,
              ElementsAre("minimum"));
}

TEST(ImportDropout, IsTheIdentityInInference) {
  EXPECT_THAT(Import(NodeMessage("Dropout", {"a"}, {"y", "mask"}), {2}, 12).ops, ElementsAre());
  std::vector<Message> inference{FloatTensor("r", {}, {0.5}),
                                 TensorMessage("t", ElemType::kBool, {}, std::string(1, '\0'))};
  EXPECT_THAT(Import(NodeMessage("Dropout", {"a", "r", "t"}, {"y"}), {2}, 12, inference).ops, ElementsAre());
}

TEST(ImportResize, ReadsScalesAndSizes) {
  auto resize = [](const std::vector<std::string>& inputs, const std::vector<Message>& initializers) {
    return Import(NodeMessage("Resize", inputs, {"y"}), {1, 2, 4, 5}, 13, initializers).shape;
  };
  EXPECT_THAT(resize({"a", "", "s"}, {FloatTensor("s", {4}, {1, 1, 2, 3})}), ElementsAre(1, 2, 8, 15));
  EXPECT_THAT(resize({"a", "", "", "z"}, {Int64Tensor("z", {4}, {1, 2, 7, 7})}), ElementsAre(1, 2, 7, 7));
  EXPECT_THROW(resize({"a"}, {}), ModelFormatError);
}

TEST(ImportUpsample, ScalesByAttribute) {
  Message scales = Message().Bytes(1, "scales").Floats(7, {1, 1, 2, 2}).Int(20, 6);
  EXPECT_THAT(Import(NodeMessage("Upsample", {"a"}, {"y"}, {scales}), {1, 2, 3, 3}, 7).shape, ElementsAre(1, 2, 6, 6));
}

TEST(ImportConstantOfShape, KeepsLargeOnesOutOfTheModel) {
  auto shape_of = [](const Ints& shape) {
    Message node = NodeMessage("ConstantOfShape", {"s"}, {"y"});
    return Import(node, {1}, 9, {Int64Tensor("s", {static_cast<int64_t>(shape.size())}, shape)});
  };
  EXPECT_THAT(shape_of({10, 10}).ops, ElementsAre());
  EXPECT_THAT(shape_of({1 << 15, 1 << 15}).ops, ElementsAre("full"));
  EXPECT_THROW(shape_of({int64_t{1} << 40, int64_t{1} << 40}), ShapeError);
  EXPECT_THROW(shape_of({-1}), ModelFormatError);
}

TEST(ImportGather, ChecksKnownIndices) {
  EXPECT_THAT(Import(NodeMessage("Gather", {"a", "i"}, {"y"}), {4, 3}, 13, {Int64Tensor("i", {2}, {0, -1})}).shape,
              ElementsAre(2, 3));
  EXPECT_THROW(Import(NodeMessage("Gather", {"a", "i"}, {"y"}), {4, 3}, 13, {Int64Tensor("i", {1}, {4})}),
               ModelFormatError);
}

TEST(ImportPad, CutsWhereNegative) {
  EXPECT_THAT(Import(NodeMessage("Pad", {"a", "p"}, {"y"}), {4, 3}, 13, {Int64Tensor("p", {4}, {1, -1, 0, 2})}).shape,
              ElementsAre(5, 4));
}

TEST(ImportExpand, BroadcastsBothWays) {
  EXPECT_THAT(Import(NodeMessage("Expand", {"a", "s"}, {"y"}), {3, 1}, 13, {Int64Tensor("s", {3}, {2, 1, 4})}).shape,
              ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace treadle::onnx
