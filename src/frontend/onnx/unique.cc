// SPDX-License-Identifier: Apache-2.0
// Distinct elements, out of sorting; determinants.
#include "frontend/onnx/composed.h"
#include "frontend/onnx/loop.h"
#include "frontend/onnx/run_time_axes.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kInt64 = DataType::Int(64);
Term SortOrder(const Term& x) {
  return x.Op("argsort", {{"axis", int64_t{0}}, {"is_ascend", true}, {"dtype", kInt64}});
}

/// `values` at the places that `indices` tell, of `count` zeros.
Term Scattered(const Term& indices, const Term& values, const Term& count) {
  NodeImport& n = values.node();
  Term zeros = Full(values.Number(0), count.Reshape({1}));
  return {n, n.Call("scatter", {zeros, indices, values}, {{"axis", int64_t{0}}, {"reduction", std::string("update")}})};
}

/// Where a bool vector is true.
Term Positions(const Term& mask) {
  NodeImport& n = mask.node();
  Expr both = n.Call("nonzero_padded", {mask});
  return Term(n, n.Call("dyn.take_rows", {n.Item(both, 0), n.Item(both, 1)})).Squeeze({1});
}

/// Whether neighbours along the first dimension differ; all NaNs are one.
Term DiffersFromAbove(const Term& in_order, const Term& count) {
  const Term zero = IntNum(in_order.node(), 0);
  Term above = SliceAxis(in_order, 0, zero, Max(count - 1, 0)), below = SliceAxis(in_order, 0, zero + 1, count);
  Term differs = above != below;
  if (!in_order.dtype().is_floating()) return differs;
  return differs && (above.Op("isnan") && below.Op("isnan")).Not();
}

/// For each element of (n, columns) how many different ones of its column come before it.
Term Ranks(const Term& x) {
  NodeImport& n = x.node();
  const AttrList along{{"axis", int64_t{0}}};
  Term order = SortOrder(x), in_order = x.Op("gather", order, along);
  Term steps = DiffersFromAbove(in_order, DimOf(x, 0)).As(kInt64);
  // The first row differs from nothing.
  Term zeros = Full(IntNum(n, 0), ShapeOf(x)), none = SliceAxis(zeros, 0, IntNum(n, 0), Min(DimOf(x, 0), 1));
  Term rank = Concat({none, steps}, 0).Op("cumsum", {{"axis", int64_t{0}}, {"dtype", kInt64}});
  return {n, n.Call("scatter", {zeros, order, rank}, {{"axis", int64_t{0}}, {"reduction", std::string("update")}})};
}

/// The order that sorts rows of (n, columns), the first column first: neighbouring columns become one, whose elements
/// are pairs of ranks, until one is left.
Term RowOrder(const Term& rows, int64_t columns) {
  Term x = rows;
  while (columns > 1) {
    const Term ranks = Ranks(x);
    const int64_t pairs = columns / 2;
    const Term paired = ranks.Slice(1, 0, 2 * pairs).Reshape({-1, pairs, 2});
    const Term high = paired.Slice(2, 0, 1).Squeeze({2}), low = paired.Slice(2, 1, 2).Squeeze({2});
    Term joined = high * DimOf(rows, 0) + low;
    x = columns % 2 == 0 ? joined : Concat({joined, ranks.Slice(1, columns - 1, columns)}, 1);
    columns = pairs + columns % 2;
  }
  return SortOrder(x.Squeeze({1}));
}

/// The same for a number of columns that only the run knows: sorts by the last column, which keeps the order of equal
/// ones, then by those before it.
Term RowOrderByColumn(const Term& rows) {
  NodeImport& n = rows.node();
  auto trip = [&](const std::vector<Expr>& carried, const Expr& number) {
    const Term all(n, carried[0]), order(n, carried[1]);
    const Term column = DimOf(all, 1) - 1 - Term(n, number);
    const Term in_order = all.Op("take", column, {{"axis", int64_t{1}}, {"mode", std::string("error")}}).Take(order);
    return LoopTrip{{all, order.Take(SortOrder(in_order))}, {}, Expr()};
  };
  const Expr none = Iota(DimOf(rows, 0));
  return {n, ImportCountedLoop(n, {rows, none}, DimOf(rows, 1), trip)[1]};
}

/// Inputs: X. Outputs: distinct elements (or slices along an axis), where each stands first, which of them each of X
/// is, and how often each occurs.
std::vector<Expr> ImportUnique(NodeImport& n) {
  const bool sorted = n.Flag("sorted", true);
  Term x = In(n, 0), rows = x;
  int axis = 0;
  int64_t columns = 1;  // 0 or less: the run knows, or there are none
  Term slice = IntNum(n, 1);
  if (n.HasAttr("axis")) {
    axis = n.Axis(n.Int("axis"), x.rank());
    std::vector<int64_t> order{axis};
    for (int d = 0; d < x.rank(); ++d) {
      if (d == axis) continue;
      order.push_back(d);
      const int64_t* size = AsConstInt(x.shape()[static_cast<size_t>(d)]);
      columns = size != nullptr && columns > 0 ? columns * *size : -1;
      slice = slice * DimOf(x, d);
    }
    rows = x.Permute(order);
    rows = columns > 0 ? rows.Reshape({-1, columns}) : ReshapeTo(rows, {DimOf(x, axis), slice});
  } else {
    rows = x.Reshape({-1}).Expand(1);
    x = x.Reshape({-1});
  }
  Term count = DimOf(rows, 0), zero = IntNum(n, 0);
  Term order = columns > 0 ? RowOrder(rows, columns) : RowOrderByColumn(rows), in_order = rows.Take(order);
  Term differs = DiffersFromAbove(in_order, count);
  Term first_differs = Term(n, n.Const(ArrayOf(std::vector<int64_t>{1}, {1}, DataType::Bool())));
  Term begins = SliceAxis(Concat({first_differs, differs.Reduce("any", {1})}, 0), 0, zero, count);
  Term group = begins.As(kInt64).Op("cumsum", {{"axis", int64_t{0}}, {"dtype", kInt64}}) - 1;
  Term inverse = Scattered(order, group, count);
  Term starts = Positions(begins);
  Term ends = Concat({SliceAxis(starts, 0, zero + 1, DimOf(starts, 0)), count.Reshape({1})}, 0);
  Term counts = SliceAxis(ends, 0, zero, DimOf(starts, 0)) - starts;
  Term first = order.Take(starts);
  if (!sorted) {
    Term appearance = SortOrder(first);
    first = first.Take(appearance);
    counts = counts.Take(appearance);
    Term rank = Scattered(appearance, Iota(DimOf(appearance, 0)), DimOf(appearance, 0));
    inverse = rank.Take(inverse);
  }
  return {x.Take(first, axis), first, inverse, counts};
}

Expr ImportDet(NodeImport& n) {
  if (n.Rank(0) < 2) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 2"));
  return n.Call("linalg.det", {n.In(0)});
}

}  // namespace

void RegisterUniqueRules(RuleTable& table) {
  table.Add("Unique", {11, 28}, ImportUnique);
  table.Add1("Det", {11, 22}, ImportDet);
}

}  // namespace treadle::onnx
