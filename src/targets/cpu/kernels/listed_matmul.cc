// SPDX-License-Identifier: Apache-2.0
// Products of uint8 by constant int8 weights on AVX2, which has no dot product of bytes: exact in int32. Each block of
// 8 columns has a list of the words of a row that its weights are multiplied by, two words at a time (byte_lists.h).
//
// Rows are copied, followed by the other forms of their words that lists refer to. A register tile of some rows and 8
// columns is accumulated over a list, then the tile of the next 8 columns: rows stay in the L1 cache, and lists are
// read sequentially.
#include <algorithm>

#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/listed_sums.h"
#include "targets/cpu/kernels/weight_forms.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/make.h"
#include "treadle/relay/constant_operands.h"

namespace treadle::ops::cpu {
namespace {

using relay::ConstantNode;
using relay::Expr;

constexpr const char* kName = "listed_dense";
constexpr int64_t kBytes = kListBytes, kWords = kListWords;
const DataType kWord = DataType::Int(32), kByte = DataType::UInt(8);

/// data (m.., k) uint8; weight (ceil(units / 8), entries, 2, 8) int32; words (ceil(units / 8), entries + 1, 2) int32,
/// the last of which are the list's length and its entries of two; correction (ceil(units / 8) * 8) int32: (m.., units)
/// int32.
Type ListedDenseInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *weight = context.Tensor(1, "weight");
  const auto *words = context.Tensor(2, "words"), *correction = context.Tensor(3, "correction");
  const auto* attrs = context.attrs<ListedDenseAttrs>();
  CheckRank(weight, 4, "weight");
  CheckRank(words, 3, "words");
  CheckRank(correction, 1, "correction");
  if (data->dtype != kByte || weight->dtype != kWord || words->dtype != kWord || correction->dtype != kWord) {
    throw DTypeError("needs uint8 data, and int32 weights, words and corrections");
  }
  const int64_t blocks = DimValue(weight->shape[0]);
  if (data->shape.empty() || attrs->units < 1 || blocks != CeilDiv(attrs->units, kListBlock) ||
      DimValue(data->shape.back()) < 1 || DimValue(words->shape[0]) != blocks ||
      DimValue(words->shape[1]) != DimValue(weight->shape[1]) + 1 || DimValue(weight->shape[2]) != kWords ||
      DimValue(words->shape[2]) != kWords || DimValue(weight->shape[3]) != kListBlock ||
      DimValue(correction->shape[0]) != blocks * kListBlock) {
    throw ShapeError("data, weights, words and corrections don't fit");
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(attrs->units));
  return TensorType(out, kWord);
}

/// rows (m, k) times weights (k, n), k in words.
class ListedDenseProblemNode : public schedule::ProblemNode {
 public:
  int64_t m = 0, n = 0, words = 0, entries = 0;
  int64_t forms = 1;
  TREADLE_NODE(ListedDenseProblemNode, schedule::ProblemNode, "schedule.ListedDenseProblem")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("m", &ListedDenseProblemNode::m).Doc("rows; -1: dynamic");
    r.Field("n", &ListedDenseProblemNode::n).Doc("columns, with those that fill the last block of 8");
    r.Field("words", &ListedDenseProblemNode::words).Doc("of a row");
    r.Field("entries", &ListedDenseProblemNode::entries).Doc("of a list, two words each");
    r.Field("forms", &ListedDenseProblemNode::forms).Doc("of words of which rows are copied");
  }
};

/// Byte `at` of form `form` (of `forms`; byte_lists.h) of words, whose bytes `byte` gives.
PrimExpr ByteInForm(const PrimExpr& form, const PrimExpr& at, int64_t forms,
                    const std::function<PrimExpr(const PrimExpr& at)>& byte) {
  const PrimExpr word = tir::floordiv(at, Index(kListBytes)) * Index(kListBytes);
  const PrimExpr place = tir::floormod(at, Index(kListBytes));
  PrimExpr from = at;
  if (forms > 2) {
    // As ByteOfForm has them.
    const PrimExpr swapped = word + tir::floordiv(place, Index(2)) + tir::floormod(place, Index(2)) * Index(2);
    from = tir::select(form < Index(2), at, swapped);
    if (forms > 4) {
      const PrimExpr rotated = word + tir::floormod(place + Index(1), Index(kListBytes));
      from = tir::select(form < Index(4), from, rotated);
    }
  }
  const PrimExpr turned =
      tir::cast(DataType::UInt(8), tir::floormod(form, Index(2)) * tir::floormod(at, Index(2)) * Index(255));
  return tir::bitwise_xor(byte(from), turned);
}

Array<Tensor> ListedDenseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ListedDenseAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &data = inputs[0], &weight = inputs[1], &words = inputs[2], &correction = inputs[3];
  const size_t last = data.ndim() - 1;
  const int64_t k = DimValue(data->shape[last]), row = RoundUp(k, kBytes);
  Tensor rows = data;
  if (a->forms > 1 || row != k) {
    Array<PrimExpr> shape = data->shape;
    shape.Set(last, Dim(a->forms * row));
    rows = te::ComputeStage(
        shape,
        [&](const Array<PrimExpr>& i) {
          const PrimExpr at = tir::floormod(i[last], Index(row)), form = tir::floordiv(i[last], Index(row));
          return ByteInForm(form, at, a->forms, [&](const PrimExpr& byte) {
            Array<PrimExpr> from = i;
            from.Set(last, byte);
            return row == k ? data(from) : tir::if_then_else(byte < Index(k), data(from), tir::make_zero(kByte));
          });
        },
        "rows", StageAttrs(kName, "rows"));
  }
  te::IterVar entry = te::ReduceAxis(tir::Range(weight->shape[1]), "entry");
  Array<PrimExpr> padded = type->shape;
  padded.Set(last, DimMul(weight->shape[0], Dim(kListBlock)));
  Tensor sum = te::Compute(
      padded,
      [&](const Array<te::Var>& i) {
        const PrimExpr block = tir::floordiv(i[last], Index(kListBlock)),
                       lane = tir::floormod(i[last], Index(kListBlock));
        auto row = [&](const PrimExpr& offset) {
          Array<PrimExpr> from = Indices(i);
          from.Set(last, offset);
          return rows(from);
        };
        return te::Sum(ListedTerm({weight, words, kBytes, entry, i[last]->dtype}, block, lane, row), {entry});
      },
      "listed_dense", "listed_dense", AnchorAttrs(kName, "sum", Make<Problem, ListedDenseProblemNode>([&](auto& p) {
                                                    p.m = 1;
                                                    for (size_t d = 0; d < last; ++d) {
                                                      const int64_t extent = DimValue(type->shape[d]);
                                                      p.m = p.m < 0 || extent < 0 ? -1 : p.m * extent;
                                                    }
                                                    p.n = DimValue(weight->shape[0]) * kListBlock;
                                                    p.words = row / kBytes;
                                                    p.entries = DimValue(weight->shape[1]);
                                                    p.forms = a->forms;
                                                  })));
  return {Compute(
      type->shape, [&](const Array<PrimExpr>& i) { return sum(i) + correction(i[last]); }, "listed_dense_result",
      tag::kInjective)};
}

/// Of each block the words of its entries, then how many there are, twice.
void CheckLists(const relay::CallNode* call) {
  const auto* attrs = call->attrs_as<ListedDenseAttrs>();
  const int64_t k = DimValue(ShapeOf(call->args[0]->checked_type_).back()), words = CeilDiv(k, kBytes);
  const int64_t entries = DimValue(ShapeOf(call->args[1]->checked_type_)[1]), list = (entries + 1) * kWords;
  relay::CheckConstantOperand(call, 2, "words", [=](int64_t i) {
    const bool is_length = i % list >= entries * kWords;
    return is_length ? entries + 1 : attrs->forms * words;
  });
}

double ListedDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

ListedSizes SizesOf(const Problem& problem) {
  const auto& p = *problem.as<ListedDenseProblemNode>();
  return {1, p.m, p.n, p.entries, p.words * kBytes * p.forms};
}

// ---- The schedule ----

/// Copies of rows: 32 bytes at a time of each form.
void CopyRows(Schedule& sch, const BlockRV& copy, const ListedDenseProblemNode& p) {
  constexpr int64_t kVector = 32;
  const double work = Work(sch, copy);
  std::vector<LoopRV> loops = sch.GetLoops(copy);
  std::vector<LoopRV> outer(loops.begin(), loops.end() - 1);
  const int64_t row = p.words * kBytes, vector = row % kVector == 0 ? kVector : kBytes;
  std::vector<LoopRV> parts = sch.Split(loops.back(), {kRest, PrimExpr(row / vector), PrimExpr(vector)});
  sch.Vectorize(parts[2]);
  sch.Unroll(parts[0]);
  if (!outer.empty()) FuseParallel(sch, outer, work);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<ListedDenseProblemNode>();
  const auto& plan = *chosen.as<ListedPlanNode>();
  const BlockRV& product = stages.anchor();
  const double work = Work(sch, product) * static_cast<double>(kBytes * kWords);
  if (stages.Has("rows")) CopyRows(sch, stages.At("rows"), p);
  std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages, true));  // .., m, n
  const size_t rank = out.size();
  // What follows is computed of two lists' columns, which fill vectors of bytes better.
  const bool one_row = rank == 1 || Extent(sch, out[rank - 2]) == 1;
  const int64_t lanes = !one_row && p.n % (2 * kListBlock) == 0 ? 2 * kListBlock : kListBlock;
  std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(lanes)});
  std::vector<LoopRV> outer(out.begin(), out.end() - 1);
  if (one_row) {
    ComputeTile(sch, product, columns[0], {}, static_cast<int>(rank) - 1);
  } else {
    outer.pop_back();
    std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mc_tiles), PrimExpr(plan.mr)});
    sch.Reorder({rows[0], columns[0], rows[1], rows[2], columns[1]});
    if (lanes == kListBlock || !ComputeLists(sch, product, rows[1], rows[2], rank)) {
      ComputeTileOfRows(sch, product, rows[1], rows[2], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1);
    }
    outer.push_back(rows[0]);
  }
  MarkLists(sch, product, p.entries);
  sch.Vectorize(columns[1]);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

// ---- The graph ----

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<MatmulProblemNode>();
  if (p.dtype != kByte || p.weight_dtype != DataType::Int(8) || p.out_dtype != kWord) {
    return "operands aren't uint8 and int8, summed in int32";
  }
  if (!HasByteLists(machine) || machine.byte_tile_cycles > 0) return "the machine has other products of bytes";
  if (!p.not_packed.empty()) return p.not_packed;
  if (p.weight.get() == nullptr || p.batch != 1) return "the right operand isn't a constant matrix";
  const bool pays = ListsOfMatrix(p.weight, !p.transpose_b) != nullptr;
  return pays ? "" : "too few of the weights fit sums of 16 bits together";
}

std::optional<relay::LaidOutCall> Rewrite(const schedule::LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto* call = request.call;
  const auto* constant = call->args[1].as<ConstantNode>();
  if (constant == nullptr) return std::nullopt;
  const bool k_first = !problem.as<MatmulProblemNode>()->transpose_b;
  const std::shared_ptr<const ByteLists> lists = ListsOfMatrix(constant->data, k_first);
  if (lists == nullptr) return std::nullopt;
  Expr product = CallWith<ListedDenseAttrs>("qnn.contrib_listed_dense",
                                            {request.args.Plain(0), relay::Constant(lists->weight),
                                             relay::Constant(lists->words), relay::Constant(lists->correction)},
                                            [&](auto& a) {
                                              a.units = constant->data.shape()[k_first ? 1 : 0];
                                              a.forms = lists->forms;
                                            });
  const auto* made = product.as<relay::CallNode>();
  return relay::LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, call->span), {}};
}

}  // namespace

void RegisterListedMatmul() {
  OpRegistration("qnn.contrib_listed_dense")
      .Describe("Matrix product of bytes with lists of the words of a row that weights meet, in int32.")
      .Arguments({{"data", "Tensor", "(m.., k) uint8"},
                  {"weight", "Tensor", "(ceil(units / 8), entries, 2, 8) words of four int8"},
                  {"words", "Tensor",
                   "(ceil(units / 8), entries + 1, 2) int32: of a row, in all its forms; the list's length"},
                  {"correction", "Tensor", "int32 that are added to the sums"}})
      .AttrsType<ListedDenseAttrs>()
      .SupportLevel(11)
      .Relation(Rule<ListedDenseInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(ListedDenseMacs))
      .Set(relay::kCheckConstants, relay::FCheckConstants(CheckLists))
      .Set(kCompute, FTECompute(ListedDenseCompute));
  ListedDenseProblemNode::StaticTypeInfo();
  RegisterListedLoops(kName, "qnn.contrib_listed_dense", SizesOf, Apply);
  for (const char* op : {"matmul", "dense", "batch_matmul"}) {
    Kernel kernel;
    kernel.name = StrCat(op, ".listed_bytes");
    kernel.op = StrCat("nn.", op);
    kernel.target = "cpu";
    kernel.level = schedule::kDefaultLevel + 1;
    kernel.why_not = WhyNot;
    kernel.rewrite = Rewrite;
    schedule::RegisterKernel(std::move(kernel));
  }
}

}  // namespace treadle::ops::cpu
