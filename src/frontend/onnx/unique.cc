// SPDX-License-Identifier: Apache-2.0
// Distinct elements, out of sorting; determinants.
#include "frontend/onnx/composed.h"
#include "frontend/onnx/run_time_axes.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

const DataType kInt64 = DataType::Int(64);
constexpr int64_t kMaxColumns = 256;

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

/// The order that sorts rows of (n, columns), the first column first.
Term RowOrder(const Term& rows, int64_t columns) {
  Term order = SortOrder(rows.Slice(1, columns - 1, columns).Squeeze({1}));
  for (int64_t c = columns - 1; c-- > 0;) {
    order = order.Take(SortOrder(rows.Slice(1, c, c + 1).Squeeze({1}).Take(order)));
  }
  return order;
}

/// Inputs: X. Outputs: distinct elements (or slices along an axis), where each stands first, which of them each of X
/// is, and how often each occurs.
std::vector<Expr> ImportUnique(NodeImport& n) {
  const bool sorted = n.Flag("sorted", true);
  Term x = In(n, 0), rows = x;
  int axis = 0;
  int64_t columns = 1;
  if (n.HasAttr("axis")) {
    axis = n.Axis(n.Int("axis"), x.rank());
    std::vector<int64_t> order{axis};
    for (int d = 0; d < x.rank(); ++d) {
      if (d == axis) continue;
      order.push_back(d);
      columns *= n.StaticDim(x, d);
      if (columns < 1 || columns > kMaxColumns)
        n.Unsupported(StrCat("slices of more than ", kMaxColumns, " elements, or none, aren't implemented"));
    }
    rows = x.Permute(order).Reshape({-1, columns});
  } else {
    rows = x.Reshape({-1}).Expand(1);
    x = x.Reshape({-1});
  }
  Term count = DimOf(rows, 0), zero = IntNum(n, 0);
  Term order = RowOrder(rows, columns), in_order = rows.Take(order);
  Term above = SliceAxis(in_order, 0, zero, Max(count - 1, 0)), below = SliceAxis(in_order, 0, zero + 1, count);
  Term differs = above != below;
  if (x.dtype().is_floating()) {  // all NaNs are one
    differs = differs && (above.Op("isnan") && below.Op("isnan")).Not();
  }
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
