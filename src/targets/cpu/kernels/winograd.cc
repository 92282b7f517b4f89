// SPDX-License-Identifier: Apache-2.0
// Winograd's method for 3 x 3 convolutions (float32, NCHW16c; Lavin and Gray 2015, see winograd_transform.h). An image
// is cut into strips of tile rows, so that the transformed input and the products of a strip stay in the L2 cache. Each
// strip is transformed, multiplied (one matrix product per point of the tile) and transformed back, followed by the
// epilogue.
#include <algorithm>
#include <cmath>

#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/winograd_compute.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "targets/cpu/schedule/cpu.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/transform.h"
#include "treadle/tir/loop_hints.h"

namespace treadle::ops::cpu {
namespace {

// ---- The computation ----

/// data: (N, IC/ib, H, W, ib), kernel: see WinogradWeight. Result: (N, OC/ob, OH, OW, ob).
Array<Tensor> WinogradCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* type = out_type.as<TensorTypeNode>();
  const auto* a = attrs.as<Conv2DAttrs>();
  const WinogradElements elements{
      tir::make_zero(type->dtype),
      [](const auto& input, const PrimExpr& channel, const PrimExpr& weight) { return input(channel) * weight; },
      OutputTransform<PrimExpr>, [](const PrimExpr& value, const PrimExpr&, const PrimExpr&) { return value; }};
  return WinogradSums(a, inputs[0], inputs[1], type, WinogradLoopsProblem(a, inputs[0], inputs[1], type), elements);
}

Type WinogradInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  CheckSameDType(data, context.Tensor(1, "weight"));
  return WinogradType(context, 1, data->dtype);
}

// ---- Plans and what they cost ----

/// How an image is cut.
class WinogradPlanNode : public schedule::PlanNode {
 public:
  int64_t side = 6, rows = 1, columns = 1;
  bool by_oc_block = true, parallel_strips = false;
  TREADLE_NODE(WinogradPlanNode, PlanNode, "schedule.WinogradPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("side", &WinogradPlanNode::side).Doc("inputs per side of a tile: 4 or 6, 5 for stride 2");
    r.Field("rows", &WinogradPlanNode::rows).Doc("rows of tiles in a strip");
    r.Field("columns", &WinogradPlanNode::columns)
        .Doc("tiles in each of its rows; divides those of the image; of images of dynamic size, tiles of a strip");
    r.Field("by_oc_block", &WinogradPlanNode::by_oc_block)
        .Doc("products of one block of output channels at a time; else of all");
    r.Field("parallel_strips", &WinogradPlanNode::parallel_strips)
        .Doc("parallel over strips; else over the steps inside of each");
  }
};

/// The problem of several groups with blocks of channels that each belong to one, in the layout in which the input
/// exists where that has such; the same problem where there are none.
Problem InGroups(const Problem& problem) {
  constexpr int64_t kBlock = 16;
  const auto& p = *problem.as<ConvProblemNode>();
  if (p.groups == 1 || p.oc_block != 0 || !p.not_blocked.empty() || p.ic <= 0) return problem;
  const int64_t ic = p.ic / p.groups, oc = p.oc / p.groups;
  const bool exists = p.in_layout.is_blocked() && p.in_layout.is_in_order() && ic % p.in_layout.block == 0;
  if (oc % kBlock != 0 || (!exists && ic % kBlock != 0)) return problem;
  auto grouped = MakeObject<ConvProblemNode>(p);
  if (!exists) grouped->in_layout = {kBlock};
  grouped->out_layout = {kBlock};
  grouped->ic_block = grouped->in_layout.block;
  grouped->oc_block = kBlock;
  return Problem(ObjectPtr<Object>(grouped));
}

bool IsDynamic(const ConvProblemNode& p) { return p.oh < 0 || p.ow < 0; }

/// Sizes in tiles. Those of an image whose size is dynamic are one row, as many as it usually has.
struct TileSizes {
  int64_t batch, rows, columns;  ///< of an image
  int64_t points;                ///< of a tile
  int64_t ic, oc_block, oc_blocks, groups;
  bool dynamic;

  TileSizes(const ConvProblemNode& p, int64_t side)
      : batch(std::max<int64_t>(1, p.batch)),
        rows(CeilDiv(OfUsualSize(p).oh, TileOf(side))),
        columns(CeilDiv(OfUsualSize(p).ow, TileOf(side))),
        points(side * side),
        ic(p.ic),
        oc_block(p.oc_block),
        oc_blocks(p.oc / p.oc_block),
        groups(p.groups),
        dynamic(IsDynamic(p)) {
    if (!dynamic) return;
    columns *= rows;
    rows = 1;
  }
  int64_t group_ic() const { return ic / groups; }
  int64_t group_blocks() const { return oc_blocks / groups; }
  int64_t panel() const { return 4 * group_ic() * oc_block; }  ///< bytes of a point's weights of a block
  double weight_bytes() const { return 4 * static_cast<double>(points * group_ic() * oc_block * oc_blocks); }
  double bytes(int64_t channels) const {
    return 4 * static_cast<double>(batch * points * rows * columns) * static_cast<double>(channels);
  }
};

/// The register tile of a plan.
RegisterTile TileOfPlan(const TileSizes& s, const WinogradPlanNode& plan, const Machine& machine) {
  return s.dynamic ? ChooseDynamicTile(s.columns, s.oc_block, s.group_blocks(), machine, s.panel())
                   : ChooseTile(plan.rows * plan.columns, s.oc_block, s.group_blocks(), machine, s.panel());
}

/// Cycles of a step of the products of all tiles of an image: of whole strips, and of one of the rest.
double ProductCycles(const TileSizes& s, const WinogradPlanNode& plan, const Machine& machine) {
  const int64_t tiles = plan.rows * plan.columns, strips = s.rows * s.columns / tiles;
  const int64_t rest = s.rows * s.columns % tiles;
  const RegisterTile tile = TileOfPlan(s, plan, machine);
  auto cycles = [&](int64_t width) {
    if (width == 0) return 0.0;
    if (s.dynamic) return DynamicRowCycles(tile, width, s.oc_block, machine, s.panel());
    return ChooseTile(width, s.oc_block, s.group_blocks(), machine, s.panel()).cycles;
  };
  return static_cast<double>(strips) * cycles(tiles) + cycles(rest);
}

/// Cycles on one thread: of the products, and of what passes from beyond the L2 cache.
double CyclesAlone(const TileSizes& s, const WinogradPlanNode& plan, const Machine& machine) {
  const auto cache = static_cast<double>(machine.l2_bytes);
  const int64_t tiles = plan.rows * plan.columns;
  const auto strips = static_cast<double>(CeilDiv(s.rows, plan.rows) * CeilDiv(s.columns, plan.columns));
  const RegisterTile tile = TileOfPlan(s, plan, machine);
  const double share = static_cast<double>(s.rows * s.columns) / static_cast<double>(tiles);
  const double work = ProductCycles(s, plan, machine) * static_cast<double>(s.points * s.group_ic() * s.oc_blocks);
  const auto per_channel = static_cast<double>(4 * s.points * tiles);
  const double input = per_channel * static_cast<double>(s.ic);
  const double product = per_channel * static_cast<double>(s.oc_block * (plan.by_oc_block ? tile.blocks : s.oc_blocks));
  double far = 0;
  if (input + product > cache * 0.8) {
    const int64_t passes = s.group_blocks() / tile.blocks;
    far = plan.by_oc_block ? input * static_cast<double>(passes) : 2 * (input + product);
  }
  const double readings = s.weight_bytes() > cache / 4 ? strips : 1;  // of the weights, from beyond the L2 cache
  // Those of a block of output channels are in a panel per point, far from the one before.
  const double panels = plan.by_oc_block ? readings * static_cast<double>(s.points * s.oc_blocks / tile.blocks) : 0;
  double weights = readings * s.weight_bytes();
  if (machine.memory_cycles_per_byte > 0) weights -= s.weight_bytes();  // the first time: AtRateOfMemory
  return static_cast<double>(s.batch) *
         (work + machine.beyond_l2_cycles_per_byte * (far * share + weights) + Fitted().winograd_panel * panels);
}

/// Cycles until `threads` threads are done, where one takes `alone`.
double CyclesOfThreads(const TileSizes& s, const WinogradPlanNode& plan, double alone, int64_t threads,
                       const Machine& machine) {
  const auto count = static_cast<double>(threads);
  const int64_t groups = CeilDiv(s.rows, plan.rows), columns = CeilDiv(s.columns, plan.columns);
  const double first_read = machine.memory_cycles_per_byte > 0 ? 0 : machine.weight_cycles_per_byte * s.weight_bytes();
  if (plan.parallel_strips) {
    // All load all weights, at the same time.
    const double last = static_cast<double>(s.rows - (groups - 1) * plan.rows) / static_cast<double>(plan.rows);
    return alone / count * LoadImbalance(groups, last, columns, s.batch, threads) + 2 * first_read;
  }
  const double input = s.bytes(s.ic), product = s.bytes(s.oc_block * s.oc_blocks);
  const RegisterTile tile = TileOfPlan(s, plan, machine);
  const int64_t parts = plan.by_oc_block ? s.oc_blocks / tile.blocks : s.points;
  const double crossing = plan.by_oc_block ? input * (count + 1) : 2 * (input + product);
  const double steps = static_cast<double>(s.batch * groups * columns) * (plan.by_oc_block ? 2 : 3);
  return alone / count * LoadImbalance(parts, 1, 1, 1, threads) + ForkJoinCycles(machine, threads) * steps +
         first_read / count + machine.coherence_cycles_per_byte * crossing * (1 - 1 / count) / count;
}

/// Where memory is the bound: few tiles use each weight, so that reading them is hidden behind little. `threads` that
/// have products of their own read parts of the weights, those that have strips of their own read all.
double AtRateOfMemory(const TileSizes& s, const WinogradPlanNode& plan, double cycles, int64_t threads,
                      const Machine& machine) {
  const auto share = static_cast<double>(plan.parallel_strips ? 1 : threads);
  const double memory = machine.memory_cycles_per_byte * s.weight_bytes() / share;
  return std::max(cycles, memory) + (memory > 0 ? Fitted().winograd_overlap * std::min(cycles, memory) : 0);
}

/// Cycles of the transforms of inputs and products, of padding the input, and of passing what they make through the L2
/// cache. The same for all strips: measured plans with and without room in the L1 cache differ by a tenth.
double TransformCycles(const TileSizes& s, int64_t side, const Machine& machine) {
  const int64_t outputs = s.oc_block * s.oc_blocks;
  const auto squares = static_cast<double>(s.batch * s.rows * s.columns * s.points);
  const double operations = squares * (Fitted().winograd_input * static_cast<double>(s.ic) +
                                       Fitted().winograd_output * static_cast<double>(outputs));
  const double transforms = operations / std::max(1, machine.vector_lanes(32)) * machine.fma_cycles +
                            Fitted().strip_l2_byte * (s.bytes(s.ic) + s.bytes(outputs));
  if (s.dynamic) return transforms;  // tiles are padded in registers
  const int64_t step = TileOf(side) * StrideOf(side), shared = side - step;
  const auto padded = static_cast<double>((s.rows * step + shared) * (s.columns * step + shared) * s.batch * s.ic * 4);
  return transforms + padded * (Fitted().strip_l2_byte +
                                Fitted().strip_pad * 8 / static_cast<double>(std::max(1, machine.vector_bits)));
}

double CyclesOf(const TileSizes& s, const WinogradPlanNode& p, const Machine& machine) {
  const int64_t threads = ModelledThreads(machine);
  const double alone = CyclesAlone(s, p, machine), transforms = TransformCycles(s, p.side, machine);
  const double one = AtRateOfMemory(s, p, alone + transforms, 1, machine);
  if (threads == 1) return one;
  // The time on one thread and that on all cores count alike.
  const auto count = static_cast<double>(threads);
  const double all = CyclesOfThreads(s, p, alone, threads, machine) + transforms / count;
  return (one + count * AtRateOfMemory(s, p, all, threads, machine)) / 2;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& plan) {
  const auto& p = *plan.as<WinogradPlanNode>();
  const Problem grouped = InGroups(problem);
  const auto& conv = *grouped.as<ConvProblemNode>();
  TileSizes s(conv, p.side);
  const bool changes = conv.in_layout != problem.as<ConvProblemNode>()->in_layout;
  const double usual = CyclesOf(s, p, machine) + (changes ? LayoutChangeCycles(conv, machine) : 0);
  if (!s.dynamic) return usual;
  // Images of twice the sides count as much as usual ones.
  constexpr int64_t kLarger = 4;
  s.columns *= kLarger;
  return (usual + CyclesOf(s, p, machine) / kLarger) / 2;
}

/// The transformed input of a strip should stay in the L2 cache beside products of one block of channels; where so few
/// tiles fit that weights would be loaded again and again, the strip is larger, and each point of the tile is
/// multiplied for all channels at once: the arithmetic intensity of what goes through slower memory is then the number
/// of channels.
void AddStrips(const TileSizes& s, int64_t side, const Machine& machine, std::vector<Plan>* plans) {
  constexpr int64_t kMaxTiles = 256, kMinTiles = 12, kMinParts = 4;
  const int64_t threads = ModelledThreads(machine);
  for (int64_t rows = 1; rows <= s.rows; ++rows) {
    for (int64_t parts = 1; parts <= s.columns; ++parts) {
      if (s.columns % parts != 0 || (parts > 1 && rows > 1)) continue;
      const int64_t columns = s.columns / parts;
      if (rows * columns > kMaxTiles && columns > 1) continue;
      if (rows * columns < 2) continue;  // the schedule has a loop over the tiles of a strip
      for (const bool by_oc_block : {true, false}) {
        const int64_t strips = CeilDiv(s.rows, rows) * parts;
        // Not known how many threads there will be: enough for some.
        if (threads == 1 && by_oc_block && strips < kMinParts && s.oc_blocks < 2 * kMinParts) continue;
        for (const bool parallel_strips : {true, false}) {
          if (parallel_strips && s.batch * strips == 1) continue;
          // Of few tiles each, all weights would be loaded by every thread for little.
          if (parallel_strips && threads > 1 && strips > 1 && rows * columns < kMinTiles) continue;
          if (threads == 1 && parallel_strips != (s.batch * strips == 2 || s.batch * strips >= kMinParts)) continue;
          plans->push_back(Make<Plan, WinogradPlanNode>([&](auto& plan) {
            plan.side = side;
            plan.rows = rows;
            plan.columns = columns;
            plan.by_oc_block = by_oc_block;
            plan.parallel_strips = parallel_strips;
          }));
        }
      }
    }
  }
}

/// Strips of an image of any size: some register tiles. Threads divide strips where weights are small, steps inside of
/// them where they are large: those are images of few tiles.
void AddDynamicStrips(const TileSizes& s, int64_t side, const Machine& machine, std::vector<Plan>* plans) {
  constexpr int64_t kMaxTiles = 256, kMinTiles = 12;
  const int64_t width = TileOfPlan(s, WinogradPlanNode(), machine).width;
  const bool small = s.weight_bytes() <= static_cast<double>(machine.l2_bytes);
  for (int64_t columns = RoundUp(kMinTiles, width); columns <= kMaxTiles; columns += width) {
    for (const bool by_oc_block : {true, false}) {
      plans->push_back(Make<Plan, WinogradPlanNode>([&](auto& plan) {
        plan.side = side;
        plan.columns = columns;
        plan.by_oc_block = by_oc_block;
        plan.parallel_strips = small;
      }));
    }
  }
}

/// The forms that the problem allows, those with the fewest products first.
std::vector<int64_t> SidesOf(const ConvProblemNode& p) {
  if (p.winograd_side != 0) return {p.winograd_side};
  return p.stride_h == 2 ? std::vector<int64_t>{kStridedSide} : std::vector<int64_t>{6, 4};
}

/// Whether weights, which exceed the L2 cache, are each used by so few tiles of a usual image that reading them takes
/// longer than computing with them, on machines whose memory's rate isn't known, too.
bool IsMostlyReading(const TileSizes& s, const Machine& machine) {
  constexpr int64_t kFewTiles = 8;
  return s.rows * s.columns < kFewTiles && s.weight_bytes() > static_cast<double>(machine.l2_bytes);
}

bool IsAccurate(const ConvProblemNode& p, int64_t side) {
  if (p.dtype != DataType::Float(32)) return true;  // integers are exact (byte_winograd.cc)
  const transform::Accuracy accuracy = transform::CurrentAccuracy();
  if (!p.padded_weight.defined()) return accuracy != transform::Accuracy::kStrict;
  return SampleWinogradError(p.padded_weight, side).Within(accuracy);
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const Problem grouped = InGroups(problem);
  const auto& p = *grouped.as<ConvProblemNode>();
  std::vector<Plan> plans;
  const std::vector<int64_t> sides = SidesOf(p);
  for (int64_t side : sides) {
    if (!IsAccurate(p, side)) continue;
    if (IsDynamic(p) && side != sides.back() && IsMostlyReading(TileSizes(p, side), machine)) continue;
    (IsDynamic(p) ? AddDynamicStrips : AddStrips)(TileSizes(p, side), side, machine, &plans);
  }
  return plans;
}

std::string WhyNot(const Problem& problem, const Machine&) {
  constexpr int64_t kLeast = 16;
  const Problem grouped = InGroups(problem);
  const auto& p = *grouped.as<ConvProblemNode>();
  if (std::string reason = WhyNotBlocked(p); !reason.empty()) return reason;
  if (std::string reason = WhyNotWinogradWindow(p, /*of_groups=*/true); !reason.empty()) return reason;
  if (!p.constant_weight) return "the weight isn't constant";
  if (p.ic_block == 0) return "the input isn't blocked";
  if (p.indexed_ic) return "channels of the input are in another order, with others between them";
  const int64_t ic = p.ic / p.groups, oc = p.oc / p.groups;
  if (ic < kLeast || oc < kLeast) return StrCat("fewer than ", kLeast, " channels", p.groups > 1 ? " in a group" : "");
  if (!transform::PassContext::Current()->GetConfigBool(kWinogradOption, true))
    return StrCat(kWinogradOption, " is off");
  if (transform::CurrentAccuracy() == transform::Accuracy::kStrict)
    return "accuracy is strict, and an infinity would make NaN of all results of its tile";
  for (int64_t side : SidesOf(p)) {
    if (IsAccurate(p, side)) return "";
  }
  const WinogradError error = SampleWinogradError(p.padded_weight, SidesOf(p).back());
  return StrCat("the error on sampled activations is ", error.of_plain, " times that of plain sums");
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& plan) {
  const Problem grouped = InGroups(problem);
  const auto& p = *grouped.as<ConvProblemNode>();
  const auto& w = *plan.as<WinogradPlanNode>();
  const std::vector<int64_t> sides = SidesOf(p);
  if (std::find(sides.begin(), sides.end(), w.side) == sides.end()) return StrCat("no form has side ", w.side);
  const TileSizes s(p, w.side);
  if (IsDynamic(p)) {
    if (w.rows != 1) return "of images of dynamic size, tiles are one row";
    return w.columns >= 2 ? "" : StrCat("a strip of ", w.columns, " tiles");
  }
  if (w.rows < 1 || w.rows > s.rows) return StrCat(w.rows, " rows in a strip of ", s.rows);
  if (w.columns < 1 || s.columns % w.columns != 0) return StrCat(w.columns, " tiles don't divide rows of ", s.columns);
  if (w.columns != s.columns && w.rows != 1) return "strips of several rows have whole rows";
  if (w.rows * w.columns < 2) return "a strip of one tile";
  return IsAccurate(p, w.side) ? "" : StrCat("side ", w.side, " isn't accurate for the weight");
}

// ---- The schedule ----

std::vector<LoopRV> Defined(const std::vector<LoopRV>& loops) {
  std::vector<LoopRV> result;
  for (const LoopRV& loop : loops) {
    if (loop.defined()) result.push_back(loop);
  }
  return result;
}

/// A transform in registers: all its points unrolled, channels as vectors. The last three axes are the points and the
/// channels.
void UnrollTransform(Schedule& sch, const BlockRV& block, const LoopRV& under) {
  std::vector<LoopRV> axes = LoopsUnder(sch, block, under);
  size_t n = axes.size();
  for (size_t i = n - 3; i < n - 1; ++i) {
    if (axes[i].defined()) sch.Unroll(axes[i]);
  }
  if (axes[n - 1].defined()) sch.Vectorize(axes[n - 1]);
}

/// Loops of the outputs, around the others.
struct OutputLoops {
  LoopRV batch, oc;
  LoopRV strip_row;  ///< null where tiles are one axis
  LoopRV strip, tile;
};

/// Strips, blocks of channels, tiles; their outputs are transformed in registers.
OutputLoops ScheduleOutput(Schedule& sch, const Stages& stages, const BlockRV& output, const WinogradPlanNode& plan,
                           int64_t blocks, bool dynamic) {
  const PrimExpr m(TileOf(plan.side));
  std::vector<LoopRV> out = sch.GetLoops(output);  // n, oc, oh, ow, oci
  TREADLE_ICHECK(out.size() == 5) << "blocked outputs have five loops";
  std::vector<LoopRV> oc = sch.Split(out[1], {kRest, PrimExpr(blocks)}), oh, ow;
  OutputLoops loops{out[0], oc[0], {}, {}, {}};
  if (dynamic) {
    oh = sch.Split(out[2], {kRest, m});
    ow = sch.Split(out[3], {kRest, m});
    sch.Reorder({oh[0], ow[0], oc[0], oc[1], oh[1], ow[1]});
    const std::vector<LoopRV> tiles = sch.Split(sch.Fuse({oh[0], ow[0]}), {kRest, PrimExpr(plan.columns)});
    sch.Reorder({tiles[0], oc[0], oc[1], tiles[1]});
    loops.strip = tiles[0];
    loops.tile = tiles[1];
    sch.Annotate(loops.tile, tir::attr::kPartitionWhole, IntImm(DataType::Int(64), 1));
  } else {
    oh = sch.Split(out[2], {kRest, PrimExpr(plan.rows), m});
    ow = sch.Split(out[3], {kRest, PrimExpr(plan.columns), m});
    sch.Reorder({oh[0], ow[0], oc[0], oc[1], oh[1], ow[1], oh[2], ow[2]});
    loops.strip_row = oh[0];
    loops.strip = ow[0];
    loops.tile = ow[1];
  }
  sch.Unroll(oh.back());
  sch.Unroll(ow.back());
  sch.Vectorize(out[4]);
  for (const char* role : {"tile", "columns"}) {
    sch.SetScope(stages.At(role), 0, "local");
    sch.ComputeAt(stages.At(role), loops.tile);
    UnrollTransform(sch, stages.At(role), loops.tile);
  }
  return loops;
}

/// Products of the points of a strip, of a block of channels or of all (`at`), in registers of `size`, with so many
/// `steps` of their sums written out, where strips usually have `usual` tiles (0: all have what the loops say). Gives
/// the loops over points.
std::vector<LoopRV> ScheduleProduct(Schedule& sch, const BlockRV& product, const BlockRV& store, const LoopRV& at,
                                    const RegisterTile& size, int64_t steps, int64_t usual) {
  std::vector<LoopRV> to = LoopsUnder(sch, store, at);  // i, j, n, oc, tile, oci
  std::vector<LoopRV> tiles = sch.Split(to[4], {kRest, PrimExpr(size.width)});
  std::vector<LoopRV> inner{tiles[0]};
  if (to[3].defined()) {
    std::vector<LoopRV> blocks = sch.Split(to[3], {kRest, PrimExpr(size.blocks)});
    inner = {blocks[0], tiles[0], blocks[1]};
    sch.Unroll(blocks[1]);
  }
  inner.insert(inner.end(), {tiles[1], to[5]});
  sch.Reorder(inner);
  ComputeTile(sch, product, tiles[0], {4, 3}, 5, 1, steps);
  sch.Vectorize(to[5]);
  sch.Unroll(tiles[1]);
  PrefetchWeights(sch, product, tiles[0], Extent(sch, tiles[0]), false, CeilDiv(usual, size.width));
  return {to[0], to[1]};
}

/// The transformed input of a strip: of each block of channels the padded input, then its tiles. Gives the loop over
/// blocks; null where there is one.
LoopRV ScheduleInput(Schedule& sch, const Stages& stages, const LoopRV& strip, int64_t columns, bool dynamic) {
  const BlockRV &input = stages.At("input"), &rows = stages.At("rows"), &pad = stages.At("pad");
  std::vector<LoopRV> in = LoopsUnder(sch, input, strip);  // i, j, n, cb, tile, ci
  std::vector<LoopRV> at{in[4]};
  if (!dynamic) at = sch.Split(in[4], {kRest, PrimExpr(columns)});
  std::vector<LoopRV> order{in[3]};
  order.insert(order.end(), at.begin(), at.end());
  order.insert(order.end(), {in[0], in[1], in[5]});
  sch.Reorder(Defined(order));
  sch.Unroll(in[0]);
  sch.Unroll(in[1]);
  sch.Vectorize(in[5]);
  sch.SetScope(rows, 0, "local");
  sch.ComputeAt(rows, at.back());
  UnrollTransform(sch, rows, at.back());
  const LoopRV pad_at = dynamic ? at.back() : in[3].defined() ? in[3] : strip;
  if (dynamic) sch.SetScope(pad, 0, "local");
  sch.ComputeAt(pad, pad_at);
  if (dynamic) {
    UnrollTransform(sch, pad, pad_at);
    sch.Annotate(pad_at, tir::attr::kPartitionWhole, IntImm(DataType::Int(64), 1));
  } else if (const LoopRV lanes = LoopsUnder(sch, pad, pad_at)[4]; lanes.defined()) {
    sch.Vectorize(lanes);
  }
  return in[3];
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& plan = *chosen.as<WinogradPlanNode>();
  const auto& p = *problem.as<ConvProblemNode>();
  const BlockRV product = stages.At("product");
  const double work = Work(sch, product);
  const std::vector<BlockRV> last = sch.GetConsumers(stages.At("tile"));
  TREADLE_ICHECK(last.size() == 1) << "a Winograd tile has one consumer";
  stages.Take(last[0]);

  const TileSizes sizes(p, plan.side);
  const bool dynamic = IsDynamic(p);
  const RegisterTile size = TileOfPlan(sizes, plan, machine);
  const BlockRV store = sch.CacheWrite(product, 0, "local");
  const OutputLoops out = ScheduleOutput(sch, stages, last[0], plan, size.blocks, dynamic);
  const LoopRV product_loop = plan.by_oc_block ? out.oc : out.strip;
  sch.ComputeAt(store, product_loop);
  // Now, as the tiles of registers reach beyond the end of a strip: no more is transformed than is used.
  sch.ComputeAt(product, product_loop);
  sch.ComputeAt(stages.At("input"), out.strip);
  const int64_t steps = StepsAtOnce(size, sizes.oc_block, machine);
  const int64_t usual = dynamic ? std::min(sizes.columns, plan.columns) : 0;
  const std::vector<LoopRV> points = ScheduleProduct(sch, product, store, product_loop, size, steps, usual);
  const LoopRV input_blocks = ScheduleInput(sch, stages, out.strip, plan.columns, dynamic);

  if (work < kParallelWork) return;
  if (plan.parallel_strips) {
    FuseParallel(sch, Defined({out.batch, out.strip_row, out.strip}), work);
    return;
  }
  if (input_blocks.defined()) sch.Parallel(input_blocks);
  if (!plan.by_oc_block) FuseParallel(sch, points, work);
  if (Extent(sch, out.oc) > 1) sch.Parallel(out.oc);
}

// ---- The graph ----

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& plan) {
  const Problem grouped = InGroups(problem);
  const auto& p = *grouped.as<ConvProblemNode>();
  const int64_t side = plan.as<WinogradPlanNode>()->side;
  const relay::Expr weight =
      WeightForms::Get(p.padded_weight, StrCat("winograd ", side, " ", p.ic_block, " ", p.oc_block),
                       [&] { return WinogradWeight(p.padded_weight, side, p.ic_block, p.oc_block); });
  static const Op op = Op::Get("nn.contrib_conv2d_winograd_NCHWc");
  const relay::CallNode* call = request.call;
  return relay::LaidOutCall{
      relay::Call(op, {request.args.Get(0, p.in_layout), weight},
                  BlockedAttrs(call->attrs.as<Conv2DAttrs>(), p.in_layout, "OIHW", p.out_layout), {}, call->span),
      p.out_layout};
}

}  // namespace

void RegisterWinograd() {
  transform::RegisterPassConfig(kWinogradOption, "bool",
                                "3 x 3 convolutions by Winograd's method where accurate (true)");
  OpRegistration("nn.contrib_conv2d_winograd_NCHWc")
      .Describe("Convolution of a 3 x 3 window on channel-blocked data, by Winograd's minimal filtering.")
      .Arguments({{"data", "Tensor", "The input (N, IC/ib, H, W, ib)."},
                  {"weight", "Tensor",
                   "The transformed kernel (a, a, OC/ob, IC/groups/ib, ib, ob); tiles are of a - 2; a = 5: of 2, with "
                   "stride 2."}})
      .AttrsType<Conv2DAttrs>()
      .SupportLevel(10)
      .Relation(Rule<WinogradInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(WinogradMacs))
      .Set(relay::kMacShare, relay::FMacShare(WinogradMacShare))
      .Set(kCompute, FTECompute(WinogradCompute));
  Kernel kernel;
  kernel.name = kWinogradConv;
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.handicap = 1 / 0.95;  // a less accurate result must be expected in 5 % less time
  kernel.plan_type = WinogradPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"side"};
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
