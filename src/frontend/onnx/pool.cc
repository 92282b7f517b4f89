// SPDX-License-Identifier: Apache-2.0
// Pooling over windows and over whole images.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/window.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr const char* kMaxPool[] = {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"};
constexpr const char* kAvgPool[] = {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"};
constexpr const char* kLayout[] = {"NCW", "NCHW", "NCDHW"};

/// Padding at the end of spatial dimension `i` that makes the last, partial window of ceil_mode whole; null: only a run
/// knows. Of a dynamic dimension as much as it could need: the windows are the same where none of them could start past
/// the operand and its leading padding.
std::optional<int64_t> ExtraPadding(const Window& w, size_t i, const PrimExpr& dim) {
  if (w.strides[i] == 1) return 0;
  const int64_t* size = AsConstInt(dim);
  if (size == nullptr && w.Extent(i) >= w.pads[w.spatial + i] + w.strides[i]) return w.strides[i] - 1;
  if (size == nullptr) return std::nullopt;
  const int64_t covered = (OutputSize(w, i, *size, true) - 1) * w.strides[i] + w.Extent(i);
  return std::max<int64_t>(covered - (*size + w.pads[i] + w.pads[w.spatial + i]), 0);
}

/// As ExtraPadding, for a size that a run knows.
Term ExtraPaddingAtRunTime(const Window& w, size_t i, const Term& size) {
  const auto stride = static_cast<double>(w.strides[i]), extent = static_cast<double>(w.Extent(i));
  const auto before = static_cast<double>(w.pads[i]), after = static_cast<double>(w.pads[w.spatial + i]);
  const Term room = size + (before + after - extent);
  Term last = FloorDiv(room + (stride - 1), stride) * stride;  // where the last window starts
  last = (last >= size + before).Select(last - stride, last);
  return Max(last - room, 0);
}

/// `x` with zeros at its ends, so that the windows of ceil_mode are those of whole windows.
Expr PadToWholeWindows(NodeImport& n, const Window& w, const Expr& x, std::vector<int64_t>* pads) {
  std::vector<Term> widths(2 * w.spatial + 4, IntNum(n, 0));
  bool at_run_time = false;
  for (size_t i = 0; i < w.spatial; ++i) {
    const auto extra = ExtraPadding(w, i, TypeOf(x)->shape[i + 2]);
    if (extra) {
      (*pads)[w.spatial + i] += *extra;
      continue;
    }
    widths[2 * i + 5] = ExtraPaddingAtRunTime(w, i, DimOf(Term(n, x), static_cast<int>(i) + 2));
    at_run_time = true;
  }
  if (!at_run_time) return x;
  const Term operand(n, x);
  return n.Call("dyn.nn.pad", {x, Stack(widths).Reshape({operand.rank(), 2}), operand.Number(0)},
                {{"pad_mode", std::string("constant")}});
}

AttrList PoolAttrs(const Window& w, const std::vector<int64_t>& pads, bool ceil) {
  return {{"pool_size", w.kernel},
          {"strides", w.strides},
          {"dilation", w.dilations},
          {"padding", pads},
          {"layout", kLayout[w.spatial - 1]},
          {"ceil_mode", ceil}};
}

/// Places in `padded`, which PadAtRunTime made of the operand, as places in the operand; -1 stays.
Term WithoutPadding(NodeImport& n, const Window& w, const Term& padded, const Term& indices, bool column_major) {
  const Term x = In(n, 0);
  std::vector<Term> coordinates(static_cast<size_t>(x.rank()), indices);
  Term rest = indices;
  for (int axis = x.rank(); axis-- > 0;) {
    const Term size = Max(DimOf(padded, axis), 1);
    coordinates[static_cast<size_t>(axis)] = rest.Op("floor_mod", size);
    rest = FloorDiv(rest, size);
  }
  for (size_t i : w.run_time) coordinates[i + 2] = coordinates[i + 2] - RunTimePadding(w, x, i)[0];
  std::vector<int> order;  // from the outermost dimension inwards
  for (int axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  if (column_major) std::reverse(order.begin() + 2, order.end());
  Term place = IntNum(n, 0);
  for (int axis : order) place = place * DimOf(x, axis) + coordinates[static_cast<size_t>(axis)];
  return (indices >= IntNum(n, 0)).Select(place, indices);
}

std::vector<Expr> ImportMaxPool(NodeImport& n) {
  Window w = ReadWindow(n, {});
  const bool column_major = n.Flag("storage_order", false);  // of the indices
  bool ceil = n.Flag("ceil_mode", false);
  const DataType dtype = n.DType(0);
  const double least = dtype.is_floating() ? -std::numeric_limits<double>::infinity()
                       : dtype.is_uint()   ? 0
                                           : -std::ldexp(1, dtype.bits() - 1);
  Expr y = n.Call(kMaxPool[w.spatial - 1], {PadAtRunTime(n, w, n.In(0), least)}, PoolAttrs(w, w.pads, ceil));
  if (!n.WantsOutput(1)) return {y};
  const bool at_run_time = !w.run_time.empty();
  Term x = In(n, 0), pooled(n, y);
  if (at_run_time && !dtype.is_floating()) x = x.As(DataType::Float(32)), pooled = pooled.As(DataType::Float(32));
  // NaN isn't equal to a maximum: what is added isn't found.
  const Term padded(n, PadAtRunTime(n, w, x, std::numeric_limits<double>::quiet_NaN()));
  const Term indices(n, n.Call("nn.max_pool_indices", {padded, pooled},
                               {{"kernel", w.kernel},
                                {"strides", w.strides},
                                {"dilations", w.dilations},
                                {"padding", w.pads},
                                {"column_major", column_major && !at_run_time}}));
  return {y, at_run_time ? WithoutPadding(n, w, padded, indices, column_major) : indices};
}

Expr ImportAveragePool(NodeImport& n) {
  Window w = ReadWindow(n, {});
  bool include = n.Flag("count_include_pad", false);
  bool ceil = n.Flag("ceil_mode", false);
  AttrList attrs = PoolAttrs(w, w.pads, ceil);
  attrs.push_back({"count_include_pad", include});
  const char* pool = kAvgPool[w.spatial - 1];
  Term mean(n, n.Call(pool, {PadAtRunTime(n, w, n.In(0), 0)}, attrs));
  if (w.run_time.empty() || include) return mean;
  // The operator takes what was added at run time for elements: their part of each window is taken out.
  std::vector<Term> dims(2, IntNum(n, 1));
  for (size_t i = 0; i < w.spatial; ++i) dims.push_back(DimOf(In(n, 0), static_cast<int>(i) + 2));
  const Expr inside = PadAtRunTime(n, w, Full(mean.Number(1), Stack(dims)), 0);
  return mean / Term(n, n.Call(pool, {inside}, attrs));
}

/// Reduction over all spatial dimensions, which stay as 1.
ImportRule GlobalPool(const char* reduce) {
  return [reduce](NodeImport& n) -> std::vector<Expr> {
    int rank = n.Rank(0);
    if (rank < 3) n.Invalid(StrCat("the operand has rank ", rank, ", expected at least 3"));
    if (rank == 4) {
      const char* op = std::string(reduce) == "mean" ? "nn.global_avg_pool2d" : "nn.global_max_pool2d";
      return {n.Call(op, {n.In(0)}, {{"layout", "NCHW"}})};
    }
    std::vector<int64_t> axes;
    for (int i = 2; i < rank; ++i) axes.push_back(i);
    return {n.Call(reduce, {n.In(0)}, {{"axis", axes}, {"keepdims", true}})};
  };
}

/// |x|^p, for the p of a norm.
Expr PowerOfMagnitude(NodeImport& n, double p) {
  Expr x = n.In(0);
  if (p == 1) return n.Call("abs", {x});
  if (p == 2) return n.Call("multiply", {x, x});
  return n.Call("power", {n.Call("abs", {x}), n.Scalar(n.DType(0), p)});
}

Expr RootOf(NodeImport& n, const Expr& sum, double p) {
  if (p == 1) return sum;
  if (p == 2) return n.Call("sqrt", {sum});
  return n.Call("power", {sum, n.Scalar(n.DType(0), 1 / p)});
}

double NormOrder(NodeImport& n) {
  double p = n.version() == 1 ? n.Float("p", 2.0) : static_cast<double>(n.Int("p", 2));
  if (!(p > 0)) n.Invalid(StrCat("'p' is ", p));
  return p;
}

/// The p-norm of each window; padding counts as zeros.
Expr ImportLpPool(NodeImport& n) {
  Window w = ReadWindow(n, {});
  double p = NormOrder(n);
  std::vector<int64_t> pads = w.pads;
  Expr powers = PadAtRunTime(n, w, PowerOfMagnitude(n, p), 0);
  if (n.Flag("ceil_mode", false)) powers = PadToWholeWindows(n, w, powers, &pads);
  AttrList attrs = PoolAttrs(w, pads, false);
  attrs.push_back({"count_include_pad", true});
  double size = 1;
  for (int64_t k : w.kernel) size *= static_cast<double>(k);
  Expr mean = n.Call(kAvgPool[w.spatial - 1], {powers}, attrs);
  return RootOf(n, n.Call("multiply", {mean, n.Scalar(n.DType(0), size)}), p);
}

Expr ImportGlobalLpPool(NodeImport& n) {
  double p = NormOrder(n);
  if (n.Rank(0) < 3) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 3"));
  std::vector<int64_t> axes;
  for (int i = 2; i < n.Rank(0); ++i) axes.push_back(i);
  return RootOf(n, n.Call("sum", {PowerOfMagnitude(n, p)}, {{"axis", axes}, {"keepdims", true}}), p);
}

}  // namespace

void RegisterPoolRules(RuleTable& table) {
  table.Add("MaxPool", {1, 8, 10, 11, 12, 22}, ImportMaxPool);
  table.Add1("AveragePool", {1, 7, 10, 11, 19, 22}, ImportAveragePool);
  table.Add1("LpPool", {1, 2, 11, 18, 22}, ImportLpPool);
  table.Add1("GlobalLpPool", {1, 2, 22}, ImportGlobalLpPool);
  table.Add("GlobalAveragePool", {1, 22}, GlobalPool("mean"));
  table.Add("GlobalMaxPool", {1, 22}, GlobalPool("max"));
}

}  // namespace treadle::onnx
