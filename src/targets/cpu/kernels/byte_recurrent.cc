// SPDX-License-Identifier: Apache-2.0
// qnn.contrib_lstm, LSTM layers whose recurrent weight is int8 (operands: ops/byte_recurrent.cc). Before each step the
// states of all samples are quantised to uint8. Then, for 16 units at a time, the products of all gates are accumulated
// in registers, from which the new state is computed, as in the kernel of float32 (recurrent.cc).
//
// The weight's columns are in the order in which they are read, (units / 16, gates, 16). It is packed as words of four
// bytes along k, (units / 16, words, gates, 16), for dot products with the words of the states; on AVX2, constant
// weights become lists of words for each 8 columns (byte_lists.h).
#include "ops/byte_recurrent.h"

#include <algorithm>

#include "ops/loops.h"
#include "ops/macs.h"
#include "ops/recurrent.h"
#include "targets/cpu/kernels/byte_lists.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/kernels/unit_panels.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/recurrent.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/relay/constant_operands.h"
#include "treadle/relay/mac_count.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(PackedByteRecurrentAttrs);

namespace cpu {
namespace {

using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;
using tir::Stmt;

constexpr int64_t kHalves = kPackedColumns / kListBlock;  ///< lists of a panel and gate
constexpr int64_t kLanes = kPackedColumns, kGates = GatesOf(RecurrentCell::kLstm), kBytes = 4;
constexpr int64_t kPanelLists = kGates * kHalves;
const DataType kFloat = DataType::Float(32), kInt = DataType::Int(32), kByte = DataType::UInt(8);

int64_t PanelsOf(int64_t units) { return CeilDiv(units, kLanes); }
int64_t WordsOf(int64_t units) { return CeilDiv(units, kBytes); }

/// Operands of the packed forms; lists have their words behind the weight.
struct PackedOperands {
  int scale = kByteScale, zero = kByteZero, offset = kByteZero + 1, lengths = kByteZero + 2;
  explicit PackedOperands(bool listed) {
    if (!listed) return;
    for (int* operand : {&scale, &zero, &offset, &lengths}) ++*operand;
  }
};
constexpr int kLists = kByteWeight + 1;

// ---- The problem and its plans ----

class ByteRecurrentProblemNode : public schedule::ProblemNode {
 public:
  int64_t batch = 1, units = 1;
  bool listed = false;
  TREADLE_NODE(ByteRecurrentProblemNode, schedule::ProblemNode, "schedule.ByteRecurrentProblem")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("batch", &ByteRecurrentProblemNode::batch).Doc("-1: dynamic");
    r.Field("units", &ByteRecurrentProblemNode::units);
    r.Field("listed", &ByteRecurrentProblemNode::listed).Doc("whether lists of the weight's words pay");
  }
};

class ByteRecurrentPlanNode : public PlanNode {
 public:
  bool share_panels = false;
  TREADLE_NODE(ByteRecurrentPlanNode, PlanNode, "schedule.ByteRecurrentPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("share_panels", &ByteRecurrentPlanNode::share_panels).Doc("whether threads share the units of each step");
  }
};

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<ByteRecurrentProblemNode>();
  // Threads share a step where it takes several times what beginning and ending a loop does. Products of bytes take
  // about half as long as those of floats.
  const double products = static_cast<double>(std::max<int64_t>(1, p.batch) * kGates * p.units * p.units);
  const double cycles = products / std::max(1, machine.vector_lanes(32)) * machine.fma_cycles / 2;
  return {Make<Plan, ByteRecurrentPlanNode>([&](auto& plan) {
    plan.share_panels = machine.num_cores > 1 && cycles > 8 * ForkJoinCycles(machine, ModelledThreads(machine));
  })};
}

// ---- The computation ----

Stmt Lanes(const std::function<Stmt(const PrimExpr&)>& body, int64_t count = kLanes) {
  return ForLanes(body, count, kListBlock);
}

/// Writes the statements of one step.
class StepWriter {
 public:
  StepWriter(const PackedByteRecurrentAttrs* attrs, bool listed, const Array<tir::Buffer>& in,
             const Array<tir::Buffer>& out)
      : attrs_(attrs),
        listed_(listed),
        at_(listed),
        in_(in),
        out_(out),
        units_(DimValue(out[1]->shape[1])),
        steps_(in[kByteX]->shape[0]),
        batch_(out[1]->shape[0]),
        states_(
            tir::DeclBuffer({batch_, Index(kBytes * WordsOf(units_) * (attrs->complements ? 2 : 1))}, kByte, "states")),
        totals_(tir::DeclBuffer({batch_}, kInt, "totals")) {}

  Stmt All() const {
    Stmt steps = Loop(steps_, "step", [&](const PrimExpr& step) { return Step(step); });
    return tir::Allocate(states_, tir::Allocate(totals_, InOrder({InitStates(), steps})));
  }

 private:
  /// Copies the initial states, and clears the bytes of words beyond the last unit.
  Stmt InitStates() const {
    const int lengths = at_.lengths;
    std::vector<Stmt> parts{Loop(batch_, "b", [&](const PrimExpr& b) {
      return ForUnits([&](const PrimExpr& u) -> Stmt {
        return InOrder({Store(out_[1], Load(in_[static_cast<size_t>(lengths) + 1], {b, u}), {b, u}),
                        Store(out_[2], Load(in_[static_cast<size_t>(lengths) + 2], {b, u}), {b, u})});
      });
    })};
    const int64_t row = kBytes * WordsOf(units_), rest = row - units_;
    if (rest > 0) {
      parts.push_back(Loop(batch_, "b", [&](const PrimExpr& b) {
        return Loop(Index(attrs_->complements ? 2 : 1), "form", [&](const PrimExpr& form) {
          return Loop(Index(rest), "u", [&](const PrimExpr& u) {
            return Store(states_, tir::make_zero(kByte), {b, form * Index(row) + Index(units_) + u});
          });
        });
      }));
    }
    return InOrder(parts);
  }

  Stmt Step(const PrimExpr& step) const {
    const tir::Buffer range = tir::DeclBuffer({Index(2), Index(kLanes)}, kFloat, "range", "local");
    auto with_scale = [&](const PrimExpr& scale) {
      return LetIn("zero", StateZero(Load(range, {Index(0), Index(0)}), scale), [&](const PrimExpr& zero) {
        return InOrder({Loop(batch_, "b", [&](const PrimExpr& b) { return Quantise(step, b, scale, zero); }),
                        Panels(step, scale, zero), Loop(batch_, "b", [&](const PrimExpr& b) {
                          const SequencePlace place = Place(b, step);
                          return tir::IfThenElse(place.inside, ForUnits([&](const PrimExpr& u) {
                                                   return Store(out_[1], Load(out_[0], {place.element, b, u}), {b, u});
                                                 }));
                        })});
      });
    };
    const PrimExpr low = Load(range, {Index(0), Index(0)}), high = Load(range, {Index(1), Index(0)});
    return tir::Allocate(range, InOrder({Range(step, range), LetIn("scale", StateScale(low, high), with_scale)}));
  }

  SequencePlace Place(const PrimExpr& b, const PrimExpr& step) const {
    return PlaceIn(in_[static_cast<size_t>(at_.lengths)], b, step, steps_, attrs_->reverse);
  }

  /// Of all units, in vectors where they fill one.
  Stmt ForUnits(const std::function<Stmt(const PrimExpr& u)>& body) const {
    return ForPanels(units_, [&](const PrimExpr& p, int64_t count) {
      return Lanes([&](const PrimExpr& lane) { return body(p * Index(kLanes) + lane); }, count);
    });
  }

  /// The least and the largest state, or 0, in the first lanes.
  Stmt Range(const PrimExpr& step, const tir::Buffer& range) const {
    const PrimExpr none = tir::make_zero(kFloat);
    auto join = [&](const PrimExpr& lane, const PrimExpr& low, const PrimExpr& high) {
      const PrimExpr of_low = Load(range, {Index(0), lane}), of_high = Load(range, {Index(1), lane});
      return InOrder({Store(range, tir::min(of_low, low), {Index(0), lane}),
                      Store(range, tir::max(of_high, high), {Index(1), lane})});
    };
    const Stmt zeros = Lanes([&](const PrimExpr& lane) {
      return InOrder({Store(range, none, {Index(0), lane}), Store(range, none, {Index(1), lane})});
    });
    const Stmt all = Loop(batch_, "b", [&](const PrimExpr& b) {
      const Stmt of_sample = ForPanels(units_, [&](const PrimExpr& p, int64_t count) {
        const auto of_unit = [&](const PrimExpr& lane) {
          const PrimExpr h = Load(out_[1], {b, p * Index(kLanes) + lane});
          return join(lane, h, h);
        };
        return Lanes(of_unit, count);
      });
      return tir::IfThenElse(Place(b, step).counts, of_sample);
    });
    const Stmt ends = Loop(Index(kLanes), "lane", [&](const PrimExpr& lane) {
      return join(Index(0), Load(range, {Index(0), lane}), Load(range, {Index(1), lane}));
    });
    return InOrder({zeros, all, ends});
  }

  /// The bytes of a sample's state, their complements, and their sum.
  Stmt Quantise(const PrimExpr& step, const PrimExpr& b, const PrimExpr& scale, const PrimExpr& zero) const {
    const tir::Buffer sums = tir::DeclBuffer({Index(kLanes)}, kInt, "byte_sums", "local");
    const PrimExpr counts = Place(b, step).counts;
    auto unit = [&](const PrimExpr& p, int64_t count) {
      return Lanes(
          [&](const PrimExpr& lane) -> Stmt {
            const PrimExpr u = p * Index(kLanes) + lane;
            const PrimExpr byte = QuantisedState(Load(out_[1], {b, u}), scale, zero);
            std::vector<Stmt> parts{Store(states_, tir::cast(kByte, byte), {b, u}),
                                    Store(sums, Load(sums, {lane}) + byte, {lane})};
            if (attrs_->complements) {
              const PrimExpr turned = tir::cast(kInt, tir::floormod(lane, Index(2))) * Index32(255);
              parts.push_back(Store(states_, tir::cast(kByte, tir::bitwise_xor(byte, turned)),
                                    {b, Index(kBytes * WordsOf(units_)) + u}));
            }
            return InOrder(parts);
          },
          count);
    };
    const Stmt zeros = Lanes([&](const PrimExpr& lane) { return Store(sums, tir::make_zero(kInt), {lane}); });
    const Stmt total = Loop(Index(kLanes), "lane", [&](const PrimExpr& lane) {
      return Store(totals_, Load(totals_, {b}) + Load(sums, {lane}), {b});
    });
    return tir::IfThenElse(counts, tir::Allocate(sums, InOrder({zeros, ForPanels(units_, unit),
                                                                Store(totals_, tir::make_zero(kInt), {b}), total})));
  }
  static PrimExpr Index32(int64_t value) { return tir::make_const(kInt, value); }

  Stmt Panels(const PrimExpr& step, const PrimExpr& scale, const PrimExpr& zero) const {
    return ForPanels(
        units_,
        [&](const PrimExpr& p, int64_t count) {
          return Loop(batch_, "b", [&](const PrimExpr& b) -> Stmt {
            const SequencePlace place = Place(b, step);
            auto none = [&](const PrimExpr& lane) {
              return Store(out_[0], tir::make_zero(kFloat), {step, b, p * Index(kLanes) + lane});
            };
            return tir::IfThenElse(place.inside, UpdateState(place.element, b, p, count, scale, zero),
                                   Lanes(none, count));
          });
        },
        attrs_->share_panels);
  }

  /// Computes the new state of a sample for the first `count` units of panel `p`.
  Stmt UpdateState(const PrimExpr& t, const PrimExpr& b, const PrimExpr& p, int64_t count, const PrimExpr& scale,
                   const PrimExpr& zero) const {
    const tir::Buffer sums = tir::DeclBuffer({Index(kGates), Index(kLanes)}, kInt, "sums", "local");
    const tir::Buffer gates = tir::DeclBuffer({Index(kGates), Index(kLanes)}, kFloat, "gates", "local");
    auto of = [&](int operand) { return in_[static_cast<size_t>(operand)]; };
    auto unit = [&](const PrimExpr& lane) { return p * Index(kLanes) + lane; };
    std::vector<Stmt> parts;
    for (int64_t g = 0; g < kGates; ++g) {
      parts.push_back(Lanes([&](const PrimExpr& lane) { return Store(sums, tir::make_zero(kInt), {Index(g), lane}); }));
    }
    parts.push_back(listed_ ? ListedProducts(sums, b, p) : Products(sums, b, p));
    for (int64_t g = 0; g < kGates; ++g) {
      parts.push_back(Lanes(
          [&](const PrimExpr& lane) {
            const PrimExpr column = Index(g * units_) + unit(lane);
            const PrimExpr sum = Load(sums, {Index(g), lane}) + Load(of(at_.offset), {Index(0), column}) -
                                 zero * Load(of(at_.offset), {Index(1), column}) -
                                 Load(totals_, {b}) * Load(of(at_.zero), {column});
            const PrimExpr real = tir::cast(kFloat, sum) * (scale * Load(of(at_.scale), {column}));
            return Store(gates, Load(in_[kByteX], {t, b, column}) + real, {Index(g), lane});
          },
          count));
    }
    auto of_gates = [&](const PrimExpr& lane) {
      std::vector<PrimExpr> all;
      for (int64_t g = 0; g < kGates; ++g) all.push_back(Load(gates, {Index(g), lane}));
      return all;
    };
    parts.push_back(Lanes(
        [&](const PrimExpr& lane) {
          return Store(out_[2], LstmCell(of_gates(lane), Load(out_[2], {b, unit(lane)})), {b, unit(lane)});
        },
        count));
    parts.push_back(Lanes(
        [&](const PrimExpr& lane) {
          return Store(out_[0], LstmOutput(of_gates(lane), Load(out_[2], {b, unit(lane)})), {t, b, unit(lane)});
        },
        count));
    return tir::Allocate(sums, tir::Allocate(gates, InOrder(parts)));
  }

  PrimExpr Word(const PrimExpr& b, const PrimExpr& first) const {
    return MakeWord(kByte, [&](int64_t i) { return Load(states_, {b, first + Index(i)}); });
  }

  Stmt Products(const tir::Buffer& sums, const PrimExpr& b, const PrimExpr& p) const {
    return Loop(Index(WordsOf(units_)), "k", [&](const PrimExpr& k) -> Stmt {
      std::vector<Stmt> products;
      for (int64_t g = 0; g < kGates; ++g) {
        products.push_back(Lanes([&](const PrimExpr& lane) {
          const PrimExpr weight = Load(in_[kByteWeight], {p, k, Index(g), lane});
          const PrimExpr dot = tir::dot_bytes(Word(b, k * Index(kBytes)), weight);
          return Store(sums, Load(sums, {Index(g), lane}) + dot, {Index(g), lane});
        }));
      }
      return InOrder(products);
    });
  }

  /// Of each gate the two lists of its 16 columns, all at once: they are equally long, entries of all side by side.
  Stmt ListedProducts(const tir::Buffer& sums, const PrimExpr& b, const PrimExpr& p) const {
    const int64_t entries = DimValue(in_[kByteWeight]->shape[1]);
    return Loop(Index(entries), "entry", [&](const PrimExpr& entry) -> Stmt {
      std::vector<Stmt> all;
      for (int64_t i = 0; i < kPanelLists; ++i) {
        auto word = [&](int64_t n) {
          const PrimExpr from = Load(in_[kLists], {p, entry, Index(i), Index(n)});
          return Word(b, tir::cast(DataType::Int(64), from) * Index(kBytes));
        };
        all.push_back(Lanes(
            [&](const PrimExpr& lane) {
              const Array<PrimExpr> at{Index(i / kHalves), Index(i % kHalves * kListBlock) + lane};
              auto weight = [&](int64_t n) { return Load(in_[kByteWeight], {p, entry, Index(i), Index(n), lane}); };
              return Store(sums, Load(sums, at) + tir::dot_two_words(word(0), weight(0), word(1), weight(1)), at);
            },
            kListBlock));
      }
      return InOrder(all);
    });
  }

  const PackedByteRecurrentAttrs* attrs_;
  bool listed_;
  PackedOperands at_;
  Array<tir::Buffer> in_, out_;
  int64_t units_;
  PrimExpr steps_, batch_;
  tir::Buffer states_, totals_;
};

template <bool kListed>
Array<Tensor> PackedCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<PackedByteRecurrentAttrs>();
  const TensorTypeNode* all = OutTensor(out_type, 0);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) {
    return StepWriter(a, kListed, in, out).All();
  };
  const Array<PrimExpr> state{all->shape[1], all->shape[2]};
  return te::Extern({all->shape, state, state}, {kFloat, kFloat, kFloat}, inputs, body, "packed_byte_lstm",
                    "packed_recurrent");
}

void CheckPacked(const TensorTypeNode* type, DataType dtype, const std::vector<int64_t>& shape, const char* name) {
  bool fits = type->shape.size() == shape.size() && type->dtype == dtype;
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = shape[i] < 0 || DimValue(type->shape[i]) == shape[i];
  if (!fits) throw ShapeError(StrCat(name, " isn't packed for so many units: ", TypeText(type)));
}

template <bool kListed>
Type PackedInfer(const InferContext& context) {
  const PackedOperands at(kListed);
  context.attrs<PackedByteRecurrentAttrs>();
  const auto *weight = context.Tensor(kByteWeight, "weight"), *scale = context.Tensor(at.scale, "scale");
  CheckRank(scale, 1, "scale");
  const int64_t columns = DimValue(scale->shape[0]), units = columns / kGates;
  if (units < 1 || columns % kGates != 0) throw ShapeError("the number of units has to be known and positive");
  if (kListed) {
    CheckPacked(weight, kInt, {PanelsOf(units), -1, kPanelLists, 2, kListBlock}, "weight");
    const std::vector<int64_t> words{PanelsOf(units), DimValue(weight->shape[1]), kPanelLists, 2};
    CheckPacked(context.Tensor(kLists, "words"), kInt, words, "words");
  } else {
    CheckPacked(weight, kInt, {PanelsOf(units), WordsOf(units), kGates, kLanes}, "weight");
  }
  CheckPacked(context.Tensor(at.offset, "offset"), kInt, {2, columns}, "offset");
  return InferByteLstm(context, units, {at.scale, at.zero, at.lengths});
}

/// Words of a state, or of its complements.
void CheckLists(const relay::CallNode* call) {
  const auto* attrs = call->attrs_as<PackedByteRecurrentAttrs>();
  const int64_t units = DimValue(ShapeOf(call->args[PackedOperands(true).scale]->checked_type_)[0]) / kGates;
  const int64_t words = WordsOf(units) * (attrs->complements ? 2 : 1);
  relay::CheckConstantOperand(call, kLists, "words", [=](int64_t) { return words; });
}

// ---- The graph ----

/// (units, gates * units) with columns in the order (panels, gates, 16); units that only fill the last are zeros.
Expr Ordered(Expr weight, int64_t units) {
  const int64_t panels = PanelsOf(units);
  weight = MakeReshape(weight, std::vector<int64_t>{units, kGates, units});
  if (units % kLanes != 0) {
    weight =
        MakePad(weight, {{0, 0}, {0, 0}, {0, panels * kLanes - units}}, ScalarConstant(DataType::Int(8), int64_t{0}));
  }
  weight = MakeReshape(weight, std::vector<int64_t>{units, kGates, panels, kLanes});
  weight = MakeTranspose(weight, {0, 2, 1, 3});
  return MakeReshape(weight, std::vector<int64_t>{units, panels * kGates * kLanes});
}

/// The same of a constant.
runtime::NDArray Ordered(const runtime::NDArray& weight, int64_t units) {
  const int64_t columns = PanelsOf(units) * kGates * kLanes;
  runtime::NDArray ordered = runtime::NDArray::Empty({units, columns}, DataType::Int(8));
  auto* to = ordered.Data<int8_t>();
  std::fill_n(to, ordered.size(), int8_t{0});
  const auto* from = weight.Data<int8_t>();
  for (int64_t k = 0; k < units; ++k) {
    for (int64_t g = 0; g < kGates; ++g) {
      for (int64_t u = 0; u < units; ++u) {
        to[k * columns + (u / kLanes * kGates + g) * kLanes + u % kLanes] = from[(k * kGates + g) * units + u];
      }
    }
  }
  return ordered;
}

/// What is added to the sums of columns, and what is taken from them times the states' zero point: sums of the
/// weight, less zero points. (2, gates * units).
Expr Offsets(const Expr& weight, const Expr& zero, int64_t units, const Expr& added) {
  const Expr sums = MakeReduce("sum", MakeCast(weight, kInt), std::vector<int64_t>{0});
  const Expr all_zeros = CallOp("multiply", {zero, ScalarConstant(kInt, units)});
  return MakeStack({added, CallOp("subtract", {sums, all_zeros})}, 0);
}

/// Lists of all blocks, as long as the longest: (panels, entries, 8 lists, 2, 8) and (panels, entries, 8 lists, 2).
struct EvenLists {
  runtime::NDArray weight, words, correction;
  bool complements = false;
};

/// Of each of the blocks, which have `stored` entries of `size` words, the first `kept`; those of a panel's lists side
/// by side.
runtime::NDArray SideBySide(const runtime::NDArray& all, int64_t stored, int64_t kept, std::vector<int64_t> entry) {
  const int64_t size = NumElements(entry), panels = all.size() / (stored * size * kPanelLists);
  entry.insert(entry.begin(), {panels, kept, kPanelLists});
  runtime::NDArray result = runtime::NDArray::Empty(entry, kInt);
  auto* to = result.Data<int32_t>();
  for (int64_t p = 0; p < panels; ++p) {
    for (int64_t e = 0; e < kept; ++e) {
      for (int64_t list = 0; list < kPanelLists; ++list) {
        to = std::copy_n(all.Data<int32_t>() + ((p * kPanelLists + list) * stored + e) * size, size, to);
      }
    }
  }
  return result;
}

/// Those of a constant weight; none where they don't pay.
std::shared_ptr<const EvenLists> ListsOf(const runtime::NDArray& weight) {
  if (weight.get() == nullptr || !weight.IsCompact() || weight.dtype() != DataType::Int(8)) return nullptr;
  // An entry is five instructions and reads two words of the state; two words that are widened are some sixteen.
  constexpr double kMostEntries = 0.8;
  return WeightForms::Keep<EvenLists>(weight, "lists of gates", [&]() -> std::shared_ptr<const EvenLists> {
    const int64_t units = weight.shape()[0], columns = PanelsOf(units) * kGates * kLanes, words = WordsOf(units);
    const runtime::NDArray ordered = Ordered(weight, units);
    std::vector<int8_t> rows(static_cast<size_t>(columns * words * kBytes), int8_t{0});
    for (int64_t k = 0; k < units; ++k) {
      for (int64_t i = 0; i < columns; ++i) {
        rows[static_cast<size_t>(i * words * kBytes + k)] = ordered.Data<int8_t>()[k * columns + i];
      }
    }
    const ByteLists lists = MakeByteLists(
        columns, words, [&](int64_t column, int64_t word) { return rows.data() + (column * words + word) * kBytes; },
        /*forms=*/2);
    const int64_t blocks = columns / kListBlock, entries = lists.entries();
    int64_t longest = 1;
    for (int64_t b = 0; b < blocks; ++b) {
      longest = std::max<int64_t>(longest, lists.words.Data<int32_t>()[((b + 1) * (entries + 1) - 1) * 2]);
    }
    if (static_cast<double>(longest) > kMostEntries * static_cast<double>(words)) return nullptr;
    return std::make_shared<const EvenLists>(EvenLists{SideBySide(lists.weight, entries, longest, {2, kListBlock}),
                                                       SideBySide(lists.words, entries + 1, longest, {2}),
                                                       lists.correction, lists.forms > 1});
  });
}

template <bool kListed>
std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan& chosen) {
  const auto& p = *problem.as<ByteRecurrentProblemNode>();
  relay::LayoutArgs& args = request.args;
  const Expr weight = args.Plain(kByteWeight);
  const Expr scale = args.Plain(kByteScale), zero = args.Plain(kByteZero);
  Array<Expr> operands{args.Plain(kByteX)};
  bool complements = false;
  Expr added;
  if (kListed) {
    const auto* constant = request.call->args[kByteWeight].as<ConstantNode>();
    if (constant == nullptr) return std::nullopt;
    const std::shared_ptr<const EvenLists> lists = ListsOf(constant->data);
    if (lists == nullptr) return std::nullopt;
    complements = lists->complements;
    operands.push_back(relay::Constant(lists->weight));
    operands.push_back(relay::Constant(lists->words));
    runtime::NDArray correction = runtime::NDArray::Empty({kGates * p.units}, kInt);
    for (int64_t i = 0; i < kGates * p.units; ++i) {
      const int64_t g = i / p.units, u = i % p.units;
      correction.Data<int32_t>()[i] =
          lists->correction.Data<int32_t>()[(u / kLanes * kGates + g) * kLanes + u % kLanes];
    }
    added = relay::Constant(correction);
  } else {
    Expr words = CallWith<MatmulAttrs>("qnn.contrib_pack_words", {Ordered(weight, p.units)}, [](auto&) {});
    words = MakeReshape(words, std::vector<int64_t>{PanelsOf(p.units), kGates, WordsOf(p.units), kLanes});
    operands.push_back(MakeTranspose(words, {0, 2, 1, 3}));
    added = MakeZeros(IntArray({kGates * p.units}), kInt);
  }
  for (const Expr& e : {scale, zero, Offsets(weight, zero, p.units, added)}) operands.push_back(e);
  for (size_t i : {kByteLengths, kByteH, kByteC}) operands.push_back(args.Plain(i));
  const Attrs attrs = MakeAttrs<PackedByteRecurrentAttrs>([&](auto& a) {
    a.reverse = request.call->attrs_as<RecurrentAttrs>()->reverse;
    a.share_panels = chosen.as<ByteRecurrentPlanNode>()->share_panels;
    a.complements = complements;
  });
  const char* name = kListed ? "qnn.contrib_listed_lstm" : "qnn.contrib_packed_lstm";
  return LaidOutCall{CallOp(name, operands, attrs, request.call->span), {}};
}

template <bool kListed>
std::string WhyNot(const Problem& problem, const Machine& machine) {
  if (machine.vector_lanes(32) < 4) return "there are no vectors";
  const bool listed = !kListed || problem.as<ByteRecurrentProblemNode>()->listed;
  return listed ? "" : "the weight isn't constant, or the machine has other products of bytes, or lists don't pay";
}

double PackedMacs(const Attrs&, const Array<Type>& arguments, const Type&) {
  const Array<PrimExpr> x = ShapeOf(arguments[kByteX]);
  return Elements(x) * static_cast<double>(DimValue(x.back()) / kGates);
}

template <bool kListed>
void RegisterForm(const char* op, const char* kernel_name) {
  std::vector<OpArgument> arguments{
      {"x", "Tensor", "(steps, batch, 4 * units): products of the inputs, with biases"},
      {"weight", "Tensor",
       kListed ? "(units / 16, entries, 8, 2, 8) words of four int8" : "(units / 16, words, 4, 16) of four int8"}};
  if (kListed) {
    arguments.push_back({"words", "Tensor", "(units / 16, entries, 8, 2) int32: words of a state"});
  }
  arguments.insert(arguments.end(),
                   {{"scale", "Tensor", "(4 * units) of the weight"},
                    {"zero_point", "Tensor", "(4 * units) int32, of the weight"},
                    {"offset", "Tensor", "(2, 4 * units) int32: added to the sums; taken times the states' zero point"},
                    {"lengths", "Tensor", "(batch) int32, of the sequences"},
                    {"h", "Tensor", "(batch, units) before the first step"},
                    {"c", "Tensor", "(batch, units) before the first step"}});
  OpRegistration registration(op);
  registration
      .Describe(StrCat("qnn.contrib_lstm with ", kListed ? "lists of words of the weight." : "a packed weight."))
      .Arguments(arguments)
      .AttrsType<PackedByteRecurrentAttrs>()
      .SupportLevel(11)
      .Relation(Rule<PackedInfer<kListed>>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(relay::kMacCount, relay::FMacCount(PackedMacs))
      .Set(kCompute, FTECompute(PackedCompute<kListed>));
  if (kListed) registration.Set(relay::kCheckConstants, relay::FCheckConstants(CheckLists));
  Kernel kernel;
  kernel.name = kernel_name;
  kernel.op = "qnn.contrib_lstm";
  kernel.target = "cpu";
  kernel.plan_type = ByteRecurrentPlanNode::StaticTypeInfo();
  kernel.graph_fields = {"share_panels"};
  kernel.why_not = WhyNot<kListed>;
  if (kListed) kernel.level = schedule::kDefaultLevel + 1;
  kernel.space = Space;
  kernel.rewrite = Rewrite<kListed>;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace

Problem ByteRecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine) {
  const auto* constant = call->args[kByteWeight].as<ConstantNode>();
  return Make<Problem, ByteRecurrentProblemNode>([&](auto& p) {
    p.batch = DimValue(args.Type(kByteX)->shape[1]);
    p.units = DimValue(args.Type(kByteWeight)->shape[0]);
    p.listed = constant != nullptr && HasByteLists(machine) && ListsOf(constant->data) != nullptr;
  });
}

void RegisterByteRecurrent() {
  ByteRecurrentProblemNode::StaticTypeInfo();
  RegisterForm<false>("qnn.contrib_packed_lstm", "byte_lstm.packed");
  RegisterForm<true>("qnn.contrib_listed_lstm", "byte_lstm.listed");
}

}  // namespace cpu
}  // namespace treadle::ops
