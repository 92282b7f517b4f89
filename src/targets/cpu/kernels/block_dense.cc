// SPDX-License-Identifier: Apache-2.0
// Matrix products of weights of 4 or 8 bits that have a scale and a zero point for every block of rows. Rows of the
// data come as bytes with a scale per block as well, so that what is read of the weights is multiplied as it is: the
// sums of a block are exact in int32, and scaled once per block.
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/compute.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kBlock = kPackedColumns, kBytes = 4;
const DataType kFloat = DataType::Float(32), kWord = DataType::Int(32);

/// data (m, k) int8 and, for data of 16 bits, its low digits (m, k) int8, else (0, k); scales and scaled sums of the
/// data's blocks (m, blocks); weight (units / 16, words of k, 16); its scales and scaled zero points
/// (units / 16, blocks, 16): (m, units).
Type BlockDenseInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *low = context.Tensor(1, "low");
  const auto *scales = context.Tensor(2, "scales"), *weight = context.Tensor(4, "weight");
  const auto* weight_scales = context.Tensor(5, "weight_scales");
  const auto* attrs = context.attrs<BlockDenseAttrs>();
  CheckRank(data, 2, "data");
  CheckRank(low, 2, "low");
  CheckRank(scales, 2, "scales");
  CheckRank(weight, 3, "weight");
  CheckRank(weight_scales, 3, "weight_scales");
  if (data->dtype != DataType::Int(8) || low->dtype != DataType::Int(8) || weight->dtype != kWord ||
      scales->dtype != kFloat || weight_scales->dtype != kFloat) {
    throw DTypeError("needs int8 data, int32 weights and float32 scales");
  }
  const int64_t blocks = DimValue(weight_scales->shape[1]), words = DimValue(weight->shape[1]);
  const int64_t k = DimValue(data->shape[1]);
  if ((attrs->bits != 4 && attrs->bits != 8) || blocks < 1 || k % blocks != 0 || k / blocks % 8 != 0 ||
      words * (32 / attrs->bits) != k || DimValue(weight->shape[2]) != kBlock) {
    throw ShapeError("data, weights and scales don't fit");
  }
  return TensorType({data->shape[0], Dim(attrs->units)}, kFloat);
}

/// Numbers k .. k + 3 of row `m`.
PrimExpr WordAt(const Tensor& data, const PrimExpr& m, const PrimExpr& k) {
  return tir::pack_bytes(data(m, k), data(m, k + Index(1)), data(m, k + Index(2)), data(m, k + Index(3)));
}

Array<Tensor> BlockDenseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<BlockDenseAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &weight = inputs[4], &weight_scales = inputs[5], &weight_zeros = inputs[6];
  const PrimExpr rows = type->shape[0], columns = weight->shape[0], blocks = weight_scales->shape[1];
  const int64_t words = DimValue(weight->shape[1]) / DimValue(blocks), numbers = words * 32 / a->bits;
  /// Sums of products of a block, for digits of the data.
  auto dots = [&](const Tensor& data, const char* name) {
    te::IterVar w = te::ReduceAxis(tir::Range(Index(words)), "w");
    return te::Compute(
        {rows, columns, blocks, Index(kBlock)},
        [&](const Array<te::Var>& i) {
          const PrimExpr word = weight(i[1], PrimExpr(i[2]) * Index(words) + w->var, i[3]);
          const PrimExpr k = PrimExpr(i[2]) * Index(numbers) + PrimExpr(w->var) * Index(32 / a->bits);
          if (a->bits == 8) return te::Sum(tir::dot_bytes(word, WordAt(data, i[0], k)), {w});
          const PrimExpr mask = tir::make_const(kWord, int64_t{0x0f0f0f0f});
          const PrimExpr high = tir::right_shift(word, tir::make_const(kWord, int64_t{4}));
          return te::Sum(tir::dot_bytes(tir::bitwise_and(word, mask), WordAt(data, i[0], k)) +
                             tir::dot_bytes(tir::bitwise_and(high, mask), WordAt(data, i[0], k + Index(kBytes))),
                         {w});
        },
        name, name);
  };
  const Tensor first = dots(inputs[0], "block_dots");
  std::optional<Tensor> second;
  if (a->digits == 2) second = dots(inputs[1], "block_dots_low");
  te::IterVar b = te::ReduceAxis(tir::Range(blocks), "b");
  auto product = [&](const PrimExpr& m, const PrimExpr& column, const PrimExpr& lane) {
    PrimExpr dot = tir::cast(kFloat, first(m, column, b->var, lane));
    if (second)
      dot = dot * tir::make_const(kFloat, int64_t{128}) + tir::cast(kFloat, (*second)(m, column, b->var, lane));
    const PrimExpr scale = inputs[2](m, b->var), sum = inputs[3](m, b->var);
    const PrimExpr weight_scale = weight_scales(column, b->var, lane);
    if (a->symmetric) return te::Sum((dot * scale - sum) * weight_scale, {b});
    return te::Sum(dot * weight_scale * scale - weight_zeros(column, b->var, lane) * sum, {b});
  };
  Tensor sums = te::Compute(
      {rows, columns, Index(kBlock)}, [&](const Array<te::Var>& i) { return product(i[0], i[1], i[2]); }, "block_dense",
      "block_dense");
  return {te::Compute(
      type->shape,
      [&](const Array<te::Var>& i) {
        return sums(i[0], tir::floordiv(i[1], Index(kBlock)), tir::floormod(i[1], Index(kBlock)));
      },
      "block_dense_result", tag::kInjective)};
}

double BlockDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

}  // namespace

void RegisterBlockDenseOp() {
  OpRegistration("qnn.contrib_block_dense")
      .Describe("Data of 8 or 16 bits times weights of 4 or 8 bits, both with scales per block, in float32.")
      .Arguments(
          {{"data", "Tensor", "(m, k) int8"},
           {"low", "Tensor", "(m, k) int8: second digits of the data, base 128; not used with one digit"},
           {"scales", "Tensor", "(m, blocks) of the data"},
           {"sums", "Tensor", "(m, blocks): of the data, scaled"},
           {"weight", "Tensor", "(units / 16, words, 16): along k, numbers 4 .. 7 of 8 in the high halves of bytes"},
           {"weight_scales", "Tensor", "(units / 16, blocks, 16)"},
           {"weight_zeros", "Tensor", "(units / 16, blocks, 16): zero points, scaled"}})
      .AttrsType<BlockDenseAttrs>()
      .SupportLevel(11)
      .Relation(Rule<BlockDenseInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(BlockDenseMacs))
      .Set(kCompute, FTECompute(BlockDenseCompute));
}

}  // namespace treadle::ops::cpu
