// SPDX-License-Identifier: Apache-2.0
#include "treadle/ops/make.h"

#include <bit>
#include <cstring>

#include "treadle/ops/compute.h"
#include "treadle/runtime/scalar.h"

namespace treadle::ops {

using relay::Constant;
using relay::Expr;

Expr CallOp(const std::string& name, Array<Expr> args, Attrs attrs, Span span) {
  RegisterAllOps();
  const Op& op = Op::Get(name);
  if (!attrs.defined() && op->attrs_type != nullptr) {
    TREADLE_ICHECK(op->attrs_type->create != nullptr) << "attributes of " << name << " have no defaults";
    attrs = Attrs(ObjectPtr<Object>(op->attrs_type->create()));
  }
  return relay::Call(op, std::move(args), std::move(attrs), {}, std::move(span));
}

Array<PrimExpr> IntArray(const std::vector<int64_t>& values) {
  Array<PrimExpr> result;
  for (int64_t value : values) result.push_back(PrimExpr(value));
  return result;
}

Array<Array<PrimExpr>> IntPairs(const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  Array<Array<PrimExpr>> result;
  for (auto [first, second] : pairs) result.push_back(IntArray({first, second}));
  return result;
}

std::optional<std::vector<int64_t>> ConstInts(const Array<PrimExpr>& values) {
  std::vector<int64_t> result;
  for (const PrimExpr& value : values) {
    const int64_t* constant = AsConstInt(value);
    if (constant == nullptr) return std::nullopt;
    result.push_back(*constant);
  }
  return result;
}

namespace {

/// A rank-0 tensor for one number.
runtime::NDArray EmptyScalar(DataType dtype) {
  if (!runtime::IsNumber(dtype)) throw DTypeError(StrCat("can't make a scalar constant of type ", dtype));
  return runtime::NDArray::Empty({}, dtype);
}

}  // namespace

Constant ScalarConstant(DataType dtype, double value) {
  runtime::NDArray scalar = EmptyScalar(dtype);
  runtime::StoreDouble(dtype, scalar.data_ptr(), 0, value);
  return Constant(scalar);
}
Constant ScalarConstant(DataType dtype, int64_t value) {
  runtime::NDArray scalar = EmptyScalar(dtype);
  runtime::StoreInt64(dtype, scalar.data_ptr(), 0, value);
  return Constant(scalar);
}

Expr MakeReshape(Expr data, const Array<PrimExpr>& newshape) {
  return CallWith<ReshapeAttrs>("reshape", {data}, [&](auto& a) { a.newshape = newshape; });
}
Expr MakeReshape(Expr data, const std::vector<int64_t>& newshape) { return MakeReshape(data, IntArray(newshape)); }
Expr MakeTranspose(Expr data, std::vector<int64_t> axes) {
  return CallWith<TransposeAttrs>("transpose", {data}, [&](auto& a) { a.axes = std::move(axes); });
}
Expr MakeSqueeze(Expr data, std::vector<int64_t> axis) {
  return CallWith<SqueezeAttrs>("squeeze", {data}, [&](auto& a) { a.axis = std::move(axis); });
}
Expr MakeExpandDims(Expr data, int axis, int num_newaxis) {
  return CallWith<ExpandDimsAttrs>("expand_dims", {data}, [&](auto& a) {
    a.axis = axis;
    a.num_newaxis = num_newaxis;
  });
}
Expr MakeConcatenate(Array<Expr> parts, int axis) {
  return CallWith<ConcatenateAttrs>("concatenate", {relay::Tuple(std::move(parts))}, [&](auto& a) { a.axis = axis; });
}
Expr MakeStack(Array<Expr> parts, int axis) {
  return CallWith<StackAttrs>("stack", {relay::Tuple(std::move(parts))}, [&](auto& a) { a.axis = axis; });
}
Expr MakeSplit(Expr data, int64_t sections, int axis) {
  return CallWith<SplitAttrs>("split", {data}, [&](auto& a) {
    a.indices_or_sections = PrimExpr(sections);
    a.axis = axis;
  });
}
Expr MakeSplit(Expr data, const std::vector<int64_t>& indices, int axis) {
  return CallWith<SplitAttrs>("split", {data}, [&](auto& a) {
    a.indices_or_sections = IntArray(indices);
    a.axis = axis;
  });
}
Expr MakeStridedSlice(Expr data, std::vector<int64_t> begin, std::vector<int64_t> end, std::vector<int64_t> strides,
                      std::optional<std::vector<int64_t>> axes) {
  return CallWith<StridedSliceAttrs>("strided_slice", {data}, [&](auto& a) {
    a.begin = std::move(begin);
    a.end = std::move(end);
    a.strides = std::move(strides);
    a.axes = std::move(axes);
  });
}
Expr MakeTake(Expr data, Expr indices, std::optional<int64_t> axis, std::string mode) {
  return CallWith<TakeAttrs>("take", {data, indices}, [&](auto& a) {
    a.axis = axis;
    a.mode = std::move(mode);
  });
}
Expr MakeCast(Expr data, DataType dtype) {
  return CallWith<CastAttrs>("cast", {data}, [&](auto& a) { a.dtype = dtype; });
}
Expr MakeClip(Expr data, double a_min, double a_max) {
  return CallWith<ClipAttrs>("clip", {data}, [&](auto& a) {
    a.a_min = a_min;
    a.a_max = a_max;
  });
}

namespace {
Attrs InitAttrs(const Array<PrimExpr>& shape, DataType dtype) {
  return MakeAttrs<InitOpAttrs>([&](auto& a) {
    a.shape = shape;
    a.dtype = dtype;
  });
}
}  // namespace

Expr MakeBroadcastTo(Expr data, const Array<PrimExpr>& shape) {
  return CallOp("broadcast_to", {data}, InitAttrs(shape, DataType()));
}
Expr MakeFull(Expr fill_value, const Array<PrimExpr>& shape, DataType dtype) {
  return CallOp("full", {fill_value}, InitAttrs(shape, dtype));
}
Expr MakeZeros(const Array<PrimExpr>& shape, DataType dtype) { return CallOp("zeros", {}, InitAttrs(shape, dtype)); }
Expr MakeOnes(const Array<PrimExpr>& shape, DataType dtype) { return CallOp("ones", {}, InitAttrs(shape, dtype)); }

Expr MakeReduce(const std::string& name, Expr data, std::optional<std::vector<int64_t>> axis, bool keepdims,
                bool exclude) {
  RegisterAllOps();
  const Op& op = Op::Get(name);
  Attrs attrs(ObjectPtr<Object>(op->attrs_type->create()));
  auto* reduce = const_cast<ReduceAttrs*>(attrs.as<ReduceAttrs>());
  TREADLE_ICHECK(reduce != nullptr) << name << " isn't a reduction";
  reduce->axis = std::move(axis);
  reduce->keepdims = keepdims;
  reduce->exclude = exclude;
  return relay::Call(op, {data}, attrs);
}
Expr MakePad(Expr data, const std::vector<std::pair<int64_t, int64_t>>& pad_width, Expr pad_value, std::string mode) {
  return CallWith<PadAttrs>("nn.pad", {data, pad_value}, [&](auto& a) {
    a.pad_width = IntPairs(pad_width);
    a.pad_mode = std::move(mode);
  });
}
Expr MakeCrop(Expr data, size_t rank, size_t axis, std::pair<int64_t, int64_t> cut, Span span) {
  std::vector<std::pair<int64_t, int64_t>> widths(rank);
  widths[axis] = {-cut.first, -cut.second};
  const Attrs attrs = MakeAttrs<PadAttrs>([&](auto& a) { a.pad_width = IntPairs(widths); });
  return CallOp("nn.pad", {data, ScalarConstant(DataType::Float(32), 0.0)}, attrs, std::move(span));
}
Expr MakeBiasAdd(Expr data, Expr bias, int axis) {
  return CallWith<BiasAddAttrs>("nn.bias_add", {data, bias}, [&](auto& a) { a.axis = axis; });
}
Expr MakeDense(Expr data, Expr weight, std::optional<int64_t> units) {
  return CallWith<DenseAttrs>("nn.dense", {data, weight}, [&](auto& a) { a.units = units; });
}

}  // namespace treadle::ops
