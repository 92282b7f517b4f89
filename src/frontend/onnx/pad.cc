// SPDX-License-Identifier: Apache-2.0
// Borders whose widths only the run knows.
#include <algorithm>
#include <optional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/forks.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

bool IsZero(const std::optional<std::vector<PrimExpr>>& elements, size_t i) {
  if (!elements || !(*elements)[i].defined()) return false;
  const int64_t* value = AsConstInt((*elements)[i]);
  return value != nullptr && *value == 0;
}

/// The size that is left of `sizes` where negative widths have cut them. What is repeated has to be there.
Term LeftOf(const Term& sizes, const Term& before, const Term& after) {
  NodeImport& n = sizes.node();
  const Term left = sizes + Min(before, 0) + Min(after, 0);
  const Term added = Min(Max(Max(before, after), 0), 1);
  const Term least = (added - 1.0) * static_cast<double>(INT32_MAX) + 1.0;  // 1 where there are any, else all will do
  return {n, CheckedValues(n, left, "at_least", least, "size of a padded dimension")};
}

/// Elements of a dimension repeated at both of its ends, as many as the run says: they are gathered by their positions,
/// which are computed once for all rows.
Term Repeated(const Term& x, int axis, const Term& before, const Term& after, const std::string& mode) {
  const Term size = DimOf(x, axis), left = LeftOf(size, before, after), cut = Max(before * -1.0, 0);
  Term position = Iota(left + Max(before, 0) + Max(after, 0)) - before;
  // What is left of what negative widths cut is repeated, as often as it takes.
  if (mode == "wrap") position = (position - cut).Op("floor_mod", Max(left, 1)) + cut;
  if (mode == "reflect") {  // there and back
    const Term period = (left - 1.0) * 2.0;
    position = (position - cut).Op("floor_mod", Max(period, 1));
    position = (position >= left).Select(period - position, position) + cut;
  }
  return x.Op("take", Min(Max(position, 0), size - 1.0), {{"axis", int64_t{axis}}, {"mode", std::string("clip")}});
}

int64_t EntriesOfPads(NodeImport& n) {
  if (n.Rank(1) != 1) n.Invalid("'pads' isn't a vector");
  const int64_t* length = AsConstInt(TypeOf(n.In(1))->shape[0]);
  if (length == nullptr) throw UnknownLength{1, "pads"};
  return *length;
}

}  // namespace

Expr PadByWidths(const Term& x, const Term& widths, const Expr& value, const std::string& mode) {
  NodeImport& n = x.node();
  const auto known = n.ShapeElements(widths.Reshape({2 * x.rank()}));
  const bool repeats = mode == "reflect" || mode == "edge" || mode == "wrap";
  if (repeats && !n.KnownElements(widths.Reshape({2 * x.rank()}))) {
    Term y = x;
    for (int d = 0; d < x.rank(); ++d) {
      const auto k = static_cast<size_t>(d) * 2;
      if (IsZero(known, k) && IsZero(known, k + 1)) continue;
      const Term row = widths.Slice(0, d, d + 1).Reshape({2});
      y = Repeated(y, d, row.Element(0), row.Element(1), mode);
    }
    return y;
  }
  Expr checked = widths;
  if (mode != "constant") {  // the widths are made to depend on the check
    const Term before = widths.Slice(1, 0, 1).Reshape({x.rank()}), after = widths.Slice(1, 1, 2).Reshape({x.rank()});
    const Term left = onnx::ShapeOf(x) + Min(before, 0) + Min(after, 0);
    checked = widths + (LeftOf(onnx::ShapeOf(x), before, after) - left).Expand(1);
  }
  return n.Call("dyn.nn.pad", {x, checked, value}, {{"pad_mode", mode}});
}

Expr ImportDynamicPad(NodeImport& n) {
  Expr x = n.In(0), pads = n.Cast(n.In(1), DataType::Int(64));
  std::string mode = n.Str("mode", "constant");
  int64_t rank = n.Rank(0);
  Ints axes;
  if (n.version() >= 18 && n.Has(3)) {
    axes = n.Axes(n.ConstantInts(3, "axes"), static_cast<int>(rank));
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const auto count = static_cast<int64_t>(axes.size());
  if (n.Rank(1) == 1 && AsConstInt(TypeOf(pads)->shape[0]) == nullptr) {
    pads = n.Reshape(pads, {2 * count});  // checked when it runs
  } else if (EntriesOfPads(n) != 2 * count) {
    n.Invalid("'pads' has another number of entries than there are axes");
  }
  // (rank, 2), from all begins and then all ends of the axes.
  const auto known = n.ShapeElements(pads);
  auto is_zero = [&](int64_t k) { return IsZero(known, static_cast<size_t>(k)); };
  Array<Expr> rows;
  for (int64_t d = 0; d < rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    int64_t k = at - axes.begin();
    const bool stays = at == axes.end() || (is_zero(k) && is_zero(count + k));
    rows.push_back(
        stays ? n.IntVector({0, 0})
              : n.Call("take", {pads, n.IntVector({k, count + k})}, {{"axis", int64_t{0}}, {"mode", "error"}}));
  }
  Expr width = n.Reshape(rows.size() == 1 ? rows[0] : n.Concat(rows, 0), {rank, 2});
  Expr value = n.Has(2) ? ScalarIn(n, 2, n.DType(0)).expr() : n.Scalar(n.DType(0), 0);
  return PadByWidths({n, x}, {n, width}, value, mode);
}

}  // namespace treadle::onnx
