// SPDX-License-Identifier: Apache-2.0
// The tensor expressions of attention with packed keys and values. If a row of scores doesn't fit the caches, it is
// computed in blocks of keys, each with a softmax of its own, and the partial results are rescaled and added (Dao et
// al. 2022, "FlashAttention").
#include "targets/cpu/kernels/attention_compute.h"

#include "ops/attention.h"
#include "ops/macs.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/size_forms.h"
#include "treadle/tir/tile_ops.h"

namespace treadle::ops::cpu {
namespace {

using tir::floordiv;
using tir::floormod;

const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);

/// query (batch.., m, s), key (batch.., nb, s, 16), value (batch.., db, n, 16), mask (..., 16 nb), -inf where there is
/// no key: (batch.., m, 16 db). Keys and values have words, half of s and of n, for queries of bfloat16.
Type PackedAttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  const int64_t key_block = context.attrs<AttentionAttrs>()->key_block;
  size_t rank = query->shape.size();
  if (rank < 2 || key->shape.size() != rank + 1 || value->shape.size() != rank + 1) {
    throw ShapeError("packed keys and values must have one dimension more than queries");
  }
  CheckAttentionBatch(context, query, key, rank - 2);
  CheckAttentionBatch(context, query, value, rank - 2);
  const bool pairs = query->dtype == kHalf;
  const PrimExpr inner = pairs ? Words(query->shape[rank - 1], kHalf) : query->shape[rank - 1];
  CheckAttentionInner(inner, key->shape[rank - 1], "queries and keys", context);
  if (pairs && (key->dtype != DataType::Int(32) || value->dtype != DataType::Int(32))) {
    throw DTypeError("keys and values must be words of two bfloat16");
  }
  const int64_t panels = DimValue(key->shape[rank - 2]), in_block = key_block / kPackedColumns;
  if (key_block != 0 && (key_block < 0 || key_block % kPackedColumns != 0 || panels < 0 || panels % in_block != 0)) {
    throw ShapeError(StrCat("keys in blocks of ", key_block, ", which ", panels, " panels of ", kPackedColumns,
                            " don't consist of"));
  }
  CheckAttentionMask(context, query, DimMul(key->shape[rank - 2], Dim(kPackedColumns)));
  Array<PrimExpr> out = query->shape;
  out.Set(rank - 1, DimMul(value->shape[rank - 2], Dim(kPackedColumns)));
  return TensorType(out, kSum);
}

/// The same of words in whole tiles: of queries, keys and values, of which there are as many as keys.
Type TileAttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  const Type result = PackedAttentionInfer(context);
  const size_t rank = query->shape.size();
  if (query->dtype != kHalf) throw DTypeError(StrCat("tiles are products of bfloat16, not ", query->dtype));
  if (context.attrs<AttentionAttrs>()->key_block != 0) throw ShapeError("tiles have no blocks of keys");
  const int64_t words = DimValue(key->shape[rank - 1]), values = DimValue(value->shape[rank - 1]);
  const bool whole = words > 0 && words % tir::kTileRows == 0 && values > 0 && values % tir::kTileRows == 0;
  const bool fit = DimValue(query->shape[rank - 1]) == words * 2;
  if (!whole || !fit || DimValue(key->shape[rank - 2]) * kPackedColumns != values * 2) {
    throw ShapeError(StrCat("queries ", TypeText(query), ", keys ", TypeText(key), " and values ", TypeText(value),
                            " aren't tiles of ", tir::kTileRows, " words of as many keys as values"));
  }
  return result;
}

/// The product of dimensions; -1 where one is dynamic.
int64_t BatchOf(const Array<PrimExpr>& shape) {
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i)
    batch = batch < 0 || DimValue(shape[i]) < 0 ? -1 : batch * DimValue(shape[i]);
  return batch;
}

}  // namespace

void SetAttentionSizes(const Array<PrimExpr>& query, const Array<PrimExpr>& key, const Array<PrimExpr>& value,
                       AttentionProblemNode* p) {
  const size_t rank = query.size();
  p->batch = BatchOf(query);
  p->m = DimValue(query[rank - 2]);
  p->s = DimValue(query[rank - 1]);
  p->n = DimValue(key[rank - 2]);
  p->d = DimValue(value[rank - 1]);
}

namespace {

Problem PackingProblem(const Array<te::Tensor>& inputs) {
  return Make<Problem, AttentionProblemNode>([&](auto& p) {
    SetAttentionSizes(inputs[0]->shape, inputs[1]->shape, inputs[2]->shape, &p);
    p.dtype = inputs[0]->dtype;
  });
}

Problem PackedProblem(const Array<te::Tensor>& inputs, int64_t key_block) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim();
  return Make<Problem, AttentionProblemNode>([&](auto& p) {
    p.batch = BatchOf(query->shape);
    p.m = DimValue(query->shape[rank - 2]);
    p.s = DimValue(query->shape[rank - 1]);
    p.n = DimValue(key->shape[rank - 2]) * kPackedColumns;
    p.d = DimValue(value->shape[rank - 2]) * kPackedColumns;
    p.dtype = query->dtype;
    p.n_block = kPackedColumns;
    p.key_block = key_block;
  });
}

/// Scores of packed keys: (batch.., m, n), or, where keys are in blocks, (batch.., m, blocks, keys of a block).
class PackedScores {
 public:
  PackedScores(const te::Tensor& query, const te::Tensor& key, int64_t key_block)
      : shape(query->shape), batch_(query.ndim() - 2), key_block_(key_block) {
    const PrimExpr keys = DimMul(key->shape[batch_], Dim(kPackedColumns));
    shape.Set(batch_ + 1, key_block == 0 ? keys : Dim(DimValue(keys) / key_block));
    if (key_block != 0) shape.push_back(Dim(key_block));
  }
  bool in_blocks() const { return key_block_ != 0; }
  /// Dimensions before a row's scores, or before those of a block.
  size_t rows() const { return shape.size() - 1; }
  /// The number of what is `own` in the block at index `i`, of which `per_key` keys have one, among all.
  PrimExpr AmongAll(const Array<PrimExpr>& i, const PrimExpr& own, int64_t per_key) const {
    return in_blocks() ? i[batch_ + 1] * Index(key_block_ / per_key) + own : own;
  }

  Array<PrimExpr> shape;

 private:
  size_t batch_;
  int64_t key_block_;
};

/// One result per row from those of blocks of keys, each with a maximum of its own, as FlashAttention-2 combines them
/// (Dao 2023): each counts as much as exp(its maximum - that of the row).
te::Tensor CombineBlocks(const te::Tensor& mixed, const SoftmaxStages& softmax, const AttentionAttrs& attrs,
                         const std::string& kernel, const Map<String, ObjectRef>& anchor) {
  const size_t rows = softmax.max.ndim() - 1;
  const Array<PrimExpr> shape = ReplaceLast(mixed->shape, rows, {});
  auto reduce = [&](const Array<PrimExpr>& of, const std::string& role, auto combine) {
    te::IterVar block = te::ReduceAxis(tir::Range(mixed->shape[rows]), "block");
    return te::ComputeStage(
        of, [&](const Array<PrimExpr>& i) { return combine(i, ReplaceLast(i, rows, {block->var}), block); },
        "attention_" + role, StageAttrs(kernel, role));
  };
  const te::Tensor most = reduce(shape, "row_max", [&](const auto&, const auto& at, const te::IterVar& block) {
    return te::MaxReduce(softmax.max(at), {block});
  });
  const te::Tensor factors = te::ComputeStage(
      softmax.max->shape,
      [&](const Array<PrimExpr>& i) { return ExpUpToOne(softmax.max(i) - most(ReplaceLast(i, rows, {}))); },
      "attention_factors", StageAttrs(kernel, "factors"));
  const te::Tensor total = reduce(shape, "total", [&](const auto&, const auto& at, const te::IterVar& block) {
    return te::Sum(factors(at) * softmax.sum(at), {block});
  });
  const te::Tensor combined =
      reduce(ReplaceLast(shape, rows, {mixed->shape[rows + 1]}), "combined",
             [&](const Array<PrimExpr>& i, const auto& at, const te::IterVar& block) {
               return te::Sum(factors(at) * mixed(ReplaceLast(i, rows, {block->var, i[rows]})), {block});
             });
  return DivideBySums(combined, total, attrs, anchor);
}

Array<te::Tensor> ComputeWith(const char* kernel, const Attrs& attrs, const Array<te::Tensor>& inputs,
                              const Type& out_type) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const auto& options = *attrs.as<AttentionAttrs>();
  const size_t rank = query.ndim(), batch = rank - 2;
  const bool pairs = query->dtype == kHalf;
  const PrimExpr panel = Index(kPackedColumns);
  const PackedScores scores(query, key, options.key_block);
  /// The product of element (or word) `k` of a row and of a packed column.
  auto term = [&](const auto& element, const PrimExpr& k, const PrimExpr& packed) -> PrimExpr {
    if (!pairs) return element(k) * packed;
    const PrimExpr first = k * Index(2);
    return tir::dot_pairs(tir::pack_pair(element(first), element(first + Index(1))), packed);
  };
  te::IterVar s = te::ReduceAxis(tir::Range(key->shape[rank - 1]), "s");
  te::Tensor products = te::ComputeStage(
      scores.shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr column = i[scores.rows()];
        const PrimExpr at = scores.AmongAll(i, floordiv(column, panel), kPackedColumns);
        return te::Sum(term([&](const PrimExpr& k) { return query(ReplaceLast(i, rank - 1, {k})); }, s->var,
                            key(ReplaceLast(i, batch, {at, s->var, floormod(column, panel)}))),
                       {s});
      },
      "attention_products", StageAttrs(kernel, "products"));
  const Array<PrimExpr> all = ReplaceLast(query->shape, rank - 1, {DimMul(key->shape[batch], Dim(kPackedColumns))});
  auto mask = [&](const Array<PrimExpr>& i) {
    return LoadBroadcast(inputs[3], ReplaceLast(i, rank - 1, {scores.AmongAll(i, i[scores.rows()], 1)}), all);
  };
  const std::function<PrimExpr(const PrimExpr&)> round = pairs ? tir::pair_half : nullptr;
  const SoftmaxStages softmax = SoftmaxOfScores(products, mask, options, kernel, scores.in_blocks(), round);
  const int64_t per_word = pairs ? 2 : 1;
  te::IterVar n =
      te::ReduceAxis(tir::Range(scores.in_blocks() ? Dim(options.key_block / per_word) : value->shape[rank - 1]), "n");
  const Array<PrimExpr> out = OutTensor(out_type)->shape;
  const te::Tensor mixed = te::ComputeStage(
      ReplaceLast(scores.shape, scores.rows(), {out[rank - 1]}),
      [&](const Array<PrimExpr>& i) {
        const PrimExpr column = i[scores.rows()], at = scores.AmongAll(i, n->var, per_word);
        return te::Sum(term([&](const PrimExpr& k) { return softmax.exp(ReplaceLast(i, scores.rows(), {k})); }, n->var,
                            value(ReplaceLast(i, batch, {floordiv(column, panel), at, floormod(column, panel)}))),
                       {n});
      },
      "attention_mixed", StageAttrs(kernel, "mixed"));
  const Map<String, ObjectRef> anchor = AnchorAttrs(kernel, "output", PackedProblem(inputs, options.key_block));
  if (scores.in_blocks()) return {CombineBlocks(mixed, softmax, options, kernel, anchor)};
  return {DivideBySums(mixed, softmax.sum, options, anchor)};
}

Array<te::Tensor> PackedAttentionCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  return ComputeWith(inputs[0]->dtype == kHalf ? kPairAttention : kPackedAttention, attrs, inputs, out_type);
}
Array<te::Tensor> TileAttentionCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  return ComputeWith(kTileAttention, attrs, inputs, out_type);
}

/// Of dynamic sizes: query (batch.., m, s), key (batch.., n, s), value (batch.., n, d), mask (..., n). Keys are packed
/// for each block of queries; what is beyond them in the last panel is masked.
Array<te::Tensor> PackingAttentionCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim(), batch = rank - 2;
  // For one query packing would take longer than the products do.
  if (tir::is_one(query->shape[batch])) return (*Op::Get("nn.attention").GetAttr(kCompute))(attrs, inputs, out_type);
  const PrimExpr block = Index(kPackedColumns), n = key->shape[batch];
  const PrimExpr panels = DimFloorDiv(DimAdd(n, Dim(kPackedColumns - 1)), Dim(kPackedColumns));
  const DataType dtype = query->dtype;
  te::Tensor packed = te::ComputeStage(
      ReplaceLast(key->shape, batch, {panels, key->shape[rank - 1], block}),
      [&](const Array<PrimExpr>& i) {
        const PrimExpr at = i[batch] * block + i[rank];
        const PrimExpr element = key(ReplaceLast(i, batch, {at, i[batch + 1]}));
        return tir::if_then_else(at < n, element, tir::make_zero(dtype));
      },
      "attention_keys", StageAttrs(kPackingAttention, "keys"));
  te::IterVar s = te::ReduceAxis(tir::Range(key->shape[rank - 1]), "s");
  const Array<PrimExpr> shape = ReplaceLast(query->shape, rank - 1, {DimMul(panels, block)});
  te::Tensor products = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr column = i[rank - 1];
        const PrimExpr k = packed(ReplaceLast(i, batch, {floordiv(column, block), s->var, floormod(column, block)}));
        return te::Sum(query(ReplaceLast(i, rank - 1, {s->var})) * k, {s});
      },
      "attention_products", StageAttrs(kPackingAttention, "products"));
  auto mask = [&](const Array<PrimExpr>& i) {
    const Array<PrimExpr> scores = ReplaceLast(shape, rank - 1, {n});
    return tir::if_then_else(i[rank - 1] < n, LoadBroadcast(inputs[3], i, scores), tir::neg_infinity(dtype));
  };
  const auto& options = *attrs.as<AttentionAttrs>();
  const SoftmaxStages softmax = SoftmaxOfScores(products, mask, options, kPackingAttention);
  te::IterVar k = te::ReduceAxis(tir::Range(n), "n");
  const te::Tensor mixed = te::ComputeStage(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr weight = softmax.exp(ReplaceLast(i, rank - 1, {k->var}));
        return te::Sum(weight * value(ReplaceLast(i, batch, {k->var, i[rank - 1]})), {k});
      },
      "attention_mixed", StageAttrs(kPackingAttention, "mixed"));
  return {DivideBySums(mixed, softmax.sum, options, AnchorAttrs(kPackingAttention, "output", PackingProblem(inputs)))};
}

double PackedAttentionMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  double keys = DimOf(arguments[1], -3) * kPackedColumns;
  return keys * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
}

}  // namespace

void RegisterPackedAttentionOps() {
  AttentionOp("nn.contrib_packed_attention",
              "Attention with packed keys (.., n / 16, s, 16) and values (.., d / 16, n, 16).")
      .Relation(Rule<PackedAttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount(PackedAttentionMacs))
      .Set(kCompute, FTECompute(PackedAttentionCompute));
  AttentionOp(
      "nn.contrib_tile_attention",
      "Attention of bfloat16 with packed keys (.., n / 16, s / 2, 16) and values (.., d / 16, n / 2, 16), words "
      "of which fill tiles of 16.")
      .Relation(Rule<TileAttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount(PackedAttentionMacs))
      .Set(kCompute, FTECompute(TileAttentionCompute));
  OpenAttentionOp("nn.contrib_packing_attention", "Attention of dynamic sizes, which packs keys as it goes.")
      .Set(kCompute, FTECompute(PackingAttentionCompute));
}

OpRegistration OpenAttentionOp(const char* name, const char* text) {
  return AttentionOp(name, text)
      .Relation(Rule<AttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount([](const Attrs&, const Array<Type>& arguments, const Type& result) {
             return DimOf(arguments[1], -2) * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
           }))
      .Set(kFormForOneRow, FFormForOne([](const Attrs&, const Array<Type>& operands) {
             const Array<PrimExpr>& query = OutTensor(operands[0])->shape;
             return Array<PrimExpr>{query[query.size() - 2]};
           }));
}

}  // namespace treadle::ops::cpu
