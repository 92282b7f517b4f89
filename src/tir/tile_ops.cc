// SPDX-License-Identifier: Apache-2.0
#include "treadle/tir/tile_ops.h"

#include <algorithm>

#include "treadle/arith/analyzer.h"
#include "treadle/base/int_math.h"
#include "treadle/tir/byte_ops.h"
#include "treadle/tir/pair_ops.h"

namespace treadle::tir {
namespace {

/// Of a product without steps; each of those adds two.
constexpr size_t kArguments = 11, kPresent = 10;

PrimExpr PlaceAddress(const BufferLoad& place) {
  return CallIntrin(DataType::Handle(), "tir.address_of", {place, place});
}

/// Pointers to the first element, with the last one as the end of what is used (tir.address_of), and to the next row.
void AddOperand(const TileProduct::Operand& operand, Array<PrimExpr>* args) {
  args->push_back(CallIntrin(DataType::Handle(), "tir.address_of", {operand.first, operand.last}));
  args->push_back(PlaceAddress(operand.next));
}

BufferLoad PlaceOf(const PrimExpr& address, size_t which) {
  const auto* call = address.as<CallNode>();
  const bool is_address = call != nullptr && IsCallTo(call, "tir.address_of") && call->args.size() == 2;
  const auto* load = is_address ? call->args[which].as<BufferLoadNode>() : nullptr;
  if (load == nullptr || load->indices.size() != 1) {
    throw Error("a tile product takes tir.address_of(first, last), both elements of a buffer of one dimension");
  }
  return GetRef<BufferLoad>(load);
}

TileProduct::Operand OperandOf(const CallNode* call, size_t at) {
  return {PlaceOf(call->args[at], 0), PlaceOf(call->args[at + 1], 0), PlaceOf(call->args[at], 1)};
}

void CheckSizes(const TileProduct& product) {
  bool positive = product.rows > 0 && product.panels > 0 && product.words > 0;
  for (const TileProduct::Step& step : product.steps) positive = positive && step.extent > 0;
  const bool open = product.dynamic_words.defined() && !product.steps.empty();
  if (positive && !open && product.words % kTileRows == 0) return;
  throw ShapeError(StrCat("a tile product has rows, panels, and words in multiples of ", kTileRows, ", not ",
                          product.rows, ", ", product.panels, " and ", product.words));
}

void CheckTypes(const TileProduct& product, bool bytes) {
  const DataType a = product.a.first->buffer->dtype, b = product.b.first->buffer->dtype,
                 c = product.c.first->buffer->dtype, word = DataType::Int(32);
  const bool left =
      a == word || (bytes ? a.is_integral() && a.bits() == 8 && a.lanes() == 1 : a == DataType::BFloat(16));
  if (left && b == word && c == (bytes ? word : DataType::Float(32))) return;
  throw DTypeError(StrCat("a tile product of ", bytes ? "bytes" : "bfloat16", " takes these or words (int32), words, ",
                          "and sums in ", bytes ? "int32" : "float32", ", not ", a, ", ", b, " and ", c));
}

}  // namespace

int64_t TileProduct::Runs() const {
  int64_t runs = 1;
  for (const Step& step : steps) runs *= step.extent;
  return runs;
}

int64_t TileParts(int64_t rows, int64_t outer, int64_t inner) {
  // Two panels of them have 16 or 36 KiB: the more, the fewer times sums are read again. The rest of the cache is for
  // the left operand, of which taps of a window read the same lines. Few blocks of rows would wait for the L2 cache.
  constexpr int64_t kFew = 8, kMany = 18, kManyBlocks = 8, kTaps = 4;
  const int64_t blocks = CeilDiv(rows, 2 * kTileRows), most = blocks > kManyBlocks && inner >= kTaps ? kMany : kFew;
  if (blocks == 1 || outer * inner <= kFew * 3 / 2) return 1;
  return CeilDiv(outer, std::max<int64_t>(1, most / inner));
}

int64_t TileSlices(int64_t rows, int64_t panels, int64_t runs) {
  // Slices of 640 KiB leave room for sums and panels. Few panels read rows few times, and short slices sums often.
  constexpr int64_t kLineBytes = 4 * kTileRows, kNear = 640 << 10, kLeastPanels = 17, kLeastRuns = 16;
  if (panels < kLeastPanels) return 1;
  const int64_t bytes = std::min(rows, kNear) * kLineBytes * std::min(runs, kNear);
  return std::clamp<int64_t>(CeilDiv(bytes, kNear), 1, std::max<int64_t>(1, runs / kLeastRuns));
}

PrimExpr tile_product(const TileProduct& product) {
  const DataType sum = product.c.first->buffer->dtype;
  if (sum != DataType::Int(32) && sum != DataType::Float(32)) {
    throw DTypeError(StrCat("tiles are summed in int32 or float32, not ", sum));
  }
  CheckSizes(product);
  Array<PrimExpr> args;
  AddOperand(product.c, &args);
  args.push_back(PlaceAddress(product.c_panel));
  AddOperand(product.a, &args);
  AddOperand(product.b, &args);
  args.push_back(PrimExpr(product.rows));
  args.push_back(product.dynamic_panels.defined() ? product.dynamic_panels : PrimExpr(product.panels));
  args.push_back(product.dynamic_words.defined() ? product.dynamic_words : PrimExpr(product.words));
  args.push_back(product.present.defined() ? product.present : PrimExpr(int64_t{0}));
  for (const TileProduct::Step& step : product.steps) {
    args.push_back(PlaceAddress(step.next));
    args.push_back(PrimExpr(step.extent));
  }
  return CallIntrin(DataType::Int(32), sum.is_int() ? "tir.tile_dot_bytes" : "tir.tile_dot_pairs", args);
}

bool IsTileProduct(const CallNode* call) {
  return IsCallTo(call, "tir.tile_dot_bytes") || IsCallTo(call, "tir.tile_dot_pairs");
}

std::optional<TileProduct> TileProductOf(const CallNode* call) {
  if (!IsTileProduct(call)) return std::nullopt;
  if (call->args.size() < kArguments || call->args.size() % 2 != kArguments % 2) {
    throw Error(
        StrCat("a tile product has ", kArguments, " arguments, and two for each step, not ", call->args.size()));
  }
  auto number = [&](size_t i) { return as_int(call->args[i], "size of a tile product"); };
  // Sizes that only a run shows: these numbers stand for none that is known.
  const PrimExpr none{ObjectPtr<Object>()};
  auto open = [&](size_t i) { return AsConstInt(call->args[i]) == nullptr ? call->args[i] : none; };
  const PrimExpr panels = open(8), words = open(9);
  TileProduct product{OperandOf(call, 0),
                      PlaceOf(call->args[2], 0),
                      OperandOf(call, 3),
                      OperandOf(call, 5),
                      number(7),
                      panels.defined() ? 2 : number(8),
                      words.defined() ? kTileRows : number(9),
                      {},
                      words,
                      panels,
                      is_zero(call->args[kPresent]) ? none : call->args[kPresent]};
  for (size_t i = kArguments; i < call->args.size(); i += 2) {
    product.steps.push_back({number(i + 1), PlaceOf(call->args[i], 0)});
  }
  CheckSizes(product);
  CheckTypes(product, IsCallTo(call, "tir.tile_dot_bytes"));
  return product;
}

PrimExpr TileStride(const TileProduct::Operand& operand) {
  return arith::Analyzer().Simplify(operand.next->indices[0] - operand.first->indices[0]);
}

PrimExpr TilePanelStride(const TileProduct& product) {
  return arith::Analyzer().Simplify(product.c_panel->indices[0] - product.c.first->indices[0]);
}

PrimExpr TileStride(const TileProduct& product, const TileProduct::Step& step) {
  return arith::Analyzer().Simplify(step.next->indices[0] - product.a.first->indices[0]);
}

Stmt ExpandTileProduct(const TileProduct& product) {
  const DataType index = product.c.first->indices[0].dtype(), word = DataType::Int(32);
  const bool bytes = product.c.first->buffer->dtype.is_int();
  const Var panel("panel", index), row("row", index), column("column", index), k("k", index);
  auto number = [&](int64_t value) { return make_const(index, value); };
  auto at = [&](const TileProduct::Operand& operand, const PrimExpr& rows, const PrimExpr& offset) {
    return operand.first->indices[0] + rows * cast(index, TileStride(operand)) + offset;
  };
  const Buffer &a = product.a.first->buffer, &b = product.b.first->buffer, &c = product.c.first->buffer;
  PrimExpr left, run = number(0), from = number(0);
  std::vector<Var> steps;
  for (const TileProduct::Step& step : product.steps) {
    steps.emplace_back(StrCat("step", steps.size()), index);
    run = run * number(step.extent) + steps.back();
    from = from + steps.back() * cast(index, TileStride(product, step));
  }
  if (a->dtype == word) {
    left = BufferLoad(a, {at(product.a, row, from + k)});
  } else {
    const int64_t each = bytes ? 4 : 2;
    auto element = [&](int64_t i) { return BufferLoad(a, {at(product.a, row, from + k * number(each) + number(i))}); };
    left = bytes ? pack_bytes(element(0), element(1), element(2), element(3)) : pack_pair(element(0), element(1));
  }
  const PrimExpr right =
      BufferLoad(b, {at(product.b, panel, (run * number(product.words) + k) * number(kTileRows) + column)});
  const Array<PrimExpr> place{at(product.c, row, panel * cast(index, TilePanelStride(product)) + column)};
  const PrimExpr dot = bytes ? dot_bytes(left, right) : dot_pairs(left, right);
  auto loop = [&](const Var& var, int64_t extent, const Stmt& body) {
    return For(var, number(0), number(extent), ForKind::kSerial, body);
  };
  auto open = [&](const PrimExpr& size, int64_t known) { return size.defined() ? cast(index, size) : number(known); };
  const PrimExpr words = open(product.dynamic_words, product.words);
  const PrimExpr panels = open(product.dynamic_panels, product.panels);
  Stmt sum = For(k, number(0), words, ForKind::kSerial, BufferStore(c, BufferLoad(c, place) + dot, place));
  for (size_t i = steps.size(); i-- > 0;) sum = loop(steps[i], product.steps[i].extent, sum);
  Stmt body = SeqStmt::Flatten({BufferStore(c, make_zero(c->dtype), place), sum});
  const PrimExpr rows =
      product.present.defined() ? min(number(product.rows), cast(index, product.present)) : number(product.rows);
  body = For(row, number(0), rows, ForKind::kSerial, loop(column, kTileRows, body));
  return For(panel, number(0), panels, ForKind::kSerial, body);
}

}  // namespace treadle::tir
