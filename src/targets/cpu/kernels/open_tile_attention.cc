// SPDX-License-Identifier: Apache-2.0
// Attention in bfloat16 on AMX tile registers where only a run shows how many queries and keys there are: the products
// are those of tile_attention.cc, of tiles with as many rows, and as many words, as are there. Keys and values are
// packed first, all of a sample's once for all blocks of queries; keys that fill the last panels are masked. Operands
// of float32 are rounded as they are packed, so that a decoder's step, whose one query reads keys and values in place,
// finds them as its cache has them.
#include <algorithm>

#include "ops/infer.h"
#include "targets/cpu/kernels/attention_compute.h"
#include "targets/cpu/kernels/attention_parts.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/ops/size_forms.h"

namespace treadle::ops::cpu {
namespace {

using relay::Expr;
using relay::LaidOutCall;
using tir::floordiv;
using tir::floormod;

const DataType kHalf = DataType::BFloat(16);
constexpr const char *kName = "attention.packing_tiles", *kOp = "nn.contrib_packing_tile_attention";
constexpr int64_t kTile = tir::kTileRows, kHalves = 2 * kTile;  ///< rows of a tile; numbers of bfloat16 in one
constexpr int64_t kRows = 2 * kTile;                            ///< queries whose scores exist at a time

// ---- The computation ----

/// The operands of a run: queries in whole blocks, keys in whole tiles of words, words of a head, panels of values.
struct Sizes {
  PrimExpr queries, keys, key_words;
  int64_t s_words, d_panels;
  Sizes(const PrimExpr& m, const PrimExpr& n, int64_t s, int64_t d)
      : queries(DimMul(Parts(m, kRows), Dim(kRows))),
        keys(DimMul(Parts(n, kHalves), Dim(kHalves))),
        key_words(DimMul(Parts(n, kHalves), Dim(kTile))),
        s_words(RoundUp(CeilDiv(s, 2), kTile)),
        d_panels(CeilDiv(d, kLanes)) {}

 private:
  static PrimExpr Parts(const PrimExpr& count, int64_t size) {
    return DimFloorDiv(DimAdd(count, Dim(size - 1)), Dim(size));
  }
};

PrimExpr Half(const PrimExpr& e) { return e.dtype() == kHalf ? e : tir::pair_half(e); }

/// The last dimension as words of bfloat16, with zeros that fill `words`.
te::Tensor RowsOfWords(const te::Tensor& rows, int64_t words, const char* name, const char* role) {
  const size_t last = rows.ndim() - 1;
  const PrimExpr count = rows->shape[last], used = Words(count, kHalf);
  return te::ComputeStage(
      ReplaceLast(rows->shape, last, {Dim(words)}),
      [&](const Array<PrimExpr>& i) {
        PrimExpr word =
            WordOf(i[last], count, kHalf, [&](const PrimExpr& at) { return Half(rows(ReplaceLast(i, last, {at}))); });
        if (DimValue(used) == words) return word;
        return tir::if_then_else(i[last] < used, word, tir::make_zero(kWord));
      },
      name, StageAttrs(kName, role));
}

/// Keys (batch.., keys / 16, words of a head, 16), of rows of words.
te::Tensor PackKeys(const te::Tensor& rows, const Sizes& sizes) {
  const size_t batch = rows.ndim() - 2;
  const PrimExpr n = rows->shape[batch];
  return te::ComputeStage(
      ReplaceLast(rows->shape, batch, {DimFloorDiv(sizes.keys, Dim(kLanes)), Dim(sizes.s_words), Dim(kLanes)}),
      [&](const Array<PrimExpr>& i) {
        const PrimExpr key = i[batch] * Index(kLanes) + i[batch + 2];
        return tir::if_then_else(key < n, rows(ReplaceLast(i, batch, {key, i[batch + 1]})), tir::make_zero(kWord));
      },
      "attention_keys", StageAttrs(kName, "keys"));
}

/// Values (batch.., d / 16, words of keys, 16).
te::Tensor PackValues(const te::Tensor& value, const Sizes& sizes) {
  const size_t batch = value.ndim() - 2;
  const PrimExpr n = value->shape[batch], d = value->shape[batch + 1];
  const bool whole = DimValue(d) % kLanes == 0;
  return te::ComputeStage(
      ReplaceLast(value->shape, batch, {Dim(sizes.d_panels), sizes.key_words, Dim(kLanes)}),
      [&](const Array<PrimExpr>& i) {
        const PrimExpr column = i[batch] * Index(kLanes) + i[batch + 2];
        return MakeWord(kHalf, [&](int64_t e) {
          const PrimExpr key = i[batch + 1] * Index(2) + Index(e);
          const PrimExpr inside = whole ? key < n : tir::logical_and(key < n, column < d);
          return tir::if_then_else(inside, Half(value(ReplaceLast(i, batch, {key, column}))), tir::make_zero(kHalf));
        });
      },
      "attention_values", StageAttrs(kName, "values"));
}

Array<te::Tensor> OpenCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim(), batch = rank - 2;
  // For one query packing would take longer than the products do.
  if (tir::is_one(query->shape[batch])) return (*Op::Get("nn.attention").GetAttr(kCompute))(attrs, inputs, out_type);
  const auto& options = *attrs.as<AttentionAttrs>();
  const PrimExpr m = query->shape[batch], n = key->shape[batch], panel = Index(kLanes);
  const Sizes sizes(m, n, DimValue(query->shape[rank - 1]), DimValue(value->shape[rank - 1]));
  const te::Tensor queries = RowsOfWords(query, sizes.s_words, "attention_query", "query");
  const te::Tensor keys = PackKeys(RowsOfWords(key, sizes.s_words, "attention_key_words", "key_words"), sizes);
  const te::Tensor values = PackValues(value, sizes);
  /// A product of whole blocks of queries.
  auto sum = [&](const PrimExpr& columns, const PrimExpr& words, const te::Tensor& right, const char* role,
                 const auto& left) {
    const te::IterVar k = te::ReduceAxis(tir::Range(words), "k");
    return te::ComputeStage(
        ReplaceLast(query->shape, batch, {sizes.queries, columns}),
        [&](const Array<PrimExpr>& i) {
          const PrimExpr column = i[rank - 1];
          const PrimExpr word =
              right(ReplaceLast(i, batch, {floordiv(column, panel), k->var, floormod(column, panel)}));
          return te::Sum(WhereRow(i[batch] < m, tir::dot_pairs(left(i, PrimExpr(k->var)), word)), {k});
        },
        StrCat("attention_", role), StageAttrs(kName, role));
  };
  /// Those of queries that are there.
  auto present = [&](const te::Tensor& all, const PrimExpr& columns, const char* role) {
    return te::ComputeStage(
        ReplaceLast(query->shape, batch + 1, {columns}), [&](const Array<PrimExpr>& i) { return all(i); },
        StrCat("attention_", role), StageAttrs(kName, role));
  };
  const te::Tensor products =
      sum(sizes.keys, Dim(sizes.s_words), keys, "products",
          [&](const Array<PrimExpr>& i, const PrimExpr& k) { return queries(ReplaceLast(i, rank - 1, {k})); });
  const Array<PrimExpr> all = ReplaceLast(query->shape, rank - 1, {n});
  auto mask = [&](const Array<PrimExpr>& i) {
    return tir::if_then_else(i[rank - 1] < n, LoadBroadcast(inputs[3], i, all), tir::neg_infinity(products->dtype));
  };
  const SoftmaxStages softmax =
      SoftmaxOfScores(present(products, sizes.keys, "used_products"), mask, options, kName, false, tir::pair_half);
  const te::Tensor mixed = sum(
      Dim(sizes.d_panels * kLanes), sizes.key_words, values, "mixed", [&](const Array<PrimExpr>& i, const PrimExpr& k) {
        auto at = [&](int64_t e) { return softmax.exp(ReplaceLast(i, rank - 1, {k * Index(2) + Index(e)})); };
        return tir::pack_pair(at(0), at(1));
      });
  const te::Tensor used = present(mixed, value->shape[rank - 1], "used");
  const Problem problem = Make<Problem, AttentionProblemNode>([&](auto& p) {
    SetAttentionSizes(query->shape, key->shape, value->shape, &p);
    p.dtype = kHalf;
  });
  return {DivideBySums(used, softmax.sum, options, AnchorAttrs(kName, "output", problem))};
}

// ---- The schedule ----

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<AttentionProblemNode>();
  if (machine.pair_tile_cycles == 0) return "no tile registers";
  if (p.dtype != kHalf) return StrCat("operands are ", p.dtype, ", not ", kHalf);
  if (p.not_packed != kDynamic) return p.not_packed.empty() ? "sizes are known" : p.not_packed;
  if (p.m >= 0 && p.n >= 0) return "numbers of queries and keys are known";
  return p.s <= 0 || p.d <= 0 ? "sizes of queries or values are dynamic" : "";
}

/// Keys and values, by panels.
void SchedulePacking(Schedule& sch, const Stages& stages, size_t batch) {
  auto parallel = [&](const BlockRV& block, std::vector<LoopRV> loops) {
    loops.resize(batch + 1);
    FuseParallel(sch, loops, Work(sch, block));
  };
  const BlockRV keys = stages.At("keys"), values = stages.At("values");
  const std::vector<LoopRV> key_loops = sch.GetLoops(keys), value_loops = sch.GetLoops(values);
  const Nest words = At(sch, stages.At("key_words"), key_loops[batch]);
  VectorizeLast(sch, words.axes.back());
  TransposeTile(sch, key_loops[batch + 1], key_loops[batch + 2]);
  parallel(keys, key_loops);
  VectorizeLast(sch, value_loops.back());
  parallel(values, value_loops);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan&) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const Sizes sizes(Dim(p.m), Dim(p.n), p.s, p.d);
  const std::vector<LoopRV> out = sch.GetLoops(stages.anchor());  // batch.., m, d
  const size_t rank = out.size(), batch = rank - 2;
  const double work = Work(sch, stages.At("products")) + Work(sch, stages.At("mixed"));
  SchedulePacking(sch, stages, batch);
  sch.ComputeInline(stages.At("used"));
  const std::vector<LoopRV> m = sch.Split(out[rank - 2], {kRest, PrimExpr(kRows)});
  const LoopRV& block = m[0];
  VectorizeLast(sch, out[rank - 1]);
  ScheduleTiles(sch, stages.At("mixed"), block, TileProductIntrin(kHalf, kHalf, kRows, sizes.d_panels, -1, true));
  ScheduleTileSoftmax(sch, stages, block);
  for (const char* role : {"scores", "used_products"}) sch.ComputeInline(stages.At(role));
  ScheduleTiles(sch, stages.At("products"), block, TileProductIntrin(kHalf, kWord, kRows, -1, sizes.s_words, true));
  VectorizeLast(sch, At(sch, stages.At("query"), block).axes.back());
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(block);
  FuseParallel(sch, outer, work);
}

// ---- The graph ----

/// What is rounded here; nothing of other expressions.
Expr Rounded(const Expr& e) {
  const bool rounds = relay::IsCallOf(e, Op::Get("nn.contrib_pair_cast")) || relay::IsCallOf(e, Op::Get("cast"));
  return rounds ? e.as<relay::CallNode>()->args[0] : Expr();
}

/// The float32 that all three operands were rounded from; else the operands.
std::vector<Expr> Operands(const LayoutRequest& request) {
  std::vector<Expr> operands, wide;
  for (size_t i = 0; i < 3; ++i) {
    operands.push_back(request.args.Plain(i));
    const Expr typed = Rounded(request.call->args[i]), from = Rounded(operands.back());
    if (!typed.defined() || !from.defined()) continue;
    const auto* type = typed->type_as<TensorTypeNode>();
    if (type != nullptr && type->dtype == DataType::Float(32)) wide.push_back(from);
  }
  return wide.size() == operands.size() ? wide : operands;
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem&, const Plan&) {
  const std::vector<Expr> operands = Operands(request);
  return LaidOutCall{CallOp(kOp, {operands[0], operands[1], operands[2], request.args.Plain(3)}, request.call->attrs,
                            request.call->span),
                     {}};
}

}  // namespace

void RegisterOpenTileAttention() {
  OpenAttentionOp(
      kOp, "Attention of dynamic sizes in bfloat16, which packs keys and values; operands of float32 are rounded.")
      .Set(kCompute, FTECompute(OpenCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = "nn.attention";
  kernel.target = "cpu";
  kernel.why_not = WhyNot;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(kernel);
}

}  // namespace treadle::ops::cpu
