// SPDX-License-Identifier: Apache-2.0
// Reductions. Semantics: NumPy; ONNX Reduce*, ArgMax-13, ArgMin-13.
#include "treadle/ops/attrs/reduce.h"
#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout_rules.h"
#include "ops/long_sum.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"
#include "treadle/runtime/custom_datatype.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ReduceAttrs);
TREADLE_DEFINE_NODE(VarianceAttrs);
TREADLE_DEFINE_NODE(ArgReduceAttrs);

namespace {

/// Whether each dimension is reduced.
std::vector<bool> ReducedDims(const ReduceAttrs* attrs, size_t rank) {
  std::vector<bool> reduced(rank, !attrs->axis.has_value());
  if (attrs->axis.has_value()) {
    for (int axis : NormalizeAxes(*attrs->axis, rank)) reduced[static_cast<size_t>(axis)] = true;
    if (attrs->exclude) reduced.flip();
  }
  return reduced;
}

Array<PrimExpr> ReduceShape(const ReduceAttrs* attrs, const Array<PrimExpr>& shape) {
  std::vector<bool> reduced = ReducedDims(attrs, shape.size());
  Array<PrimExpr> out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(shape[i]);
    } else if (attrs->keepdims) {
      out.push_back(Dim(1));
    }
  }
  return out;
}

Type ReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(ReduceShape(context.attrs<ReduceAttrs>(), data->shape), data->dtype);
}

Type BoolReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (!data->dtype.is_bool()) throw DTypeError(StrCat("data must be bool, not ", data->dtype));
  return ReduceInfer(context);
}

/// A mean of truth values isn't one.
Type MeanInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (data->dtype.is_bool()) throw DTypeError("data must be numbers, not bool: cast it first");
  return ReduceInfer(context);
}

Type ArgReduceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(ReduceShape(context.attrs<ReduceAttrs>(), data->shape), DataType::Int(32));
}

/// data, mean -> variance; mean has the shape of the reduced data with keepdims.
Type VarianceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* mean = context.Tensor(1, "mean");
  CheckSameDType(data, mean);
  VarianceAttrs kept = *context.attrs<VarianceAttrs>();
  kept.keepdims = true;
  const Array<PrimExpr> expected = ReduceShape(&kept, data->shape);
  CheckRank(mean, expected.size(), "mean");
  for (size_t i = 0; i < expected.size(); ++i) CheckDim(context, mean, i, "mean", expected[i], "the reduced data");
  return TensorType(ReduceShape(context.attrs<VarianceAttrs>(), data->shape), data->dtype);
}

/// A shape of which broadcasting could make that of the data.
void CheckCollapse(const InferContext& context, const TensorTypeNode* data, const Array<PrimExpr>& out) {
  bool fits = out.size() <= data->shape.size();
  const size_t extra = fits ? data->shape.size() - out.size() : 0;
  for (size_t i = 0; fits && i < out.size(); ++i) {
    const int64_t own = DimValue(out[i]), from = DimValue(data->shape[i + extra]);
    fits = own < 0 || from < 0 || own == 1 || own == from;
    RequireBroadcast(context, out[i], data->shape[i + extra]);
  }
  if (!fits) throw ShapeError(StrCat(ShapeText(out), " doesn't broadcast to ", TypeText(data)));
}

Type CollapseSumLikeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* like = context.Tensor(1, "collapse_type");
  CheckCollapse(context, data, like->shape);
  return TensorType(like->shape, data->dtype);
}

/// The reduced dimensions of one call.
struct Reduction {
  std::vector<bool> reduced;
  bool keepdims;
  Array<te::IterVar> axes;
  PrimExpr count = Dim(1);

  Reduction(const ReduceAttrs* attrs, const Array<PrimExpr>& shape)
      : reduced(ReducedDims(attrs, shape.size())), keepdims(attrs->keepdims) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!reduced[i]) continue;
      axes.push_back(te::ReduceAxis(tir::Range(shape[i]), StrCat("k", axes.size())));
      count = DimMul(count, shape[i]);
    }
  }
  bool none() const { return axes.empty(); }
  /// Index of the input for one of the result.
  Array<PrimExpr> Source(const Array<PrimExpr>& out) const {
    Array<PrimExpr> at;
    size_t o = 0, k = 0;
    for (bool r : reduced) {
      if (r) {
        at.push_back(axes[k++]->var);
        if (keepdims) ++o;
      } else {
        at.push_back(out[o++]);
      }
    }
    return at;
  }
};

using ReduceFn = PrimExpr (*)(PrimExpr, Array<te::IterVar>, Array<PrimExpr>);

PrimExpr LogicReduce(const PrimExpr& source, const Array<te::IterVar>& axes, bool all) {
  tir::Var x("x", source.dtype()), y("y", source.dtype());
  PrimExpr combined = all ? PrimExpr(x) && PrimExpr(y) : PrimExpr(x) || PrimExpr(y);
  tir::CommReducer reducer({x}, {y}, {combined}, {tir::make_bool(all)});
  return te::CommReduce(reducer, {source}, axes)[0];
}
PrimExpr AllReduce(PrimExpr source, Array<te::IterVar> axes, Array<PrimExpr>) {
  return LogicReduce(source, axes, true);
}
PrimExpr AnyReduce(PrimExpr source, Array<te::IterVar> axes, Array<PrimExpr>) {
  return LogicReduce(source, axes, false);
}

/// Reduces `data` in the type `dtype` by `fn`; `map` is applied to each element first.
Tensor ReduceTensor(const Reduction& reduction, const Tensor& data, const Array<PrimExpr>& shape, DataType dtype,
                    ReduceFn fn, const std::string& name, PrimExpr (*map)(PrimExpr) = nullptr) {
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr value = tir::cast(dtype, data(reduction.Source(i)));
        if (map != nullptr) value = map(value);
        return reduction.none() ? value : fn(value, reduction.axes, {});
      },
      name, reduction.none() ? tag::kElemWise : tag::kCommReduce);
}

/// How many parts a long sum of float32 has, about as many as each has elements: what is added one after another stays
/// short, as rounding errors grow with it. `cut`: which of the axes is cut. 1: none of them.
int64_t PartsOfSum(const Reduction& reduction, DataType dtype, size_t* cut) {
  constexpr int64_t kLong = 1 << 15, kMostInPart = 1 << 18;
  const int64_t count = DimValue(reduction.count);
  if (dtype != DataType::Float(32) || count < kLong) return 1;
  int64_t parts = 1, longest = count / 4;
  for (size_t axis = 0; axis < reduction.axes.size(); ++axis) {
    const int64_t extent = DimValue(reduction.axes[axis]->dom->extent);
    for (int64_t size = 1; size <= std::min(extent / 2, kMostInPart); ++size) {
      const int64_t n = extent / size, in_part = count / n;
      if (extent % size != 0 || std::max(n, in_part) >= longest) continue;
      parts = n;
      longest = std::max(n, in_part);
      *cut = axis;
    }
  }
  return parts;
}

/// A sum, of the sums of parts where it is long; in float64 where nobody knows how long it is, or vectors run along
/// another dimension.
Tensor SumTensor(const Reduction& reduction, const Tensor& data, const Array<PrimExpr>& shape, DataType dtype,
                 const std::string& name) {
  const bool by_vectors = !reduction.none() && reduction.reduced.back();
  if (!by_vectors || AsConstInt(reduction.count) == nullptr) dtype = LongSumDType(dtype, reduction.count);
  size_t cut = 0;
  const int64_t parts = PartsOfSum(reduction, dtype, &cut);
  if (parts == 1) return ReduceTensor(reduction, data, shape, dtype, te::Sum, name);
  const int64_t extent = DimValue(reduction.axes[cut]->dom->extent) / parts;
  Reduction part = reduction;
  part.axes.clear();
  for (size_t i = 0; i < reduction.axes.size(); ++i) {
    const PrimExpr size = i == cut ? Dim(extent) : reduction.axes[i]->dom->extent;
    part.axes.push_back(te::ReduceAxis(tir::Range(size), StrCat("k", i)));
  }
  Array<PrimExpr> partial_shape{Dim(parts)};
  for (const PrimExpr& size : shape) partial_shape.push_back(size);
  const Tensor partial = Compute(
      partial_shape,
      [&](const Array<PrimExpr>& i) {
        Reduction at = part;
        Array<PrimExpr> source = at.Source(Array<PrimExpr>(i.begin() + 1, i.end()));
        size_t dim = 0;
        for (size_t axis = 0; axis <= cut; ++dim) axis += at.reduced[dim];
        source.Set(dim - 1, i[0] * Dim(extent) + source[dim - 1]);
        return te::Sum(tir::cast(dtype, data(source)), at.axes, {});
      },
      name + "_part", tag::kCommReduce);
  const te::IterVar k = te::ReduceAxis(tir::Range(Dim(parts)), "part");
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at{k->var};
        for (const PrimExpr& index : i) at.push_back(index);
        return te::Sum(partial(at), {k}, {});
      },
      name, tag::kCommReduce);
}

/// Sums and products accumulate narrow floats in float32; others keep the type. `logic`: for bool.
FTECompute SimpleReduce(std::string name, ReduceFn arithmetic, bool accumulate, ReduceFn logic = nullptr) {
  return [=](const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
    const TensorTypeNode* out = OutTensor(out_type);
    const ReduceFn fn = out->dtype.is_bool() && logic != nullptr ? logic : arithmetic;
    Reduction reduction(attrs.as<ReduceAttrs>(), inputs[0]->shape);
    DataType dtype = accumulate && out->dtype.is_floating() ? AccumulatorDType(out->dtype) : out->dtype;
    Tensor result = fn == te::Sum ? SumTensor(reduction, inputs[0], out->shape, dtype, name)
                                  : ReduceTensor(reduction, inputs[0], out->shape, dtype, fn, name);
    return Array<Tensor>{CastTo(result, out->dtype, name + "_cast")};
  };
}

/// sum / count, in the type of the sum; integers truncate.
Array<Tensor> DivideByCount(const Tensor& sum, const PrimExpr& count, DataType out, const std::string& name) {
  return {Compute(
      sum->shape,
      [&](const Array<PrimExpr>& i) {
        DataType dtype = sum->dtype;
        if (runtime::ActsAsFloat(dtype) && DimValue(count) > 0) {
          return tir::cast(out, sum(i) * tir::make_const(dtype, 1.0 / static_cast<double>(DimValue(count))));
        }
        PrimExpr n = AsConstInt(count) != nullptr && runtime::ActsAsFloat(dtype)
                         ? tir::make_const(dtype, static_cast<double>(DimValue(count)))
                         : tir::cast(dtype, count);
        if (!runtime::ActsAsFloat(dtype) && DimValue(count) == 0) return tir::make_zero(out);
        return tir::cast(out, tir::div(sum(i), n));
      },
      name, tag::kElemWise)};
}

Array<Tensor> MeanCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  Reduction reduction(attrs.as<ReduceAttrs>(), inputs[0]->shape);
  Tensor sum = SumTensor(reduction, inputs[0], out->shape, AccumulatorDType(out->dtype), "mean_sum");
  return DivideByCount(sum, reduction.count, out->dtype, "mean");
}

Array<Tensor> VarianceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<VarianceAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  DataType dtype = AccumulatorDType(out->dtype);
  Tensor squares = Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr d = tir::cast(dtype, x(i)) - tir::cast(dtype, LoadBroadcast(inputs[1], i, x->shape));
        return d * d;
      },
      "variance_squares", tag::kBroadcast);
  Reduction reduction(a, x->shape);
  Tensor sum = SumTensor(reduction, squares, out->shape, dtype, "variance_sum");
  return DivideByCount(sum, a->unbiased ? DimSub(reduction.count, Dim(1)) : reduction.count, out->dtype, "variance");
}

/// Numbers whose vectors compare as fast as they are read: those of up to 32 bits. 16-bit floats are compared as
/// float32.
bool HasFastExtreme(DataType dtype) {
  return dtype.is_float16() || dtype.is_bfloat16() || dtype == DataType::Float(32) ||
         ((dtype.is_int() || dtype.is_uint()) && dtype.bits() >= 8 && dtype.bits() <= 32);
}

/// Along the last dimension: the extreme, then the first (last) index that has it. Both are reductions of one value,
/// which run along vectors. NaN counts as the extreme.
template <bool kMax>
Tensor ExtremeIndex(const ArgReduceAttrs* a, const Tensor& x, const Array<PrimExpr>& shape) {
  const DataType index = DataType::Int(32), compared = x->dtype.is_floating() ? DataType::Float(32) : x->dtype;
  Reduction values(a, x->shape), places(a, x->shape);
  Tensor extreme = ReduceTensor(values, x, shape, compared, kMax ? te::MaxReduce : te::MinReduce, "extreme");
  return Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr value = tir::cast(compared, x(places.Source(i)));
        PrimExpr found = tir::equal(value, extreme(i));
        if (compared.is_float()) found = found || tir::isnan(value);
        PrimExpr none = a->select_last_index ? tir::min_value(index) : tir::max_value(index);
        PrimExpr place = tir::select(found, tir::cast(index, places.axes[0]->var), none);
        return a->select_last_index ? te::MaxReduce(place, places.axes) : te::MinReduce(place, places.axes);
      },
      "extreme_index", tag::kCommReduce);
}

template <bool kMax>
Array<Tensor> ArgReduceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ArgReduceAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  Reduction reduction(a, x->shape);
  if (reduction.none()) {
    return {
        Compute(out->shape, [&](const Array<PrimExpr>&) { return tir::make_zero(out->dtype); }, "arg", tag::kElemWise)};
  }
  const bool last = reduction.axes.size() == 1 && reduction.reduced.back() && DimValue(x->shape.back()) <= INT32_MAX;
  if (last && DimValue(x->shape.back()) != 0 && HasFastExtreme(x->dtype)) {
    Tensor found = ExtremeIndex<kMax>(a, x, out->shape);
    return {Compute(
        out->shape, [&](const Array<PrimExpr>& i) { return tir::cast(out->dtype, found(i)); },
        kMax ? "argmax" : "argmin", tag::kInjective)};
  }
  DataType index = DataType::Int(32);
  tir::CommReducer reducer = kMax ? te::ArgMaxReducer(index, x->dtype, a->select_last_index)
                                  : te::ArgMinReducer(index, x->dtype, a->select_last_index);
  Array<PrimExpr> extents;
  for (const te::IterVar& axis : reduction.axes) extents.push_back(axis->dom->extent);
  Array<Tensor> pair = te::BatchCompute(
      out->shape,
      [&](const Array<te::Var>& axes) {
        PrimExpr position = tir::cast(index, FlatIndex(AxisVars(reduction.axes), extents));
        return te::CommReduce(reducer, {position, x(reduction.Source(Indices(axes)))}, reduction.axes);
      },
      kMax ? "argmax_pair" : "argmin_pair", tag::kCommReduceIdx);
  return {Compute(
      out->shape, [&](const Array<PrimExpr>& i) { return tir::cast(out->dtype, pair[0](i)); },
      kMax ? "argmax" : "argmin", tag::kInjective)};
}

/// Dimensions where the shapes differ are summed: the result's is 1 there, which only a run may know.
Array<Tensor> CollapseSumCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  size_t extra = x.ndim() - out->shape.size();
  Array<te::IterVar> axes;
  std::vector<PrimExpr> at(x.ndim()), kept(x.ndim());
  for (size_t i = 0; i < x.ndim(); ++i) {
    if (i >= extra && SameDim(out->shape[i - extra], x->shape[i])) continue;
    PrimExpr extent = x->shape[i];
    if (i >= extra && DimValue(out->shape[i - extra]) != 1) {
      const PrimExpr summed = tir::equal(out->shape[i - extra], Dim(1));
      extent = tir::select(summed, extent, Dim(1));
      kept[i] = summed;
    }
    axes.push_back(te::ReduceAxis(tir::Range(extent), StrCat("k", axes.size())));
    at[i] = axes.back()->var;
  }
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& o) {
        Array<PrimExpr> index;
        for (size_t i = 0; i < x.ndim(); ++i) {
          const PrimExpr own = i < extra ? at[i] : o[i - extra];
          index.push_back(kept[i].defined() ? tir::select(kept[i], at[i], own) : at[i].defined() ? at[i] : own);
        }
        return axes.empty() ? x(index) : te::Sum(x(index), axes);
      },
      "collapse_sum", axes.empty() ? tag::kElemWise : tag::kCommReduce)};
}

/// (data, shape); the shape is also an attribute where it is constant.
Type CollapseSumToInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* shape = context.Tensor(1, "shape");
  const auto* attrs = context.attrs<InitOpAttrs>();
  CheckRank(shape, 1, "shape");
  CheckIntegral(shape, "shape");
  Array<PrimExpr> out = attrs->shape;
  int64_t rank = DimValue(shape->shape[0]);
  if (rank < 0 || rank > static_cast<int64_t>(data->shape.size())) {
    throw ShapeError(StrCat("shape must be a vector of at most ", data->shape.size(), " sizes, not ", TypeText(shape)));
  }
  if (out.empty()) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(AnyDim());
  }
  if (static_cast<int64_t>(out.size()) != rank)
    throw ShapeError("the attribute and the operand shape differ in length");
  CheckCollapse(context, data, out);
  return TensorType(out, data->dtype);
}

OpRegistration Register(const char* name, const char* text, FTECompute compute,
                        TypeRelationFn relation = Rule<ReduceInfer>) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ReduceAttrs>()
      .SupportLevel(4)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kCommReduce)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterReduceOps() {
  Register("sum", "Sum; of bool: whether any is true.", SimpleReduce("sum", te::Sum, true, AnyReduce))
      .Set(relay::kLayoutRule, relay::FLayoutRule(ReduceLayoutRule))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kGradient, FGradient(gradient::OfSum));
  Register("mean", "Arithmetic mean; integers truncate.", MeanCompute, Rule<MeanInfer>)
      .Set(relay::kLayoutRule, relay::FLayoutRule(ReduceLayoutRule))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kGradient, FGradient(gradient::OfMean));
  Register("prod", "Product; of bool: whether all are true.", SimpleReduce("prod", te::Prod, true, AllReduce))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever);
  Register("max", "Greatest element; NaN wins.", SimpleReduce("max", te::MaxReduce, false))
      .Set(kValueRule, ValueRule::kPicks)
      .Set(relay::kLayoutRule, relay::FLayoutRule(ReduceLayoutRule))
      .Set(kGradient, FGradient(gradient::OfExtreme));
  Register("min", "Smallest element; NaN wins.", SimpleReduce("min", te::MinReduce, false))
      .Set(kValueRule, ValueRule::kPicks)
      .Set(relay::kLayoutRule, relay::FLayoutRule(ReduceLayoutRule))
      .Set(kGradient, FGradient(gradient::OfExtreme));
  Register("all", "Whether all are true.", SimpleReduce("all", AllReduce, false), Rule<BoolReduceInfer>);
  Register("any", "Whether any is true.", SimpleReduce("any", AnyReduce, false), Rule<BoolReduceInfer>);
  Register("argmax", "Index of the greatest element, counted over the reduced dimensions.", ArgReduceCompute<true>,
           Rule<ArgReduceInfer>)
      .AttrsType<ArgReduceAttrs>();
  Register("argmin", "Index of the smallest element, counted over the reduced dimensions.", ArgReduceCompute<false>,
           Rule<ArgReduceInfer>)
      .AttrsType<ArgReduceAttrs>();
  Register("variance", "Mean of the squared distance from the mean.", VarianceCompute, Rule<VarianceInfer>)
      .AttrsType<VarianceAttrs>()
      .Arguments({{"data", "Tensor", "The input."}, {"mean", "Tensor", "Its mean, with reduced dimensions of size 1."}})
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kNever)
      .Set(kGradient, FGradient(gradient::OfVariance));
  OpRegistration("collapse_sum_to")
      .Describe("Sum over the dimensions that broadcasting from the given shape would have added or enlarged.")
      .Arguments({{"data", "Tensor", "The input."}, {"shape", "Tensor", "Shape of the result."}})
      .AttrsType<InitOpAttrs>()
      .SupportLevel(4)
      .Relation(Rule<CollapseSumToInfer>)
      .Set(kOpPattern, OpPatternKind::kCommReduce)
      .Set(kCompute, FTECompute(CollapseSumCompute));
  OpRegistration("collapse_sum_like")
      .Describe("Sum over the dimensions that broadcasting would have added or enlarged.")
      .Arguments({{"data", "Tensor", "The input."}, {"collapse_type", "Tensor", "Has the shape of the result."}})
      .SupportLevel(10)
      .Relation(Rule<CollapseSumLikeInfer>)
      .Set(kOpPattern, OpPatternKind::kCommReduce)
      .Set(kCompute, FTECompute(CollapseSumCompute))
      .Set(kGradient, FGradient(gradient::OfCollapseSumLike));
}

}  // namespace treadle::ops
