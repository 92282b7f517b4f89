// SPDX-License-Identifier: Apache-2.0
// Schedules for CPUs with vector registers.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/schedule/analysis.h"
#include "treadle/schedule/machine.h"
#include "treadle/schedule/stage.h"
#include "treadle/tir/schedule.h"

namespace treadle::ops {

/// The default schedule of a function on CPUs with vector registers.
tir::PrimFunc ScheduleForCpu(const tir::PrimFunc& func, const schedule::Machine& machine);

namespace cpu {

using tir::BlockRV;
using tir::LoopRV;
using tir::Schedule;

using schedule::AxisLoops;
using schedule::ContiguousAxis;
using schedule::ElementCost;
using schedule::EpilogueOf;
using schedule::Extent;
using schedule::InlineInjective;
using schedule::IsFlatElementwise;
using schedule::IsReduction;
using schedule::LoopsUnder;
using schedule::TagOf;
using schedule::TransposedAxis;
using schedule::Work;

/// Work below this many element operations stays on one thread: in vectors of eight they take about as long as a
/// parallel loop costs (bench/fork_join.cc).
inline constexpr double kParallelWork = 60000;

/// Rows of dynamic width are scheduled as if they had this many results: the least common multiple of 1 to 8.
inline constexpr int64_t kSymbolicWidth = 840;
/// Widest register tile.
inline constexpr int64_t kMaxTileWidth = 14;

/// The factor of Schedule::Split that is chosen so that all iterations are covered.
inline const PrimExpr kRest{ObjectPtr<Object>()};

/// The largest of 16, 8, 4 lanes that divides the extent and is worth a vector, else 0.
int VectorLanes(int64_t extent);
/// Fuses the loops and runs them in parallel if the work is worth it. Returns the fused loop.
LoopRV FuseParallel(Schedule& sch, const std::vector<LoopRV>& loops, double work);
/// Load imbalance, longest over mean time of the threads, of a parallel loop over `batch` times `outer` times `inner`
/// parts, where the last of `outer` takes `last` of the time of another: work stealing as in the thread pool.
double LoadImbalance(int64_t outer, double last, int64_t inner, int64_t batch, int64_t threads);

/// A register tile: results that are summed in registers at once, `width` neighbours of `blocks` blocks of channels.
struct RegisterTile {
  int64_t width, blocks;
  double cycles = 0;  ///< that one step of the sums takes for a row and one block of channels
};
/// The fastest tile for rows of `width` results of `channels` lanes, with `blocks` such rows sharing inputs. `panel`:
/// bytes of the weights of one block, which all tiles of a row read: of more than the L1 cache holds, each tile reads
/// them from the L2 cache.
RegisterTile ChooseTile(int64_t width, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                        int64_t panel = 0);
/// RegisterTile::cycles of a tile for such rows.
double TileCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                  int64_t panel = 0);
/// Cycles of a step of a row of `width` results whose end the run decides: whole tiles, then one of the forms that
/// lowering makes of narrower ones.
double DynamicRowCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                        int64_t panel = 0);
/// The fastest tile where the run decides how wide rows are: for rows of the width `usual` and for endless ones, which
/// count alike. Narrow tiles have several blocks of channels, as their sums have to hide the latency of multiply-adds.
RegisterTile ChooseDynamicTile(int64_t usual, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                               int64_t panel = 0);
/// Whether sums and operands of a tile have registers.
bool FitsRegisters(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine);
/// Steps of a sum that the loop of such a tile has written out, by ComputeTile. `selects`: channels are looked up, so
/// that each step has addresses of its own; LLVM loads the weights of all steps first, and those need registers then.
int64_t StepsAtOnce(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine, bool selects = false);
/// Computes `block` under `tile` into registers: reductions outside, then the axes `rows` unrolled, then axis `vector`
/// as a vector (`blocks` of them, unrolled). `steps`: of the last reduction, written out where they divide it.
void ComputeTile(Schedule& sch, const BlockRV& block, const LoopRV& tile, const std::vector<int>& rows, int vector,
                 int64_t blocks = 1, int64_t steps = 1);
/// The same, with the loop `readers` over the rows of what reads the sums: unrolled, or, where much is computed of
/// each, a loop.
void ComputeTileOfRows(Schedule& sch, const BlockRV& block, const LoopRV& tile, const LoopRV& readers,
                       const std::vector<int>& rows, int vector, int64_t blocks = 1, int64_t steps = 1);
/// While `block` computes with weights for `repeats` tiles, fetches the weights of the next ones from memory: of a
/// network's weights few are in the caches when they are first used. `spread`: over the innermost loop, whose steps are
/// written out, too.
void PrefetchWeights(Schedule& sch, const BlockRV& block, const LoopRV& tile, int64_t repeats, bool spread = false,
                     int64_t within = 0);

/// Makes small tiles of two nested loops, `contiguous` along what is read and `last` along what is written, so that the
/// cache lines of both are used while they are in the first-level cache.
void TransposeTile(Schedule& sch, const LoopRV& contiguous, const LoopRV& last);

/// Element-wise, broadcasting and data-moving blocks at the root.
void ScheduleInjective(Schedule& sch, const BlockRV& block);
/// Sums in which vectors of results share operands, where no operator says what they are. False, and nothing done,
/// where a block is none. What it did may be a part of it where a ScheduleError is thrown.
bool ScheduleContraction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue,
                         const schedule::Machine& machine);
/// Reductions that have no schedule of their own; `epilogue` (may be null) consumes the result element by element.
void ScheduleReduction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue);
/// Softmax of contiguous rows, row by row, where `output` divides by the sums; the blocks of it are added to `done`.
/// False, and nothing done, where it's none.
bool ScheduleSoftmax(Schedule& sch, const BlockRV& output, std::set<std::string>* done);
/// The block that a kernel's results leave through: the epilogue of its anchor, or a copy to the output; where
/// `fused_spatial`, the only consumer of the anchor. The kernel takes it.
BlockRV OutputOf(Schedule& sch, schedule::Stages& stages, bool fused_spatial = false);
/// Windows over each channel by itself (depthwise convolution, pooling), on NCHW..c: of `oh_block` rows at a time the
/// padded input (`pad`, may be null) is made, `tile_ow` neighbouring outputs are summed in registers.
void ScheduleChannelWindow(Schedule& sch, const BlockRV& block, const BlockRV& output, const BlockRV& pad,
                           int64_t oh_block, int64_t tile_ow);
/// Pooling on NCHW..c.
void SchedulePool(Schedule& sch, const BlockRV& block, BlockRV epilogue, const schedule::Machine& machine);
/// The block that adds zeros around what `block` reads, if there is one.
BlockRV PaddingOf(Schedule& sch, const BlockRV& block);
/// Rows of outputs, out of `rows` (-1: dynamic), of which the padded input is made just before use.
int64_t RowsAtOnce(int64_t rows);
/// Of convolutions in NCHW: channels that share what is loaded of the input (RegisterTile::width), for a vector of
/// `lanes` neighbouring outputs. `width` of a row; -1: dynamic.
struct RowTile {
  int64_t channels, lanes;
};
RowTile ChooseRowTile(int64_t channels, int64_t width);

}  // namespace cpu
}  // namespace treadle::ops
