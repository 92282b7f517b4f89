// SPDX-License-Identifier: Apache-2.0
// nn.lstm and nn.gru, recurrent layers of float32 (operands: ops/recurrent.cc). For 16 units at a time, the products of
// the state with all gates are accumulated in a register tile, from which the new state is computed. Weights are packed
// in the order in which they are read, (units / 16, units, gates, 16), and stay in cache from step to step.
#include "ops/recurrent.h"

#include <algorithm>

#include "ops/loops.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/kernels/unit_panels.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/recurrent.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/mac_count.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(PackedRecurrentAttrs);

namespace cpu {
namespace {

using relay::Expr;
using relay::LaidOutCall;
using tir::Stmt;

constexpr int64_t kLanes = kPackedColumns;
const DataType kFloat = DataType::Float(32);

// ---- The problem and its plans ----

class RecurrentProblemNode : public schedule::ProblemNode {
 public:
  int64_t batch = 1, units = 1, gates = 4;
  DataType dtype = kFloat;
  TREADLE_NODE(RecurrentProblemNode, schedule::ProblemNode, "schedule.RecurrentProblem")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &RecurrentProblemNode::batch).Doc("-1: dynamic");
    r.Field("units", &RecurrentProblemNode::units);
    r.Field("gates", &RecurrentProblemNode::gates).Doc("4: LSTM, 3: GRU");
    r.Field("dtype", &RecurrentProblemNode::dtype);
  }
};

class RecurrentPlanNode : public PlanNode {
 public:
  int64_t rows = 1;
  bool share_panels = false;
  TREADLE_NODE(RecurrentPlanNode, PlanNode, "schedule.RecurrentPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("rows", &RecurrentPlanNode::rows)
        .Doc("samples of the batch in a register tile; what is left goes in tiles of 4 to 1");
    r.Field("share_panels", &RecurrentPlanNode::share_panels).Doc("whether threads share the units of each step");
  }
};

constexpr int64_t kMostRows = 8;

/// Rows of a tile whose sums fit the registers, beside the operands that stay while others pass.
int64_t MostRows(const RecurrentProblemNode& p, const Machine& machine) {
  int64_t rows = kMostRows;
  while (rows > 1 && !FitsRegisters({rows, p.gates}, kLanes, machine)) --rows;
  return rows;
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<RecurrentProblemNode>();
  const int64_t most =
      p.batch < 0 ? MostRows(p, machine) : std::min(MostRows(p, machine), std::max<int64_t>(1, p.batch));
  // Tiles that the batch divides into; else the largest.
  int64_t rows = most;
  for (int64_t r = most; p.batch > 0 && r > 1 && 2 * r > most; --r) {
    if (p.batch % r != 0) continue;
    rows = r;
    break;
  }
  // Threads share a step where it takes several times what beginning and ending a loop does.
  const double samples = static_cast<double>(std::max<int64_t>(1, p.batch));
  const double products = samples * static_cast<double>(p.gates * p.units) * static_cast<double>(p.units);
  const double cycles = products / std::max(1, machine.vector_lanes(32)) * machine.fma_cycles;
  const bool share = machine.num_cores > 1 && cycles > 8 * ForkJoinCycles(machine, ModelledThreads(machine));
  return {Make<Plan, RecurrentPlanNode>([&](auto& plan) {
    plan.rows = rows;
    plan.share_panels = share;
  })};
}

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<RecurrentProblemNode>();
  if (p.dtype != kFloat) return "numbers aren't float32";
  return machine.vector_lanes(32) < 4 ? "there are no vectors" : "";
}

std::string WhyNotPlan(const Problem&, const Machine&, const Plan& chosen) {
  const int64_t rows = chosen.as<RecurrentPlanNode>()->rows;
  return rows >= 1 && rows <= kMostRows ? "" : StrCat(rows, " rows at a time");
}

// ---- The computation ----

/// Writes the statements of one step.
class StepWriter {
 public:
  StepWriter(RecurrentCell cell, const PackedRecurrentAttrs* attrs, const Array<tir::Buffer>& in,
             const Array<tir::Buffer>& out)
      : cell_(cell),
        attrs_(attrs),
        x_(in[kRecurrentX]),
        weight_(in[kRecurrentWeight]),
        out_(out),
        gates_(GatesOf(cell)),
        units_(DimValue(out[1]->shape[1])),
        batch_(out[1]->shape[0]) {
    if (!is_lstm()) bias_ = in[static_cast<size_t>(StateOperand(cell)) - 1];
    if (resets()) reset_ = tir::DeclBuffer({batch_, Index(units_)}, kFloat, "reset", "global");
  }

  /// `steps` with what they need memory for.
  Stmt WithMemory(const Stmt& steps) const { return resets() ? Stmt(tir::Allocate(reset_, steps)) : steps; }

  /// Copies the initial states.
  Stmt InitStates(const Array<tir::Buffer>& states) const {
    Array<Stmt> parts;
    for (size_t s = 0; s < states.size(); ++s) {
      parts.push_back(ForUnits([&](const PrimExpr& b, const PrimExpr& unit) {
        return Store(out_[1 + s], Load(states[s], {b, unit}), {b, unit});
      }));
    }
    return tir::SeqStmt(parts);
  }

  Stmt Step(const PrimExpr& t) const {
    std::vector<Stmt> parts;
    for (const Gates& gates : Stages()) {
      const auto panel = [&](const PrimExpr& p, int64_t count) { return Panel(gates, t, p, count); };
      parts.push_back(ForPanels(units_, panel, attrs_->share_panels));
    }
    // The old state is overwritten only when all of it has been read.
    const Stmt keep = ForUnits([&](const PrimExpr& b, const PrimExpr& unit) {
      return Store(out_[1], Load(out_[0], {t, b, unit}), {b, unit});
    });
    parts.push_back(keep);
    return InOrder(parts);
  }

 private:
  /// What is computed for all units before what follows it, and the state that it multiplies.
  struct Gates {
    int64_t first, end;
    tir::Buffer state;
  };

  bool is_lstm() const { return cell_ == RecurrentCell::kLstm; }
  /// Whether a gate multiplies the state before the product of the last one.
  bool resets() const { return !is_lstm() && attrs_->resets_state; }
  std::vector<Gates> Stages() const {
    if (!resets()) return {{0, gates_, out_[1]}};
    return {{0, gates_ - 1, out_[1]}, {gates_ - 1, gates_, reset_}};
  }

  static Stmt Lanes(const std::function<Stmt(const PrimExpr&)>& body, int64_t count = kLanes) {
    return ForLanes(body, count, kLanes);
  }

  /// Of all units of all samples.
  Stmt ForUnits(const std::function<Stmt(const PrimExpr& b, const PrimExpr& unit)>& body) const {
    return Loop(batch_, "b", [&](const PrimExpr& b) -> Stmt {
      return ForPanels(units_, [&](const PrimExpr& p, int64_t count) {
        return Lanes([&](const PrimExpr& lane) { return body(b, p * Index(kLanes) + lane); }, count);
      });
    });
  }

  /// The units of panel `p`, of which the first `count` exist, for all samples.
  Stmt Panel(const Gates& gates, const PrimExpr& t, const PrimExpr& p, int64_t count) const {
    // What is left shares weights as far as it goes: tiles of 4, 3, 2, then one sample. Instead of one that is left
    // alone two tiles take a whole one and that.
    constexpr int64_t kRest = 4;
    Array<Stmt> parts;
    PrimExpr done = Index(0);
    for (int64_t rows = attrs_->rows; rows >= 1; rows = std::min<int64_t>(rows - 1, kRest)) {
      const PrimExpr first = done, left = batch_ - done;
      PrimExpr tiles = tir::floordiv(left, Index(rows));
      if (rows > kRest && rows + 1 < 2 * kRest) {
        const PrimExpr alone = tir::equal(tir::floormod(left, Index(rows)), Index(1));
        tiles = tir::max(tiles - tir::select(alone, Index(1), Index(0)), Index(0));
      }
      parts.push_back(Loop(tiles, StrCat("tile", rows),
                           [&](const PrimExpr& i) { return Tile(gates, t, p, count, first + i * Index(rows), rows); }));
      done = done + tiles * Index(rows);
    }
    return tir::SeqStmt(parts);
  }

  /// Into how many sums each of so many is divided: fewer would wait for each other, and more have no registers.
  static int64_t ChainsOf(int64_t sums) {
    constexpr int64_t kMostSums = 6;
    int64_t chains = 4;
    while (chains > 1 && chains * sums > kMostSums) chains /= 2;
    return chains;
  }

  /// Samples `first` and following.
  Stmt Tile(const Gates& gates, const PrimExpr& t, const PrimExpr& p, int64_t count, const PrimExpr& first,
            int64_t rows) const {
    constexpr int64_t kUnroll = 4;
    const int64_t chains = ChainsOf(rows * (gates.end - gates.first));
    tir::Buffer sums = tir::DeclBuffer({Index(rows), Index(gates_), Index(kLanes)}, kFloat, "sums", "local");
    tir::Buffer more =
        tir::DeclBuffer({Index(chains), Index(rows), Index(gates_), Index(kLanes)}, kFloat, "more_sums", "local");
    Array<Stmt> parts;
    auto for_sums = [&](Array<Stmt>* to, const std::function<Stmt(int64_t r, int64_t g)>& body) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t g = gates.first; g < gates.end; ++g) to->push_back(body(r, g));
      }
    };
    for_sums(&parts, [&](int64_t r, int64_t g) { return InitSums(sums, t, p, count, first, r, g); });
    // Of each chain but the first, the sums that it adds to.
    auto for_chains = [&](const std::function<Stmt(const Array<PrimExpr>& at, const Array<PrimExpr>& of_chain)>& body) {
      for (int64_t c = 1; c < chains; ++c) {
        for_sums(&parts, [&](int64_t r, int64_t g) {
          return Lanes([&](const PrimExpr& lane) -> Stmt {
            return body({Index(r), Index(g), lane}, {Index(c), Index(r), Index(g), lane});
          });
        });
      }
    };
    for_chains([&](const auto&, const auto& of_chain) { return Store(more, tir::make_zero(kFloat), of_chain); });
    auto products = [&](const PrimExpr& k, int64_t chain, Array<Stmt>* to) {
      for_sums(to, [&](int64_t r, int64_t g) {
        return Lanes([&](const PrimExpr& lane) -> Stmt {
          const tir::Buffer& into = chain == 0 ? sums : more;
          Array<PrimExpr> at{Index(r), Index(g), lane};
          if (chain != 0) at.insert(0, Index(chain));
          const PrimExpr h = Load(gates.state, {first + Index(r), k});
          return Store(into, Load(into, at) + h * Load(weight_, {p, k, Index(g), lane}), at);
        });
      });
    };
    parts.push_back(Loop(Index(units_ / kUnroll), "k", [&](const PrimExpr& k) -> Stmt {
      Array<Stmt> some;
      for (int64_t i = 0; i < kUnroll; ++i) products(k * Index(kUnroll) + Index(i), i % chains, &some);
      return tir::SeqStmt(some);
    }));
    for (int64_t k = units_ / kUnroll * kUnroll; k < units_; ++k) products(Index(k), 0, &parts);
    for_chains(
        [&](const auto& at, const auto& of_chain) { return Store(sums, Load(sums, at) + Load(more, of_chain), at); });
    for (int64_t r = 0; r < rows; ++r) parts.push_back(UpdateState(gates, sums, t, p, count, first, r));
    const Stmt all = tir::SeqStmt(parts);
    return tir::Allocate(sums, chains == 1 ? all : Stmt(tir::Allocate(more, all)));
  }

  /// Initialises the sums of gate `g` of sample first + r by what doesn't depend on the state: x, or the bias of the
  /// gate of GRU that x is added to later (GruOutput). Columns that are no units become zeros.
  Stmt InitSums(const tir::Buffer& sums, const PrimExpr& t, const PrimExpr& p, int64_t count, const PrimExpr& first,
                int64_t r, int64_t g) const {
    auto store = [&](const PrimExpr& lane, const PrimExpr& value) {
      return Store(sums, value, {Index(r), Index(g), lane});
    };
    Stmt given = Lanes(
        [&](const PrimExpr& lane) {
          const PrimExpr unit = p * Index(kLanes) + lane;
          const PrimExpr x = Load(x_, {t, first + Index(r), Index(g * units_) + unit});
          if (is_lstm() || g != gates_ - 1) return store(lane, x);
          const PrimExpr bias = Load(bias_, {unit});
          return store(lane, resets() ? x + bias : bias);
        },
        count);
    if (count == kLanes) return given;
    Stmt zeros = Lanes([&](const PrimExpr& lane) { return store(lane, tir::make_zero(kFloat)); });
    return tir::SeqStmt(Array<Stmt>{zeros, given});
  }

  /// Computes the new state of sample first + r from the sums of its gates.
  Stmt UpdateState(const Gates& gates, const tir::Buffer& sums, const PrimExpr& t, const PrimExpr& p, int64_t count,
                   const PrimExpr& first, int64_t r) const {
    const PrimExpr b = first + Index(r);
    auto of_units = [&](const std::function<Stmt(const std::vector<PrimExpr>&, const PrimExpr& unit)>& body) {
      return Lanes(
          [&](const PrimExpr& lane) {
            std::vector<PrimExpr> of_gates;
            for (int64_t g = 0; g < gates_; ++g) of_gates.push_back(Load(sums, {Index(r), Index(g), lane}));
            return body(of_gates, p * Index(kLanes) + lane);
          },
          count);
    };
    if (resets()) return ResetState(gates, of_units, t, b);
    if (!is_lstm()) {
      return of_units([&](const std::vector<PrimExpr>& of_gates, const PrimExpr& unit) {
        const PrimExpr candidate = Load(x_, {t, b, Index((gates_ - 1) * units_) + unit});
        return Store(out_[0], GruOutput(of_gates, candidate, Load(out_[1], {b, unit})), {t, b, unit});
      });
    }
    Stmt cell = of_units([&](const std::vector<PrimExpr>& of_gates, const PrimExpr& unit) {
      return Store(out_[2], LstmCell(of_gates, Load(out_[2], {b, unit})), {b, unit});
    });
    Stmt output = of_units([&](const std::vector<PrimExpr>& of_gates, const PrimExpr& unit) {
      return Store(out_[0], LstmOutput(of_gates, Load(out_[2], {b, unit})), {t, b, unit});
    });
    return tir::SeqStmt(Array<Stmt>{cell, output});
  }

  using OfUnits = std::function<Stmt(const std::function<Stmt(const std::vector<PrimExpr>&, const PrimExpr&)>&)>;
  /// Of the first gates, the state that the last one multiplies; gate z waits where the new state will stand. Of that
  /// gate, the new state.
  Stmt ResetState(const Gates& gates, const OfUnits& of_units, const PrimExpr& t, const PrimExpr& b) const {
    if (gates.first != 0) {
      return of_units([&](const std::vector<PrimExpr>& sums, const PrimExpr& unit) {
        const PrimExpr update = Load(out_[0], {t, b, unit});
        return Store(out_[0], GruMix(update, sums[2], Load(out_[1], {b, unit})), {t, b, unit});
      });
    }
    const Stmt update = of_units([&](const std::vector<PrimExpr>& sums, const PrimExpr& unit) {
      return Store(out_[0], tir::sigmoid(sums[0]), {t, b, unit});
    });
    const Stmt reset = of_units([&](const std::vector<PrimExpr>& sums, const PrimExpr& unit) {
      return Store(reset_, tir::sigmoid(sums[1]) * Load(out_[1], {b, unit}), {b, unit});
    });
    return InOrder({update, reset});
  }

  RecurrentCell cell_;
  const PackedRecurrentAttrs* attrs_;
  tir::Buffer x_, weight_, bias_ = tir::Buffer(ObjectPtr<Object>());
  tir::Buffer reset_ = tir::Buffer(ObjectPtr<Object>());  ///< states times gate r
  Array<tir::Buffer> out_;
  int64_t gates_, units_;
  PrimExpr batch_;
};

template <RecurrentCell kCell>
Array<Tensor> PackedCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  constexpr std::ptrdiff_t kState = StateOperand(kCell);
  constexpr std::ptrdiff_t kStates = kCell == RecurrentCell::kLstm ? 2 : 1;
  const auto* a = attrs.as<PackedRecurrentAttrs>();
  const TensorTypeNode* all = OutTensor(out_type, 0);
  const Array<PrimExpr> state{all->shape[1], all->shape[2]};
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> Stmt {
    const StepWriter writer(kCell, a, in, out);
    const Array<tir::Buffer> states(in.begin() + kState, in.begin() + kState + kStates);
    return writer.WithMemory(
        InOrder({writer.InitStates(states),
                 ForSteps(all->shape[0], a->reverse, [&](const PrimExpr& t) { return writer.Step(t); })}));
  };
  std::vector<Array<PrimExpr>> shapes{all->shape};
  shapes.resize(1 + static_cast<size_t>(kStates), state);
  const std::vector<DataType> dtypes(shapes.size(), all->dtype);
  return te::Extern(shapes, dtypes, inputs, body, "packed_recurrent", "packed_recurrent");
}

template <RecurrentCell kCell>
Type PackedInfer(const InferContext& context) {
  const auto *x = context.Tensor(kRecurrentX, "x"), *weight = context.Tensor(kRecurrentWeight, "weight");
  const auto* attrs = context.attrs<PackedRecurrentAttrs>();
  const Type result = InferRecurrent(context, kCell);
  const int64_t units = DimValue(OutTensor(result)->shape[2]);
  const std::vector<int64_t> expected{CeilDiv(units, kLanes), units, GatesOf(kCell), kLanes};
  CheckRank(weight, expected.size(), "weight");
  for (size_t i = 0; i < expected.size(); ++i) {
    if (DimValue(weight->shape[i]) != expected[i]) throw ShapeError("the weight isn't packed for so many units");
  }
  if (x->dtype != kFloat || weight->dtype != kFloat) throw DTypeError("x and weight must be float32");
  if (attrs->rows < 1 || attrs->rows > kMostRows) throw ShapeError("rows is out of range");
  return result;
}

/// (gates * units, units) as (units / 16, units, gates, 16); units that only fill the last panel are zeros.
Expr Pack(Expr weight, int64_t units, int64_t gates) {
  const int64_t panels = CeilDiv(units, kLanes);
  weight = MakeReshape(weight, std::vector<int64_t>{gates, units, units});
  if (units % kLanes != 0) {
    weight = MakePad(weight, {{0, 0}, {0, panels * kLanes - units}, {0, 0}}, ScalarConstant(kFloat, 0.0));
  }
  weight = MakeReshape(weight, std::vector<int64_t>{gates, panels, kLanes, units});
  return MakeTranspose(weight, {1, 3, 0, 2});
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<RecurrentProblemNode>();
  const auto& plan = *chosen.as<RecurrentPlanNode>();
  relay::LayoutArgs& args = request.args;
  Array<Expr> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    operands.push_back(i == kRecurrentWeight ? Pack(args.Plain(i), p.units, p.gates) : args.Plain(i));
  }
  const Attrs attrs = MakeAttrs<PackedRecurrentAttrs>([&](auto& a) {
    a.reverse = request.call->attrs_as<RecurrentAttrs>()->reverse;
    a.resets_state = request.call->attrs_as<RecurrentAttrs>()->resets_state;
    a.rows = plan.rows;
    a.share_panels = plan.share_panels;
  });
  const char* name = p.gates == GatesOf(RecurrentCell::kLstm) ? "nn.contrib_packed_lstm" : "nn.contrib_packed_gru";
  return LaidOutCall{CallOp(name, operands, attrs, request.call->span), {}};
}

double PackedMacs(const Attrs&, const Array<Type>& arguments, const Type&) {
  return Elements(ShapeOf(arguments[kRecurrentX])) * DimOf(arguments[kRecurrentWeight], 1);
}

template <RecurrentCell kCell>
void RegisterCell(const char* op, const char* name, const char* kernel_name, const char* text) {
  RecurrentOp(name, text, kCell, "(units / 16, units, gates, 16)")
      .AttrsType<PackedRecurrentAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackedInfer<kCell>>)
      .Set(relay::kMacCount, relay::FMacCount(PackedMacs))
      .Set(kCompute, FTECompute(PackedCompute<kCell>));
  Kernel kernel;
  kernel.name = kernel_name;
  kernel.op = op;
  kernel.target = "cpu";
  kernel.plan_type = RecurrentPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"rows", "share_panels"};
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace

Problem RecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args) {
  const bool is_lstm = call->op.as<OpNode>()->name == "nn.lstm";
  return Make<Problem, RecurrentProblemNode>([&](auto& p) {
    p.batch = DimValue(args.Type(kRecurrentX)->shape[1]);
    p.units = DimValue(args.Type(kRecurrentWeight)->shape[1]);
    p.gates = GatesOf(is_lstm ? RecurrentCell::kLstm : RecurrentCell::kGru);
    p.dtype = args.Type(kRecurrentX)->dtype;
  });
}

void RegisterRecurrent() {
  RecurrentProblemNode::StaticTypeInfo();
  RegisterCell<RecurrentCell::kLstm>("nn.lstm", "nn.contrib_packed_lstm", "lstm.packed",
                                     "nn.lstm with a packed weight.");
  RegisterCell<RecurrentCell::kGru>("nn.gru", "nn.contrib_packed_gru", "gru.packed", "nn.gru with a packed weight.");
}

}  // namespace cpu
}  // namespace treadle::ops
