// SPDX-License-Identifier: Apache-2.0
// Matrix products with a packed right operand: panels of 16 columns fill a vector, and one element of the left operand,
// broadcast, is multiplied by a vector of columns. data (batch.., m.., k), weight (batch.., ceil(n / 16), k, 16);
// result (batch.., m.., n). Constants are packed at compile time, and packing an activation fuses with its producer. If
// it has none (an input of the model), the product packs a few panels just before it uses them (nn.packing_matmul).
//
// Blocking and names follow Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication": blocks of mc
// rows, kc of k and nc columns, register tiles of mr x nr, nr being one or two panels. All tiles of rows use a panel
// before the next panels, whose memory is prefetched meanwhile. If many panels use a block of rows, the rows are packed
// as well: in the order in which a tile reads them they are one stream of memory instead of one per row, and they don't
// compete for the same sets of the L1 cache. Panels that are kept in 16 bits are widened as they are read, or, for many
// rows, when they are packed for all of them. If there are too few tiles of rows to amortise fetching a long panel, k
// is blocked: a chunk of the panel stays in the L1 cache, and partial results of some panels in the L2 cache. So it is
// if rows of a dynamic number are so long that few fit the L2 cache, each block of which would read the weight again.
#include <algorithm>

#include "ops/change_layout.h"
#include "ops/infer.h"
#include "ops/macs.h"
#include "ops/taken_matrices.h"
#include "ops/te_util.h"
#include "passes/reshape_last.h"
#include "targets/cpu/kernels/matmul_plan.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/problems.h"
#include "targets/cpu/kernels/word_matmul.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/make.h"
#include "treadle/ops/size_forms.h"

namespace treadle::ops::cpu {
namespace {

using relay::CallNode;
using relay::ConstantNode;
using relay::Expr;
using relay::LaidOutCall;

constexpr const char* kName = "matmul.packed";
constexpr int64_t kBlock = kPackedColumns;

// ---- The computation ----

/// data (batch.., m.., k), weight (batch.., ceil(units / 16), k, 16): (batch.., m.., units). Attribute units must be
/// given.
Type PackedDenseInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<DenseAttrs>();
  size_t rank = weight->shape.size();
  if (rank < 3 || data->shape.empty() || !attrs->units.has_value()) {
    throw ShapeError("needs data of rank 1 and more, a weight of rank 3 and more, and units");
  }
  size_t batch = rank - 3;
  if (batch != 0 && data->shape.size() != batch + 2) throw ShapeError("data and weight must have the same batch");
  for (size_t i = 0; i < batch; ++i) CheckDim(context, weight, i, "weight", data->shape[i], "data's batch");
  CheckDim(context, weight, rank - 3, "weight", Dim(CeilDiv(*attrs->units, kBlock)), "units in blocks");
  CheckDim(context, weight, rank - 2, "weight", data->shape.back(), "data's columns");
  CheckDim(context, weight, rank - 1, "weight", Dim(kBlock), "a block");
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, Dim(*attrs->units));
  return TensorType(out, attrs->out_dtype.is_void() ? data->dtype : attrs->out_dtype);
}

Problem ProblemOf(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type, bool packs_b) {
  return Make<Problem, MatmulProblemNode>([&](auto& p) {
    const size_t rank = type->shape.size();
    for (size_t i = 0; i + 2 < rank; ++i) p.batch = p.batch < 0 ? -1 : p.batch * DimValue(type->shape[i]);
    p.m = rank == 1 ? 1 : DimValue(type->shape[rank - 2]);
    p.n = DimValue(type->shape[rank - 1]);
    p.k = DimValue(weight->shape[weight.ndim() - 2]);
    p.dtype = data->dtype;
    p.weight_dtype = weight->dtype;
    p.out_dtype = type->dtype;
    p.n_block = kBlock;
    p.packs_b = packs_b;
  });
}

Array<te::Tensor> PackedSum(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type,
                            bool packs_b) {
  const Map<String, ObjectRef> stage = AnchorAttrs(kName, "sum", ProblemOf(data, weight, type, packs_b));
  size_t batch = weight.ndim() - 3;
  te::IterVar k = te::ReduceAxis(tir::Range(weight->shape[batch + 1]), "k");
  DataType dtype = type->dtype;
  auto product = [&](const Array<te::Var>& i) {
    Array<PrimExpr> from = Indices(i);
    PrimExpr unit = from.back();
    from.Set(from.size() - 1, k->var);
    Array<PrimExpr> at;
    for (size_t d = 0; d < batch; ++d) at.push_back(from[d]);
    at.push_back(tir::floordiv(unit, Index(kBlock)));
    at.push_back(k->var);
    at.push_back(tir::floormod(unit, Index(kBlock)));
    return te::Sum(tir::cast(dtype, data(from)) * tir::cast(dtype, weight(at)), {k});
  };
  const int64_t* units = AsConstInt(type->shape.back());
  if (units != nullptr && *units % kBlock == 0) {
    return {te::Compute(type->shape, product, "packed_dense", "packed_dense", stage)};
  }
  // Whole blocks are summed; those columns that only fill the last one are left behind.
  Array<PrimExpr> padded = type->shape;
  padded.Set(padded.size() - 1, DimMul(weight->shape[batch], Dim(kBlock)));
  te::Tensor sum = te::Compute(padded, product, "packed_dense", "packed_dense", stage);
  return {te::Compute(
      type->shape, [&](const Array<te::Var>& i) { return sum(Indices(i)); }, "packed_dense_result", tag::kInjective)};
}

/// Whether panels of 16 bits are widened before they are multiplied: once for all tiles of rows, where these are more
/// than what a copy of the panel costs. Of a dynamic number of rows there may be many.
bool WidensPanels(const te::Tensor& weight, const TensorTypeNode* type) {
  constexpr int64_t kLeastRows = 40;
  const size_t rank = type->shape.size();
  const int64_t rows = rank == 1 ? 1 : DimValue(type->shape[rank - 2]);
  return weight->dtype.bits() == 16 && type->dtype == DataType::Float(32) && (rows < 0 || rows >= kLeastRows);
}

Array<te::Tensor> PackedDenseCompute(const Attrs&, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor& weight = inputs[1];
  const TensorTypeNode* type = OutTensor(out_type);
  if (!WidensPanels(weight, type)) return PackedSum(inputs[0], weight, type, false);
  te::Tensor wide = te::ComputeStage(
      weight->shape, [&](const Array<PrimExpr>& i) { return tir::cast(type->dtype, weight(i)); }, "packed_columns",
      StageAttrs(kName, "pack_b"));
  return PackedSum(inputs[0], wide, type, true);
}

/// data (batch.., m.., k), weight (batch.., k, n) or, transpose_b, (batch.., n, k): (batch.., m.., n).
Type PackingMatmulInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* weight = context.Tensor(1, "weight");
  const auto* attrs = context.attrs<MatmulAttrs>();
  const size_t rank = weight->shape.size();
  if (rank < 2 || data->shape.empty() || attrs->transpose_a) {
    throw ShapeError("needs data of rank 1 and more that isn't transposed, and a weight of rank 2 and more");
  }
  auto differ = [&](const PrimExpr& a, const PrimExpr& b) { return !SameDim(a, b) && !context.Equal(a, b); };
  if (rank > 2 && data->shape.size() != rank) throw ShapeError("data and weight must have the same batch");
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (differ(data->shape[i], weight->shape[i])) throw ShapeError("the batches of data and weight differ");
  }
  if (differ(data->shape.back(), weight->shape[attrs->transpose_b ? rank - 1 : rank - 2])) {
    throw ShapeError("the inner dimensions of data and weight differ");
  }
  Array<PrimExpr> out = data->shape;
  out.Set(out.size() - 1, weight->shape[attrs->transpose_b ? rank - 2 : rank - 1]);
  return TensorType(out, attrs->out_dtype.is_void() ? data->dtype : attrs->out_dtype);
}

Array<PrimExpr> LeadingDims(const Array<PrimExpr>& shape, size_t count) {
  return Array<PrimExpr>(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count));
}

/// The dimensions of rows that meet the same matrix, of data (batch.., m.., k) and a weight of so many dimensions.
Array<PrimExpr> RowsOfPacking(const Array<PrimExpr>& data, size_t weight_rank) {
  return weight_rank > 2 ? Array<PrimExpr>{data[data.size() - 2]} : LeadingDims(data, data.size() - 1);
}

/// One row reads the matrix as it is, and so does one column: packing it would cost more than the product.
Array<te::Tensor> RowProduct(const te::Tensor& data, const te::Tensor& weight, bool k_first,
                             const TensorTypeNode* type) {
  const size_t rank = weight.ndim();
  const te::IterVar k = te::ReduceAxis(tir::Range(data->shape.back()), "k");
  return {te::Compute(
      type->shape,
      [&](const Array<te::Var>& i) {
        Array<PrimExpr> row = Indices(i), at = LeadingDims(row, rank - 2);
        const PrimExpr unit = row.back();
        row.Set(row.size() - 1, k->var);
        at.push_back(k_first ? PrimExpr(k->var) : unit);
        at.push_back(k_first ? unit : PrimExpr(k->var));
        return te::Sum(tir::cast(type->dtype, data(row)) * tir::cast(type->dtype, weight(at)), {k});
      },
      "row_product", tag::kCommReduce)};
}

Array<te::Tensor> PackingMatmulCompute(const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
  const te::Tensor& weight = inputs[1];
  const bool words = HasWords(inputs[0]->dtype, weight->dtype);
  const bool k_first = !attrs.as<MatmulAttrs>()->transpose_b;
  const size_t rank = weight.ndim();
  const PrimExpr k = weight->shape[k_first ? rank - 2 : rank - 1], n = weight->shape[k_first ? rank - 1 : rank - 2];
  const int64_t columns = DimValue(n);  // -1: known when the model runs
  const Array<PrimExpr> rows = RowsOfPacking(inputs[0]->shape, rank);
  const bool one =
      tir::is_one(n) || std::all_of(rows.begin(), rows.end(), [](const PrimExpr& dim) { return tir::is_one(dim); });
  if (one && inputs[0]->dtype == DataType::Float(32) && weight->dtype == inputs[0]->dtype) {
    return RowProduct(inputs[0], weight, k_first, OutTensor(out_type));
  }
  Array<PrimExpr> shape;
  for (size_t d = 0; d + 2 < rank; ++d) shape.push_back(weight->shape[d]);
  shape.push_back(DimFloorDiv(DimAdd(n, Dim(kBlock - 1)), Dim(kBlock)));
  shape.push_back(words ? Words(k, weight->dtype) : k);
  shape.push_back(Index(kBlock));
  te::Tensor packed = te::ComputeStage(
      shape,
      [&](const Array<PrimExpr>& i) {
        if (words) return PackedWord(weight, k_first, i);
        const PrimExpr unit = i[rank - 2] * Index(kBlock) + i[rank];
        Array<PrimExpr> at;
        for (size_t d = 0; d + 2 < rank; ++d) at.push_back(i[d]);
        at.push_back(k_first ? i[rank - 1] : unit);
        at.push_back(k_first ? unit : i[rank - 1]);
        if (columns >= 0 && columns % kBlock == 0) return weight(at);
        return tir::if_then_else(unit < n, weight(at), tir::make_zero(weight->dtype));
      },
      "packed_columns", StageAttrs(kName, "pack_b"));
  const TensorTypeNode* type = OutTensor(out_type);
  if (!words) return PackedSum(inputs[0], packed, type, true);
  return WordSums(inputs[0], packed, type, [&](const te::Tensor& rows) {
    return AnchorAttrs(kName, "sum", ProblemOf(rows, packed, type, true));
  });
}

constexpr int64_t kLanes = kPackedColumns;
/// Unrolled steps of K: the more, the fewer places that weights are prefetched at.
constexpr int64_t kUnrollK = 4, kUnrollKNoPrefetch = 2;
/// Tiles of a dynamic number of rows that fetch the next panels.
constexpr int64_t kFewTiles = 2;
/// Steps of k that are written out: with words, of which each is a dot product, few save as much.
int64_t StepsOf(const MatmulProblemNode& p) { return p.dtype.bits() == 8 ? 2 : kUnrollK; }

// ---- The schedule ----

/// Index among the buffers that `block` reads of the one that it reads per row, (.., m, k), of a product with a packed
/// weight; -1 where there is none.
int RowsOperand(Schedule& sch, const BlockRV& block, size_t rank) {
  tir::Block node = sch.Get(block);
  const tir::IterVar& row = node->iter_vars[rank - 2];
  for (size_t i = 0; i < node->reads.size(); ++i) {
    const tir::BufferRegion& region = node->reads[i];
    if (region->buffer.same_as(node->writes[0]->buffer) || region->region.size() != rank) continue;
    if (region->region[rank - 2]->min.same_as(row->var)) return static_cast<int>(i);
  }
  return -1;
}

/// Copies the operand whose rows meet vectors of the other: (.., k / chunk, m / rows, chunk, rows), where two bfloat16
/// that are multiplied at a time stay neighbours: (.., chunk / 2, rows, 2).
void PackRows(Schedule& sch, const BlockRV& block, size_t rank, const MatmulProblemNode& p, const MatmulPlanNode& plan,
              double work) {
  const int operand = RowsOperand(sch, block, rank);
  if (operand < 0) return;
  BlockRV copy = sch.CacheRead(block, operand, "global");
  // In the type of the block's own indices: casts would keep the simplifier from joining them with the loops.
  const DataType index = sch.Get(copy)->iter_vars[0]->var->dtype;
  std::vector<tir::Var> at;
  std::vector<PrimExpr> to;
  for (size_t i = 0; i < rank; ++i) {
    at.emplace_back(StrCat("i", i), index);
    if (i + 2 < rank) to.push_back(at.back());
  }
  const bool pairs = p.dtype.is_bfloat16() && p.weight_dtype == DataType::Int(32);
  const IntImm two(index, 2), rows(index, plan.mr), chunk(index, plan.kc);
  const PrimExpr m = at[rank - 2], k = pairs ? tir::floordiv(at[rank - 1], two) : PrimExpr(at[rank - 1]);
  const PrimExpr tile = tir::floordiv(m, rows), row = tir::floormod(m, rows);
  if (plan.kc == 0) {
    to.insert(to.end(), {tile, k, row});
  } else {
    to.insert(to.end(), {tir::floordiv(k, chunk), tile, tir::floormod(k, chunk), row});
  }
  if (pairs) to.push_back(tir::floormod(at[rank - 1], two));
  sch.TransformLayout(copy, true, 0, at, to);
  std::vector<LoopRV> loops = sch.GetLoops(copy);
  std::vector<LoopRV> parts = sch.Split(loops[rank - 2], {kRest, rows});
  if (pairs) {
    std::vector<LoopRV> words = sch.Split(loops[rank - 1], {kRest, two});
    sch.Reorder({parts[0], words[0], parts[1], words[1]});
    sch.Vectorize(words[1]);
  } else {
    sch.Reorder({parts[0], loops[rank - 1], parts[1]});
  }
  sch.Unroll(parts[1]);
  std::vector<LoopRV> outer(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(rank) - 2);
  outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// Packs columns of the right operand under `group`, which uses them; `words`: as words of several numbers.
void PackPanels(Schedule& sch, const BlockRV& packing, const LoopRV& group, bool words) {
  sch.ComputeAt(packing, group);
  std::vector<LoopRV> axes = LoopsUnder(sch, packing, group);  // batch.., n / 16, k, 16
  const size_t n = axes.size();
  if (!words && axes[n - 2].defined() && TransposedAxis(sch, packing) == static_cast<int>(n) - 2) {
    TransposeTile(sch, axes[n - 2], axes[n - 1]);
    return;
  }
  if (axes[n - 3].defined() && axes[n - 2].defined()) sch.Reorder({axes[n - 2], axes[n - 3]});
  sch.Vectorize(axes[n - 1]);
}

/// Sums of one row: bound by reading the other operand. Several blocks of columns at once are several streams of memory
/// and as many chains of sums.
void ScheduleVectorProduct(Schedule& sch, const BlockRV& block, const std::vector<LoopRV>& out, int64_t blocks,
                           double work) {
  std::vector<LoopRV> parts = sch.Split(out.back(), {kRest, PrimExpr(blocks), PrimExpr(kLanes)});
  ComputeTile(sch, block, parts[0], {}, static_cast<int>(out.size()) - 1, blocks);
  sch.Vectorize(parts[2]);
  sch.Unroll(parts[1]);
  std::vector<LoopRV> outer(out.begin(), out.end() - 1);
  outer.push_back(parts[0]);
  FuseParallel(sch, outer, work);
}

/// The sum of a chunk for all tiles of some panels before the next chunk, or, of a dynamic number of rows, for those of
/// a block. What follows the product runs once these results are complete.
void ScheduleChunks(Schedule& sch, const BlockRV& block, const BlockRV& packing, const std::vector<LoopRV>& out,
                    const MatmulProblemNode& p, const MatmulPlanNode& plan, double work) {
  const size_t rank = out.size();
  std::vector<LoopRV> loops = sch.GetLoops(block);
  LoopRV chunks = sch.Split(loops[rank], {kRest, PrimExpr(plan.kc)})[0];
  BlockRV partial = sch.RFactor(chunks, 0);
  const int64_t lanes = plan.nr * kLanes;
  std::vector<LoopRV> columns =
      sch.Split(out[rank - 1], {kRest, PrimExpr(plan.nc_tiles * lanes / kLanes), PrimExpr(kLanes)});
  std::vector<LoopRV> outer(out.begin(), out.end() - 2);
  if (p.m < 0) {
    // Partial results of a block of rows, not of however many there are.
    std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mc_tiles * plan.mr)});
    sch.Reorder({rows[0], columns[0], rows[1], columns[1], columns[2]});
    outer.push_back(rows[0]);
  } else {
    sch.Reorder({columns[0], out[rank - 2], columns[1], columns[2]});
  }
  sch.ComputeAt(block, columns[0]);
  std::vector<LoopRV> axes = LoopsUnder(sch, block, columns[0]);  // .., m, n, chunk
  LoopRV sum = axes[rank];
  std::vector<LoopRV> n = sch.Split(axes[rank - 1], {kRest, PrimExpr(plan.nr), PrimExpr(kLanes)});
  const bool one_row = !axes[rank - 2].defined();
  if (one_row) {
    sch.Reorder({sum, n[0], n[1], n[2]});
    ComputeTile(sch, partial, n[0], {}, static_cast<int>(rank) - 1, plan.nr);
  } else {
    std::vector<LoopRV> m = sch.Split(axes[rank - 2], {kRest, PrimExpr(plan.mr)});
    sch.Reorder({sum, n[0], m[0], m[1], n[1], n[2]});
    ComputeTile(sch, partial, m[0], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1, plan.nr, StepsOf(p));
    sch.Unroll(m[1]);
    if (!packing.defined()) PrefetchWeights(sch, partial, m[0], plan.mc_tiles, plan.kc % StepsOf(p) == 0);
  }
  sch.Vectorize(n[2]);
  sch.Unroll(n[1]);
  if (packing.defined()) PackPanels(sch, packing, columns[0], p.out_dtype.is_int());
  sch.DecomposeReduction(block, sum);
  sch.Vectorize(columns[2]);
  outer.push_back(columns[0]);
  FuseParallel(sch, outer, work);
}

void Apply(Schedule& sch, Stages& stages, const Problem& problem, const Machine&, const Plan& chosen) {
  const auto& p = *problem.as<MatmulProblemNode>();
  const auto& plan = *chosen.as<MatmulPlanNode>();
  const BlockRV block = stages.anchor(), packing = stages.Find("pack_b");
  double work = Work(sch, block);
  std::vector<LoopRV> out = sch.GetLoops(OutputOf(sch, stages));  // .., m, n
  const size_t rank = out.size();
  if (rank == 1 || (Extent(sch, out[rank - 2]) == 1 && plan.kc == 0)) {
    return ScheduleVectorProduct(sch, block, out, plan.nr, work);
  }
  if (plan.pack_a) PackRows(sch, block, rank, p, plan, work);
  if (plan.kc != 0) return ScheduleChunks(sch, block, packing, out, p, plan, work);
  std::vector<LoopRV> rows = sch.Split(out[rank - 2], {kRest, PrimExpr(plan.mc_tiles), PrimExpr(plan.mr)});
  std::vector<LoopRV> columns =
      sch.Split(out[rank - 1], {kRest, PrimExpr(plan.nc_tiles), PrimExpr(plan.nr), PrimExpr(kLanes)});
  // All rows use what is packed at a time.
  std::vector<LoopRV> outer{rows[0], columns[0]};
  if (packing.defined()) std::swap(outer[0], outer[1]);
  sch.Reorder({outer[0], outer[1], columns[1], rows[1], rows[2], columns[2], columns[3]});
  ComputeTileOfRows(sch, block, rows[1], rows[2], {static_cast<int>(rank) - 2}, static_cast<int>(rank) - 1, plan.nr,
                    packing.defined() ? kUnrollKNoPrefetch : StepsOf(p));
  sch.Vectorize(columns[3]);
  sch.Unroll(columns[2]);
  if (packing.defined()) {
    PackPanels(sch, packing, columns[0], p.out_dtype.is_int());
    outer.pop_back();
  } else {
    // Of a dynamic number of rows there may be few.
    const int64_t within = p.m < 0 ? kFewTiles : 0;
    PrefetchWeights(sch, block, rows[1], plan.mc_tiles, p.k > StepsOf(p) && p.k % StepsOf(p) == 0, within);
  }
  outer.insert(outer.begin(), out.begin(), out.end() - 2);
  FuseParallel(sch, outer, work);
}

// ---- The graph ----

/// Whether a product packs its right operand itself: one that nothing computes, of enough columns for threads to share.
bool PacksAsItGoes(const CallNode* call, const TensorTypeNode* weight, int64_t units) {
  constexpr int64_t kLeastBlocks = 4;
  if (call->args[1].as<relay::VarNode>() == nullptr) return false;
  int64_t blocks = CeilDiv(units, kBlock);
  for (size_t i = 0; i + 2 < weight->shape.size(); ++i) blocks *= *AsConstInt(weight->shape[i]);
  return blocks >= kLeastBlocks;
}

/// Whether rows of several dimensions, not all of which are known, are those of one matrix: as batches of few rows they
/// would each read the whole weight. Those of known sizes come as a matrix.
bool HasOpenRows(const TensorTypeNode* data) {
  bool open = false, batches = false;
  for (size_t i = 0; i + 1 < data->shape.size(); ++i) {
    const PrimExpr& dim = data->shape[i];
    if (tir::is_zero(dim)) return false;
    open = open || AsConstInt(dim) == nullptr;
    batches = batches || (i + 2 < data->shape.size() && !tir::is_one(dim));
  }
  return open && batches;
}

/// Whether the product is that of a row with a matrix that isn't constant, which is read as it is.
bool IsOneRow(const MatmulProblemNode& p) {
  return p.m == 1 && !p.constant_b && p.dtype == DataType::Float(32) && p.weight_dtype == p.dtype;
}

/// data times the packed form of `weight`, which has layout (batch.., units, k) or, `k_first`, (batch.., k, units).
LaidOutCall PackedProduct(const LayoutRequest& request, bool k_first, bool as_it_goes, DataType out_dtype) {
  const CallNode* call = request.call;
  relay::LayoutArgs& args = request.args;
  const auto* type = args.Type(1);
  size_t rank = type->shape.size();
  const int64_t units = DimValue(type->shape[k_first ? rank - 1 : rank - 2]);
  if (as_it_goes || !IsStatic(type) || PacksAsItGoes(call, type, units)) {
    return PackingProduct(request, k_first, out_dtype);
  }
  Expr packed = PackColumns(args.Plain(1), type, k_first);
  const auto* data = args.Type(0);
  const bool joins = rank == 2 && HasOpenRows(data);
  const Expr rows = joins ? MakeReshape(args.Plain(0), std::vector<int64_t>{-1, DimValue(type->shape[k_first ? 0 : 1])})
                          : args.Plain(0);
  Expr dense = CallWith<DenseAttrs>("nn.packed_dense", {rows, packed}, [&](auto& a) {
    a.units = units;
    a.out_dtype = out_dtype;
  });
  const auto* made = dense.as<CallNode>();
  relay::Call product(made->op, made->args, made->attrs, {}, call->span);
  return LaidOutCall{joins ? relay::RowsApart(product, args.Plain(0), data, units) : product, {}};
}

/// Weights may be kept in 16 bits.
bool IsFloatProduct(DataType data, DataType weight) {
  const bool float_weight = weight == DataType::Float(32) || weight.is_float16() || weight.is_bfloat16();
  return float_weight && data == DataType::Float(32);
}

/// Packing pays always for a constant, for enough rows and columns otherwise.
std::string WhyNot(const Problem& problem, const Machine&) {
  // With so many rows, packing the right operand takes less time than it saves; it takes longer where the operand has
  // to be transposed, or has few columns.
  constexpr int64_t kMinRows = 3, kMinRowsNarrow = 4, kMinRowsTransposed = 5, kNarrow = 4 * kBlock;
  const auto& p = *problem.as<MatmulProblemNode>();
  if (!IsFloatProduct(p.dtype, p.weight_dtype)) return "operands aren't float32";
  if (!p.not_packed.empty()) return p.not_packed;
  if (p.constant_b || IsOneRow(p)) return "";
  // Rows of the operand that don't fill vectors take longer where it isn't packed.
  int64_t least = p.n % kBlock == 0 ? kMinRows : kMinRows - 1;
  if (p.n >= 0 && p.n < kNarrow) least = p.n < kBlock / 2 ? kMinRows - 1 : kMinRowsNarrow;
  if (p.transpose_b) least = kMinRowsTransposed;
  if (p.m >= 0 && p.m < least) return StrCat("fewer than ", least, " rows share what is packed");
  // Few columns that lie in memory as such, and single ones, are summed along k.
  constexpr int64_t kFewInMemory = 5;
  const int64_t least_columns = p.transpose_b ? kFewInMemory : 2;
  return p.n >= 0 && p.n < least_columns ? StrCat("fewer than ", least_columns, " columns") : "";
}

double PackedDenseMacs(const Attrs&, const Array<Type>& arguments, const Type& result) {
  return Elements(ShapeOf(result)) * DimOf(arguments[0], -1);
}

/// The right operand can't be packed: why, or "". One of dynamic sizes is packed where it is multiplied.
std::string WhyNotPacked(const TensorTypeNode* a, const TensorTypeNode* b) {
  if (a == nullptr || b == nullptr) return "an operand isn't a tensor";
  if (!IsStatic(b)) {
    const bool packs = IsFloatProduct(a->dtype, b->dtype) || HasWords(a->dtype, b->dtype);
    return packs ? "" : "the right operand's shape is dynamic";
  }
  return NumElements(StaticShape(b, "packing")) == 0 ? "there are no elements" : "";
}

/// Rows of all batches; -1 where any dimension is dynamic.
int64_t RowsOf(const TensorTypeNode* data) {
  if (!IsStatic(data)) return -1;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < data->shape.size(); ++i) rows *= DimValue(data->shape[i]);
  return rows;
}

/// Operands of a batched product must have the same batch.
std::string WhyNotBatch(const TensorTypeNode* a, const TensorTypeNode* b) {
  constexpr size_t kMaxRank = 8;
  const size_t rank = a->shape.size();
  if (b->shape.size() != rank || rank > kMaxRank) return "operands differ in rank";
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (!SameDim(a->shape[i], b->shape[i])) return "operands differ in batch";
  }
  return "";
}

/// A reshape that keeps the last two dimensions, as one of matrices that are transposed; null where it is another.
Attrs JoinsTransposedBatches(const CallNode* call, const ReshapeAttrs* attrs) {
  const size_t size = attrs->newshape.size();
  std::vector<int64_t> shape;
  for (const PrimExpr& dim : attrs->newshape) {
    if (AsConstInt(dim) == nullptr) return Attrs();
    shape.push_back(*AsConstInt(dim));
  }
  if (shape == std::vector<int64_t>{-3, -2}) return call->attrs;
  const auto* from = call->args[0]->checked_type_.as<TensorTypeNode>();
  if (from == nullptr || from->shape.size() < 2 || size < 2) return Attrs();
  for (size_t i = 0; i < size; ++i) {
    if (shape[i] < 1) return Attrs();
    const size_t end = size - i;
    if (end <= 2 && DimValue(from->shape[from->shape.size() - end]) != shape[i]) return Attrs();
  }
  return MakeAttrs<ReshapeAttrs>([&](auto& a) {
    a.newshape = attrs->newshape;
    a.newshape.Set(size - 2, attrs->newshape[size - 1]);
    a.newshape.Set(size - 1, attrs->newshape[size - 2]);
  });
}

/// What `e` is the transpose of, its last two axes exchanged, where that is there already: what follows from elements
/// one by one is computed in the transposed order for nothing. Null: e is no such transpose.
Expr TransposedOperand(const Expr& e) {
  const auto* call = e.as<CallNode>();
  const auto* joined = call == nullptr ? nullptr : call->attrs.as<ReshapeAttrs>();
  if (const Attrs batches = joined == nullptr ? Attrs() : JoinsTransposedBatches(call, joined); batches.defined()) {
    const Expr source = TransposedOperand(call->args[0]);
    return source.defined() ? Expr(relay::Call(call->op, {source}, batches, {}, call->span)) : source;
  }
  const auto* attrs = call == nullptr ? nullptr : call->attrs.as<TransposeAttrs>();
  if (attrs == nullptr || !attrs->axes.has_value() || attrs->axes->size() < 2) return Expr();
  const size_t rank = attrs->axes->size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t from = i + 2 < rank ? i : 2 * rank - 3 - i;
    const int64_t axis = (*attrs->axes)[i];
    if (static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis) != from) return Expr();
  }
  Expr source = call->args[0];
  for (const auto* made = source.as<CallNode>(); made != nullptr; made = source.as<CallNode>()) {
    if (made->op.as<OpNode>() == nullptr) return Expr();
    const Op op = Downcast<Op>(made->op);
    if (!op.GetAttr(kReshapeOp, false)) {
      const bool follows = op.GetAttr(kOpPattern, OpPatternKind::kOpaque) <= OpPatternKind::kInjective;
      return follows ? Expr() : call->args[0];
    }
    source = made->args[0];
  }
  return call->args[0];
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan&) {
  const Attrs& attrs = request.call->attrs;
  DataType out_dtype;
  if (const auto* dense = attrs.as<DenseAttrs>()) out_dtype = dense->out_dtype;
  if (const auto* matmul = attrs.as<MatmulAttrs>()) out_dtype = matmul->out_dtype;
  if (const auto* batch = attrs.as<BatchMatmulAttrs>()) out_dtype = batch->out_dtype;
  const auto& p = *problem.as<MatmulProblemNode>();
  // What is transposed for so few rows is read once more, and stored, if it's packed before.
  constexpr int64_t kFewRows = 64;
  const bool few = !p.constant_b && p.m >= 0 && p.m <= kFewRows;
  const bool as_it_goes = IsOneRow(p) || (few && TransposedOperand(request.args.Plain(1)).defined());
  return PackedProduct(request, !p.transpose_b, as_it_goes, out_dtype);
}

/// Plans that the model says to be less than this much better than that of rules of thumb don't take its place.
constexpr double kLeastGain = 0.95;

}  // namespace

LaidOutCall PackingProduct(const LayoutRequest& request, bool k_first, DataType out_dtype) {
  relay::LayoutArgs& args = request.args;
  const Array<PrimExpr>& shape = args.Type(1)->shape;
  const int64_t units = DimValue(shape[shape.size() - (k_first ? 1 : 2)]);
  Expr operand = args.Plain(1);
  if (const Expr transposed = TransposedOperand(operand); transposed.defined()) {
    operand = transposed;
    k_first = !k_first;
  }
  Expr product = CallWith<MatmulAttrs>("nn.packing_matmul", {args.Plain(0), operand}, [&](auto& a) {
    if (units >= 0) a.units = units;
    a.out_dtype = out_dtype;
    a.transpose_b = !k_first;
  });
  const auto* made = product.as<CallNode>();
  return LaidOutCall{relay::Call(made->op, made->args, made->attrs, {}, request.call->span), {}};
}

Map<String, ObjectRef> PackedMatmulStage(const te::Tensor& data, const te::Tensor& weight, const TensorTypeNode* type) {
  return AnchorAttrs(kName, "sum", ProblemOf(data, weight, type, false));
}

Problem MatmulProblem(const relay::CallNode* call, const relay::LayoutArgs& args) {
  return Make<Problem, MatmulProblemNode>([&](auto& p) {
    const auto *a = args.Type(0), *b = args.Type(1);
    bool transpose_a = false;
    p.transpose_b = true;
    if (const auto* matmul = call->attrs.as<MatmulAttrs>()) {
      transpose_a = matmul->transpose_a;
      p.transpose_b = matmul->transpose_b;
    }
    const auto* batch = call->attrs.as<BatchMatmulAttrs>();
    if (batch != nullptr) {
      transpose_a = batch->transpose_a;
      p.transpose_b = batch->transpose_b;
    }
    p.not_packed = WhyNotPacked(a, b);
    if (batch != nullptr && p.not_packed.empty()) p.not_packed = WhyNotBatch(a, b);
    if (transpose_a) p.not_packed = "the left operand is transposed";
    if (a == nullptr || b == nullptr || a->shape.empty() || b->shape.size() < 2) return;
    const size_t rank = b->shape.size();
    p.n = DimValue(b->shape[p.transpose_b ? rank - 2 : rank - 1]);
    p.k = DimValue(b->shape[p.transpose_b ? rank - 1 : rank - 2]);
    p.m = batch != nullptr ? DimValue(a->shape[a->shape.size() - 2]) : RowsOf(a);
    if (batch != nullptr) {
      for (size_t i = 0; i + 2 < rank; ++i) p.batch = p.batch < 0 ? -1 : p.batch * DimValue(b->shape[i]);
    }
    if (p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) p.not_packed = "there are no elements";
    p.dtype = a->dtype;
    p.weight_dtype = b->dtype;
    p.out_dtype = call->type_as<TensorTypeNode>() != nullptr ? call->type_as<TensorTypeNode>()->dtype : p.dtype;
    if (const auto* constant = call->args[1].as<ConstantNode>()) p.weight = constant->data;
    p.constant_b = p.weight.get() != nullptr;
    p.b_is_parameter = call->args[1].as<relay::VarNode>() != nullptr;
  });
}

Expr PackColumns(Expr operand, const TensorTypeNode* type, bool k_first) {
  size_t rank = type->shape.size();
  int64_t columns = *AsConstInt(type->shape[k_first ? rank - 1 : rank - 2]);
  int64_t missing = (kBlock - columns % kBlock) % kBlock;
  if (missing != 0) {
    std::vector<std::pair<int64_t, int64_t>> widths(rank, {0, 0});
    widths[k_first ? rank - 1 : rank - 2] = {0, missing};
    operand = CallWith<PadAttrs>("nn.pad", {operand, ScalarConstant(type->dtype, 0.0)},
                                 [&](auto& a) { a.pad_width = IntPairs(widths); });
  }
  std::string batch = std::string("ABDEFGHIJKLM").substr(0, rank - 2);
  return LayoutTransform(operand, batch + (k_first ? "CN" : "NC"), batch + "NC" + std::to_string(kBlock) + "n");
}

void RegisterPackedMatmul() {
  OpRegistration("nn.packed_dense")
      .Describe("Matrix product with a packed right operand.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k)"}, {"weight", "Tensor", "(batch.., ceil(units / 16), k, 16)"}})
      .AttrsType<DenseAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackedDenseInfer, 2>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kMacCount, relay::FMacCount(PackedDenseMacs))
      .Set(kFormForOneRow, FFormForOne([](const Attrs&, const Array<Type>& operands) {
             const Array<PrimExpr>& shape = OutTensor(operands[0])->shape;
             return AsConstInt(shape.back()) == nullptr ? Array<PrimExpr>() : LeadingDims(shape, shape.size() - 1);
           }))
      .Set(kCompute, FTECompute(PackedDenseCompute));
  OpRegistration("nn.packing_matmul")
      .Describe("Matrix product that packs its right operand as it goes.")
      .Arguments({{"data", "Tensor", "(batch.., m.., k)"}, {"weight", "Tensor", "(batch.., k, n)"}})
      .AttrsType<MatmulAttrs>()
      .SupportLevel(10)
      .Relation(Rule<PackingMatmulInfer, 2>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(relay::kCallPattern, relay::FCallPattern(PatternOfProduct))
      .Set(relay::kMacCount, relay::FMacCount(PackedDenseMacs))
      .Set(kFormForOneRow, FFormForOne([](const Attrs&, const Array<Type>& operands) {
             return RowsOfPacking(OutTensor(operands[0])->shape, OutTensor(operands[1])->shape.size());
           }))
      .Set(kFormForOneColumn, FFormForOne([](const Attrs& attrs, const Array<Type>& operands) {
             const Array<PrimExpr>& shape = OutTensor(operands[1])->shape;
             return Array<PrimExpr>{shape[shape.size() - (attrs.as<MatmulAttrs>()->transpose_b ? 2 : 1)]};
           }))
      .Set(kCompute, FTECompute(PackingMatmulCompute));
  Kernel packed = MatmulKernel(WhyNot, Rewrite);
  packed.least_gain = kLeastGain;
  packed.apply = Apply;
  RegisterProducts("packed", packed);
  Kernel plain;
  plain.level = schedule::kPlainLevel;
  RegisterProducts("plain", plain);
}

}  // namespace treadle::ops::cpu
