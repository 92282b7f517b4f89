// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/run_time_axes.h"

#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/forks.h"
#include "frontend/onnx/symbolic_dims.h"

namespace treadle::onnx {
namespace {

const DataType kInt64 = DataType::Int(64);

std::vector<int64_t> Numbers(int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

/// Elements of a list of sizes that are known when compiling; the others are -1.
Array<PrimExpr> Hints(NodeImport& n, const relay::Expr& shape) {
  const int64_t* length = AsConstInt(TypeOf(shape)->shape[0]);
  Array<PrimExpr> hints = length == nullptr ? Array<PrimExpr>() : SizeHints(n.ShapeElements(shape), *length);
  for (size_t i = 0; i < hints.size(); ++i) {
    if (tir::is_zero(hints[i])) hints.Set(i, PrimExpr(int64_t{-1}));
  }
  return hints;
}

}  // namespace

Term DimOf(const Term& x, int axis) {
  if (axis < 0 || axis >= x.rank()) x.node().Invalid(StrCat("an operand of rank ", x.rank(), " has no axis ", axis));
  const int64_t* size = AsConstInt(x.shape()[static_cast<size_t>(axis)]);
  if (size != nullptr) return IntNum(x.node(), *size);
  return ShapeOf(x).Element(axis);
}

Term ShapeOf(const Term& x) {
  std::vector<int64_t> dims;
  for (const PrimExpr& dim : x.shape()) {
    if (const int64_t* size = AsConstInt(dim)) dims.push_back(*size);
  }
  if (dims.size() == x.shape().size()) return IntVec(x.node(), dims);
  return x.Op("shape_of", {{"dtype", kInt64}});
}

Term Iota(const Term& count) {
  if (auto known = count.node().KnownElements(count)) {
    if ((*known)[0] >= 0 && (*known)[0] <= 4096) return IntVec(count.node(), Numbers((*known)[0]));
  }
  return count.Op("dyn.iota");
}

Term ReshapeTo(const Term& x, const Term& shape) {
  if (auto known = shape.node().KnownElements(shape))
    return x.Op("reshape", {{"newshape", *known}, {"allowzero", true}});
  return x.Op("dyn.reshape", shape, {{"newshape", ObjectRef(Hints(shape.node(), shape))}, {"allowzero", true}});
}

Term ReshapeTo(const Term& x, const std::vector<Term>& dims) {
  return dims.empty() ? x.Reshape({}) : ReshapeTo(x, Stack(dims));
}

Term Full(const Term& value, const Term& shape) { return value.Op("dyn.full", shape, {{"dtype", value.dtype()}}); }

Term BroadcastTo(const Term& x, const Term& shape) {
  return x.Op("dyn.broadcast_to", shape, {{"shape", ObjectRef(Hints(shape.node(), shape))}, {"dtype", x.dtype()}});
}

Term SliceAxis(const Term& x, int axis, const Term& begin, const Term& end) {
  NodeImport& n = x.node();
  const std::vector<int64_t> zero{0};
  return {n, n.Call("dyn.strided_slice", {x, begin.Reshape({1}), end.Reshape({1}), n.IntVector({1})},
                    {{"begin", zero},
                     {"end", zero},
                     {"strides", zero},
                     {"axes", std::vector<int64_t>{axis}},
                     {"slice_mode", std::string("end")}})};
}

Term CutOrFilled(const Term& x, int axis, int64_t begin, int64_t count) {
  NodeImport& n = x.node();
  const int64_t size = n.StaticDim(x, axis), end = begin + count, last = std::min(end, size);
  const Term cut = begin == 0 && last == size ? x : x.Slice(axis, begin, std::max(last, begin));
  if (end <= size) return cut;
  std::vector<int64_t> before(static_cast<size_t>(x.rank()), 0), after = before;
  after[static_cast<size_t>(axis)] = end - std::max(size, begin);
  return {n, n.Pad(cut, before, after, x.Number(0), "constant")};
}

Term ListIn(NodeImport& n, size_t i, const char* name, int64_t length) {
  Term list = In(n, i).As(kInt64);
  if (list.rank() == 0) list = list.Reshape({1});
  if (list.rank() != 1) n.Invalid(StrCat("'", name, "' isn't a vector"));
  if (AsConstInt(list.shape()[0]) != nullptr) return list;
  if (length < 0) throw UnknownLength{i, name};
  return OfLength(list, length);
}

int64_t Length(const Term& list) { return *AsConstInt(list.shape()[0]); }

Term OfLength(const Term& list, int64_t length) {
  return list.Op("reshape", {{"newshape", std::vector<int64_t>{length}}, {"allowzero", true}});
}

AxisOrder MaskedLast(const Term& mask) {
  const DataType i64 = kInt64;
  const Term dims = IntVec(mask.node(), Numbers(*AsConstInt(mask.shape()[0])));
  const Term one = mask.As(i64), other = 1 - one;
  // Dimensions of either kind that stand in front of each.
  const Term before = (dims.Expand(0) < dims.Expand(1)).As(i64);
  auto count_before = [&](const Term& kind) { return (before * kind.Expand(0)).Sum({1}); };
  const Term position = mask.Select(count_before(one) + other.Sum({0}, true), count_before(other));
  const Term order = (dims.Expand(1) == position.Expand(0)).As(i64) * dims.Expand(0);
  return {mask, order.Sum({1}), position};
}

AxisOrder AxesLast(const Term& axes, int rank, bool distinct) {
  NodeImport& n = axes.node();
  const Term dims = IntVec(n, Numbers(rank));
  const DataType i64 = kInt64;
  if (!axes.dtype().is_integral()) n.Invalid(StrCat("axes are ", axes.dtype(), ", expected integers"));
  const Term listed = (axes.rank() == 0 ? axes.Reshape({1}) : axes).As(i64);
  // The check counts negative ones from the end.
  const Term given(n, CheckedValues(n, listed, "index", IntNum(n, rank), "axis"));
  const Term is_axis = dims.Expand(1) == given.Expand(0);  // (rank, axes)
  const Term mask = is_axis.Reduce("any", {1});
  if (!distinct) return MaskedLast(mask);
  const Term count = onnx::DimOf(listed, 0);
  return MaskedLast(mask && EqualTo(mask.As(i64).Reduce("sum", {0}), count, "number of different axes") == count);
}

Term TransposeBy(const Term& x, const Term& order) { return x.Op("dyn.transpose", order); }

Term AlongAxis(const Term& x, const Term& axis, const std::function<Term(const Term&)>& f) {
  AxisOrder order = AxesLast(axis, x.rank());
  return TransposeBy(f(TransposeBy(x, order.order)), order.position);
}

}  // namespace treadle::onnx
