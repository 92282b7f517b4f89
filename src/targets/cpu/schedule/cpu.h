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

/// Less work than this many element operations stays on one thread: in vectors of eight they take about as long as
/// starting and joining a parallel loop (bench/fork_join.cc).
inline constexpr double kParallelWork = 60000;

/// Rows of dynamic width are scheduled as if they had this many elements: the least common multiple of 1 to 8.
inline constexpr int64_t kSymbolicWidth = 840;
/// Lanes of rows of dynamic width, the last vector of which is masked.
inline constexpr int kDynamicLanes = 16;
/// Widest register tile.
inline constexpr int64_t kMaxTileWidth = 14;

/// The factor of Schedule::Split that is inferred from the others.
inline const PrimExpr kRest{ObjectPtr<Object>()};

/// The largest of 16, 8, 4 lanes that divides the extent and is worth a vector, else 0.
int VectorLanes(int64_t extent);
/// Fuses the loops, and makes the fused loop, which is returned, parallel if there is enough work (kParallelWork).
LoopRV FuseParallel(Schedule& sch, const std::vector<LoopRV>& loops, double work);
/// Load imbalance (longest over mean time of the threads) of a parallel loop over `batch` * `outer` * `inner` parts
/// with the thread pool's work stealing. The last of `outer` takes the fraction `last` of the time of the others.
double LoadImbalance(int64_t outer, double last, int64_t inner, int64_t batch, int64_t threads);

/// A register tile: outputs that are accumulated in registers together, `width` neighbours of `blocks` channel blocks.
struct RegisterTile {
  int64_t width, blocks;
  double cycles = 0;  ///< cycles per reduction step for a row and one channel block
};
/// The fastest tile for rows of `width` outputs of `channels` lanes, `blocks` of which share their inputs. `panel` is
/// the size in bytes of one block's weights, which all tiles of a row read: from the L2 cache if they exceed the L1
/// cache.
RegisterTile ChooseTile(int64_t width, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                        int64_t panel = 0);
/// RegisterTile::cycles of a tile for such rows.
double TileCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                  int64_t panel = 0);
/// Cycles per reduction step of a row of `width` outputs if the width is dynamic: full tiles, then one of the narrower
/// variants that lowering creates (tir/passes/narrow_tails.cc).
double DynamicRowCycles(const RegisterTile& tile, int64_t width, int64_t channels, const schedule::Machine& machine,
                        int64_t panel = 0);
/// The fastest tile if the width of rows is dynamic: rows of width `usual` and infinitely long ones have equal weight.
/// Narrow tiles have several channel blocks, to have enough accumulators to hide the latency of multiply-adds.
RegisterTile ChooseDynamicTile(int64_t usual, int64_t channels, int64_t blocks, const schedule::Machine& machine,
                               int64_t panel = 0);
/// Whether the accumulators and operands of a tile fit the vector registers.
bool FitsRegisters(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine);
/// Widths of tiles of one block of `channels`: for each number of tiles that a row can be divided into, the smallest.
std::vector<int64_t> TileWidths(int64_t width, int64_t channels, const schedule::Machine& machine);
/// The unroll factor of the reduction loop of such a tile (`steps` of ComputeTile). `selects`: channels are gathered,
/// so that each step has its own addresses; LLVM then loads the weights of all steps first, which takes registers.
int64_t StepsAtOnce(const RegisterTile& tile, int64_t channels, const schedule::Machine& machine, bool selects = false);
/// Computes `block` under loop `tile` into registers: the reduction loops outermost, then the axes `rows`, unrolled,
/// then axis `vector`, vectorised (`blocks` vectors, unrolled). The last reduction is unrolled by `steps` if they
/// divide it.
void ComputeTile(Schedule& sch, const BlockRV& block, const LoopRV& tile, const std::vector<int>& rows, int vector,
                 int64_t blocks = 1, int64_t steps = 1);
/// As ComputeTile, with the consumer's loop `readers` over the rows of the tile: unrolled, unless much is computed for
/// each row.
void ComputeTileOfRows(Schedule& sch, const BlockRV& block, const LoopRV& tile, const LoopRV& readers,
                       const std::vector<int>& rows, int vector, int64_t blocks = 1, int64_t steps = 1);
/// Prefetches the weights of the next tiles from memory while `block` uses the current ones for `repeats` tiles: most
/// weights of a network are in no cache when they are first used. `spread`: the prefetches are distributed over the
/// innermost loop, which is unrolled as well.
void PrefetchWeights(Schedule& sch, const BlockRV& block, const LoopRV& tile, int64_t repeats, bool spread = false,
                     int64_t within = 0);

/// Tiles two nested loops, `contiguous` along the memory that is read and `last` along the memory that is written, so
/// that whole cache lines of both are used while they are in the L1 cache.
void TransposeTile(Schedule& sch, const LoopRV& contiguous, const LoopRV& last);

/// Schedules an element-wise, broadcasting or data-moving block at the root.
void ScheduleInjective(Schedule& sch, const BlockRV& block);
/// Schedules a contraction (einsum-like sum of products) that no kernel has computed. False, with nothing changed, if
/// the block is none. If a ScheduleError is thrown, the schedule may be incomplete.
bool ScheduleContraction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue,
                         const schedule::Machine& machine);
/// Schedules the product of one row with a matrix, row by row of the matrix; `epilogue` may be null. False if the block
/// isn't that; the schedule may be incomplete then, or if a ScheduleError is thrown.
bool ScheduleRowProduct(Schedule& sch, const BlockRV& block, BlockRV epilogue, const schedule::Machine& machine);
/// Schedules any other reduction; `epilogue` (may be null) consumes the result element by element.
void ScheduleReduction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue);
/// Schedules a softmax of contiguous rows row by row; `output` is the block that divides by the sums. Adds its blocks
/// to `done`. False, with nothing changed, if it isn't a softmax.
bool ScheduleSoftmax(Schedule& sch, const BlockRV& output, std::set<std::string>* done);
/// The block that writes a kernel's results: the epilogue of its anchor, or a copy to the output; with `fused_spatial`,
/// the only consumer of the anchor. The kernel takes it (Stages::Take).
BlockRV OutputOf(Schedule& sch, schedule::Stages& stages, bool fused_spatial = false);
/// Computes the padded input of a convolution on NCHW..c under `loop`, in vectors of channels.
void PadAt(Schedule& sch, const BlockRV& pad, const LoopRV& loop);
/// Schedules windows over single channels (depthwise convolution, pooling) on NCHW..c: the padded input (`pad`, may be
/// null) of `oh_block` output rows is computed at a time, and `tile_ow` neighbouring outputs in registers; `columns` of
/// windows that are reduced first (may be null) for each row.
void ScheduleChannelWindow(Schedule& sch, const BlockRV& block, const BlockRV& output, const BlockRV& pad,
                           int64_t oh_block, int64_t tile_ow, const BlockRV& columns = {});
/// Where pooling reduces the columns of its windows first, the block that does; else null.
BlockRV ColumnsOf(Schedule& sch, const BlockRV& block);
/// Reduces columns under `loop` in registers, `lanes` neighbours at a time, or all of the last axis for 0.
void ReduceColumnsAt(Schedule& sch, const BlockRV& columns, const LoopRV& loop, int64_t lanes);
/// Schedules pooling on NCHW..c.
void SchedulePool(Schedule& sch, const BlockRV& block, BlockRV epilogue, const schedule::Machine& machine);
/// Schedules windows of pooling along rows of images (NC spatial), a vector of neighbouring results at a time;
/// `epilogue` may be null. False if the block isn't that; the schedule may be incomplete if a ScheduleError is thrown.
bool ScheduleRowPool(Schedule& sch, const BlockRV& block, BlockRV epilogue);
/// Schedules sums of elements whose places are read from a table, a vector of neighbouring results at a time;
/// `epilogue` may be null. False if the block isn't that; the schedule may be incomplete if a ScheduleError is thrown.
bool ScheduleSumOfLookups(Schedule& sch, const BlockRV& block, BlockRV epilogue);
/// The block that pads the input of `block`, if there is one.
BlockRV PaddingOf(Schedule& sch, const BlockRV& block);
/// Output rows, out of `rows` (-1: dynamic), whose padded input is computed at a time, just before its use.
int64_t RowsAtOnce(int64_t rows);
/// The register tile of convolutions in NCHW: output channels that share the loads of the input, and the lanes of a
/// vector of neighbouring outputs. `width` is that of a row; -1: dynamic.
struct RowTile {
  int64_t channels, lanes;
};
RowTile ChooseRowTile(int64_t channels, int64_t width);

}  // namespace cpu
}  // namespace treadle::ops
