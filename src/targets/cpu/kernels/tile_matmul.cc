// SPDX-License-Identifier: Apache-2.0
// Matrix products on AMX tile registers: uint8 by int8 in int32, bfloat16 in float32. The right operand is packed as it
// is for vectors (word_matmul.h): 16 words of k of a panel are a tile as they stand. The left operand is read in place,
// in tiles of 16 rows; it is copied only if k doesn't fill tiles.
//
// A call of the intrinsic (treadle/tir/tile_ops.h) computes mr rows of nc panels over all of k into a buffer of its
// own, which the epilogue reads. Either all blocks of rows use some panels before the next ones, so that these stay in
// the L2 cache, or rows stay there and are used by all panels. Where a run shows how many rows there are, or they don't
// fill tiles or blocks, the sums have whole blocks of them, of which those are computed that are there.
#include <algorithm>

#include "ops/infer.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/tile_intrin.h"
#include "targets/cpu/kernels/word_matmul.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/te/tensor.h"

namespace treadle::ops::cpu {
namespace {

constexpr const char* kName = "matmul.tiles";
constexpr int64_t kBytesOfWord = 4;
constexpr int64_t kTile = tir::kTileRows, kOpenRows = 16 * kTile, kColumns = kPackedColumns;
static_assert(kTile == kColumns, "a tile of sums is as wide as a panel");

const WordOps kByteOps{"qnn.contrib_tile_dense", "qnn.contrib_pack_tiles", DataType::Int(32), kTile};
const WordOps kPairOps{"nn.contrib_tile_dense_pairs", "nn.contrib_pack_tile_pairs", DataType::Float(32), kTile};

bool IsByte(DataType dtype) { return dtype == DataType::UInt(8); }
bool IsByteWeight(DataType dtype) { return dtype == DataType::Int(8); }
bool IsHalf(DataType dtype) { return dtype.is_bfloat16(); }
bool HasTiles(DataType data, DataType weight) {
  return (IsByte(data) && IsByteWeight(weight)) || (IsHalf(data) && IsHalf(weight));
}

// ---- The computation ----

Problem ProblemOf(const Tensor& data, const Tensor& weight, const TensorTypeNode* type) {
  return Make<Problem, MatmulProblemNode>([&](auto& p) {
    const size_t rank = type->shape.size();
    for (size_t i = 0; i + 2 < rank; ++i) p.batch = p.batch < 0 ? -1 : p.batch * DimValue(type->shape[i]);
    p.m = DimValue(type->shape[rank - 2]);
    p.n = DimValue(type->shape[rank - 1]);
    p.k = DimValue(data->shape[rank - 1]);
    p.dtype = data->dtype;
    p.weight_dtype = weight->dtype;
    p.out_dtype = type->dtype;
    p.n_block = kColumns;
  });
}

constexpr int64_t kMostRows = 512;  ///< of a call

/// Whether blocks of kOpenRows are computed of `m` rows (-1: as many as a run shows): they don't fill tiles, or can't
/// be divided into blocks of a good size.
bool IsOpen(int64_t m) {
  constexpr int64_t kLeastRows = 128;
  if (m < 0 || m % kTile != 0) return true;
  int64_t rows = std::min(m, kMostRows);
  while (m % rows != 0) rows -= kTile;
  return rows < std::min(m, kLeastRows);
}

/// Rows of sums of which `m` are used.
PrimExpr RowsOfSums(const PrimExpr& m, bool is_open) {
  const int64_t known = DimValue(m);
  if (known >= 0) return Dim(RoundUp(known, is_open ? kOpenRows : kTile));
  return DimMul(DimFloorDiv(DimAdd(m, Dim(kOpenRows - 1)), Dim(kOpenRows)), Dim(kOpenRows));
}

/// Words of `data`, zeros beyond them.
Tensor WholeTiles(const Tensor& data, int64_t words) {
  const size_t last = data.ndim() - 1;
  const PrimExpr k = data->shape[last], used = Words(k, data->dtype);
  Array<PrimExpr> shape = data->shape;
  shape.Set(last, Dim(words));
  auto word = [&](const Array<PrimExpr>& at) {
    const PrimExpr value = WordOf(at[last], k, data->dtype, [&](const PrimExpr& i) {
      Array<PrimExpr> from = at;
      from.Set(last, i);
      return data(from);
    });
    return tir::if_then_else(at[last] < used, value, tir::make_zero(kWord));
  };
  return Compute(shape, word, "words", tag::kInjective);
}

Array<Tensor> TileDenseCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* type = OutTensor(out_type);
  const Tensor &data = inputs[0], &weight = inputs[1];
  const size_t batch = weight.ndim() - 3, last = data.ndim() - 1;
  const DataType dtype = data->dtype;
  const int64_t m = DimValue(data->shape[last - 1]), words = DimValue(weight->shape[batch + 1]);
  const int64_t columns = DimValue(weight->shape[batch]) * kColumns;
  const bool whole = DimValue(data->shape[last]) == words * PerWord(dtype), bounded = IsOpen(m);
  const PrimExpr rows = RowsOfSums(data->shape[last - 1], bounded);
  const Tensor left = whole ? data : WholeTiles(data, words);
  te::IterVar step = te::ReduceAxis(tir::Range(weight->shape[batch + 1]), "k");
  Array<PrimExpr> shape = type->shape;
  shape.Set(last - 1, rows);
  shape.Set(last, Dim(columns));
  auto product = [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i), at;
    const PrimExpr unit = from.back();
    for (size_t d = 0; d < batch; ++d) at.push_back(from[d]);
    for (const PrimExpr& e :
         {tir::floordiv(unit, Index(kColumns)), PrimExpr(step->var), tir::floormod(unit, Index(kColumns))}) {
      at.push_back(e);
    }
    auto element = [&](const PrimExpr& k) {
      from.Set(last, k);
      return left(from);
    };
    const PrimExpr word =
        whole ? MakeWord(dtype,
                         [&](int64_t e) { return element(PrimExpr(step->var) * Index(PerWord(dtype)) + Index(e)); })
              : element(step->var);
    const PrimExpr dot = DotOfWords(dtype, word, weight(at));
    return te::Sum(bounded ? WhereRow(i[last - 1] < data->shape[last - 1], dot) : dot, {step});
  };
  const Tensor sum = te::Compute(shape, product, "tile_dense", "packed_dense",
                                 AnchorAttrs(kName, "sum", ProblemOf(data, weight, type)));
  if (m >= 0 && m == DimValue(rows) && columns == DimValue(type->shape[last])) return {sum};
  return {Compute(type->shape, [&](const Array<PrimExpr>& i) { return sum(i); }, "tile_dense_result", tag::kInjective)};
}

// ---- Plans and what they cost ----

class TilePlanNode : public PlanNode {
 public:
  int64_t mr = kTile, nc = 1;
  bool rows_first = false;
  TREADLE_NODE(TilePlanNode, PlanNode, "schedule.TilePlan")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("mr", &TilePlanNode::mr).Doc("rows that are computed at a time, a multiple of 16");
    r.Field("nc", &TilePlanNode::nc).Doc("panels of 16 columns that are computed at a time");
    r.Field("rows_first", &TilePlanNode::rows_first).Doc("rows are used by all panels before the next rows");
  }
};

struct Sizes {
  int64_t panels, words;
  bool copied;    ///< the left operand is copied, as words that fill tiles
  bool is_open;   ///< blocks have kOpenRows, of which those are computed that are there
  int64_t there;  ///< rows that are computed
  int64_t rows;   ///< of whole blocks
  explicit Sizes(const MatmulProblemNode& p)
      : panels(RoundUp(std::max<int64_t>(1, p.n), kColumns) / kColumns),
        words(RoundUp(std::max<int64_t>(1, p.k), kTile * PerWord(p.dtype)) / PerWord(p.dtype)),
        copied(words * PerWord(p.dtype) != p.k),
        is_open(IsOpen(p.m)),
        there(RoundUp(std::max<int64_t>(1, p.m < 0 ? kSymbolicWidth : p.m), kTile)),
        rows(RoundUp(there, is_open ? kOpenRows : kTile)) {}
};

std::string WhyNotPlan(const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const Sizes s(p);
  const auto& plan = *chosen.as<TilePlanNode>();
  const bool fits = plan.mr >= kTile && plan.mr % kTile == 0 && s.rows % plan.mr == 0;
  if (!fits || (s.is_open && plan.mr != kOpenRows)) return StrCat(plan.mr, " rows at a time");
  return plan.nc >= 1 && s.panels % plan.nc == 0 ? "" : StrCat(plan.nc, " panels don't divide ", s.panels);
}

/// Panels that a call computes: more where rows are used in slices of k, which each of them reads.
int64_t MostPanels(const Sizes& s, int64_t mr) {
  constexpr int64_t kFew = 16, kMany = 128;
  return std::min(s.panels, tir::TileSlices(mr, s.panels, s.words / kTile) > 1 ? kMany : kFew);
}

std::vector<Plan> Space(const Problem& problem, const Machine&) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const Sizes s(p);
  const int64_t most = s.is_open ? kOpenRows : std::min(s.rows, kMostRows), least = s.is_open ? kOpenRows : kTile;
  std::vector<Plan> plans;
  for (int64_t mr = most; mr >= least; mr -= kTile) {
    for (int64_t nc = MostPanels(s, std::min(mr, s.there)); nc >= 1; --nc) {
      if (s.rows % mr != 0 || s.panels % nc != 0) continue;
      for (const bool rows_first : {false, true}) {
        if (rows_first && (s.rows == mr || s.panels == nc)) continue;  // the same
        plans.push_back(Make<Plan, TilePlanNode>([&](auto& plan) {
          plan.mr = mr;
          plan.nc = nc;
          plan.rows_first = rows_first;
        }));
      }
    }
  }
  return plans;
}

/// What takes `work`, and waits for `memory` of the right operand.
double WithMemory(double work, double memory, int64_t rows) {
  // The first block of rows needs panels; the others fetch the next ones.
  const double waits = 1 / static_cast<double>(CeilDiv(rows, 2 * kTile));
  const double part = waits + (1 - waits) * Fitted().amx_fetch;
  return std::max(work, memory) + part * std::min(work, memory);
}

double Cycles(const Problem& problem, const Machine& machine, const Plan& chosen) {
  const FittedCosts& fitted = Fitted();
  const auto& p = *problem.as<MatmulProblemNode>();
  const auto& plan = *chosen.as<TilePlanNode>();
  const Sizes s(p);
  const int64_t images = std::max<int64_t>(1, p.batch), blocks = s.rows / plan.mr, groups = s.panels / plan.nc;
  const auto batch = static_cast<double>(images), down = static_cast<double>(blocks),
             along = static_cast<double>(groups);
  const auto bytes_of = [&](int64_t lines) { return static_cast<double>(lines * s.words * kBytesOfWord); };
  const double left = bytes_of(s.there), right = bytes_of(s.panels * kColumns);
  auto call = [&](int64_t rows) {
    return TileCycles({rows, plan.nc, s.words / kTile, 1, bytes_of(rows)}, p.dtype, machine);
  };
  const int64_t last = s.there - (blocks - 1) * plan.mr;  // rows of the last block
  double work = batch * along * (call(last) + (blocks > 1 ? (down - 1) * call(plan.mr) : 0));
  if (s.copied) work += batch * fitted.amx_copy * left / kBytesOfWord;
  // Beyond the first time: what the outer loop keeps is read in each iteration of the inner one, the rest of the other
  // operand in each of the outer one.
  auto again = [&](double bytes, double near, double times) {
    const bool far = near > static_cast<double>(machine.l2_bytes) * 3 / 4;
    return far ? batch * bytes * (times - 1) * machine.beyond_l2_cycles_per_byte : 0.0;
  };
  const bool rows_first = plan.rows_first;
  work += again(left, rows_first ? left / down + right / along : left + right / along, along);
  work += again(right, rows_first ? right + left / down : left / down + right / along, down);
  const double memory = batch * right * machine.weight_cycles_per_byte;
  const double alone = WithMemory(work, memory, std::min(s.there, plan.mr));
  const int64_t threads = ModelledThreads(machine);
  return threads == 1 ? alone : alone * (1 + LoadImbalance(images * blocks * groups, 1, 1, 1, threads)) / 2;
}

std::string WhyNot(const Problem& problem, const Machine& machine) {
  const auto& p = *problem.as<MatmulProblemNode>();
  if (!HasTiles(p.dtype, p.weight_dtype)) return "operands aren't uint8 and int8, or bfloat16";
  if (p.out_dtype != (IsHalf(p.dtype) ? kPairOps.sum : kByteOps.sum)) return "sums aren't int32 or float32";
  if ((IsHalf(p.dtype) ? machine.pair_tile_cycles : machine.byte_tile_cycles) == 0) return "no tile registers";
  if (!p.not_packed.empty()) return p.not_packed;
  if (p.n < 0 || p.k < 0) return "the right operand's shape is dynamic";
  if (p.n < 2) return "one column";
  return p.m == 0 || p.m == 1 ? "one row" : "";
}

std::optional<relay::LaidOutCall> Rewrite(const schedule::LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const auto* data = request.args.Type(0);
  // Rows are those of the last dimension but one.
  if (!CanPackWords(request.args, HasTiles) || data->shape.size() < 2) return std::nullopt;
  return WordProduct(request.call, request.args, !p.transpose_b, IsHalf(p.dtype) ? kPairOps : kByteOps);
}

// ---- The schedule ----

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const auto& plan = *chosen.as<TilePlanNode>();
  const Sizes s(p);
  const BlockRV block = stages.anchor();
  const double work = Work(sch, block);
  std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages));  // .., m, n
  const size_t rank = out.size();
  const std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mr)});
  const std::vector<LoopRV> columns = sch.Split(out[rank - 1], {kRest, PrimExpr(plan.nc), PrimExpr(kColumns)});
  const LoopRV &first = plan.rows_first ? rows[0] : columns[0], &second = plan.rows_first ? columns[0] : rows[0];
  sch.Reorder({first, second, rows[1], columns[1], columns[2]});
  sch.SetScope(block, 0, "local");
  sch.ComputeAt(block, second);
  const std::vector<LoopRV> axes = LoopsUnder(sch, block, second);  // .., m, n, k
  sch.Tensorize(axes[rank - 2],
                TileProductIntrin(p.dtype, s.copied ? kWord : p.dtype, plan.mr, plan.nc, s.words, s.is_open));
  sch.Vectorize(columns[2]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  outer.insert(outer.end(), {first, second});
  FuseParallel(sch, outer, work);
}

// ---- Registration ----

Type DenseInfer(const InferContext& context, bool (*fits)(DataType), const WordOps& ops, const char* expected) {
  const auto *data = context.Tensor(0, "data"), *weight = context.Tensor(1, "weight");
  if (!IsStatic(weight) || data->shape.size() < 2 || DimValue(data->shape.back()) < 0) {
    throw ShapeError("needs data of rank 2 and more, whose rows are of known length, and weights of known shape");
  }
  return WordDenseInfer(context, fits, ops.sum, expected);
}
Type ByteDenseInfer(const InferContext& context) { return DenseInfer(context, IsByte, kByteOps, "uint8"); }
Type PairDenseInfer(const InferContext& context) { return DenseInfer(context, IsHalf, kPairOps, "bfloat16"); }
Type BytePackInfer(const InferContext& context) { return PackWordsInfer(context, IsByteWeight, "int8", kTile); }
Type PairPackInfer(const InferContext& context) { return PackWordsInfer(context, IsHalf, "bfloat16", kTile); }

void RegisterOps(const WordOps& ops, const std::string& numbers, TypeRelationFn dense, TypeRelationFn pack) {
  RegisterWordOps(ops, numbers, StrCat("(batch.., m, k) ", numbers),
                  "(batch.., ceil(units / 16), words of k, 16) words; words a multiple of 16", dense, pack,
                  TileDenseCompute);
}

}  // namespace

void RegisterTileMatmul() {
  RegisterOps(kByteOps, "bytes", Rule<ByteDenseInfer>, Rule<BytePackInfer>);
  RegisterOps(kPairOps, "bfloat16", Rule<PairDenseInfer>, Rule<PairPackInfer>);
  Kernel kernel;
  kernel.plan_type = TilePlanNode::StaticTypeInfo();
  kernel.why_not = WhyNot;
  kernel.space = Space;
  kernel.cycles = Cycles;
  kernel.why_not_plan = WhyNotPlan;
  kernel.rewrite = Rewrite;
  kernel.apply = Apply;
  RegisterProducts("tiles", kernel);
}

}  // namespace treadle::ops::cpu
