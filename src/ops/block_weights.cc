// SPDX-License-Identifier: Apache-2.0
#include "ops/block_weights.h"

#include <algorithm>
#include <bit>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/qnn.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {
namespace qnn {
namespace {

using relay::Expr;
using runtime::NDArray;

/// Weights in the order in which kernels read them: (panels of 16 columns, blocks, words of a block and its scale, 16).
/// With `with_zeros` scaled zero points follow the scale.
NDArray Pack(const BlockWeights& w, const NDArray& packed, const std::vector<double>& scales,
             const std::vector<double>& zeros, bool with_zeros) {
  constexpr int64_t kLanes = 16;
  const int64_t panels = CeilDiv(w.n, kLanes), numbers = 32 / w.bits, words = w.block / numbers;
  const int64_t rows = words + (with_zeros ? 2 : 1), bytes = w.block * w.bits / 8;
  NDArray result = NDArray::Empty({panels, w.blocks, rows, kLanes}, DataType::Int(32));
  auto* const begin = result.Data<uint32_t>();
  std::fill(begin, begin + result.size(), 0U);
  for (int64_t column = 0; column < w.n; ++column) {
    for (int64_t b = 0; b < w.blocks; ++b) {
      const auto of_block = static_cast<size_t>(column * w.blocks + b);
      const uint8_t* from = packed.Data<uint8_t>() + static_cast<int64_t>(of_block) * bytes;
      uint32_t* to = begin + (column / kLanes * w.blocks + b) * rows * kLanes + column % kLanes;
      for (int64_t i = 0; i < w.block; ++i) {
        const auto value = static_cast<uint32_t>(Unpacked(from, i, w.bits));
        const int64_t in_word = i % numbers;
        // Of 8 numbers of 4 bits the first four are the low halves of bytes.
        const int64_t shift = w.bits == 8 ? 8 * in_word : in_word < 4 ? 8 * in_word : 8 * (in_word - 4) + 4;
        to[i / numbers * kLanes] |= value << shift;
      }
      const auto scale = static_cast<float>(scales[of_block]);
      to[words * kLanes] = std::bit_cast<uint32_t>(scale);
      if (with_zeros) to[(words + 1) * kLanes] = std::bit_cast<uint32_t>(scale * static_cast<float>(zeros[of_block]));
    }
  }
  return result;
}

/// data (m, k), weight (units / 16, blocks, words of a block and its scales, 16) int32: (m, units) float32.
Type BlockProductInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<BlockProductAttrs>();
  CheckRank(data, 2, "data");
  CheckRank(weight, 4, "weight");
  if (data->dtype != DataType::Float(32) || weight->dtype != DataType::Int(32)) {
    throw DTypeError("needs float32 data and int32 weights");
  }
  if (attrs->bits != 4 && attrs->bits != 8) throw ShapeError("weights have 4 or 8 bits");
  const BlockWeights w = BlockWeightsOf(*attrs, data, weight);
  if (w.blocks < 1 || w.block < 1 || w.k < 1 || w.k > w.block * w.blocks)
    throw ShapeError("data and weights don't fit");
  return TensorType({data->shape[0], Dim(attrs->units)}, DataType::Float(32));
}

/// Rows filled up with zeros to whole blocks.
Expr RowsOfWholeBlocks(const Expr& x, const BlockWeights& w) {
  const int64_t padded = w.blocks * w.block;
  if (padded == w.k) return x;
  return MakePad(x, {{0, 0}, {0, padded - w.k}}, ScalarConstant(DataType::Float(32), 0.0));
}

/// The rows in 8 bits, or two digits of 7 and 8, with a scale for every block, times the weights as they are stored.
Expr OfQuantisedRows(const Attrs& given, const Array<Expr>& args, const Array<Type>& types) {
  const auto* attrs = given.as<BlockProductAttrs>();
  const BlockWeights w = BlockWeightsOf(*attrs, types[0].as<TensorTypeNode>(), types[1].as<TensorTypeNode>());
  const DataType f32 = DataType::Float(32), i32 = DataType::Int(32), i8 = DataType::Int(8);
  const int64_t padded = w.blocks * w.block;
  const double most = attrs->digits == 1 ? 127 : 127 * 128;
  auto number = [](DataType dtype, double value) { return ScalarConstant(dtype, value); };
  const Expr blocks = MakeReshape(RowsOfWholeBlocks(args[0], w), std::vector<int64_t>{-1, w.blocks, w.block});
  const Expr largest = MakeReduce("max", CallOp("abs", {blocks}), std::vector<int64_t>{2}, true);
  const Expr scale = CallOp("divide", {largest, number(f32, most)});
  // Blocks of zeros have scale 0, and become whatever 0 / 0 becomes, times 0.
  const Expr numbers =
      CallWith<RoundClipAttrs>("qnn.contrib_round_clip", {CallOp("divide", {blocks, scale})}, [&](auto& a) {
        a.a_min = -most;
        a.a_max = most;
      });
  const Expr of_rows = MakeReshape(scale, std::vector<int64_t>{-1, w.blocks});
  Expr sums = Mul(MakeCast(MakeReduce("sum", numbers, std::vector<int64_t>{2}), f32), of_rows);
  if (attrs->symmetric) sums = Mul(sums, number(f32, attrs->zero_point));
  auto rows = [&](const Expr& values) { return MakeReshape(MakeCast(values, i8), std::vector<int64_t>{-1, padded}); };
  Expr bytes, low;
  if (attrs->digits == 2) {
    const Expr high = CallOp("right_shift", {Add(numbers, number(i32, 64)), number(i32, 7)});
    bytes = rows(high);
    low = rows(Sub(numbers, CallOp("left_shift", {high, number(i32, 7)})));
  } else {
    bytes = low = rows(numbers);
  }
  return CallWith<BlockDenseAttrs>("qnn.contrib_block_dense", {bytes, low, of_rows, sums, args[1]}, [&](auto& a) {
    a.units = attrs->units;
    a.bits = attrs->bits;
    a.digits = attrs->digits;
    a.symmetric = attrs->symmetric;
  });
}

}  // namespace

BlockWeights BlockWeightsOf(const BlockProductAttrs& attrs, const TensorTypeNode* data, const TensorTypeNode* weight) {
  const int64_t blocks = DimValue(weight->shape[1]), scales = attrs.symmetric ? 1 : 2;
  const int64_t block = (DimValue(weight->shape[2]) - scales) * (32 / attrs.bits);
  return {DimValue(data->shape[1]), attrs.units, attrs.bits, block, blocks};
}

Expr BlockProduct(const Expr& x, const BlockWeights& w, const NDArray& packed, const std::vector<double>& scales,
                  const std::vector<double>& zeros, int digits) {
  const bool symmetric = std::all_of(zeros.begin(), zeros.end(), [&](double zero) { return zero == zeros[0]; });
  const Expr weight = relay::Constant(Pack(w, packed, scales, zeros, !symmetric));
  return CallWith<BlockProductAttrs>("qnn.contrib_block_product", {x, weight}, [&](auto& a) {
    a.units = w.n;
    a.bits = static_cast<int>(w.bits);
    a.digits = digits;
    a.symmetric = symmetric;
    a.zero_point = symmetric ? zeros[0] : 0;
  });
}

}  // namespace qnn

void RegisterBlockWeightOps() {
  using namespace qnn;  // NOLINT(google-build-using-namespace)
  OpRegistration("qnn.contrib_block_product")
      .Describe("Rows times weights of 4 or 8 bits that have a scale per block, as qnn.contrib_block_dense has them.")
      .Arguments({{"data", "Tensor", "(m, k) float32"},
                  {"weight", "Tensor", "(units / 16, blocks, words of a block + 1 or 2, 16) int32"}})
      .AttrsType<BlockProductAttrs>()
      .SupportLevel(11)
      .Relation(Rule<BlockProductInfer>)
      .Set(relay::kQnnCanonicalize, relay::FLegalize(OfQuantisedRows));
}

}  // namespace treadle::ops
