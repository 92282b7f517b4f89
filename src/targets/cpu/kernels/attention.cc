// SPDX-License-Identifier: Apache-2.0
// Attention: for a block of queries, scores of all keys, their softmax and its product with the values, all in cache.
// With packed keys and values both products are register tiles; else a query at a time reads them as they are (a
// decoder's step, bound by memory). Of bfloat16, products are of words of two neighbours (treadle/tir/pair_ops.h), sums
// and the softmax of float32; its results are rounded before they meet the values.
#include "ops/attention.h"

#include <algorithm>
#include <limits>

#include "ops/macs.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/rooms.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {
namespace {

using relay::Expr;
using relay::LaidOutCall;
using tir::floordiv;
using tir::floormod;

constexpr const char *kName = "attention.packed", *kPairs = "attention.pairs", *kPacking = "attention.packing";
/// AttentionProblemNode::not_packed of operands that only "attention.packing" takes.
constexpr const char* kDynamic = "sizes are dynamic";
const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);
constexpr int64_t kLanes = kPackedColumns;

// ---- The computation ----

/// query (batch.., m, s), key (batch.., nb, s, 16), value (batch.., db, n, 16), mask (..., 16 nb), -inf where there is
/// no key: (batch.., m, 16 db). Keys and values have words, half of s and of n, for queries of bfloat16.
Type PackedAttentionInfer(const InferContext& context) {
  const auto *query = context.Tensor(0, "query"), *key = context.Tensor(1, "key"), *value = context.Tensor(2, "value");
  context.attrs<AttentionAttrs>();
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
  CheckAttentionMask(context, query, DimMul(key->shape[rank - 2], Dim(kPackedColumns)));
  Array<PrimExpr> out = query->shape;
  out.Set(rank - 1, DimMul(value->shape[rank - 2], Dim(kPackedColumns)));
  return TensorType(out, kSum);
}

/// The product of dimensions; -1 where one is dynamic.
int64_t BatchOf(const Array<PrimExpr>& shape) {
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i)
    batch = batch < 0 || DimValue(shape[i]) < 0 ? -1 : batch * DimValue(shape[i]);
  return batch;
}

/// Of operands as they are: dynamic sizes are -1.
void SetSizes(const Array<PrimExpr>& query, const Array<PrimExpr>& key, const Array<PrimExpr>& value,
              AttentionProblemNode* p) {
  const size_t rank = query.size();
  p->batch = BatchOf(query);
  p->m = DimValue(query[rank - 2]);
  p->s = DimValue(query[rank - 1]);
  p->n = DimValue(key[rank - 2]);
  p->d = DimValue(value[rank - 1]);
}

Problem PackingProblem(const Array<te::Tensor>& inputs) {
  return Make<Problem, AttentionProblemNode>([&](auto& p) {
    SetSizes(inputs[0]->shape, inputs[1]->shape, inputs[2]->shape, &p);
    p.dtype = inputs[0]->dtype;
  });
}

Problem PackedProblem(const Array<te::Tensor>& inputs) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim();
  return Make<Problem, AttentionProblemNode>([&](auto& p) {
    for (size_t i = 0; i + 2 < rank; ++i) p.batch *= DimValue(query->shape[i]);
    p.m = DimValue(query->shape[rank - 2]);
    p.s = DimValue(query->shape[rank - 1]);
    p.n = DimValue(key->shape[rank - 2]) * kPackedColumns;
    p.d = DimValue(value->shape[rank - 2]) * kPackedColumns;
    p.dtype = query->dtype;
    p.n_block = kPackedColumns;
  });
}

Array<te::Tensor> PackedAttentionCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim(), batch = rank - 2;
  const bool pairs = query->dtype == kHalf;
  const char* kernel = pairs ? kPairs : kName;
  const PrimExpr block = Index(kPackedColumns);
  /// The product of element (or word) `k` of a row of `left` and of a column of `right`.
  auto term = [&](const te::Tensor& left, const te::Tensor& right, const Array<PrimExpr>& i, const PrimExpr& k) {
    const PrimExpr column = i[rank - 1];
    const PrimExpr packed = right(ReplaceLast(i, batch, {floordiv(column, block), k, floormod(column, block)}));
    auto element = [&](const PrimExpr& at) { return left(ReplaceLast(i, rank - 1, {at})); };
    if (!pairs) return element(k) * packed;
    const PrimExpr first = k * Index(2);
    return tir::dot_pairs(tir::pack_pair(element(first), element(first + Index(1))), packed);
  };
  te::IterVar s = te::ReduceAxis(tir::Range(key->shape[rank - 1]), "s");
  Array<PrimExpr> shape = query->shape;
  shape.Set(rank - 1, DimMul(key->shape[batch], Dim(kPackedColumns)));
  te::Tensor products = te::ComputeStage(
      shape, [&](const Array<PrimExpr>& i) { return te::Sum(term(query, key, i, s->var), {s}); }, "attention_products",
      StageAttrs(kernel, "products"));
  auto mix = [&](const te::Tensor& weights) {
    te::Tensor left = weights;
    if (pairs) {
      left = te::ComputeStage(
          shape, [&](const Array<PrimExpr>& i) { return tir::cast(kHalf, weights(i)); }, "attention_rounded",
          StageAttrs(kernel, "rounded"));
    }
    te::IterVar n = te::ReduceAxis(tir::Range(value->shape[rank - 1]), "n");
    return te::ComputeStage(
        OutTensor(out_type)->shape,
        [&](const Array<PrimExpr>& i) { return te::Sum(term(left, value, i, n->var), {n}); }, "attention_mixed",
        StageAttrs(kernel, "mixed"));
  };
  auto mask = [&](const Array<PrimExpr>& i) { return LoadBroadcast(inputs[3], i, shape); };
  return {FinishAttention(products, mask, *attrs.as<AttentionAttrs>(), kernel,
                          AnchorAttrs(kernel, "output", PackedProblem(inputs)), mix)};
}

/// Of dynamic sizes: query (batch.., m, s), key (batch.., n, s), value (batch.., n, d), mask (..., n). Keys are packed
/// for each block of queries; what is beyond them in the last panel is masked.
Array<te::Tensor> PackingAttentionCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor &query = inputs[0], &key = inputs[1], &value = inputs[2];
  const size_t rank = query.ndim(), batch = rank - 2;
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
      "attention_keys", StageAttrs(kPacking, "keys"));
  te::IterVar s = te::ReduceAxis(tir::Range(key->shape[rank - 1]), "s");
  const Array<PrimExpr> shape = ReplaceLast(query->shape, rank - 1, {DimMul(panels, block)});
  te::Tensor products = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        const PrimExpr column = i[rank - 1];
        const PrimExpr k = packed(ReplaceLast(i, batch, {floordiv(column, block), s->var, floormod(column, block)}));
        return te::Sum(query(ReplaceLast(i, rank - 1, {s->var})) * k, {s});
      },
      "attention_products", StageAttrs(kPacking, "products"));
  auto mask = [&](const Array<PrimExpr>& i) {
    const Array<PrimExpr> scores = ReplaceLast(shape, rank - 1, {n});
    return tir::if_then_else(i[rank - 1] < n, LoadBroadcast(inputs[3], i, scores), tir::neg_infinity(dtype));
  };
  auto mix = [&](const te::Tensor& weights) {
    te::IterVar k = te::ReduceAxis(tir::Range(n), "n");
    return te::ComputeStage(
        OutTensor(out_type)->shape,
        [&](const Array<PrimExpr>& i) {
          return te::Sum(
              weights(ReplaceLast(i, rank - 1, {k->var})) * value(ReplaceLast(i, batch, {k->var, i[rank - 1]})), {k});
        },
        "attention_mixed", StageAttrs(kPacking, "mixed"));
  };
  return {FinishAttention(products, mask, *attrs.as<AttentionAttrs>(), kPacking,
                          AnchorAttrs(kPacking, "output", PackingProblem(inputs)), mix)};
}

double PackedAttentionMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  double keys = DimOf(arguments[1], -3) * kPackedColumns;
  return keys * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
}

// ---- Plans ----

class AttentionPlanNode : public PlanNode {
 public:
  int64_t m_block = 1, tile_m = 1;
  TREADLE_NODE(AttentionPlanNode, PlanNode, "schedule.AttentionPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("m_block", &AttentionPlanNode::m_block).Doc("queries whose scores exist at a time");
    r.Field("tile_m", &AttentionPlanNode::tile_m).Doc("register tile: rows; divides m_block");
  }
};

/// Rows are padded to tiles, at most so many in each.
int64_t PaddedTile(int64_t rows) {
  int64_t best = 6;
  for (int64_t t : {5, 4}) {
    if ((rows + t - 1) / t * t < (rows + best - 1) / best * best) best = t;
  }
  return best;
}

/// Rows that are computed: as long as they aren't packed, with those that will fill the last tile.
int64_t RowsOf(const AttentionProblemNode& p) {
  if (p.m < 0) return kSymbolicWidth;
  if (p.n_block != 0) return p.m;
  const int64_t tile = PaddedTile(p.m);
  return (p.m + tile - 1) / tile * tile;
}

/// Rows of a query block: whole tiles, so many that scores stay in half of the second-level cache and threads have
/// enough to share.
int64_t QueryBlock(int64_t rows, int64_t tile, int64_t keys, const Machine& machine) {
  const int64_t most = std::max(tile, machine.l2_bytes / 4 / (keys * 8));
  int64_t best = tile;
  for (int64_t r = tile; r <= std::min(rows, most); r += tile) {
    if (rows % r == 0) best = r;
  }
  return best;
}

int64_t TileRows(int64_t rows, const Machine& machine) {
  int64_t registers = std::max<int64_t>(1, kLanes / std::max(1, machine.vector_lanes(32)));
  int64_t widest = std::max<int64_t>(1, (machine.vector_registers - 4) / registers);
  int64_t best = 1;
  for (int64_t t = 1; t <= std::min<int64_t>(widest, 14); ++t) {
    if (rows % t == 0) best = t;
  }
  return best;
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const int64_t rows = RowsOf(p);
  std::vector<Plan> plans;
  // The widest tile first; narrower ones for blocks of other sizes.
  const int64_t best = TileRows(rows, machine);
  auto add = [&](int64_t tile, int64_t block) {
    plans.push_back(Make<Plan, AttentionPlanNode>([&](auto& plan) {
      plan.tile_m = tile;
      plan.m_block = block;
    }));
  };
  for (int64_t tile = best; tile >= 1; --tile) {
    if (rows % tile != 0) continue;
    const int64_t most = QueryBlock(rows, tile, p.n, machine);
    for (int64_t block = most; block >= std::max<int64_t>(2, tile); block -= tile) {
      if (rows % block == 0) add(tile, block);
    }
  }
  return plans;
}

/// Blocks of whole tiles, the last of them incomplete: as few as scores of a usual number of keys allow.
std::vector<Plan> PackingSpace(const Problem& problem, const Machine& machine) {
  constexpr int64_t kUsualKeys = 512;
  const auto& p = *problem.as<AttentionProblemNode>();
  const int64_t keys = p.n > 0 ? p.n : kUsualKeys, tile = TileRows(kSymbolicWidth, machine);
  const int64_t most = std::max<int64_t>(2, machine.l2_bytes / 2 / (keys * 8 * tile));
  const int64_t tiles = p.m < 0 ? most : (p.m + tile - 1) / tile, blocks = (tiles + most - 1) / most;
  std::vector<Plan> plans;
  for (int64_t count = (tiles + blocks - 1) / blocks; count >= 1; count /= 2) {
    plans.push_back(Make<Plan, AttentionPlanNode>([&](auto& plan) {
      plan.tile_m = tile;
      plan.m_block = std::max<int64_t>(2, count * tile);
    }));
  }
  return plans;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<AttentionPlanNode>();
  const int64_t m = RowsOf(p), n = std::max<int64_t>(1, p.n), lanes = machine.vector_lanes(32);
  const auto panels_n = static_cast<double>((n + kLanes - 1) / kLanes);
  const auto panels_d = static_cast<double>((p.d + kLanes - 1) / kLanes);
  const double registers = static_cast<double>(plan.tile_m * kLanes) / static_cast<double>(std::max<int64_t>(1, lanes));
  const double tile = fitted.attention_tile + fitted.attention_store * registers,
               step = TileCycles({plan.tile_m, 1}, plan.tile_m, kLanes, machine);
  const double tiles = static_cast<double>(m) / static_cast<double>(plan.tile_m);
  const double each = p.dtype == kHalf ? 2 : 1;  // numbers of a word
  const double products = tiles * (panels_n * (static_cast<double>(p.s) / each * step + tile) +
                                   panels_d * (static_cast<double>(n) / each * step + tile));
  const double scores = static_cast<double>(m) * panels_n * kLanes;
  const double softmax =
      scores / static_cast<double>(std::max<int64_t>(1, lanes)) * fitted.attention_softmax * machine.fma_cycles;
  // Scores are written and read three times over; keys and values pass once for each block of queries.
  const bool near = plan.m_block * n * 8 <= machine.l2_bytes / 2;
  const double score_bytes = 6 * 4 * scores * (near ? machine.l2_cycles_per_byte : machine.beyond_l2_cycles_per_byte);
  const double blocks = static_cast<double>(m) / static_cast<double>(plan.m_block);
  const double operands = 4 / each * static_cast<double>(n) * static_cast<double>(p.s + p.d);
  const double passes = operands * blocks *
                        (operands <= static_cast<double>(machine.l2_bytes) / 2 ? machine.l2_cycles_per_byte
                                                                               : machine.beyond_l2_cycles_per_byte);
  const int64_t batch = std::max<int64_t>(1, p.batch);
  const double alone = static_cast<double>(batch) * (products + softmax + score_bytes + passes);
  const int64_t threads = ModelledThreads(machine);
  return alone * (1 + LoadImbalance(std::max<int64_t>(1, m / plan.m_block), 1, batch, 1, threads)) / 2;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<AttentionPlanNode>();
  if (plan.tile_m < 1 || plan.tile_m > kMaxTileWidth) return StrCat("tiles of ", plan.tile_m, " rows");
  const bool divides = plan.m_block > 1 && plan.m_block % plan.tile_m == 0 && RowsOf(p) % plan.m_block == 0;
  return divides ? "" : StrCat("blocks of ", plan.m_block, " queries, of ", RowsOf(p));
}

std::string WhyNotPackingPlan(const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<AttentionPlanNode>();
  if (plan.tile_m < 1 || plan.tile_m > kMaxTileWidth) return StrCat("tiles of ", plan.tile_m, " rows");
  const bool tiles = plan.m_block > 1 && plan.m_block % plan.tile_m == 0;
  return tiles ? "" : StrCat("blocks of ", plan.m_block, " queries aren't whole tiles");
}

// ---- The schedule ----

/// The block's loops under `under`: its axes, outermost first; some may be missing.
struct Nest {
  BlockRV block;
  std::vector<LoopRV> axes;
};

Nest At(Schedule& sch, const BlockRV& block, const LoopRV& loop) {
  sch.ComputeAt(block, loop);
  return {block, LoopsUnder(sch, block, loop)};
}

/// The last axis as vectors, where it divides; dynamic ones consist of panels.
void VectorizeLast(Schedule& sch, const LoopRV& last) {
  if (!last.defined()) return;
  const int64_t extent = Extent(sch, last);
  int lanes = extent < 0 ? static_cast<int>(kLanes) : VectorLanes(extent);
  if (lanes == 0) return;
  sch.Vectorize(Extent(sch, last) == lanes ? last : sch.Split(last, {kRest, PrimExpr(int64_t{lanes})})[1]);
}

/// A maximum or sum per row: lanes first, where there are such.
void ScheduleRowReduction(Schedule& sch, const Stages& stages, const std::string& role, const LoopRV& loop) {
  At(sch, stages.At(role), loop);
  if (!stages.Has(role + "_lanes")) return;
  const Nest lanes = At(sch, stages.At(role + "_lanes"), loop);
  size_t n = lanes.axes.size();
  LoopRV lane = lanes.axes[n - 2], k = lanes.axes[n - 1];
  if (!k.defined()) return sch.Vectorize(lane);
  sch.Reorder({k, lane});
  BlockRV init = sch.DecomposeReduction(lanes.block, k);
  sch.Vectorize(lane);
  sch.Vectorize(sch.GetLoops(init).back());
}

/// A product with a packed operand: tiles of `tile` rows and 16 columns, panels of columns outside.
void ScheduleProduct(Schedule& sch, const BlockRV& product, const LoopRV& rows, const LoopRV& columns, int64_t tile) {
  std::vector<LoopRV> r = sch.Split(rows, {kRest, PrimExpr(tile)});
  std::vector<LoopRV> c = sch.Split(columns, {kRest, PrimExpr(kLanes)});
  sch.Reorder({c[0], r[0], r[1], c[1]});
  const int rank = static_cast<int>(sch.Get(product)->writes[0]->buffer->shape.size());
  ComputeTile(sch, product, r[0], {rank - 2}, rank - 1);
  sch.SetScope(product, 0, "local");
  sch.Vectorize(c[1]);
  sch.Unroll(r[1]);
}

void ApplyPacked(Schedule& sch, Stages& stages, const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<AttentionPlanNode>();
  BlockRV output = stages.anchor();
  std::vector<LoopRV> out = sch.GetLoops(output);  // batch.., m, d
  const size_t rank = out.size();
  const double work = Work(sch, stages.At("products")) + Work(sch, stages.At("mixed"));
  const int64_t tile = plan.tile_m;
  std::vector<LoopRV> m = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.m_block)});
  const LoopRV block = m[0];
  ScheduleProduct(sch, stages.At("mixed"), m[1], out[rank - 1], tile);
  if (stages.Has("rounded")) VectorizeLast(sch, At(sch, stages.At("rounded"), block).axes.back());
  ScheduleRowReduction(sch, stages, "sum", block);
  VectorizeLast(sch, At(sch, stages.At("exp"), block).axes.back());
  ScheduleRowReduction(sch, stages, "max", block);
  const Nest scores = At(sch, stages.At("scores"), block);
  ScheduleProduct(sch, stages.At("products"), scores.axes[rank - 2], scores.axes[rank - 1], tile);
  if (stages.Has("keys")) {
    const Nest keys = At(sch, stages.At("keys"), block);  // batch.., n / 16, s, 16
    if (keys.axes[rank - 1].defined()) TransposeTile(sch, keys.axes[rank - 1], keys.axes[rank]);
  }
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(block);
  FuseParallel(sch, outer, work);
}

void ApplyPlain(Schedule& sch, Stages& stages, const Problem&, const Machine&, const Plan&) {
  std::vector<LoopRV> out = sch.GetLoops(stages.anchor());  // batch.., m, d
  const size_t rank = out.size();
  const LoopRV query = out[rank - 2];
  const double work = 2 * Work(sch, stages.At("mixed"));
  VectorizeLast(sch, out[rank - 1]);
  // Neighbouring results of a row of values; all of them stay in registers.
  const Nest mixed = At(sch, stages.At("mixed"), query);
  LoopRV d = mixed.axes[rank - 1], n = mixed.axes[rank];
  if (n.defined() && d.defined()) {
    sch.Reorder({n, d});
    sch.SetScope(mixed.block, 0, "local");
    const int lanes = VectorLanes(Extent(sch, d));
    BlockRV init = sch.DecomposeReduction(mixed.block, n);
    VectorizeLast(sch, sch.GetLoops(init).back());
    if (lanes != 0 && Extent(sch, d) > lanes) {
      std::vector<LoopRV> parts = sch.Split(d, {kRest, PrimExpr(int64_t{lanes})});
      if (Extent(sch, parts[0]) <= 8) sch.Unroll(parts[0]);
      sch.Vectorize(parts[1]);
    } else {
      VectorizeLast(sch, d);
    }
  }
  ScheduleRowReduction(sch, stages, "sum", query);
  VectorizeLast(sch, At(sch, stages.At("exp"), query).axes.back());
  ScheduleRowReduction(sch, stages, "max", query);
  LoopRV key = At(sch, stages.At("scores"), query).axes[rank - 1];
  const LoopRV under = key.defined() ? key : query;
  At(sch, stages.At("products"), under);
  sch.SetScope(stages.At("products"), 0, "local");
  const Nest dots = At(sch, stages.At("dots"), under);
  sch.SetScope(dots.block, 0, "local");
  LoopRV lane = dots.axes[rank], s = dots.axes[rank + 1];
  if (lane.defined() && s.defined()) {
    sch.Reorder({s, lane});
    BlockRV init = sch.DecomposeReduction(dots.block, s);
    sch.Vectorize(lane);
    sch.Vectorize(sch.GetLoops(init).back());
  } else if (lane.defined()) {
    sch.Vectorize(lane);
  }
  FuseParallel(sch, std::vector<LoopRV>(out.begin(), out.end() - 1), work);
}

// ---- The graph ----

/// Of operands of `dtype`.
std::string WhyNotOf(const Problem& problem, DataType dtype) {
  // With some rows packing keys and values takes less time than it saves.
  constexpr int64_t kMinRows = 4;
  const auto& p = *problem.as<AttentionProblemNode>();
  if (!p.not_packed.empty()) return p.not_packed;
  if (p.dtype != dtype) return StrCat("operands are ", p.dtype, ", not ", dtype);
  if (dtype == kHalf && p.s % 2 != 0) return "words would be part of two rows";
  return p.m < kMinRows ? StrCat("fewer than ", kMinRows, " queries") : "";
}
std::string WhyNot(const Problem& problem, const Machine&) { return WhyNotOf(problem, kSum); }
std::string WhyNotPairs(const Problem& problem, const Machine&) { return WhyNotOf(problem, kHalf); }
std::string WhyNotPacking(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<AttentionProblemNode>();
  if (p.not_packed != kDynamic) return p.not_packed.empty() ? "sizes are known" : p.not_packed;
  if (p.dtype != kSum) return StrCat("operands are ", p.dtype, ", not ", kSum);
  if (p.s <= 0 || p.d <= 0) return "sizes of queries or values are dynamic";
  return p.d % kLanes == 0 ? "" : StrCat("values of ", p.d, " don't fill vectors");
}

std::optional<LaidOutCall> RewritePacking(const LayoutRequest& request, const Problem&, const Plan&) {
  relay::LayoutArgs& args = request.args;
  return LaidOutCall{
      CallOp("nn.contrib_packing_attention", {args.Plain(0), args.Plain(1), args.Plain(2), args.Plain(3)},
             request.call->attrs, request.call->span),
      {}};
}

Expr PadDim(const Expr& data, size_t rank, size_t dim, int64_t missing, double value, DataType dtype = kSum) {
  if (missing == 0) return data;
  std::vector<std::pair<int64_t, int64_t>> widths(rank, {0, 0});
  widths[dim] = {0, missing};
  return MakePad(data, widths, ScalarConstant(dtype, value));
}

/// Keys (k_first: values), packed.
Expr PackOperand(const Expr& operand, const TensorTypeNode* type, bool k_first) {
  if (type->dtype != kHalf) return PackColumns(operand, type, k_first);
  return CallWith<MatmulAttrs>("nn.contrib_pack_pairs", {operand}, [&](auto& a) { a.transpose_b = !k_first; });
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem&, const Plan&) {
  const auto *query = request.args.Type(0), *key = request.args.Type(1), *value = request.args.Type(2),
             *mask = request.args.Type(3);
  size_t rank = query->shape.size(), masked = mask->shape.size();
  int64_t rows = DimValue(query->shape[rank - 2]), keys = DimValue(key->shape[rank - 2]);
  int64_t size = DimValue(value->shape[rank - 1]);
  const int64_t tile = PaddedTile(rows), rows_missing = (tile - rows % tile) % tile;
  const int64_t keys_missing = (kPackedColumns - keys % kPackedColumns) % kPackedColumns;
  Expr mask_arg = request.args.Plain(3);
  if (rows_missing != 0 && masked >= 2 && DimValue(mask->shape[masked - 2]) == rows) {
    mask_arg = PadDim(mask_arg, masked, masked - 2, rows_missing, 0);
  }
  mask_arg = PadDim(mask_arg, masked, masked - 1, keys_missing, -std::numeric_limits<double>::infinity());
  Expr result = CallOp(
      "nn.contrib_packed_attention",
      {PadDim(request.args.Plain(0), rank, rank - 2, rows_missing, 0, query->dtype),
       PackOperand(request.args.Plain(1), key, false), PackOperand(request.args.Plain(2), value, true), mask_arg},
      request.call->attrs, request.call->span);
  if (rows_missing != 0 || size % kPackedColumns != 0) {
    std::vector<int64_t> begin(rank, 0), end;
    for (const PrimExpr& dim : query->shape) end.push_back(DimValue(dim));
    end.back() = size;
    result = MakeStridedSlice(result, begin, end);
  }
  return LaidOutCall{result, {}};
}

}  // namespace

Problem AttentionProblem(const relay::CallNode*, const relay::LayoutArgs& args) {
  constexpr size_t kMaxRank = 8;
  return Make<Problem, AttentionProblemNode>([&](auto& p) {
    for (size_t i = 0; i < 4; ++i) {
      const auto* type = args.Type(i);
      if (type == nullptr) {
        p.not_packed = "an operand isn't a tensor";
      } else if (type->shape.size() > kMaxRank) {
        p.not_packed = StrCat("more than ", kMaxRank, " dimensions");
      } else if (!IsStatic(type)) {
        if (p.not_packed.empty()) p.not_packed = kDynamic;
      } else if (NumElements(StaticShape(type, "attention")) == 0) {
        p.not_packed = "there are no elements";
      }
      if (!p.not_packed.empty() && p.not_packed != kDynamic) return;
    }
    SetSizes(args.Type(0)->shape, args.Type(1)->shape, args.Type(2)->shape, &p);
    p.dtype = args.Type(0)->dtype;
  });
}

void RegisterAttention() {
  AttentionOp("nn.contrib_packed_attention",
              "Attention with packed keys (.., n / 16, s, 16) and values (.., d / 16, n, 16).")
      .Relation(Rule<PackedAttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount(PackedAttentionMacs))
      .Set(kCompute, FTECompute(PackedAttentionCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = "nn.attention";
  kernel.target = "cpu";
  kernel.plan_type = AttentionPlanNode::StaticTypeInfo();
  kernel.why_not = WhyNot;
  kernel.least_gain = 0.95;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = ApplyPacked;
  schedule::RegisterKernel(kernel);
  kernel.name = kPairs;
  kernel.why_not = WhyNotPairs;
  schedule::RegisterKernel(kernel);
  AttentionOp("nn.contrib_packing_attention", "Attention of dynamic sizes, which packs keys as it goes.")
      .Relation(Rule<AttentionInfer>)
      .Set(relay::kMacCount, relay::FMacCount([](const Attrs&, const Array<Type>& arguments, const Type& result) {
             return DimOf(arguments[1], -2) * (Elements(ShapeOf(arguments[0])) + Elements(ShapeOf(result)));
           }))
      .Set(kCompute, FTECompute(PackingAttentionCompute));
  kernel.name = kPacking;
  kernel.why_not = WhyNotPacking;
  kernel.space = PackingSpace;
  kernel.why_not_plan = WhyNotPackingPlan;
  kernel.rewrite = RewritePacking;
  schedule::RegisterKernel(kernel);
  Kernel plain;
  plain.name = "attention.plain";
  plain.op = "nn.attention";
  plain.target = "cpu";
  plain.level = schedule::kPlainLevel;
  plain.apply = ApplyPlain;
  schedule::RegisterKernel(std::move(plain));
}

}  // namespace treadle::ops::cpu
