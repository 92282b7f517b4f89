// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_test_util.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/relay/type_infer.h"
#include "treadle/runtime/scalar.h"
#include "treadle/tir/text.h"

namespace treadle::ops {
namespace {

using relay::Expr;

relay::Constant Ints(const std::vector<int64_t>& values, DataType dtype = DataType::Int(64)) {
  return relay::Constant(runtime::FromInt64s(values, {static_cast<int64_t>(values.size())}, dtype));
}
relay::Constant Reals(const std::vector<double>& values, DataType dtype = DataType::Float(32)) {
  return relay::Constant(runtime::FromDoubles(values, {static_cast<int64_t>(values.size())}, dtype));
}

/// `body` typed, over its free variables.
Expr Typed(const Expr& body) {
  RegisterAllOps();
  return relay::InferType(relay::Function(relay::FreeVars(body), body)).as<relay::FunctionNode>()->body;
}

std::optional<NDArray> Evaluate(const Expr& expr) {
  const Expr typed = Typed(expr);
  const auto* call = typed.as<relay::CallNode>();
  return EvaluateCall(Downcast<Op>(call->op), call->args, call->attrs, call->checked_type());
}

std::vector<double> Numbers(const Expr& expr) {
  const auto result = Evaluate(expr);
  if (!result) return {-12345};
  return runtime::ToDoubles(*result);
}

using Numbers_ = std::vector<double>;

TEST(EvaluateCall, ArithmeticIsThatOfTheElementType) {
  EXPECT_EQ(Numbers(CallOp("add", {Ints({250, 3}, DataType::UInt(8)), Ints({10, 4}, DataType::UInt(8))})),
            (Numbers_{4, 7}));
  EXPECT_EQ(Numbers(CallOp("add", {Reals({1}, DataType::BFloat(16)), Reals({0.001}, DataType::BFloat(16))})),
            (Numbers_{1}));
  EXPECT_EQ(Numbers(CallOp("floor_divide", {Ints({-7, 7}), Ints({2, -2})})), (Numbers_{-4, -4}));
  EXPECT_EQ(Numbers(CallOp("divide", {Ints({-7, 7}), Ints({2, -2})})), (Numbers_{-3, -3}));
  EXPECT_EQ(Numbers(CallOp("less", {Ints({-1}, DataType::UInt(64)), Ints({1}, DataType::UInt(64))})), (Numbers_{0}));
  EXPECT_EQ(Numbers(MakeCast(Reals({3e9, -1.9, std::nan("")}), DataType::Int(32))), (Numbers_{2147483647, -1, 0}));
  EXPECT_EQ(Numbers(CallOp("round", {Reals({0.5, 1.5, -2.5})})), (Numbers_{0, 2, -2}));
}

TEST(EvaluateCall, ElementsMove) {
  const Expr matrix = Typed(MakeReshape(Ints({1, 2, 3, 4, 5, 6}), std::vector<int64_t>{2, 3}));
  const relay::Constant x(*Evaluate(matrix));
  EXPECT_EQ(Numbers(MakeTranspose(x, {1, 0})), (Numbers_{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(Numbers(MakeConcatenate({x, x}, 1)), (Numbers_{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(Numbers(MakeTake(x, Ints({-1, 0}), 1, "fast")).size(), 4u);
  EXPECT_EQ(Numbers(MakeStridedSlice(x, {0, 0}, {2, 3}, {1, 2})), (Numbers_{1, 3, 4, 6}));
  EXPECT_EQ(Numbers(CallOp("where", {Ints({1, 0, 1}, DataType::Bool()), x, Ints({9, 9, 9})})),
            (Numbers_{1, 9, 3, 4, 9, 6}));
}

TEST(EvaluateCall, ReductionsOfOneAndOfSeveralResults) {
  const relay::Constant x = Ints({4, 9, 2, 9});
  EXPECT_EQ(Numbers(MakeReduce("sum", x, std::nullopt)), (Numbers_{24}));
  EXPECT_EQ(Numbers(MakeReduce("max", x, std::nullopt)), (Numbers_{9}));
  EXPECT_EQ(Numbers(CallOp("argmax", {x})), (Numbers_{1}));
}

TEST(EvaluateCall, WhatDiffersBetweenMachinesIsLeftToThem) {
  EXPECT_FALSE(Evaluate(CallOp("exp", {Reals({1})})));
  EXPECT_FALSE(Evaluate(CallOp("sin", {Reals({1})})));
  EXPECT_FALSE(Evaluate(CallOp("divide", {Ints({1}), Ints({0})})));
}

TEST(EvaluateCall, LargeTensorsAreLeftToPrograms) {
  EXPECT_FALSE(Evaluate(CallOp("maximum", {Reals(std::vector<double>(5000, 1)), Reals({2})})));
}

TEST(EvaluateInBulk, MatrixProductsAreThoseOfTheOperators) {
  RegisterAllOps();
  const auto numbers = [](const std::vector<int64_t>& shape, int seed) {
    std::vector<double> values;
    for (int64_t i = 0; i < NumElements(shape); ++i) values.push_back(static_cast<double>((i * 7 + seed) % 11) - 5);
    return runtime::FromDoubles(values, shape, DataType::Float(32));
  };
  const NDArray a = numbers({2, 1, 3, 4}, 1), b = numbers({3, 5, 4}, 2);
  const TensorType type(std::vector<int64_t>{2, 3, 3, 5}, DataType::Float(32));
  const auto attrs = MakeAttrs<BatchMatmulAttrs>([](auto& m) { m.transpose_b = true; });
  const auto product = EvaluateInBulk(Op::Get("nn.batch_matmul"), {a, b}, attrs, type.get());
  ASSERT_TRUE(product);
  for (int64_t i = 0; i < 2 * 3 * 3 * 5; ++i) {
    const int64_t column = i % 5, row = i / 5 % 3, second = i / 15 % 3, first = i / 45;
    float sum = 0;
    for (int64_t k = 0; k < 4; ++k) {
      sum += a.Data<float>()[(first * 3 + row) * 4 + k] * b.Data<float>()[(second * 5 + column) * 4 + k];
    }
    EXPECT_EQ(product->Data<float>()[i], sum) << i;
  }
  // One transposed matrix for all batches.
  const NDArray c = numbers({2, 4, 3}, 3), d = numbers({4, 5}, 4);
  const TensorType one(std::vector<int64_t>{2, 3, 5}, DataType::Float(32));
  const auto transposed = MakeAttrs<MatmulAttrs>([](auto& m) { m.transpose_a = true; });
  const auto shared = EvaluateInBulk(Op::Get("nn.matmul"), {c, d}, transposed, one.get());
  ASSERT_TRUE(shared);
  float last = 0;
  for (int64_t k = 0; k < 4; ++k) last += c.Data<float>()[12 + k * 3 + 2] * d.Data<float>()[k * 5 + 4];
  EXPECT_EQ(shared->Data<float>()[29], last);
  // Factors of half precision are summed in float32.
  const auto halves = [&](const NDArray& x) {
    return runtime::FromDoubles(runtime::ToDoubles(x), x.shape(), DataType::Float(16));
  };
  const auto widened = EvaluateInBulk(Op::Get("nn.matmul"), {halves(c), halves(d)}, transposed, one.get());
  ASSERT_TRUE(widened);
  EXPECT_EQ(runtime::ToDoubles(*widened), runtime::ToDoubles(*shared));
  // Sums of other element types are the operators' own business.
  const NDArray bytes = runtime::FromInt64s({1, 2, 3, 4}, {2, 2}, DataType::Int(8));
  const TensorType of_bytes(std::vector<int64_t>{2, 2}, DataType::Int(32));
  EXPECT_FALSE(
      EvaluateInBulk(Op::Get("nn.matmul"), {bytes, bytes}, MakeAttrs<MatmulAttrs>([](auto&) {}), of_bytes.get()));
}

TEST(EvaluateInBulk, ConvolutionsAreThoseOfTheOperator) {
  RegisterAllOps();
  struct Case {
    int64_t ic, oc, h, w, kh, kw;
    int groups;
    std::vector<int64_t> strides, padding, dilation;
  };
  for (const Case& c : {Case{4, 6, 7, 9, 3, 3, 1, {1, 1}, {1, 1, 1, 1}, {1, 1}},
                        Case{4, 6, 8, 5, 2, 3, 2, {2, 1}, {0, 2, 1, 0}, {1, 2}},
                        Case{3, 3, 5, 6, 5, 1, 3, {1, 3}, {4, 0, 4, 5}, {2, 1}}}) {
    const int64_t oh = (c.h + c.padding[0] + c.padding[2] - (c.kh - 1) * c.dilation[0] - 1) / c.strides[0] + 1;
    const int64_t ow = (c.w + c.padding[1] + c.padding[3] - (c.kw - 1) * c.dilation[1] - 1) / c.strides[1] + 1;
    const int64_t per_group = c.ic / c.groups, size = 2 * c.ic * c.h * c.w;
    std::vector<double> x, w;
    for (int64_t i = 0; i < size; ++i) x.push_back(static_cast<double>(i * 7 % 11) - 5);
    for (int64_t i = 0; i < c.oc * per_group * c.kh * c.kw; ++i) w.push_back(static_cast<double>(i * 5 % 7) - 3);
    const NDArray data = runtime::FromDoubles(x, {2, c.ic, c.h, c.w}, DataType::Float(32));
    const NDArray weight = runtime::FromDoubles(w, {c.oc, per_group, c.kh, c.kw}, DataType::Float(32));
    const auto attrs = MakeAttrs<Conv2DAttrs>([&](auto& a) {
      a.groups = c.groups;
      a.strides = c.strides;
      a.padding = c.padding;
      a.dilation = c.dilation;
    });
    const TensorType type(std::vector<int64_t>{2, c.oc, oh, ow}, DataType::Float(32));
    const auto result = EvaluateInBulk(Op::Get("nn.conv2d"), {data, weight}, attrs, type.get());
    ASSERT_TRUE(result);
    for (int64_t at = 0; at < result->size(); ++at) {
      const int64_t column = at % ow, row = at / ow % oh, o = at / ow / oh % c.oc, n = at / ow / oh / c.oc;
      double sum = 0;
      for (int64_t k = 0; k < per_group * c.kh * c.kw; ++k) {
        const int64_t y = row * c.strides[0] + k / c.kw % c.kh * c.dilation[0] - c.padding[0];
        const int64_t z = column * c.strides[1] + k % c.kw * c.dilation[1] - c.padding[1];
        const int64_t channel = o / (c.oc / c.groups) * per_group + k / c.kw / c.kh;
        if (y < 0 || y >= c.h || z < 0 || z >= c.w) continue;
        sum += x[static_cast<size_t>(((n * c.ic + channel) * c.h + y) * c.w + z)] *
               w[static_cast<size_t>(o * per_group * c.kh * c.kw + k)];
      }
      EXPECT_EQ(result->Data<float>()[at], sum) << at;
    }
  }
}

TEST(EvaluateInBulk, MovesAndArithmeticOfAnySize) {
  const relay::Constant ones = Reals(std::vector<double>(6000, 1)), two = Reals({2});
  const TensorType type(std::vector<int64_t>{6000}, DataType::Float(32));
  auto sum = EvaluateInBulk(Op::Get("add"), {ones->data, two->data}, Attrs(), type.get());
  ASSERT_TRUE(sum);
  EXPECT_EQ(runtime::ElementAsDouble(*sum, 5999), 3);
  const NDArray weight = runtime::FromInt64s({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}, DataType::Int(8));
  const TensorType blocked(std::vector<int64_t>{2, 2, 2}, DataType::Int(8));
  auto moved = EvaluateInBulk(Op::Get("layout_transform"), {weight}, MakeAttrs<LayoutTransformAttrs>([](auto& a) {
                                a.src_layout = "OI";
                                a.dst_layout = "OI2o";
                              }),
                              blocked.get());
  ASSERT_TRUE(moved);
  EXPECT_EQ(runtime::ToInt64s(*moved), (std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(EvaluateInBulk, IntegersWrapAsTheirTypeDoes) {
  const NDArray bytes = runtime::FromInt64s({0, 127, 128, 255}, {2, 2}, DataType::UInt(8));
  const NDArray words = runtime::FromInt64s({INT32_MAX, -1, 300, -129}, {2, 2}, DataType::Int(32));
  const NDArray two = runtime::FromInt64s({2}, {}, DataType::Int(32));
  auto cast = [](const NDArray& data, DataType dtype) {
    const TensorType type(data.shape(), dtype);
    return EvaluateInBulk(Op::Get("cast"), {data}, MakeAttrs<CastAttrs>([&](auto& a) { a.dtype = dtype; }), type.get());
  };
  EXPECT_EQ(runtime::ToInt64s(*cast(bytes, DataType::Int(8))), (std::vector<int64_t>{0, 127, -128, -1}));
  EXPECT_EQ(runtime::ToInt64s(*cast(words, DataType::UInt(8))), (std::vector<int64_t>{255, 255, 44, 127}));
  EXPECT_EQ(runtime::ToDoubles(*cast(words, DataType::Float(32))), (std::vector<double>{2147483648.0, -1, 300, -129}));
  const TensorType type(std::vector<int64_t>{2, 2}, DataType::Int(32));
  const auto product = EvaluateInBulk(Op::Get("multiply"), {words, two}, Attrs(), type.get());
  EXPECT_EQ(runtime::ToInt64s(*product), (std::vector<int64_t>{-2, -2, 600, -258}));
}

/// An image whose height and width are known when the program runs.
struct Image {
  tir::Var height{"h", DataType::Int(64)}, width{"w", DataType::Int(64)};
  relay::Var x{"x", TensorType({PrimExpr(int64_t{1}), PrimExpr(int64_t{3}), height, width}, DataType::Float(32))};
  Expr shape = CallWith<ShapeOfAttrs>("shape_of", {x}, [](auto& a) { a.dtype = DataType::Int(64); });
  Expr Dim(int64_t i) const { return MakeTake(shape, Ints({i}), 0); }
};

/// Text without types: all are int64.
std::string TextOf(const PrimExpr& element) {
  std::string text = tir::AsText(element, false);
  for (const std::string type : {"i64", ": int64"}) {
    for (size_t at = text.find(type); at != std::string::npos; at = text.find(type)) text.erase(at, type.size());
  }
  return text;
}

std::string Known(const Expr& expr) {
  KnownValues known;
  auto elements = known.Elements(Typed(expr));
  if (!elements) return "none";
  std::string text;
  for (const PrimExpr& element : *elements) {
    text += text.empty() ? "" : ", ";
    text += element.defined() ? TextOf(element) : "?";
  }
  return text;
}

TEST(KnownValues, ShapesAreKnownByDimension) {
  const Image image;
  EXPECT_EQ(Known(image.shape), "1, 3, h, w");
  EXPECT_EQ(Known(CallOp("ndarray_size", {image.x})), "((h*w)*3)");
  EXPECT_EQ(Known(MakeConcatenate({image.Dim(3), Ints({7})}, 0)), "w, 7");
}

TEST(KnownValues, ArithmeticOfDimensions) {
  const Image image;
  EXPECT_EQ(Known(CallOp("divide", {CallOp("multiply", {image.Dim(2), Ints({2})}), Ints({2})})), "h");
  EXPECT_EQ(Known(CallOp("divide", {image.Dim(2), Ints({2})})),
            Known(CallOp("floor_divide", {image.Dim(2), Ints({2})})));
  EXPECT_EQ(Known(CallOp("subtract", {CallOp("add", {image.Dim(3), Ints({2})}), image.Dim(3)})), "2");
  // int32 is as good as int64: sizes fit.
  EXPECT_EQ(Known(MakeCast(CallOp("add", {MakeCast(image.Dim(3), DataType::Int(32)), Ints({1}, DataType::Int(32))}),
                           DataType::Int(64))),
            "(w + 1)");
}

TEST(KnownValues, ComparisonsAreDecidedWhereTheyCanBe) {
  const Image image;
  EXPECT_EQ(Known(CallOp("less", {image.Dim(2), CallOp("add", {image.Dim(2), Ints({1})})})), "1");
  EXPECT_EQ(Known(CallOp("less", {image.Dim(2), Ints({0})})), "0");
  EXPECT_EQ(Known(CallOp("less", {image.Dim(2), Ints({5})})), "?");
  EXPECT_EQ(Known(CallOp("where", {CallOp("equal", {image.Dim(1), Ints({3})}), image.Dim(2), image.Dim(3)})), "h");
  EXPECT_EQ(Known(CallOp("where", {CallOp("less", {image.Dim(2), Ints({5})}), image.Dim(2), image.Dim(3)})), "?");
}

TEST(KnownValues, WhatDependsOnDataIsUnknown) {
  const Image image;
  const relay::Var data("i", TensorType(std::vector<int64_t>{2}, DataType::Int(64)));
  EXPECT_EQ(Known(CallOp("add", {data, Ints({1})})), "?, ?");
  EXPECT_EQ(Known(MakeConcatenate({data, image.Dim(3)}, 0)), "?, ?, w");
  EXPECT_EQ(Known(image.x), "none");
}

}  // namespace
}  // namespace treadle::ops
