// SPDX-License-Identifier: Apache-2.0
// PackBlockWeights: products with constant weights that are dequantised block by block, (q - zero point) * scale with
// scales and zero points repeated along k, multiply the numbers as they are stored. Dequantised when compiling, such
// weights would take four or eight times the memory, which is what products of few rows wait for.
#include <algorithm>
#include <optional>

#include "ops/block_weights.h"
#include "passes/pass_util.h"
#include "passes/qnn_passes.h"
#include "passes/reshape_last.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/runtime/scalar.h"

namespace treadle::relay {
namespace {

using ops::qnn::BlockWeights;
using runtime::NDArray;
using Ints = std::vector<int64_t>;

/// `e` without conversions that keep every number of at most 8 bits, and every scale.
Expr Uncast(Expr e) {
  while (const CallNode* cast = AsCallOf(e, "cast")) {
    const DataType to = cast->attrs_as<ops::CastAttrs>()->dtype;
    if (to != DataType::Int(32) && !to.is_floating()) break;
    e = cast->args[0];
  }
  return e;
}

/// A constant matrix of numbers; null for others.
const ConstantNode* AsMatrix(const Expr& e, bool integral) {
  const auto* constant = Uncast(e).as<ConstantNode>();
  if (constant == nullptr || constant->data.shape().size() != 2 || !constant->data.IsCompact()) return nullptr;
  const DataType dtype = constant->data.dtype();
  const bool fits = integral ? dtype == DataType::Int(8) || dtype == DataType::UInt(8) : dtype.is_floating();
  return fits ? constant : nullptr;
}

/// A constant matrix each of whose elements stands `block` times along `axis`.
struct Repeated {
  NDArray values;
  int64_t block;
  int axis;
};

std::optional<Repeated> AsRepeated(const Expr& e, bool integral) {
  Expr x = Uncast(e);
  if (const CallNode* slice = AsCallOf(x, "strided_slice")) {  // of the last block
    const auto* attrs = slice->attrs_as<ops::StridedSliceAttrs>();
    auto all = [](const std::vector<int64_t>& v, int64_t value) {
      return std::all_of(v.begin(), v.end(), [&](int64_t i) { return i == value; });
    };
    if (slice->args.size() != 1 || !all(attrs->begin, 0) || !all(attrs->strides, 1)) return std::nullopt;
    x = Uncast(slice->args[0]);
  }
  const CallNode* repeat = AsCallOf(x, "repeat");
  const ConstantNode* values = repeat == nullptr ? nullptr : AsMatrix(repeat->args[0], integral);
  if (values == nullptr) return std::nullopt;
  const auto* attrs = repeat->attrs_as<ops::RepeatAttrs>();
  return Repeated{values->data, attrs->repeats, PositiveAxis(attrs->axis, 2)};
}

/// A weight taken apart: numbers, scales and, where there are any, zero points.
struct Dequantised {
  NDArray numbers;
  Repeated scales;
  std::optional<Repeated> zeros;
  bool transposed = false;
};

std::optional<Dequantised> AsDequantised(Expr weight) {
  bool transposed = false;
  weight = Uncast(weight);
  if (const CallNode* transpose = AsCallOf(weight, "transpose")) {
    transposed = true;
    weight = Uncast(transpose->args[0]);
    const auto& axes = transpose->attrs_as<ops::TransposeAttrs>()->axes;
    if (axes && *axes != std::vector<int64_t>{1, 0}) return std::nullopt;
  }
  const CallNode* product = AsCallOf(weight, "multiply");
  auto scales = product == nullptr ? std::nullopt : AsRepeated(product->args[1], false);
  if (!scales) return std::nullopt;
  Expr integers = Uncast(product->args[0]);
  std::optional<Repeated> zeros;
  if (const CallNode* difference = AsCallOf(integers, "subtract")) {
    zeros = AsRepeated(difference->args[1], true);
    if (!zeros || zeros->block != scales->block || zeros->axis != scales->axis ||
        zeros->values.shape() != scales->values.shape()) {
      return std::nullopt;
    }
    integers = difference->args[0];
  }
  const ConstantNode* numbers = AsMatrix(integers, true);
  if (numbers == nullptr) return std::nullopt;
  return Dequantised{numbers->data, *scales, zeros, transposed};
}

/// The numbers of a weight as bytes, column after column, blocks filled up with zeros.
struct Columns {
  BlockWeights w;
  NDArray packed;
  std::vector<double> scales, zeros;
};

/// What is subtracted of numbers so that they are from 0 on, and the bits that they have then.
std::pair<int, int64_t> RangeOf(const NDArray& numbers) {
  const bool is_signed = numbers.dtype().is_int();
  int least = 255, most = -128;
  for (int64_t i = 0; i < numbers.size(); ++i) {
    const int value = is_signed ? numbers.Data<int8_t>()[i] : numbers.Data<uint8_t>()[i];
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (least >= 0 && most <= 15) return {0, 4};
  if (least >= -8 && most <= 7) return {-8, 4};
  return {is_signed ? -128 : 0, 8};
}

/// `columns_first`: whether the product takes the weight as (n, k).
std::optional<Columns> ColumnsOf(const Dequantised& d, bool columns_first) {
  constexpr int64_t kShortestBlock = 16, kMultiple = 8;
  const int k_axis = columns_first != d.transposed ? 1 : 0;
  const int64_t k = d.numbers.shape()[static_cast<size_t>(k_axis)];
  const int64_t n = d.numbers.shape()[static_cast<size_t>(1 - k_axis)], block = d.scales.block;
  if (k < 1 || n < 1 || d.scales.axis != k_axis || block < kShortestBlock || block > ops::qnn::kLongestBlock ||
      block % kMultiple != 0) {
    return std::nullopt;
  }
  const int64_t blocks = CeilDiv(k, block);
  const std::vector<int64_t> shape = k_axis == 1 ? std::vector<int64_t>{n, blocks} : std::vector<int64_t>{blocks, n};
  if (d.scales.values.shape() != shape) return std::nullopt;
  const auto [least, bits] = RangeOf(d.numbers);
  Columns result{{k, n, bits, block, blocks}, {}, {}, {}};
  const int64_t bytes = blocks * block * bits / 8;
  result.packed = NDArray::Empty({n, bytes}, DataType::UInt(8));
  auto* to = result.packed.Data<uint8_t>();
  std::fill(to, to + result.packed.size(), uint8_t{0});
  const bool is_signed = d.numbers.dtype().is_int();
  const std::vector<double> scales = runtime::ToDoubles(d.scales.values);
  const std::vector<double> zeros = d.zeros ? runtime::ToDoubles(d.zeros->values) : std::vector<double>();
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = k_axis == 1 ? column * k + i : i * n + column;
      const int value = (is_signed ? d.numbers.Data<int8_t>()[at] : d.numbers.Data<uint8_t>()[at]) - least;
      to[column * bytes + i * bits / 8] |= static_cast<uint8_t>(value << (i * bits % 8));
    }
    for (int64_t b = 0; b < blocks; ++b) {
      const auto at = static_cast<size_t>(k_axis == 1 ? column * blocks + b : b * n + column);
      result.scales.push_back(scales[at]);
      result.zeros.push_back((d.zeros ? zeros[at] : 0) - least);
    }
  }
  return result;
}

/// Rows `y` in the shape of `x`, whose type is `type`, but for the last dimension; y itself where that's a matrix.
Expr Restored(const Expr& y, const Expr& x, const TensorTypeNode* type, int64_t columns) {
  const auto last = static_cast<int64_t>(type->shape.size()) - 1;
  if (last == 1) return y;
  Ints shape;
  int unknown = 0;
  for (int64_t i = 0; i < last; ++i) {
    const int64_t* size = AsConstInt(type->shape[static_cast<size_t>(i)]);
    unknown += size == nullptr ? 1 : 0;
    shape.push_back(size == nullptr ? -1 : *size);
  }
  shape.push_back(columns);
  if (unknown <= 1) return ops::MakeReshape(y, shape);
  return RowsApart(Downcast<Call>(y), x, type, columns);
}

class BlockWeightPacker : public MixedModeMutator {
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    const auto* matmul = AsCallOf(post, "nn.matmul") == nullptr ? nullptr : call->attrs_as<ops::MatmulAttrs>();
    if (matmul == nullptr && AsCallOf(post, "nn.dense") == nullptr) return post;
    if (matmul != nullptr && matmul->transpose_a) return post;
    const auto* type = TensorTypeOf(pre->args[0]);
    const auto* result = TensorTypeOf(GetRef<Expr>(pre));
    if (type == nullptr || result == nullptr || type->shape.size() < 2) return post;
    for (DataType dtype : {type->dtype, result->dtype}) {
      if (!dtype.is_floating() || dtype.bits() > 32) return post;
    }
    const auto weight = AsDequantised(call->args[1]);
    if (!weight) return post;
    const auto columns = ColumnsOf(*weight, matmul == nullptr || matmul->transpose_b);
    if (!columns) return post;
    const DataType f32 = DataType::Float(32);
    Expr x = call->args[0];
    if (type->shape.size() != 2) x = ops::MakeReshape(x, Ints{-1, columns->w.k});
    if (type->dtype != f32) x = ops::MakeCast(x, f32);
    constexpr int kDigits = 2;
    Expr y = ops::qnn::BlockProduct(x, columns->w, columns->packed, columns->scales, columns->zeros, kDigits);
    y = Restored(y, call->args[0], type, columns->w.n);
    return result->dtype == f32 ? y : ops::MakeCast(y, result->dtype);
  }
};

}  // namespace

namespace transform {

Pass PackBlockWeights() {
  return MutatorPass<BlockWeightPacker>(
      {"PackBlockWeights", 0, {"InferType"}, "Multiplies weights that have a scale per block as they are stored"});
}

}  // namespace transform
}  // namespace treadle::relay
