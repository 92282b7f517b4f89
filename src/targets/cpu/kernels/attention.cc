// SPDX-License-Identifier: Apache-2.0
// nn.attention, scaled dot-product attention: softmax(scale * Q K^T + mask) V. The scores of a block of queries, their
// softmax and its product with the values stay in cache; the matrix of all scores never exists.
//
// query (batch.., m, s), key (batch.., n, s), value (batch.., n, d) of float32 or bfloat16, mask (.., n) broadcast;
// result (batch.., m, d) float32. With packed keys and values both products are computed in register tiles. Otherwise
// (sizes of a decoder's step are dynamic, and its time is that of reading keys and values) one query at a time reads
// them in place. Operands of bfloat16 are multiplied as words of two neighbours (treadle/tir/pair_ops.h) with sums and
// softmax in float32; the exponentials are rounded to bfloat16 before they are summed and multiplied by the values.
#include <algorithm>
#include <limits>

#include "ops/infer.h"
#include "targets/cpu/kernels/attention_compute.h"
#include "targets/cpu/kernels/attention_parts.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {
namespace {

using relay::Expr;
using relay::LaidOutCall;

const DataType kHalf = DataType::BFloat(16), kSum = DataType::Float(32);
constexpr int64_t kMostPanels = 4;  ///< of a register tile

// ---- Plans ----

class AttentionPlanNode : public PlanNode {
 public:
  int64_t m_block = 1, tile_m = 1, tile_n = 1, key_block = 0;
  TREADLE_NODE(AttentionPlanNode, PlanNode, "schedule.AttentionPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("m_block", &AttentionPlanNode::m_block).Doc("queries whose scores exist at a time");
    r.Field("tile_m", &AttentionPlanNode::tile_m).Doc("register tile: rows; divides m_block");
    r.Field("tile_n", &AttentionPlanNode::tile_n)
        .Doc("register tile: panels of 16 columns, in each product that has whole tiles of them");
    r.Field("key_block", &AttentionPlanNode::key_block)
        .Doc("keys whose softmax is taken at a time; a multiple of 16, of which the last block's are masked; 0: all");
  }
};

/// Rows that are computed: as long as they aren't packed, with those that will fill the last block.
int64_t RowsOf(const AttentionProblemNode& p, const AttentionPlanNode& plan) {
  if (p.m < 0) return kSymbolicWidth;
  return p.n_block != 0 ? p.m : RoundUp(p.m, plan.m_block);
}

/// Keys that are computed, those that fill the last block with them.
int64_t KeysOf(const AttentionProblemNode& p, const AttentionPlanNode& plan) {
  const int64_t unit = plan.key_block != 0 ? plan.key_block : kLanes;
  return RoundUp(std::max<int64_t>(1, p.n), unit);
}

/// Panels of a register tile of a product that has `panels` of them; dynamic: -1.
int64_t PanelsOfTile(const AttentionPlanNode& plan, int64_t panels) {
  return panels > 0 && panels % plan.tile_n == 0 ? plan.tile_n : 1;
}

/// The most rows of a register tile of 16 columns.
int64_t WidestTile(const Machine& machine) {
  const int64_t registers = std::max<int64_t>(1, kLanes / std::max(1, machine.vector_lanes(32)));
  const int64_t widest = std::max<int64_t>(1, (machine.vector_registers - 4) / registers);
  return std::min(widest, kMaxTileWidth);
}

/// Blocks of keys: all, or as many as make a softmax worth while.
std::vector<int64_t> KeyBlocksOf(const AttentionProblemNode& p) {
  if (p.n_block != 0) return {p.key_block};
  std::vector<int64_t> blocks{0};
  const int64_t panels = CeilDiv(p.n, kLanes);
  for (const int64_t most : {32, 16, 8}) {
    const int64_t size = CeilDiv(panels, CeilDiv(panels, most));
    if (size < panels && size * kLanes != blocks.back()) blocks.push_back(size * kLanes);
  }
  return blocks;
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  constexpr int64_t kMostRows = 256, kLeastTile = 4;
  const auto& p = *problem.as<AttentionProblemNode>();
  const int64_t rows = p.m, widest = WidestTile(machine);
  std::vector<Plan> plans;
  for (const int64_t key_block : KeyBlocksOf(p)) {
    for (int64_t tile = std::min(widest, std::max<int64_t>(2, rows)); tile >= 1; --tile) {
      const bool packed = p.n_block != 0;
      if (packed ? rows % tile != 0 : tile < std::min({kLeastTile, rows, widest})) continue;
      const int64_t tiles = CeilDiv(rows, tile);
      for (const int64_t count : PartsOf(tiles, std::max<int64_t>(1, kMostRows / tile))) {
        if (count * tile < 2 || (packed && tiles % count != 0)) continue;
        for (int64_t panels = 1; panels <= kMostPanels; ++panels) {
          if (panels > 1 && (CeilDiv(p.d, kLanes) % panels != 0 || !FitsRegisters({tile, panels}, kLanes, machine)))
            continue;
          plans.push_back(Make<Plan, AttentionPlanNode>([&](auto& plan) {
            plan.tile_m = tile;
            plan.tile_n = panels;
            plan.m_block = count * tile;
            plan.key_block = key_block;
          }));
        }
      }
    }
  }
  return plans;
}

/// Blocks of whole tiles, the last of them incomplete: as few as scores of a usual number of keys allow.
std::vector<Plan> PackingSpace(const Problem& problem, const Machine& machine) {
  constexpr int64_t kUsualKeys = 512;
  const auto& p = *problem.as<AttentionProblemNode>();
  const int64_t keys = p.n > 0 ? p.n : kUsualKeys, tile = WidestTile(machine);
  const int64_t most = std::max<int64_t>(2, machine.l2_bytes / 2 / (keys * 8 * tile));
  const int64_t tiles = p.m < 0 ? most : CeilDiv(p.m, tile), blocks = CeilDiv(tiles, most);
  std::vector<Plan> plans;
  for (int64_t count = CeilDiv(tiles, blocks); count >= 1; count /= 2) {
    plans.push_back(Make<Plan, AttentionPlanNode>([&](auto& plan) {
      plan.tile_m = tile;
      plan.m_block = std::max<int64_t>(2, count * tile);
    }));
  }
  return plans;
}

/// Cycles of bringing keys and values from beyond the L1 cache: once for each block of queries, or, where a panel
/// doesn't stay in it, for each tile of rows.
double OperandCycles(const AttentionProblemNode& p, const AttentionPlanNode& plan, const Machine& machine) {
  const double each = p.dtype == kHalf ? 2 : 1;
  const int64_t n = KeysOf(p, plan), at_once = plan.key_block != 0 ? plan.key_block : n;
  const int64_t tiles = CeilDiv(RowsOf(p, plan), plan.tile_m), blocks = CeilDiv(tiles, plan.m_block / plan.tile_m);
  const auto repeats = [&](int64_t depth, int64_t panels) {
    const bool stays = depth * PanelsOfTile(plan, panels) * kLanes * 4 <= machine.l1_bytes * 3 / 4;
    return static_cast<double>(stays ? blocks : tiles);
  };
  const double keys = 4 / each * static_cast<double>(n * p.s), values = 4 / each * static_cast<double>(n * p.d);
  const double far = keys + values <= static_cast<double>(machine.l2_bytes) ? 0 : machine.beyond_l2_cycles_per_byte;
  return (Fitted().attention_operand + far) *
         (keys * repeats(p.s, at_once / kLanes) + values * repeats(at_once, CeilDiv(p.d, kLanes)));
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<AttentionPlanNode>();
  const int64_t m = RowsOf(p, plan), n = KeysOf(p, plan), lanes = std::max(1, machine.vector_lanes(32));
  const int64_t at_once = plan.key_block != 0 ? plan.key_block : n;
  const int64_t blocks_of_keys = n / at_once, panels_of_keys = n / kLanes;
  const auto key_blocks = static_cast<double>(blocks_of_keys), rows = static_cast<double>(m);
  const auto panels_n = static_cast<double>(panels_of_keys), panels_d = static_cast<double>(CeilDiv(p.d, kLanes));
  const double registers = static_cast<double>(plan.tile_m * kLanes) / static_cast<double>(lanes);
  // Of a panel, of which a product has `panels`: the cycles of a step, and beside those of all steps.
  const auto step = [&](int64_t panels) {
    return TileCycles({plan.tile_m, PanelsOfTile(plan, panels)}, plan.tile_m, kLanes, machine);
  };
  const auto tile = [&](int64_t panels) {
    return fitted.attention_tile / static_cast<double>(PanelsOfTile(plan, panels)) + fitted.attention_store * registers;
  };
  const int64_t key_panels = at_once / kLanes, value_panels = CeilDiv(p.d, kLanes);
  const double tiles = static_cast<double>(CeilDiv(m, plan.tile_m));
  const double each = p.dtype == kHalf ? 2 : 1;  // numbers of a word
  const double products =
      tiles * (panels_n * (static_cast<double>(p.s) / each * step(key_panels) + tile(key_panels)) +
               panels_d * (static_cast<double>(n) / each * step(value_panels) + key_blocks * tile(value_panels)));
  const double scores = rows * static_cast<double>(n);
  const double softmax = scores / static_cast<double>(lanes) * fitted.attention_softmax * machine.fma_cycles;
  // What blocks of keys add: a maximum and a sum of lanes per row, and its results once more.
  const double row = 2 * kLanes * machine.load_cycles + 3 * panels_d * kLanes / lanes * machine.load_cycles;
  const double combined = plan.key_block != 0 ? rows * key_blocks * row : 0;
  // Scores are written and read three times over.
  const int64_t near = plan.m_block * at_once * 8;
  const double rate = near <= machine.l1_bytes       ? 0
                      : near <= machine.l2_bytes / 2 ? machine.l2_cycles_per_byte
                                                     : machine.beyond_l2_cycles_per_byte;
  const int64_t batch = std::max<int64_t>(1, p.batch);
  const double alone = static_cast<double>(batch) *
                       (products + softmax + combined + 6 * 4 * scores * rate + OperandCycles(p, plan, machine));
  const int64_t threads = ModelledThreads(machine);
  return alone * (1 + LoadImbalance(std::max<int64_t>(1, m / plan.m_block), 1, batch, 1, threads)) / 2;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<AttentionPlanNode>();
  if (plan.tile_m < 1 || plan.tile_m > kMaxTileWidth) return StrCat("tiles of ", plan.tile_m, " rows");
  if (plan.tile_n < 1 || plan.tile_n > kMostPanels) return StrCat("tiles of ", plan.tile_n, " panels");
  const bool whole = plan.m_block > 1 && plan.m_block % plan.tile_m == 0;
  if (!whole || (p.n_block != 0 && p.m % plan.m_block != 0)) {
    return StrCat("blocks of ", plan.m_block, " queries, of ", p.m);
  }
  const bool fits = p.n_block != 0 ? plan.key_block == p.key_block
                                   : plan.key_block >= 0 && plan.key_block % kLanes == 0 && plan.key_block < p.n;
  return fits ? "" : StrCat("blocks of ", plan.key_block, " keys, of ", p.n);
}

std::string WhyNotPackingPlan(const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<AttentionPlanNode>();
  if (plan.tile_m < 1 || plan.tile_m > kMaxTileWidth) return StrCat("tiles of ", plan.tile_m, " rows");
  if (plan.tile_n < 1 || plan.tile_n > kMostPanels) return StrCat("tiles of ", plan.tile_n, " panels");
  const bool tiles = plan.m_block > 1 && plan.m_block % plan.tile_m == 0;
  return tiles ? "" : StrCat("blocks of ", plan.m_block, " queries aren't whole tiles");
}

// ---- The schedule ----

/// A maximum or sum per row: lanes first, where there are such.
void ScheduleRowReduction(Schedule& sch, const Stages& stages, const std::string& role, const LoopRV& loop) {
  for (const char* part : {"", "_lanes", "_parts"}) {
    if (stages.Has(role + part)) At(sch, stages.At(role + part), loop);
  }
  if (stages.Has(role + "_lanes")) VectorizeParts(sch, stages, role, loop);
}

/// A sum over `k` of rows of `d` neighbours, which stay in registers.
void ScheduleSumOfRows(Schedule& sch, const BlockRV& block, const LoopRV& d, const LoopRV& k) {
  constexpr int64_t kMostVectors = 8;
  sch.Reorder({k, d});
  sch.SetScope(block, 0, "local");
  const int lanes = VectorLanes(Extent(sch, d));
  BlockRV init = sch.DecomposeReduction(block, k);
  VectorizeLast(sch, sch.GetLoops(init).back());
  if (lanes != 0 && Extent(sch, d) > lanes) {
    std::vector<LoopRV> parts = sch.Split(d, {kRest, PrimExpr(int64_t{lanes})});
    if (Extent(sch, parts[0]) <= kMostVectors) sch.Unroll(parts[0]);
    sch.Vectorize(parts[1]);
  } else {
    VectorizeLast(sch, d);
  }
}

/// A product with a packed operand, of which `rows` and `columns`, the last axes of its buffer or with others between
/// (`row_axis` of `rank`), are read: tiles of rows and panels of 16 columns, tiles of columns outside.
void ScheduleProduct(Schedule& sch, const BlockRV& product, const LoopRV& rows, const LoopRV& columns,
                     const AttentionPlanNode& plan, int row_axis, const Machine& machine) {
  const int rank = static_cast<int>(sch.Get(product)->writes[0]->buffer->shape.size());
  const int64_t width = columns.defined() ? Extent(sch, columns) : 0;
  const int64_t panels = PanelsOfTile(plan, width / kLanes);
  const int64_t steps = StepsAtOnce({plan.tile_m, panels}, kLanes, machine);
  std::vector<LoopRV> c = sch.Split(columns, {kRest, PrimExpr(panels), PrimExpr(kLanes)});
  LoopRV under = c[0], row;
  if (rows.defined()) {  // one row has no loop
    std::vector<LoopRV> r = sch.Split(rows, {kRest, PrimExpr(plan.tile_m)});
    sch.Reorder({c[0], r[0], r[1], c[1], c[2]});
    under = r[0];
    row = r[1];
  }
  ComputeTile(sch, product, under, {row_axis}, rank - 1, panels, steps);
  sch.SetScope(product, 0, "local");
  sch.Vectorize(c[2]);
  sch.Unroll(c[1]);
  if (row.defined()) sch.Unroll(row);
}

/// Of a block of queries all stages, one block of keys after the other: under the loop over those of the maxima, which
/// are looked at again when results are combined.
void ScheduleKeyBlocks(Schedule& sch, const Stages& stages, const LoopRV& block, int row_axis,
                       const AttentionPlanNode& plan, const Machine& machine) {
  const auto rows = static_cast<size_t>(row_axis);
  const BlockRV results = sch.CacheWrite(stages.At("mixed"), 0, "local");
  auto to_block = [&](std::initializer_list<const char*> roles) {
    for (const char* role : roles) {
      if (stages.Has(role)) At(sch, stages.At(role), block);
    }
  };
  to_block({"total", "factors", "row_max"});
  At(sch, results, block);
  to_block({"mixed", "sum", "sum_lanes", "sum_parts", "exp", "max", "max_lanes", "max_parts", "scores"});
  const std::vector<LoopRV> maxima = LoopsUnder(sch, stages.At("max"), block);
  const LoopRV& keys = maxima[rows + 1];
  sch.Reorder({keys, maxima[rows]});
  for (const char* role : {"max_lanes", "max_parts"}) {
    if (stages.Has(role)) At(sch, stages.At(role), keys);
  }
  VectorizeParts(sch, stages, "max", keys);
  for (const char* role : {"exp", "sum_parts", "sum_lanes", "sum", "mixed"}) {
    if (stages.Has(role)) sch.ReverseComputeAt(stages.At(role), keys);
  }
  sch.ReverseComputeAt(results, keys);
  const Nest scores = At(sch, stages.At("scores"), keys);
  ScheduleProduct(sch, stages.At("products"), scores.axes[rows], scores.axes.back(), plan, row_axis, machine);
  VectorizeLast(sch, LoopsUnder(sch, stages.At("exp"), keys).back());
  VectorizeParts(sch, stages, "sum", keys);
  const std::vector<LoopRV> axes = LoopsUnder(sch, results, keys);
  ScheduleProduct(sch, stages.At("mixed"), axes[rows], axes.back(), plan, row_axis, machine);
}

void ApplyPacked(Schedule& sch, Stages& stages, const Problem&, const Machine& machine, const Plan& chosen) {
  const auto& plan = *chosen.as<AttentionPlanNode>();
  const BlockRV& output = stages.anchor();
  std::vector<LoopRV> out = sch.GetLoops(output);  // batch.., m, d
  const size_t rank = out.size();
  const int row_axis = static_cast<int>(rank) - 2;
  const double work = Work(sch, stages.At("products")) + Work(sch, stages.At("mixed"));
  std::vector<LoopRV> m = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.m_block)});
  const LoopRV& block = m[0];
  if (stages.Has("combined")) {
    VectorizeLast(sch, out[rank - 1]);
    const Nest combined = At(sch, stages.At("combined"), m[1]);
    ScheduleSumOfRows(sch, combined.block, combined.axes[rank - 1], combined.axes[rank]);
    ScheduleKeyBlocks(sch, stages, block, row_axis, plan, machine);
  } else {
    ScheduleProduct(sch, stages.At("mixed"), m[1], out[rank - 1], plan, row_axis, machine);
    ScheduleRowReduction(sch, stages, "sum", block);
    VectorizeLast(sch, At(sch, stages.At("exp"), block).axes.back());
    ScheduleRowReduction(sch, stages, "max", block);
    const Nest scores = At(sch, stages.At("scores"), block);
    ScheduleProduct(sch, stages.At("products"), scores.axes[rank - 2], scores.axes[rank - 1], plan, row_axis, machine);
    if (stages.Has("keys")) {
      const Nest keys = At(sch, stages.At("keys"), block);  // batch.., n / 16, s, 16
      if (keys.axes[rank - 1].defined()) TransposeTile(sch, keys.axes[rank - 1], keys.axes[rank]);
    }
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
  if (n.defined() && d.defined()) ScheduleSumOfRows(sch, mixed.block, d, n);
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
  return p.s <= 0 || p.d <= 0 ? "sizes of queries or values are dynamic" : "";
}

/// Values fill vectors, with zeros that the result is cut off from.
std::optional<LaidOutCall> RewritePacking(const LayoutRequest& request, const Problem& problem, const Plan&) {
  relay::LayoutArgs& args = request.args;
  const int64_t d = problem.as<AttentionProblemNode>()->d, missing = RoundUp(d, kLanes) - d;
  const size_t rank = args.Type(2)->shape.size();
  const Expr value = PadDim(args.Plain(2), rank, rank - 1, missing, 0);
  const Expr result = CallOp("nn.contrib_packing_attention", {args.Plain(0), args.Plain(1), value, args.Plain(3)},
                             request.call->attrs, request.call->span);
  if (missing == 0) return LaidOutCall{result, {}};
  const std::vector<int64_t> begin{0}, end{d}, strides{1}, axes{static_cast<int64_t>(rank) - 1};
  return LaidOutCall{MakeStridedSlice(result, begin, end, strides, axes), {}};
}

/// Keys (k_first: values), packed.
Expr PackOperand(const Expr& operand, const TensorTypeNode* type, bool k_first) {
  if (type->dtype != kHalf) return PackColumns(operand, type, k_first);
  return CallWith<MatmulAttrs>("nn.contrib_pack_pairs", {operand}, [&](auto& a) { a.transpose_b = !k_first; });
}

/// The operand with `missing` more keys, of zeros, packed.
Expr PackKeys(const Expr& operand, const TensorTypeNode* type, int64_t missing, bool k_first) {
  const size_t rank = type->shape.size();
  Array<PrimExpr> shape = type->shape;
  shape.Set(rank - 2, Dim(DimValue(shape[rank - 2]) + missing));
  const TensorType padded(shape, type->dtype);
  return PackOperand(PadDim(operand, rank, rank - 2, missing, 0, type->dtype), padded.get(), k_first);
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<AttentionPlanNode>();
  const auto& own = *request.call->attrs.as<AttentionAttrs>();
  const auto *query = request.args.Type(0), *key = request.args.Type(1), *value = request.args.Type(2),
             *mask = request.args.Type(3);
  size_t rank = query->shape.size(), masked = mask->shape.size();
  const int64_t rows_missing = RowsOf(p, plan) - p.m, keys_missing = KeysOf(p, plan) - p.n;
  Expr mask_arg = request.args.Plain(3);
  if (rows_missing != 0 && masked >= 2 && DimValue(mask->shape[masked - 2]) == p.m) {
    mask_arg = PadDim(mask_arg, masked, masked - 2, rows_missing, 0);
  }
  mask_arg = PadDim(mask_arg, masked, masked - 1, keys_missing, -std::numeric_limits<double>::infinity());
  const int64_t more_keys = plan.key_block != 0 ? keys_missing : 0;  // all but those that fill the last panel
  const Attrs attrs = MakeAttrs<AttentionAttrs>([&](auto& a) {
    a.scale = own.scale;
    a.zero_masked_rows = own.zero_masked_rows;
    a.key_block = plan.key_block;
  });
  Expr result = CallOp("nn.contrib_packed_attention",
                       {PadDim(request.args.Plain(0), rank, rank - 2, rows_missing, 0, query->dtype),
                        PackKeys(request.args.Plain(1), key, more_keys, false),
                        PackKeys(request.args.Plain(2), value, more_keys, true), mask_arg},
                       attrs, request.call->span);
  if (rows_missing != 0 || p.d % kPackedColumns != 0) {
    std::vector<int64_t> begin(rank, 0), end;
    for (const PrimExpr& dim : query->shape) end.push_back(DimValue(dim));
    end.back() = p.d;
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
    SetAttentionSizes(args.Type(0)->shape, args.Type(1)->shape, args.Type(2)->shape, &p);
    p.dtype = args.Type(0)->dtype;
  });
}

void RegisterAttention() {
  RegisterPackedAttentionOps();
  Kernel kernel;
  kernel.name = kPackedAttention;
  kernel.op = "nn.attention";
  kernel.target = "cpu";
  kernel.plan_type = AttentionPlanNode::StaticTypeInfo();
  kernel.revision = 2;  // plans without tile_n
  kernel.why_not = WhyNot;
  kernel.least_gain = 0.98;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = ApplyPacked;
  schedule::RegisterKernel(kernel);
  kernel.name = kPairAttention;
  kernel.why_not = WhyNotPairs;
  schedule::RegisterKernel(kernel);
  kernel.name = kPackingAttention;
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
