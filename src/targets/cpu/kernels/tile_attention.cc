// SPDX-License-Identifier: Apache-2.0
// Attention of bfloat16 on AMX tile registers: both products of a block of queries are calls of the intrinsic
// (treadle/tir/tile_ops.h), of which keys and values are packed as right operands. Softmax lies between them, in
// float32 and row by row, so that the scores of a row stay in the L1 cache from its maximum to its sum.
//
// Queries are read in place; sizes that don't fill tiles (words of a head, keys) are padded with zeros, keys beyond the
// last are masked.
#include <algorithm>
#include <limits>

#include "ops/infer.h"
#include "targets/cpu/kernels/attention_compute.h"
#include "targets/cpu/kernels/attention_parts.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/attention.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/make.h"

namespace treadle::ops::cpu {
namespace {

using relay::Expr;
using relay::LaidOutCall;

const DataType kHalf = DataType::BFloat(16);
constexpr int64_t kTile = tir::kTileRows, kHalves = 2 * kTile;  ///< rows of a tile; numbers of bfloat16 in one

// ---- Plans and what they cost ----

class TileAttentionPlanNode : public PlanNode {
 public:
  int64_t m_block = kTile;
  TREADLE_NODE(TileAttentionPlanNode, PlanNode, "schedule.TileAttentionPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("m_block", &TileAttentionPlanNode::m_block).Doc("queries whose scores exist at a time");
  }
};

struct Sizes {
  int64_t m, n, s, d;
  Sizes(const AttentionProblemNode& p, const TileAttentionPlanNode& plan)
      : m(RoundUp(p.m, plan.m_block)), n(RoundUp(p.n, kHalves)), s(RoundUp(p.s, kHalves)), d(RoundUp(p.d, kLanes)) {}
};

std::string WhyNot(const Problem& problem, const Machine& machine) {
  constexpr int64_t kMinRows = 4;  // with fewer packing takes longer than it saves
  const auto& p = *problem.as<AttentionProblemNode>();
  if (machine.pair_tile_cycles == 0) return "no tile registers";
  if (p.dtype != kHalf) return StrCat("operands are ", p.dtype, ", not ", kHalf);
  // Of each sample the same tiles are computed, however many there are.
  const bool known = p.m >= 0 && p.n > 0 && p.s > 0 && p.d > 0;
  if (!p.not_packed.empty() && (p.not_packed != kDynamic || !known)) return p.not_packed;
  return p.m < kMinRows ? StrCat("fewer than ", kMinRows, " queries") : "";
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<TileAttentionPlanNode>();
  const bool whole = plan.m_block > 1 && (p.n_block == 0 || p.m % plan.m_block == 0);
  return whole ? "" : StrCat("blocks of ", plan.m_block, " queries, of ", p.m);
}

std::vector<Plan> Space(const Problem& problem, const Machine&) {
  constexpr int64_t kMostRows = 8 * kTile;
  const auto& p = *problem.as<AttentionProblemNode>();
  std::vector<Plan> plans;
  for (const int64_t rows : PartsOf(p.m, kMostRows)) {
    if (rows < 2 || (p.n_block != 0 && p.m % rows != 0)) continue;
    plans.push_back(Make<Plan, TileAttentionPlanNode>([&](auto& plan) { plan.m_block = rows; }));
  }
  return plans;
}

/// Cycles of a call: `rows` by `columns` of sums of `words`.
double ProductCycles(int64_t rows, int64_t columns, int64_t words, const Machine& machine) {
  const int64_t high = CeilDiv(rows, kTile), wide = columns / kLanes;
  const int64_t of_words = words / kTile;
  const auto tiles = static_cast<double>(high * wide), steps = static_cast<double>(of_words);
  // Two by two tiles: each register that is loaded is used twice.
  const double loads = static_cast<double>(high * CeilDiv(wide, 2) + wide * CeilDiv(high, 2));
  const double step = std::max(tiles * machine.pair_tile_cycles, loads * machine.tile_load_cycles);
  return Fitted().amx_configure + steps * step + tiles * Fitted().amx_store;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<TileAttentionPlanNode>();
  const Sizes sizes(p, plan);
  const int64_t lanes = std::max(1, machine.vector_lanes(32)), blocks = sizes.m / plan.m_block;
  const double products = ProductCycles(plan.m_block, sizes.n, sizes.s / 2, machine) +
                          ProductCycles(plan.m_block, sizes.d, sizes.n / 2, machine);
  const auto scores = static_cast<double>(plan.m_block * sizes.n);
  const double softmax = scores / static_cast<double>(lanes) * fitted.attention_softmax * machine.fma_cycles;
  // Of a row, in lanes: the maximum and the sum.
  const double row = static_cast<double>(plan.m_block) * 2 * kLanes * machine.load_cycles;
  // Scores are written, and read for the maximum; exponentials, half as long, are written and read.
  const int64_t near = plan.m_block * sizes.n * 6;
  const double rate = near <= machine.l1_bytes       ? 0
                      : near <= machine.l2_bytes / 2 ? machine.l2_cycles_per_byte
                                                     : machine.beyond_l2_cycles_per_byte;
  const double held = 2 * static_cast<double>(sizes.n * (sizes.s + sizes.d));
  const double far = held <= static_cast<double>(machine.l2_bytes) ? 0 : machine.beyond_l2_cycles_per_byte;
  const double block = products + softmax + row + 12 * scores * rate + held * (fitted.attention_operand + far);
  const int64_t batch = std::max<int64_t>(1, p.batch), threads = ModelledThreads(machine);
  const double alone = static_cast<double>(batch * blocks) * block;
  return alone * (1 + LoadImbalance(blocks, 1, batch, 1, threads)) / 2;
}

// ---- The schedule ----

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<TileAttentionPlanNode>();
  const Sizes sizes(*problem.as<AttentionProblemNode>(), plan);
  std::vector<LoopRV> out = sch.GetLoops(stages.anchor());  // batch.., m, d
  const size_t rank = out.size();
  const double work = Work(sch, stages.At("products")) + Work(sch, stages.At("mixed"));
  const std::vector<LoopRV> m = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.m_block)});
  const LoopRV& block = m[0];
  VectorizeLast(sch, out[rank - 1]);
  auto tiles = [&](const char* role, int64_t columns, int64_t words) {
    ScheduleTiles(sch, stages.At(role), block, TileProductIntrin(kHalf, kHalf, plan.m_block, columns / kLanes, words));
  };
  tiles("mixed", sizes.d, sizes.n / 2);
  ScheduleTileSoftmax(sch, stages, block);
  sch.ComputeInline(stages.At("scores"));
  tiles("products", sizes.n, sizes.s / 2);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(block);
  FuseParallel(sch, outer, work);
}

// ---- The graph ----

Expr PackWords(const Expr& operand, bool k_first) {
  return CallWith<MatmulAttrs>("nn.contrib_pack_tile_pairs", {operand}, [&](auto& a) { a.transpose_b = !k_first; });
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<AttentionProblemNode>();
  const auto& plan = *chosen.as<TileAttentionPlanNode>();
  const auto* mask = request.args.Type(3);
  const size_t rank = request.args.Type(0)->shape.size(), masked = mask->shape.size();
  const Sizes sizes(p, plan);
  if (DimValue(mask->shape[masked - 1]) != p.n) return std::nullopt;
  auto padded = [&](size_t arg, size_t dim, int64_t missing) {
    return PadDim(request.args.Plain(arg), rank, dim, missing, 0, kHalf);
  };
  Expr mask_arg = request.args.Plain(3);
  if (sizes.m != p.m && masked >= 2 && DimValue(mask->shape[masked - 2]) == p.m) {
    mask_arg = PadDim(mask_arg, masked, masked - 2, sizes.m - p.m, 0);
  }
  mask_arg = PadDim(mask_arg, masked, masked - 1, sizes.n - p.n, -std::numeric_limits<double>::infinity());
  // Words of a panel are padded when they are packed, and so are keys that fill the last panel.
  const int64_t keys = RoundUp(p.n, kLanes) == sizes.n ? 0 : sizes.n - p.n;
  const Expr query = PadDim(padded(0, rank - 2, sizes.m - p.m), rank, rank - 1, sizes.s - p.s, 0, kHalf);
  Expr result =
      CallOp("nn.contrib_tile_attention",
             {query, PackWords(padded(1, rank - 2, keys), false), PackWords(request.args.Plain(2), true), mask_arg},
             request.call->attrs, request.call->span);
  if (sizes.m != p.m || sizes.d != p.d) {
    const auto last = static_cast<int64_t>(rank) - 1;
    const std::vector<int64_t> begin{0, 0}, end{p.m, p.d}, strides{1, 1}, axes{last - 1, last};
    result = MakeStridedSlice(result, begin, end, strides, axes);
  }
  return LaidOutCall{result, {}};
}

}  // namespace

void RegisterTileAttention() {
  Kernel kernel;
  kernel.name = kTileAttention;
  kernel.op = "nn.attention";
  kernel.target = "cpu";
  kernel.plan_type = TileAttentionPlanNode::StaticTypeInfo();
  kernel.why_not = WhyNot;
  kernel.least_gain = 0.98;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(kernel);
}

}  // namespace treadle::ops::cpu
