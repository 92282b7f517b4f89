// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/dynamic_rules.h"

#include <algorithm>
#include <cmath>

#include "frontend/onnx/shape_values.h"
#include "treadle/ir/structural.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using Ints = std::vector<int64_t>;

const DataType kInt64 = DataType::Int(64);

Expr IntScalar(NodeImport& n, int64_t value) { return n.Const(ArrayOf(Ints{value}, Ints{}, kInt64)); }
Expr ScalarOf(NodeImport& n, const Expr& e) { return TypeOf(e)->shape.empty() ? e : n.Reshape(e, Ints{}); }
Expr ShapeOf(NodeImport& n, const Expr& x) { return n.Call("shape_of", {x}, {{"dtype", kInt64}}); }

/// Number of entries of an input that lists sizes, axes and the like.
int64_t ListLength(NodeImport& n, size_t i, const char* name) {
  if (n.Rank(i) != 1) n.Invalid(StrCat("'", name, "' isn't a vector"));
  const int64_t* length = AsConstInt(TypeOf(n.In(i))->shape[0]);
  if (length == nullptr) n.Unsupported(StrCat("the number of entries of '", name, "' isn't known when compiling"));
  return *length;
}

Array<PrimExpr> Hints(const std::optional<std::vector<PrimExpr>>& elements, int64_t length) {
  Array<PrimExpr> hints;
  for (int64_t i = 0; i < length; ++i) {
    PrimExpr hint(int64_t{-1});
    if (elements) {
      const PrimExpr& element = (*elements)[static_cast<size_t>(i)];
      if (element.defined() && AsConstInt(element) != nullptr && *AsConstInt(element) > 0) hint = element;
    }
    hints.push_back(hint);
  }
  return hints;
}

/// Numbers 0, 1, .. below a count.
Expr Iota(NodeImport& n, const Expr& count) { return n.Call("dyn.iota", {ScalarOf(n, count)}); }

}  // namespace

Expr DimOf(NodeImport& n, const Expr& x, int axis) {
  const int64_t* size = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(axis)]);
  if (size != nullptr) return IntScalar(n, *size);
  return n.Call("take", {ShapeOf(n, x), IntScalar(n, axis)}, {{"axis", int64_t{0}}, {"mode", "error"}});
}

Expr DynamicFromStart(NodeImport& n, const Expr& indices, const Expr& data, int axis) {
  DataType dtype = TypeOf(indices)->dtype;
  if (!dtype.is_integral()) n.Invalid(StrCat("the indices are ", dtype, ", expected integers"));
  if (!dtype.is_int()) return indices;
  Expr negative = n.Call("less", {indices, n.Scalar(dtype, 0)});
  Expr moved = n.Call("add", {indices, n.Cast(DimOf(n, data, axis), dtype)});
  return n.Call("where", {negative, moved, indices});
}

/// Sizes that are those of the operand are copied, one that isn't known is what is left; with more of them the shape is
/// computed when the model runs.
Expr ImportDynamicReshape(NodeImport& n) {
  Expr x = n.In(0), shape = n.In(1);
  bool allow_zero = n.Flag("allowzero", false);
  int64_t length = ListLength(n, 1, "shape");
  auto elements = ShapeElements(shape);
  const Array<PrimExpr>& from = TypeOf(x)->shape;
  Ints codes;
  int unknown = 0;
  for (size_t i = 0; i < static_cast<size_t>(length); ++i) {
    const PrimExpr element = elements ? (*elements)[i] : PrimExpr(ObjectPtr<Object>());
    const int64_t* value = element.defined() ? AsConstInt(element) : nullptr;
    bool copies = element.defined() && i < from.size() && !allow_zero && StructuralEqual(element, from[i]);
    if (value != nullptr && *value < -1) n.Invalid(StrCat("the new shape has a dimension of ", *value));
    codes.push_back(value != nullptr ? *value : copies ? 0 : -1);
    unknown += codes.back() == -1 ? 1 : 0;
  }
  bool zero = allow_zero && std::find(codes.begin(), codes.end(), 0) != codes.end();
  if (unknown <= 1 && !(zero && unknown > 0)) {
    return n.Call("reshape", {x}, {{"newshape", codes}, {"allowzero", allow_zero}});
  }
  return n.Call("dyn.reshape", {x, n.Cast(shape, kInt64)},
                {{"newshape", ObjectRef(Hints(elements, length))}, {"allowzero", allow_zero}});
}

Expr ImportDynamicFlatten(NodeImport& n, int axis) {
  Expr x = n.In(0);
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < RankOf(x); ++i) {
    int64_t& side = i < axis ? rows : columns;
    const int64_t* size = AsConstInt(TypeOf(x)->shape[static_cast<size_t>(i)]);
    side = size == nullptr || side < 0 ? -1 : side * *size;
  }
  if (rows >= 0 || columns >= 0) return n.Reshape(x, {rows, columns});
  auto product = [&](int begin, int end) {
    Expr size = IntScalar(n, 1);
    for (int i = begin; i < end; ++i) size = n.Call("multiply", {size, DimOf(n, x, i)});
    return n.Reshape(size, {1});
  };
  Expr shape = n.Concat({product(0, axis), product(axis, RankOf(x))}, 0);
  return n.Call("dyn.reshape", {x, shape}, {{"newshape", Ints{-1, -1}}, {"allowzero", true}});
}

bool SliceIsDynamic(NodeImport& n) {
  for (size_t i = 1; i < n.num_inputs(); ++i) {
    if (n.Has(i) && !n.IsKnown(i)) return true;
  }
  if (!n.Has(1) || !n.Has(2)) return false;
  // Bounds that are clamped to a dimension need it, unless they cover all from an end of it.
  Ints begin = IntsOf(n.Constant(1, "starts")), end = IntsOf(n.Constant(2, "ends")), axes;
  if (n.Has(3)) axes = n.Axes(IntsOf(n.Constant(3, "axes")), n.Rank(0));
  Ints steps = n.Has(4) ? IntsOf(n.Constant(4, "steps")) : Ints(begin.size(), 1);
  if (begin.size() != end.size() || begin.size() != steps.size()) return false;
  for (size_t i = 0; i < begin.size(); ++i) {
    size_t axis = axes.empty() ? i : i < axes.size() ? static_cast<size_t>(axes[i]) : 0;
    if (axis >= TypeOf(n.In(0))->shape.size()) return false;
    if (AsConstInt(TypeOf(n.In(0))->shape[axis]) == nullptr) return true;
  }
  return false;
}

Expr ImportDynamicSlice(NodeImport& n) {
  Expr x = n.In(0), begin = n.Cast(n.In(1), kInt64), end = n.Cast(n.In(2), kInt64);
  int64_t length = ListLength(n, 1, "starts");
  if (ListLength(n, 2, "ends") != length) n.Invalid("'starts' and 'ends' have different lengths");
  Ints axes;
  Expr steps = n.Has(4) ? n.Cast(n.In(4), kInt64) : n.IntVector(Ints(static_cast<size_t>(length), 1));
  if (n.Has(3) && !n.IsKnown(3)) {
    // Bounds of all dimensions, from those of the axes that the run tells.
    const int64_t rank = RankOf(x);
    if (ListLength(n, 3, "axes") != length) n.Invalid("'axes' has another length than 'starts'");
    Expr given = n.Cast(n.In(3), kInt64);
    Expr negative = n.Call("less", {given, IntScalar(n, 0)});
    given = n.Call("where", {negative, n.Call("add", {given, IntScalar(n, rank)}), given});
    for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
    Expr is_axis = n.Call("equal", {n.ExpandDims(n.IntVector(axes), 1), n.ExpandDims(given, 0)});  // (rank, length)
    auto sum = [&](const Expr& values) {
      return n.Call("sum", {n.Call("where", {is_axis, n.ExpandDims(values, 0), IntScalar(n, 0)})}, {{"axis", Ints{1}}});
    };
    Expr listed = n.Call("greater", {sum(n.IntVector(Ints(static_cast<size_t>(length), 1))), IntScalar(n, 0)});
    begin = sum(begin);
    end = n.Call("where", {listed, sum(end), IntScalar(n, INT64_MAX)});
    steps = n.Call("where", {listed, sum(steps), IntScalar(n, 1)});
    length = rank;
  } else if (n.Has(3)) {
    axes = n.Axes(n.ConstantInts(3, "axes"), RankOf(x));
  } else {
    for (int64_t i = 0; i < length; ++i) axes.push_back(i);
  }
  if (static_cast<int64_t>(axes.size()) != length) n.Invalid("'axes' has another length than 'starts'");
  if (auto known = KnownElements(steps)) {
    if (std::count(known->begin(), known->end(), 0) != 0) n.Invalid("a step is 0");
  }
  Ints zeros(static_cast<size_t>(length), 0);
  return n.Call("dyn.strided_slice", {x, begin, end, steps},
                {{"begin", zeros}, {"end", zeros}, {"strides", zeros}, {"axes", axes}, {"slice_mode", "end"}});
}

Expr ImportDynamicExpand(NodeImport& n) {
  Expr shape = n.Cast(n.In(1), kInt64);
  auto elements = ShapeElements(shape);
  return n.Call("dyn.broadcast_to", {n.In(0), shape},
                {{"shape", ObjectRef(Hints(elements, ListLength(n, 1, "shape")))}, {"dtype", n.DType(0)}});
}

Expr ImportDynamicPad(NodeImport& n) {
  Expr x = n.In(0), pads = n.Cast(n.In(1), kInt64);
  std::string mode = n.Str("mode", "constant");
  int64_t rank = n.Rank(0), count = ListLength(n, 1, "pads") / 2;
  Ints axes;
  if (n.version() >= 18 && n.Has(3)) {
    axes = n.Axes(n.ConstantInts(3, "axes"), static_cast<int>(rank));
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  if (static_cast<int64_t>(axes.size()) != count) n.Invalid("'pads' has another number of entries than there are axes");
  // (rank, 2), from all begins and then all ends of the axes.
  Array<Expr> rows;
  for (int64_t d = 0; d < rank; ++d) {
    auto at = std::find(axes.begin(), axes.end(), d);
    int64_t k = at - axes.begin();
    rows.push_back(at == axes.end() ? n.IntVector({0, 0})
                                    : n.Call("take", {pads, n.IntVector({k, count + k})}, {{"axis", int64_t{0}}, {"mode", "error"}}));
  }
  Expr width = n.Reshape(rows.size() == 1 ? rows[0] : n.Concat(rows, 0), {rank, 2});
  Expr value = n.Has(2) ? ScalarOf(n, n.In(2)) : n.Scalar(n.DType(0), 0);
  return n.Call("dyn.nn.pad", {x, width, value}, {{"pad_mode", mode}});
}

std::vector<Expr> ImportDynamicSplit(NodeImport& n, int axis) {
  Expr x = n.In(0);
  auto outputs = static_cast<int64_t>(n.node().outputs.size());
  auto slice = [&](const Expr& begin, const Expr& end) {
    Ints zero{0};
    return n.Call("dyn.strided_slice", {x, n.Reshape(begin, {1}), n.Reshape(end, {1}), n.IntVector({1})},
                  {{"begin", zero}, {"end", zero}, {"strides", zero}, {"axes", Ints{axis}}, {"slice_mode", "end"}});
  };
  Expr sizes;
  bool given = n.version() >= 13 ? n.Has(1) : n.HasAttr("split");
  if (given) {
    sizes = n.version() >= 13 ? n.Cast(n.In(1), kInt64) : n.IntVector(n.Ints("split"));
    if (n.version() < 13 && static_cast<int64_t>(n.Ints("split").size()) != outputs) n.Invalid("'split' has another length");
  } else {
    int64_t count = n.Int("num_outputs", outputs);
    if (count != outputs) n.Invalid(StrCat("'num_outputs' is ", count, ", the node has ", outputs));
    Expr size = n.Call("floor_divide", {n.Call("add", {DimOf(n, x, axis), IntScalar(n, outputs - 1)}), IntScalar(n, outputs)});
    std::vector<Expr> parts(static_cast<size_t>(outputs), n.Reshape(size, {1}));
    sizes = outputs == 1 ? parts[0] : n.Concat(Array<Expr>(parts), 0);
  }
  std::vector<Expr> parts;
  Expr begin = IntScalar(n, 0);
  for (int64_t i = 0; i < outputs; ++i) {
    Expr size = n.Call("take", {sizes, IntScalar(n, i)}, {{"axis", int64_t{0}}, {"mode", "error"}});
    Expr end = n.Call("add", {begin, size});
    parts.push_back(slice(begin, end));
    begin = end;
  }
  return parts;
}

Expr ImportDynamicRange(NodeImport& n) {
  DataType dtype = n.DType(0);
  Expr start = ScalarOf(n, n.In(0)), limit = ScalarOf(n, n.In(1)), delta = ScalarOf(n, n.In(2));
  Expr span = n.Call("subtract", {limit, start}), count;
  auto step = dtype.is_integral() ? KnownElements(delta) : std::nullopt;
  if (step && (*step)[0] == 0) n.Invalid("'delta' is 0");
  if (step && (*step)[0] == 1) {
    count = n.Cast(span, kInt64);
  } else {
    Expr ratio = n.Call("divide", {n.Cast(span, DataType::Float(64)), n.Cast(delta, DataType::Float(64))});
    count = n.Cast(n.Call("ceil", {ratio}), kInt64);
  }
  Expr numbers = n.Cast(Iota(n, count), dtype);
  return n.Call("add", {start, n.Call("multiply", {numbers, delta})});
}

Expr ImportDynamicEyeLike(NodeImport& n) {
  Expr x = n.In(0);
  DataType dtype = n.HasAttr("dtype") ? n.TypeAttr("dtype") : n.DType(0);
  Expr rows = n.ExpandDims(Iota(n, DimOf(n, x, 0)), 1), columns = Iota(n, DimOf(n, x, 1));
  Expr diagonal = n.Call("equal", {n.Call("add", {rows, IntScalar(n, n.Int("k", 0))}), columns});
  return n.Cast(diagonal, dtype);
}

Expr ImportDynamicOneHot(NodeImport& n) {
  int axis = n.Axis(n.Int("axis", -1), n.Rank(0) + 1);
  Expr depth = n.Cast(ScalarOf(n, n.In(1)), kInt64), indices = n.Cast(n.In(0), kInt64);
  Expr negative = n.Call("less", {indices, IntScalar(n, 0)});
  indices = n.Call("where", {negative, n.Call("add", {indices, depth}), indices});
  if (n.Rank(2) != 1 || n.StaticDim(n.In(2), 0) != 2) n.Invalid("'values' has to hold two numbers");
  Expr off = n.Squeeze(n.Slice(n.In(2), 0, 0, 1), {0}), on = n.Squeeze(n.Slice(n.In(2), 0, 1, 2), {0});
  return n.Call("dyn.one_hot", {indices, on, off, depth}, {{"depth", int64_t{1}}, {"axis", int64_t{axis}}, {"dtype", n.DType(2)}});
}

bool TopKIsDynamic(NodeImport& n, int axis) {
  bool known = n.version() == 1 || n.IsKnown(1);
  return !known || AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(axis)]) == nullptr;
}

/// Sorts all, and takes the first K.
std::vector<Expr> ImportDynamicTopK(NodeImport& n, int axis) {
  Expr x = n.In(0), k = n.version() == 1 ? IntScalar(n, n.Int("k")) : n.Cast(ScalarOf(n, n.In(1)), kInt64);
  bool largest = n.Flag("largest", true);
  n.Ignore({"sorted"});
  Expr both = n.Call("topk", {x}, {{"k", int64_t{0}}, {"axis", int64_t{axis}}, {"ret_type", "both"}, {"is_ascend", !largest}, {"dtype", kInt64}});
  std::vector<Expr> outputs;
  for (int i = 0; i < 2; ++i) {
    Ints zero{0};
    outputs.push_back(n.Call("dyn.strided_slice", {n.Item(both, i), n.IntVector({0}), n.Reshape(k, {1}), n.IntVector({1})},
                             {{"begin", zero}, {"end", zero}, {"strides", zero}, {"axes", Ints{axis}}, {"slice_mode", "end"}}));
  }
  return outputs;
}

namespace {

/// One row of coordinates for each nonzero element.
Expr NonZeroRows(NodeImport& n, const Expr& x) {
  Expr both = n.Call("nonzero_padded", {x});
  return n.Call("dyn.take_rows", {n.Item(both, 0), n.Item(both, 1)});
}

}  // namespace

Expr ImportNonZero(NodeImport& n) {
  Expr x = n.In(0);
  // A scalar counts as a vector of one element (NumPy), without coordinates in ONNX.
  if (RankOf(x) == 0) n.Unsupported("the operand is a scalar");
  return n.Transpose(NonZeroRows(n, x), {1, 0});
}

Expr ImportDynamicCompress(NodeImport& n) {
  Expr x = n.In(0), condition = n.In(1);
  int axis = 0;
  if (n.HasAttr("axis")) {
    axis = n.Axis(n.Int("axis"), n.Rank(0));
  } else {
    x = n.Reshape(x, {-1});
  }
  Expr picked = n.Squeeze(NonZeroRows(n, condition), {1});
  return n.Call("take", {x, picked}, {{"axis", int64_t{axis}}, {"mode", "error"}});
}

Expr ImportDynamicResize(NodeImport& n) {
  Expr x = n.In(0);
  bool old = n.version() == 10;
  std::string mode = n.Str("mode", "nearest");
  std::string transform = old ? "asymmetric" : n.Str("coordinate_transformation_mode", "half_pixel");
  std::string nearest = old ? "floor" : n.Str("nearest_mode", "round_prefer_floor");
  n.Ignore({"cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias", "keep_aspect_ratio_policy"});
  bool floors = (transform == "asymmetric" && nearest == "floor") ||
                (transform == "half_pixel" && (nearest == "round_prefer_floor" || nearest == "round_prefer_ceil"));
  if (mode != "nearest" || !floors) {
    n.Unsupported(StrCat("resampling of dimensions that aren't known when compiling, with mode ", mode,
                         ", coordinate_transformation_mode ", transform, ", nearest_mode ", nearest, " isn't implemented"));
  }
  size_t scales_input = old ? 1 : 2;
  if (!old) n.IgnoreInput(1);
  bool has_scales = n.Has(scales_input) && !(n.IsKnown(scales_input) && n.Constant(scales_input, "scales").size() == 0);
  if (!has_scales) n.Unsupported("sizes of a result whose operand's shape isn't known when compiling aren't implemented");
  if (!old && n.Has(3)) n.IgnoreInput(3);
  std::vector<double> scales = n.ConstantFloats(scales_input, "scales");
  Ints axes;
  for (int i = 0; i < n.Rank(0); ++i) axes.push_back(i);
  if (n.HasAttr("axes")) axes = n.Axes(n.Ints("axes"), n.Rank(0));
  if (axes.size() != scales.size()) n.Invalid(StrCat("there are ", scales.size(), " scales for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (scales[i] == 1) continue;
    if (scales[i] < 1 || scales[i] != std::floor(scales[i]) || scales[i] > 1e6) {
      n.Unsupported(StrCat("a scale of ", scales[i], " of dimensions that aren't known when compiling isn't implemented"));
    }
    x = n.Call("repeat", {x}, {{"repeats", static_cast<int64_t>(scales[i])}, {"axis", axes[i]}});
  }
  return x;
}

}  // namespace treadle::onnx
