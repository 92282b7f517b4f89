// SPDX-License-Identifier: Apache-2.0
// Direct two-dimensional convolutions on channel-blocked activations (NCHW16c). The block of output channels fills a
// vector register, and one input element, broadcast, is multiplied by a vector of weights. The loops around the
// register tiles (cpu.h) are ordered so that what is reused stays in the nearest cache. The data are float32; kernels
// of other types (byte_conv.cc, pair_conv.cc) use the computation and the schedule with words in the place of floats.
#include <algorithm>
#include <cmath>

#include "ops/infer.h"
#include "targets/cpu/kernels/conv_compute.h"
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {
namespace {

using te::Tensor;
using te::Var;

constexpr const char* kName = kDirectConv;

/// Where threads find less to do than this many parts, pixels are divided among them too.
constexpr int64_t kMinParallel = 16;

// ---- The computation ----

/// The element of blocked `data` at that row and column. `channels` says where each input channel is; none: its block.
PrimExpr ElementOf(const ConvReduceAxes& axes, const Tensor& data, const std::optional<Tensor>& channels,
                   const PrimExpr& n, const PrimExpr& oc, const PrimExpr& row, const PrimExpr& column) {
  if (!channels) return data(n, axes.InputBlock(oc), row, column, axes.ii->var);
  // Blocks are of 8 or 16 channels, no index is negative.
  const int64_t block = *AsConstInt(data->shape[4]);
  const PrimExpr place = tir::cast(DataType::Int(64), (*channels)(axes.InputBlock(oc)));
  return data(n, tir::right_shift(place, PrimExpr(int64_t{block == 16 ? 4 : 3})), row, column,
              tir::bitwise_and(place, PrimExpr(block - 1)));
}

/// A convolution of plain data: few input channels.
Array<Tensor> PlainInputCompute(const Problem& problem, const Conv2DAttrs* a, const Tensor& data, const Tensor& kernel,
                                const TensorTypeNode* type) {
  te::IterVar ic = te::ReduceAxis(tir::Range(kernel->shape[1]), "ic");
  te::IterVar kh = te::ReduceAxis(tir::Range(kernel->shape[2]), "kh");
  te::IterVar kw = te::ReduceAxis(tir::Range(kernel->shape[3]), "kw");
  return {te::Compute(
      type->shape,
      [&](const Array<Var>& i) {
        PrimExpr value = data(i[0], ic->var, PrimExpr(i[2]) * a->strides[0] + PrimExpr(kh->var) * a->dilation[0],
                              PrimExpr(i[3]) * a->strides[1] + PrimExpr(kw->var) * a->dilation[1]);
        PrimExpr weight = kernel(i[1], ic->var, kh->var, kw->var, i[4]);
        return te::Sum(tir::cast(type->dtype, value) * tir::cast(type->dtype, weight), {ic, kh, kw});
      },
      "conv2d_NCHWc", "conv2d_NCHWc", AnchorAttrs(kName, "sum", problem), {"n", "oc", "oh", "ow", "oci"})};
}

Problem ProblemOf(const Conv2DAttrs* a, const Array<Tensor>& inputs, const TensorTypeNode* type) {
  constexpr size_t kBlockedRank = 5;
  const Tensor &data = inputs[0], &kernel = inputs[1];
  return Make<Problem, ConvProblemNode>([&](auto& p) {
    SetConvProblem(a, data, kernel, type, &p);
    if (data.ndim() == kBlockedRank) {
      p.indexed_ic = inputs.size() > 2;
      p.data_ic = p.indexed_ic ? p.ic : 0;
      p.ic_block = DimValue(kernel->shape[4]);
      p.ic = DimValue(kernel->shape[1]) * p.ic_block * p.groups;
    }
  });
}

/// data: (N, IC/ib, H, W, ib), or plain (N, IC, H, W); kernel: (OC/ob, IC/groups/ib, KH, KW, ib, ob), or
/// (OC/ob, IC, KH, KW, ob) for plain data. Result: (N, OC/ob, OH, OW, ob). A third input says where in the data each
/// input channel is; then ib of the kernel is 1.
Array<Tensor> BlockedConv2dCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<Conv2DAttrs>();
  const auto* type = out_type.as<TensorTypeNode>();
  if (inputs.size() == 2) CheckBlocked(inputs[0], inputs[1], type, false);
  Tensor data = PadSpatial(inputs[0], NormalizePadding(a->padding, 2, true), kName);
  Tensor kernel = inputs[1];
  const Problem problem = ProblemOf(a, inputs, type);
  if (data.ndim() != 5) return PlainInputCompute(problem, a, data, kernel, type);
  std::optional<Tensor> channels;
  if (inputs.size() > 2) channels = inputs[2];
  const ConvReduceAxes axes(a, kernel);
  auto term = [&](const Tensor& from, const PrimExpr& n, const PrimExpr& oc, const PrimExpr& row,
                  const PrimExpr& column, const PrimExpr& lane) {
    const PrimExpr value = ElementOf(axes, from, channels, n, oc, row, column);
    return tir::cast(type->dtype, value) * tir::cast(type->dtype, axes.Weight(kernel, oc, lane));
  };
  return DirectConvSums(problem, a, data, kernel, type, axes, term);
}

// ---- Plans and what they cost ----

/// Strips of rows; within them, groups of tiles of output channels; for each, chunks of input channels.
class DirectConvPlanNode : public PlanNode {
 public:
  int64_t oh_block = 1, tile_ow = 1, tile_oc = 1, oc_group = 1, ic_chunk = 0;
  bool skip_padding = false, pad_strips = false;
  TREADLE_NODE(DirectConvPlanNode, PlanNode, "schedule.DirectConvPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("oh_block", &DirectConvPlanNode::oh_block)
        .Doc("rows of outputs in a strip; outputs, where all of an image of dynamic size are one row");
    r.Field("tile_ow", &DirectConvPlanNode::tile_ow).Doc("register tile: neighbouring outputs");
    r.Field("tile_oc", &DirectConvPlanNode::tile_oc).Doc("register tile: blocks of output channels");
    r.Field("oc_group", &DirectConvPlanNode::oc_group)
        .Doc("tiles of output channels that are innermost over one chunk of input channels");
    r.Field("ic_chunk", &DirectConvPlanNode::ic_chunk)
        .Doc("blocks of input channels that are summed at a time; 0: all");
    r.Field("skip_padding", &DirectConvPlanNode::skip_padding)
        .Doc("input channels that only pad blocks aren't read: where each of the others lies is looked up");
    r.Field("pad_strips", &DirectConvPlanNode::pad_strips)
        .Doc("the padded input of a strip is made just before its use, and a strip is the work of one thread");
  }
};

/// What costs depend on, in blocks of channels.
struct ConvSizes {
  int64_t batch, oh, ow;
  int64_t oc_blocks, oc_block, oc_blocks_per_group;
  int64_t ic_blocks;          ///< of one group
  int64_t macs_per_ic_block;  ///< for each output
  bool selects;               ///< channels are looked up
  double input_bytes = 0, weight_bytes = 0;
  bool fused_spatial;

  explicit ConvSizes(const ConvProblemNode& p)
      : batch(std::max<int64_t>(1, p.batch)),
        oh(p.oh),
        ow(p.ow),
        oc_blocks(p.oc / p.oc_block),
        oc_block(p.oc_block),
        oc_blocks_per_group(oc_blocks / p.groups),
        ic_blocks(p.ic / p.groups / std::max<int64_t>(1, p.ic_block)),
        macs_per_ic_block(p.kh * p.kw * std::max<int64_t>(1, p.ic_block)),
        selects(p.indexed_ic),
        fused_spatial(FusesSpatial(p)) {
    if (p.ic_block == 0) return;  // plain data: few channels
    // Channels of the weight are floats, or words of four bytes.
    const int64_t bytes = 4, data_ic = p.data_ic != 0 ? p.data_ic : p.ic;
    const auto used = static_cast<double>(bytes * ic_blocks * macs_per_ic_block * std::max<int64_t>(0, oh * ow));
    const double stored = p.ih < 0 || p.iw < 0
                              ? 0
                              : static_cast<double>(bytes * data_ic) * static_cast<double>(p.ih + p.pad_t + p.pad_b) *
                                    static_cast<double>(p.iw + p.pad_l + p.pad_r);
    input_bytes = std::min(used, stored);
    weight_bytes = static_cast<double>(bytes * oc_blocks * oc_block * ic_blocks * macs_per_ic_block);
  }
  /// Outputs in a row that tiles divide, of strips of `oh_block`.
  int64_t RowWidth(int64_t oh_block) const { return fused_spatial && oh_block > 0 ? oh_block * ow : ow; }
};

/// Whether channels that only pad blocks of the input can be skipped: then where each channel lies is looked up.
bool CanSkipPadding(const ConvProblemNode& p) {
  const bool whole_blocks = p.groups == 1 && p.ic_block > 1 && !p.indexed_ic && p.dtype == DataType::Float(32);
  return whole_blocks && p.weight.defined() && p.weight.shape()[1] < p.ic;
}

/// The sizes of what a plan of `p` computes.
ConvSizes SizesOf(const ConvProblemNode& p, bool skip_padding) {
  if (!skip_padding) return ConvSizes(p);
  ConvProblemNode skipping = p;
  skipping.indexed_ic = true;
  skipping.data_ic = p.ic;
  skipping.ic = p.weight.shape()[1];
  skipping.ic_block = 1;
  return ConvSizes(skipping);
}

/// Whether a tile is all outputs of a group: then strips belong to groups, too, and pad what they read themselves, as
/// little is computed per element of it. Where channels are looked up, each group would pad all of the input.
bool PadsByGroups(const ConvSizes& s, const DirectConvPlanNode& plan) {
  return s.oc_blocks_per_group < s.oc_blocks && s.oc_blocks_per_group == plan.tile_oc && plan.ic_chunk == 0 &&
         !s.fused_spatial && !s.selects;
}

/// Whether strips of an image may pad what they read themselves: those of groups do it as it is, and plain data has few
/// channels, and a layout to be changed with the padding.
bool StripsMayPad(const ConvProblemNode& p) {
  return HasPadding(p) && p.is_static() && p.groups == 1 && p.ic_block != 0;
}

/// Whether the size is dynamic, and all outputs one row: strips are outputs of it.
bool OpenStrips(const ConvSizes& s) { return s.fused_spatial && (s.oh < 0 || s.ow < 0); }

/// Outputs of such a strip: the inputs and the results of a pass stay in the L2 cache. So many tiles make up for
/// loading the weights again; in images of fewer, each one more that isn't there is counted nevertheless.
int64_t OpenStrip(const ConvSizes& s, int64_t tile_ow, const Machine& machine) {
  constexpr int64_t kLeastTiles = 16, kMostTiles = 32;
  const int64_t bytes = 4 * (s.ic_blocks * s.macs_per_ic_block + s.oc_block);
  return std::clamp(machine.l2_bytes * 6 / 10 / bytes / tile_ow, kLeastTiles, kMostTiles) * tile_ow;
}

/// Tiles of a strip of `oh_block` rows that use the same weights.
int64_t WeightReuse(const ConvSizes& s, int64_t oh_block, int64_t tile_ow) {
  if (oh_block < 0 || s.ow < 0) return kSymbolicWidth;
  return s.fused_spatial ? oh_block * s.ow / tile_ow : oh_block * (s.ow / tile_ow);
}

/// The same of an image of usual size, where the size is dynamic.
int64_t UsualWeightReuse(const ConvProblemNode& p, const DirectConvPlanNode& plan) {
  const ConvSizes s(p);
  if (s.oh >= 0 && s.ow >= 0) return WeightReuse(s, plan.oh_block, plan.tile_ow);
  ConvSizes usual(OfUsualSize(p));
  usual.fused_spatial = s.fused_spatial;
  return std::max<int64_t>(1, WeightReuse(usual, usual.oh, plan.tile_ow));
}

/// Fewer tiles that use the same weights take no notice of where those come from.
constexpr int64_t kFewTiles = 3;

/// Bytes of the weights of a block of input channels that `blocks` blocks of output channels meet.
int64_t TileWeightBytes(const ConvSizes& s, int64_t blocks) { return s.macs_per_ic_block * blocks * s.oc_block * 4; }

/// Whether the weights of all input channels stay in the L1 cache, where inputs need room too.
bool WeightsStay(const ConvSizes& s, int64_t blocks, const Machine& machine) {
  return s.ic_blocks * TileWeightBytes(s, blocks) <= machine.l1_bytes * 3 / 4;
}

/// Blocks of input channels whose weights for a tile stay in the L1 cache; 0 where all do, or few tiles use them.
int64_t ChannelChunk(const ConvSizes& s, const RegisterTile& tile, int64_t weight_reuse, const Machine& machine) {
  if (weight_reuse < kFewTiles || WeightsStay(s, tile.blocks, machine)) return 0;
  const int64_t bytes = TileWeightBytes(s, tile.blocks);
  int64_t chunk = std::max<int64_t>(1, machine.l1_bytes / 2 / bytes);
  while (s.ic_blocks % chunk != 0) --chunk;
  return chunk == s.ic_blocks ? 0 : chunk;
}

/// Cycles of what passes between the L1 and L2 caches: sums of chunks of input channels, of which another pass makes
/// the results, or all weights for each tile.
double NearCycles(const ConvSizes& s, const DirectConvPlanNode& plan, const Machine& machine) {
  const double outputs = static_cast<double>(s.oh * s.ow), channels = static_cast<double>(s.oc_blocks * s.oc_block);
  const double results = machine.l2_cycles_per_byte * 4 * outputs * channels;
  if (plan.ic_chunk > 0) {
    const double vectors = outputs * channels / std::max(1, machine.vector_lanes(32));
    const double chunks = static_cast<double>(s.ic_blocks) / static_cast<double>(plan.ic_chunk);
    return results + vectors * machine.load_cycles * (chunks * Fitted().chunk_sum + Fitted().chunk_result);
  }
  const int64_t reuse = WeightReuse(s, plan.oh_block, plan.tile_ow);
  if (reuse < kFewTiles || WeightsStay(s, plan.tile_oc, machine)) return results;
  // The first tile of a strip loads them from further away.
  const double again = outputs / static_cast<double>(plan.tile_ow) * (1 - 1 / static_cast<double>(reuse));
  const auto bytes = static_cast<double>(s.ic_blocks * TileWeightBytes(s, plan.tile_oc));
  const bool near = bytes <= static_cast<double>(machine.l2_bytes) / 2;
  const double rate = near ? machine.l2_cycles_per_byte * Fitted().tile_weights : machine.beyond_l2_cycles_per_byte;
  return results + again * static_cast<double>(s.oc_blocks / plan.tile_oc) * bytes * rate;
}

/// Cycles of reading bytes several times: at first, and those that don't stay, from beyond the L2 cache.
double ReadCycles(double bytes, double times, bool stay, const Machine& machine) {
  const double again = stay ? machine.l2_cycles_per_byte * Fitted().tile_weights : machine.beyond_l2_cycles_per_byte;
  return bytes * (machine.beyond_l2_cycles_per_byte + (times - 1) * again);
}

/// Cycles of one image on one thread: of the multiply-adds, and of what passes from beyond the L1 cache.
double CyclesAlone(const ConvSizes& s, const DirectConvPlanNode& plan, double tile_cycles, const Machine& machine) {
  const double cache = static_cast<double>(machine.l2_bytes) * 0.6;
  const int64_t rows = plan.oh_block, group = plan.oc_group;
  const auto strips = static_cast<double>(CeilDiv(s.oh, rows));
  const double work = tile_cycles * static_cast<double>(s.ic_blocks * s.macs_per_ic_block * s.oc_blocks * s.oh) /
                      static_cast<double>(rows);
  const auto passes = static_cast<double>(s.oc_blocks_per_group / plan.tile_oc);
  const double strip = s.input_bytes * static_cast<double>(rows) / static_cast<double>(s.oh);
  const double sums = static_cast<double>(group * plan.tile_oc * s.oc_block * 4) * static_cast<double>(rows * s.ow);
  // What a pass stores takes room, too. Plans for machines whose memory's rate isn't known were compared without.
  const double stored_near = machine.memory_cycles_per_byte > 0 ? sums : 0;
  const double chunk = strip * static_cast<double>(plan.ic_chunk) / static_cast<double>(s.ic_blocks);
  const bool strip_stays = strip + (group > 1 ? sums : stored_near) <= cache;
  const bool chunk_stays = group > 1 ? chunk + sums <= cache : strip_stays;
  const double input_passes = chunk_stays ? std::ceil(passes / static_cast<double>(group)) : passes;
  const bool weights_stay = s.weight_bytes + strip + stored_near <= cache;
  return work + ReadCycles(s.input_bytes, input_passes, strip_stays, machine) +
         ReadCycles(s.weight_bytes, strips, weights_stay, machine) + NearCycles(s, plan, machine);
}

/// Cycles on one thread of making the padded input.
double PaddingCycles(const ConvProblemNode& p, const ConvSizes& s, const DirectConvPlanNode& plan,
                     const Machine& machine) {
  if (!HasPadding(p) || p.ic_block == 0) return 0;
  const bool by_groups = PadsByGroups(s, plan);
  const double strips = plan.pad_strips || by_groups ? static_cast<double>(CeilDiv(s.oh, plan.oh_block)) : 1;
  const int64_t groups = by_groups ? p.groups : 1, rows = strips > 1 ? plan.oh_block : s.oh;
  const int64_t channels = (p.data_ic != 0 ? p.data_ic : p.ic) / groups;
  return strips * static_cast<double>(groups) * StripCycles(p, rows, channels, 4, machine);
}

/// Cycles that all of `threads` take together where one takes `alone`.
double CyclesOfThreads(const ConvSizes& s, const DirectConvPlanNode& plan, double alone, int64_t threads,
                       const Machine& machine) {
  const auto count = static_cast<double>(threads);
  const int64_t rows = plan.oh_block, strips = CeilDiv(s.oh, rows);
  const int64_t parts = plan.pad_strips ? 1 : s.oc_blocks / (plan.tile_oc * plan.oc_group);
  double cycles = alone;
  // Where there are few parts, pixels are divided too.
  if (plan.ic_chunk > 0 || plan.pad_strips || s.batch * strips * parts >= kMinParallel) {
    const double last = static_cast<double>(s.oh - (strips - 1) * rows) / static_cast<double>(rows);
    cycles *= LoadImbalance(strips, last, parts, s.batch, threads);
  }
  // Threads that have rows of their own find them where they have left them, but all of them load all weights.
  if (s.batch * strips >= threads) return cycles + machine.weight_cycles_per_byte * count * s.weight_bytes;
  return cycles + machine.weight_cycles_per_byte * s.weight_bytes +
         machine.coherence_cycles_per_byte * (count - 1) * s.input_bytes;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<ConvProblemNode>();
  DirectConvPlanNode plan = *chosen.as<DirectConvPlanNode>();
  ConvSizes s = SizesOf(p, plan.skip_padding);
  const bool dynamic = s.oh < 0 || s.ow < 0;
  if (dynamic) {
    const bool fused_spatial = s.fused_spatial;
    s = SizesOf(OfUsualSize(p), plan.skip_padding);
    s.fused_spatial = fused_spatial;
    plan.oh_block = s.oh;
  }
  const int64_t width = s.RowWidth(plan.oh_block);
  const RegisterTile tile{plan.tile_ow, plan.tile_oc};
  double tile_cycles =
      dynamic ? DynamicRowCycles(tile, width, s.oc_block, machine) : TileCycles(tile, width, s.oc_block, machine);
  if (s.selects) {
    const auto tiles = static_cast<double>(CeilDiv(width, plan.tile_ow));
    tile_cycles += tiles * Fitted().tile_select / static_cast<double>(plan.tile_oc);
  }
  if (!s.fused_spatial) tile_cycles *= static_cast<double>(plan.oh_block);
  const double alone = CyclesAlone(s, plan, tile_cycles, machine) + (dynamic ? 0 : PaddingCycles(p, s, plan, machine));
  const int64_t threads = ModelledThreads(machine);
  // The time on one thread and that on all cores count alike.
  const double image = threads == 1 ? alone : (alone + CyclesOfThreads(s, plan, alone, threads, machine)) / 2;
  return static_cast<double>(s.batch) * image;
}

/// Adds plans that skip padding channels, or don't, of sizes `s`; `usual` ones where those are dynamic. `strips_pad`:
/// also those of strips that pad what they read.
void AddPlans(const ConvSizes& s, const ConvSizes& usual, bool skip_padding, bool strips_pad, const Machine& machine,
              std::vector<Plan>* plans) {
  constexpr int64_t kMaxStrips = 64;
  auto add = [&](int64_t rows, const RegisterTile& tile, int64_t group, int64_t chunk, bool pad_strips = false) {
    plans->push_back(Make<Plan, DirectConvPlanNode>([&](auto& plan) {
      plan.oh_block = rows;
      plan.tile_ow = tile.width;
      plan.tile_oc = tile.blocks;
      plan.oc_group = group;
      plan.ic_chunk = chunk;
      plan.skip_padding = skip_padding;
      plan.pad_strips = pad_strips;
    }));
  };
  const bool dynamic = s.oh < 0 || s.ow < 0;
  auto strips_of = [&](int64_t rows) {
    const int64_t width = dynamic && s.fused_spatial ? usual.oh * usual.ow : usual.ow;
    const RegisterTile tile = dynamic ? ChooseDynamicTile(width, s.oc_block, s.oc_blocks_per_group, machine)
                                      : ChooseTile(s.RowWidth(rows), s.oc_block, s.oc_blocks_per_group, machine);
    const int64_t chunk = ChannelChunk(s, tile, WeightReuse(s, rows, tile.width), machine);
    if (OpenStrips(s)) rows = OpenStrip(usual, tile.width, machine);
    add(rows, tile, 1, 0);
    if (strips_pad && rows < s.oh) add(rows, tile, 1, 0, true);
    if (chunk == 0 || (!dynamic && s.RowWidth(rows) == 1)) return;
    add(rows, tile, 1, chunk);
    // Groups that leave every thread several.
    const int64_t passes = s.oc_blocks_per_group / tile.blocks, strips = dynamic ? 1 : CeilDiv(s.oh, rows);
    const int64_t most = s.oc_blocks / tile.blocks * strips / (2 * std::max(1, machine.num_cores));
    for (int64_t group = 2; group <= std::min(passes, most); ++group) {
      if (passes % group == 0) add(rows, tile, group, chunk);
    }
  };
  if (dynamic) {
    strips_of(s.oh);
    return;
  }
  for (int64_t strips = 1; strips <= std::min(s.oh, kMaxStrips); ++strips) {
    const int64_t rows = CeilDiv(s.oh, strips);
    if (CeilDiv(s.oh, rows) == strips) strips_of(rows);
  }
}

std::vector<Plan> Space(const Problem& problem, const Machine& target) {
  Machine machine = target;
  // Products of int16 are in registers of their own before they are added.
  if (problem.as<ConvProblemNode>()->dtype == DataType::Int(16)) machine.vector_registers -= 2;
  std::vector<Plan> plans;
  const auto& p = *problem.as<ConvProblemNode>();
  const ConvProblemNode usual = OfUsualSize(p);
  const bool strips_pad = StripsMayPad(p);
  AddPlans(SizesOf(p, false), SizesOf(usual, false), false, strips_pad, machine, &plans);
  if (CanSkipPadding(p)) AddPlans(SizesOf(p, true), SizesOf(usual, true), true, strips_pad, machine, &plans);
  return plans;
}

std::string WhyNot(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (p.groups != 1 && p.not_blocked.empty()) return StrCat(p.groups, " groups");
  return WhyNotBlocked(p);
}

std::string WhyNotPlan(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& plan = *chosen.as<DirectConvPlanNode>();
  if (plan.skip_padding && !CanSkipPadding(*problem.as<ConvProblemNode>())) return "no channels only pad blocks";
  const ConvSizes s = SizesOf(*problem.as<ConvProblemNode>(), plan.skip_padding);
  const bool dynamic = s.oh < 0 || s.ow < 0;
  // A strip's loop has all of its outputs, also in images of fewer.
  constexpr int64_t kMostOutputs = 1 << 16;
  const bool open_strip = OpenStrips(s) && plan.oh_block > 0 && plan.oh_block <= kMostOutputs;
  if (dynamic ? plan.oh_block != s.oh && !open_strip : plan.oh_block < 1 || plan.oh_block > s.oh) {
    return StrCat("strips of ", plan.oh_block, " rows, of ", s.oh);
  }
  if (plan.tile_oc < 1 || s.oc_blocks_per_group % plan.tile_oc != 0) {
    return StrCat("tiles of ", plan.tile_oc, " blocks don't divide ", s.oc_blocks_per_group);
  }
  if (plan.tile_ow < 1 || plan.tile_ow > kMaxTileWidth || (!dynamic && plan.tile_ow > s.RowWidth(plan.oh_block))) {
    return StrCat("tiles of ", plan.tile_ow, " outputs");
  }
  if (!FitsRegisters({plan.tile_ow, plan.tile_oc}, s.oc_block, machine)) return "the tile exceeds the registers";
  if (plan.ic_chunk > 0 && !dynamic && s.RowWidth(plan.oh_block) == 1) return "chunks for rows of one output";
  if (plan.ic_chunk < 0 || (plan.ic_chunk > 0 && s.ic_blocks % plan.ic_chunk != 0)) {
    return StrCat("chunks of ", plan.ic_chunk, " blocks don't divide ", s.ic_blocks);
  }
  const bool strips = plan.oh_block < s.oh && plan.ic_chunk == 0;
  if (plan.pad_strips && !(strips && StripsMayPad(*problem.as<ConvProblemNode>()))) return "no strips that pad";
  const bool grouped = plan.oc_group == 1 || (plan.ic_chunk > 0 && plan.oc_group > 1 &&
                                              s.oc_blocks_per_group / plan.tile_oc % plan.oc_group == 0);
  return grouped ? "" : StrCat("groups of ", plan.oc_group, " tiles");
}

// ---- The schedule ----

/// Where the loops of a convolution lie: `output` has n, oc, oh, ow, oci; in `block`, `spatial_axes` stand for oh and
/// ow.
struct SpatialSum {
  BlockRV block, output;
  int spatial_axes;  ///< 2: oh, ow; 1: both fused
};

/// The loops of a convolution while it is scheduled.
struct ConvLoops {
  std::vector<LoopRV> out;       ///< n, oc, oh, ow, oci
  LoopRV strip, row;             ///< strip is null where there is one; the row that tiles divide
  std::vector<LoopRV> channels;  ///< groups of blocks, blocks
  int64_t tile_ow = 1, tile_oc = 1, oc_group = 1, ic_chunk = 0;
  std::vector<int> unrolled;    ///< axes of the block's output
  int64_t weight_reuse = 1;     ///< tiles that use the same weights
  int64_t prefetch_within = 0;  ///< tiles in which the next weights are prefetched; 0: all of a strip
  int64_t steps = 1;            ///< of the sums that are written out

  /// The loops that threads divide.
  std::vector<LoopRV> Outer() const {
    std::vector<LoopRV> outer{out[0]};
    if (strip.defined()) outer.push_back(strip);
    outer.push_back(channels[0]);
    return outer;
  }
};

/// Groups whose blocks of outputs make one tile: the padded input of a strip is made just before use.
void ScheduleGroups(Schedule& sch, const SpatialSum& conv, ConvLoops& loops, const BlockRV& pad, int64_t oh_block,
                    double work) {
  std::vector<LoopRV>& out = loops.out;
  std::vector<LoopRV> rows = sch.Split(out[2], {kRest, PrimExpr(oh_block)});
  std::vector<LoopRV> parts = sch.Split(loops.row, {kRest, PrimExpr(loops.tile_ow)});
  sch.Reorder({loops.channels[0], rows[0], rows[1], parts[0], loops.channels[1], parts[1], out[4]});
  ComputeTileOfRows(sch, conv.block, parts[0], parts[1], loops.unrolled, 2 + conv.spatial_axes, 1, loops.steps);
  sch.Vectorize(out[4]);
  sch.Unroll(loops.channels[1]);
  PadAt(sch, pad, rows[0]);
  FuseParallel(sch, {out[0], loops.channels[0], rows[0]}, work);
}

/// All of a sum at once. `strip_pad`: the padded input, where strips make it for themselves; else null.
void ScheduleAtOnce(Schedule& sch, const SpatialSum& conv, ConvLoops& loops, const BlockRV& strip_pad, double work) {
  std::vector<LoopRV>& out = loops.out;
  std::vector<LoopRV> parts = sch.Split(loops.row, {kRest, PrimExpr(loops.tile_ow)});
  std::vector<LoopRV> order{loops.channels[0]};
  if (loops.strip.defined()) order.insert(order.begin(), loops.strip);
  if (conv.spatial_axes == 2) order.push_back(out[2]);
  order.insert(order.end(), {parts[0], loops.channels[1], parts[1], out[4]});
  sch.Reorder(order);
  ComputeTileOfRows(sch, conv.block, parts[0], parts[1], loops.unrolled, 2 + conv.spatial_axes, 1, loops.steps);
  sch.Vectorize(out[4]);
  sch.Unroll(loops.channels[1]);
  if (strip_pad.defined()) {
    PrefetchWeights(sch, conv.block, parts[0], loops.weight_reuse);
    PadAt(sch, strip_pad, loops.strip);
    FuseParallel(sch, {out[0], loops.strip}, work);
    return;
  }
  std::vector<LoopRV> outer = loops.Outer();
  int64_t divided = 1;
  for (const LoopRV& loop : outer) divided *= std::max<int64_t>(1, Extent(sch, loop));
  const bool many = divided >= kMinParallel;
  if (many) PrefetchWeights(sch, conv.block, parts[0], loops.weight_reuse, false, loops.prefetch_within);
  if (conv.spatial_axes == 2 && !many) outer.push_back(out[2]);
  if (conv.spatial_axes == 1 && !many) outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// The sum over some input channels is added up for all positions, with weights from the L1 cache, before the next.
void ScheduleInChunks(Schedule& sch, const SpatialSum& conv, ConvLoops& loops, double work) {
  const int last = 1 + conv.spatial_axes, lanes = 2 + conv.spatial_axes;
  std::vector<LoopRV>& out = loops.out;
  const LoopRV steps = sch.GetLoops(conv.block)[static_cast<size_t>(lanes) + 1];
  LoopRV chunks = sch.Split(steps, {kRest, PrimExpr(loops.ic_chunk)})[0];
  BlockRV partial = sch.RFactor(chunks, 0);
  if (loops.strip.defined()) {
    std::vector<LoopRV> order{loops.strip, loops.channels[0], loops.channels[1]};
    if (conv.spatial_axes == 2) order.push_back(out[2]);
    order.insert(order.end(), {loops.row, out[4]});
    sch.Reorder(order);
  }
  sch.ComputeAt(conv.block, loops.channels[0]);
  std::vector<LoopRV> axes = LoopsUnder(sch, conv.block, loops.channels[0]);  // n, oc, positions, oci, chunk
  LoopRV sum = axes[static_cast<size_t>(lanes) + 1];
  std::vector<LoopRV> parts = sch.Split(axes[static_cast<size_t>(last)], {kRest, PrimExpr(loops.tile_ow)});
  std::vector<LoopRV> order{sum};
  LoopRV blocks = axes[1];
  if (blocks.defined() && loops.oc_group > 1) {
    std::vector<LoopRV> tiles = sch.Split(blocks, {kRest, PrimExpr(loops.tile_oc)});
    order.push_back(tiles[0]);
    blocks = tiles[1];
  }
  if (conv.spatial_axes == 2 && axes[2].defined()) order.push_back(axes[2]);
  order.push_back(parts[0]);
  if (blocks.defined()) order.push_back(blocks);
  order.insert(order.end(), {parts[1], axes[static_cast<size_t>(lanes)]});
  sch.Reorder(order);
  ComputeTile(sch, partial, parts[0], loops.unrolled, lanes, 1, loops.steps);
  sch.Vectorize(axes[static_cast<size_t>(lanes)]);
  sch.Unroll(parts[1]);
  if (blocks.defined()) sch.Unroll(blocks);
  PrefetchWeights(sch, partial, parts[0], loops.weight_reuse, false, loops.prefetch_within);
  sch.DecomposeReduction(conv.block, sum);
  sch.Vectorize(out[4]);
  FuseParallel(sch, loops.Outer(), work);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine& machine, const Plan& chosen) {
  const ConvSizes s(*problem.as<ConvProblemNode>());
  const auto& plan = *chosen.as<DirectConvPlanNode>();
  const SpatialSum conv{stages.anchor(), OutputOf(sch, stages, s.fused_spatial), s.fused_spatial ? 1 : 2};
  double work = Work(sch, conv.block);
  ConvLoops loops;
  loops.out = sch.GetLoops(conv.output);
  TREADLE_ICHECK(loops.out.size() == 5) << "blocked outputs have five loops";
  std::vector<LoopRV>& out = loops.out;
  loops.tile_ow = plan.tile_ow;
  loops.tile_oc = plan.tile_oc;
  loops.oc_group = plan.oc_group;
  loops.ic_chunk = plan.ic_chunk;
  loops.steps = StepsAtOnce({plan.tile_ow, plan.tile_oc}, s.oc_block, machine, s.selects);
  const BlockRV pad = stages.Find("pad");
  const bool by_groups = pad.defined() && PadsByGroups(s, plan);
  loops.weight_reuse = UsualWeightReuse(*problem.as<ConvProblemNode>(), plan);
  const bool open_strips = OpenStrips(s) && plan.oh_block > 0;
  if (plan.oh_block < s.oh && !open_strips && !by_groups) {
    std::vector<LoopRV> parts = sch.Split(out[2], {kRest, PrimExpr(plan.oh_block)});
    loops.strip = parts[0];
    out[2] = parts[1];
  }
  loops.row = s.fused_spatial ? sch.Fuse({out[2], out[3]}) : out[3];
  if (open_strips) {
    std::vector<LoopRV> parts = sch.Split(loops.row, {kRest, PrimExpr(plan.oh_block)});
    loops.strip = parts[0];
    loops.row = parts[1];
    // Images of half the usual size end before their strip does.
    loops.prefetch_within = std::min(CeilDiv(loops.weight_reuse, 2), plan.oh_block / plan.tile_ow);
  }
  loops.channels = sch.Split(out[1], {kRest, PrimExpr(plan.tile_oc * plan.oc_group)});
  // The inner of the two stays in registers while the outer passes.
  const int last = 1 + conv.spatial_axes;
  loops.unrolled = plan.tile_oc > plan.tile_ow ? std::vector<int>{1, last} : std::vector<int>{last, 1};
  if (by_groups) {
    ScheduleGroups(sch, conv, loops, pad, plan.oh_block < 1 ? RowsAtOnce(plan.oh_block) : plan.oh_block, work);
    return;
  }
  const bool pad_strips = pad.defined() && plan.pad_strips;
  if (pad.defined() && !pad_strips) ScheduleInjective(sch, pad);
  if (plan.ic_chunk == 0) {
    ScheduleAtOnce(sch, conv, loops, pad_strips ? pad : BlockRV(), work);
  } else {
    ScheduleInChunks(sch, conv, loops, work);
  }
}

std::optional<relay::LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& plan) {
  const auto& p = *problem.as<ConvProblemNode>();
  if (p.indexed_ic || plan.as<DirectConvPlanNode>()->skip_padding)
    return IndexedConv(request, p.weight, p.in_layout, p.out_layout, 1);
  if (!p.constant_weight) return BlockedConv(request, request.args.Plain(1), p.in_layout, p.out_layout, 1);
  return BlockedConv(request, p.padded_weight, p.in_layout, p.out_layout, 1);
}

}  // namespace

void RegisterDirectConv() {
  OpRegistration("nn.contrib_conv2d_NCHWc").Set(kCompute, FTECompute(BlockedConv2dCompute));
  OpRegistration("nn.contrib_conv2d_select_NCHWc").Set(kCompute, FTECompute(BlockedConv2dCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.plan_type = DirectConvPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"skip_padding"};
  kernel.least_gain = 0.99;
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
