// SPDX-License-Identifier: Apache-2.0
// Schedules for CPUs with vector registers.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"
#include "treadle/schedule/analysis.h"
#include "treadle/tir/schedule.h"

namespace treadle::ops {

tir::PrimFunc ScheduleForCpu(const tir::PrimFunc& func, const TargetFeatures& features);

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

/// Work below this many element operations stays on one thread: waking others costs microseconds.
inline constexpr double kParallelWork = 60000;

/// Rows whose width only the run tells are scheduled as if they had this many results.
inline constexpr int64_t kSymbolicWidth = 840;

/// Cycles of a byte that another core has written, or reads so that it must be fetched again to be overwritten: memory
/// may be as near. Of a byte of weights from memory, most of whose way is hidden. Measured on Zen 3.
inline constexpr double kOtherCore = 0.4, kFirstWeight = 0.06;

/// The largest of 16, 8, 4, 2 lanes that divides the extent and is worth a vector, else 0.
int VectorLanes(int64_t extent);
/// Fuses the loops and runs them in parallel if the work is worth it. Returns the fused loop.
LoopRV FuseParallel(Schedule& sch, const std::vector<LoopRV>& loops, double work);
/// How much longer than an even division takes, threads take for a parallel loop over `batch` times `outer` times
/// `inner` parts, where the last of `outer` takes `last` of the time of another: they begin with as many each.
double Unevenness(int64_t outer, double last, int64_t inner, int64_t batch, int64_t threads);

/// Results that are summed in registers at once: `width` neighbours of `blocks` blocks of channels.
struct RegisterTile {
  int64_t width, blocks;
  double cost = 0;  ///< cycles that one step of the sums takes for a row and one block of channels
};
/// The fastest tile for rows of `width` results of `channels` lanes, with `blocks` such rows sharing inputs.
RegisterTile ChooseTile(int64_t width, int64_t channels, int64_t blocks, const TargetFeatures& features);
/// Computes `block` under `tile` into registers: reductions outside, then the axes `rows` unrolled, then axis `vector`
/// as a vector (`blocks` of them, unrolled). `steps`: of the last reduction, written out where they divide it.
void ComputeTile(Schedule& sch, const BlockRV& block, const LoopRV& tile, const std::vector<int>& rows, int vector,
                 int64_t blocks = 1, int64_t steps = 1);
/// While `block` computes with weights for `repeats` tiles, fetches the weights of the next ones from memory: of a
/// network's weights few are in the caches when they are first used. `spread`: over the innermost loop, whose steps are
/// written out, too.
void PrefetchWeights(Schedule& sch, const BlockRV& block, const LoopRV& tile, int64_t repeats, bool spread = false);

/// Makes small tiles of two nested loops, `contiguous` along what is read and `last` along what is written, so that the
/// cache lines of both are used while they are in the first-level cache.
void TransposeTile(Schedule& sch, const LoopRV& contiguous, const LoopRV& last);

/// Element-wise, broadcasting and data-moving blocks at the root.
void ScheduleInjective(Schedule& sch, const BlockRV& block);
/// Reductions that have no schedule of their own; `epilogue` (may be null) consumes the result element by element.
void ScheduleReduction(Schedule& sch, const BlockRV& block, const BlockRV& epilogue);
/// Convolution and depthwise convolution on NCHW..c, pooling on NCHW..c: any reduction whose innermost spatial axis is
/// a block of channels and whose next one is the width.
void ScheduleBlockedWindow(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features);

/// Whether the function is a Winograd convolution with what follows it, and its schedule.
bool IsWinograd(Schedule& sch);
void ScheduleWinograd(Schedule& sch, const TargetFeatures& features);
/// Whether the function is attention, and its schedule.
bool IsAttention(Schedule& sch);
void ScheduleAttention(Schedule& sch, const TargetFeatures& features);
/// Whether the function is a product of weights of few bits, and its schedule.
bool IsBlockDense(Schedule& sch);
void ScheduleBlockDense(Schedule& sch, const TargetFeatures& features);
/// Where the loops of a convolution on NCHW..c lie: `output` has n, oc, oh, ow, oci; in `block`, `positions` axes stand
/// for oh and ow.
struct BlockedConv {
  BlockRV block, output;
  int positions;  ///< 2: oh, ow; 1: both in one
};
void ScheduleBlockedConv(Schedule& sch, const BlockedConv& conv, const TargetFeatures& features);
/// The block that adds zeros around what `block` reads, if there is one.
BlockRV PaddingOf(Schedule& sch, const BlockRV& block);
/// Rows in a strip, out of `rows` (-1: only the run tells), of which the padded input is made just before use.
int64_t StripRows(int64_t rows);
/// Pointwise convolution on NCHW..c: positions are one row, computed by block (n, oc, position, oci).
void ScheduleFlatWindow(Schedule& sch, const BlockRV& block, const TargetFeatures& features);

/// Convolutions in NCHW, for channels that don't divide into blocks.
void ScheduleRowWindow(Schedule& sch, const BlockRV& block, BlockRV epilogue);
/// Matrix products with a packed weight: (.., m, k) x (n / 16, k, 16).
void SchedulePackedDense(Schedule& sch, const BlockRV& block, BlockRV epilogue, const TargetFeatures& features);

}  // namespace cpu
}  // namespace treadle::ops
