// SPDX-License-Identifier: Apache-2.0
// Operators of object detection. Semantics: ONNX RoiAlign-16 and MaxRoiPool-22.
#include "treadle/ops/attrs/vision.h"

#include <algorithm>
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

/// A box on the image, and the size of its bins.
struct RoiBox {
  PrimExpr batch, y1, x1, bin_h, bin_w;
};

RoiBox BoxOf(const ROIAlignAttrs* a, const tir::Buffer& rois, const PrimExpr& row, const Tensor& x) {
  auto roi = [&](int64_t k) { return tir::cast(kReal, Load(rois, {row, Index(k)})); };
  const PrimExpr shift = F(a->aligned ? 0.5 : 0), scale = F(a->spatial_scale);
  const PrimExpr x1 = roi(1) * scale - shift, y1 = roi(2) * scale - shift;
  PrimExpr w = roi(3) * scale - shift - x1, h = roi(4) * scale - shift - y1;
  if (!a->aligned) {
    w = tir::max(w, F(1));
    h = tir::max(h, F(1));
  }
  return {Clamp(tir::cast(DataType::Int(64), roi(0)), Index(0), x->shape[0] - 1), y1, x1,
          tir::div(h, F(static_cast<double>(a->pooled_size[0]))),
          tir::div(w, F(static_cast<double>(a->pooled_size[1])))};
}

/// Where sample `s` of `n` of a bin lies along a dimension of that size: cut to it, and whether it was in reach.
struct Sample {
  PrimExpr at, inside;
  Sample(const PrimExpr& begin, const PrimExpr& p, const PrimExpr& bin, const PrimExpr& s, const PrimExpr& n,
         const PrimExpr& size) {
    const PrimExpr extent = tir::cast(kReal, size);
    const PrimExpr position =
        begin + tir::cast(kReal, p) * bin + tir::div((tir::cast(kReal, s) + F(0.5)) * bin, tir::cast(kReal, n));
    at = tir::max(tir::min(position, extent - F(1)), F(0));
    inside = position >= F(-1) && position <= extent;
  }
};

PrimExpr Before(const PrimExpr& at, const PrimExpr& size) {
  return Clamp(tir::cast(DataType::Int(64), at), Index(0), size - 1);
}

/// Samples of a bin along a dimension: a number that is known, or as many as the bin has pixels. None in boxes that
/// end before they begin: their result is 0.
PrimExpr SamplesOf(const ROIAlignAttrs* a, const PrimExpr& bin) {
  if (a->sample_ratio > 0) return Index(a->sample_ratio);
  return Clamp(tir::cast(DataType::Int(64), tir::ceil(bin)), Index(0), Index(kMostSamples));
}

/// Averages of at most kTabled samples per bin and dimension: rows and columns of all samples of a box are found once
/// for all channels.
class AlignedByTables {
 public:
  static constexpr int64_t kTabled = 32;

  AlignedByTables(const ROIAlignAttrs* a, const Tensor& x, const Array<PrimExpr>& shape, const Array<tir::Buffer>& in,
                  const tir::Buffer& out)
      : a_(a), x_(x), shape_(shape), in_(in), out_(out) {
    const int64_t most = a->sample_ratio > 0 ? a->sample_ratio : kTabled;
    rows_ = TableOf("row", a->pooled_size[0] * most);
    columns_ = TableOf("column", a->pooled_size[1] * most);
    sums_ = tir::DeclBuffer({Index(2)}, kReal, "sums", "local");
  }

  tir::Stmt Box(const PrimExpr& roi, const RoiBox& box, const PrimExpr& grid_h, const PrimExpr& grid_w) const {
    tir::Stmt channels = LetIn("batch", box.batch, [&](const PrimExpr& batch) -> tir::Stmt {
      return LoopNest({shape_[1], shape_[2], shape_[3]}, "c", [&](const Array<PrimExpr>& c) -> tir::Stmt {
        return Average({roi, c[0], c[1], c[2]}, batch, grid_h, grid_w);
      });
    });
    tir::Stmt all = tir::SeqStmt(
        Array<tir::Stmt>{Fill(rows_, a_->pooled_size[0], box.y1, box.bin_h, grid_h, x_->shape[2]),
                         Fill(columns_, a_->pooled_size[1], box.x1, box.bin_w, grid_w, x_->shape[3]), channels});
    for (const Table& table : {rows_, columns_}) all = tir::Allocate(table.places, tir::Allocate(table.weights, all));
    return tir::Allocate(sums_, all);
  }

 private:
  struct Table {
    tir::Buffer places, weights;  ///< (samples, 2): the element before a sample and the next one
  };

  static Table TableOf(const char* name, int64_t size) {
    return {tir::DeclBuffer({Index(size), Index(2)}, DataType::Int(64), StrCat(name, "_places"), "local"),
            tir::DeclBuffer({Index(size), Index(2)}, kReal, StrCat(name, "_weights"), "local")};
  }

  static tir::Stmt Fill(const Table& table, int64_t bins, const PrimExpr& begin, const PrimExpr& bin,
                        const PrimExpr& samples, const PrimExpr& size) {
    return LoopNest({Index(bins), samples}, "p", [&](const Array<PrimExpr>& p) -> tir::Stmt {
      const Sample sample(begin, p[0], bin, p[1], samples, size);
      const PrimExpr row = p[0] * samples + p[1], one = Index(1);
      return LetIn("at", sample.at, [&](const PrimExpr& at) {
        return LetIn("before", Before(at, size), [&](const PrimExpr& before) -> tir::Stmt {
          const PrimExpr part = at - tir::cast(kReal, before);
          return tir::SeqStmt(
              Array<tir::Stmt>{Store(table.places, before, {row, Index(0)}),
                               Store(table.places, tir::min(before + 1, size - 1), {row, one}),
                               Store(table.weights, tir::select(sample.inside, F(1) - part, F(0)), {row, Index(0)}),
                               Store(table.weights, tir::select(sample.inside, part, F(0)), {row, one})});
        });
      });
    });
  }

  /// out[i]: the sum over samples of rows, of the sum over those of columns.
  tir::Stmt Average(const Array<PrimExpr>& i, const PrimExpr& batch, const PrimExpr& grid_h,
                    const PrimExpr& grid_w) const {
    auto unrolled = [](const PrimExpr& extent, const char* name, const std::function<tir::Stmt(PrimExpr)>& body) {
      tir::Var var(name, extent.dtype());
      const bool few = AsConstInt(extent) != nullptr && DimValue(extent) <= 4;
      return tir::For(var, tir::make_zero(extent.dtype()), extent,
                      few ? tir::ForKind::kUnrolled : tir::ForKind::kSerial, body(var));
    };
    auto add = [&](int64_t sum, const PrimExpr& value) {
      return Store(sums_, Load(sums_, {Index(sum)}) + value, {Index(sum)});
    };
    auto clear = [&](int64_t sum) { return Store(sums_, F(0), {Index(sum)}); };
    tir::Stmt rows = unrolled(grid_h, "sy", [&](const PrimExpr& sy) -> tir::Stmt {
      Array<tir::Stmt> both;
      for (int64_t k = 0; k < 2; ++k) {
        const Array<PrimExpr> row{i[2] * grid_h + sy, Index(k)};
        tir::Stmt along = unrolled(grid_w, "sx", [&](const PrimExpr& sx) -> tir::Stmt {
          PrimExpr total = F(0);
          for (int64_t m = 0; m < 2; ++m) {
            const Array<PrimExpr> column{i[3] * grid_w + sx, Index(m)};
            const PrimExpr value = Load(in_[0], {batch, i[1], Load(rows_.places, row), Load(columns_.places, column)});
            total = total + tir::cast(kReal, value) * Load(columns_.weights, column);
          }
          return add(1, total);
        });
        both.push_back(clear(1));
        both.push_back(along);
        both.push_back(add(0, Load(sums_, {Index(1)}) * Load(rows_.weights, row)));
      }
      return tir::SeqStmt(both);
    });
    const PrimExpr count = tir::max(grid_h * grid_w, Index(1));
    const PrimExpr mean = tir::div(Load(sums_, {Index(0)}), tir::cast(kReal, count));
    return tir::SeqStmt(Array<tir::Stmt>{clear(0), rows, Store(out_, tir::cast(out_->dtype, mean), i)});
  }

  const ROIAlignAttrs* a_;
  const Tensor& x_;
  const Array<PrimExpr>& shape_;
  const Array<tir::Buffer>& in_;
  const tir::Buffer& out_;
  Table rows_, columns_;
  tir::Buffer sums_;
};

/// One element from its samples, each found anew.
tir::Stmt AlignedBySamples(const ROIAlignAttrs* a, const Tensor& x, const RoiBox& box, const PrimExpr& grid_h,
                           const PrimExpr& grid_w, const Array<PrimExpr>& i, const tir::Buffer& data,
                           const tir::Buffer& out) {
  const bool max = a->mode == "max";
  const PrimExpr samples = grid_h * grid_w, zero = tir::make_zero(out->dtype);
  PrimExpr init = max ? tir::select(samples > Index(0), tir::neg_infinity(out->dtype), zero) : zero;
  tir::Stmt accumulate = Loop(grid_h, "sy", [&](const PrimExpr& sy) {
    return Loop(grid_w, "sx", [&](const PrimExpr& sx) {
      const Sample row(box.y1, i[2], box.bin_h, sy, grid_h, x->shape[2]);
      const Sample column(box.x1, i[3], box.bin_w, sx, grid_w, x->shape[3]);
      return LetIn("y", row.at, [&](const PrimExpr& yc) {
        return LetIn("x", column.at, [&](const PrimExpr& xc) {
          PrimExpr y0 = Before(yc, x->shape[2]), x0 = Before(xc, x->shape[3]);
          PrimExpr y_next = tir::min(y0 + 1, x->shape[2] - 1), x_next = tir::min(x0 + 1, x->shape[3] - 1);
          PrimExpr ly = yc - tir::cast(kReal, y0), lx = xc - tir::cast(kReal, x0);
          auto at = [&](const PrimExpr& r, const PrimExpr& c, const PrimExpr& weight) {
            return tir::cast(kReal, Load(data, {box.batch, i[1], r, c})) * weight;
          };
          PrimExpr parts[4] = {at(y0, x0, (F(1) - ly) * (F(1) - lx)), at(y0, x_next, (F(1) - ly) * lx),
                               at(y_next, x0, ly * (F(1) - lx)), at(y_next, x_next, ly * lx)};
          PrimExpr value = max ? tir::max(tir::max(parts[0], parts[1]), tir::max(parts[2], parts[3]))
                               : parts[0] + parts[1] + parts[2] + parts[3];
          value = tir::cast(out->dtype, tir::select(row.inside && column.inside, value, F(0)));
          PrimExpr old = Load(out, i);
          return Store(out, max ? tir::max(old, value) : old + value, i);
        });
      });
    });
  });
  Array<tir::Stmt> steps = {Store(out, init, i), accumulate};
  if (!max) {
    PrimExpr count = tir::cast(out->dtype, tir::max(samples, Index(1)));
    steps.push_back(Store(out, tir::div(Load(out, i), count), i));
  }
  return tir::SeqStmt(steps);
}

Array<Tensor> RoiAlignCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ROIAlignAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  const Tensor& x = inputs[0];
  constexpr int64_t kMostBins = 64;  // so that tables stay in the L1 cache
  const bool by_tables = a->mode == "avg" && a->sample_ratio <= AlignedByTables::kTabled &&
                         std::max(a->pooled_size[0], a->pooled_size[1]) <= kMostBins;
  auto regions = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    return LoopNest(
        {out->shape[0]}, "roi",
        [&](const Array<PrimExpr>& at) -> tir::Stmt {
          const RoiBox box = BoxOf(a, in[1], at[0], x);
          return LetIn("grid_h", SamplesOf(a, box.bin_h), [&](const PrimExpr& gh) {
            return LetIn("grid_w", SamplesOf(a, box.bin_w), [&](const PrimExpr& gw) -> tir::Stmt {
              const bool known = a->sample_ratio > 0;
              const PrimExpr grid_h = known ? Index(a->sample_ratio) : gh, grid_w = known ? Index(a->sample_ratio) : gw;
              auto one_by_one = [&] {
                return LoopNest({out->shape[1], out->shape[2], out->shape[3]}, "i", [&](const Array<PrimExpr>& i) {
                  return AlignedBySamples(a, x, box, grid_h, grid_w, {at[0], i[0], i[1], i[2]}, in[0], outs[0]);
                });
              };
              if (!by_tables) return one_by_one();
              tir::Stmt tabled = AlignedByTables(a, x, out->shape, in, outs[0]).Box(at[0], box, grid_h, grid_w);
              if (known) return tabled;
              const PrimExpr most = Index(AlignedByTables::kTabled);
              return tir::IfThenElse(grid_h <= most && grid_w <= most, tabled, one_by_one());
            });
          });
        },
        true);
  };
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) -> tir::Stmt {
    const tir::Stmt averages = regions(in, outs);
    const PrimExpr pixels = DimMul(x->shape[2], x->shape[3]);
    if (AsConstInt(pixels) != nullptr && DimValue(pixels) > 0) return averages;
    const tir::Stmt zeros = LoopNest(out->shape, "i", [&](const Array<PrimExpr>& i) -> tir::Stmt {
      return Store(outs[0], tir::make_zero(out->dtype), i);
    });
    return tir::IfThenElse(pixels > 0, averages, zeros);
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
