// SPDX-License-Identifier: Apache-2.0
// Pad: borders of widths that are known, that only the run knows, and along axes that only the run knows.
#include <algorithm>
#include <optional>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/symbolic_dims.h"
#include "frontend/onnx/values.h"
#include "treadle/ir/prim_ops.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

bool IsZero(const std::optional<std::vector<PrimExpr>>& elements, size_t i) {
  return elements && (*elements)[i].defined() && tir::is_zero((*elements)[i]);
}

/// The size that is left of `sizes` where negative widths have cut them. What is repeated has to be there.
Term LeftOf(const Term& sizes, const Term& before, const Term& after) {
  NodeImport& n = sizes.node();
  const Term left = sizes + Min(before, 0) + Min(after, 0);
  const Term added = Min(Max(Max(before, after), 0), 1);
  const Term least = (added - 1.0) * static_cast<double>(INT32_MAX) + 1.0;  // 1 where there are any, else all will do
  return {n, CheckedValues(n, left, "at_least", least, "size of a padded dimension")};
}

constexpr double kFar = 281474976710656.0;  // 2^48

/// `widths`: (rank, 2), int64. Modes that repeat elements reject dimensions that have none when the model runs.
Expr PadByWidths(const Term& x, const Term& widths, const Expr& value, const std::string& mode) {
  NodeImport& n = x.node();
  const auto known = n.ShapeElements(widths.Reshape({2 * x.rank()}));
  Term checked = widths;
  if (mode != "constant") {  // the widths are made to depend on the check
    // What is beyond any dimension is too large as well, and sums of it don't overflow.
    const Term near = Max(Min(widths, kFar), -kFar);
    const Term before = near.Slice(1, 0, 1).Reshape({x.rank()}), after = near.Slice(1, 1, 2).Reshape({x.rank()});
    const Term left = onnx::ShapeOf(x) + Min(before, 0) + Min(after, 0);
    checked = near + (LeftOf(onnx::ShapeOf(x), before, after) - left).Expand(1);
  }
  Array<PrimExpr> dims;  // those that keep their sizes
  for (int d = 0; d < x.rank(); ++d) {
    const auto k = static_cast<size_t>(d) * 2;
    const bool stays = IsZero(known, k) && IsZero(known, k + 1);
    dims.push_back(stays ? x.shape()[static_cast<size_t>(d)] : AnyDim());
  }
  return WithDims(n, n.Call("dyn.nn.pad", {x, checked, value}, {{"pad_mode", mode}}), dims);
}

/// Of widths that only the run knows.
Expr ImportPadByInput(NodeImport& n) {
  const int64_t rank = n.Rank(0);
  std::string mode = n.Str("mode", "constant");
  Ints axes;
  if (n.version() >= 18 && n.Has(3)) {
    axes = n.Axes(n.ConstantInts(3, "axes"), static_cast<int>(rank));
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  const auto count = static_cast<int64_t>(axes.size());
  const Term pads = ListIn(n, 1, "pads", 2 * count);
  if (Length(pads) != 2 * count) n.Invalid("'pads' has another number of entries than there are axes");
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
  return PadByWidths(In(n, 0), {n, width}, value, mode);
}

/// Along axes that only the run knows.
Expr ImportPadOfAxes(NodeImport& n) {
  Term x = In(n, 0), pads = ListIn(n, 1, "pads"), axes = ListIn(n, 3, "axes");
  const int64_t count = Length(axes);
  if (Length(pads) != 2 * count) n.Invalid("'pads' has another number of entries than there are axes");
  std::vector<int64_t> numbers;
  for (int i = 0; i < x.rank(); ++i) numbers.push_back(i);
  Term dims = IntVec(n, numbers), given(n, CheckedValues(n, axes, "index", IntNum(n, x.rank()), "axis"));
  Term is_axis = (dims.Expand(1) == given.Expand(0)).As(DataType::Int(64));  // (rank, axes)
  const Term times = is_axis.Sum({1});
  const Term once(n, CheckedValues(n, times, "at_most", IntNum(n, 1), "number of times that an axis is listed"));
  is_axis = is_axis * once.Expand(1);  // so that the check is needed
  auto side = [&](int64_t begin) {
    return (is_axis * pads.Slice(0, begin, begin + count).Expand(0)).Sum({1}).Expand(1);
  };
  Term widths = Concat({side(0), side(count)}, 1);
  Expr value = n.Has(2) ? ScalarIn(n, 2, n.DType(0)).expr() : n.Scalar(n.DType(0), 0);
  return PadByWidths(x, widths, value, n.Str("mode", "constant"));
}

/// Pads by dimension: all begins, then all ends; of all axes, or of those that input 3 lists.
struct Pads {
  Ints before, after;

  explicit Pads(NodeImport& n) {
    auto rank = static_cast<size_t>(n.Rank(0));
    Ints pads = n.version() == 1 ? n.Ints("paddings") : n.version() == 2 ? n.Ints("pads") : n.ConstantInts(1, "pads");
    Ints axes;
    if (auto given = n.version() >= 18 ? n.OptionalInts(3, "axes") : std::nullopt) {
      axes = n.Axes(*given, static_cast<int>(rank));
    } else {
      for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    }
    if (pads.size() != 2 * axes.size())
      n.Invalid(StrCat("'pads' has ", pads.size(), " entries for ", axes.size(), " axes"));
    before.assign(rank, 0);
    after.assign(rank, 0);
    for (size_t i = 0; i < axes.size(); ++i) {
      for (int64_t pad : {pads[i], pads[axes.size() + i]}) {
        if (pad > INT32_MAX || pad < -INT32_MAX) n.Invalid(StrCat("'pads' has an entry of ", pad));
      }
      before[static_cast<size_t>(axes[i])] = pads[i];
      after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
    }
  }
};

Expr ImportPad(NodeImport& n) {
  const std::string mode = n.Str("mode", "constant");
  const bool wraps = mode == "wrap" && n.version() >= 19;
  if (mode != "constant" && mode != "reflect" && mode != "edge" && !wraps) {
    n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  }
  if (n.version() >= 11 && n.Has(2) && n.DType(2) != n.DType(0)) {
    n.Invalid(StrCat("the constant value is ", n.DType(2), ", the operand ", n.DType(0)));
  }
  if (n.version() >= 18 && n.Has(3) && !n.IsKnown(3)) return ImportPadOfAxes(n);
  if (n.version() >= 11 && !n.IsKnown(1)) return ImportPadByInput(n);
  Pads pads(n);
  Expr x = n.In(0);
  DataType dtype = n.DType(0);
  Expr value = n.Scalar(dtype, 0);
  if (n.version() < 11) {
    value = n.Scalar(dtype, n.Float("value", 0.0));
  } else if (n.Has(2)) {
    value = n.Rank(2) == 0 ? n.In(2) : n.Reshape(n.In(2), {});
  }
  bool negative = false, beyond = false, many = false;
  for (size_t i = 0; i < pads.before.size(); ++i) negative |= pads.before[i] < 0 || pads.after[i] < 0;
  for (size_t i = 0; negative && i < pads.before.size(); ++i) {
    const int64_t* size = AsConstInt(TypeOf(x)->shape[i]);
    if (size != nullptr && *size + pads.before[i] + pads.after[i] < 0) {
      n.Invalid(StrCat("'pads' remove more than all of dimension ", i, ", which is ", *size));
    }
    beyond |= size != nullptr && *size + std::min<int64_t>(pads.before[i], 0) + std::min<int64_t>(pads.after[i], 0) < 0;
  }
  // What is mirrored or repeated may be fewer elements than are added.
  for (size_t i = 0; (mode == "reflect" || mode == "wrap") && i < pads.before.size(); ++i) {
    const int64_t* size = AsConstInt(TypeOf(x)->shape[i]);
    const int64_t most = std::max(pads.before[i], pads.after[i]);
    many |= most > 0 && (size == nullptr ? mode == "wrap" : *size > 0 && most > *size - (mode == "reflect" ? 1 : 0));
  }
  if (!negative && !many) return n.Pad(x, pads.before, pads.after, value, mode);
  if (mode != "constant" || beyond || !IsStatic(TypeOf(x))) {
    Ints widths;
    for (size_t i = 0; i < pads.before.size(); ++i) widths.insert(widths.end(), {pads.before[i], pads.after[i]});
    Expr width = n.Reshape(n.IntVector(widths), {n.Rank(0), 2});
    return PadByWidths({n, x}, {n, width}, value, mode);
  }
  for (size_t i = 0; i < pads.before.size(); ++i) {  // negative pads cut
    if (pads.before[i] >= 0 && pads.after[i] >= 0) continue;
    int64_t size = n.StaticDim(x, static_cast<int>(i));
    int64_t begin = std::max<int64_t>(-pads.before[i], 0);
    int64_t end = size - std::max<int64_t>(-pads.after[i], 0);
    x = n.Slice(x, static_cast<int>(i), begin, end);
    pads.before[i] = std::max<int64_t>(pads.before[i], 0);
    pads.after[i] = std::max<int64_t>(pads.after[i], 0);
  }
  return n.Pad(x, pads.before, pads.after, value, mode);
}

}  // namespace

void RegisterPadRules(RuleTable& table) { table.Add1("Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, ImportPad); }

}  // namespace treadle::onnx
