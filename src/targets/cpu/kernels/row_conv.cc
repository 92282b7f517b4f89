// SPDX-License-Identifier: Apache-2.0
// Convolutions in NCHW as the operator computes them (conv2d.plain), for channels that don't fill blocks. Register
// tiles are vectors of neighbouring outputs in a row, for a few output channels that share the loads of the input.
#include <algorithm>
#include <cmath>

#include "ops/conv.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::ops::cpu {
namespace {

/// Shorter rows are sums like any others.
constexpr int64_t kLeastWidth = 4;
constexpr int64_t kMostLanes = 32;

class RowConvPlanNode : public PlanNode {
 public:
  int64_t tile_oc = 1, lanes = 0;
  TREADLE_NODE(RowConvPlanNode, PlanNode, "schedule.RowConvPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("tile_oc", &RowConvPlanNode::tile_oc).Doc("register tile: output channels that share loads of the input");
    r.Field("lanes", &RowConvPlanNode::lanes)
        .Doc("register tile: neighbouring outputs of a row, as one vector; 0: scheduled as sums of any kind are");
  }
};

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

/// Whether tiles of so many channels read the same inputs throughout: they are part of a group, or whole ones.
bool KeepsGroups(const RowConvProblemNode& p, int64_t tile_oc) {
  const int64_t of_group = std::max<int64_t>(1, p.oc / p.groups);
  return of_group % tile_oc == 0 || tile_oc % of_group == 0;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<RowConvProblemNode>();
  const auto& plan = *chosen.as<RowConvPlanNode>();
  if (plan.lanes == 0) return plan.tile_oc == 1 ? "" : "sums of any kind have no tiles of channels";
  if (plan.lanes < kLeastWidth || plan.lanes > kMostLanes || !IsPowerOfTwo(plan.lanes)) {
    return StrCat("vectors of ", plan.lanes, " outputs");
  }
  const bool divides = plan.tile_oc >= 1 && plan.tile_oc <= kMaxTileWidth && p.oc % plan.tile_oc == 0;
  return divides ? "" : StrCat("tiles of ", plan.tile_oc, " channels, of ", p.oc);
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<RowConvProblemNode>();
  std::vector<Plan> plans;
  auto add = [&](int64_t tile_oc, int64_t lanes) {
    plans.push_back(Make<Plan, RowConvPlanNode>([&](auto& plan) {
      plan.tile_oc = tile_oc;
      plan.lanes = lanes;
    }));
  };
  if (p.ow >= 0 && p.ow < kLeastWidth) {
    add(1, 0);
    return plans;
  }
  const RowTile usual = ChooseRowTile(p.oc, p.ow);
  add(usual.channels, usual.lanes);
  for (int64_t lanes = kLeastWidth; lanes <= kMostLanes; lanes *= 2) {
    // A row shorter than the vector is one of its own width, which has to be one register's.
    if (p.ow >= 0 && lanes > p.ow && (lanes >= 2 * p.ow || p.ow > machine.vector_lanes(32))) break;
    for (int64_t t = std::min<int64_t>(std::max<int64_t>(1, p.oc), kMaxTileWidth); t >= 1; --t) {
      const bool fits = p.oc % t == 0 && KeepsGroups(p, t) && FitsRegisters({t, 1}, lanes, machine);
      if (fits && (t != usual.channels || lanes != usual.lanes)) add(t, lanes);
    }
  }
  add(1, 0);
  return plans;
}

/// Cycles of a tile of `channels` vectors of `lanes` neighbouring outputs, of so many steps. In each, a vector of every
/// group's input and an element of the weight for each channel.
double TileOfCycles(const RowConvProblemNode& p, int64_t channels, int64_t lanes, double steps,
                    const Machine& machine) {
  const auto registers = std::ceil(static_cast<double>(lanes) / std::max(1, machine.vector_lanes(32)));
  const int64_t of_group = std::max<int64_t>(1, p.oc / p.groups);
  // Channels that aren't of whole groups find theirs one by one.
  const auto inputs =
      static_cast<double>(KeepsGroups(p, channels) ? std::max<int64_t>(1, channels / of_group) : channels);
  // Neighbouring outputs of a stride read elements that lie apart.
  const double loads = p.stride_w == 1 ? registers : Fitted().row_gather * static_cast<double>(lanes);
  const auto rows = static_cast<double>(channels);
  const double step = std::max({machine.fma_latency_cycles, rows * registers * machine.fma_cycles,
                                (inputs * loads + rows) * machine.load_cycles});
  return steps * step + Fitted().row_tile + Fitted().row_store * rows * registers;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const auto& p = *problem.as<RowConvProblemNode>();
  const auto& plan = *chosen.as<RowConvPlanNode>();
  if (p.oh < 0 || p.ow < 0 || p.batch < 0 || p.oc < 1 || plan.lanes == 0) return -1;
  const auto steps = static_cast<double>(p.ic / p.groups * p.kh * p.kw);
  // A row shorter than the vector is one of its own width; what is left of a longer one is computed one by one.
  const int64_t lanes = std::min(plan.lanes, p.ow), rest = p.ow % lanes;
  double row = static_cast<double>(p.ow / lanes) * TileOfCycles(p, plan.tile_oc, lanes, steps, machine);
  row += Fitted().row_rest * steps * static_cast<double>(rest * plan.tile_oc);
  const int64_t parts = p.batch * (p.oc / plan.tile_oc) * p.oh;
  // What the rows of a tile read stays in the L2 cache, or comes anew for each of its channels; so do weights.
  const double read = static_cast<double>(p.ic / p.groups * p.ih * p.iw * p.dtype.bytes());
  const bool near = read <= static_cast<double>(machine.l2_bytes);
  const double input = static_cast<double>(p.batch * (p.oc / plan.tile_oc)) * read *
                       (near ? machine.l2_cycles_per_byte : machine.beyond_l2_cycles_per_byte);
  const double weights =
      static_cast<double>(p.oc) * steps * static_cast<double>(p.weight_dtype.bytes()) * machine.weight_cycles_per_byte;
  const double alone = static_cast<double>(parts) * row + input + weights;
  return alone * (1 + LoadImbalance(parts, 1, 1, 1, ModelledThreads(machine))) / 2;
}

void Apply(Schedule& sch, Stages& stages, const Problem&, const Machine&, const Plan& chosen) {
  const auto& plan = *chosen.as<RowConvPlanNode>();
  const BlockRV block = stages.anchor();
  BlockRV epilogue = EpilogueOf(sch, block);
  if (epilogue.defined()) stages.Take(epilogue);
  if (plan.lanes == 0) return ScheduleReduction(sch, block, epilogue);
  const double work = Work(sch, block);
  if (!epilogue.defined()) epilogue = sch.CacheWrite(block, 0, "local");
  std::vector<LoopRV> out = sch.GetLoops(epilogue);  // n, oc, oh, ow
  TREADLE_ICHECK(out.size() == 4) << "outputs in NCHW have four loops";
  std::vector<LoopRV> oc = sch.Split(out[1], {kRest, PrimExpr(plan.tile_oc)});
  std::vector<LoopRV> ow = sch.Split(out[3], {kRest, PrimExpr(plan.lanes)});
  sch.Reorder({oc[0], out[2], ow[0], oc[1], ow[1]});
  ComputeTileOfRows(sch, block, ow[0], oc[1], {1}, 3);
  sch.Vectorize(ow[1]);
  FuseParallel(sch, {out[0], oc[0], out[2]}, work);
}

}  // namespace

void RegisterRowConv() {
  RowConvProblemNode::StaticTypeInfo();  // read from records before any was made
  Kernel kernel;
  kernel.name = kRowConv;  // what conv2d.plain computes is scheduled by this
  kernel.op = "";
  kernel.target = "cpu";
  kernel.plan_type = RowConvPlanNode::StaticTypeInfo();
  kernel.least_gain = 0.8;  // of plans that are no rule of thumb's
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
