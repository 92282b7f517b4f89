// SPDX-License-Identifier: Apache-2.0
// Moving blocks of pixels to the batch and back. Semantics: TensorFlow's SpaceToBatchND and BatchToSpaceND.
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/pad.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/vision.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(SpaceToBatchNDAttrs);
TREADLE_DEFINE_NODE(BatchToSpaceNDAttrs);
TREADLE_DEFINE_NODE(YoloReorgAttrs);

namespace {

PrimExpr DivideExactly(const InferContext& context, const PrimExpr& dim, int64_t by, const TensorTypeNode* data) {
  if (DimValue(dim) >= 0 && DimValue(dim) % by != 0) {
    throw ShapeError(StrCat("dimension of size ", DimValue(dim), " of ", TypeText(data), " isn't a multiple of ", by));
  }
  RequireMultiple(context, dim, by);
  return DimFloorDiv(dim, Dim(by));
}

int64_t BlockProduct(const std::vector<int64_t>& block) {
  return DimValue(DimProduct(MakeDims(block), 0, block.size()));
}

Type SpaceToBatchInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<SpaceToBatchNDAttrs>();
  size_t rank = attrs->block_shape.size();
  CheckSpatial(attrs->block_shape, rank, 1, "block_shape");
  if (data->shape.size() < rank + 1) throw ShapeError(StrCat(TypeText(data), " has too few dimensions"));
  auto pads = PadPairs(attrs->paddings, rank);
  Array<PrimExpr> out = data->shape;
  out.Set(0, DimMul(out[0], Dim(BlockProduct(attrs->block_shape))));
  for (size_t i = 0; i < rank; ++i) {
    PrimExpr padded = DimAdd(DimAdd(out[1 + i], Dim(pads[i].first)), Dim(pads[i].second));
    out.Set(1 + i, DivideExactly(context, padded, attrs->block_shape[i], data));
  }
  return TensorType(out, data->dtype);
}

Array<Tensor> SpaceToBatchCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<SpaceToBatchNDAttrs>();
  size_t rank = a->block_shape.size();
  std::vector<int64_t> before(inputs[0].ndim(), 0), after(inputs[0].ndim(), 0);
  auto pads = PadPairs(a->paddings, rank);
  for (size_t i = 0; i < rank; ++i) {
    before[1 + i] = pads[i].first;
    after[1 + i] = pads[i].second;
  }
  Tensor x = Pad(inputs[0], before, after, SaturatedConst(inputs[0]->dtype, a->pad_value));
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr batch = inputs[0]->shape[0];
        Array<PrimExpr> offset = UnflattenIndex(tir::indexdiv(i[0], batch), MakeDims(a->block_shape));
        Array<PrimExpr> at = i;
        at.Set(0, tir::indexmod(i[0], batch));
        for (size_t d = 0; d < rank; ++d) at.Set(1 + d, i[1 + d] * a->block_shape[d] + offset[d]);
        return x(at);
      },
      "space_to_batch_nd", tag::kInjective)};
}

Type BatchToSpaceInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<BatchToSpaceNDAttrs>();
  size_t rank = attrs->block_shape.size();
  CheckSpatial(attrs->block_shape, rank, 1, "block_shape");
  if (data->shape.size() < rank + 1) throw ShapeError(StrCat(TypeText(data), " has too few dimensions"));
  auto crops = PadPairs(attrs->crops, rank);
  Array<PrimExpr> out = data->shape;
  out.Set(0, DivideExactly(context, out[0], BlockProduct(attrs->block_shape), data));
  for (size_t i = 0; i < rank; ++i) {
    PrimExpr whole = DimMul(out[1 + i], Dim(attrs->block_shape[i]));
    PrimExpr cropped = DimSub(DimSub(whole, Dim(crops[i].first)), Dim(crops[i].second));
    if (AsConstInt(cropped) != nullptr && DimValue(cropped) < 0) throw ShapeError("crops remove more than there is");
    out.Set(1 + i, cropped);
  }
  return TensorType(out, data->dtype);
}

Array<Tensor> BatchToSpaceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<BatchToSpaceNDAttrs>();
  size_t rank = a->block_shape.size();
  auto crops = PadPairs(a->crops, rank);
  const TensorTypeNode* out = OutTensor(out_type);
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr block = Index(0);
        Array<PrimExpr> at = i;
        for (size_t d = 0; d < rank; ++d) {
          PrimExpr position = i[1 + d] + crops[d].first;
          block = block * a->block_shape[d] + tir::indexmod(position, Index(a->block_shape[d]));
          at.Set(1 + d, tir::indexdiv(position, Index(a->block_shape[d])));
        }
        at.Set(0, block * out->shape[0] + i[0]);
        return inputs[0](at);
      },
      "batch_to_space_nd", tag::kInjective)};
}

/// NCHW: each block of stride x stride pixels becomes channels.
Type YoloReorgInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  int64_t stride = context.attrs<YoloReorgAttrs>()->stride;
  CheckRank(data, 4, "data");
  if (stride < 1) throw ShapeError(StrCat("stride must be at least 1, is ", stride));
  return TensorType(
      {data->shape[0], DimMul(data->shape[1], Dim(stride * stride)),
       DivideExactly(context, data->shape[2], stride, data), DivideExactly(context, data->shape[3], stride, data)},
      data->dtype);
}

OpRegistration Injective(const char* name, const char* text, TypeRelationFn relation) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(5)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kInjective);
}

}  // namespace

void RegisterBlockOps() {
  Injective("nn.space_to_batch_nd", "Blocks of pixels become batches.", Rule<SpaceToBatchInfer>)
      .AttrsType<SpaceToBatchNDAttrs>()
      .Set(kCompute, FTECompute(SpaceToBatchCompute));
  Injective("nn.batch_to_space_nd", "Batches become blocks of pixels.", Rule<BatchToSpaceInfer>)
      .AttrsType<BatchToSpaceNDAttrs>()
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kCompute, FTECompute(BatchToSpaceCompute));
  Injective("vision.yolo_reorg", "Blocks of pixels become channels.", Rule<YoloReorgInfer>).AttrsType<YoloReorgAttrs>();
}

}  // namespace treadle::ops
