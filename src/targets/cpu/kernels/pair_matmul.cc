// SPDX-License-Identifier: Apache-2.0
// nn.dense, nn.matmul and nn.batch_matmul of bfloat16, accumulated in float32: the right operand is packed as words of
// two bfloat16 along k (word_matmul.h).
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/word_matmul.h"

namespace treadle::ops::cpu {
namespace {

const DataType kHalf = DataType::BFloat(16);
const WordOps kOps{"nn.contrib_packed_dense_pairs", "nn.contrib_pack_pairs", DataType::Float(32)};

bool IsHalf(DataType dtype) { return dtype == kHalf; }
bool AreHalves(DataType data, DataType weight) { return data == kHalf && weight == kHalf; }

Type DenseInfer(const InferContext& context) { return WordDenseInfer(context, IsHalf, kOps.sum, "bfloat16"); }
Type PackInfer(const InferContext& context) { return PackWordsInfer(context, IsHalf, "bfloat16"); }

std::string WhyNot(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const bool pairs = AreHalves(p.dtype, p.weight_dtype) && p.out_dtype == kOps.sum;
  return pairs ? p.not_packed : "operands aren't bfloat16, summed in float32";
}

std::optional<relay::LaidOutCall> Rewrite(const schedule::LayoutRequest& request, const Problem& problem, const Plan&) {
  if (!CanPackWords(request.args, AreHalves)) return std::nullopt;
  return WordProduct(request.call, request.args, !problem.as<MatmulProblemNode>()->transpose_b, kOps);
}

}  // namespace

void RegisterPairMatmul() {
  RegisterWordOps(kOps, "bfloat16", "(batch.., m.., k) bfloat16",
                  "(batch.., ceil(units / 16), ceil(k / 2), 16) words of two bfloat16", Rule<DenseInfer>,
                  Rule<PackInfer>);
  RegisterProducts("pairs", MatmulKernel(WhyNot, Rewrite));
}

}  // namespace treadle::ops::cpu
