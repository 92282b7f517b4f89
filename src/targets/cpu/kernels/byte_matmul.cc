// SPDX-License-Identifier: Apache-2.0
// nn.dense, nn.matmul and nn.batch_matmul of uint8 by int8, or of int16, in int32: the right operand is packed as words
// of four int8 or two int16 along k (word_matmul.h).
#include "ops/qnn.h"
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/word_matmul.h"
#include "targets/cpu/kernels/words.h"

namespace treadle::ops::cpu {
namespace {

const WordOps kOps{"qnn.contrib_packed_dense", "qnn.contrib_pack_words", DataType::Int(32)};

bool IsData(DataType dtype) { return dtype == DataType::UInt(8) || dtype == DataType::Int(16); }
bool IsWeight(DataType dtype) { return dtype.bits() == 8 || dtype == DataType::Int(16); }

Type DenseInfer(const InferContext& context) { return WordDenseInfer(context, IsData, kOps.sum, "uint8 or int16"); }
Type PackInfer(const InferContext& context) { return PackWordsInfer(context, IsWeight, "bytes or int16"); }

std::string WhyNot(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const bool words = HasWords(p.dtype, p.weight_dtype) && p.out_dtype == kOps.sum;
  return words ? p.not_packed : "operands aren't uint8 and int8, or int16, summed in int32";
}

std::optional<relay::LaidOutCall> Rewrite(const schedule::LayoutRequest& request, const Problem& problem, const Plan&) {
  const bool k_first = !problem.as<MatmulProblemNode>()->transpose_b;
  if (!IsStatic(request.args.Type(1))) return PackingProduct(request, k_first, kOps.sum);
  if (!CanPackWords(request.args, HasWords)) return std::nullopt;
  return WordProduct(request.call, request.args, k_first, kOps);
}

}  // namespace

void RegisterByteMatmul() {
  RegisterWordOps(kOps, "bytes or int16", "(batch.., m.., k) uint8 or int16",
                  "(batch.., ceil(units / 16), ceil(k / 4), 16) words of four int8, or ceil(k / 2) of two int16",
                  Rule<DenseInfer>, Rule<PackInfer>);
  RegisterProducts("bytes", MatmulKernel(WhyNot, Rewrite));
}

}  // namespace treadle::ops::cpu
