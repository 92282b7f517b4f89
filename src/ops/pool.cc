// SPDX-License-Identifier: Apache-2.0
// Pooling. Semantics: ONNX MaxPool-22, AveragePool-22, GlobalMaxPool-1, GlobalAveragePool-1.
#include "treadle/ops/attrs/pool.h"
#include "ops/conv.h"
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/layout_rules.h"
#include "ops/long_sum.h"
#include "ops/te_util.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/relay/data_reads.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(PoolAttrs);
TREADLE_DEFINE_NODE(MaxPool1DAttrs);
TREADLE_DEFINE_NODE(MaxPool2DAttrs);
TREADLE_DEFINE_NODE(MaxPool3DAttrs);
TREADLE_DEFINE_NODE(AvgPoolAttrs);
TREADLE_DEFINE_NODE(AvgPool1DAttrs);
TREADLE_DEFINE_NODE(AvgPool2DAttrs);
TREADLE_DEFINE_NODE(AvgPool3DAttrs);
TREADLE_DEFINE_NODE(GlobalPoolAttrs);
TREADLE_DEFINE_NODE(GlobalPool1DAttrs);
TREADLE_DEFINE_NODE(GlobalPool2DAttrs);
TREADLE_DEFINE_NODE(GlobalPool3DAttrs);
TREADLE_DEFINE_NODE(AdaptivePoolAttrs);
TREADLE_DEFINE_NODE(AdaptivePool1DAttrs);
TREADLE_DEFINE_NODE(AdaptivePool2DAttrs);
TREADLE_DEFINE_NODE(AdaptivePool3DAttrs);

namespace {

/// Number of windows along one dimension. None where it is less than a stride too short for one; an error beyond that.
PrimExpr WindowCount(const PrimExpr& size, int64_t padding, int64_t span, int64_t stride) {
  if (AsConstInt(size) == nullptr) return WindowDim(size, padding, span, stride);
  const int64_t spare = CheckedAdd(DimValue(size), padding - span, "dimension");
  return spare < 0 && spare >= -stride ? Dim(0) : WindowDim(size, padding, span, stride);
}

/// Sizes N C spatial of the result of window pooling. States of those that only a run knows what WindowCount asks for.
Array<PrimExpr> PoolShape(const InferContext& context, const PoolAttrs* attrs, size_t rank,
                          const Array<PrimExpr>& data) {
  CheckSpatial(attrs->pool_size, rank, 1, "pool_size");
  CheckSpatial(attrs->strides, rank, 1, "strides");
  CheckSpatial(attrs->dilation, rank, 1, "dilation");
  std::vector<int64_t> padding = NormalizePadding(attrs->padding, rank);
  Array<PrimExpr> out = {data[0], data[1]};
  for (size_t i = 0; i < rank; ++i) {
    int64_t span = CheckedAdd<int64_t>(CheckedMul(attrs->pool_size[i] - 1, attrs->dilation[i], "dilated window"), 1);
    int64_t pad = CheckedAdd(padding[i], padding[rank + i], "padding");
    int64_t stride = attrs->strides[i];
    PrimExpr size = data[2 + i];
    // Rounding up is rounding down after what is missing to a stride.
    const int64_t reach = attrs->ceil_mode ? CheckedAdd(pad, stride - 1, "padding") : pad;
    RequireWindow(context, size, CheckedAdd(reach, stride, "padding"), span);
    if (!attrs->ceil_mode) {
      out.push_back(WindowCount(size, pad, span, stride));
      continue;
    }
    // Rounding up may add a window; one that starts past the input and its leading padding is dropped.
    PrimExpr rounded = WindowCount(size, reach, span, stride);
    PrimExpr starting = DimFloorDiv(DimAdd(size, Dim(padding[i] + stride - 1)), Dim(stride));
    if (IsAnyDim(size)) {
      out.push_back(rounded);
    } else {
      out.push_back(tir::min(rounded, starting));
    }
  }
  return out;
}

template <size_t kRank>
Type PoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<PoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> sizes = LogicalShape(attrs->ParsedLayout(), data->shape, names, "data");
  Array<PrimExpr> out = PoolShape(context, attrs, kRank, sizes);
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), out, names), data->dtype);
}

template <size_t kRank>
Type GlobalPoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<GlobalPoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> out = LogicalShape(attrs->ParsedLayout(), data->shape, names, "data");
  for (size_t i = 0; i < kRank; ++i) out.Set(2 + i, Dim(1));
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), out, names), data->dtype);
}

template <size_t kRank>
Type AdaptivePoolInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<AdaptivePoolAttrs>();
  std::string names = "NC" + SpatialNames(kRank);
  Array<PrimExpr> out = LogicalShape(attrs->ParsedLayout(), data->shape, names, "data");
  if (!attrs->output_size.empty()) {
    std::vector<int64_t> size = attrs->output_size;
    if (size.size() == 1) size.resize(kRank, size[0]);
    CheckSpatial(size, kRank, 1, "output_size");
    for (size_t i = 0; i < kRank; ++i) out.Set(2 + i, Dim(size[i]));
  }
  return TensorType(PhysicalShape(attrs->ParsedOutLayout(), out, names), data->dtype);
}

/// Positions of the spatial dimensions in a layout that doesn't block them and is the result's too.
std::vector<size_t> SpatialAxes(const Layout& layout, const Layout& out_layout, size_t rank) {
  if (out_layout != layout) {
    throw ShapeError(StrCat("pooling from layout ", layout, " to ", out_layout, " isn't implemented"));
  }
  std::vector<size_t> axes;
  for (char name : SpatialNames(rank)) {
    if (layout.BlockOf(name) != 1) throw ShapeError(StrCat("pooling in layout ", layout, " isn't implemented"));
    axes.push_back(static_cast<size_t>(layout.IndexOf(name)));
  }
  return axes;
}

/// Geometry of window pooling over the dimensions `axes` of the tensor.
struct Window {
  std::vector<size_t> axes;
  std::vector<int64_t> before, after;  ///< of all dimensions; `after` includes what ceil_mode adds
  std::vector<int64_t> end_padding;    ///< of the pooled ones, without what ceil_mode adds
};

Window ResolveWindow(const PoolAttrs* attrs, size_t rank, const Tensor& data, const Array<PrimExpr>& out) {
  Window window;
  window.axes = SpatialAxes(attrs->ParsedLayout(), attrs->ParsedOutLayout(), rank);
  window.before.assign(data.ndim(), 0);
  window.after.assign(data.ndim(), 0);
  std::vector<int64_t> padding = NormalizePadding(attrs->padding, rank);
  for (size_t i = 0; i < rank; ++i) {
    size_t axis = window.axes[i];
    window.before[axis] = padding[i];
    window.after[axis] = padding[rank + i];
    window.end_padding.push_back(padding[rank + i]);
    if (!attrs->ceil_mode) continue;
    // Elements that the last window needs; of unknown sizes as many as it could need.
    int64_t size = DimValue(data->shape[axis]);
    int64_t count = DimValue(out[axis]);
    int64_t more = attrs->strides[i] - 1;
    if (size >= 0 && count >= 0) {
      int64_t span = (attrs->pool_size[i] - 1) * attrs->dilation[i] + 1;
      more = (count - 1) * attrs->strides[i] + span - size - padding[i] - padding[rank + i];
    }
    if (more > 0) window.after[axis] += more;
  }
  return window;
}

/// Whether the axes of windows but the last are better reduced before it: neighbouring windows share columns.
bool ReducesColumnsFirst(const PoolAttrs* attrs, size_t rank) {
  constexpr double kGain = 1.6;  // columns are stored between
  double column = 1;
  for (size_t d = 0; d + 1 < rank; ++d) column *= static_cast<double>(attrs->pool_size[d]);
  const auto row = static_cast<double>(attrs->pool_size[rank - 1]);
  // Without blocks of channels a vector is one of neighbouring windows: taps of each are as far apart as the windows,
  // and taking them together costs as much as as many vectors.
  const bool blocked = attrs->ParsedLayout().BlockOf('C') > 1 || attrs->ParsedLayout().IndexOf('C') != 1;
  const double apart = blocked ? static_cast<double>(attrs->strides[rank - 1]) : 1;
  return (column * apart + row) * kGain <= column * row;
}

/// The windows of `data`, padded, that belong to the elements of a result, reduced by `reduce`.
Tensor ReduceWindows(const PoolAttrs* attrs, const Window& window, const Tensor& data, const Array<PrimExpr>& shape,
                     const std::function<PrimExpr(const PrimExpr&, const Array<te::IterVar>&)>& reduce,
                     const std::string& name, const std::string& tag) {
  const size_t rank = window.axes.size();
  // Taps [first, last) of each element of a result.
  const auto reduced = [&](const Tensor& from, const Array<PrimExpr>& of, size_t first, size_t last,
                           const std::string& stage) {
    const auto begin = static_cast<std::ptrdiff_t>(first), end = static_cast<std::ptrdiff_t>(last);
    const Array<te::IterVar> k = ReduceAxes({attrs->pool_size.begin() + begin, attrs->pool_size.begin() + end}, "k");
    return Compute(
        of,
        [&](const Array<PrimExpr>& i) {
          Array<PrimExpr> at = i;
          for (size_t d = first; d < last; ++d) {
            const size_t axis = window.axes[d];
            at.Set(axis, i[axis] * attrs->strides[d] + PrimExpr(k[d - first]->var) * attrs->dilation[d]);
          }
          return reduce(from(at), k);
        },
        stage, tag);
  };
  if (rank < 2 || !ReducesColumnsFirst(attrs, rank)) return reduced(data, shape, 0, rank, name);
  Array<PrimExpr> columns = shape;
  columns.Set(window.axes.back(), data->shape[window.axes.back()]);
  return reduced(reduced(data, columns, 0, rank - 1, name + "_columns"), shape, rank - 1, rank, name);
}

/// Numbers of bfloat16 as integers of the same order, above which NaN of either sign are: processors compare those in
/// one instruction, and bfloat16 only once it is widened.
constexpr int64_t kOrderedNaN = 0x7fff, kOrderedNegativeInfinity = -0x7f81;

PrimExpr OrderedWord(int64_t value) { return tir::make_const(DataType::Int(16), value); }

PrimExpr Ordered(const PrimExpr& number) {
  const PrimExpr order = OrderOfBits(tir::reinterpret(DataType::Int(16), number));
  return tir::select(order < OrderedWord(kOrderedNegativeInfinity), OrderedWord(kOrderedNaN), order);
}

template <size_t kRank>
Array<Tensor> MaxPoolCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<PoolAttrs>();
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  Window window = ResolveWindow(a, kRank, inputs[0], shape);
  const auto max = [](const PrimExpr& e, const Array<te::IterVar>& k) { return te::MaxReduce(e, k); };
  const DataType dtype = inputs[0]->dtype;
  if (!dtype.is_bfloat16()) {
    const Tensor data = Pad(inputs[0], window.before, window.after, tir::neg_infinity(dtype));
    return {ReduceWindows(a, window, data, shape, max, "pool_max", tag::kPoolMax)};
  }
  const Tensor order =
      Compute(inputs[0]->shape, [&](const Array<PrimExpr>& i) { return Ordered(inputs[0](i)); }, "order", tag::kPad);
  const Tensor data = Pad(order, window.before, window.after, OrderedWord(kOrderedNegativeInfinity));
  const Tensor result = ReduceWindows(a, window, data, shape, max, "pool_max", tag::kPoolMax);
  return {Compute(
      shape, [&](const Array<PrimExpr>& i) { return tir::reinterpret(dtype, OrderOfBits(result(i))); },
      "pool_max_number", tag::kElemWise)};
}

/// Number of taps of a window with dilation that lie in [0, limit): tap t is at start + t * dilation.
PrimExpr TapsInside(const PrimExpr& start, const PrimExpr& limit, int64_t taps, int64_t dilation) {
  auto below = [&](const PrimExpr& bound) {  // taps at positions < bound
    return Clamp(tir::floordiv(bound - start + (dilation - 1), Index(dilation)), Index(0), Index(taps));
  };
  return below(limit) - below(Index(0));
}

/// For each dimension of windows of which not all taps always count, how many do for each place of a window, as a
/// table: vectors of 64-bit numbers take long to compute where registers are narrow. Null for the other dimensions.
std::vector<Tensor> CountedTaps(const AvgPoolAttrs& a, size_t rank, const Window& window, const Array<PrimExpr>& shape,
                                const Array<PrimExpr>& out_shape, DataType dtype) {
  std::vector<Tensor> tables(rank, Tensor(ObjectPtr<Object>()));
  for (size_t d = 0; d < rank; ++d) {
    const size_t axis = window.axes[d];
    // Taps that always count: inside the input, or in padding that counts.
    const int64_t uncounted =
        a.count_include_pad ? window.after[axis] - window.end_padding[d] : window.before[axis] + window.after[axis];
    if (uncounted == 0) continue;
    tables[d] = Compute(
        {out_shape[axis]},
        [&](const Array<PrimExpr>& i) {
          PrimExpr start = i[0] * a.strides[d];
          PrimExpr limit = DimAdd(shape[axis], Dim(window.end_padding[d] + window.before[axis]));
          if (!a.count_include_pad) {
            start = start - window.before[axis];
            limit = shape[axis];
          }
          return tir::cast(dtype, TapsInside(start, limit, a.pool_size[d], a.dilation[d]));
        },
        StrCat("pool_taps", d), "pool_table");
  }
  return tables;
}

template <size_t kRank>
Array<Tensor> AvgPoolCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<AvgPoolAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  Window window = ResolveWindow(a, kRank, inputs[0], out->shape);
  Tensor data = Pad(inputs[0], window.before, window.after, tir::make_zero(inputs[0]->dtype));
  PrimExpr taps = Dim(1);
  for (int64_t size : a->pool_size) taps = DimMul(taps, Dim(size));
  DataType dtype = LongSumDType(out->dtype, taps);
  const auto add = [&](const PrimExpr& e, const Array<te::IterVar>& k) { return te::Sum(tir::cast(dtype, e), k); };
  Tensor sum = ReduceWindows(a, window, data, out->shape, add, "pool_sum", tag::kPoolAvg);
  const std::vector<Tensor> counts = CountedTaps(*a, kRank, window, inputs[0]->shape, out->shape, dtype);
  auto count = [&](const Array<PrimExpr>& i) {
    int64_t full = 1;
    PrimExpr product;
    for (size_t d = 0; d < kRank; ++d) {
      size_t axis = window.axes[d];
      if (!counts[d].defined()) {
        full *= a->pool_size[d];
        continue;
      }
      const PrimExpr taps = counts[d](i[axis]);
      product = product.defined() ? product * taps : taps;
    }
    if (!product.defined()) return tir::make_const(dtype, full);
    // A window may lie in the padding altogether.
    return tir::max(product * tir::make_const(dtype, full), tir::make_const(dtype, 1));
  };
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr divisor = count(i);
        PrimExpr mean = tir::div(sum(i), divisor);
        if (const auto* constant = divisor.as<FloatImmNode>()) {
          mean = sum(i) * tir::make_const(dtype, 1.0 / constant->value);
        }
        return tir::cast(out->dtype, mean);
      },
      "pool_avg", tag::kElemWise)};
}

template <size_t kRank, bool kMax>
Array<Tensor> GlobalPoolCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<GlobalPoolAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& data = inputs[0];
  std::vector<size_t> axes = SpatialAxes(a->ParsedLayout(), a->ParsedOutLayout(), kRank);
  Array<te::IterVar> k;
  PrimExpr count = Dim(1);
  for (size_t axis : axes) {
    k.push_back(te::ReduceAxis(tir::Range(data->shape[axis]), StrCat("k", k.size())));
    count = DimMul(count, data->shape[axis]);
  }
  DataType dtype = kMax ? out->dtype : LongSumDType(out->dtype, count);
  Tensor reduced = Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        for (size_t d = 0; d < kRank; ++d) at.Set(axes[d], k[d]->var);
        PrimExpr value = tir::cast(dtype, data(at));
        return kMax ? te::MaxReduce(value, k) : te::Sum(value, k);
      },
      kMax ? "global_pool_max" : "global_pool_sum", kMax ? tag::kPoolMax : tag::kPoolAvg);
  if (kMax) return {reduced};
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr divisor = tir::cast(dtype, count);
        const auto* constant = divisor.as<FloatImmNode>();
        PrimExpr mean = constant != nullptr && constant->value != 0
                            ? reduced(i) * tir::make_const(dtype, 1.0 / constant->value)
                            : tir::div(reduced(i), divisor);
        return tir::cast(out->dtype, mean);
      },
      "global_pool_avg", tag::kElemWise)};
}

/// Windows differ in size by at most one: the reduction runs over the largest and skips what isn't inside.
template <size_t kRank, bool kMax>
Array<Tensor> AdaptivePoolCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<AdaptivePoolAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& data = inputs[0];
  std::vector<size_t> axes = SpatialAxes(a->ParsedLayout(), a->ParsedOutLayout(), kRank);
  Array<te::IterVar> k;
  PrimExpr most = Dim(1);
  for (size_t axis : axes) {
    // ceil((i + 1) * in / out) - floor(i * in / out) is at most ceil(in / out) + 1.
    PrimExpr in = data->shape[axis];
    PrimExpr size = out->shape[axis];
    bool divides = DimValue(in) >= 0 && DimValue(size) > 0 && DimValue(in) % DimValue(size) == 0;
    PrimExpr extent =
        divides ? DimFloorDiv(in, size) : DimAdd(DimFloorDiv(DimAdd(in, DimSub(size, Dim(1))), size), Dim(1));
    k.push_back(te::ReduceAxis(tir::Range(extent), StrCat("k", k.size())));
    most = DimMul(most, extent);
  }
  auto start = [&](const Array<PrimExpr>& i, size_t d) {
    return tir::floordiv(i[axes[d]] * data->shape[axes[d]], out->shape[axes[d]]);
  };
  auto end = [&](const Array<PrimExpr>& i, size_t d) {
    PrimExpr size = out->shape[axes[d]];
    return tir::floordiv((i[axes[d]] + 1) * data->shape[axes[d]] + (size - 1), size);
  };
  DataType dtype = kMax ? out->dtype : LongSumDType(out->dtype, most);
  Tensor reduced = Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        PrimExpr inside;
        for (size_t d = 0; d < kRank; ++d) {
          PrimExpr position = start(i, d) + k[d]->var;
          at.Set(axes[d], position);
          PrimExpr below = position < end(i, d);
          inside = inside.defined() ? inside && below : below;
        }
        PrimExpr neutral = kMax ? tir::neg_infinity(dtype) : tir::make_zero(dtype);
        PrimExpr value = tir::if_then_else(inside, tir::cast(dtype, data(at)), neutral);
        return kMax ? te::MaxReduce(value, k) : te::Sum(value, k);
      },
      "adaptive_pool", kMax ? tag::kPoolMax : tag::kPoolAvg);
  if (kMax) return {reduced};
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr count = Index(1);
        for (size_t d = 0; d < kRank; ++d) count = count * (end(i, d) - start(i, d));
        return tir::cast(out->dtype, tir::div(reduced(i), tir::cast(dtype, count)));
      },
      "adaptive_pool_avg", tag::kElemWise)};
}

template <typename AttrsT>
OpRegistration Pool(const std::string& name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input, in layout."}})
      .AttrsType<AttrsT>()
      .SupportLevel(2)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kCompute, std::move(compute));
}

template <bool kMax>
void RegisterWholePools() {
  const char* kind = kMax ? "max" : "avg";
  // Sums of whole pictures stay wide.
  const auto narrow = kMax ? relay::MixedPrecisionKind::kFollow : relay::MixedPrecisionKind::kNever;
  const auto values = kMax ? ValueRule::kPicks : ValueRule::kComputes;
  const char* global = "Pooling over all of the spatial dimensions.";
  std::string prefix = StrCat("nn.global_", kind, "_pool");
  Pool<GlobalPool1DAttrs>(prefix + "1d", global, Rule<GlobalPoolInfer<1>>, GlobalPoolCompute<1, kMax>)
      .Set(relay::kReadsDataOnce, true)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kValueRule, values);
  Pool<GlobalPool2DAttrs>(prefix + "2d", global, Rule<GlobalPoolInfer<2>>, GlobalPoolCompute<2, kMax>)
      .Set(relay::kReadsDataOnce, true)
      .Set(relay::kMixedPrecision, narrow)
      .Set(kValueRule, values)
      .Set(relay::kLayoutRule, relay::FLayoutRule(PoolLayoutRule))
      .Set(kGradient, FGradient(kMax ? gradient::OfGlobalMaxPool2D : gradient::OfGlobalAvgPool2D));
  Pool<GlobalPool3DAttrs>(prefix + "3d", global, Rule<GlobalPoolInfer<3>>, GlobalPoolCompute<3, kMax>)
      .Set(relay::kReadsDataOnce, true)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kValueRule, values);
  const char* adaptive = "Pooling to a given size: windows follow from input and output size.";
  prefix = StrCat("nn.adaptive_", kind, "_pool");
  Pool<AdaptivePool1DAttrs>(prefix + "1d", adaptive, Rule<AdaptivePoolInfer<1>>, AdaptivePoolCompute<1, kMax>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kValueRule, values);
  Pool<AdaptivePool2DAttrs>(prefix + "2d", adaptive, Rule<AdaptivePoolInfer<2>>, AdaptivePoolCompute<2, kMax>)
      .Set(relay::kMixedPrecision, narrow)
      .Set(kValueRule, values);
  Pool<AdaptivePool3DAttrs>(prefix + "3d", adaptive, Rule<AdaptivePoolInfer<3>>, AdaptivePoolCompute<3, kMax>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kValueRule, values);
}

}  // namespace

void RegisterPoolOps() {
  const char* max = "Greatest element of a window; padding never wins. NaN wins.";
  Pool<MaxPool1DAttrs>("nn.max_pool1d", max, Rule<PoolInfer<1>>, MaxPoolCompute<1>)
      .Set(kValueRule, ValueRule::kPicks)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kPositive);
  Pool<MaxPool2DAttrs>("nn.max_pool2d", max, Rule<PoolInfer<2>>, MaxPoolCompute<2>)
      .Set(kValueRule, ValueRule::kPicks)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kPositive)
      .Set(relay::kLayoutRule, relay::FLayoutRule(PoolLayoutRule))
      .Set(kGradient, FGradient(gradient::OfMaxPool2D));
  Pool<MaxPool3DAttrs>("nn.max_pool3d", max, Rule<PoolInfer<3>>, MaxPoolCompute<3>)
      .Set(kValueRule, ValueRule::kPicks)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kPositive);
  const char* avg = "Mean of a window.";
  Pool<AvgPool1DAttrs>("nn.avg_pool1d", avg, Rule<PoolInfer<1>>, AvgPoolCompute<1>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kAlways);
  Pool<AvgPool2DAttrs>("nn.avg_pool2d", avg, Rule<PoolInfer<2>>, AvgPoolCompute<2>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kAlways)
      .Set(relay::kLayoutRule, relay::FLayoutRule(PoolLayoutRule))
      .Set(kGradient, FGradient(gradient::OfAvgPool2D));
  Pool<AvgPool3DAttrs>("nn.avg_pool3d", avg, Rule<PoolInfer<3>>, AvgPoolCompute<3>)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kScaleRule, ScaleRule::kAlways);
  RegisterWholePools<true>();
  RegisterWholePools<false>();
}

}  // namespace treadle::ops
