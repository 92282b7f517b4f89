// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression. Semantics: ONNX NonMaxSuppression-11.
#include "ops/dynamic.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/dynamic.h"
#include "treadle/ops/attrs/vision.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/shape_function.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(NmsPaddedAttrs);
TREADLE_DEFINE_NODE(KeepBoxesAttrs);

namespace {

using te::Tensor;

/// boxes (batch, n, 4), scores (batch, classes, n), most (), iou_threshold (), score_threshold (): rows (most of all
/// classes, 3) of which the first `count` are set, count (1), and the state of each box (n).
Type NmsInfer(const InferContext& context) {
  const auto* boxes = context.Tensor(0, "boxes");
  const auto* scores = context.Tensor(1, "scores");
  CheckRank(boxes, 3, "boxes");
  CheckRank(scores, 3, "scores");
  CheckIntegral(context.Tensor(2, "most"), "most");
  CheckSameDType(boxes, scores);
  if (boxes->dtype != DataType::Float(32)) throw DTypeError("boxes must be float32");
  if (DimValue(boxes->shape[2]) != -1 && DimValue(boxes->shape[2]) != 4)
    throw ShapeError("boxes must have 4 coordinates");
  if (!context.Equal(boxes->shape[0], scores->shape[0]) || !context.Equal(boxes->shape[1], scores->shape[2])) {
    throw ShapeError("boxes and scores must have the same batch and number of boxes");
  }
  const DataType index = DataType::Int(64);
  return TupleType(Array<Type>{TensorType(Array<PrimExpr>{AnyDim(), Dim(3)}, index),
                               TensorType(Array<PrimExpr>{Dim(1)}, index),
                               TensorType(Array<PrimExpr>{boxes->shape[1]}, DataType::UInt(8))});
}

Array<Array<PrimExpr>> NmsShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& scores = operands[1]->shape;
  PrimExpr most = tir::min(tir::max(element(2, 0), Index(0)), scores[2]);
  return {{scores[0] * scores[1] * most, Index(3)}, {Index(1)}, {scores[2]}};
}

/// Corners (low y, low x, high y, high x) of a box in either form.
struct Box {
  PrimExpr y1, x1, y2, x2;
};

Box CornersOf(const tir::Buffer& boxes, const PrimExpr& batch, const PrimExpr& i, bool centered) {
  auto at = [&](int64_t k) { return Load(boxes, {batch, i, Index(k)}); };
  if (centered) {  // x, y, width, height
    const PrimExpr half = tir::make_const(DataType::Float(32), 0.5);
    return {at(1) - at(3) * half, at(0) - at(2) * half, at(1) + at(3) * half, at(0) + at(2) * half};
  }
  return {tir::min(at(0), at(2)), tir::min(at(1), at(3)), tir::max(at(0), at(2)), tir::max(at(1), at(3))};
}

/// What two boxes have in common, and the part of both together that it is.
std::pair<PrimExpr, PrimExpr> Overlap(const Box& a, const Box& b) {
  const PrimExpr zero = tir::make_zero(DataType::Float(32));
  PrimExpr height = tir::max(tir::min(a.y2, b.y2) - tir::max(a.y1, b.y1), zero);
  PrimExpr width = tir::max(tir::min(a.x2, b.x2) - tir::max(a.x1, b.x1), zero);
  PrimExpr common = height * width;
  PrimExpr all = (a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - common;
  return {common, tir::div(common, tir::max(all, tir::make_const(DataType::Float(32), 1e-37)))};
}

Array<Tensor> NmsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const bool centered = attrs.as<NmsPaddedAttrs>()->center_point_box;
  const DataType index = DataType::Int(64), flag = DataType::UInt(8);
  const Array<PrimExpr>& shape = OutTensor(out_type, 0)->shape;
  const PrimExpr batches = inputs[1]->shape[0], classes = inputs[1]->shape[1], count = inputs[1]->shape[2];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const Array<PrimExpr> none, first{Index(0)};
    const tir::Buffer &rows = out[0], &found = out[1], &state = out[2];
    const PrimExpr open = tir::make_const(flag, 1), closed = tir::make_const(flag, 0);
    // The best box that is left, or -1, and its score; looked for while those that overlap the last one are closed.
    const tir::Buffer best = tir::DeclBuffer({Index(1)}, index, "best", "local");
    const tir::Buffer best_score = tir::DeclBuffer({Index(1)}, DataType::Float(32), "best_score", "local");
    auto none_is_best = [&]() -> tir::Stmt { return Store(best, tir::make_const(index, -1), first); };
    auto compare = [&](const PrimExpr& score, const PrimExpr& i) -> tir::Stmt {
      tir::Stmt take =
          tir::SeqStmt(Array<tir::Stmt>{Store(best, tir::cast(index, i), first), Store(best_score, score, first)});
      return tir::IfThenElse(Load(best, first) < Index(0) || score > Load(best_score, first), take);
    };
    auto is_open = [&](const PrimExpr& i) { return tir::equal(Load(state, {i}), open); };
    auto keep = [&](const PrimExpr& batch, const PrimExpr& cls, const PrimExpr& row, const PrimExpr& chosen) {
      tir::Stmt close = Loop(count, "j", [&](const PrimExpr& j) -> tir::Stmt {
        const auto [common, ratio] =
            Overlap(CornersOf(in[0], batch, chosen, centered), CornersOf(in[0], batch, j, centered));
        const PrimExpr overlaps = common > tir::make_zero(DataType::Float(32)) && ratio > Load(in[3], none);
        return tir::IfThenElse(
            is_open(j), tir::IfThenElse(overlaps, Store(state, closed, {j}), compare(Load(in[1], {batch, cls, j}), j)));
      });
      return tir::SeqStmt::Flatten(Array<tir::Stmt>{
          Store(rows, tir::cast(index, batch), {row, Index(0)}), Store(rows, tir::cast(index, cls), {row, Index(1)}),
          Store(rows, chosen, {row, Index(2)}), Store(state, closed, {chosen}),
          Store(found, Load(found, first) + 1, first), none_is_best(), close});
    };
    const PrimExpr most = tir::min(tir::max(tir::cast(index, Load(in[2], none)), Index(0)), tir::cast(index, count));
    tir::Stmt all = LoopNest({batches, classes}, "c", [&](const Array<PrimExpr>& at) -> tir::Stmt {
      tir::Stmt begin = Loop(count, "i", [&](const PrimExpr& i) -> tir::Stmt {
        const PrimExpr score = Load(in[1], {at[0], at[1], i}), passes = score > Load(in[4], none);
        return tir::SeqStmt(Array<tir::Stmt>{Store(state, tir::select(passes, open, closed), {i}),
                                             tir::IfThenElse(passes, compare(score, i))});
      });
      tir::Stmt rounds = Loop(most, "k", [&](const PrimExpr&) -> tir::Stmt {
        tir::Stmt round = LetIn("row", Load(found, first), [&](const PrimExpr& row) -> tir::Stmt {
          return LetIn("chosen", Load(best, first),
                       [&](const PrimExpr& chosen) { return keep(at[0], at[1], row, chosen); });
        });
        return tir::IfThenElse(Load(best, first) >= Index(0), round);
      });
      return tir::SeqStmt(Array<tir::Stmt>{none_is_best(), begin, rounds});
    });
    all = tir::Allocate(best, tir::Allocate(best_score, all));
    return tir::SeqStmt(Array<tir::Stmt>{Store(found, tir::make_zero(index), first), all});
  };
  return te::Extern({shape, {Index(1)}, {count}}, {index, index, flag}, inputs, body, "nms_padded", "nms_padded");
}

/// boxes (batch, n, 4), best first, classes (batch, n), eligible (batch, n): which are kept (batch, n), how many
/// (batch).
Type KeepBoxesInfer(const InferContext& context) {
  const auto* boxes = context.Tensor(0, "boxes");
  const auto* classes = context.Tensor(1, "classes");
  const auto* eligible = context.Tensor(2, "eligible");
  CheckRank(boxes, 3, "boxes");
  CheckRank(classes, 2, "classes");
  CheckRank(eligible, 2, "eligible");
  CheckIntegral(eligible, "eligible");
  if (boxes->dtype != DataType::Float(32)) throw DTypeError("boxes must be float32");
  if (DimValue(boxes->shape[2]) != -1 && DimValue(boxes->shape[2]) != 4)
    throw ShapeError("boxes must have 4 coordinates");
  for (const auto* other : {classes, eligible}) {
    if (!context.Equal(boxes->shape[0], other->shape[0]) || !context.Equal(boxes->shape[1], other->shape[1])) {
      throw ShapeError("boxes, classes and eligible must have the same batch and number of boxes");
    }
  }
  const DataType number = DataType::Int(32);
  return TupleType(Array<Type>{TensorType(Array<PrimExpr>{boxes->shape[0], boxes->shape[1]}, number),
                               TensorType(Array<PrimExpr>{boxes->shape[0]}, number)});
}

Array<Tensor> KeepBoxesCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<KeepBoxesAttrs>();
  const Array<PrimExpr>& shape = OutTensor(out_type, 0)->shape;
  const DataType number = DataType::Int(32);
  const PrimExpr none = tir::make_const(number, 0), one = tir::make_const(number, 1);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const tir::Buffer &keep = out[0], &found = out[1];
    return Loop(shape[0], "batch", [&](const PrimExpr& batch) -> tir::Stmt {
      tir::Stmt begin = Loop(shape[1], "i", [&](const PrimExpr& i) -> tir::Stmt {
        const PrimExpr eligible = tir::not_equal(Load(in[2], {batch, i}), tir::make_zero(inputs[2]->dtype));
        return Store(keep, tir::select(eligible, one, none), {batch, i});
      });
      tir::Stmt rounds = Loop(shape[1], "i", [&](const PrimExpr& i) -> tir::Stmt {
        const PrimExpr category = Load(in[1], {batch, i});
        tir::Stmt drop = Loop(shape[1], "j", [&](const PrimExpr& j) -> tir::Stmt {
          const auto ratio = Overlap(CornersOf(in[0], batch, i, false), CornersOf(in[0], batch, j, false)).second;
          PrimExpr drops = j > i && ratio >= tir::make_const(DataType::Float(32), a->iou_threshold);
          if (!a->force_suppress) drops = drops && tir::equal(category, Load(in[1], {batch, j}));
          return tir::IfThenElse(drops, Store(keep, none, {batch, j}));
        });
        // Boxes of no class drop none.
        drop = tir::IfThenElse(category >= tir::make_zero(inputs[1]->dtype), drop);
        tir::Stmt take = tir::SeqStmt(Array<tir::Stmt>{Store(found, Load(found, {batch}) + one, {batch}), drop});
        if (a->max_output_size >= 0) {
          const PrimExpr room = Load(found, {batch}) < tir::make_const(number, a->max_output_size);
          take = tir::IfThenElse(room, take, Store(keep, none, {batch, i}));
        }
        return tir::IfThenElse(tir::equal(Load(keep, {batch, i}), one), take);
      });
      return tir::SeqStmt(Array<tir::Stmt>{Store(found, none, {batch}), begin, rounds});
    });
  };
  return te::Extern({shape, {shape[0]}}, {number, number}, inputs, body, "keep_boxes", "keep_boxes");
}

}  // namespace

void RegisterNmsOps() {
  OpRegistration("vision.keep_boxes")
      .Describe("Non-maximum suppression of boxes that are sorted: 1 where a box is kept, and how many are.")
      .Arguments({{"boxes", "Tensor", "(batch, n, 4): corners, the best box first"},
                  {"classes", "Tensor", "(batch, n); boxes of a negative class drop no others"},
                  {"eligible", "Tensor", "(batch, n) integers: 0 for boxes that aren't asked for"}})
      .AttrsType<KeepBoxesAttrs>()
      .Relation(Rule<KeepBoxesInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(KeepBoxesCompute));
  OpRegistration("nms_padded")
      .Describe("Non-maximum suppression: (batch, class, box) of the boxes that are kept in the first `count` rows.")
      .Arguments({{"boxes", "Tensor", "(batch, n, 4)"},
                  {"scores", "Tensor", "(batch, classes, n)"},
                  {"most", "Tensor", "Scalar: boxes per class."},
                  {"iou_threshold", "Tensor", "Scalar."},
                  {"score_threshold", "Tensor", "Scalar."}})
      .AttrsType<NmsPaddedAttrs>()
      .Relation(Rule<NmsInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true)
      .Set(kShapeFunction, FShapeFunction(NmsShapes))
      .Set(kCompute, FTECompute(NmsCompute));
}

}  // namespace treadle::ops
