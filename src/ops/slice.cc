// SPDX-License-Identifier: Apache-2.0
// Slices, reversal and masks along dimensions. Semantics: NumPy; ONNX Slice-13, ReverseSequence-10.
#include "ops/slice.h"

#include <algorithm>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout_rules.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(StridedSliceAttrs);
TREADLE_DEFINE_NODE(SliceLikeAttrs);
TREADLE_DEFINE_NODE(ReverseAttrs);
TREADLE_DEFINE_NODE(ReverseSequenceAttrs);
TREADLE_DEFINE_NODE(SequenceMaskAttrs);

namespace {

class SlidingWindowAttrs : public AttrsNode {
 public:
  int axis = 0;
  std::vector<int64_t> window_shape, strides;
  TREADLE_NODE(SlidingWindowAttrs, AttrsNode, "relay.attrs.SlidingWindowAttrs")
  template <typename R>
  static void Reflect(R& r) {
    r.Field("axis", &SlidingWindowAttrs::axis)
        .Doc("The first dimension that windows slide over; they do over all after it");
    r.Field("window_shape", &SlidingWindowAttrs::window_shape).Doc("Size of a window in each of these").Required();
    r.Field("strides", &SlidingWindowAttrs::strides).Doc("Steps from one window to the next, at least 1").Required();
  }
};

/// Where a begin or end lies in a dimension of `size` elements. Backward slices may stop before element 0, at -1.
int64_t ClampBound(int64_t bound, int64_t size, bool backward) {
  if (bound < 0) bound += size;
  return backward ? std::clamp<int64_t>(bound, -1, size - 1) : std::clamp<int64_t>(bound, 0, size);
}

PrimExpr ClampSymbolicBound(int64_t bound, const PrimExpr& size, bool backward) {
  PrimExpr zero = Dim(backward ? -1 : 0);
  PrimExpr last = backward ? DimSub(size, Dim(1)) : size;
  // Beyond any dimension there can be: no need for a minimum in the expression.
  constexpr int64_t kFar = int64_t{1} << 31;
  if (bound >= kFar - 1) return last;
  if (bound <= -kFar + 1) return zero;
  if (bound == 0 && !backward) return zero;
  PrimExpr shifted = bound < 0 ? DimAdd(size, Dim(bound)) : Dim(bound);
  return tir::max(tir::min(shifted, last), zero);
}

void SliceDim(int64_t begin, int64_t end, int64_t stride, const PrimExpr& size, PrimExpr* first, PrimExpr* count) {
  bool backward = stride < 0;
  if (AsConstInt(size) != nullptr) {
    int64_t n = DimValue(size);
    int64_t b = ClampBound(begin, n, backward);
    int64_t e = ClampBound(end, n, backward);
    int64_t distance = backward ? b - e : e - b;
    uint64_t step = backward ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    *first = Dim(b);
    *count = Dim(distance <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / step) + 1);
    return;
  }
  if (IsAnyDim(size)) {
    *first = backward ? DimSub(size, Dim(1)) : Dim(std::max<int64_t>(begin, 0));
    *count = AnyDim();
    return;
  }
  PrimExpr b = ClampSymbolicBound(begin, size, backward);
  PrimExpr e = ClampSymbolicBound(end, size, backward);
  PrimExpr distance = backward ? DimSub(b, e) : DimSub(e, b);
  *first = b;
  constexpr int64_t kFar = int64_t{1} << 48;  // beyond any dimension: one element, and sums don't overflow
  const int64_t step = std::min(backward ? -std::max(stride, -kFar) : stride, kFar);
  PrimExpr n = step == 1 ? distance : DimFloorDiv(DimAdd(distance, Dim(step - 1)), Dim(step));
  *count = (begin == 0 && !backward) || b.same_as(e) ? n : tir::max(n, Dim(0));
}

}  // namespace

SliceBounds ResolveSlice(const StridedSliceAttrs* attrs, const Array<PrimExpr>& shape) {
  SliceBounds bounds;
  bool by_size = attrs->slice_mode == "size";
  if (!by_size && attrs->slice_mode != "end") {
    throw ShapeError(StrCat("slice_mode must be \"end\" or \"size\", not \"", attrs->slice_mode, "\""));
  }
  if (attrs->begin.size() != attrs->end.size()) {
    throw ShapeError(StrCat("begin has ", attrs->begin.size(), " entries, end has ", attrs->end.size()));
  }
  for (const PrimExpr& dim : shape) {
    bounds.begin.push_back(Dim(0));
    bounds.stride.push_back(1);
    bounds.size.push_back(dim);
  }
  std::vector<size_t> axes;
  if (attrs->axes.has_value()) {
    if (attrs->axes->size() != attrs->begin.size()) {
      throw ShapeError(StrCat("axes has ", attrs->axes->size(), " entries, begin has ", attrs->begin.size()));
    }
    NormalizeAxes(*attrs->axes, shape.size(), "axes");
    for (int64_t axis : *attrs->axes) axes.push_back(static_cast<size_t>(NormalizeAxis(axis, shape.size(), "axes")));
  } else {
    if (attrs->begin.size() > shape.size()) {
      throw ShapeError(StrCat("begin has ", attrs->begin.size(), " entries for ", ShapeText(shape)));
    }
    for (size_t i = 0; i < attrs->begin.size(); ++i) axes.push_back(i);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t stride = by_size || i >= attrs->strides.size() ? 1 : attrs->strides[i];
    if (stride == 0) throw ShapeError("strides must not be 0");
    int64_t end = attrs->end[i];
    if (by_size) {
      bool to_end = end < 0 || __builtin_add_overflow(attrs->begin[i], attrs->end[i], &end);
      if (to_end || (attrs->begin[i] < 0 && end >= 0)) end = INT64_MAX;
    }
    PrimExpr first, count;
    SliceDim(attrs->begin[i], end, stride, shape[axes[i]], &first, &count);
    bounds.begin.Set(axes[i], first);
    bounds.size.Set(axes[i], count);
    bounds.stride[axes[i]] = stride;
  }
  return bounds;
}

namespace {

Type StridedSliceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  return TensorType(ResolveSlice(context.attrs<StridedSliceAttrs>(), data->shape).size, data->dtype);
}

Type SliceLikeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* like = context.Tensor(1, "slice_like");
  const auto* attrs = context.attrs<SliceLikeAttrs>();
  std::vector<int> axes = NormalizeAxes(attrs->axes, data->shape.size(), "axes");
  if (axes.empty()) {
    for (size_t i = 0; i < std::min(data->shape.size(), like->shape.size()); ++i) axes.push_back(static_cast<int>(i));
  }
  Array<PrimExpr> out = data->shape;
  for (int axis : axes) {
    auto at = static_cast<size_t>(axis);
    if (at >= like->shape.size()) throw ShapeError(StrCat("slice_like ", TypeText(like), " has no dimension ", axis));
    if (DimValue(like->shape[at]) > DimValue(out[at]) && AsConstInt(out[at]) != nullptr) {
      throw ShapeError(StrCat("dimension ", axis, " of ", TypeText(like), " is larger than that of ", TypeText(data)));
    }
    RequireAtLeast(context, out[at], like->shape[at]);
    out.Set(at, like->shape[at]);
  }
  return TensorType(out, data->dtype);
}

Type ReverseInfer(const InferContext& context) {
  NormalizeAxis(context.attrs<ReverseAttrs>()->axis, context.Tensor(0, "data")->shape.size());
  return context.type(0);
}

Type ReverseSequenceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* lengths = context.Tensor(1, "seq_lengths");
  const auto* attrs = context.attrs<ReverseSequenceAttrs>();
  NormalizeAxis(attrs->seq_axis, data->shape.size(), "seq_axis");
  auto batch = static_cast<size_t>(NormalizeAxis(attrs->batch_axis, data->shape.size(), "batch_axis"));
  CheckRank(lengths, 1, "seq_lengths");
  CheckIntegral(lengths, "seq_lengths");
  CheckDim(context, lengths, 0, "seq_lengths", data->shape[batch], "data's batch");
  return context.type(0);
}

Type SequenceMaskInfer(const InferContext& context) {
  const auto* attrs = context.attrs<SequenceMaskAttrs>();
  const auto* data = context.Tensor(0, "data");
  if (data->shape.size() < 2 || (attrs->axis != 0 && attrs->axis != 1)) {
    throw ShapeError(
        StrCat("needs data of at least 2 dimensions and axis 0 or 1, not ", TypeText(data), " and ", attrs->axis));
  }
  const auto* lengths = context.Tensor(1, "valid_length");
  CheckRank(lengths, 1, "valid_length");
  CheckDim(context, lengths, 0, "valid_length", data->shape[attrs->axis == 0 ? 1 : 0], "data's batch");
  return context.type(0);
}

Array<Tensor> StridedSliceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  SliceBounds bounds = ResolveSlice(attrs.as<StridedSliceAttrs>(), x->shape);
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < i.size(); ++d) {
          // A dimension with one element takes the first one, whatever the stride.
          bool single = DimValue(bounds.size[d]) == 1;
          PrimExpr step = single ? Index(0) : bounds.stride[d] == 1 ? i[d] : i[d] * bounds.stride[d];
          at.push_back(DimValue(bounds.begin[d]) == 0 ? step : step + bounds.begin[d]);
        }
        return x(at);
      },
      "strided_slice", tag::kInjective)};
}

Array<Tensor> SliceLikeCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  return {Compute(
      OutTensor(out_type)->shape, [&](const Array<PrimExpr>& i) { return inputs[0](i); }, "slice_like",
      tag::kInjective)};
}

Array<Tensor> ReverseCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  auto axis = static_cast<size_t>(NormalizeAxis(attrs.as<ReverseAttrs>()->axis, x.ndim()));
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.Set(axis, x->shape[axis] - 1 - i[axis]);
        return x(at);
      },
      "reverse", tag::kInjective)};
}

Array<Tensor> ReverseSequenceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<ReverseSequenceAttrs>();
  const Tensor& x = inputs[0];
  auto seq = static_cast<size_t>(NormalizeAxis(a->seq_axis, x.ndim()));
  auto batch = static_cast<size_t>(NormalizeAxis(a->batch_axis, x.ndim()));
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr length = Clamp(tir::cast(DataType::Int(64), inputs[1](i[batch])), Index(0), x->shape[seq]);
        Array<PrimExpr> at = i;
        at.Set(seq, tir::select(i[seq] < length, length - 1 - i[seq], i[seq]));
        return x(at);
      },
      "reverse_sequence", tag::kInjective)};
}

Array<Tensor> SequenceMaskCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type&) {
  const auto* a = attrs.as<SequenceMaskAttrs>();
  const Tensor& x = inputs[0];
  auto time = static_cast<size_t>(a->axis);
  PrimExpr mask = SaturatedConst(x->dtype, a->mask_value);
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr length = tir::cast(DataType::Int(64), inputs[1](i[1 - time]));
        return tir::select(i[time] < length, x(i), mask);
      },
      "sequence_mask", tag::kInjective)};
}

Type SlidingWindowInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<SlidingWindowAttrs>();
  const size_t rank = data->shape.size();
  const auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, rank));
  CheckSpatial(attrs->window_shape, rank - axis, 1, "window_shape");
  CheckSpatial(attrs->strides, rank - axis, 1, "strides");
  Array<PrimExpr> shape(data->shape.begin(), data->shape.begin() + static_cast<std::ptrdiff_t>(axis));
  for (size_t i = axis; i < rank; ++i) {
    const int64_t span = attrs->window_shape[i - axis];
    RequireWindow(context, data->shape[i], 0, span);
    shape.push_back(WindowDim(data->shape[i], 0, span, attrs->strides[i - axis]));
  }
  for (int64_t size : attrs->window_shape) shape.push_back(Dim(size));
  return TensorType(shape, data->dtype);
}

Array<Tensor> SlidingWindowCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<SlidingWindowAttrs>();
  const Tensor& x = inputs[0];
  const auto axis = static_cast<size_t>(NormalizeAxis(a->axis, x.ndim()));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> from(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(axis));
        for (size_t d = axis; d < x.ndim(); ++d) from.push_back(i[d] * a->strides[d - axis] + i[x.ndim() + d - axis]);
        return x(from);
      },
      "sliding_window", tag::kInjective)};
}

/// (data, v, begin, end, strides): lists of one number for each dimension.
Type StridedSetInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* v = context.Tensor(1, "v");
  CheckSameDType(data, v);
  CheckRank(v, data->shape.size(), "v");
  const char* const names[] = {"begin", "end", "strides"};
  for (int i = 0; i < 3; ++i) {
    const auto* list = context.Tensor(2 + i, names[i]);
    CheckRank(list, 1, names[i]);
    CheckIntegral(list, names[i]);
    if (DimValue(list->shape[0]) != static_cast<int64_t>(data->shape.size())) {
      throw ShapeError(StrCat(names[i], " must have one entry for each dimension of ", TypeText(data)));
    }
  }
  return context.type(0);
}

Array<Tensor> StridedSetCompute(const Attrs&, const Array<Tensor>& inputs, const Type&) {
  const Tensor& x = inputs[0];
  const Tensor& v = inputs[1];
  return {Compute(
      x->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr written = tir::make_bool(true);
        Array<PrimExpr> from;
        for (size_t d = 0; d < x.ndim(); ++d) {
          if (IsEmptyDim(v->shape[d])) return x(i);
          auto entry = [&](size_t list) {
            return tir::cast(DataType::Int(64), inputs[list](Index(static_cast<int64_t>(d))));
          };
          PrimExpr size = x->shape[d];
          PrimExpr stride = entry(4);
          PrimExpr forward = stride > 0;
          auto bound = [&](const PrimExpr& raw) {
            PrimExpr counted = tir::select(raw < 0, raw + size, raw);
            return tir::select(forward, Clamp(counted, Index(0), size), Clamp(counted, Index(-1), size - 1));
          };
          PrimExpr begin = bound(entry(2));
          PrimExpr end = bound(entry(3));
          PrimExpr inside = tir::select(forward, i[d] >= begin && i[d] < end, i[d] <= begin && i[d] > end);
          PrimExpr distance = i[d] - begin;
          PrimExpr step = tir::truncdiv(distance, stride);
          written = written && inside && tir::equal(step * stride, distance) && step < v->shape[d];
          from.push_back(Clamp(step, Index(0), v->shape[d] - 1));
        }
        return tir::if_then_else(written, v(from), x(i));
      },
      "strided_set", tag::kInjective)};
}

OpRegistration Injective(const char* name, const char* text, TypeRelationFn relation, FTECompute compute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(3)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, std::move(compute));
}

}  // namespace

void RegisterSliceOps() {
  Injective("strided_slice", "Every so manieth element of a range of each dimension.", Rule<StridedSliceInfer>,
            StridedSliceCompute)
      .AttrsType<StridedSliceAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(relay::kLayoutRule, relay::FLayoutRule(StridedSliceLayoutRule))
      .Set(kGradient, FGradient(gradient::OfStridedSlice));
  Injective("strided_set", "A copy with a strided slice replaced.", Rule<StridedSetInfer>, StridedSetCompute)
      .Arguments({{"data", "Tensor", "The input."},
                  {"v", "Tensor", "The slice's new values."},
                  {"begin", "Tensor", "First index of each dimension."},
                  {"end", "Tensor", "Bound of each dimension."},
                  {"strides", "Tensor", "Step of each dimension."}});
  Injective("slice_like", "The first elements, as many as the other tensor has.", Rule<SliceLikeInfer>,
            SliceLikeCompute)
      .Arguments({{"data", "Tensor", "The input."}, {"slice_like", "Tensor", "Has the sizes of the result."}})
      .AttrsType<SliceLikeAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  Injective("reverse", "The elements of a dimension in reverse.", Rule<ReverseInfer>, ReverseCompute)
      .AttrsType<ReverseAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  Injective("reverse_sequence", "The first elements of a dimension in reverse, as many as each batch says.",
            Rule<ReverseSequenceInfer>, ReverseSequenceCompute)
      .Arguments({{"data", "Tensor", "The input."}, {"seq_lengths", "Tensor", "Length of each batch."}})
      .AttrsType<ReverseSequenceAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
  Injective("sequence_mask", "Elements past each batch's length replaced by a value.", Rule<SequenceMaskInfer>,
            SequenceMaskCompute)
      .Arguments({{"data", "Tensor", "The input."}, {"valid_length", "Tensor", "Length of each batch."}})
      .AttrsType<SequenceMaskAttrs>();
  Injective("sliding_window",
            "The windows of some elements of each dimension from `axis` on, as dimensions of their own.",
            Rule<SlidingWindowInfer>, SlidingWindowCompute)
      .AttrsType<SlidingWindowAttrs>()
      .Set(kValueRule, ValueRule::kMoves);
}

}  // namespace treadle::ops
