// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/dynamic_rules.h"

#include <algorithm>
#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/run_time_axes.h"
#include "frontend/onnx/symbolic_dims.h"
#include "frontend/onnx/values.h"
#include "treadle/arith/analyzer.h"
#include "treadle/base/checked_math.h"
#include "treadle/ir/model_span.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/transform.h"

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
  if (length == nullptr) throw UnknownLength{i, name};
  return *length;
}

bool AllKnown(const std::optional<std::vector<PrimExpr>>& elements) {
  return elements && std::all_of(elements->begin(), elements->end(), [](const PrimExpr& e) { return e.defined(); });
}

}  // namespace

Expr Iota(NodeImport& n, const Expr& count) {
  return WithDims(n, n.Call("dyn.iota", {ScalarOf(n, count)}), SizeHints(n.ShapeElements(count), 1));
}

Expr DimOf(NodeImport& n, const Expr& x, int axis) {
  if (axis < 0 || axis >= RankOf(x)) n.Invalid(StrCat("an operand of rank ", RankOf(x), " has no axis ", axis));
  Expr source = x;
  for (;;) {
    const int64_t* size = AsConstInt(TypeOf(source)->shape[static_cast<size_t>(axis)]);
    if (size != nullptr) return IntScalar(n, *size);
    // Of a transpose, the size is its operand's: what only its shape is asked of needn't be moved.
    const auto* call = source.as<relay::CallNode>();
    const auto* transpose = call == nullptr ? nullptr : call->attrs.as<ops::TransposeAttrs>();
    if (transpose == nullptr || !transpose->axes.has_value()) break;
    const int64_t from = (*transpose->axes)[static_cast<size_t>(axis)];
    axis = static_cast<int>(from < 0 ? from + RankOf(source) : from);
    source = call->args[0];
  }
  return n.Call("take", {ShapeOf(n, source), IntScalar(n, axis)}, {{"axis", int64_t{0}}, {"mode", "error"}});
}

Expr CheckedValues(NodeImport& n, const Expr& values, const char* rule, const Expr& limits, const char* what) {
  return n.Call("check_values", {values, limits},
                {{"rule", std::string(rule)}, {"where", DescribePlace(n.span())}, {"what", std::string(what)}});
}

Expr PickedRows(NodeImport& n, const Expr& table, const Expr& indices, const char* what) {
  const Term last = onnx::DimOf(Term(n, table), 0) - 1.0;
  const Expr checked = CheckedValues(n, indices, "at_most", last, what);
  return n.Call("take", {table, checked}, {{"axis", int64_t{0}}, {"mode", "error"}});
}

void CheckSameSize(const Term& a, int i, const Term& b, int j, const char* what) {
  const int64_t *x = AsConstInt(a.shape()[static_cast<size_t>(i)]), *y = AsConstInt(b.shape()[static_cast<size_t>(j)]);
  if (x != nullptr && y != nullptr && *x != *y) a.node().Invalid(StrCat(what, " are ", *x, " and ", *y));
}

Term OfSameSize(const Term& x, const std::vector<std::pair<int, int>>& axes, const Term& other, const char* what) {
  bool same = true;
  std::vector<Term> dims;
  Array<PrimExpr> hints;
  for (int i = 0; i < x.rank(); ++i) {
    const PrimExpr& own = x.shape()[static_cast<size_t>(i)];
    const auto pair = std::find_if(axes.begin(), axes.end(), [i](const auto& axis) { return axis.first == i; });
    const bool checked = pair != axes.end();
    const PrimExpr wanted = checked ? other.shape()[static_cast<size_t>(pair->second)] : own;
    if (checked) CheckSameSize(other, pair->second, x, i, what);
    const bool known = !checked || (!IsAnyDim(own) && StructuralEqual(own, wanted));
    same = same && known;
    dims.push_back(known ? onnx::DimOf(x, i) : EqualTo(onnx::DimOf(x, i), onnx::DimOf(other, pair->second), what));
    const PrimExpr& best = AsConstInt(own) != nullptr ? own : wanted;
    hints.push_back(IsAnyDim(best) ? PrimExpr(int64_t{-1}) : best);
  }
  if (same) return x;
  NodeImport& n = x.node();
  return {n, n.Call("dyn.reshape", {x, Stack(dims)}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}})};
}

Term AtLeast(const Term& values, int64_t least, const char* what) {
  NodeImport& n = values.node();
  if (auto known = n.KnownElements(values)) {
    for (int64_t value : *known) {
      if (value < least) n.Invalid(StrCat("the ", what, " is ", value, ", expected at least ", least));
    }
    return values;
  }
  return {n, CheckedValues(n, values, "at_least", IntNum(n, least), what)};
}

Term EqualTo(const Term& values, const Term& expected, const char* what) {
  return {values.node(), CheckedValues(values.node(), values, "equal", expected, what)};
}

Term OneOrSize(const Term& x, int i, const Term& other, int j, const char* what) {
  const PrimExpr &own = x.shape()[static_cast<size_t>(i)], &size = other.shape()[static_cast<size_t>(j)];
  if (tir::is_const_int(own, 1) || (!IsAnyDim(own) && !IsAnyDim(size) && StructuralEqual(own, size))) return x;
  CheckSameSize(x, i, other, j, what);
  NodeImport& n = x.node();
  std::vector<Term> dims;
  Array<PrimExpr> hints;
  for (int d = 0; d < x.rank(); ++d) {
    const PrimExpr& dim = x.shape()[static_cast<size_t>(d)];
    hints.push_back(IsAnyDim(dim) ? PrimExpr(int64_t{-1}) : dim);
    dims.push_back(onnx::DimOf(x, d));
  }
  Term& have = dims[static_cast<size_t>(i)];
  have = EqualTo(have, (have == 1.0).Select(have, onnx::DimOf(other, j)), what);
  return {n, n.Call("dyn.reshape", {x, Stack(dims)}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}})};
}

Term WithinShape(Term x, const Term& other, const char* what) {
  if (x.rank() > other.rank()) {
    x.node().Invalid(StrCat(what, " has rank ", x.rank(), ", what it's broadcast to ", other.rank()));
  }
  const std::string size = StrCat("size of ", what);
  for (int i = 1; i <= x.rank(); ++i) {
    const int64_t *own = AsConstInt(x.shape()[static_cast<size_t>(x.rank() - i)]),
                  *wide = AsConstInt(other.shape()[static_cast<size_t>(other.rank() - i)]);
    if (own != nullptr && wide != nullptr && *own != *wide && *own != 1) {
      x.node().Invalid(StrCat("a dimension of ", what, " is ", *own, ", of the operand ", *wide));
    }
    // The operand would be broadcast where only the run knows that its size is 1.
    if (wide == nullptr || *wide == 1) x = OneOrSize(x, x.rank() - i, other, other.rank() - i, size.c_str());
  }
  return x;
}

Term DividedBy(const Term& size, int64_t number, const char* what) {
  NodeImport& n = size.node();
  const auto divisor = static_cast<double>(number);
  if (auto known = n.KnownElements(size); known && known->size() == 1 && known->front() % number == 0) {
    return IntNum(n, known->front() / number);
  }
  const Term count = FloorDiv(size, divisor);
  return count + EqualTo(size - count * divisor, IntNum(n, 0), StrCat("remainder of the ", what).c_str());
}

Term WithHeads(const Term& x, int64_t heads, const char* attribute) {
  const int64_t* width = AsConstInt(x.shape()[2]);
  if (width != nullptr && *width > 0) return x.Reshape({0, 0, heads, *width / heads});
  const Term size = DividedBy(DimOf(x, 2), heads, StrCat("number of columns by ", attribute).c_str());
  return ReshapeTo(x, {DimOf(x, 0), DimOf(x, 1), IntNum(x.node(), heads), size});
}

Term WithSizes(const Term& x, const Ints& sizes, const char* what) {
  NodeImport& n = x.node();
  const std::string size = StrCat("size of ", what);
  bool fits = x.shape().size() == sizes.size(), same = true;
  std::vector<Term> dims;
  Array<PrimExpr> hints;
  for (size_t i = 0; fits && i < sizes.size(); ++i) {
    const int64_t* known = AsConstInt(x.shape()[i]);
    fits = known == nullptr || sizes[i] < 0 || *known == sizes[i];
    const bool tells = known == nullptr && sizes[i] >= 0;
    same = same && !tells;
    dims.push_back(tells ? EqualTo(onnx::DimOf(x, static_cast<int>(i)), IntNum(n, sizes[i]), size.c_str())
                         : onnx::DimOf(x, static_cast<int>(i)));
    const PrimExpr& own = x.shape()[i];
    hints.push_back(tells ? PrimExpr(sizes[i]) : IsAnyDim(own) ? PrimExpr(int64_t{-1}) : own);
  }
  if (!fits) n.Invalid(StrCat(what, " has the wrong shape: expected ", runtime::ShapeString(sizes)));
  if (same) return x;
  return {n, n.Call("dyn.reshape", {x, Stack(dims)}, {{"newshape", ObjectRef(hints)}, {"allowzero", true}})};
}

bool KeepsSize(const Term& x, int64_t axis, const PrimExpr& size) {
  return size.defined() && SameDim(size, x.shape()[static_cast<size_t>(axis)]);
}

Term SizeOfSampled(const Term& x, int axis, const Term& size) {
  const int64_t* known = AsConstInt(x.shape()[static_cast<size_t>(axis)]);
  if (known != nullptr && *known > 0) return size;
  Term most = (DimOf(x, axis) > 0.0).As(kInt64) * static_cast<double>(INT32_MAX);
  if (size.rank() == 1) most = most.Reshape({1});
  return {x.node(), CheckedValues(x.node(), size, "at_most", most, "size to which a dimension is resampled")};
}

/// Takes a product of sizes apart: its constant factors are multiplied with `constant`, the others added to `factors`.
/// False where one isn't known.
bool AddFactors(const PrimExpr& size, int64_t* constant, std::vector<PrimExpr>* factors) {
  if (!size.defined() || IsAnyDim(size)) return false;
  if (const int64_t* value = AsConstInt(size)) {
    *constant = CheckedMul(*constant, *value);
    return true;
  }
  const auto* product = size.as<tir::MulNode>();
  if (product != nullptr) return AddFactors(product->a, constant, factors) && AddFactors(product->b, constant, factors);
  factors->push_back(size);
  return true;
}

/// What -1 stands for in `elements`, new dimensions of as many elements as `from` has: the numbers and names that are
/// left of those; -1 where something else isn't known, or isn't a factor of them.
PrimExpr InferredSize(const Array<PrimExpr>& from, const std::vector<PrimExpr>& elements) {
  PrimExpr unknown(int64_t{-1});
  int64_t given = 1, wanted = 1;
  std::vector<PrimExpr> left, taken;
  for (const PrimExpr& dim : from) {
    if (!AddFactors(dim, &given, &left)) return unknown;
  }
  for (const PrimExpr& element : elements) {
    const bool inferred = element.defined() && tir::is_const_int(element, -1);
    if (!inferred && !AddFactors(element, &wanted, &taken)) return unknown;
  }
  for (const PrimExpr& factor : taken) {
    const auto same =
        std::find_if(left.begin(), left.end(), [&](const PrimExpr& dim) { return StructuralEqual(dim, factor); });
    if (same == left.end()) return unknown;
    left.erase(same);
  }
  if (given < 1 || wanted < 1 || given % wanted != 0) return unknown;
  if (left.empty()) return PrimExpr(given / wanted);
  PrimExpr size = left[0];
  for (size_t i = 1; i < left.size(); ++i) size = size * left[i];
  return given == wanted ? size : size * (given / wanted);
}

/// Whether the element whose code is -1 is -1, or the size that stands there then.
bool IsWhatIsLeft(const Ints& codes, const std::optional<std::vector<PrimExpr>>& elements,
                  const Array<PrimExpr>& shape) {
  const auto left = static_cast<size_t>(std::find(codes.begin(), codes.end(), -1) - codes.begin());
  if (left == codes.size()) return true;
  const PrimExpr element = elements ? (*elements)[left] : PrimExpr();
  if (!element.defined() || IsAnyDim(element) || IsAnyDim(shape[left])) return false;
  return tir::is_const_int(element, -1) || arith::Analyzer().CanProveEqual(element, shape[left]);
}

/// Sizes that are those of the operand are copied, one that isn't known is what is left where that shows to be the
/// same; else the shape is computed, and its elements are counted, when the model runs.
Expr ImportDynamicReshape(NodeImport& n) {
  Expr x = n.In(0), shape = n.In(1);
  bool allow_zero = n.Flag("allowzero", false);
  int64_t length = n.Rank(1) == 1 ? n.DeclaredRank() : -1;
  if (length > 0 && AsConstInt(TypeOf(shape)->shape[0]) == nullptr) {
    shape = n.Reshape(shape, {length});  // checked when it runs
  } else {
    length = ListLength(n, 1, "shape");
  }
  auto elements = n.ShapeElements(shape);
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
  const bool one = unknown <= 1 && !(zero && unknown > 0);
  Expr rest = one ? n.Call("reshape", {x}, {{"newshape", codes}, {"allowzero", allow_zero}}) : Expr();
  if (one && IsWhatIsLeft(codes, elements, TypeOf(rest)->shape)) return rest;
  Array<PrimExpr> hints = SizeHints(elements, length);
  for (size_t i = 0; elements && i < hints.size(); ++i) {
    if ((*elements)[i].defined() && tir::is_const_int((*elements)[i], -1)) hints.Set(i, InferredSize(from, *elements));
  }
  return n.Call("dyn.reshape", {x, n.Cast(shape, kInt64)}, {{"newshape", ObjectRef(hints)}, {"allowzero", allow_zero}});
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

/// How many bounds a Slice has, -1 where only the run knows it.
int64_t SliceBounds(NodeImport& n) {
  int64_t length = -1;
  bool known = true;
  const char* names[] = {"", "starts", "ends", "axes", "steps"};
  for (size_t i = 1; i < n.num_inputs(); ++i) {
    if (!n.Has(i)) continue;
    if (n.Rank(i) != 1) n.Invalid(StrCat("'", names[i], "' isn't a vector"));
    const int64_t* size = AsConstInt(TypeOf(n.In(i))->shape[0]);
    known = known && size != nullptr;
    if (size != nullptr && length >= 0 && *size != length) {
      n.Invalid(StrCat("'", names[i], "' has another length than the lists before it"));
    }
    if (size != nullptr) length = *size;
  }
  return known ? length : -1;
}

/// Begins of slices: what is before the first element is the first one, going backwards.
Expr WithinBackwards(NodeImport& n, const Expr& x, const Term& begin, const Term& steps, const Ints& axes) {
  const auto step = n.KnownElements(steps);
  const auto first = n.ShapeElements(begin);
  bool fits = step.has_value();
  for (size_t i = 0; fits && i < axes.size(); ++i) {
    const int64_t* known = first && i < first->size() ? AsConstInt((*first)[i]) : nullptr;
    fits = (*step)[i] > 0 || (known != nullptr && *known >= -1);
  }
  if (fits) return begin;
  const Term sizes = ShapeOf(Term(n, x)).Take(IntVec(n, axes));
  const Term before = (steps < 0).Op("logical_and", begin < 0);
  return before.Select(Max(begin, sizes * -1.0), begin);
}

Expr ImportDynamicSlice(NodeImport& n) {
  Expr x = n.In(0);
  int64_t length = SliceBounds(n);  // -1: the run knows it
  const Term count_of = onnx::DimOf(In(n, 1), 0);
  auto list = [&](size_t i) -> Expr {
    const Term values = In(n, i).As(kInt64);
    if (length >= 0 || i == 1) return values;
    const Term count = EqualTo(onnx::DimOf(values, 0), count_of, "number of entries beside that of 'starts'");
    return ReshapeTo(values, count.Reshape({1}));
  };
  Expr begin = list(1), end = list(2);
  Ints axes;
  const Ints ones(static_cast<size_t>(std::max<int64_t>(length, 0)), 1);
  Expr steps = n.Has(4) ? list(4) : length >= 0 ? n.IntVector(ones) : Full(IntNum(n, 1), count_of.Reshape({1})).expr();
  if ((n.Has(3) && !n.IsKnown(3)) || length < 0) {
    // Bounds of all dimensions, from those of the dynamic axes.
    const int64_t rank = RankOf(x);
    // The check counts negative ones from the end.
    const Expr listed_axes = n.Has(3) ? list(3) : onnx::Iota(count_of).expr();
    Expr given = CheckedValues(n, listed_axes, "index", IntScalar(n, rank), "axis");
    for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
    Expr is_axis = n.Call("equal", {n.ExpandDims(n.IntVector(axes), 1), n.ExpandDims(given, 0)});  // (rank, length)
    auto sum = [&](const Expr& values) {
      return n.Call("sum", {n.Call("where", {is_axis, n.ExpandDims(values, 0), IntScalar(n, 0)})}, {{"axis", Ints{1}}});
    };
    Expr count = n.Call("sum", {n.Cast(is_axis, kInt64)}, {{"axis", Ints{1}}});
    count = CheckedValues(n, count, "at_most", IntScalar(n, 1), "number of times that an axis is listed");
    Expr listed = n.Call("greater", {count, IntScalar(n, 0)});
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
  if (auto known = n.KnownElements(steps)) {
    if (std::count(known->begin(), known->end(), 0) != 0) n.Invalid("a step is 0");
  } else {
    steps = CheckedValues(n, steps, "not_zero", IntScalar(n, 0), "step");
  }
  begin = WithinBackwards(n, x, Term(n, begin), Term(n, steps), axes);
  Ints zeros(static_cast<size_t>(length), 0);
  Expr result = n.Call("dyn.strided_slice", {x, begin, end, steps},
                       {{"begin", zeros}, {"end", zeros}, {"strides", zeros}, {"axes", axes}, {"slice_mode", "end"}});
  const auto first = n.ShapeElements(begin), last = n.ShapeElements(end);
  const auto step = n.KnownElements(steps);
  Array<PrimExpr> dims = TypeOf(result)->shape;
  for (size_t i = 0; first && last && step && i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    if ((*step)[i] == 1) dims.Set(axis, SliceSize(TypeOf(x)->shape[axis], (*first)[i], (*last)[i]));
  }
  return WithDims(n, result, dims);
}

/// Both the operand and the shape are broadcast: where the shape says 1, the operand's size stays.
Expr ImportDynamicExpand(NodeImport& n) {
  Expr x = n.In(0), shape = n.Cast(n.In(1), kInt64);
  auto elements = n.ShapeElements(shape);
  const Array<PrimExpr>& own = TypeOf(x)->shape;
  const int64_t rank = n.Rank(0), declared = n.DeclaredRank();
  if (n.Rank(1) == 1 && AsConstInt(TypeOf(shape)->shape[0]) == nullptr && declared >= rank && declared > 0) {
    // As many entries as the result has dimensions: there may be fewer, where it has those of the operand.
    const Term ones(n, n.IntVector(Ints(static_cast<size_t>(declared), 1))), given(n, shape);
    const Term padded = onnx::Concat({ones, given}, 0), begin = onnx::DimOf(given, 0);
    const Term fits(n, CheckedValues(n, begin, "at_most", IntScalar(n, declared), "number of entries of 'shape'"));
    shape = SliceAxis(padded, 0, fits, onnx::DimOf(padded, 0)).Reshape({declared});
    elements = std::nullopt;
  }
  const int64_t length = RankOf(shape) == 1 && AsConstInt(TypeOf(shape)->shape[0]) != nullptr
                             ? *AsConstInt(TypeOf(shape)->shape[0])
                             : ListLength(n, 1, "shape");
  const int64_t out_rank = std::max(length, rank);
  auto with_ones = [&](const Expr& sizes, int64_t count) {
    if (count == out_rank) return sizes;
    Expr ones = n.IntVector(Ints(static_cast<size_t>(out_rank - count), 1));
    return count == 0 ? ones : n.Concat({ones, sizes}, 0);
  };
  if (out_rank == 0) return x;
  Expr sizes = with_ones(ShapeOf(n, x), rank);
  shape = with_ones(shape, length);
  // A size of 1 is that of the operand, which leaves nothing for the type rule of known sizes to look at; so may be a
  // size made of dimensions, unless it is the operand's own.
  bool checked = AllKnown(elements);
  for (int64_t i = 1; checked && i <= length; ++i) {
    const PrimExpr& element = (*elements)[static_cast<size_t>(length - i)];
    const PrimExpr size = i <= rank ? own[static_cast<size_t>(rank - i)] : PrimExpr(int64_t{1});
    checked = AsConstInt(element) != nullptr ? !tir::is_const_int(element, 1)
                                             : tir::is_const_int(size, 1) || StructuralEqual(element, size);
  }
  if (!checked) shape = CheckedValues(n, shape, "broadcast", sizes, "size");
  Array<PrimExpr> hints;
  for (int64_t i = 0; i < out_rank; ++i) {
    const int64_t at = i - (out_rank - length), from = i - (out_rank - rank);
    const PrimExpr element = at < 0     ? PrimExpr(int64_t{1})
                             : elements ? (*elements)[static_cast<size_t>(at)]
                                        : PrimExpr();
    const int64_t* known = element.defined() ? AsConstInt(element) : nullptr;
    const int64_t* size = from < 0 ? nullptr : AsConstInt(own[static_cast<size_t>(from)]);
    PrimExpr hint(int64_t{-1});
    if (known != nullptr && *known > 1) hint = element;
    if (known != nullptr && *known == 1 && from < 0) hint = PrimExpr(int64_t{1});
    if (known != nullptr && *known == 1 && from >= 0 && (size == nullptr || *size > 0)) {
      hint = SizeHints(std::vector<PrimExpr>{own[static_cast<size_t>(from)]}, 1)[0];
    }
    if (size != nullptr && *size > 1) hint = PrimExpr(*size);
    if (element.defined() && known == nullptr && AsConstInt(hint) != nullptr && *AsConstInt(hint) == -1) {
      hint = SizeHints(std::vector<PrimExpr>{element}, 1)[0];
    }
    hints.push_back(hint);
  }
  shape = n.Call("where", {n.Call("equal", {shape, IntScalar(n, 1)}), sizes, shape});
  return n.Call("dyn.broadcast_to", {x, shape}, {{"shape", ObjectRef(hints)}, {"dtype", n.DType(0)}});
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
    if (n.version() < 13 && static_cast<int64_t>(n.Ints("split").size()) != outputs)
      n.Invalid("'split' has another length");
    if (RankOf(sizes) != 1) n.Invalid("'split' isn't a vector");
    const PrimExpr& entries = TypeOf(sizes)->shape[0];
    if (const int64_t* count = AsConstInt(entries); count != nullptr && *count != outputs) {
      n.Invalid(StrCat("there are ", *count, " sizes for ", outputs, " outputs"));
    } else if (count == nullptr) {
      Expr given_count = CheckedValues(n, DimOf(n, sizes, 0), "equal", IntScalar(n, outputs), "number of parts");
      given_count = n.Reshape(given_count, {1});
      sizes = n.Call(
          "dyn.strided_slice", {sizes, n.IntVector({0}), given_count, n.IntVector({1})},
          {{"begin", Ints{0}}, {"end", Ints{0}}, {"strides", Ints{0}}, {"axes", Ints{0}}, {"slice_mode", "end"}});
    }
    sizes = CheckedValues(n, sizes, "total", DimOf(n, x, axis), "size of a part");
  } else {
    int64_t count = n.Int("num_outputs", outputs);
    if (count != outputs) n.Invalid(StrCat("'num_outputs' is ", count, ", the node has ", outputs));
    if (n.version() < 18 && outputs > 1) {  // equal parts, which the operator insists on
      Expr tuple =
          n.Call("split", {x}, {{"indices_or_sections", ObjectRef(PrimExpr(outputs))}, {"axis", int64_t{axis}}});
      std::vector<Expr> equal;
      for (int64_t i = 0; i < outputs; ++i) equal.push_back(n.Item(tuple, static_cast<int>(i)));
      return equal;
    }
    Expr extent = DimOf(n, x, axis);
    Expr size = n.Call("floor_divide", {n.Call("add", {extent, IntScalar(n, outputs - 1)}), IntScalar(n, outputs)});
    if (outputs > 2) {  // the last part may be empty, but doesn't lack elements
      const Expr before = n.Call("multiply", {size, IntScalar(n, outputs - 1)});
      extent = CheckedValues(n, extent, "at_least", before, "number of elements that are split");
      size = n.Call("floor_divide", {n.Call("add", {extent, IntScalar(n, outputs - 1)}), IntScalar(n, outputs)});
    }
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

Expr ImportDynamicEyeLike(NodeImport& n) {
  Expr x = n.In(0);
  DataType dtype = n.HasAttr("dtype") ? n.TypeAttr("dtype") : n.DType(0);
  Expr rows = n.ExpandDims(Iota(n, DimOf(n, x, 0)), 1), columns = Iota(n, DimOf(n, x, 1));
  Expr diagonal = n.Call("equal", {n.Call("add", {rows, IntScalar(n, n.Int("k", 0))}), columns});
  return n.Cast(diagonal, dtype);
}

Expr OneHotValues(NodeImport& n) {
  Expr values = n.In(2);
  const int64_t* size = RankOf(values) == 1 ? AsConstInt(TypeOf(values)->shape[0]) : nullptr;
  if (RankOf(values) != 1 || (size != nullptr && *size != 2)) n.Invalid("'values' has to hold two numbers");
  return size != nullptr ? values : n.Reshape(values, {2});
}

Expr ImportDynamicOneHot(NodeImport& n) {
  int axis = n.Axis(n.Int("axis", -1), n.Rank(0) + 1);
  Expr depth = n.Cast(ScalarOf(n, n.In(1)), kInt64), indices = n.Cast(n.In(0), kInt64);
  Expr negative = n.Call("less", {indices, IntScalar(n, 0)});
  indices = n.Call("where", {negative, n.Call("add", {indices, depth}), indices});
  const Expr values = OneHotValues(n);
  Expr off = n.Squeeze(n.Slice(values, 0, 0, 1), {0}), on = n.Squeeze(n.Slice(values, 0, 1, 2), {0});
  return n.Call("dyn.one_hot", {indices, on, off, depth},
                {{"depth", int64_t{1}}, {"axis", int64_t{axis}}, {"dtype", n.DType(2)}});
}

bool TopKIsDynamic(NodeImport& n, int axis) {
  bool known = n.version() == 1 || n.IsKnown(1);
  return !known || AsConstInt(TypeOf(n.In(0))->shape[static_cast<size_t>(axis)]) == nullptr;
}

std::vector<Expr> ImportDynamicTopK(NodeImport& n, int axis) {
  Expr x = n.In(0), k = n.version() == 1 ? IntScalar(n, n.Int("k")) : n.Cast(ScalarOf(n, n.In(1)), kInt64);
  bool largest = n.Flag("largest", true);
  n.Ignore({"sorted"});
  const auto elements = n.KnownElements(k);
  const int64_t known = elements && (*elements)[0] > 0 ? (*elements)[0] : 0;
  const Expr size = DimOf(n, x, axis);
  k = CheckedValues(n, k, "at_most", size, "K");
  if (known > 0) {
    // The slice, of all, waits for the check: the kernel reads K elements of each row.
    const Term end = Term(n, size) + (Term(n, k) - known);
    x = SliceAxis({n, x}, axis, IntNum(n, 0), end);
  }
  const std::vector<Expr> operands = known > 0 ? std::vector<Expr>{x} : std::vector<Expr>{x, k};
  Expr both =
      n.Call(known > 0 ? "topk" : "dyn.topk", operands,
             {{"k", known}, {"axis", int64_t{axis}}, {"ret_type", "both"}, {"is_ascend", !largest}, {"dtype", kInt64}});
  return {n.Item(both, 0), n.Item(both, 1)};
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
  if (RankOf(x) == 0) x = n.Reshape(x, {1});  // counts as a vector
  return n.Transpose(NonZeroRows(n, x), {1, 0});
}

/// Inputs: boxes, scores, boxes per class (0 where left out), thresholds of overlap and of scores.
Expr ImportNonMaxSuppression(NodeImport& n) {
  const DataType f32 = DataType::Float(32);
  auto number = [&](size_t i, double otherwise) { return n.Has(i) ? ScalarOf(n, n.In(i)) : n.Scalar(f32, otherwise); };
  if (n.Has(2) && n.DType(2) != kInt64) n.Invalid(StrCat("input 2 is ", n.DType(2), ", expected int64"));
  const int64_t form = n.Int("center_point_box", 0);
  if (form != 0 && form != 1) n.Invalid(StrCat("'center_point_box' is ", form, ", expected 0 or 1"));
  Expr most = n.Has(2) ? ScalarOf(n, n.In(2)) : IntScalar(n, 0);
  Expr overlap = number(3, 0);
  if (n.IsKnown(3)) {
    const std::vector<double> known = n.ConstantFloats(3, "iou_threshold");
    if (known.size() == 1 && !(known[0] >= 0 && known[0] <= 1)) {
      n.Invalid(StrCat("'iou_threshold' is ", known[0], ", expected 0 to 1"));
    }
  } else if (n.Has(3)) {
    overlap = CheckedValues(n, overlap, "at_most", n.Scalar(f32, 1), "'iou_threshold'");
  }
  Expr both =
      n.Call("nms_padded", {n.In(0), n.In(1), most, overlap, number(4, -INFINITY)}, {{"center_point_box", form == 1}});
  return n.Call("dyn.take_rows", {n.Item(both, 0), n.Item(both, 1)});
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

namespace {

/// p / q with small numbers that is the factor as far as float32 tells.
std::optional<std::pair<int64_t, int64_t>> Fraction(double factor) {
  for (int64_t q = 1; q <= 1000; ++q) {
    const double p = std::round(factor * static_cast<double>(q));
    if (p >= 1 && p < 1e9 && static_cast<float>(p / static_cast<double>(q)) == static_cast<float>(factor)) {
      return std::make_pair(static_cast<int64_t>(p), q);
    }
  }
  return std::nullopt;
}

/// What Resize says of each dimension of its operand.
struct DynamicScales {
  Ints axes;
  std::vector<double> scales;  ///< one per axis, or none
  Expr sizes;                  ///< one per axis, where there are no scales
};

DynamicScales ScalesOf(NodeImport& n, bool old) {
  DynamicScales result;
  for (int i = 0; i < n.Rank(0); ++i) result.axes.push_back(i);
  if (n.HasAttr("axes")) result.axes = n.Axes(n.Ints("axes"), n.Rank(0));
  const size_t scales = old ? 1 : 2;
  auto present = [&](size_t i) { return n.Has(i) && !(n.IsKnown(i) && n.Constant(i, "input").size() == 0); };
  if (!old) n.IgnoreInput(1);
  if (!old && present(3)) {
    n.IgnoreInput(2);
    if (n.Str("keep_aspect_ratio_policy", "stretch") != "stretch") return result;
    result.sizes = n.Cast(n.In(3), kInt64);
    if (ListLength(n, 3, "sizes") != static_cast<int64_t>(result.axes.size()))
      n.Invalid("'sizes' has another length than 'axes'");
    return result;
  }
  n.Ignore({"keep_aspect_ratio_policy"});
  if (!old) n.IgnoreInput(3);
  if (!present(scales)) n.Invalid("neither 'scales' nor 'sizes' is given");
  result.scales = n.ConstantFloats(scales, "scales");
  if (result.axes.size() != result.scales.size()) {
    n.Invalid(StrCat("there are ", result.scales.size(), " scales for ", result.axes.size(), " axes"));
  }
  return result;
}

/// Whether sizes are given, and they are the operand's whatever it is.
bool KeepsSizes(NodeImport& n, const DynamicScales& r) {
  const auto elements = r.sizes.defined() ? n.ShapeElements(r.sizes) : std::nullopt;
  for (size_t i = 0; elements && i < r.axes.size(); ++i) {
    if (!KeepsSize({n, n.In(0)}, r.axes[i], (*elements)[i])) return false;
  }
  return elements.has_value();
}

/// `y`, of which height and width have their sizes, with those of batch and channels, where they aren't known to stay.
Expr ResizeOuter(NodeImport& n, Expr y, const DynamicScales& r, const std::string& mode, const std::string& transform,
                 const std::string& nearest) {
  const Expr x = n.In(0);
  const auto elements = n.ShapeElements(r.sizes);
  auto same = [&](size_t d) { return elements && KeepsSize({n, x}, static_cast<int64_t>(d), (*elements)[d]); };
  const DataType dtype = TypeOf(x)->dtype;
  if (!(same(0) && same(1)) && mode != "nearest" && dtype != DataType::Float(32) && dtype != DataType::Float(64)) {
    return ImportResizeByAxis(n);
  }
  for (int d = 0; d < 2; ++d) {
    if (same(static_cast<size_t>(d))) continue;
    const Term image(n, x), whole = SizeOfSampled(image, d, {n, n.Slice(r.sizes, 0, d, d + 1)});
    const Term to = whole.Reshape({}), real = to.As(DataType::Float(64));
    const Term scale = (real / onnx::DimOf(image, d).As(DataType::Float(64))).As(DataType::Float(32));
    const Term roi(n, n.Const(ArrayOf(std::vector<double>(2, 0.0), {2}, DataType::Float(32))));
    y = n.Call("dyn.resize_axis", {y, to, scale, roi},
               {{"axis", int64_t{d}},
                {"method", mode == "bilinear" ? std::string("linear") : mode},
                {"transform", transform},
                {"rounding", nearest},
                {"cubic_alpha", n.Float("cubic_coeff_a", -0.75)},
                {"exclude_outside", n.Flag("exclude_outside", false)},
                {"antialias", false},
                {"extrapolation_value", 0.0},
                {"by_size", true}});
  }
  return y;
}

}  // namespace

/// Whole factors by repeating where the coordinates allow it; else height and width of a batch of images.
Expr ImportDynamicResize(NodeImport& n) {
  const bool old = n.version() == 10;
  const std::string mode = n.Str("mode", "nearest");
  const std::string transform = old ? "asymmetric" : n.Str("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = old ? "floor" : n.Str("nearest_mode", "round_prefer_floor");
  DynamicScales r = ScalesOf(n, old);
  Expr x = n.In(0);
  if (r.scales.empty() && !r.sizes.defined()) return ImportResizeByAxis(n);
  if (r.sizes.defined()) {
    // What is computed from shapes is left: passes see through it.
    const auto elements = n.ShapeElements(r.sizes);
    const bool of_shapes =
        elements && std::all_of(elements->begin(), elements->end(), [](const PrimExpr& e) { return e.defined(); });
    if (!of_shapes) r.sizes = AtLeast({n, r.sizes}, 0, "size").expr();
  }
  if (transform != "tf_crop_and_resize" && KeepsSizes(n, r)) {
    n.Ignore({"cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"});
    return x;
  }
  const bool floors =
      (transform == "asymmetric" && nearest == "floor") ||
      (transform == "half_pixel" && (nearest == "round_prefer_floor" || nearest == "round_prefer_ceil"));
  const bool whole = !r.scales.empty() && std::all_of(r.scales.begin(), r.scales.end(), [](double s) {
    return s >= 1 && s == std::floor(s) && s <= 1e6;
  });
  if (mode == "nearest" && floors && whole) {
    n.Ignore({"cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"});
    for (size_t i = 0; i < r.axes.size(); ++i) {
      if (r.scales[i] == 1) continue;
      x = n.Call("repeat", {x}, {{"repeats", static_cast<int64_t>(r.scales[i])}, {"axis", r.axes[i]}});
    }
    return x;
  }
  if (transform == "tf_crop_and_resize" || (n.Flag("antialias", false) && mode != "nearest")) {
    return ImportResizeByAxis(n);
  }
  if (n.Rank(0) != 4) return ImportResizeByAxis(n);
  Array<Expr> sizes;
  std::vector<PrimExpr> known;
  std::vector<double> scales;
  for (int d = 0; d < 4; ++d) {
    auto at = std::find(r.axes.begin(), r.axes.end(), d);
    const auto i = static_cast<int64_t>(at - r.axes.begin());
    const bool given = at != r.axes.end();
    if (d < 2 && given && !r.scales.empty() && r.scales[static_cast<size_t>(i)] != 1) {
      return ImportResizeByAxis(n);
    }
    if (d < 2) continue;
    Expr size = n.Reshape(DimOf(n, x, d), {1});
    if (given && r.scales.empty()) size = SizeOfSampled({n, x}, d, {n, n.Slice(r.sizes, 0, i, i + 1)});
    if (!r.scales.empty()) {
      scales.push_back(given ? r.scales[static_cast<size_t>(i)] : 1);
      auto fraction = Fraction(scales.back());
      if (!fraction) return ImportResizeByAxis(n);
      const auto [p, q] = *fraction;
      if (p != 1) size = n.Call("multiply", {size, n.IntVector({p})});
      if (q != 1) size = n.Call("floor_divide", {size, n.IntVector({q})});
    }
    // A check, if any, is of a size that stays what it is.
    const bool stated = given && r.scales.empty();
    const auto elements = n.ShapeElements(stated ? r.sizes : size);
    known.push_back(elements ? (*elements)[stated ? static_cast<size_t>(i) : 0] : PrimExpr());
    sizes.push_back(size);
  }
  const Expr size = n.Concat(sizes, 0);
  AttrList attrs{{"method", mode == "nearest"    ? std::string("nearest_neighbor")
                            : mode == "bilinear" ? "linear"
                                                 : mode},
                 {"coordinate_transformation_mode", transform},
                 {"layout", std::string("NCHW")},
                 {"size", ObjectRef(SizeHints(known, 2))},
                 {"scales", scales},
                 {"cubic_alpha", n.Float("cubic_coeff_a", -0.75)},
                 {"cubic_exclude", n.Flag("exclude_outside", false)}};
  if (mode == "nearest") attrs.push_back({"rounding_method", nearest});
  n.Ignore({"extrapolation_value"});
  Expr roi = n.Const(NDArray::Empty({0}, DataType::Float(32)));
  Expr y = n.Call("dyn.image.resize2d", {x, size, roi}, attrs);
  if (!r.scales.empty() || (r.axes[0] > 1 && r.axes.back() > 1)) return y;
  if (r.axes != Ints{0, 1, 2, 3}) return ImportResizeByAxis(n);
  return ResizeOuter(n, y, r, mode, transform, nearest);
}

}  // namespace treadle::onnx
