// SPDX-License-Identifier: Apache-2.0
#include "driver/constant_evaluator.h"

#include <cctype>
#include <cstring>
#include <functional>
#include <map>

#include "driver/op_evaluator.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::Constant;
using relay::ConstantNode;
using relay::Expr;
using runtime::NDArray;
using Shape = std::vector<int64_t>;

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// out[i0, i1, ..] = in[offset + sum(i * stride)], element size `bytes`.
void StridedCopy(const char* in, char* out, const Shape& shape, const Shape& strides, size_t bytes) {
  if (NumElements(shape) == 0) return;
  if (shape.empty()) {
    std::memcpy(out, in, bytes);
    return;
  }
  size_t rank = shape.size();
  Shape index(rank, 0);
  const int64_t inner = shape[rank - 1], inner_stride = strides[rank - 1];
  int64_t offset = 0;
  while (true) {
    const char* from = in + offset * static_cast<int64_t>(bytes);
    if (inner_stride == 1) {
      std::memcpy(out, from, static_cast<size_t>(inner) * bytes);
    } else if (bytes == 4) {
      for (int64_t i = 0; i < inner; ++i) std::memcpy(out + i * 4, from + i * inner_stride * 4, 4);
    } else {
      for (int64_t i = 0; i < inner; ++i) {
        std::memcpy(out + i * static_cast<int64_t>(bytes), from + i * inner_stride * static_cast<int64_t>(bytes), bytes);
      }
    }
    out += inner * static_cast<int64_t>(bytes);
    size_t axis = rank - 1;
    while (axis-- > 0) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

NDArray CopyWithStrides(const NDArray& data, const Shape& shape, const Shape& strides) {
  NDArray out = NDArray::Empty(shape, data.dtype());
  StridedCopy(data.Data<char>(), out.Data<char>(), shape, strides,
              static_cast<size_t>(runtime::ElementBytes(data.dtype())));
  return out;
}

/// Layouts like OIHW -> OIHW16i16o of data in a layout without split dimensions, extents dividing.
std::optional<NDArray> TransformLayout(const CallNode* call, const NDArray& data, const Shape& out_shape) {
  const auto* attrs = call->attrs_as<ops::LayoutTransformAttrs>();
  if (attrs->src_layout.size() != data.shape().size()) return std::nullopt;
  std::map<char, int64_t> stride;
  Shape in_strides = RowMajorStrides(data.shape());
  for (size_t i = 0; i < attrs->src_layout.size(); ++i) {
    if (!std::isupper(static_cast<unsigned char>(attrs->src_layout[i]))) return std::nullopt;
    stride[attrs->src_layout[i]] = in_strides[i];
  }
  std::map<char, int64_t> factor;
  std::vector<char> axes;
  int64_t number = 0;
  for (char c : attrs->dst_layout) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      number = number * 10 + (c - '0');
      continue;
    }
    axes.push_back(c);
    if (std::islower(static_cast<unsigned char>(c))) factor[static_cast<char>(std::toupper(c))] = number;
    number = 0;
  }
  if (axes.size() != out_shape.size()) return std::nullopt;
  Shape strides;
  for (char c : axes) {
    char whole = static_cast<char>(std::toupper(c));
    if (stride.count(whole) == 0) return std::nullopt;
    strides.push_back(stride[whole] * (c == whole && factor.count(whole) ? factor[whole] : 1));
  }
  // A padded transform has more elements than its input.
  if (NumElements(out_shape) != NumElements(data.shape())) return std::nullopt;
  return CopyWithStrides(data, out_shape, strides);
}

std::optional<NDArray> Transpose(const CallNode* call, const NDArray& data, const Shape& out_shape) {
  const auto* attrs = call->attrs_as<ops::TransposeAttrs>();
  Shape in_strides = RowMajorStrides(data.shape()), strides;
  size_t rank = data.shape().size();
  if (!attrs->axes) {
    strides.assign(in_strides.rbegin(), in_strides.rend());
  } else {
    for (int64_t axis : *attrs->axes) strides.push_back(in_strides.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)));
  }
  return CopyWithStrides(data, out_shape, strides);
}

/// NumPy broadcasting of two float32 tensors.
std::optional<NDArray> Broadcast(const NDArray& a, const NDArray& b, const Shape& shape, float (*f)(float, float)) {
  if (a.dtype() != DataType::Float(32) || b.dtype() != DataType::Float(32)) return std::nullopt;
  auto expand = [&](const NDArray& x) {
    Shape own = RowMajorStrides(x.shape()), strides(shape.size(), 0);
    size_t missing = shape.size() - x.shape().size();
    for (size_t i = 0; i < own.size(); ++i) strides[missing + i] = x.shape()[i] == 1 ? 0 : own[i];
    return CopyWithStrides(x, shape, strides);
  };
  NDArray left = expand(a), right = expand(b), out = NDArray::Empty(shape, DataType::Float(32));
  const float* x = left.Data<float>();
  const float* y = right.Data<float>();
  float* z = out.Data<float>();
  int64_t count = NumElements(shape);
  for (int64_t i = 0; i < count; ++i) z[i] = f(x[i], y[i]);
  return out;
}

/// Results for which no kernel is needed.
std::optional<NDArray> EvaluateDirectly(const CallNode* call, const std::vector<NDArray>& args, const Shape& shape,
                                        DataType dtype) {
  const std::string& name = call->op.as<OpNode>()->name;
  for (const NDArray& arg : args) {
    if (!arg.IsCompact()) return std::nullopt;
  }
  if (args.size() == 1 && args[0].dtype() == dtype) {
    if (Downcast<Op>(call->op).GetAttr(kReshapeOp, false)) return args[0].CreateView(shape, dtype);
    if (name == "layout_transform") return TransformLayout(call, args[0], shape);
    if (name == "transpose") return Transpose(call, args[0], shape);
    if (name == "full") return CopyWithStrides(args[0], shape, Shape(shape.size(), 0));
  }
  if (args.size() == 2 && dtype == DataType::Float(32)) {
    if (name == "add") return Broadcast(args[0], args[1], shape, [](float x, float y) { return x + y; });
    if (name == "subtract") return Broadcast(args[0], args[1], shape, [](float x, float y) { return x - y; });
    if (name == "multiply") return Broadcast(args[0], args[1], shape, [](float x, float y) { return x * y; });
    if (name == "divide") return Broadcast(args[0], args[1], shape, [](float x, float y) { return x / y; });
  }
  return std::nullopt;
}

}  // namespace

Expr EvaluateConstant(const Expr& expr) {
  const auto* call = expr.as<CallNode>();
  if (call == nullptr || call->op.as<OpNode>() == nullptr) return Expr();
  Op op = Downcast<Op>(call->op);
  if (op.GetAttr(kDataDependentShape, false)) return Expr();
  Operands operands;
  std::vector<NDArray>& args = operands.tensors;
  for (const Expr& arg : call->args) {
    if (const auto* tuple = arg.as<relay::TupleNode>()) {
      operands.fields.push_back(static_cast<int>(tuple->fields.size()));
      for (const Expr& field : tuple->fields) {
        if (field.as<ConstantNode>() == nullptr) return Expr();
        args.push_back(field.as<ConstantNode>()->data);
      }
    } else if (const auto* constant = arg.as<ConstantNode>()) {
      operands.fields.push_back(-1);
      args.push_back(constant->data);
    } else {
      return Expr();
    }
  }
  std::vector<const TensorTypeNode*> types;
  if (const auto* tuple = call->type_as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) types.push_back(field.as<TensorTypeNode>());
  } else {
    types.push_back(call->type_as<TensorTypeNode>());
  }
  for (const TensorTypeNode* type : types) {
    if (type == nullptr || !IsStatic(type)) return Expr();
    if (runtime::TensorBytes(StaticShape(type, op->name), type->dtype) > kMaxFoldedBytes) return Expr();
  }
  if (types.size() == 1) {
    auto direct = EvaluateDirectly(call, args, StaticShape(types[0], op->name), types[0]->dtype);
    if (direct) return Constant(*direct, call->span);
  }
  if (!HasComputeRule(op)) return Expr();
  OpResults results = EvaluateOp(op, call->attrs, operands);
  Array<Expr> fields;
  for (const NDArray& tensor : results.tensors) fields.push_back(Constant(tensor, call->span));
  return results.is_tuple ? Expr(relay::Tuple(fields)) : fields[0];
}

}  // namespace treadle::driver
