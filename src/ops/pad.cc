// SPDX-License-Identifier: Apache-2.0
// Padding. Semantics: ONNX Pad-21.
#include "ops/pad.h"

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout_rules.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/compute.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(PadAttrs);
TREADLE_DEFINE_NODE(MirrorPadAttrs);
TREADLE_DEFINE_NODE(DilateAttrs);

std::vector<std::pair<int64_t, int64_t>> PadPairs(const Array<Array<PrimExpr>>& pad_width, size_t rank) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  if (pad_width.size() != rank) {
    throw ShapeError(StrCat("pad_width has ", pad_width.size(), " entries for rank ", rank));
  }
  for (const Array<PrimExpr>& pair : pad_width) {
    if (pair.size() != 2 || AsConstInt(pair[0]) == nullptr || AsConstInt(pair[1]) == nullptr) {
      throw ShapeError("each entry of pad_width must be a pair of integer constants");
    }
    pairs.emplace_back(DimValue(pair[0]), DimValue(pair[1]));
  }
  return pairs;
}

namespace {

/// `limit`: a mirrored or wrapped side may be at most the dimension less this many elements; negative: any. `repeats`:
/// that isn't so of dimensions which only the run knows.
Array<PrimExpr> PaddedShape(const InferContext& context, const TensorTypeNode* data,
                            const std::vector<std::pair<int64_t, int64_t>>& pairs, int64_t limit,
                            bool repeats = false) {
  Array<PrimExpr> out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto [before, after] = pairs[i];
    PrimExpr dim = data->shape[i];
    int64_t n = DimValue(dim);
    const int64_t most = std::max<int64_t>(n - limit, 0);  // nothing can be added to nothing
    if (limit >= 0 && AsConstInt(dim) != nullptr && (before > most || after > most)) {
      throw ShapeError(StrCat("padding (", before, ", ", after, ") of dimension ", i, " needs more elements than ",
                              TypeText(data), " has"));
    }
    if (limit >= 0 && (before > 0 || after > 0)) {
      RequireAtLeast(context, dim, repeats ? Dim(1) : DimAdd(Dim(std::max(before, after)), Dim(limit)));
    }
    if (AsConstInt(dim) == nullptr && before + after < 0) RequireAtLeast(context, dim, Dim(-(before + after)));
    PrimExpr padded = DimAdd(DimAdd(dim, Dim(before)), Dim(after));
    if (AsConstInt(padded) != nullptr && DimValue(padded) < 0) {
      throw ShapeError(StrCat("padding (", before, ", ", after, ") removes more of dimension ", i, " than ",
                              TypeText(data), " has"));
    }
    out.push_back(padded);
  }
  return out;
}

Type PadInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<PadAttrs>();
  if (context.num_inputs() > 1) {
    const auto* value = context.Tensor(1, "pad_value");
    if (DimValue(DimProduct(value->shape, 0, value->shape.size())) != 1) {
      throw ShapeError(StrCat("pad_value must be a scalar, not ", TypeText(value)));
    }
    CheckSameDType(data, value);
  }
  int64_t limit = -1;
  if (attrs->pad_mode == "reflect") {
    limit = 1;
  } else if (attrs->pad_mode == "wrap") {
    limit = 0;
  } else if (attrs->pad_mode == "edge") {
    const auto pairs = PadPairs(attrs->pad_width, data->shape.size());
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i].first > 0 || pairs[i].second > 0) RequireNonEmpty(context, data, i);
    }
  } else if (attrs->pad_mode != "constant") {
    throw ShapeError(StrCat("pad_mode must be constant, edge, reflect or wrap, not \"", attrs->pad_mode, "\""));
  }
  const bool repeats = attrs->pad_mode == "reflect";
  return TensorType(PaddedShape(context, data, PadPairs(attrs->pad_width, data->shape.size()), limit, repeats),
                    data->dtype);
}

Type MirrorPadInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<MirrorPadAttrs>();
  if (attrs->mode != "SYMMETRIC" && attrs->mode != "REFLECT") {
    throw ShapeError(StrCat("mode must be SYMMETRIC or REFLECT, not \"", attrs->mode, "\""));
  }
  int64_t limit = attrs->mode == "REFLECT" ? 1 : 0;
  return TensorType(PaddedShape(context, data, PadPairs(attrs->pad_width, data->shape.size()), limit), data->dtype);
}

Type DilateInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<DilateAttrs>();
  CheckSpatial(attrs->strides, data->shape.size(), 1, "strides");
  Array<PrimExpr> out;
  for (size_t i = 0; i < data->shape.size(); ++i) {
    out.push_back(DimAdd(DimMul(DimSub(data->shape[i], Dim(1)), Dim(attrs->strides[i])), Dim(1)));
  }
  return TensorType(out, data->dtype);
}

/// Where element `p` of a padded dimension comes from, `n` being the size of the dimension and `p` counted from its
/// first element. `symmetric` repeats the edge.
PrimExpr MirroredIndex(const PrimExpr& p, const PrimExpr& n, bool symmetric) {
  int64_t edge = symmetric ? 1 : 0;
  PrimExpr low = tir::select(p < 0, -p - edge, p);
  PrimExpr high = n * 2 - (2 - edge) - low;
  return Clamp(tir::select(low >= n, high, low), Index(0), n - 1);
}

/// The same of a dimension that may have fewer elements than are added: there and back, as often as it takes.
PrimExpr ReflectedIndex(const PrimExpr& p, const PrimExpr& n) {
  if (AsConstInt(n) != nullptr) return MirroredIndex(p, n, false);
  const PrimExpr period = (n - 1) * 2, at = tir::floormod(p, tir::max(period, Index(1)));
  return Clamp(tir::select(at >= n, period - at, at), Index(0), n - 1);
}

/// A tensor whose elements are elements of `x`, dimension by dimension. Those of a row that are where they were are
/// said to be: loops over them are copies.
Array<Tensor> IndexPad(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const Type& out_type,
                       const std::function<PrimExpr(PrimExpr, PrimExpr)>& source, const char* name) {
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < i.size(); ++d) {
          if (IsEmptyDim(x->shape[d])) return tir::make_zero(x->dtype);
          PrimExpr p = pairs[d].first == 0 ? i[d] : i[d] - pairs[d].first;
          at.push_back(pairs[d].first <= 0 && pairs[d].second <= 0 ? p : source(p, x->shape[d]));
          if (d + 1 < i.size() || at[d].same_as(p)) continue;
          Array<PrimExpr> row = at;
          row.Set(d, p);
          return tir::if_then_else(p >= 0 && p < x->shape[d], x(row), x(at));
        }
        return x(at);
      },
      name, tag::kInjective)};
}

Array<Tensor> PadCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<PadAttrs>();
  const Tensor& x = inputs[0];
  auto pairs = PadPairs(a->pad_width, x.ndim());
  if (a->pad_mode == "edge") {
    // Chosen, not computed: the ends of rows are no gathers.
    auto nearest = [](const PrimExpr& p, const PrimExpr& n) {
      return tir::select(p < 0, Index(0), tir::select(p >= n, n - 1, p));
    };
    return IndexPad(x, pairs, out_type, nearest, "pad_edge");
  }
  if (a->pad_mode == "reflect") {
    return IndexPad(x, pairs, out_type, ReflectedIndex, "pad_reflect");
  }
  if (a->pad_mode == "wrap") {
    // No side has more elements than the dimension.
    auto wrapped = [](const PrimExpr& p, const PrimExpr& n) {
      return tir::select(p < 0, p + n, tir::select(p >= n, p - n, p));
    };
    return IndexPad(x, pairs, out_type, wrapped, "pad_wrap");
  }
  std::vector<int64_t> before, after;
  for (auto [first, second] : pairs) {
    before.push_back(first);
    after.push_back(second);
  }
  PrimExpr value = tir::make_zero(x->dtype);
  if (inputs.size() > 1) {
    Array<PrimExpr> zero;
    for (size_t i = 0; i < inputs[1].ndim(); ++i) zero.push_back(Index(0));
    value = inputs[1](zero);
  }
  Tensor padded = Pad(x, before, after, value, "pad");
  if (!padded.same_as(x)) return {padded};
  return {Compute(x->shape, [&](const Array<PrimExpr>& i) { return x(i); }, "pad", tag::kInjective)};
}

Array<Tensor> MirrorPadCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<MirrorPadAttrs>();
  bool symmetric = a->mode == "SYMMETRIC";
  auto mirrored = [&](const PrimExpr& p, const PrimExpr& n) { return MirroredIndex(p, n, symmetric); };
  return IndexPad(inputs[0], PadPairs(a->pad_width, inputs[0].ndim()), out_type, mirrored, "mirror_pad");
}

Array<Tensor> DilateCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<DilateAttrs>();
  const Tensor& x = inputs[0];
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        PrimExpr on_grid;
        for (size_t d = 0; d < i.size(); ++d) {
          PrimExpr stride = Index(a->strides[d]);
          at.push_back(a->strides[d] == 1 ? i[d] : tir::indexdiv(i[d], stride));
          if (a->strides[d] == 1) continue;
          PrimExpr here = tir::equal(tir::indexmod(i[d], stride), Index(0));
          on_grid = on_grid.defined() ? on_grid && here : here;
        }
        PrimExpr fill = SaturatedConst(x->dtype, a->dilation_value);
        return on_grid.defined() ? tir::if_then_else(on_grid, x(at), fill) : x(at);
      },
      "dilate", tag::kInjective)};
}

}  // namespace

void RegisterPadOps() {
  OpRegistration("nn.pad")
      .Describe("Adds elements around a tensor, or crops it where a width is negative.")
      .Arguments({{"data", "Tensor", "The input."}, {"pad_value", "Tensor", "Scalar, of pad_mode constant."}})
      .AttrsType<PadAttrs>()
      .SupportLevel(2)
      .Relation(Rule<PadInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(PadCompute))
      .Set(relay::kLayoutRule, relay::FLayoutRule(PadLayoutRule))
      .Set(kGradient, FGradient(gradient::OfPad));
  OpRegistration("nn.mirror_pad")
      .Describe("Adds mirrored elements around a tensor.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<MirrorPadAttrs>()
      .SupportLevel(2)
      .Relation(Rule<MirrorPadInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(MirrorPadCompute));
  OpRegistration("nn.dilate")
      .Describe("Puts a value between the elements of a tensor.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<DilateAttrs>()
      .SupportLevel(10)
      .Relation(Rule<DilateInfer>)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kCompute, FTECompute(DilateCompute));
}

}  // namespace treadle::ops
