// SPDX-License-Identifier: Apache-2.0
// What matrix products by words (words.h) share, of bytes (byte_matmul.cc) and of bfloat16 (pair_matmul.cc): the right
// operand is packed as (batch.., n / 16, words of k, 16), the left one is read as words along k, and the computation
// and its schedule are those of a packed float32 product (packed_matmul.cc).
#pragma once

#include <functional>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/layout.h"

namespace treadle::ops::cpu {

/// The operators of one kind of product.
struct WordOps {
  const char* dense;
  const char* pack;
  DataType sum;
  int64_t k_words = 1;  ///< words of k are a multiple of this, zeros at their end
};

/// data (batch.., m.., k), weight (batch.., ceil(units / 16), words of k, 16) int32: (batch.., m.., units) of `sum`.
/// `expected`: the data types that `fits` accepts, for errors.
Type WordDenseInfer(const InferContext& context, bool (*fits)(DataType), DataType sum, const char* expected);
/// The sums of rows of `data` by packed words, as the stage that `stage_of` the rows, in words or as they are, says.
Array<Tensor> WordSums(const Tensor& data, const Tensor& weight, const TensorTypeNode* type,
                       const std::function<Map<String, ObjectRef>(const Tensor& rows)>& stage_of);
Array<Tensor> WordDenseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type);
double WordDenseMacs(const Attrs& attrs, const Array<Type>& arguments, const Type& result);

/// weight (batch.., k, n) or, transpose_b, (batch.., n, k), k and n known: (batch.., ceil(n / 16), words of k, 16)
/// int32, words a multiple of `k_words`.
Type PackWordsInfer(const InferContext& context, bool (*fits)(DataType), const char* expected, int64_t k_words = 1);
/// The word at (batch.., block, word of k, column) of a packed `weight`.
PrimExpr PackedWord(const Tensor& weight, bool k_first, const Array<PrimExpr>& i);
Array<Tensor> PackWordsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type);

/// Registers both operators, for operands of `numbers` ("bytes"); `data`, `weight`: what they are, as documentation.
void RegisterWordOps(const WordOps& ops, const std::string& numbers, const std::string& data, const std::string& weight,
                     TypeRelationFn dense, TypeRelationFn pack, FTECompute compute = WordDenseCompute);

/// Whether operands are of types of which a product can be packed: the right one of known shape, batches equal.
bool CanPackWords(relay::LayoutArgs& args, bool (*fits)(DataType data, DataType weight));
/// The product of `call`, its right operand packed: when compiling where it is constant.
relay::LaidOutCall WordProduct(const relay::CallNode* call, relay::LayoutArgs& args, bool k_first, const WordOps& ops);

}  // namespace treadle::ops::cpu
