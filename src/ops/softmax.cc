// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm, computed with the maximum subtracted, and dropout (of inference: the identity).
#include "ops/families.h"
#include "ops/infer.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {
namespace {

Type SoftmaxInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  NormalizeAxis(context.attrs<SoftmaxAttrs>()->axis, data->shape.size());
  if (!data->dtype.is_floating()) {
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

OpRegistration Softmax(const char* name, const char* text) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<SoftmaxAttrs>()
      .SupportLevel(1)
      .Relation(Rule<SoftmaxInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable);
}

}  // namespace

void RegisterSoftmaxOps() {
  Softmax("nn.softmax", "exp(x) / sum(exp(x)) along one dimension.");
  Softmax("nn.fast_softmax", "Softmax with a polynomial exp.");
  Softmax("nn.log_softmax", "Logarithm of softmax.");
  OpRegistration("nn.dropout")
      .Describe("Dropout of inference: the identity. Gives a tuple of the input and a mask.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<DropoutAttrs>()
      .SupportLevel(1)
      .Relation(Rule<DropoutInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque);
}

}  // namespace treadle::ops
