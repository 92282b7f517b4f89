// SPDX-License-Identifier: Apache-2.0
// nn.contrib_pair_cast: float32 rounded to bfloat16 for the kernels of bfloat16 (pair_matmul.cc, pair_conv.cc), whose
// instructions flush subnormal numbers to zero. An ordinary cast has to keep them, for which machines have no
// instruction.
#include "ops/infer.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {
namespace {

Type PairCastInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (data->dtype != DataType::Float(32)) throw DTypeError(StrCat("data must be float32, not ", data->dtype));
  return TensorType(data->shape, DataType::BFloat(16));
}

Array<te::Tensor> PairCastCompute(const Attrs&, const Array<te::Tensor>& inputs, const Type&) {
  const te::Tensor& x = inputs[0];
  return {te::Compute(
      x->shape, [&](const Array<PrimExpr>& i) { return tir::pair_half(x(i)); }, "pair_cast", te::tag::kElemWise)};
}

}  // namespace

void RegisterPairCast() {
  // bfloat16 has the exponents of float32: only numbers beyond 3.39e38 become infinite, and nothing makes those of what
  // pads blocks of channels.
  OpRegistration("nn.contrib_pair_cast")
      .Describe("float32 rounded to bfloat16; numbers below the least normal one may become 0.")
      .Arguments({{"data", "Tensor", "float32"}})
      .SupportLevel(11)
      .Relation(Rule<PairCastInfer>)
      .Set(kOpPattern, OpPatternKind::kElemWise)
      .Set(kFiniteRule, FiniteRule::kAlways)
      .Set(kCompute, FTECompute(PairCastCompute));
}

}  // namespace treadle::ops::cpu
