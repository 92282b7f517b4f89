// SPDX-License-Identifier: Apache-2.0
// Elements picked, written, sorted and accumulated by index.
#include <algorithm>
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/dynamic_rules.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/rules.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

/// The indices of input `i` into an axis of the operand. Negative ones count from the end; known ones out of range are
/// an error, others when the model runs (CheckIndices).
Expr Indices(NodeImport& n, size_t i, int axis) {
  DataType dtype = n.DType(i);
  if (!dtype.is_integral()) n.Invalid(StrCat("the indices are ", dtype, ", expected integers"));
  const int64_t* size = AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(axis)]);
  if (n.IsKnown(i) && size != nullptr) {
    for (int64_t index : IntsOf(n.Constant(i, "indices"))) {
      if (index < -*size || index >= *size) n.Invalid(StrCat("index ", index, " is out of range for ", *size));
    }
  }
  return n.In(i);
}

Expr ImportGather(NodeImport& n) {
  int rank = n.Rank(0);
  if (rank < 1) n.Invalid("the operand is a scalar");
  int axis = n.Axis(n.Int("axis", 0), rank);
  return n.Call("take", {n.In(0), Indices(n, 1, axis)}, {{"axis", int64_t{axis}}, {"mode", "error"}});
}

Expr ImportGatherElements(NodeImport& n) {
  if (n.Rank(0) < 1 || n.Rank(0) != n.Rank(1)) n.Invalid("the operands have different ranks, or rank 0");
  int axis = n.Axis(n.Int("axis", 0), n.Rank(0));
  return n.Call("gather", {n.In(0), Indices(n, 1, axis)}, {{"axis", int64_t{axis}}});
}

/// Indices of several dimensions, with the dimension that they run along in front.
Expr NdIndices(NodeImport& n, int batch_dims, int entries = -1) {
  const int rank = n.Rank(0), index_rank = n.Rank(1);
  if (index_rank == 0) n.Invalid("the indices are a scalar");
  Expr indices = n.In(1);
  if (entries > 0 && AsConstInt(TypeOf(indices)->shape.back()) == nullptr) {
    Ints wanted(static_cast<size_t>(index_rank), -1);
    wanted.back() = entries;
    indices = WithSizes(In(n, 1), wanted, "the indices");
  }
  if (AsConstInt(TypeOf(indices)->shape.back()) == nullptr) throw UnknownLength{1, "indices", 1};
  const int64_t length = n.StaticDim(indices, index_rank - 1);
  if (length < 1 || length + batch_dims > rank) n.Invalid(StrCat("indices of ", length, " entries for rank ", rank));
  Term sizes = ShapeOf(In(n, 0)).Slice(0, batch_dims, batch_dims + length);
  if (auto known = n.KnownElements(sizes); known && n.IsKnown(1)) {
    Ints values = IntsOf(n.Constant(1, "indices"));
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t size = (*known)[i % known->size()];
      if (values[i] < -size || values[i] >= size) n.Invalid(StrCat("index ", values[i], " is out of range for ", size));
    }
  }
  Ints order{index_rank - 1};
  for (int i = 0; i + 1 < index_rank; ++i) order.push_back(i);
  return index_rank == 1 ? indices : n.Transpose(indices, order);
}

Expr ImportGatherNd(NodeImport& n) {
  int64_t batch_dims = n.Int("batch_dims", 0);
  if (batch_dims < 0 || batch_dims >= std::min(n.Rank(0), n.Rank(1))) n.Invalid(StrCat("'batch_dims' is ", batch_dims));
  int entries = -1;
  if (const int64_t declared = n.DeclaredRank(); declared >= 0) {
    entries = n.Rank(0) + n.Rank(1) - 1 - static_cast<int>(batch_dims + declared);  // only read where it isn't known
  }
  Expr indices = NdIndices(n, static_cast<int>(batch_dims), entries);
  if (batch_dims == 0 && n.StaticDim(indices, 0) == 1) {  // of one dimension: what Gather takes
    return n.Call("take", {n.In(0), n.Squeeze(indices, {0})}, {{"axis", int64_t{0}}, {"mode", "error"}});
  }
  return n.Call("gather_nd", {n.In(0), indices}, {{"batch_dims", batch_dims}});
}

std::string Reduction(NodeImport& n) {
  std::string reduction = n.Str("reduction", "none");
  if (reduction == "none") return "update";
  if (reduction != "add" && reduction != "mul" && reduction != "min" && reduction != "max") {
    n.Invalid(StrCat("'reduction' is ", QuoteName(reduction)));
  }
  return reduction;
}

Expr ImportScatterElements(NodeImport& n) {
  if (n.Rank(0) < 1 || n.Rank(0) != n.Rank(1)) n.Invalid("the operands have different ranks, or rank 0");
  int axis = n.Axis(n.Int("axis", 0), n.Rank(0));
  return n.Call("scatter", {n.In(0), Indices(n, 1, axis), n.In(2)},
                {{"axis", int64_t{axis}}, {"reduction", Reduction(n)}});
}

Expr ImportScatterNd(NodeImport& n) {
  // What the indices leave of the operand's dimensions are the updates' last ones.
  const int entries = n.Rank(1) - 1 + n.Rank(0) - n.Rank(2);
  return n.Call("scatter_nd", {n.In(0), NdIndices(n, 0, entries), n.In(2)}, {{"mode", Reduction(n)}});
}

/// Indices out of [-depth, depth) have no 1.
Expr ImportOneHot(NodeImport& n) {
  if (!n.IsKnown(1)) return ImportDynamicOneHot(n);
  NDArray depth_value = n.Constant(1, "depth");
  if (depth_value.size() != 1) n.Invalid("'depth' isn't a scalar");
  double depth = DoublesOf(depth_value)[0];
  if (!(depth >= 1) || depth > INT32_MAX) n.Invalid(StrCat("'depth' is ", depth));
  int axis = n.Axis(n.Int("axis", -1), n.Rank(0) + 1);
  Expr indices = n.Cast(n.In(0), DataType::Int(64));
  DataType dtype = DataType::Int(64);
  Expr negative = n.Call("less", {indices, n.Scalar(dtype, 0)});
  indices = n.Call("where", {negative, n.Call("add", {indices, n.Scalar(dtype, std::floor(depth))}), indices});
  const Expr values = OneHotValues(n);
  Expr off = n.Squeeze(n.Slice(values, 0, 0, 1), {0});
  Expr on = n.Squeeze(n.Slice(values, 0, 1, 2), {0});
  return n.Call("one_hot", {indices, on, off},
                {{"depth", static_cast<int64_t>(depth)}, {"axis", int64_t{axis}}, {"dtype", n.DType(2)}});
}

std::vector<Expr> ImportTopK(NodeImport& n) {
  int axis = n.Axis(n.Int("axis", -1), n.Rank(0));
  if (TopKIsDynamic(n, axis)) return ImportDynamicTopK(n, axis);
  int64_t k = n.version() == 1 ? n.Int("k") : n.ConstantInt(1, "K");
  bool largest = n.Flag("largest", true);
  n.Ignore({"sorted"});  // sorted results are fine where none are asked for
  int64_t size = n.StaticDim(n.In(0), axis);
  if (k < 0 || k > size) n.Invalid(StrCat("'K' is ", k, ", the dimension has ", size));
  if (k == 0) {
    Expr none = n.Slice(n.In(0), axis, 0, 0);
    return {none, n.Cast(none, DataType::Int(64))};
  }
  Expr both = n.Call(
      "topk", {n.In(0)},
      {{"k", k}, {"axis", int64_t{axis}}, {"ret_type", "both"}, {"is_ascend", !largest}, {"dtype", DataType::Int(64)}});
  return {n.Item(both, 0), n.Item(both, 1)};
}

ImportRule Cumulative(const char* op) {
  return [op](NodeImport& n) -> std::vector<Expr> {
    if (!n.IsKnown(1)) return {ImportRunTimeCumulative(n, op)};
    int64_t axis = n.Axis(n.ConstantInt(1, "axis"), n.Rank(0));
    bool exclusive = n.Flag("exclusive", false);
    bool reverse = n.Flag("reverse", false);
    return {
        n.Call(op, {n.In(0)}, {{"axis", axis}, {"dtype", n.DType(0)}, {"exclusive", exclusive}, {"reverse", reverse}})};
  };
}

/// A triangle of the last two dimensions, the rest set to 0.
Expr ImportTrilu(NodeImport& n) {
  if (n.Rank(0) < 2) n.Invalid(StrCat("the operand has rank ", n.Rank(0), ", expected at least 2"));
  const Array<PrimExpr>& shape = TypeOf(n.In(0))->shape;
  const bool is_static =
      AsConstInt(shape[shape.size() - 1]) != nullptr && AsConstInt(shape[shape.size() - 2]) != nullptr;
  if (!is_static || (n.Has(1) && !n.IsKnown(1))) return ImportRunTimeTrilu(n);
  bool upper = n.Flag("upper", true);
  int64_t k = n.Has(1) ? n.ConstantInt(1, "k") : 0;
  int64_t rows = n.StaticDim(n.In(0), n.Rank(0) - 2);
  int64_t columns = n.StaticDim(n.In(0), n.Rank(0) - 1);
  if (rows * columns > (int64_t{1} << 20)) return ImportRunTimeTrilu(n);
  k = std::clamp<int64_t>(k, -rows - 1, columns + 1);
  Ints mask(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      mask[static_cast<size_t>(i * columns + j)] = (upper ? j - i >= k : j - i <= k) ? 1 : 0;
    }
  }
  Expr keep = n.Const(ArrayOf(mask, {rows, columns}, DataType::Bool()));
  return n.Call("where", {keep, n.In(0), n.Scalar(n.DType(0), 0)});
}

/// With a condition that is known when compiling: the elements that it picks.
Expr ImportCompress(NodeImport& n) {
  if (!n.IsKnown(1)) return ImportDynamicCompress(n);
  Ints condition = n.ConstantInts(1, "condition");
  Ints picked;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) picked.push_back(static_cast<int64_t>(i));
  }
  Expr x = n.In(0);
  int axis = 0;
  if (n.HasAttr("axis")) {
    axis = n.Axis(n.Int("axis"), n.Rank(0));
  } else {
    x = n.Reshape(x, {-1});
  }
  const int64_t* size = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(axis)]);
  if (size != nullptr && !picked.empty() && picked.back() >= *size) n.Invalid("the condition picks more than there is");
  return n.Call("take", {x, n.IntVector(picked)}, {{"axis", int64_t{axis}}, {"mode", "error"}});
}

Expr ImportReverseSequence(NodeImport& n) {
  int64_t batch = n.Int("batch_axis", 1);
  int64_t time = n.Int("time_axis", 0);
  if (batch < 0 || batch > 1 || time != 1 - batch) n.Invalid("'batch_axis' and 'time_axis' have to be 0 and 1");
  if (n.Rank(0) < 2 || n.Rank(1) != 1) n.Invalid("the operands' ranks don't fit");
  Expr lengths = CheckedValues(n, n.In(1), "at_most", DimOf(n, n.In(0), static_cast<int>(time)), "sequence length");
  return n.Call("reverse_sequence", {n.In(0), lengths}, {{"seq_axis", time}, {"batch_axis", batch}});
}

}  // namespace

void RegisterIndexRules(RuleTable& table) {
  table.Add1("Gather", {1, 11, 13}, ImportGather);
  table.Add1("GatherElements", {11, 13}, ImportGatherElements);
  table.Add1("GatherND", {11, 12, 13}, ImportGatherNd);
  table.Add1("Scatter", {9}, ImportScatterElements);
  table.Add1("ScatterElements", {11, 13, 16, 18}, ImportScatterElements);
  table.Add1("ScatterND", {11, 13, 16, 18}, ImportScatterNd);
  table.Add1("OneHot", {9, 11, 28}, ImportOneHot);
  table.Add("TopK", {1, 10, 11, 24}, ImportTopK);
  table.Add("CumSum", {11, 14}, Cumulative("cumsum"));
  table.Add("CumProd", {26}, Cumulative("cumprod"));
  table.Add1("Trilu", {14}, ImportTrilu);
  table.Add1("Compress", {9, 11, 28}, ImportCompress);
  table.Add1("NonZero", {9, 13}, ImportNonZero);
  table.Add1("NonMaxSuppression", {10, 11}, ImportNonMaxSuppression);
  table.Add1("ReverseSequence", {10, 28}, ImportReverseSequence);
}

}  // namespace treadle::onnx
