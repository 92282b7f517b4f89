// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/listed_sums.h"

#include <algorithm>
#include <utility>

#include "ops/te_util.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::ops::cpu {

TREADLE_DEFINE_NODE(ListedPlanNode);

namespace {

/// Of a tile: beside their sums, two vectors of weights, one of ones and two to spare.
constexpr int64_t kMostRows = 10;

int64_t RowsOf(const ListedSizes& sizes) { return sizes.rows < 0 ? kSymbolicWidth : std::max<int64_t>(1, sizes.rows); }

}  // namespace

PrimExpr ListedTerm(const ListedOperands& operands, const PrimExpr& block, const PrimExpr& lane,
                    const std::function<PrimExpr(const PrimExpr& offset)>& rows) {
  const PrimExpr entry = operands.entry->var;
  auto word = [&](int64_t n) {
    const PrimExpr start =
        tir::cast(operands.index_dtype, operands.words(block, entry, Index(n))) * Index(operands.unit);
    return MakeWord(DataType::UInt(8), [&](int64_t byte) { return rows(start + Index(byte)); });
  };
  auto weights = [&](int64_t n) { return operands.weight(block, entry, Index(n), lane); };
  return tir::dot_two_words(word(0), weights(0), word(1), weights(1));
}

std::vector<Plan> ListedSpace(const ListedSizes& sizes) {
  std::vector<Plan> plans;
  const int64_t rows = RowsOf(sizes);
  for (const int64_t tiles : {1, 2, 4, 8}) {
    for (int64_t mr = std::min(rows, kMostRows); mr >= std::min(rows, kMostRows / 2); --mr) {
      // What is left of rows has code of its own only where it's less than a tile.
      if (tiles > 1 && (tiles * mr > rows || rows % (tiles * mr) != 0)) continue;
      plans.push_back(Make<Plan, ListedPlanNode>([&](auto& plan) {
        plan.mr = mr;
        plan.mc_tiles = tiles;
      }));
    }
  }
  return plans;
}

double ListedCycles(const ListedSizes& sizes, const Machine& machine, const Plan& chosen) {
  constexpr double kEntry = 3.2, kLoop = 1;  // multiply-adds of floats that an entry takes as long as for a row; cycles
  // Cycles per byte of rows that the L1 cache doesn't hold while lists pass, of lists from the L2 cache, which are read
  // in order, and from beyond (measured on Zen 3).
  constexpr double kRows = 0.1, kLists = 0.01, kFarLists = 0.06;
  const auto& plan = *chosen.as<ListedPlanNode>();
  const int64_t m = RowsOf(sizes), group = std::min(m, plan.mr * plan.mc_tiles);
  const auto rows = static_cast<double>(plan.mr), entries = static_cast<double>(sizes.entries);
  const int64_t blocks = sizes.columns / kListBlock, groups = sizes.runs * (CeilDiv(m, group));
  const int64_t row_tiles = sizes.runs * (CeilDiv(m, plan.mr));
  const auto tiles = static_cast<double>(row_tiles * blocks);
  const double step = std::max(machine.fma_latency_cycles, rows * kEntry * machine.fma_cycles) + kLoop;
  const double tile = entries * step + Fitted().product_tile + Fitted().product_store * rows;
  const double bytes = static_cast<double>(sizes.columns * kListWords * (kListBytes + 1)) * entries;
  const double again =
      static_cast<double>(groups - 1) * (2 * bytes < static_cast<double>(machine.l2_bytes) ? kLists : kFarLists);
  const bool near = group * sizes.bytes <= machine.l1_bytes * 9 / 10;
  const double reread = near ? 0 : kRows * static_cast<double>(blocks * sizes.runs * m * sizes.bytes);
  const double alone = tiles * tile + bytes * (machine.weight_cycles_per_byte + again) + reread;
  const int64_t threads = ModelledThreads(machine), parts = groups * blocks;
  return threads == 1 ? alone : alone * (1 + LoadImbalance(parts, 1, 1, 1, threads)) / 2;
}

std::string WhyNotListedPlan(const ListedSizes& sizes, const Plan& chosen) {
  const auto& plan = *chosen.as<ListedPlanNode>();
  if (plan.mr < 1 || plan.mr > kMaxTileWidth || (sizes.rows >= 0 && plan.mr > std::max<int64_t>(1, sizes.rows))) {
    return StrCat("tiles of ", plan.mr, " rows, of ", sizes.rows);
  }
  return plan.mc_tiles < 1 ? StrCat(plan.mc_tiles, " tiles of rows") : "";
}

bool ComputeLists(Schedule& sch, const BlockRV& product, const LoopRV& tile, const LoopRV& readers, size_t rank) {
  const std::vector<BlockRV> consumers = sch.GetConsumers(product);
  if (consumers.size() != 1) return false;
  const tir::Buffer sums = sch.Get(product)->writes[0]->buffer;
  const auto& reads = sch.Get(consumers[0])->reads;
  int operand = -1;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i]->buffer.same_as(sums)) operand = static_cast<int>(i);
  }
  if (operand < 0) return false;
  const BlockRV copy = sch.CacheRead(consumers[0], operand, "local");
  sch.ComputeAt(copy, tile);
  std::vector<LoopRV> axes = LoopsUnder(sch, copy, tile);  // .., m, n
  std::vector<LoopRV> columns = sch.Split(axes[rank - 1], {kRest, PrimExpr(kListBlock)});
  if (axes[rank - 2].defined()) sch.Reorder({columns[0], axes[rank - 2], columns[1]});
  ComputeTile(sch, product, columns[0], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1);
  if (axes[rank - 2].defined()) sch.Unroll(axes[rank - 2]);
  sch.Vectorize(columns[1]);
  sch.Annotate(columns[0], tir::attr::kNoUnroll, IntImm(DataType::Int(64), 1));
  sch.Annotate(readers, tir::attr::kNoUnroll, IntImm(DataType::Int(64), 1));
  return true;
}

void MarkLists(Schedule& sch, const BlockRV& product, int64_t entries) {
  LoopRV list;  // the innermost: tiles may be as many
  for (const LoopRV& loop : sch.GetLoops(product)) {
    if (Extent(sch, loop) == entries && sch.Get(loop)->kind == tir::ForKind::kSerial) list = loop;
  }
  if (!list.defined()) return;
  for (const char* key : {tir::attr::kListLength, tir::attr::kListPairs}) {
    sch.Annotate(list, key, IntImm(DataType::Int(64), 1));
  }
}

void RegisterListedLoops(const char* name, const char* op, ListedSizes (*sizes)(const Problem&),
                         decltype(Kernel::apply) apply) {
  Kernel kernel;
  kernel.name = name;
  kernel.op = op;
  kernel.target = "cpu";
  kernel.plan_type = ListedPlanNode::StaticTypeInfo();
  kernel.least_gain = 0.95;
  kernel.space = [sizes](const Problem& problem, const Machine&) { return ListedSpace(sizes(problem)); };
  kernel.cycles = [sizes](const Problem& problem, const Machine& machine, const Plan& plan) {
    return ListedCycles(sizes(problem), machine, plan);
  };
  kernel.why_not_plan = [sizes](const Problem& problem, const Machine&, const Plan& plan) {
    return WhyNotListedPlan(sizes(problem), plan);
  };
  kernel.apply = std::move(apply);
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
