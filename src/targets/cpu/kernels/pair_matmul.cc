// SPDX-License-Identifier: Apache-2.0
// Matrix products of bfloat16, summed in float32, with a packed right operand. A word of two neighbours along k takes
// the place of a float (treadle/tir/pair_ops.h): the right operand is packed as (n / 16, k / 2, 16) words, rows of the
// left one are read as words, and the product has the form, and the schedule, of a packed product of floats
// (packed_matmul.cc).
#include <algorithm>

#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/rooms.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/layout.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;

constexpr int64_t kBlock = kPackedColumns, kPair = 2;
const DataType kWord = DataType::Int(32), kHalf = DataType::BFloat(16), kSum = DataType::Float(32);

PrimExpr Words(const PrimExpr& elements) {
  const int64_t* known = AsConstInt(elements);
  return known != nullptr ? Index((*known + 1) / kPair) : tir::floordiv(elements + 1, Index(kPair));
}

/// The word of element(2 * word) and the next one; 0 where that is beyond `extent`.
template <typename F>
PrimExpr WordOf(const PrimExpr& word, const PrimExpr& extent, F element) {
  const int64_t* known = AsConstInt(extent);
  const PrimExpr low = word * Index(kPair), high = low + Index(1);
  if (known != nullptr && *known % kPair == 0) return tir::pack_pair(element(low), element(high));
  const PrimExpr last = tir::if_then_else(high < extent, element(high), tir::make_zero(kHalf));
  return tir::pack_pair(element(low), last);
}

/// data (batch.., m.., k) bfloat16, weight (batch.., ceil(units / 16), ceil(k / 2), 16) int32: (batch.., m.., units)
/// float32.
Type PairDenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 3 || data->shape.empty() || !attrs->units.has_value() || data->dtype != kHalf || weight->dtype != kWord) {
    throw ShapeError("needs bfloat16 data of rank 1 and more, int32 weights of rank 3 and more, and units");
  }
  if (rank > 3 && data->shape.size() != rank - 1) throw ShapeError("data and weight must have the same batch");
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, kSum);
}

Array<Tensor> PairDenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &data = inputs[0], &weight = inputs[1];
  const size_t batch = weight.ndim() - 3, last = data.ndim() - 1;
  const PrimExpr k = data->shape[last];
  const int64_t* known = AsConstInt(k);
  auto word = [&](const Array<PrimExpr>& at) {
    return WordOf(at[last], k, [&](const PrimExpr& i) {
      Array<PrimExpr> from = at;
      from.Set(last, i);
      return data(from);
    });
  };
  // Rows that aren't made of whole words are padded first.
  std::optional<Tensor> words;
  if (known == nullptr || *known % kPair != 0) {
    Array<PrimExpr> shape = data->shape;
    shape.Set(last, Words(k));
    words = Compute(shape, word, "words", tag::kInjective);
  }
  te::IterVar step = te::ReduceAxis(tir::Range(weight->shape[batch + 1]), "k");
  auto product = [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i), at;
    const PrimExpr unit = from.back();
    from.Set(last, step->var);
    for (size_t d = 0; d < batch; ++d) at.push_back(from[d]);
    at.push_back(tir::floordiv(unit, Index(kBlock)));
    at.push_back(step->var);
    at.push_back(tir::floormod(unit, Index(kBlock)));
    return te::Sum(tir::dot_pairs(words ? (*words)(from) : word(from), weight(at)), {step});
  };
  const Map<String, ObjectRef> stage = PackedMatmulStage(words ? *words : data, weight, type);
  const int64_t* units = AsConstInt(type->shape.back());
  if (units != nullptr && *units % kBlock == 0) {
    return {te::Compute(type->shape, product, "packed_dense", "packed_dense", stage)};
  }
  Array<PrimExpr> padded = type->shape;
  padded.Set(last, DimMul(weight->shape[batch], Dim(kBlock)));
  Tensor sum = te::Compute(padded, product, "packed_dense", "packed_dense", stage);
  return {
      Compute(type->shape, [&](const Array<PrimExpr>& i) { return sum(i); }, "packed_dense_result", tag::kInjective)};
}

/// weight (batch.., k, n) or, transpose_b, (batch.., n, k) bfloat16, static: (batch.., ceil(n / 16), ceil(k / 2), 16)
/// int32.
Type PackPairsInfer(const InferContext& context) {
  const auto* weight = context.Tensor(0, "weight");
  const auto* attrs = context.attrs<MatmulAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 2 || !IsStatic(weight) || weight->dtype != kHalf) throw ShapeError("needs bfloat16 of a known shape");
  Array<PrimExpr> out;
  for (size_t i = 0; i + 2 < rank; ++i) out.push_back(weight->shape[i]);
  const int64_t n = DimValue(weight->shape[attrs->transpose_b ? rank - 2 : rank - 1]);
  out.push_back(Dim((n + kBlock - 1) / kBlock));
  out.push_back(Words(weight->shape[attrs->transpose_b ? rank - 1 : rank - 2]));
  out.push_back(Dim(kBlock));
  return TensorType(out, kWord);
}

Array<Tensor> PackPairsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& weight = inputs[0];
  const bool k_first = !attrs.as<MatmulAttrs>()->transpose_b;
  const size_t rank = weight.ndim();
  const PrimExpr k = weight->shape[k_first ? rank - 2 : rank - 1], n = weight->shape[k_first ? rank - 1 : rank - 2];
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr unit = i[rank - 2] * Index(kBlock) + i[rank];
        return WordOf(i[rank - 1], k, [&](const PrimExpr& element) {
          Array<PrimExpr> at;
          for (size_t d = 0; d + 2 < rank; ++d) at.push_back(i[d]);
          at.push_back(k_first ? element : unit);
          at.push_back(k_first ? unit : element);
          if (DimValue(n) % kBlock == 0) return weight(at);
          return tir::if_then_else(unit < n, weight(at), tir::make_zero(kHalf));
        });
      },
      "pack_pairs", tag::kInjective)};
}

/// A constant right operand, packed.
Expr PackedConstant(const runtime::NDArray& weight, bool k_first) {
  std::vector<int64_t> shape = weight.shape();
  const size_t rank = shape.size();
  const int64_t n = shape[k_first ? rank - 1 : rank - 2], k = shape[k_first ? rank - 2 : rank - 1];
  const int64_t blocks = (n + kBlock - 1) / kBlock, words = (k + kPair - 1) / kPair;
  shape.resize(rank - 2);
  const int64_t batch = NumElements(shape);
  shape.insert(shape.end(), {blocks, words, kBlock});
  runtime::NDArray packed = runtime::NDArray::Empty(shape, kWord);
  auto* to = packed.Data<uint16_t>();
  std::fill(to, to + packed.size() * kPair, uint16_t{0});
  const auto* from = weight.Data<uint16_t>();
  const int64_t step_n = k_first ? 1 : k, step_k = k_first ? n : 1;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < n; ++i) {
      uint16_t* column = to + ((b * blocks + i / kBlock) * words * kBlock + i % kBlock) * kPair;
      const uint16_t* source = from + b * n * k + i * step_n;
      for (int64_t j = 0; j < k; ++j) column[j / kPair * kBlock * kPair + j % kPair] = source[j * step_k];
    }
  }
  return relay::Constant(packed);
}

/// Whether operands are bfloat16 of which a product can be packed: the right one of known shape, batches equal.
bool CanPack(LayoutArgs& args) {
  constexpr size_t kMaxRank = 8;
  const auto *data = args.Type(0), *weight = args.Type(1);
  if (data == nullptr || weight == nullptr || data->dtype != kHalf || weight->dtype != kHalf || !IsStatic(weight)) {
    return false;
  }
  if (NumElements(StaticShape(weight, "packing")) == 0) return false;
  const size_t rank = weight->shape.size();
  if (rank == 2) return !data->shape.empty();
  if (data->shape.size() != rank || rank > kMaxRank) return false;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(data->shape[i], weight->shape[i])) return false;
  }
  return true;
}

LaidOutCall PairProduct(const CallNode* call, LayoutArgs& args, bool k_first) {
  const auto* weight = args.Type(1);
  const size_t rank = weight->shape.size();
  const auto* constant = call->args[1].as<ConstantNode>();
  Expr packed;
  if (constant != nullptr && constant->data.IsCompact()) {
    packed = PackedConstant(constant->data, k_first);
  } else {
    packed =
        CallWith<MatmulAttrs>("nn.contrib_pack_pairs", {args.Plain(1)}, [&](auto& a) { a.transpose_b = !k_first; });
  }
  Expr product = CallWith<DenseAttrs>("nn.contrib_packed_dense_pairs", {args.Plain(0), packed}, [&](auto& a) {
    a.units = DimValue(weight->shape[k_first ? rank - 1 : rank - 2]);
    a.out_dtype = kSum;
  });
  const auto* made = product.as<CallNode>();
  return LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, call->span), {}};
}

std::string WhyNot(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const bool pairs = p.dtype == kHalf && p.weight_dtype == kHalf && p.out_dtype == kSum;
  return pairs ? p.not_packed : "operands aren't bfloat16, summed in float32";
}

std::optional<LaidOutCall> Rewrite(const schedule::LayoutRequest& request, const Problem& problem, const Plan&) {
  if (!CanPack(request.args)) return std::nullopt;
  return PairProduct(request.call, request.args, !problem.as<MatmulProblemNode>()->transpose_b);
}

double PairDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

}  // namespace

void RegisterPairMatmul() {
  OpRegistration("nn.contrib_packed_dense_pairs")
      .Describe("Matrix product of bfloat16 with a packed right operand, in float32.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k) bfloat16"},
                  {"weight", "Tensor", "(batch.., ceil(units / 16), ceil(k / 2), 16) words of two bfloat16"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PairDenseInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PairDenseMacs))
      .Set(kCompute, FTECompute(PairDenseCompute));
  OpRegistration("nn.contrib_pack_pairs")
      .Describe("The right operand of a matrix product, packed in words of two bfloat16 along k.")
      .Arguments({{"weight", "Tensor", "(batch.., k, n) bfloat16"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PackPairsInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(PackPairsCompute));
  RegisterWordProducts("pairs", WhyNot, Rewrite);
}

}  // namespace treadle::ops::cpu
