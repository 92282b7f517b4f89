// SPDX-License-Identifier: Apache-2.0
// Gradients of operators that move, repeat and join elements: their gradients move back, and sum what was repeated.
#include <algorithm>

#include "ops/gradients.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/algorithm.h"

namespace treadle::ops::gradient {

namespace {

std::vector<int64_t> Dims(const TensorTypeNode* type) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < type->shape.size(); ++i) dims.push_back(Dim(type, i));
  return dims;
}

}  // namespace

Grads OfReshape(const Site& s) { return {MakeReshape(s.grad, s.type(0)->shape)}; }

Grads OfTranspose(const Site& s) {
  const auto* attrs = s.call->attrs_as<TransposeAttrs>();
  size_t rank = s.type(0)->shape.size();
  std::vector<int64_t> inverse(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t axis =
        attrs->axes ? PositiveAxis(static_cast<int>((*attrs->axes)[i]), rank) : static_cast<int64_t>(rank - 1 - i);
    inverse[static_cast<size_t>(axis)] = static_cast<int64_t>(i);
  }
  return {MakeTranspose(s.grad, inverse)};
}

/// The gradient of concatenate flows to the fields of its tuple: as a tuple.
Grads OfConcatenate(const Site& s) {
  const auto* fields = s.arg(0)->type_as<TupleTypeNode>();
  int axis = s.call->attrs_as<ConcatenateAttrs>()->axis;
  Array<Expr> parts;
  int64_t begin = 0;
  for (const Type& field : fields->fields) {
    const auto* type = field.as<TensorTypeNode>();
    int positive = PositiveAxis(axis, type->shape.size());
    int64_t size = Dim(type, static_cast<size_t>(positive));
    parts.push_back(MakeStridedSlice(s.grad, {begin}, {begin + size}, {1}, std::vector<int64_t>{positive}));
    begin += size;
  }
  return {relay::Tuple(parts)};
}

Grads OfStack(const Site& s) {
  const auto* fields = s.arg(0)->type_as<TupleTypeNode>();
  const int axis = PositiveAxis(s.call->attrs_as<StackAttrs>()->axis, s.result_type()->shape.size());
  Array<Expr> parts;
  for (size_t i = 0; i < fields->fields.size(); ++i) {
    const auto begin = static_cast<int64_t>(i);
    Expr part = MakeStridedSlice(s.grad, {begin}, {begin + 1}, {1}, std::vector<int64_t>{axis});
    parts.push_back(MakeSqueeze(part, {axis}));
  }
  return {relay::Tuple(parts)};
}

Grads OfSplit(const Site& s) {
  const auto* types = s.call->type_as<TupleTypeNode>();
  Array<Expr> parts;
  for (size_t i = 0; i < types->fields.size(); ++i) {
    const auto* type = types->fields[i].as<TensorTypeNode>();
    const bool flows = i < s.grads.size() && s.grads[i].defined();
    parts.push_back(flows ? s.grads[i] : MakeZeros(type->shape, type->dtype));
  }
  return {MakeConcatenate(parts, static_cast<int>(s.call->attrs_as<SplitAttrs>()->axis))};
}

/// Zeros, with the gradient where the elements came from.
Grads OfStridedSlice(const Site& s) {
  const auto* attrs = s.call->attrs_as<StridedSliceAttrs>();
  const std::vector<int64_t> from = Dims(s.type(0)), to = Dims(s.result_type());
  std::vector<int64_t> first(from.size(), 0), step(from.size(), 1);
  for (size_t i = 0; i < attrs->begin.size(); ++i) {
    const size_t d =
        attrs->axes ? static_cast<size_t>(PositiveAxis(static_cast<int>((*attrs->axes)[i]), from.size())) : i;
    if (attrs->slice_mode == "end" && i < attrs->strides.size()) step[d] = attrs->strides[i];
    if (step[d] < 1) throw Error("the gradient of strided_slice is implemented for strides of at least 1");
    const int64_t begin = attrs->begin[i] < 0 ? attrs->begin[i] + from[d] : attrs->begin[i];
    first[d] = std::min(std::max<int64_t>(begin, 0), from[d]);
  }
  for (int64_t dim : to) {
    if (dim == 0) return {Expr()};
  }
  std::vector<std::pair<int64_t, int64_t>> borders;
  for (size_t d = 0; d < from.size(); ++d) {
    borders.emplace_back(first[d], from[d] - first[d] - ((to[d] - 1) * step[d] + 1));
  }
  Expr spread = s.grad;
  if (std::any_of(step.begin(), step.end(), [](int64_t n) { return n != 1; })) {
    spread = CallWith<DilateAttrs>("nn.dilate", {spread}, [&](auto& a) { a.strides = step; });
  }
  return {MakePad(spread, borders, Scalar(s, 0))};
}

/// A negative border takes away.
Grads OfPad(const Site& s) {
  const auto* attrs = s.call->attrs_as<PadAttrs>();
  if (attrs->pad_mode != "constant") throw Error("the gradient of nn.pad is implemented for pad_mode constant");
  std::vector<std::pair<int64_t, int64_t>> borders;
  for (const Array<PrimExpr>& border : attrs->pad_width) {
    auto ints = ConstInts(border);
    if (!ints) throw ShapeError("the gradient of nn.pad needs static borders");
    borders.emplace_back(-ints->at(0), -ints->at(1));
  }
  return {MakePad(s.grad, borders, Scalar(s, 0)), Expr()};
}

namespace {

/// Elements that an index names several times get the sum.
Expr ScatterSum(const Expr& like, const Expr& indices, const Expr& grad, int axis) {
  return CallWith<ScatterAttrs>("scatter_add", {ZerosLike(like), indices, grad}, [&](auto& a) {
    a.axis = axis;
    a.reduction = "add";
  });
}

}  // namespace

Grads OfGather(const Site& s) {
  return {ScatterSum(s.arg(0), s.arg(1), s.grad, static_cast<int>(s.call->attrs_as<GatherAttrs>()->axis)), Expr()};
}

/// take(data, indices) along an axis: data (a.., n, b..), indices (i..) -> (a.., i.., b..)
Grads OfTake(const Site& s) {
  const auto* attrs = s.call->attrs_as<TakeAttrs>();
  if (attrs->batch_dims != 0) throw Error("the gradient of take is implemented for batch_dims=0");
  std::vector<int64_t> data = Dims(s.type(0));
  if (!attrs->axis) data = {NumElements(data)};
  const auto axis = attrs->axis ? static_cast<size_t>(PositiveAxis(static_cast<int>(*attrs->axis), data.size())) : 0;
  const int64_t count = NumElements(Dims(s.type(1)));
  std::vector<int64_t> places(data.size(), 1), moved = data;
  places[axis] = moved[axis] = count;
  Expr indices = MakeReshape(s.arg(1), places);
  const DataType dtype = s.type(1)->dtype;
  const int64_t last = data[axis] - 1;
  if (attrs->mode == "wrap") {
    indices = CallOp("floor_mod", {indices, ScalarConstant(dtype, last + 1)});
  } else {
    indices = CallOp("minimum",
                     {CallOp("maximum", {indices, ScalarConstant(dtype, int64_t{0})}), ScalarConstant(dtype, last)});
  }
  Expr grad = MakeReshape(s.grad, moved);
  Expr to_data =
      ScatterSum(MakeReshape(s.arg(0), data), MakeBroadcastTo(indices, IntArray(moved)), grad, static_cast<int>(axis));
  return {MakeReshape(to_data, s.type(0)->shape), Expr()};
}

/// The repetitions as a dimension of their own, which is summed.
Grads OfRepeat(const Site& s) {
  const auto* attrs = s.call->attrs_as<RepeatAttrs>();
  std::vector<int64_t> shape = Dims(s.type(0));
  const int axis = PositiveAxis(static_cast<int>(attrs->axis), shape.size());
  shape.insert(shape.begin() + axis + 1, attrs->repeats);
  return {MakeReduce("sum", MakeReshape(s.grad, shape), std::vector<int64_t>{axis + 1})};
}

Grads OfTile(const Site& s) {
  const std::vector<int64_t> from = Dims(s.type(0)), to = Dims(s.result_type());
  std::vector<int64_t> shape, axes;
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t missing = to.size() - from.size();
    const int64_t dim = i < missing ? 1 : from[i - missing];
    axes.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(dim == 0 ? 1 : to[i] / dim);
    shape.push_back(dim);
  }
  return {MakeReshape(MakeReduce("sum", MakeReshape(s.grad, shape), axes), s.type(0)->shape)};
}

Grads OfFullLike(const Site& s) {
  Grads grads(s.call->args.size());
  if (!grads.empty()) grads.back() = MakeReduce("sum", s.grad, std::nullopt);
  return grads;
}

Grads OfReshapeLike(const Site& s) { return {OfReshape(s)[0], Expr()}; }

}  // namespace treadle::ops::gradient
