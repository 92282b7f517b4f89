// SPDX-License-Identifier: Apache-2.0
// qnn.contrib_block_tiles: the products of block_dense.cc on AMX tile registers, for many rows. Sums of tiles can't be
// scaled within a row of k without leaving the registers, which takes longer than the products do; so weights are
// dequantised to bfloat16, some panels of 16 columns at a time, before all rows use them. With data of 8 bits, data and
// weights are rounded once, which is more accurate than 8 bits are. With data of 16 bits both are sums of two bfloat16,
// of which three products count. Operands: see BlockTilesInfer; result (m, units) float32.
#include <algorithm>
#include <array>
#include <functional>

#include "ops/block_weights.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/block_problem.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops::cpu {
namespace {

constexpr const char *kName = "block_tiles", *kOp = "qnn.contrib_block_tiles";
constexpr int64_t kTile = tir::kTileRows, kColumns = kPackedColumns, kEach = 2, kBytesOfWord = 4;
const DataType kHalf = DataType::BFloat(16), kFloat = DataType::Float(32), kInt = DataType::Int(32);

/// data (m, k) float32; weight (units / 16, blocks, words of a block and its scales, 16) int32: (m, units).
Type BlockTilesInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<BlockProductAttrs>();
  CheckRank(data, 2, "data");
  CheckRank(weight, 4, "weight");
  if (data->dtype != kFloat || weight->dtype != kInt) throw DTypeError("needs float32 data and int32 weights");
  if ((attrs->bits != 4 && attrs->bits != 8) || !IsStatic(data) || !IsStatic(weight)) {
    throw ShapeError("needs data and weights of known shape, weights of 4 or 8 bits");
  }
  const qnn::BlockWeights w = qnn::BlockWeightsOf(*attrs, data, weight);
  const int64_t padded = w.block * w.blocks;
  if (w.blocks < 1 || w.block < 1 || w.k < 1 || w.k > padded || padded % (kEach * kTile) != 0) {
    throw ShapeError("data and weights don't fit");
  }
  return TensorType({data->shape[0], Dim(attrs->units)}, kFloat);
}

// ---- The computation ----

/// Columns of a weight, dequantised: words of two neighbours along k.
class Unpacked {
 public:
  Unpacked(const BlockProductAttrs* attrs, const qnn::BlockWeights& w, const Tensor& weight)
      : a_(attrs), w_(w), weight_(weight), numbers_(32 / attrs->bits), words_(w.block / numbers_) {}

  /// (panels, lines of 16 words of k, 16, 16) int32.
  Tensor High() const {
    return Words("unpack", [&](const std::array<PrimExpr, kEach>& values, const Array<te::Var>&) {
      return WordOfHalves(Rounded(values[0]), Rounded(values[1]));
    });
  }
  /// The same of what the numbers of `high` lack.
  Tensor Low(const Tensor& high) const {
    return Words("unpack_low", [&](const std::array<PrimExpr, kEach>& values, const Array<te::Var>& i) {
      const PrimExpr word = high(i[0], i[1], i[2], i[3]);
      const PrimExpr first = tir::left_shift(word, tir::make_const(kInt, kHalfBits)), second = HighHalf(word);
      auto rest = [&](const PrimExpr& value, const PrimExpr& bits) {
        return Rounded(value - tir::reinterpret(kFloat, bits));
      };
      return WordOfHalves(rest(values[0], first), rest(values[1], second));
    });
  }

 private:
  static constexpr int64_t kHalfBits = 16, kLowMask = 0xffff;
  /// Half a unit of bfloat16, 2^-8 to 2^-9 of a number: 2^-8 over the mean of 1 to 2.
  static constexpr double kHalfOfCut = 1.0 / 256 / 1.5;

  Tensor Words(const char* name,
               const std::function<PrimExpr(const std::array<PrimExpr, kEach>&, const Array<te::Var>&)>& word) const {
    return te::Compute(
        {weight_->shape[0], Index(w_.block * w_.blocks / kEach / kTile), Index(kTile), Index(kColumns)},
        [&](const Array<te::Var>& i) {
          const PrimExpr k = (PrimExpr(i[1]) * Index(kTile) + i[2]) * Index(kEach),
                         block = tir::floordiv(k, Index(w_.block));
          const PrimExpr in_block = tir::floormod(k, Index(w_.block));
          return word({Value(i[0], block, in_block, i[3]), Value(i[0], block, in_block + Index(1), i[3])}, i);
        },
        name, "", StageAttrs(kName, name));
  }

  /// The number `at` of a block, dequantised. Its bits are placed behind those of 1, for 1 + number / 2^bits: that
  /// needs no conversion.
  PrimExpr Value(const PrimExpr& panel, const PrimExpr& block, const PrimExpr& at, const PrimExpr& lane) const {
    constexpr int64_t kMantissa = 23, kOne = 0x3f800000;
    auto row = [&](const PrimExpr& r) { return weight_(panel, block, r, lane); };
    auto shift = [&](const PrimExpr& by) { return tir::cast(kInt, tir::max(by, Index(0))); };
    const PrimExpr in_word = tir::floormod(at, Index(numbers_));
    PrimExpr place = in_word * Index(8);
    // Of 8 numbers of 4 bits the first four are the low halves of bytes.
    if (a_->bits == 4)
      place = tir::floormod(in_word, Index(4)) * Index(8) + tir::floordiv(in_word, Index(4)) * Index(4);
    const PrimExpr down = place - Index(kMantissa - a_->bits);
    PrimExpr bits = tir::right_shift(row(tir::floordiv(at, Index(numbers_))), shift(down));
    bits = tir::bitwise_and(tir::left_shift(bits, shift(Index(0) - down)),
                            tir::make_const(kInt, ((int64_t{1} << a_->bits) - 1) << (kMantissa - a_->bits)));
    const PrimExpr number = tir::reinterpret(kFloat, tir::bitwise_or(bits, tir::make_const(kInt, kOne)));
    const double factor = a_->digits == 1 ? 1 + kHalfOfCut : 1, steps = static_cast<double>(1 << a_->bits);
    const PrimExpr scale = tir::reinterpret(kFloat, row(Index(words_)));
    const PrimExpr step = scale * tir::make_const(kFloat, steps * factor);
    if (a_->symmetric) return number * step - scale * tir::make_const(kFloat, (steps + a_->zero_point) * factor);
    const PrimExpr zero = tir::reinterpret(kFloat, row(Index(words_ + 1)));
    return number * step - (step + zero * tir::make_const(kFloat, factor));
  }
  /// The bits of a float32 whose high half is the number in bfloat16. Of a single half the rest is cut off: numbers
  /// were enlarged by what that takes off on average, which no number that bfloat16 holds is changed by.
  PrimExpr Rounded(const PrimExpr& value) const {
    const PrimExpr bits = tir::reinterpret(kInt, value);
    return a_->digits == 1 ? bits : bits + tir::make_const(kInt, (kLowMask + 1) / 2);
  }
  static PrimExpr WordOfHalves(const PrimExpr& first, const PrimExpr& second) {
    const PrimExpr low = tir::right_shift(first, tir::make_const(kInt, kHalfBits));
    return tir::bitwise_or(HighHalf(second), tir::bitwise_and(low, tir::make_const(kInt, kLowMask)));
  }
  static PrimExpr HighHalf(const PrimExpr& bits) { return tir::bitwise_and(bits, tir::make_const(kInt, ~kLowMask)); }

  const BlockProductAttrs* a_;
  const qnn::BlockWeights w_;
  const Tensor weight_;
  const int64_t numbers_, words_;
};

/// Rows in lines of 16 words of bfloat16, (lines, rows, 16) int32, zeros beyond rows and columns of `data`; `low`: what
/// bfloat16 lacks of the numbers.
Tensor LinesOf(const Tensor& data, int64_t rows, int64_t lines, bool low) {
  const PrimExpr m = data->shape[0], k = data->shape[1];
  auto word_at = [&](const Array<PrimExpr>& at) {
    const PrimExpr word = at[0] * Index(kTile) + at[2];
    const PrimExpr value = WordOf(word, k, kHalf, [&](const PrimExpr& i) {
      const PrimExpr number = data(at[1], i), high = tir::pair_half(number);
      return low ? tir::pair_half(number - tir::cast(kFloat, high)) : high;
    });
    return tir::if_then_else(at[1] < m && word < Words(k, kHalf), value, tir::make_zero(kInt));
  };
  return Compute({Dim(lines), Dim(rows), Dim(kTile)}, word_at, low ? "lines_low" : "lines", tag::kInjective);
}

Array<Tensor> BlockTilesCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<BlockProductAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const auto types = [](const Tensor& tensor) { return TensorType(tensor->shape, tensor->dtype); };
  const TensorType data_type = types(inputs[0]), weight_type = types(inputs[1]);
  const qnn::BlockWeights w = qnn::BlockWeightsOf(*a, data_type.as<TensorTypeNode>(), weight_type.as<TensorTypeNode>());
  const int64_t m = DimValue(type->shape[0]), rows = RoundUp(m, kTile), lines = w.block * w.blocks / kEach / kTile;
  const int64_t columns = DimValue(inputs[1]->shape[0]) * kColumns;
  const Unpacked unpacked(a, w, inputs[1]);
  auto product = [&](const Tensor& left, const Tensor& right, const char* name, const Map<String, ObjectRef>& stage) {
    const te::IterVar line = te::ReduceAxis(tir::Range(Index(lines)), "line");
    const te::IterVar k = te::ReduceAxis(tir::Range(Index(kTile)), "k");
    return te::Compute(
        {Index(rows), Index(columns)},
        [&](const Array<te::Var>& i) {
          const PrimExpr panel = tir::floordiv(i[1], Index(kColumns)), column = tir::floormod(i[1], Index(kColumns));
          const PrimExpr word = left(line->var, i[0], k->var);
          return te::Sum(DotOfWords(kHalf, word, right(panel, line->var, k->var, column)), {line, k});
        },
        name, "packed_dense", stage);
  };
  const Problem problem = BlockProductProblem(*a, data_type.as<TensorTypeNode>(), weight_type.as<TensorTypeNode>());
  const Tensor high = LinesOf(inputs[0], rows, lines, false), of_weight = unpacked.High();
  const Tensor sum = product(high, of_weight, "block_tiles", AnchorAttrs(kName, "sum", problem));
  std::vector<Tensor> less;
  if (a->digits == 2) {
    less = {
        product(high, unpacked.Low(of_weight), "block_tiles_low", StageAttrs(kName, "low_weight")),
        product(LinesOf(inputs[0], rows, lines, true), of_weight, "block_tiles_rest", StageAttrs(kName, "low_data"))};
  }
  auto result = [&](const Array<te::Var>& i) {
    const PrimExpr most = sum(i[0], i[1]);
    return less.empty() ? most : most + (less[0](i[0], i[1]) + less[1](i[0], i[1]));
  };
  return {te::Compute(type->shape, result, "block_tiles_result", tag::kInjective)};
}

// ---- Plans and what they cost ----

class BlockTilesPlanNode : public PlanNode {
 public:
  int64_t mr = kTile, nc = 1;
  TREADLE_NODE(BlockTilesPlanNode, PlanNode, "schedule.BlockTilesPlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mr", &BlockTilesPlanNode::mr).Doc("rows that are computed at a time, a multiple of 16");
    r.Field("nc", &BlockTilesPlanNode::nc).Doc("panels of 16 columns that are dequantised at a time");
  }
};

constexpr int64_t kMostTiles = 6, kMostPanels = 8;

/// Rows, with those that fill tiles.
int64_t RowsOf(const BlockDenseProblemNode& p) { return RoundUp(std::max<int64_t>(1, p.m), kTile); }

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockTilesPlanNode>();
  const bool rows = plan.mr >= kTile && plan.mr <= kMostTiles * kTile && plan.mr % kTile == 0;
  if (!rows || RowsOf(p) % plan.mr != 0) return StrCat(plan.mr, " rows at a time, of ", RowsOf(p));
  const int64_t panels = p.n / kColumns;
  return plan.nc >= 1 && panels % plan.nc == 0 ? "" : StrCat(plan.nc, " panels don't divide ", panels);
}

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  std::vector<Plan> plans;
  for (int64_t tiles = kMostTiles; tiles >= 1; --tiles) {
    for (int64_t nc = kMostPanels; nc >= 1; --nc) {
      Plan plan = Make<Plan, BlockTilesPlanNode>([&](auto& made) {
        made.mr = tiles * kTile;
        made.nc = nc;
      });
      if (WhyNotPlan(problem, machine, plan).empty()) plans.push_back(std::move(plan));
    }
  }
  return plans;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockTilesPlanNode>();
  const int64_t rows = RowsOf(p), panels = p.n / kColumns, groups = panels / plan.nc, runs = rows / plan.mr,
                words = p.k / kEach;
  const int64_t products = p.digits == 2 ? 3 : 1, parts = p.digits;
  const double vectors = static_cast<double>(std::max<int64_t>(1, kColumns / std::max(1, machine.vector_lanes(32))));
  const double word =
      (p.digits == 2 ? fitted.block_tiles_both : fitted.block_tiles_word) * machine.fma_cycles * vectors;
  const double unpacked = static_cast<double>(panels * words) * word;
  const double calls = static_cast<double>(groups * runs * products);
  const double copied = fitted.amx_copy * static_cast<double>(rows * words * parts);
  const double left = static_cast<double>(plan.mr * words * kBytesOfWord);
  double work = unpacked + calls * TileCycles({plan.mr, plan.nc, words / kTile, 1, left}, kHalf, machine) + copied;
  // Each group of panels reads all rows, and each block of rows all of the panels.
  const double l2 = static_cast<double>(machine.l2_bytes) / 2;
  const double data = static_cast<double>(rows * words * kBytesOfWord * parts);
  const double held = static_cast<double>(plan.nc * kColumns * words * kBytesOfWord * parts);
  if (data + held > l2) work += data * static_cast<double>(groups - 1) * machine.beyond_l2_cycles_per_byte;
  if (held + data / static_cast<double>(runs) > l2) {
    work += held * static_cast<double>(groups * runs) * machine.beyond_l2_cycles_per_byte;
  }
  const double memory =
      static_cast<double>(p.n * p.bits) / 8 * static_cast<double>(p.k) * machine.weight_cycles_per_byte;
  const double alone = std::max(work, memory) + fitted.amx_overlap * std::min(work, memory);
  const int64_t threads = ModelledThreads(machine);
  return alone * (1 + LoadImbalance(groups, 1, 1, 1, threads)) / 2;
}

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<BlockDenseProblemNode>();
  if (machine.pair_tile_cycles == 0) return "no tile registers";
  if (p.m < 0) return "the number of rows is dynamic";
  if (p.m < 2) return "one row";
  return p.k % (kEach * kTile) == 0 ? "" : "blocks don't fill tiles";
}

// ---- The schedule ----

/// Dequantises words under `loop`, all numbers of a word of the weight at a time, a vector of columns each.
void UnpackAt(Schedule& sch, const BlockRV& block, const LoopRV& loop, const BlockDenseProblemNode& p) {
  const int64_t pairs = 32 / p.bits / kEach;
  sch.ComputeAt(block, loop);
  const std::vector<LoopRV> axes = LoopsUnder(sch, block, loop);  // panel, line, word, column
  const LoopRV all = sch.Fuse({axes[1], axes[2]});
  const std::vector<LoopRV> words = sch.Split(all, {kRest, PrimExpr(p.block / kEach / pairs), PrimExpr(pairs)});
  sch.Unroll(words[2]);
  sch.Vectorize(axes.back());
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockTilesPlanNode>();
  std::vector<BlockRV> sums{stages.anchor()}, unpacked{stages.At("unpack")};
  if (p.digits == 2) {
    for (const char* role : {"low_weight", "low_data"}) sums.push_back(stages.At(role));
    unpacked.insert(unpacked.begin(), stages.At("unpack_low"));  // which reads the other
  }
  const double work = Work(sch, sums[0]);
  const std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages, true));  // .., m, n
  const size_t rank = out.size();
  const std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mr)});
  const std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(plan.nc), PrimExpr(kColumns)});
  sch.Reorder({columns[0], rows[0], rows[1], columns[1], columns[2]});
  const tir::TensorIntrin intrin = TileLinesIntrin(kHalf, plan.mr, plan.nc, p.k / kEach / kTile);
  for (const BlockRV& sum : sums) {
    sch.SetScope(sum, 0, "local");
    sch.ComputeAt(sum, rows[0]);
    const std::vector<LoopRV> axes = LoopsUnder(sch, sum, rows[0]);  // m, n, line, k
    sch.Tensorize(axes[0], intrin);
  }
  for (const BlockRV& block : unpacked) UnpackAt(sch, block, columns[0], p);
  sch.Vectorize(columns[2]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

}  // namespace

relay::Expr TiledBlockProduct(const relay::CallNode* call) {
  return relay::Call(Op::Get(kOp), call->args, call->attrs, {}, call->span);
}

void RegisterBlockTiles() {
  OpRegistration(kOp)
      .Describe("Rows times weights of 4 or 8 bits that have a scale per block, in products of bfloat16.")
      .Arguments({{"data", "Tensor", "(m, k) float32"},
                  {"weight", "Tensor", "(units / 16, blocks, words of a block + 1 or 2, 16) int32"}})
      .AttrsType<BlockProductAttrs>()
      .SupportLevel(11)
      .Relation(Rule<BlockTilesInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(BlockProductMacs))
      .Set(kCompute, FTECompute(BlockTilesCompute));
  Kernel kernel;
  kernel.name = kName;
  kernel.op = kBlockProduct;
  kernel.target = "cpu";
  kernel.plan_type = BlockTilesPlanNode::StaticTypeInfo();
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
