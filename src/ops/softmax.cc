// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm, computed with the maximum subtracted, and dropout (of inference: the identity).
#include <functional>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/inference_forms.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/size_forms.h"
#include "treadle/ops/traits.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(SoftmaxAttrs);
TREADLE_DEFINE_NODE(DropoutAttrs);

namespace {

Type SoftmaxInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  NormalizeAxis(context.attrs<SoftmaxAttrs>()->axis, data->shape.size());
  if (!runtime::ActsAsFloat(data->dtype)) {
    throw DTypeError(StrCat("data must be of a floating-point type, not ", data->dtype));
  }
  return context.type(0);
}

/// (data, mask)
Type DropoutInfer(const InferContext& context) {
  context.attrs<DropoutAttrs>();
  context.Tensor(0, "data");
  return TupleType(Array<Type>{context.type(0), context.type(0)});
}

/// The maximum and the sum of exponentials along the axis, each with the axis removed.
struct SoftmaxParts {
  Tensor x;  ///< in the type of the computation
  size_t axis;
  Tensor max, exp, sum;

  explicit SoftmaxParts(const Attrs& attrs, const Tensor& data)
      : x(CastTo(data, AccumulatorDType(data->dtype), "softmax_in")),
        axis(static_cast<size_t>(NormalizeAxis(attrs.as<SoftmaxAttrs>()->axis, data.ndim()))) {
    Array<PrimExpr> rest;
    for (size_t i = 0; i < x.ndim(); ++i) {
      if (i != axis) rest.push_back(x->shape[i]);
    }
    te::IterVar k = te::ReduceAxis(tir::Range(x->shape[axis]), "k");
    max = Compute(
        rest, [&](const Array<PrimExpr>& i) { return GreatestOf(x(With(i, k->var)), k); }, "softmax_max",
        tag::kCommReduce);
    exp = Compute(
        x->shape, [&](const Array<PrimExpr>& i) { return ExpUpToOne(x(i) - max(Without(i))); }, "softmax_exp",
        tag::kSoftmaxExp);
    te::IterVar j = te::ReduceAxis(tir::Range(x->shape[axis]), "k");
    sum = Compute(
        rest, [&](const Array<PrimExpr>& i) { return te::Sum(exp(With(i, j->var)), {j}); }, "softmax_sum",
        tag::kCommReduce);
  }
  /// What is computed once of each sum.
  Tensor OfSum(const std::function<PrimExpr(const PrimExpr&)>& value, const char* name) const {
    return Compute(sum->shape, [&](const Array<PrimExpr>& i) { return value(sum(i)); }, name, tag::kSoftmaxOfSum);
  }
  Array<PrimExpr> With(Array<PrimExpr> index, const PrimExpr& k) const {
    index.insert(axis, k);
    return index;
  }
  Array<PrimExpr> Without(Array<PrimExpr> index) const {
    index.erase(axis);
    return index;
  }
};

Array<Tensor> SoftmaxCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  SoftmaxParts parts(attrs, inputs[0]);
  DataType dtype = OutTensor(out_type)->dtype;
  const PrimExpr one = tir::make_const(parts.x->dtype, 1.0);
  const Tensor scale = parts.OfSum([&](const PrimExpr& sum) { return one / sum; }, "softmax_scale");
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) { return tir::cast(dtype, parts.exp(i) * scale(parts.Without(i))); }, "softmax",
      tag::kSoftmaxOutput)};
}

Array<Tensor> LogSoftmaxCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  SoftmaxParts parts(attrs, inputs[0]);
  DataType dtype = OutTensor(out_type)->dtype;
  const Tensor log = parts.OfSum([](const PrimExpr& sum) { return tir::log(sum); }, "softmax_log");
  return {Compute(
      inputs[0]->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> rest = parts.Without(i);
        return tir::cast(dtype, parts.x(i) - parts.max(rest) - log(rest));
      },
      "log_softmax", tag::kSoftmaxOutput)};
}

Array<Tensor> DropoutCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  Tensor mask = Compute(
      x->shape, [&](const Array<PrimExpr>&) { return tir::make_const(x->dtype, 1); }, "dropout_mask", tag::kElemWise);
  return {Compute(x->shape, [&](const Array<PrimExpr>& i) { return x(i); }, "dropout", tag::kElemWise), mask};
}

/// What lies between neighbours of a row in memory: with one column rows are contiguous.
Array<PrimExpr> ColumnsOfSoftmax(const Attrs& attrs, const Array<Type>& operands) {
  const Array<PrimExpr>& shape = OutTensor(operands[0])->shape;
  const auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<SoftmaxAttrs>()->axis, shape.size()));
  return Array<PrimExpr>(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end());
}

OpRegistration Softmax(const char* name, const char* text, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<SoftmaxAttrs>()
      .SupportLevel(1)
      .Relation(Rule<SoftmaxInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kFormForOneColumn, FFormForOne(ColumnsOfSoftmax))
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterSoftmaxOps() {
  Softmax("nn.softmax", "exp(x) / sum(exp(x)) along one dimension.", SoftmaxCompute)
      .Set(kFastForm, "nn.fast_softmax")
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kGradient, FGradient(gradient::OfSoftmax));
  Softmax("nn.fast_softmax", "Softmax where a relative error of 1e-5 will do.", SoftmaxCompute)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  Softmax("nn.log_softmax", "Logarithm of softmax.", LogSoftmaxCompute)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kGradient, FGradient(gradient::OfLogSoftmax));
  OpRegistration("nn.dropout")
      .Describe("Dropout of inference: the identity. Gives a tuple of the input and a mask.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<DropoutAttrs>()
      .SupportLevel(1)
      .Relation(Rule<DropoutInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(DropoutCompute))
      .Set(kInferenceForm, FInferenceForm(DropoutInference))
      .Set(kNumResults, FNumResults([](const Attrs&) { return 2; }));
}

}  // namespace treadle::ops
