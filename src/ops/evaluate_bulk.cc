// SPDX-License-Identifier: Apache-2.0
// Operators that only move or repeat elements, plain arithmetic, casts of integers, matrix products and convolutions,
// on large constants: weights are large.
#include <algorithm>
#include <cstring>

#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/slice.h"
#include "runtime/mapped_memory.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/reduce.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/evaluate.h"
#include "treadle/runtime/scalar.h"

namespace treadle::ops {
namespace {

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
        std::memcpy(out + i * static_cast<int64_t>(bytes), from + i * inner_stride * static_cast<int64_t>(bytes),
                    bytes);
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

/// How far apart rows of the first dimension begin in what StridedCopy reads, where each of them ends before the next
/// begins; else 0.
int64_t RowsApart(const Shape& shape, const Shape& strides) {
  if (shape.empty() || NumElements(shape) == 0) return 0;
  int64_t last = 0;
  for (size_t i = 1; i < shape.size(); ++i) {
    if (strides[i] < 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return strides[0] > last ? strides[0] : 0;
}

/// `first`: the element that the result begins with.
NDArray CopyWithStrides(const NDArray& data, const Shape& shape, const Shape& strides, int64_t first = 0) {
  NDArray out = NDArray::Empty(shape, data.dtype());
  const auto bytes = static_cast<size_t>(runtime::ElementBytes(data.dtype()));
  const char* from = data.Data<char>() + first * static_cast<int64_t>(bytes);
  const size_t row = static_cast<size_t>(RowsApart(shape, strides)) * bytes;
  constexpr size_t kStep = size_t{32} << 20;
  if (row == 0 || row * static_cast<size_t>(shape[0]) <= kStep) {
    StridedCopy(from, out.Data<char>(), shape, strides, bytes);
    return out;
  }
  // Pages of a large operand that is mapped from a file are given back while it is read.
  const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kStep / row));
  const size_t out_row = static_cast<size_t>(out.nbytes() / shape[0]);
  Shape part = shape;
  for (int64_t at = 0; at < shape[0]; at += step) {
    part[0] = std::min(step, shape[0] - at);
    const char* begin = from + static_cast<size_t>(at) * row;
    StridedCopy(begin, out.Data<char>() + static_cast<size_t>(at) * out_row, part, strides, bytes);
    runtime::ReleasePages(begin, static_cast<size_t>(part[0]) * row);
  }
  return out;
}

/// Layouts like OIHW -> OIHW16i16o of data in a layout without split dimensions, extents dividing.
std::optional<NDArray> TransformLayout(const LayoutTransformAttrs* attrs, const NDArray& data, const Shape& out_shape) {
  const Layout from(attrs->src_layout), to(attrs->dst_layout);
  if (!from.IsPlain() || from.ndim() != data.shape().size() || to.ndim() != out_shape.size()) return std::nullopt;
  // A padded transform has more elements than its input.
  if (NumElements(out_shape) != NumElements(data.shape())) return std::nullopt;
  const Shape in_strides = RowMajorStrides(data.shape());
  Shape strides;
  for (size_t i = 0; i < to.ndim(); ++i) {
    const int at = from.IndexOf(to[i].primal());
    if (at < 0) return std::nullopt;
    strides.push_back(in_strides[static_cast<size_t>(at)] * (to[i].is_inner() ? 1 : to.BlockOf(to[i].name)));
  }
  return CopyWithStrides(data, out_shape, strides);
}

std::optional<NDArray> Transpose(const Attrs& attributes, const NDArray& data, const Shape& out_shape) {
  const auto* attrs = attributes.as<TransposeAttrs>();
  Shape in_strides = RowMajorStrides(data.shape()), strides;
  size_t rank = data.shape().size();
  if (!attrs->axes) {
    strides.assign(in_strides.rbegin(), in_strides.rend());
  } else {
    for (int64_t axis : *attrs->axes)
      strides.push_back(in_strides.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis)));
  }
  return CopyWithStrides(data, out_shape, strides);
}

std::optional<NDArray> Slice(const Attrs& attributes, const NDArray& data, const Shape& out_shape) {
  if (data.size() == 0 || NumElements(out_shape) == 0) return NDArray::Empty(out_shape, data.dtype());
  Array<PrimExpr> shape;
  for (int64_t dim : data.shape()) shape.push_back(PrimExpr(dim));
  const SliceBounds bounds = ResolveSlice(attributes.as<StridedSliceAttrs>(), shape);
  Shape strides = RowMajorStrides(data.shape());
  int64_t first = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    first += *AsConstInt(bounds.begin[i]) * strides[i];
    strides[i] *= bounds.stride[i];
  }
  return CopyWithStrides(data, out_shape, strides, first);
}

std::optional<NDArray> Concatenate(const Attrs& attributes, const std::vector<NDArray>& parts, const Shape& shape,
                                   DataType dtype) {
  int axis = attributes.as<ConcatenateAttrs>()->axis;
  if (axis < 0) axis += static_cast<int>(shape.size());
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= shape[static_cast<size_t>(i)];
  NDArray out = NDArray::Empty(shape, dtype);
  if (out.size() == 0) return out;
  const auto bytes = static_cast<size_t>(runtime::ElementBytes(dtype));
  const size_t row_bytes = static_cast<size_t>(out.size() / rows) * bytes;
  size_t at = 0;
  for (const NDArray& part : parts) {
    const size_t part_bytes = static_cast<size_t>(part.size() / rows) * bytes;
    for (size_t row = 0; part_bytes > 0 && row < static_cast<size_t>(rows); ++row) {
      std::memcpy(out.Data<char>() + row * row_bytes + at, part.Data<char>() + row * part_bytes, part_bytes);
    }
    at += part_bytes;
  }
  return out;
}

/// NumPy broadcasting of two tensors of T, row by row.
template <typename T, typename F>
NDArray Broadcast(const NDArray& a, const NDArray& b, const Shape& shape, F f) {
  NDArray out = NDArray::Empty(shape, a.dtype());
  if (NumElements(shape) == 0) return out;
  const size_t rank = shape.size();
  auto strides_of = [&](const NDArray& x) {
    Shape own = RowMajorStrides(x.shape()), strides(rank, 0);
    for (size_t i = 0; i < own.size(); ++i) strides[rank - own.size() + i] = x.shape()[i] == 1 ? 0 : own[i];
    return strides;
  };
  const Shape s = strides_of(a), t = strides_of(b);
  // The trailing dimensions along which each operand either runs on or stands still form one row.
  size_t outer = rank;
  int64_t row = 1;
  bool runs_a = false, runs_b = false;
  while (outer > 0) {
    const bool wide = shape[outer - 1] > 1, next_a = s[outer - 1] != 0, next_b = t[outer - 1] != 0;
    if (wide && row > 1 && (next_a != runs_a || next_b != runs_b)) break;
    if (wide) {
      runs_a = next_a;
      runs_b = next_b;
    }
    row *= shape[--outer];
  }
  Shape index(outer, 0);
  int64_t x = 0, y = 0;
  T* z = out.Data<T>();
  while (true) {
    const T* u = a.Data<T>() + x;
    const T* v = b.Data<T>() + y;
    if (runs_a && runs_b) {
      for (int64_t i = 0; i < row; ++i) z[i] = f(u[i], v[i]);
    } else if (runs_a) {
      for (int64_t i = 0; i < row; ++i) z[i] = f(u[i], *v);
    } else if (runs_b) {
      for (int64_t i = 0; i < row; ++i) z[i] = f(*u, v[i]);
    } else {
      std::fill(z, z + row, f(*u, *v));
    }
    z += row;
    size_t axis = outer;
    while (axis-- > 0) {
      x += s[axis];
      y += t[axis];
      if (++index[axis] < shape[axis]) break;
      x -= s[axis] * shape[axis];
      y -= t[axis] * shape[axis];
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return out;
  }
}

/// Sums, differences and products of float32, or of int32, which wrap; quotients of float32.
std::optional<NDArray> Arithmetic(const std::string& name, const NDArray& a, const NDArray& b, const Shape& shape) {
  if (a.dtype() != b.dtype()) return std::nullopt;
  if (a.dtype() == DataType::Float(32)) {
    if (name == "add") return Broadcast<float>(a, b, shape, [](float x, float y) { return x + y; });
    if (name == "subtract") return Broadcast<float>(a, b, shape, [](float x, float y) { return x - y; });
    if (name == "multiply") return Broadcast<float>(a, b, shape, [](float x, float y) { return x * y; });
    if (name == "divide") return Broadcast<float>(a, b, shape, [](float x, float y) { return x / y; });
  }
  if (a.dtype() == DataType::Int(32)) {
    if (name == "add") return Broadcast<uint32_t>(a, b, shape, [](uint32_t x, uint32_t y) { return x + y; });
    if (name == "subtract") return Broadcast<uint32_t>(a, b, shape, [](uint32_t x, uint32_t y) { return x - y; });
    if (name == "multiply") return Broadcast<uint32_t>(a, b, shape, [](uint32_t x, uint32_t y) { return x * y; });
  }
  return std::nullopt;
}

template <typename From, typename To>
NDArray CastElements(const NDArray& data, DataType dtype) {
  NDArray out = NDArray::Empty(data.shape(), dtype);
  std::transform(data.Data<From>(), data.Data<From>() + data.size(), out.Data<To>(),
                 [](From x) { return static_cast<To>(x); });
  return out;
}

template <typename From>
std::optional<NDArray> CastFrom(const NDArray& data, DataType dtype) {
  if (dtype == DataType::Int(8)) return CastElements<From, int8_t>(data, dtype);
  if (dtype == DataType::UInt(8)) return CastElements<From, uint8_t>(data, dtype);
  if (dtype == DataType::Int(16)) return CastElements<From, int16_t>(data, dtype);
  if (dtype == DataType::Int(32)) return CastElements<From, int32_t>(data, dtype);
  if (dtype == DataType::Float(32)) return CastElements<From, float>(data, dtype);
  return std::nullopt;
}

/// Of the integers that quantised models hold. Numbers that don't fit wrap.
std::optional<NDArray> Cast(const NDArray& data, DataType dtype) {
  if (data.dtype() == DataType::Int(8)) return CastFrom<int8_t>(data, dtype);
  if (data.dtype() == DataType::UInt(8)) return CastFrom<uint8_t>(data, dtype);
  if (data.dtype() == DataType::Int(16)) return CastFrom<int16_t>(data, dtype);
  if (data.dtype() == DataType::Int(32)) return CastFrom<int32_t>(data, dtype);
  return std::nullopt;
}

/// Padding behind the data, where the value is known: one copy per row.
std::optional<NDArray> Pad(const Attrs& attributes, const NDArray& data, const NDArray& value, const Shape& shape) {
  const auto* attrs = attributes.as<PadAttrs>();
  const size_t rank = shape.size(), bytes = static_cast<size_t>(runtime::ElementBytes(data.dtype()));
  if (attrs->pad_mode != "constant" || attrs->pad_width.size() != rank || value.size() != 1 ||
      value.dtype() != data.dtype() || rank == 0) {
    return std::nullopt;
  }
  const Shape& from = data.shape();
  Shape before(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    const auto* width = attrs->pad_width[i][0].as<IntImmNode>();
    if (width == nullptr || width->value < 0 || shape[i] < from[i] + width->value) return std::nullopt;
    before[i] = width->value;
  }
  NDArray out = CopyWithStrides(value, shape, Shape(rank, 0));
  if (data.size() == 0) return out;
  const Shape strides = RowMajorStrides(shape);
  const size_t row = static_cast<size_t>(from[rank - 1]) * bytes;
  const char* source = data.Data<char>();
  Shape index(rank, 0);
  while (true) {
    int64_t offset = before[rank - 1];
    for (size_t i = 0; i + 1 < rank; ++i) offset += (index[i] + before[i]) * strides[i];
    std::memcpy(out.Data<char>() + static_cast<size_t>(offset) * bytes, source, row);
    source += row;
    size_t axis = rank - 1;
    while (axis-- > 0) {
      if (++index[axis] < from[axis]) break;
      index[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return out;
  }
}

/// The elements of the last two dimensions of `x`, swapped where so asked, as rows.
NDArray Rows(const NDArray& x, bool transpose) {
  if (!transpose) return x;
  Shape shape = x.shape(), strides = RowMajorStrides(shape);
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  std::swap(strides[shape.size() - 1], strides[shape.size() - 2]);
  return CopyWithStrides(x, shape, strides);
}

constexpr int64_t kTileRows = 4, kTileColumns = 16;

/// Elements [0, rows) x [0, columns) of z = u v, of which u has rows of `depth` elements and v and z have rows of `n`.
/// Those of a whole tile are summed in registers.
void ProductTile(const float* u, const float* v, float* z, int64_t rows, int64_t columns, int64_t depth, int64_t n) {
  float sums[kTileRows][kTileColumns] = {};
  if (rows == kTileRows && columns == kTileColumns) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < kTileRows; ++i) {
        for (int64_t j = 0; j < kTileColumns; ++j) sums[i][j] += u[i * depth + k] * v[k * n + j];
      }
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) sums[i][j] += u[i * depth + k] * v[k * n + j];
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) std::copy(sums[i], sums[i] + columns, z + i * n);
}

bool IsFactorInBulk(DataType dtype) {
  return dtype == DataType::Float(32) || dtype.is_float16() || dtype.is_bfloat16();
}

/// Elements of float32, float16 or bfloat16 as float32.
NDArray Widened(const NDArray& x) {
  if (x.dtype() == DataType::Float(32)) return x;
  return runtime::FromDoubles(runtime::ToDoubles(x), x.shape(), DataType::Float(32));
}

/// Matrix products in float32 over broadcast batches: sums in the order of k, each product rounded, as the operator's
/// own loops give.
std::optional<NDArray> Product(const NDArray& x, const NDArray& y, bool transpose_x, bool transpose_y,
                               const Shape& shape) {
  const size_t rank = shape.size();
  if (!IsFactorInBulk(x.dtype()) || !IsFactorInBulk(y.dtype())) return std::nullopt;
  if (rank < 2 || x.shape().size() < 2 || y.shape().size() < 2) return std::nullopt;
  const NDArray a = Rows(Widened(x), transpose_x), b = Rows(Widened(y), transpose_y);
  const int64_t m = shape[rank - 2], n = shape[rank - 1], depth = a.shape().back();
  NDArray out = NDArray::Empty(shape, DataType::Float(32));
  if (out.size() == 0) return out;
  /// The first element of an operand's matrix of a batch.
  const auto matrix_of = [&](const NDArray& of, int64_t batch) {
    const Shape& own = of.shape();
    int64_t at = 0, stride = of.shape()[own.size() - 1] * of.shape()[own.size() - 2];
    for (size_t d = rank - 2; d-- > 0; batch /= shape[d]) {
      if (d + own.size() < rank) continue;
      const int64_t dim = own[d + own.size() - rank];
      if (dim != 1) at += batch % shape[d] * stride;
      stride *= dim;
    }
    return of.Data<float>() + at;
  };
  for (int64_t batch = 0; batch < out.size() / (m * n); ++batch) {
    const float *u = matrix_of(a, batch), *v = matrix_of(b, batch);
    float* z = out.Data<float>() + batch * m * n;
    for (int64_t j = 0; j < n; j += kTileColumns) {
      for (int64_t i = 0; i < m; i += kTileRows) {
        ProductTile(u + i * depth, v + j, z + i * n + j, std::min(kTileRows, m - i), std::min(kTileColumns, n - j),
                    depth, n);
      }
    }
  }
  return out;
}

/// Adds weight * x[at * stride + first], where that is within `size` elements, to the `count` sums z[at].
void AddScaled(float weight, const float* x, int64_t size, int64_t first, int64_t stride, float* z, int64_t count) {
  const int64_t begin = first >= 0 ? 0 : CeilDiv(-first, stride);
  const int64_t end = first >= size ? 0 : std::min(count, (size - 1 - first) / stride + 1);
  for (int64_t at = begin; at < end; ++at) z[at] += weight * x[first + at * stride];
}

/// Convolutions of float32 in NCHW, summed in the order of the operator's own loops.
std::optional<NDArray> Convolution(const Conv2DAttrs* attrs, const NDArray& data, const NDArray& weight,
                                   const Shape& shape) {
  if (attrs->data_layout != "NCHW" || attrs->kernel_layout != "OIHW" || !attrs->out_layout.empty() ||
      data.dtype() != DataType::Float(32) || weight.dtype() != DataType::Float(32)) {
    return std::nullopt;
  }
  const int64_t channels = data.shape()[1], height = data.shape()[2], width = data.shape()[3];
  const int64_t oc = shape[1], oh = shape[2], ow = shape[3], per_group = oc / attrs->groups;
  const int64_t ic = weight.shape()[1], kh = weight.shape()[2], kw = weight.shape()[3];
  const std::vector<int64_t> pads = NormalizePadding(attrs->padding, 2);
  NDArray out = NDArray::Empty(shape, DataType::Float(32));
  std::fill(out.Data<float>(), out.Data<float>() + out.size(), 0.0F);
  float* z = out.Data<float>();
  for (int64_t row = 0; row < shape[0] * oc * oh; ++row, z += ow) {
    const int64_t y = row % oh, o = row / oh % oc, n = row / oh / oc;
    for (int64_t tap = 0; tap < ic * kh * kw; ++tap) {
      const int64_t j = tap % kw, i = tap / kw % kh, channel = o / per_group * ic + tap / kw / kh;
      const int64_t at = y * attrs->strides[0] + i * attrs->dilation[0] - pads[0];
      if (at < 0 || at >= height) continue;
      AddScaled(weight.Data<float>()[o * ic * kh * kw + tap],
                data.Data<float>() + ((n * channels + channel) * height + at) * width, width,
                j * attrs->dilation[1] - pads[1], attrs->strides[1], z, ow);
    }
  }
  return out;
}

/// The sum of elements T in numbers of type Sum, or their mean: of the weights of a product of bytes, in unsigned
/// integers that wrap, and of weights that are standardised, in float64.
template <typename T, typename Sum>
NDArray SumElements(const ReduceAttrs* attrs, const NDArray& data, const Shape& shape, bool mean) {
  const Shape& from = data.shape();
  const size_t rank = from.size();
  std::vector<bool> reduced(rank, !attrs->axis.has_value() || attrs->exclude);
  if (attrs->axis.has_value()) {
    for (int axis : NormalizeAxes(*attrs->axis, rank)) reduced[static_cast<size_t>(axis)] = !attrs->exclude;
  }
  Shape strides(rank, 0);
  int64_t kept = 1;
  for (size_t i = rank; i-- > 0;) {
    if (reduced[i]) continue;
    strides[i] = kept;
    kept *= from[i];
  }
  NDArray out = NDArray::Empty(shape, data.dtype());
  std::vector<Sum> sums(static_cast<size_t>(kept), Sum{0});
  const auto* next = data.Data<T>();
  const int64_t row = rank == 0 ? 1 : from[rank - 1], rows = row == 0 ? 0 : NumElements(from) / row;
  const int64_t step = rank == 0 ? 0 : strides[rank - 1];
  for (int64_t r = 0; r < rows; ++r) {
    int64_t at = 0, rest = r;
    for (size_t i = rank < 2 ? 0 : rank - 1; i-- > 0; rest /= from[i]) at += rest % from[i] * strides[i];
    Sum* to = sums.data() + at;
    if (step == 0) {
      for (int64_t i = 0; i < row; ++i) *to += static_cast<Sum>(next[i]);
    } else {
      for (int64_t i = 0; i < row; ++i) to[i] += static_cast<Sum>(next[i]);
    }
    next += row;
  }
  const int64_t reduced_elements = mean ? NumElements(from) / std::max<int64_t>(1, kept) : 1;
  const auto count = static_cast<Sum>(reduced_elements);
  std::transform(sums.begin(), sums.end(), out.Data<T>(), [&](Sum sum) { return static_cast<T>(sum / count); });
  return out;
}

}  // namespace

bool IsReducedInBulk(const std::string& op, DataType dtype) {
  return (op == "sum" && dtype == DataType::Int(32)) || ((op == "sum" || op == "mean") && dtype == DataType::Float(32));
}

bool IsProductInBulk(const std::string& op, DataType factor, DataType dtype) {
  const bool product = op == "nn.dense" || op == "nn.matmul" || op == "nn.batch_matmul";
  return product && IsFactorInBulk(factor) && dtype == DataType::Float(32);
}

std::optional<NDArray> EvaluateInBulk(const Op& op, const std::vector<NDArray>& args, const Attrs& attrs,
                                      const TensorTypeNode* type) {
  for (const NDArray& arg : args) {
    if (!arg.IsCompact() || arg.device().device_type != runtime::Cpu().device_type) return std::nullopt;
  }
  const std::string& name = op->name;
  const Shape shape = StaticShape(type, name);
  const DataType dtype = type->dtype;
  if (args.size() == 1 && args[0].dtype() == dtype) {
    if (op.GetAttr(kReshapeOp, false)) return args[0].CreateView(shape, dtype);
    if (name == "layout_transform") return TransformLayout(attrs.as<LayoutTransformAttrs>(), args[0], shape);
    if (name == "transpose") return Transpose(attrs, args[0], shape);
    if (name == "strided_slice") return Slice(attrs, args[0], shape);
    if (IsReducedInBulk(name, dtype)) {
      const auto* reduce = attrs.as<ReduceAttrs>();
      return dtype == DataType::Int(32) ? SumElements<uint32_t, uint32_t>(reduce, args[0], shape, false)
                                        : SumElements<float, double>(reduce, args[0], shape, name == "mean");
    }
    if (name == "full") return CopyWithStrides(args[0], shape, Shape(shape.size(), 0));
  }
  if (name == "concatenate" && !shape.empty()) return Concatenate(attrs, args, shape, dtype);
  if (name == "nn.pad" && args.size() == 2 && args[0].dtype() == dtype) return Pad(attrs, args[0], args[1], shape);
  if (name == "cast" && args.size() == 1) return Cast(args[0], dtype);
  if (args.size() == 2 && args[0].dtype() == dtype) {
    if (auto result = Arithmetic(name, args[0], args[1], shape)) return result;
  }
  if (args.size() == 2 && dtype == DataType::Float(32)) {
    if (name == "nn.conv2d" && shape.size() == 4) return Convolution(attrs.as<Conv2DAttrs>(), args[0], args[1], shape);
    if (name == "nn.dense") return Product(args[0], args[1], false, true, shape);
    if (const auto* product = attrs.as<MatmulAttrs>(); product != nullptr && name == "nn.matmul") {
      return Product(args[0], args[1], product->transpose_a, product->transpose_b, shape);
    }
    if (const auto* product = attrs.as<BatchMatmulAttrs>(); product != nullptr && name == "nn.batch_matmul") {
      return Product(args[0], args[1], product->transpose_a, product->transpose_b, shape);
    }
  }
  return std::nullopt;
}

}  // namespace treadle::ops
