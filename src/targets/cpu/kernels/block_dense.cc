// SPDX-License-Identifier: Apache-2.0
// qnn.contrib_block_dense: matrix products with block-scaled weights of 4 or 8 bits (ONNX Runtime's MatMulNBits), which
// have a scale and a zero point for each block along k. Data are quantised to int8, or two int8 digits, with a scale
// per block as well, so that weights are multiplied without unpacking them in memory: sums within a block are exact in
// int32, and are scaled once per block. Operands: see BlockDenseInfer; result (m, units) float32.
//
// A register tile is some rows by 16 columns, and goes through the blocks in order. With few rows the bandwidth of
// reading the weights is the bound, and each is read once, in the order of memory: a second stream, of scales or of
// other columns, takes 1.1 to 1.5 x the time. With more, tiles of rows pass one after the other while the weights of
// their 16 columns are in the L1 cache.
#include <algorithm>
#include <array>

#include "ops/block_weights.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/qnn.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/block_problem.h"
#include "targets/cpu/kernels/packing.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/qnn.h"
#include "treadle/ops/compute.h"
#include "treadle/tir/byte_ops.h"

namespace treadle::ops::cpu {
namespace {

constexpr const char* kName = "block_dense";
constexpr int64_t kBlock = kPackedColumns, kBytes = 4;
const DataType kFloat = DataType::Float(32), kWord = DataType::Int(32);

/// Rows of 16 words that follow the words of a block: its scales, and scaled zero points unless all are the same.
int64_t ScaleRows(const BlockDenseAttrs* attrs) { return attrs->symmetric ? 1 : 2; }

/// data (m, k) int8 and, for data of 16 bits, its low digits (m, k) int8, else (0, k); scales and scaled sums of the
/// data's blocks (m, blocks); weight (units / 16, blocks, words of a block and its scales, 16) int32: (m, units).
Type BlockDenseInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *low = context.Tensor(1, "low");
  const auto *scales = context.Tensor(2, "scales"), *weight = context.Tensor(4, "weight");
  const auto* attrs = context.attrs<BlockDenseAttrs>();
  CheckRank(data, 2, "data");
  CheckRank(low, 2, "low");
  CheckRank(scales, 2, "scales");
  CheckRank(weight, 4, "weight");
  if (data->dtype != DataType::Int(8) || low->dtype != DataType::Int(8) || weight->dtype != kWord ||
      scales->dtype != kFloat) {
    throw DTypeError("needs int8 data, int32 weights and float32 scales");
  }
  const int64_t blocks = DimValue(weight->shape[1]), words = DimValue(weight->shape[2]) - ScaleRows(attrs);
  const int64_t k = DimValue(data->shape[1]);
  if ((attrs->bits != 4 && attrs->bits != 8) || blocks < 1 || k % blocks != 0 || k / blocks % 8 != 0 ||
      words * (32 / attrs->bits) != k / blocks || DimValue(weight->shape[3]) != kBlock) {
    throw ShapeError("data and weights don't fit");
  }
  return TensorType({data->shape[0], Dim(attrs->units)}, kFloat);
}

}  // namespace

Problem BlockProductProblem(const BlockProductAttrs& attrs, const TensorTypeNode* data, const TensorTypeNode* weight) {
  const qnn::BlockWeights w = qnn::BlockWeightsOf(attrs, data, weight);
  return Make<Problem, BlockDenseProblemNode>([&](auto& p) {
    p.m = DimValue(data->shape[0]);
    p.k = w.blocks * w.block;
    p.n = DimValue(weight->shape[0]) * kBlock;
    p.block = w.block;
    p.bits = w.bits;
    p.digits = attrs.digits;
    p.symmetric = attrs.symmetric;
  });
}

namespace {

Problem ProblemOf(const BlockDenseAttrs* a, const Array<Tensor>& inputs) {
  return Make<Problem, BlockDenseProblemNode>([&](auto& p) {
    p.m = DimValue(inputs[0]->shape[0]);
    p.k = DimValue(inputs[0]->shape[1]);
    p.n = DimValue(inputs[4]->shape[0]) * kBlock;
    p.block = p.k / DimValue(inputs[4]->shape[1]);
    p.bits = a->bits;
    p.digits = a->digits;
    p.symmetric = a->symmetric;
  });
}

/// Numbers k .. k + 3 of row `m`.
PrimExpr WordAt(const Tensor& data, const PrimExpr& m, const PrimExpr& k) {
  return tir::pack_bytes(data(m, k), data(m, k + Index(1)), data(m, k + Index(2)), data(m, k + Index(3)));
}

Array<Tensor> BlockDenseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<BlockDenseAttrs>();
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor& weight = inputs[4];
  const PrimExpr rows = type->shape[0], columns = weight->shape[0], blocks = weight->shape[1];
  const int64_t words = DimValue(weight->shape[2]) - ScaleRows(a), numbers = words * 32 / a->bits;
  /// Sums of products of a block, for digits of the data.
  auto dots = [&](const Tensor& data, const char* name, const char* role) {
    te::IterVar w = te::ReduceAxis(tir::Range(Index(words)), "w");
    return te::Compute(
        {rows, columns, blocks, Index(kBlock)},
        [&](const Array<te::Var>& i) {
          const PrimExpr word = weight(i[1], i[2], w->var, i[3]);
          const PrimExpr k = PrimExpr(i[2]) * Index(numbers) + PrimExpr(w->var) * Index(32 / a->bits);
          if (a->bits == 8) return te::Sum(tir::dot_bytes(word, WordAt(data, i[0], k)), {w});
          const PrimExpr mask = tir::make_const(kWord, int64_t{0x0f0f0f0f});
          const PrimExpr high = tir::right_shift(word, tir::make_const(kWord, int64_t{4}));
          return te::Sum(tir::dot_bytes(tir::bitwise_and(word, mask), WordAt(data, i[0], k)) +
                             tir::dot_bytes(tir::bitwise_and(high, mask), WordAt(data, i[0], k + Index(kBytes))),
                         {w});
        },
        name, name, StageAttrs(kName, role));
  };
  const Tensor first = dots(inputs[0], "block_dots", "dots");
  std::optional<Tensor> second;
  if (a->digits == 2) second = dots(inputs[1], "block_dots_low", "dots_low");
  te::IterVar b = te::ReduceAxis(tir::Range(blocks), "b");
  auto product = [&](const PrimExpr& m, const PrimExpr& column, const PrimExpr& lane) {
    PrimExpr dot = tir::cast(kFloat, first(m, column, b->var, lane));
    if (second)
      dot = dot * tir::make_const(kFloat, int64_t{128}) + tir::cast(kFloat, (*second)(m, column, b->var, lane));
    const PrimExpr scale = inputs[2](m, b->var), sum = inputs[3](m, b->var);
    auto scale_row = [&](int64_t row) {
      return tir::reinterpret(kFloat, weight(column, b->var, Index(words + row), lane));
    };
    if (a->symmetric) return te::Sum((dot * scale - sum) * scale_row(0), {b});
    return te::Sum(dot * scale_row(0) * scale - scale_row(1) * sum, {b});
  };
  Tensor sums = te::Compute(
      {rows, columns, Index(kBlock)}, [&](const Array<te::Var>& i) { return product(i[0], i[1], i[2]); }, "block_dense",
      "block_dense", AnchorAttrs(kName, "sum", ProblemOf(a, inputs)));
  return {te::Compute(
      type->shape,
      [&](const Array<te::Var>& i) {
        return sums(i[0], tir::floordiv(i[1], Index(kBlock)), tir::floormod(i[1], Index(kBlock)));
      },
      "block_dense_result", tag::kInjective)};
}

// ---- Plans and what they cost ----

class BlockDensePlanNode : public PlanNode {
 public:
  int64_t mr = 1, k_words = 1;
  TREADLE_NODE(BlockDensePlanNode, PlanNode, "schedule.BlockDensePlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mr", &BlockDensePlanNode::mr).Doc("register tile: rows");
    r.Field("k_words", &BlockDensePlanNode::k_words).Doc("words of a block's weights that are written out");
  }
};

constexpr int64_t kMostRows = 8, kMostWords = 8;

int64_t RegistersOf(const Machine& machine) {
  return std::max<int64_t>(1, kBlock / std::max(1, machine.vector_lanes(32)));
}

/// Rows of a tile: each has two sums in registers, or three.
int64_t RowsOfTile(int64_t rows, const Machine& machine) {
  const int64_t most = std::clamp<int64_t>((machine.vector_registers - 6) / (3 * RegistersOf(machine)), 1, kMostRows);
  if (rows < 0) return most;
  const int64_t tiles = CeilDiv(rows, most);
  return CeilDiv(rows, tiles);
}

int64_t WordsOfBlock(const BlockDenseProblemNode& p) { return p.block * p.bits / 32; }

/// Whether so many words of a block can be written out.
bool DividesBlock(const BlockDenseProblemNode& p, int64_t words) { return words == 1 || WordsOfBlock(p) % words == 0; }

std::vector<Plan> Space(const Problem& problem, const Machine& machine) {
  constexpr int64_t kFirstWords = 4;
  const auto& p = *problem.as<BlockDenseProblemNode>();
  std::vector<Plan> plans;
  auto add = [&](int64_t rows, int64_t words) {
    plans.push_back(Make<Plan, BlockDensePlanNode>([&](auto& plan) {
      plan.mr = rows;
      plan.k_words = words;
    }));
  };
  const int64_t first = RowsOfTile(p.m, machine), words = DividesBlock(p, kFirstWords) ? kFirstWords : 1;
  add(first, words);
  for (int64_t rows = std::min(kMostRows, p.m < 0 ? kMostRows : p.m); rows >= 1; --rows) {
    for (int64_t w = kMostWords; w >= 1; w /= 2) {
      if (DividesBlock(p, w) && (rows != first || w != words)) add(rows, w);
    }
  }
  return plans;
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockDensePlanNode>();
  const int64_t m = p.m < 0 ? kSymbolicWidth : std::max<int64_t>(1, p.m), registers = RegistersOf(machine);
  const auto rows = static_cast<double>(plan.mr), vectors = static_cast<double>(registers);
  const auto words = static_cast<double>(WordsOfBlock(p)), digits = static_cast<double>(p.digits);
  const double dot = machine.fma_cycles * (machine.vnni ? 1 : fitted.block_pairs), dots = p.bits == 4 ? 2 : 1;
  const double load = vectors * (machine.load_cycles + (p.bits == 4 ? fitted.block_part * machine.fma_cycles : 0));
  const double multiply = rows * digits * dots * (vectors * dot + machine.load_cycles);
  double tile = words * (std::max(machine.fma_latency_cycles, load + multiply) +
                         fitted.block_loop / static_cast<double>(plan.k_words)) +
                rows * digits * vectors * fitted.block_scale * machine.fma_cycles;
  if (plan.mr * registers * (p.digits + 1) + 3 * registers > machine.vector_registers) tile *= fitted.block_spilled;
  const int64_t panels = p.n / kBlock, blocks = p.k / p.block;
  const double tiles = static_cast<double>(CeilDiv(m, plan.mr)) * static_cast<double>(panels);
  const double bytes = static_cast<double>(p.n * p.bits) / 8 * static_cast<double>(p.k);
  const double alone = tiles * static_cast<double>(blocks) * tile + bytes * machine.weight_cycles_per_byte;
  const int64_t threads = ModelledThreads(machine);
  return alone * (1 + LoadImbalance(panels, 1, 1, 1, threads)) / 2;
}

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockDensePlanNode>();
  if (plan.mr < 1 || plan.mr > kMostRows || (p.m >= 0 && plan.mr > std::max<int64_t>(1, p.m))) {
    return StrCat("tiles of ", plan.mr, " rows, of ", p.m);
  }
  const bool fits = plan.k_words >= 1 && plan.k_words <= kMostWords && DividesBlock(p, plan.k_words);
  return fits ? "" : StrCat(plan.k_words, " words of ", WordsOfBlock(p));
}

// ---- The schedule ----

constexpr std::array<const char*, 2> kDots = {"dots_low", "dots"};

/// Divides the loop over blocks into groups, each of which prefetches the weights of the next one: processors that
/// fetch ahead by themselves don't do so far enough to hide the latency of a server's memory.
void PrefetchGroups(Schedule& sch, const Stages& stages, const BlockRV& product, const LoopRV& blocks) {
  constexpr int64_t kMostBlocks = 12, kLeastBlocks = 4;  // of 4 bits: 1 to 4 KiB
  const int64_t each = LargestDivisor(std::max<int64_t>(1, Extent(sch, blocks)), kMostBlocks);
  if (each < kLeastBlocks) return;
  const auto are_dots = [&](const tir::Buffer& buffer) {
    return std::any_of(kDots.begin(), kDots.end(), [&](const char* role) {
      return stages.Has(role) && sch.Get(stages.At(role))->writes[0]->buffer.same_as(buffer);
    });
  };
  const tir::Block node = sch.Get(product);
  for (size_t i = 0; i < node->reads.size(); ++i) {
    const tir::Buffer& buffer = node->reads[i]->buffer;
    if (buffer->dtype != kWord || are_dots(buffer)) continue;
    const LoopRV group = sch.Split(blocks, {kRest, PrimExpr(each)})[1];
    sch.PrefetchNext(product, static_cast<int>(i), group, group);
    return;
  }
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<BlockDenseProblemNode>();
  const auto& plan = *chosen.as<BlockDensePlanNode>();
  const BlockRV& product = stages.anchor();
  const double work = Work(sch, product) * static_cast<double>(kBlock);
  std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages, true));  // .., rows, columns
  const size_t rank = out.size();
  std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mr)});
  std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(kBlock)});
  sch.Reorder({columns[0], rows[0], rows[1], columns[1]});
  ComputeTileOfRows(sch, product, rows[0], rows[1], {0}, 2);
  // The loop over blocks is the one that the sums' block is in.
  LoopRV blocks;
  for (const LoopRV& loop : sch.GetLoops(product)) {
    if (sch.Get(loop)->kind == tir::ForKind::kSerial) blocks = loop;
  }
  for (const char* role : kDots) {
    if (stages.Has(role)) ComputeTile(sch, stages.At(role), blocks, {0}, 3, 1, plan.k_words);
  }
  if (p.m >= 0 && p.m <= plan.mr) PrefetchGroups(sch, stages, product, blocks);
  sch.Vectorize(columns[1]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

}  // namespace

double BlockProductMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

void RegisterBlockDense() {
  OpRegistration("qnn.contrib_block_dense")
      .Describe("Data of 8 or 16 bits times weights of 4 or 8 bits, both with scales per block, in float32.")
      .Arguments({{"data", "Tensor", "(m, k) int8"},
                  {"low", "Tensor", "(m, k) int8: second digits of the data, base 128; not used with one digit"},
                  {"scales", "Tensor", "(m, blocks) of the data"},
                  {"sums", "Tensor", "(m, blocks): of the data, scaled"},
                  {"weight", "Tensor",
                   "(units / 16, blocks, words of a block + 1 or 2, 16) int32: along k, numbers 4 .. 7 of 8 in the "
                   "high halves "
                   "of bytes; then the scales' bits, and those of scaled zero points unless symmetric"}})
      .AttrsType<BlockDenseAttrs>()
      .SupportLevel(11)
      .Relation(Rule<BlockDenseInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(BlockProductMacs))
      .Set(kCompute, FTECompute(BlockDenseCompute));
  BlockDenseProblemNode::StaticTypeInfo();
  Kernel kernel;
  kernel.name = kName;
  kernel.op = kBlockProduct;
  kernel.target = "cpu";
  kernel.revision = 2;
  kernel.plan_type = BlockDensePlanNode::StaticTypeInfo();
  kernel.least_gain = 0.95;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.apply = Apply;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
