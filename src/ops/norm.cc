// SPDX-License-Identifier: Apache-2.0
// Normalisations. SimplifyInference rewrites batch, layer, instance, group and l2 normalisation into reductions and
// broadcast operators, so that they have no computation of their own; lrn has.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/inference_forms.h"
#include "ops/layout_rules.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(BatchNormAttrs);
TREADLE_DEFINE_NODE(LayerNormAttrs);
TREADLE_DEFINE_NODE(InstanceNormAttrs);
TREADLE_DEFINE_NODE(GroupNormAttrs);
TREADLE_DEFINE_NODE(L2NormalizeAttrs);
TREADLE_DEFINE_NODE(LRNAttrs);

namespace {

PrimExpr ChannelDim(const TensorTypeNode* data, int64_t axis) {
  return data->shape[static_cast<size_t>(NormalizeAxis(axis, data->shape.size()))];
}

/// data, gamma, beta, moving_mean, moving_var -> (normalised, mean, variance)
Type BatchNormInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  TensorType channel(Array<PrimExpr>{ChannelDim(data, context.attrs<BatchNormAttrs>()->axis)}, data->dtype);
  for (int i = 1; i < 5; ++i) context.Expect(i, channel);
  return TupleType(Array<Type>{context.type(0), channel, channel});
}

template <typename AttrsT>
Type AffineNormInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  TensorType channel(Array<PrimExpr>{ChannelDim(data, context.attrs<AttrsT>()->axis)}, data->dtype);
  context.Expect(1, channel);
  context.Expect(2, channel);
  return context.type(0);
}

Type GroupNormInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<GroupNormAttrs>();
  int64_t channels = DimValue(ChannelDim(data, attrs->axis));
  if (attrs->num_groups < 1) throw ShapeError(StrCat("num_groups must be at least 1, is ", attrs->num_groups));
  if (channels >= 0 && channels % attrs->num_groups != 0) {
    throw ShapeError(StrCat("num_groups ", attrs->num_groups, " doesn't divide the ", channels, " channels"));
  }
  return AffineNormInfer<GroupNormAttrs>(context);
}

Type L2NormalizeInfer(const InferContext& context) {
  NormalizeAxes(context.attrs<L2NormalizeAttrs>()->axis, context.Tensor(0, "data")->shape.size());
  return context.type(0);
}

Type LRNInfer(const InferContext& context) {
  const auto* attrs = context.attrs<LRNAttrs>();
  NormalizeAxis(attrs->axis, context.Tensor(0, "data")->shape.size());
  if (attrs->size < 1) throw ShapeError(StrCat("size must be at least 1, is ", attrs->size));
  return context.type(0);
}

PrimExpr NormPower(const PrimExpr& base, double exponent) {
  return tir::pow(base, tir::make_const(base.dtype(), exponent));
}

/// A window of at most so many channels is added up in the expression of the result, without a buffer of sums.
constexpr int64_t kInlineWindow = 16;

/// The window of channel c is [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)].
Array<Tensor> LRNCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<LRNAttrs>();
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  DataType dtype = AccumulatorDType(x->dtype);
  const int64_t before = (a->size - 1) / 2;
  auto square = [&](Array<PrimExpr> at, const PrimExpr& k) {
    PrimExpr channel = at[axis] + k - Index(before);
    at.Set(axis, channel);
    PrimExpr value = tir::cast(dtype, x(at));
    PrimExpr inside = channel >= Index(0) && channel < x->shape[axis];
    return tir::if_then_else(inside, value * value, tir::make_zero(dtype));
  };
  Tensor sum;
  if (a->size > kInlineWindow) {
    te::IterVar k = te::ReduceAxis(tir::Range(Index(a->size)), "k");
    auto total = [&](const Array<PrimExpr>& i) { return te::Sum(square(i, k->var), {k}); };
    sum = Compute(x->shape, total, "lrn_sum", tag::kCommReduce);
  }
  auto result = [&](const Array<PrimExpr>& i) {
    PrimExpr total{ObjectPtr<Object>()};
    if (sum.defined()) {
      total = sum(i);
    } else {
      total = square(i, Index(0));
      for (int64_t k = 1; k < a->size; ++k) total = total + square(i, Index(k));
    }
    PrimExpr base = tir::make_const(dtype, a->bias) + total * tir::make_const(dtype, a->alpha / a->size);
    return tir::cast(x->dtype, tir::div(tir::cast(dtype, x(i)), NormPower(base, a->beta)));
  };
  return {Compute(x->shape, result, "lrn", tag::kInjective)};
}

Type BlockedLRNInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<LRNAttrs>();
  if (data->shape.size() != 5 || attrs->axis != 1) {
    throw ShapeError(StrCat("data must be in layout NCHW[x]c and axis 1, is ", data->shape.size(),
                            "-dimensional and the axis ", attrs->axis));
  }
  if (attrs->size < 1) throw ShapeError(StrCat("size must be at least 1, is ", attrs->size));
  return context.type(0);
}

/// Of each pixel the squares of all channels are put aside, with zeros on both sides, so that windows that reach into
/// the next block are vectors too, and the result may be written over the data.
Array<Tensor> BlockedLRNCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<LRNAttrs>();
  const Tensor& x = inputs[0];
  const DataType dtype = AccumulatorDType(x->dtype);
  const int64_t before = (a->size - 1) / 2, after = a->size - 1 - before;
  const PrimExpr blocks = x->shape[1], block = x->shape[4], channels = blocks * block;
  auto lanes = [&](const std::function<tir::Stmt(const PrimExpr&)>& body) {
    tir::Var lane("c", block.dtype());
    return tir::For(lane, tir::make_zero(block.dtype()), block, tir::ForKind::kVectorized, body(lane));
  };
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    tir::Buffer squares = tir::DeclBuffer({channels + Index(a->size - 1)}, dtype, "squares", "local");
    auto pixel = [&](const Array<PrimExpr>& i) {
      auto at = [&](const PrimExpr& b, const PrimExpr& c) { return Array<PrimExpr>{i[1], b, i[0], i[2], c}; };
      tir::Stmt put_aside = Loop(blocks, "b", [&](const PrimExpr& b) {
        return lanes([&](const PrimExpr& c) {
          PrimExpr value = tir::cast(dtype, Load(in[0], at(b, c)));
          return Store(squares, value * value, {b * block + c + Index(before)});
        });
      });
      tir::Stmt divide = Loop(blocks, "b", [&](const PrimExpr& b) {
        return lanes([&](const PrimExpr& c) {
          PrimExpr total = Load(squares, {b * block + c});
          for (int64_t k = 1; k < a->size; ++k) total = total + Load(squares, {b * block + c + Index(k)});
          PrimExpr base = tir::make_const(dtype, a->bias) + total * tir::make_const(dtype, a->alpha / a->size);
          PrimExpr value = tir::cast(dtype, Load(in[0], at(b, c)));
          return Store(out[0], tir::cast(x->dtype, tir::div(value, NormPower(base, a->beta))), at(b, c));
        });
      });
      return tir::SeqStmt({put_aside, divide});
    };
    auto zeros = [&](int64_t count, const PrimExpr& first) {
      return Loop(Index(count), "k",
                  [&](const PrimExpr& k) { return Store(squares, tir::make_zero(dtype), {first + k}); });
    };
    return LoopNest(
        {x->shape[2], x->shape[0], x->shape[3]}, "i",
        [&](const Array<PrimExpr>& i) -> tir::Stmt {
          return tir::Allocate(
              squares, tir::SeqStmt({zeros(before, Index(0)), zeros(after, channels + Index(before)), pixel(i)}));
        },
        true);
  };
  return {te::Extern({x->shape}, {x->dtype}, {x}, body, "lrn_NCHWc", tag::kInjective)[0]};
}

}  // namespace

void RegisterNormOps() {
  // No fusion pattern: it must be gone before FuseOps.
  OpRegistration("nn.batch_norm")
      .Describe(
          "(data - mean) / sqrt(variance + epsilon) * gamma + beta with the moving statistics. Gives a tuple: "
          "the result, and the statistics as they are.")
      .Arguments({{"data", "Tensor", "The input."},
                  {"gamma", "Tensor", "Scale of each channel."},
                  {"beta", "Tensor", "Offset of each channel."},
                  {"moving_mean", "Tensor", "Mean of each channel."},
                  {"moving_var", "Tensor", "Variance of each channel."}})
      .AttrsType<BatchNormAttrs>()
      .SupportLevel(1)
      .Relation(Rule<BatchNormInfer, 1>)
      .Set(kInferenceForm, FInferenceForm(BatchNormInference))
      .Set(kNumResults, FNumResults([](const Attrs&) { return 3; }));
  const std::vector<OpArgument> affine = {{"data", "Tensor", "The input."},
                                          {"gamma", "Tensor", "Scale of each channel."},
                                          {"beta", "Tensor", "Offset of each channel."}};
  OpRegistration("nn.layer_norm")
      .Describe("Normalises along one dimension by its mean and variance.")
      .Arguments(affine)
      .AttrsType<LayerNormAttrs>()
      .SupportLevel(1)
      .Relation(Rule<AffineNormInfer<LayerNormAttrs>, 1>)
      .Set(kInferenceForm, FInferenceForm(LayerNormInference));
  OpRegistration("nn.instance_norm")
      .Describe("Normalises each channel of each batch by its mean and variance.")
      .Arguments(affine)
      .AttrsType<InstanceNormAttrs>()
      .SupportLevel(1)
      .Relation(Rule<AffineNormInfer<InstanceNormAttrs>, 1>)
      .Set(kInferenceForm, FInferenceForm(InstanceNormInference));
  OpRegistration("nn.group_norm")
      .Describe("Normalises each group of channels of each batch by its mean and variance.")
      .Arguments(affine)
      .AttrsType<GroupNormAttrs>()
      .SupportLevel(1)
      .Relation(Rule<GroupNormInfer, 1>)
      .Set(kInferenceForm, FInferenceForm(GroupNormInference));
  OpRegistration("nn.l2_normalize")
      .Describe("data / sqrt(max(sum(data^2), eps)).")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<L2NormalizeAttrs>()
      .SupportLevel(2)
      .Relation(Rule<L2NormalizeInfer>)
      .Set(kInferenceForm, FInferenceForm(L2NormalizeInference))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  OpRegistration("nn.lrn")
      .Describe("data / (bias + alpha / size * sum of squares over neighbouring channels)^beta.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<LRNAttrs>()
      .SupportLevel(2)
      .Relation(Rule<LRNInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(LRNCompute))
      .Set(relay::kLayoutRule, relay::FLayoutRule(LRNLayoutRule))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  OpRegistration("nn.contrib_lrn_NCHWc")
      .Describe("nn.lrn over the channels of data in layout NCHW[x]c.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<LRNAttrs>()
      .SupportLevel(10)
      .Relation(Rule<BlockedLRNInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(BlockedLRNCompute));
}

}  // namespace treadle::ops
