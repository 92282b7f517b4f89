// SPDX-License-Identifier: Apache-2.0
// Operators of object detection. Semantics: ONNX RoiAlign-16 and MaxRoiPool-22.
#include "treadle/ops/attrs/vision.h"

#include <cmath>

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ROIAlignAttrs);
TREADLE_DEFINE_NODE(ROIPoolAttrs);

namespace {

const DataType kReal = DataType::Float(32);
PrimExpr F(double value) { return tir::make_const(kReal, value); }

/// data (N, C, H, W), rois (R, 5): batch, x1, y1, x2, y2.
template <typename AttrsT>
Type RoiInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* rois = context.Tensor(1, "rois");
  const auto* attrs = context.attrs<AttrsT>();
  CheckRank(data, 4, "data");
  CheckRank(rois, 2, "rois");
  CheckSpatial(attrs->pooled_size, 2, 1, "pooled_size");
  if (attrs->layout != "NCHW") throw ShapeError(StrCat("layout must be NCHW, not \"", attrs->layout, "\""));
  if (DimValue(rois->shape[1]) != 5) throw ShapeError(StrCat("rois must have shape (boxes, 5), not ", TypeText(rois)));
  return TensorType({rois->shape[0], data->shape[1], Dim(attrs->pooled_size[0]), Dim(attrs->pooled_size[1])},
                    data->dtype);
}

Type RoiAlignInfer(const InferContext& context) {
  const auto* attrs = context.attrs<ROIAlignAttrs>();
  if (attrs->mode != "avg" && attrs->mode != "max") {
    throw ShapeError(StrCat("mode must be avg or max, not \"", attrs->mode, "\""));
  }
  return RoiInfer<ROIAlignAttrs>(context);
}

/// Boxes beyond any image are cut: samples per bin stay within reason whatever the box is.
constexpr int64_t kMostSamples = 1024;

Array<Tensor> RoiAlignCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ROIAlignAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  bool max = a->mode == "max";
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    return LoopNest(
        out->shape, "i",
        [&](const Array<PrimExpr>& i) -> tir::Stmt {
          auto roi = [&](int64_t k) { return tir::cast(kReal, Load(in[1], {i[0], Index(k)})); };
          PrimExpr shift = F(a->aligned ? 0.5 : 0);
          PrimExpr x1 = roi(1) * F(a->spatial_scale) - shift, y1 = roi(2) * F(a->spatial_scale) - shift;
          PrimExpr w = roi(3) * F(a->spatial_scale) - shift - x1, h = roi(4) * F(a->spatial_scale) - shift - y1;
          if (!a->aligned) {
            w = tir::max(w, F(1));
            h = tir::max(h, F(1));
          }
          PrimExpr bin_h = tir::div(h, F(static_cast<double>(a->pooled_size[0])));
          PrimExpr bin_w = tir::div(w, F(static_cast<double>(a->pooled_size[1])));
          auto samples = [&](const PrimExpr& bin) {
            if (a->sample_ratio > 0) return Index(a->sample_ratio);
            return Clamp(tir::cast(DataType::Int(64), tir::ceil(bin)), Index(1), Index(kMostSamples));
          };
          PrimExpr grid_h = samples(bin_h), grid_w = samples(bin_w);
          PrimExpr batch = Clamp(tir::cast(DataType::Int(64), roi(0)), Index(0), x->shape[0] - 1);
          auto position = [](const PrimExpr& begin, const PrimExpr& p, const PrimExpr& bin, const PrimExpr& s,
                             const PrimExpr& n) {
            return begin + tir::cast(kReal, p) * bin +
                   tir::div((tir::cast(kReal, s) + F(0.5)) * bin, tir::cast(kReal, n));
          };
          PrimExpr init = max ? tir::neg_infinity(out->dtype) : tir::make_zero(out->dtype);
          tir::Stmt accumulate = Loop(grid_h, "sy", [&](const PrimExpr& sy) {
            return Loop(grid_w, "sx", [&](const PrimExpr& sx) {
              PrimExpr py = position(y1, i[2], bin_h, sy, grid_h), px = position(x1, i[3], bin_w, sx, grid_w);
              PrimExpr height = tir::cast(kReal, x->shape[2]), width = tir::cast(kReal, x->shape[3]);
              PrimExpr inside = py >= F(-1) && py <= height && px >= F(-1) && px <= width;
              auto clamp = [](const PrimExpr& p, const PrimExpr& size) {
                return tir::max(tir::min(p, size - F(1)), F(0));
              };
              return LetIn("y", clamp(py, height), [&](const PrimExpr& yc) {
                return LetIn("x", clamp(px, width), [&](const PrimExpr& xc) {
                  PrimExpr y0 = Clamp(tir::cast(DataType::Int(64), yc), Index(0), x->shape[2] - 1);
                  PrimExpr x0 = Clamp(tir::cast(DataType::Int(64), xc), Index(0), x->shape[3] - 1);
                  PrimExpr y_next = tir::min(y0 + 1, x->shape[2] - 1), x_next = tir::min(x0 + 1, x->shape[3] - 1);
                  PrimExpr ly = yc - tir::cast(kReal, y0), lx = xc - tir::cast(kReal, x0);
                  auto at = [&](const PrimExpr& r, const PrimExpr& c, const PrimExpr& weight) {
                    return tir::cast(kReal, Load(in[0], {batch, i[1], r, c})) * weight;
                  };
                  PrimExpr parts[4] = {at(y0, x0, (F(1) - ly) * (F(1) - lx)), at(y0, x_next, (F(1) - ly) * lx),
                                       at(y_next, x0, ly * (F(1) - lx)), at(y_next, x_next, ly * lx)};
                  PrimExpr value = max ? tir::max(tir::max(parts[0], parts[1]), tir::max(parts[2], parts[3]))
                                       : parts[0] + parts[1] + parts[2] + parts[3];
                  value = tir::cast(out->dtype, tir::select(inside, value, F(0)));
                  PrimExpr old = Load(outs[0], i);
                  return Store(outs[0], max ? tir::max(old, value) : old + value, i);
                });
              });
            });
          });
          Array<tir::Stmt> steps = {Store(outs[0], init, i), accumulate};
          if (!max) {
            PrimExpr count = tir::cast(out->dtype, grid_h * grid_w);
            steps.push_back(Store(outs[0], tir::div(Load(outs[0], i), count), i));
          }
          return tir::SeqStmt(steps);
        },
        true);
  };
  return {te::Extern({out->shape}, {out->dtype}, inputs, body, "roi_align", "roi_align")[0]};
}

Array<Tensor> RoiPoolCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ROIPoolAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    return LoopNest(
        out->shape, "i",
        [&](const Array<PrimExpr>& i) -> tir::Stmt {
          auto corner = [&](int64_t k) {
            PrimExpr scaled = tir::cast(kReal, Load(in[1], {i[0], Index(k)})) * F(a->spatial_scale);
            return tir::cast(DataType::Int(64), tir::floor(scaled + F(0.5)));
          };
          PrimExpr batch =
              Clamp(tir::cast(DataType::Int(64), Load(in[1], {i[0], Index(0)})), Index(0), x->shape[0] - 1);
          auto range = [&](size_t d, const PrimExpr& begin, const PrimExpr& end, const PrimExpr& size, PrimExpr* low) {
            PrimExpr extent = tir::max(end - begin + 1, Index(1));
            PrimExpr pooled = Index(a->pooled_size[d]);
            *low = Clamp(tir::floordiv(i[2 + d] * extent, pooled) + begin, Index(0), size);
            PrimExpr high =
                Clamp(tir::floordiv((i[2 + d] + 1) * extent + (pooled - 1), pooled) + begin, Index(0), size);
            return tir::max(high - *low, Index(0));
          };
          PrimExpr y0, x0;
          PrimExpr rows = range(0, corner(2), corner(4), x->shape[2], &y0);
          PrimExpr columns = range(1, corner(1), corner(3), x->shape[3], &x0);
          PrimExpr empty = tir::equal(rows * columns, Index(0));
          PrimExpr init = tir::select(empty, tir::make_zero(out->dtype), tir::neg_infinity(out->dtype));
          tir::Stmt pool = Loop(rows, "y", [&](const PrimExpr& y) {
            return Loop(columns, "x", [&](const PrimExpr& c) {
              PrimExpr row = tir::min(y0 + y, x->shape[2] - 1), column = tir::min(x0 + c, x->shape[3] - 1);
              return Store(outs[0], tir::max(Load(outs[0], i), Load(in[0], {batch, i[1], row, column})), i);
            });
          });
          return tir::SeqStmt(Array<tir::Stmt>{Store(outs[0], init, i), pool});
        },
        true);
  };
  return {te::Extern({out->shape}, {out->dtype}, inputs, body, "roi_pool", "roi_pool")[0]};
}

}  // namespace

void RegisterVisionOps() {
  const std::vector<OpArgument> arguments = {{"data", "Tensor", "(N, C, H, W)"},
                                             {"rois", "Tensor", "(boxes, 5): batch, x1, y1, x2, y2"}};
  OpRegistration("vision.roi_align")
      .Describe("Bilinear samples of each box, pooled to a grid.")
      .Arguments(arguments)
      .AttrsType<ROIAlignAttrs>()
      .SupportLevel(5)
      .Relation(Rule<RoiAlignInfer>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kCompute, FTECompute(RoiAlignCompute));
  OpRegistration("vision.roi_pool")
      .Describe("The greatest elements of the parts of each box.")
      .Arguments(arguments)
      .AttrsType<ROIPoolAttrs>()
      .SupportLevel(5)
      .Relation(Rule<RoiInfer<ROIPoolAttrs>>)
      .Set(kOpPattern, OpPatternKind::kOutEWiseFusable)
      .Set(kCompute, FTECompute(RoiPoolCompute))
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow);
}

}  // namespace treadle::ops
