// SPDX-License-Identifier: Apache-2.0
// Register tiles for convolutions and pooling on channel-blocked activations.
//
// A tile holds `t` neighbouring outputs of one row times one block of output channels in vector registers. Per input
// element and tap, one vector of weights is loaded and multiplied with `t` broadcast inputs: t independent
// accumulations hide the latency of the multiply-add, and loads stay well below what a core can do per cycle.
#include <algorithm>
#include <cmath>

#include "targets/cpu/fitted_costs.h"
#include "targets/cpu/schedule/cpu.h"
#include "tir/passes/passes.h"
#include "treadle/base/int_math.h"
#include "treadle/schedule/kernel.h"
#include "treadle/tir/loop_hints.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kMaxBlocks = 5;

/// Cycles that a tile of t x blocks takes for one step of the reduction: multiply-adds and loads start side by side,
/// and a sum can't be added to before its last multiply-add is done.
double StepCycles(int64_t t, int64_t blocks, int64_t registers, int64_t channels, const schedule::Machine& machine) {
  auto vectors = static_cast<double>(t * blocks * registers), loads = static_cast<double>(t + blocks * registers);
  const double weights = Fitted().tile_weight * static_cast<double>(blocks * channels);
  return std::max({machine.fma_latency_cycles, vectors * machine.fma_cycles, loads * machine.load_cycles}) +
         Fitted().tile_broadcast * static_cast<double>(t) + weights;
}

int64_t RegistersOf(int64_t channels, const schedule::Machine& machine) {
  const int64_t lanes = std::max(1, machine.vector_lanes(32));
  return std::max<int64_t>(1, CeilDiv(channels, lanes));
}

/// What is computed of one sum, in operations; indices (int64) aside.
int64_t OperationsOf(const tir::Block& node) {
  int64_t count = 0;
  tir::PostOrderVisit(node->body, [&](const ObjectRef& e) {
    const auto* value = e.as<PrimExprNode>();
    if (value == nullptr || value->dtype == DataType::Int(64) || e.as<tir::BufferLoadNode>() != nullptr) return;
    count += e.as<tir::VarNode>() == nullptr && e.as<IntImmNode>() == nullptr && e.as<FloatImmNode>() == nullptr;
  });
  return count;
}

/// Where what follows the sums is long, as requantisation is, code for each row of a tile takes long to compile. A loop
/// over the rows reads the sums from memory, which costs about five instructions per sum: little where there are many
/// steps. Returns the copy that is made of them under the tile; null where rows are unrolled.
BlockRV SumsInMemory(Schedule& sch, const BlockRV& block) {
  constexpr int64_t kLong = 4, kLeastSteps = 64;
  const std::vector<BlockRV> consumers = sch.GetConsumers(block);
  if (consumers.size() != 1 || IsReduction(sch, consumers[0]) || OperationsOf(sch.Get(consumers[0])) < kLong) return {};
  const tir::Block node = sch.Get(block);
  int64_t steps = 1;
  for (const tir::IterVar& axis : node->iter_vars) {
    const int64_t* extent = AsConstInt(axis->dom->extent);
    if (axis->iter_type == tir::IterVarType::kCommReduce) steps *= extent == nullptr ? kLeastSteps : *extent;
  }
  if (steps < kLeastSteps) return {};
  const tir::Block consumer = sch.Get(consumers[0]);
  for (size_t i = 0; i < consumer->reads.size(); ++i) {
    if (consumer->reads[i]->buffer.same_as(node->writes[0]->buffer)) {
      return sch.CacheRead(consumers[0], static_cast<int>(i), "local");
    }
  }
  return {};
}

/// Writes the loops of a tile out: `rows`, then `blocks` vectors along `vector`. Loops of one iteration are null.
void WriteOut(Schedule& sch, const std::vector<LoopRV>& loops, const std::vector<int>& rows, int vector,
              int64_t blocks) {
  for (int row : rows) {
    if (loops[static_cast<size_t>(row)].defined()) sch.Unroll(loops[static_cast<size_t>(row)]);
  }
  LoopRV last = loops[static_cast<size_t>(vector)];
  if (!last.defined()) return;
  if (blocks > 1) {
    std::vector<LoopRV> parts = sch.Split(last, {PrimExpr(blocks), kRest});
    sch.Unroll(parts[0]);
    last = parts[1];
  }
  sch.Vectorize(last);
}

}  // namespace

bool FitsRegisters(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine) {
  // Sums, the operands that stay while others pass, one that passes, and one to spare: code spills otherwise.
  const int64_t registers = RegistersOf(channels, machine), weights = tile.blocks * registers;
  return tile.width == 1 || tile.width * weights + std::min(tile.width, weights) + 2 <= machine.vector_registers;
}

double TileCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                  int64_t panel) {
  if (width < 0) width = kSymbolicWidth;
  const int64_t registers = RegistersOf(channels, machine), full = width / tile.width, tail = width % tile.width;
  double cycles = static_cast<double>(full) * StepCycles(tile.width, tile.blocks, registers, channels, machine);
  if (tail != 0) cycles += StepCycles(tail, tile.blocks, registers, channels, machine) + Fitted().tile_tail;
  cycles /= static_cast<double>(tile.blocks);
  if (panel * tile.blocks <= machine.l1_bytes * 3 / 4) return cycles;
  constexpr int64_t kElement = 4;
  const int64_t tiles = full + (tail != 0 ? 1 : 0);
  return cycles + static_cast<double>(tiles * channels * kElement) * machine.l2_cycles_per_byte;
}

double DynamicRowCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                        int64_t panel) {
  const int64_t rest = width % tile.width, whole = width - rest;
  double row = whole == 0 ? 0 : TileCycles(tile, whole, channels, machine, panel);
  if (rest != 0) {
    const RegisterTile last{tir::NarrowedWidth(rest, tile.width), tile.blocks};
    row += TileCycles(last, last.width, channels, machine, panel);
  }
  return row;
}

RegisterTile ChooseDynamicTile(int64_t usual, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                               int64_t panel) {
  RegisterTile best{1, 1};
  best.cycles = HUGE_VAL;
  for (int64_t b = 1; b <= std::min(kMaxBlocks, blocks); ++b) {
    if (blocks % b != 0) continue;
    for (int64_t t = 1; t <= kMaxTileWidth; ++t) {
      RegisterTile tile{t, b};
      if (!FitsRegisters(tile, channels, machine)) break;
      tile.cycles = DynamicRowCycles(tile, usual, channels, machine, panel) / static_cast<double>(usual) +
                    TileCycles(tile, kSymbolicWidth, channels, machine, panel) / static_cast<double>(kSymbolicWidth);
      if (tile.cycles < best.cycles) best = tile;
    }
  }
  return best;
}

RegisterTile ChooseTile(int64_t width, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                        int64_t panel) {
  if (width < 0) width = kSymbolicWidth;
  RegisterTile best{1, 1};
  double least = HUGE_VAL;
  for (int64_t b = 1; b <= kMaxBlocks; ++b) {
    if (blocks % b != 0) continue;
    for (int64_t t = 1; t <= std::min<int64_t>(width, kMaxTileWidth); ++t) {
      RegisterTile tile{t, b};
      if (!FitsRegisters(tile, channels, machine)) break;
      tile.cycles = TileCycles(tile, width, channels, machine, panel);
      if (tile.cycles >= least) continue;
      least = tile.cycles;
      best = tile;
    }
  }
  return best;
}

std::vector<int64_t> TileWidths(int64_t width, int64_t channels, const schedule::Machine& machine) {
  std::vector<int64_t> widths;
  for (int64_t t = std::min(width, kMaxTileWidth); t >= 1; --t) {
    if (!FitsRegisters({t, 1}, channels, machine)) continue;
    const int64_t count = CeilDiv(width, t), smallest = CeilDiv(width, count);
    if (widths.empty() || widths.back() != smallest) widths.push_back(smallest);
  }
  return widths;
}

int64_t StepsAtOnce(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine, bool selects) {
  // The loop itself takes six or seven instructions a step. Beside the multiply-adds and loads of a tile of 16
  // registers that is more than a core starts in time when another thread shares it.
  constexpr int64_t kMost = 4, kEnough = 56;
  constexpr int kLeastRegisters = 16;  // with fewer, code is to be compiled soon (IsForShortUse)
  if (machine.vector_registers < kLeastRegisters) return 1;
  const int64_t weights = tile.blocks * RegistersOf(channels, machine), multiply_adds = tile.width * weights;
  int64_t steps = kMost;
  while (steps > 1 && steps * multiply_adds > kEnough) steps /= 2;
  // Weights of all steps beside the sums, a broadcast element and one to spare: sums are spilled otherwise.
  while (selects && steps > 1 && multiply_adds + steps * weights + 2 > machine.vector_registers) steps /= 2;
  return steps;
}

void ComputeTile(Schedule& sch, const BlockRV& block, const LoopRV& tile, const std::vector<int>& rows, int vector,
                 int64_t blocks, int64_t steps) {
  sch.SetScope(block, 0, "local");
  sch.ComputeAt(block, tile);
  tir::Block node = sch.Get(block);
  // Loops of the block's axes that lie under the tile: an axis of one iteration there has none.
  std::vector<LoopRV> axes = LoopsUnder(sch, block, tile);
  std::vector<LoopRV> reduce;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (node->iter_vars[i]->iter_type == tir::IterVarType::kCommReduce && axes[i].defined()) reduce.push_back(axes[i]);
  }
  LoopRV step;
  if (!reduce.empty() && steps > 1 && Extent(sch, reduce.back()) > steps && Extent(sch, reduce.back()) % steps == 0) {
    std::vector<LoopRV> parts = sch.Split(reduce.back(), {kRest, PrimExpr(steps)});
    reduce.back() = parts[0];
    step = parts[1];
  }
  // A loop of two steps costs more than it saves.
  while (reduce.size() > 1 && Extent(sch, reduce.back()) > 0 && Extent(sch, reduce.back()) <= 2 && !step.defined()) {
    step = reduce.back();
    reduce.pop_back();
  }
  const bool written_out = reduce.size() == 1 && steps > 1 && Extent(sch, reduce[0]) == steps;
  // Written out twice by the code generator, the code of a full tile has too few registers.
  if (!reduce.empty() && !written_out) sch.Annotate(reduce.back(), tir::attr::kNoUnroll, IntImm(DataType::Int(64), 1));
  std::vector<LoopRV> order = reduce;
  if (step.defined()) order.push_back(step);
  for (int row : rows) {
    if (axes[static_cast<size_t>(row)].defined()) order.push_back(axes[static_cast<size_t>(row)]);
  }
  if (axes[static_cast<size_t>(vector)].defined()) order.push_back(axes[static_cast<size_t>(vector)]);
  if (order.size() > 1) sch.Reorder(order);
  if (!reduce.empty()) {
    BlockRV init = sch.DecomposeReduction(block, reduce[0]);
    std::vector<LoopRV> init_axes = LoopsUnder(sch, init, tile);
    init_axes.resize(axes.size());
    WriteOut(sch, init_axes, rows, vector, blocks);
  }
  if (step.defined()) sch.Unroll(step);
  if (written_out) sch.Unroll(reduce[0]);
  WriteOut(sch, axes, rows, vector, blocks);
}

void ComputeTileOfRows(Schedule& sch, const BlockRV& block, const LoopRV& tile, const LoopRV& readers,
                       const std::vector<int>& rows, int vector, int64_t blocks, int64_t steps) {
  const BlockRV copy = SumsInMemory(sch, block);
  if (copy.defined()) sch.ComputeAt(copy, tile);
  ComputeTile(sch, block, tile, rows, vector, blocks, steps);
  if (!copy.defined()) return sch.Unroll(readers);
  WriteOut(sch, LoopsUnder(sch, copy, tile), rows, vector, blocks);
  sch.Annotate(readers, tir::attr::kNoUnroll, IntImm(DataType::Int(64), 1));
}

void PrefetchWeights(Schedule& sch, const BlockRV& block, const LoopRV& tile, int64_t repeats, bool spread,
                     int64_t within) {
  constexpr int64_t kAtOnce = 4, kLeastRepeats = 2;
  if (repeats < kLeastRepeats) return;
  // Weights are what lies along the results' vectors.
  tir::Block node = sch.Get(block);
  const Object* lanes = nullptr;
  for (const tir::IterVar& axis : node->iter_vars) {
    if (axis->iter_type == tir::IterVarType::kDataPar) lanes = axis->var.get();
  }
  int weights = -1;
  for (size_t i = 0; i < node->reads.size(); ++i) {
    if (node->reads[i]->buffer.same_as(node->writes[0]->buffer)) continue;
    for (const tir::Range& range : node->reads[i]->region) {
      tir::PostOrderVisit(range->min, [&](const ObjectRef& e) {
        if (e.get() == lanes) weights = static_cast<int>(i);
      });
    }
  }
  if (weights < 0) return;
  // Few at a time: spread over the sum of a tile, but not into its innermost loop. Steps that are written out have
  // none.
  std::vector<LoopRV> reduce;
  int64_t lines = 1;
  for (const tir::IterVar& axis : node->iter_vars) {
    const int64_t* extent = AsConstInt(axis->dom->extent);
    if (axis->iter_type == tir::IterVarType::kCommReduce && extent != nullptr) lines *= std::max<int64_t>(1, *extent);
  }
  bool below = false;
  for (const LoopRV& loop : sch.GetLoops(block)) {
    const tir::For node_of_loop = sch.Get(loop);
    if (below && node_of_loop->kind == tir::ForKind::kSerial) reduce.push_back(loop);
    below |= loop->var.same_as(tile->var);
  }
  if (within == 0 && Extent(sch, tile) < 0) within = repeats;
  LoopRV at = tile;
  for (size_t i = 0; i + 1 < reduce.size() && lines / repeats > kAtOnce; ++i) {
    at = reduce[i];
    lines /= std::max<int64_t>(1, Extent(sch, at));
  }
  if (spread) {
    for (const LoopRV& loop : sch.GetLoops(block)) {
      if (sch.Get(loop)->kind == tir::ForKind::kSerial) at = loop;
    }
  }
  try {
    sch.PrefetchNext(block, weights, tile, at, within);
  } catch (const tir::ScheduleError& e) {
    // Of dynamic sizes, for example.
    schedule::ChoiceLog::Note(StrCat("# weights aren't prefetched: ", e.what()));
  }
}

BlockRV PaddingOf(Schedule& sch, const BlockRV& block) {
  for (const BlockRV& producer : sch.GetProducers(block)) {
    const bool pads = TagOf(sch, producer).pads && !IsReduction(sch, producer);
    if (pads && !sch.IsOutput(producer) && sch.GetConsumers(producer).size() == 1) return producer;
  }
  return BlockRV();
}

int64_t RowsAtOnce(int64_t rows) {
  constexpr int64_t kMost = 16, kLeast = 6;
  if (rows < 0) return kMost;
  if (rows <= kMost) return rows;
  for (int64_t n = kMost; n >= kLeast; --n) {
    if (rows % n == 0) return n;
  }
  return kMost;
}

BlockRV OutputOf(Schedule& sch, schedule::Stages& stages, bool fused_spatial) {
  BlockRV output;
  if (fused_spatial) {
    std::vector<BlockRV> consumers = sch.GetConsumers(stages.anchor());
    TREADLE_ICHECK(consumers.size() == 1) << "a convolution with fused spatial axes has one consumer";
    output = consumers[0];
  } else {
    output = EpilogueOf(sch, stages.anchor());
    if (!output.defined()) output = sch.CacheWrite(stages.anchor(), 0, "local");
  }
  stages.Take(output);
  return output;
}

void PadAt(Schedule& sch, const BlockRV& pad, const LoopRV& loop) {
  sch.ComputeAt(pad, loop);
  std::vector<LoopRV> axes = LoopsUnder(sch, pad, loop);
  if (axes.back().defined()) sch.Vectorize(axes.back());
}

void ScheduleChannelWindow(Schedule& sch, const BlockRV& block, const BlockRV& output, const BlockRV& pad,
                           int64_t oh_block, int64_t tile_ow, const BlockRV& columns) {
  double work = Work(sch, block);
  std::vector<LoopRV> out = sch.GetLoops(output);  // n, c, oh, ow, ci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  std::vector<LoopRV> rows = sch.Split(out[2], {kRest, PrimExpr(oh_block)});
  std::vector<LoopRV> width = sch.Split(out[3], {kRest, PrimExpr(tile_ow)});
  ComputeTileOfRows(sch, block, width[0], width[1], {3}, 4);
  sch.Vectorize(out[4]);
  if (columns.defined()) ReduceColumnsAt(sch, columns, rows[1], 0);
  if (pad.defined()) PadAt(sch, pad, rows[0]);
  FuseParallel(sch, {out[0], out[1], rows[0]}, work);
}

void SchedulePool(Schedule& sch, const BlockRV& block, BlockRV epilogue, const schedule::Machine& machine) {
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // n, c, oh, ow, ci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  const RegisterTile tile = ChooseTile(Extent(sch, out[3]), Extent(sch, out[4]), 1, machine);
  const BlockRV columns = ColumnsOf(sch, block);
  const BlockRV pad = PaddingOf(sch, columns.defined() ? columns : block);
  ScheduleChannelWindow(sch, block, epilogue, pad, RowsAtOnce(Extent(sch, out[2])), tile.width, columns);
}

RowTile ChooseRowTile(int64_t channels, int64_t width) {
  int64_t tile = 1;
  for (int64_t t : {6, 4, 3, 2}) {
    if (tile == 1 && channels % t == 0) tile = t;
  }
  if (width < 0) return {tile, 16};
  return {tile, width % 16 == 0 || width >= 32 ? 16 : width >= 8 ? 8 : 4};
}

}  // namespace treadle::ops::cpu
