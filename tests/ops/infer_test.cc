// SPDX-License-Identifier: Apache-2.0
// Type rules of operators, asked directly through their relation.
#include <gtest/gtest.h>

#include "ops/op_test_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/annotation.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"

namespace treadle::ops {
namespace {

PrimExpr Sym(const char* name) { return tir::Var(name, DataType::Int(64)); }

TEST(Infer, BroadcastAlignsAtTheLastDimension) {
  EXPECT_EQ(Infer("add", {F32({10, 4}), F32({5, 10, 1})}), "Tensor[(5, 10, 4), float32]");
}

TEST(Infer, BroadcastRefusesOtherSizes) {
  EXPECT_EQ(Infer("add", {F32({2, 3}), F32({2, 4})}), "Incompatible broadcast type (2, 3) and (2, 4)");
}

TEST(Infer, BroadcastOfAnyTakesTheOther) {
  TensorType any({AnyDim(), PrimExpr(int64_t{3})}, DataType::Float(32));
  EXPECT_EQ(Infer("add", {any, F32({7, 3})}), "Tensor[(7, 3), float32]");
}

TEST(Infer, BroadcastNamesTheDataTypes) {
  EXPECT_EQ(Infer("add", {F32({2}), I64({2})}),
            "data types float32 and int64 differ: Tensor[(2,), float32] and Tensor[(2,), int64]");
}

TEST(Infer, ComparisonGivesBool) { EXPECT_EQ(Infer("less", {F32({2}), F32({2})}), "Tensor[(2,), bool]"); }

TEST(Infer, ConvTakesWindowFromTheWeight) {
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 3, 224, 224}), F32({64, 3, 7, 7})}, MakeAttrs<Conv2DAttrs>([](auto& a) {
                    a.strides = {2, 2};
                    a.padding = {3, 3};
                  })),
            "Tensor[(1, 64, 112, 112), float32]");
}

TEST(Infer, ConvInfersTheWeight) {
  Result result = InferAll("nn.conv2d", {F32({1, 8, 10, 10}), Hole()}, MakeAttrs<Conv2DAttrs>([](auto& a) {
                             a.channels = 4;
                             a.kernel_size = std::vector<int64_t>{3, 5};
                             a.groups = 2;
                           }));
  EXPECT_EQ(result.inputs[1], "Tensor[(4, 4, 3, 5), float32]");
  EXPECT_EQ(result.out, "Tensor[(1, 4, 8, 6), float32]");
}

TEST(Infer, ConvWaitsForTheWeight) { EXPECT_EQ(Infer("nn.conv2d", {F32({1, 8, 10, 10}), Hole()}), "waits"); }

TEST(Infer, ConvInOtherLayouts) {
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 10, 10, 8}), F32({3, 3, 8, 4})}, MakeAttrs<Conv2DAttrs>([](auto& a) {
                    a.data_layout = "NHWC";
                    a.kernel_layout = "HWIO";
                  })),
            "Tensor[(1, 8, 8, 4), float32]");
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 2, 10, 10, 8}), F32({4, 2, 3, 3, 8, 16})}, MakeAttrs<Conv2DAttrs>([](auto& a) {
                    a.data_layout = "NCHW8c";
                    a.kernel_layout = "OIHW8i16o";
                    a.out_layout = "NCHW16c";
                  })),
            "Tensor[(1, 4, 8, 8, 16), float32]");
}

TEST(Infer, ConvKeepsSymbolicBatch) {
  TensorType data({Sym("n"), PrimExpr(int64_t{3}), PrimExpr(int64_t{8}), PrimExpr(int64_t{8})}, DataType::Float(32));
  EXPECT_EQ(Infer("nn.conv2d", {data, F32({4, 3, 3, 3})}), "Tensor[(n, 4, 6, 6), float32]");
}

TEST(Infer, ConvRefusesZeroStride) {
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 3, 8, 8}), F32({4, 3, 3, 3})},
                  MakeAttrs<Conv2DAttrs>([](auto& a) { a.strides = {0, 1}; })),
            "strides must be at least 1, is 0");
}

TEST(Infer, ConvRefusesGroupsThatDontDivide) {
  EXPECT_EQ(
      Infer("nn.conv2d", {F32({1, 3, 8, 8}), F32({4, 3, 3, 3})}, MakeAttrs<Conv2DAttrs>([](auto& a) { a.groups = 2; })),
      "groups 2 doesn't divide the input's 3 channels");
}

TEST(Infer, ConvRefusesTooLargeWindow) {
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 3, 2, 8}), F32({4, 3, 3, 3})}),
            "a window of 3 elements doesn't fit into dimension 2 with padding 0");
}

TEST(Infer, ConvTranspose) {
  EXPECT_EQ(
      Infer("nn.conv2d_transpose", {F32({1, 3, 4, 4}), F32({3, 5, 3, 3})}, MakeAttrs<Conv2DTransposeAttrs>([](auto& a) {
              a.strides = {2, 2};
              a.padding = {1, 1};
              a.output_padding = {1, 1};
            })),
      "Tensor[(1, 5, 8, 8), float32]");
}

TEST(Infer, PoolRoundsUpButDropsWindowsInTheEndPadding) {
  auto attrs = [](int64_t pool, int64_t stride, int64_t pad) {
    return MakeAttrs<MaxPool2DAttrs>([&](auto& a) {
      a.pool_size = {pool, pool};
      a.strides = {stride, stride};
      a.padding = {pad, pad};
      a.ceil_mode = true;
    });
  };
  EXPECT_EQ(Infer("nn.max_pool2d", {F32({1, 1, 4, 4})}, attrs(3, 2, 0)), "Tensor[(1, 1, 2, 2), float32]");
  EXPECT_EQ(Infer("nn.max_pool2d", {F32({1, 1, 2, 2})}, attrs(1, 2, 0)), "Tensor[(1, 1, 1, 1), float32]");
  EXPECT_EQ(Infer("nn.max_pool2d", {F32({1, 1, 2, 2})}, attrs(3, 3, 1)), "Tensor[(1, 1, 1, 1), float32]");
}

TEST(Infer, DenseInfersTheWeight) {
  Result result = InferAll("nn.dense", {F32({2, 7, 5}), Hole()}, MakeAttrs<DenseAttrs>([](auto& a) { a.units = 4; }));
  EXPECT_EQ(result.inputs[1], "Tensor[(4, 5), float32]");
  EXPECT_EQ(result.out, "Tensor[(2, 7, 4), float32]");
}

TEST(Infer, BatchMatmulBroadcastsBatches) {
  EXPECT_EQ(Infer("nn.batch_matmul", {F32({2, 1, 3, 4}), F32({5, 6, 4})}), "Tensor[(2, 5, 3, 6), float32]");
}

TEST(Infer, BatchNormGivesThreeAndInfersTheStatistics) {
  Result result = InferAll("nn.batch_norm", {F32({1, 3, 2, 2}), Hole(), Hole(), Hole(), Hole()});
  EXPECT_EQ(result.out, "(Tensor[(1, 3, 2, 2), float32], Tensor[(3,), float32], Tensor[(3,), float32])");
  EXPECT_EQ(result.inputs[4], "Tensor[(3,), float32]");
}

std::string Reshape(const Type& data, const std::vector<int64_t>& newshape) {
  return Infer("reshape", {data}, MakeAttrs<ReshapeAttrs>([&](auto& a) { a.newshape = IntArray(newshape); }));
}

TEST(Infer, ReshapeCodes) {
  EXPECT_EQ(Reshape(F32({2, 3, 4}), {4, 0, 2}), "Tensor[(4, 3, 2), float32]");
  EXPECT_EQ(Reshape(F32({2, 3, 4}), {6, 1, -1}), "Tensor[(6, 1, 4), float32]");
  EXPECT_EQ(Reshape(F32({2, 3, 4}), {2, -2}), "Tensor[(2, 3, 4), float32]");
  EXPECT_EQ(Reshape(F32({2, 3, 4, 5}), {-3, -3}), "Tensor[(6, 20), float32]");
  EXPECT_EQ(Reshape(F32({2, 3, 4}), {-4, 1, 2, -2}), "Tensor[(1, 2, 3, 4), float32]");
  EXPECT_EQ(Reshape(F32({2, 3, 4}), {2, -4, -1, 3, -2}), "Tensor[(2, 1, 3, 4), float32]");
}

TEST(Infer, ReshapeRefusesOtherSizes) {
  EXPECT_EQ(Reshape(F32({2, 3}), {4, 2}), "reshape of (2, 3) to (4, 2): 6 elements can't become 8");
  EXPECT_EQ(Reshape(F32({2, 3}), {4, -1}), "reshape of (2, 3) to (4, -1): 6 elements aren't a multiple of 4");
}

TEST(Infer, ReshapeCancelsSymbolicDimensions) {
  TensorType data({Sym("n"), PrimExpr(int64_t{3}), PrimExpr(int64_t{4})}, DataType::Float(32));
  EXPECT_EQ(Reshape(data, {0, -1}), "Tensor[(n, 12), float32]");
  EXPECT_EQ(Reshape(data, {-1, 12}), "Tensor[(n, 12), float32]");
}

TEST(Infer, ConcatenateAddsUp) {
  TupleType parts(Array<Type>{F32({2, 3}), F32({2, 4})});
  EXPECT_EQ(Infer("concatenate", {parts}, MakeAttrs<ConcatenateAttrs>([](auto& a) { a.axis = -1; })),
            "Tensor[(2, 7), float32]");
  EXPECT_EQ(Infer("concatenate", {parts}),
            "can't join Tensor[(2, 3), float32] and Tensor[(2, 4), float32] along dimension 0");
}

TEST(Infer, SplitIntoPartsAndAtPoints) {
  EXPECT_EQ(Infer("split", {F32({6})}, MakeAttrs<SplitAttrs>([](auto& a) { a.indices_or_sections = PrimExpr(2); })),
            "(Tensor[(3,), float32], Tensor[(3,), float32])");
  EXPECT_EQ(
      Infer("split", {F32({6})}, MakeAttrs<SplitAttrs>([](auto& a) { a.indices_or_sections = IntArray({1, 5}); })),
      "(Tensor[(1,), float32], Tensor[(4,), float32], Tensor[(1,), float32])");
}

std::string Slice(int64_t size, int64_t begin, int64_t end, int64_t stride) {
  return Infer("strided_slice", {F32({size})}, MakeAttrs<StridedSliceAttrs>([&](auto& a) {
                 a.begin = {begin};
                 a.end = {end};
                 a.strides = {stride};
               }));
}

TEST(Infer, SliceCountsAsNumPyDoes) {
  EXPECT_EQ(Slice(10, 1, 8, 3), "Tensor[(3,), float32]");
  EXPECT_EQ(Slice(10, -3, 100, 1), "Tensor[(3,), float32]");
  EXPECT_EQ(Slice(10, 100, -100, -1), "Tensor[(10,), float32]");
  EXPECT_EQ(Slice(10, 5, 2, 1), "Tensor[(0,), float32]");
  EXPECT_EQ(Slice(10, -1, INT64_MIN, INT64_MIN), "Tensor[(1,), float32]");
  EXPECT_EQ(Slice(10, 0, 10, 0), "strides must not be 0");
}

TEST(Infer, TakeReplacesTheDimension) {
  EXPECT_EQ(Infer("take", {F32({5, 6, 7}), I64({2, 3})}, MakeAttrs<TakeAttrs>([](auto& a) { a.axis = 1; })),
            "Tensor[(5, 2, 3, 7), float32]");
}

TEST(Infer, GatherNDIndexesByTheFirstDimension) {
  EXPECT_EQ(Infer("gather_nd", {F32({5, 6, 7}), I64({2, 9})}), "Tensor[(9, 7), float32]");
}

TEST(Infer, ReduceAxes) {
  auto attrs = [](std::vector<int64_t> axis, bool keepdims, bool exclude) {
    return MakeAttrs<ReduceAttrs>([&](auto& a) {
      a.axis = axis;
      a.keepdims = keepdims;
      a.exclude = exclude;
    });
  };
  EXPECT_EQ(Infer("sum", {F32({2, 3, 4})}), "Tensor[(), float32]");
  EXPECT_EQ(Infer("sum", {F32({2, 3, 4})}, attrs({-1}, true, false)), "Tensor[(2, 3, 1), float32]");
  EXPECT_EQ(Infer("sum", {F32({2, 3, 4})}, attrs({1}, false, true)), "Tensor[(3,), float32]");
  EXPECT_EQ(Infer("sum", {F32({2, 3, 4})}, attrs({3}, false, false)), "axis 3 is out of range for rank 3");
}

TEST(Infer, TopKGivesValuesAndIndices) {
  EXPECT_EQ(Infer("topk", {F32({2, 9})}, MakeAttrs<TopKAttrs>([](auto& a) { a.k = 3; })),
            "(Tensor[(2, 3), float32], Tensor[(2, 3), int32])");
}

TEST(Infer, ResizeNamesAnUnknownMode) {
  EXPECT_EQ(Infer("image.resize2d", {F32({1, 1, 2, 2})}, MakeAttrs<Resize2DAttrs>([](auto& a) {
                    a.size = IntArray({4, 4});
                    a.method = "best";
                  })),
            "method must be one of nearest_neighbor, linear, cubic; not \"best\"");
}

TEST(Infer, LayoutTransform) {
  EXPECT_EQ(Infer("layout_transform", {F32({1, 32, 4, 4})}, MakeAttrs<LayoutTransformAttrs>([](auto& a) {
                    a.src_layout = "NCHW";
                    a.dst_layout = "NCHW16c";
                  })),
            "Tensor[(1, 2, 4, 4, 16), float32]");
}

TEST(Infer, MalformedLayoutsAreRefusedWithTheirPlace) {
  auto infer = [](const char* layout) {
    return Infer("nn.max_pool2d", {F32({1, 32, 4, 4})}, MakeAttrs<MaxPool2DAttrs>([layout](auto& a) {
                   a.pool_size = {2, 2};
                   a.layout = layout;
                 }));
  };
  EXPECT_EQ(infer("NCHW8"), "layout \"NCHW8\", character 6: it ends in a number; expected the small letter of a block");
  EXPECT_EQ(infer("NC8cHW8c"), "layout \"NC8cHW8c\", character 8: 'c' occurs twice");
  EXPECT_EQ(infer("NCDW"), "data: layout \"NCDW\" isn't an order of \"NCHW\"");
}

TEST(Infer, ConvRefusesPaddingOfABlockedDimension) {
  EXPECT_EQ(Infer("nn.conv2d", {F32({1, 3, 4, 8, 2}), F32({4, 3, 3, 3})}, MakeAttrs<Conv2DAttrs>([](auto& a) {
                    a.data_layout = "NCHW2h";
                    a.padding = {1, 1};
                  })),
            "padding of dimension H, which is blocked in layout NCHW2h, isn't implemented");
}

TEST(Infer, ResizingToADynamicSizeNeedsRowsAndColumns) {
  auto infer = [](const char* layout, std::vector<int64_t> data = {1, 3, 8, 8}, std::vector<int64_t> known = {}) {
    return Infer("dyn.image.resize2d", {F32(data), I64({2}), F32({0})}, MakeAttrs<Resize2DAttrs>([&](auto& a) {
                   a.layout = layout;
                   a.size = IntArray(known);
                 }));
  };
  EXPECT_EQ(infer("NHWC"), "Tensor[(1, ?, ?, 8), float32]");
  EXPECT_EQ(infer("NCHW16c", {1, 2, 8, 8, 16}), "Tensor[(1, 2, ?, ?, 16), float32]");
  EXPECT_EQ(infer("NCHW", {1, 3, 8, 8}, {-1, 6}), "Tensor[(1, 3, ?, 6), float32]");
  EXPECT_EQ(infer("NCHW16h", {1, 3, 1, 8, 16}), "resizing to a dynamic size in layout NCHW16h isn't implemented");
  EXPECT_EQ(infer("NCXY"), "data: layout \"NCXY\" isn't an order of \"NCHW\"");
}

TEST(Ops, EachHasADescriptionAndARelation) {
  RegisterAllOps();
  for (const std::string& name : Op::ListNames()) {
    if (name.rfind("tir.", 0) == 0) continue;
    const Op& op = Op::Get(name);
    EXPECT_FALSE(op->description.empty()) << name;
    EXPECT_NE(op->type_relation, nullptr) << name;
  }
}

TEST(Ops, CallsGetDefaultAttributes) {
  relay::Var x("x", F32({2}));
  relay::Expr call = CallOp("nn.softmax", {x});
  EXPECT_EQ(call.as<relay::CallNode>()->attrs_as<SoftmaxAttrs>()->axis, -1);
}

}  // namespace
}  // namespace treadle::ops
