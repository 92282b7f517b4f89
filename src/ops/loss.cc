// SPDX-License-Identifier: Apache-2.0
// Losses. Semantics: those of Relay's nn.cross_entropy and of ONNX NegativeLogLikelihoodLoss-13.
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(NLLLossAttrs);

namespace {

/// predictions, targets (batch, classes) -> scalar
Type CrossEntropyInfer(const InferContext& context) {
  const auto* predictions = context.Tensor(0, "predictions");
  const auto* targets = context.Tensor(1, "targets");
  CheckRank(predictions, 2, "predictions");
  CheckRank(targets, 2, "targets");
  CheckSameDType(predictions, targets);
  for (size_t i = 0; i < 2; ++i) CheckDim(context, targets, i, "targets", predictions->shape[i], "predictions");
  return TensorType::Scalar(predictions->dtype);
}

template <bool kLogits>
Array<Tensor> CrossEntropyCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  DataType dtype = AccumulatorDType(out->dtype);
  te::IterVar n = te::ReduceAxis(tir::Range(x->shape[0]), "n");
  te::IterVar c = te::ReduceAxis(tir::Range(x->shape[1]), "c");
  Tensor sum = Compute(
      {},
      [&](const Array<PrimExpr>&) {
        PrimExpr value = tir::cast(dtype, x(n->var, c->var));
        return te::Sum((kLogits ? value : tir::log(value)) * tir::cast(dtype, inputs[1](n->var, c->var)), {n, c});
      },
      "cross_entropy_sum", tag::kCommReduce);
  return {Compute(
      {},
      [&](const Array<PrimExpr>& i) {
        PrimExpr mean = tir::div(sum(i), tir::cast(dtype, x->shape[0]));
        return tir::cast(out->dtype, tir::make_zero(dtype) - mean);
      },
      "cross_entropy", tag::kElemWise)};
}

/// predictions (batch, classes, ..), targets (batch, ..), weights (classes) -> scalar, or the shape of targets
Type NLLLossInfer(const InferContext& context) {
  const auto* predictions = context.Tensor(0, "predictions");
  const auto* targets = context.Tensor(1, "targets");
  const auto* weights = context.Tensor(2, "weights");
  const auto* attrs = context.attrs<NLLLossAttrs>();
  if (predictions->shape.size() < 2)
    throw ShapeError(StrCat("predictions must have 2 dimensions, not ", TypeText(predictions)));
  CheckRank(targets, predictions->shape.size() - 1, "targets");
  CheckIntegral(targets, "targets");
  CheckRank(weights, 1, "weights");
  CheckSameDType(predictions, weights);
  CheckDim(context, weights, 0, "weights", predictions->shape[1], "predictions");
  for (size_t i = 0; i < targets->shape.size(); ++i) {
    CheckDim(context, targets, i, "targets", predictions->shape[i == 0 ? 0 : i + 1], "predictions");
  }
  if (attrs->reduction == "none") return TensorType(targets->shape, predictions->dtype);
  if (attrs->reduction != "mean" && attrs->reduction != "sum") {
    throw ShapeError(StrCat("reduction must be mean, sum or none, not \"", attrs->reduction, "\""));
  }
  return TensorType::Scalar(predictions->dtype);
}

Array<Tensor> NLLLossCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<NLLLossAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  const Tensor& targets = inputs[1];
  DataType dtype = AccumulatorDType(out->dtype);
  PrimExpr classes = x->shape[1];
  auto counted = [&](const Array<PrimExpr>& i) {
    PrimExpr c = tir::cast(DataType::Int(64), targets(i));
    return tir::not_equal(c, Index(a->ignore_index)) && c >= 0 && c < classes;
  };
  auto weight = [&](const Array<PrimExpr>& i) {
    PrimExpr value = tir::cast(dtype, inputs[2](SafeIndex(targets(i), classes, true)));
    return tir::select(counted(i), value, tir::make_zero(dtype));
  };
  Tensor losses = Compute(
      targets->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.insert(1, SafeIndex(targets(i), classes, true));
        return tir::select(counted(i), tir::make_zero(dtype) - tir::cast(dtype, x(at)) * weight(i),
                           tir::make_zero(dtype));
      },
      "nll_loss_each", tag::kInjective);
  if (a->reduction == "none") return {CastTo(losses, out->dtype, "nll_loss")};
  auto total = [&](const std::function<PrimExpr(const Array<PrimExpr>&)>& term, const char* name) {
    Array<te::IterVar> axes;
    for (const PrimExpr& dim : targets->shape)
      axes.push_back(te::ReduceAxis(tir::Range(dim), StrCat("k", axes.size())));
    return Compute(
        {}, [&](const Array<PrimExpr>&) { return te::Sum(term(AxisVars(axes)), axes); }, name, tag::kCommReduce);
  };
  Tensor sum = total([&](const Array<PrimExpr>& i) { return losses(i); }, "nll_loss_sum");
  if (a->reduction == "sum") return {CastTo(sum, out->dtype, "nll_loss")};
  Tensor weights = total(weight, "nll_loss_weight");
  return {Compute(
      {}, [&](const Array<PrimExpr>& i) { return tir::cast(out->dtype, tir::div(sum(i), weights(i))); }, "nll_loss",
      tag::kElemWise)};
}

}  // namespace

void RegisterLossOps() {
  const std::vector<OpArgument> arguments = {{"predictions", "Tensor", "(batch, classes)"},
                                             {"targets", "Tensor", "(batch, classes)"}};
  OpRegistration("nn.cross_entropy")
      .Describe("-sum(targets * log(predictions)) / batch.")
      .Arguments(arguments)
      .SupportLevel(10)
      .Relation(Rule<CrossEntropyInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(CrossEntropyCompute<false>))
      .Set(kGradient, FGradient(gradient::OfCrossEntropy));
  OpRegistration("nn.cross_entropy_with_logits")
      .Describe("-sum(targets * predictions) / batch, the predictions being logarithms.")
      .Arguments(arguments)
      .SupportLevel(10)
      .Relation(Rule<CrossEntropyInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(CrossEntropyCompute<true>))
      .Set(kGradient, FGradient(gradient::OfCrossEntropyWithLogits));
  OpRegistration("nn.nll_loss")
      .Describe("Negative log likelihood of the target classes.")
      .Arguments({{"predictions", "Tensor", "(batch, classes, ..), logarithms"},
                  {"targets", "Tensor", "(batch, ..)"},
                  {"weights", "Tensor", "(classes)"}})
      .AttrsType<NLLLossAttrs>()
      .SupportLevel(10)
      .Relation(Rule<NLLLossInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kCompute, FTECompute(NLLLossCompute));
}

}  // namespace treadle::ops
