// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/kernels/tile_intrin.h"

#include <algorithm>

#include "ops/infer.h"
#include "ops/te_util.h"
#include "targets/cpu/kernels/kernels.h"
#include "targets/cpu/kernels/packing.h"
#include "targets/cpu/kernels/words.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {

using te::Tensor;

namespace {

constexpr int64_t kLineBytes = 64;  ///< of a row of a tile

/// A tensor in memory whose rows may lie apart.
tir::Buffer StridedBuffer(const Tensor& tensor) {
  Array<PrimExpr> strides;
  for (size_t d = 0; d + 1 < tensor.ndim(); ++d) {
    strides.push_back(tir::Var(StrCat(tensor->op->name, "_stride", d), DataType::Int(64)));
  }
  strides.push_back(Index(1));
  return tir::Buffer(tir::Var(StrCat(tensor->op->name, "_data"), PointerType(PrimType(tensor->dtype))), tensor->dtype,
                     tensor->shape, strides, PrimExpr(), tensor->op->name);
}

tir::BufferLoad At(const tir::Buffer& buffer, const std::vector<int64_t>& index) {
  Array<PrimExpr> at;
  for (const int64_t i : index) at.push_back(Index(i));
  return tir::BufferLoad(buffer, at);
}

tir::TileProduct::Operand OperandOf(const tir::Buffer& buffer, const std::vector<int64_t>& next) {
  const Array<PrimExpr> last = buffer->shape.Map([](const PrimExpr& dim) { return dim - Index(1); });
  return {At(buffer, std::vector<int64_t>(last.size(), 0)), At(buffer, next), tir::BufferLoad(buffer, last)};
}

/// The second entry of a dimension; the first where there is one.
std::vector<int64_t> Second(const Tensor& tensor, size_t dim) {
  std::vector<int64_t> index(tensor.ndim(), 0);
  index[dim] = DimValue(tensor->shape[dim]) != 1 ? 1 : 0;
  return index;
}

}  // namespace

tir::TensorIntrin TileIntrin(const TileTensors& tensors) {
  tir::PrimFunc desc = te::CreatePrimFunc({tensors.a, tensors.b, tensors.c});
  Array<tir::Var> params;
  Map<tir::Var, tir::Buffer> buffers;
  auto buffer_of = [&](const Tensor& tensor) {
    params.push_back(tir::Var(tensor->op->name, DataType::Handle()));
    const tir::Buffer buffer = StridedBuffer(tensor);
    buffers.Set(params.back(), buffer);
    return buffer;
  };
  const tir::Buffer a = buffer_of(tensors.a), b = buffer_of(tensors.b), c = buffer_of(tensors.c);
  const int64_t panels = DimValue(tensors.b->shape[0]);
  const bool apart = tensors.c.ndim() == 3;
  const std::vector<int64_t> second =
      panels != 1 ? std::vector<int64_t>{0, kPackedColumns} : std::vector<int64_t>{0, 0};
  tir::TileProduct product{OperandOf(c, Second(tensors.c, apart ? 1 : 0)),
                           At(c, apart ? Second(tensors.c, 0) : second),
                           OperandOf(a, tensors.next_row),
                           OperandOf(b, Second(tensors.b, 0)),
                           DimValue(tensors.c->shape[apart ? 1 : 0]),
                           panels < 0 ? 2 : panels,
                           tensors.words,
                           {}};
  for (const TileTensors::Step& step : tensors.steps) product.steps.push_back({step.extent, At(a, step.next)});
  product.dynamic_words = tensors.dynamic_words;
  if (panels < 0) product.dynamic_panels = tensors.b->shape[0];
  product.present = tensors.present;
  for (const te::Var& number : {tensors.present, tensors.dynamic_words, tensors.dynamic_columns}) {
    if (!number.defined()) continue;
    desc.CopyOnWrite()->params.push_back(number);
    params.push_back(number);
  }
  const tir::PrimFunc body(params, tir::Evaluate(tir::tile_product(product)), Type(), buffers);
  return tir::TensorIntrin("tile_product", desc, body, tir::PrimFunc(ObjectPtr<Object>()));
}

tir::TensorIntrin TileProductIntrin(DataType dtype, DataType type, int64_t rows, int64_t panels, int64_t words,
                                    bool bounded) {
  const int64_t each = type == kWord ? 1 : PerWord(dtype);
  const te::Var present("present", DataType::Int(64)), length("words", DataType::Int(64)),
      width("columns", DataType::Int(64));
  const PrimExpr k_words = words < 0 ? PrimExpr(length) : Index(words);
  const PrimExpr columns = panels < 0 ? PrimExpr(width) : Index(panels * kPackedColumns);
  const Tensor a = te::Placeholder({Index(rows), DimMul(k_words, Dim(each))}, type, "a");
  const Tensor b =
      te::Placeholder({DimFloorDiv(columns, Dim(kPackedColumns)), k_words, Index(kPackedColumns)}, kWord, "b");
  te::IterVar k = te::ReduceAxis(tir::Range(k_words), "k");
  const Tensor c = te::Compute(
      {Index(rows), columns},
      [&](const Array<te::Var>& i) {
        auto element = [&](int64_t e) { return a(i[0], PrimExpr(k->var) * Index(each) + Index(e)); };
        const PrimExpr word = type == kWord ? a(i[0], k->var) : MakeWord(dtype, element);
        const PrimExpr right =
            b(tir::floordiv(i[1], Index(kPackedColumns)), k->var, tir::floormod(i[1], Index(kPackedColumns)));
        const PrimExpr dot = DotOfWords(dtype, word, right);
        return te::Sum(bounded ? WhereRow(i[0] < present, dot) : dot, {k});
      },
      "c");
  TileTensors tensors{a, b, c, {rows > 1 ? 1 : 0, 0}, {}, words < 0 ? tir::kTileRows : words};
  if (bounded) tensors.present = present;
  if (words < 0) tensors.dynamic_words = length;
  if (panels < 0) tensors.dynamic_columns = width;
  return TileIntrin(tensors);
}

tir::TensorIntrin TileLinesIntrin(DataType dtype, int64_t rows, int64_t panels, int64_t lines) {
  constexpr int64_t kLine = tir::kTileRows;
  const Tensor a = te::Placeholder({Index(lines), Index(rows), Index(kLine)}, kWord, "a");
  const Tensor b = te::Placeholder({Index(panels), Index(lines), Index(kLine), Index(kPackedColumns)}, kWord, "b");
  const te::IterVar line = te::ReduceAxis(tir::Range(Index(lines)), "line");
  const te::IterVar k = te::ReduceAxis(tir::Range(Index(kLine)), "k");
  const Tensor c = te::Compute(
      {Index(rows), Index(panels * kPackedColumns)},
      [&](const Array<te::Var>& i) {
        const PrimExpr panel = tir::floordiv(PrimExpr(i[1]), Index(kPackedColumns));
        const PrimExpr column = tir::floormod(PrimExpr(i[1]), Index(kPackedColumns));
        return te::Sum(DotOfWords(dtype, a(line->var, i[0], k->var), b(panel, line->var, k->var, column)), {line, k});
      },
      "c");
  TileTensors tensors{a, b, c, {0, 1, 0}, {}, kLine};
  if (lines > 1) tensors.steps.push_back({lines, {1, 0, 0}});
  return TileIntrin(tensors);
}

double TileCycles(const TileCall& call, DataType dtype, const schedule::Machine& machine) {
  const FittedCosts& fitted = Fitted();
  const double dot = dtype.is_bfloat16() ? machine.pair_tile_cycles : machine.byte_tile_cycles;
  const auto l1 = static_cast<double>(machine.l1_bytes);
  const int64_t tiles = CeilDiv(call.rows, tir::kTileRows), twos = tiles / 2, pairs = call.panels / 2;
  const auto runs = static_cast<double>(call.outer * call.inner);
  const auto parts = static_cast<double>(tir::TileParts(call.rows, call.outer, call.inner));
  // The part of loads that the L1 cache doesn't have.
  const double far_right = 1 / static_cast<double>(CeilDiv(tiles, 2));
  const double far_left = call.left_bytes <= l1 / 2
                              ? 1 / static_cast<double>(CeilDiv(call.panels, 2))
                              : call.left_bytes / (static_cast<double>(call.rows * kLineBytes) * runs);
  auto block = [&](double height, double width) {
    const double loads =
        (height + width) * machine.tile_load_cycles + (height * far_left + width * far_right) * fitted.amx_l2_tile;
    return runs * std::max(height * width * dot, loads) + parts * height * width * fitted.amx_store;
  };
  auto panels = [&](double width) {
    return static_cast<double>(twos) * block(2, width) + (tiles % 2 != 0 ? block(1, width) : 0);
  };
  double cycles = static_cast<double>(pairs) * panels(2) + (call.panels % 2 != 0 ? panels(1) : 0);
  const auto sums = static_cast<double>(tiles * tir::kTileRows * kLineBytes);
  const auto all_sums = sums * static_cast<double>(call.panels), l2 = static_cast<double>(machine.l2_bytes) * 3 / 4;
  const int64_t slices = tir::TileSlices(call.rows, call.panels, call.outer * call.inner);
  if (slices > 1 && all_sums > l2 / 2) {
    cycles += static_cast<double>(2 * (slices - 1)) * all_sums * machine.beyond_l2_cycles_per_byte;
  }
  if (call.left_bytes > l2 * static_cast<double>(slices)) {
    cycles += call.left_bytes * static_cast<double>(CeilDiv(call.panels, 2) - 1) * machine.beyond_l2_cycles_per_byte;
  }
  if (all_sums > l1 * 2 / 3) cycles += all_sums * fitted.amx_far_sum;
  if (sums * 2 > l1 / 2) cycles += sums * static_cast<double>(call.panels) * (parts - 1) * fitted.amx_far_sum;
  return fitted.amx_configure + cycles;
}

int64_t GroupsOfTiles(int64_t groups, int64_t inputs, int64_t outputs, int64_t bytes) {
  constexpr int64_t kLeastInputs = 4, kLeastPiece = 8;
  if (groups == 1) return 1;
  if (inputs < kLeastInputs) return 0;
  int64_t best = 0;
  std::pair<double, double> least;  // of products, then of lines
  for (int64_t merged = 1; merged <= std::min(groups, kLineBytes); ++merged) {
    const int64_t in = inputs * merged, out = outputs * merged;
    if (groups % merged != 0 || in % kLeastPiece != 0 || out % kLeastPiece != 0 || out < kPackedColumns) continue;
    const int64_t lines = CeilDiv(in * bytes, kLineBytes), panels = CeilDiv(out, kPackedColumns);
    const std::pair<double, double> cost{static_cast<double>(lines * panels) / static_cast<double>(merged),
                                         static_cast<double>(lines) / static_cast<double>(merged)};
    if (best != 0 && cost >= least) continue;
    best = merged;
    least = cost;
  }
  return best;
}

}  // namespace treadle::ops::cpu
