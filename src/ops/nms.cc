// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression. Semantics: ONNX NonMaxSuppression-11.
#include "ops/dynamic.h"
#include "ops/heap.h"
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

constexpr int64_t kLanes = 16;          ///< kept boxes that are compared at once
constexpr int64_t kBlock = 4 * kLanes;  ///< and after how many of them a box that overlaps is given up

/// boxes (batch, n, 4), scores (batch, classes, n), most (), iou_threshold (), score_threshold (): rows (most of all
/// classes, 3) of which the first `count` are set, count (1); then working memory: a heap of the boxes of a class (n),
/// and of those that are kept corners and areas, field by field (5, n and a block).
Type NmsInfer(const InferContext& context) {
  const auto* boxes = context.Tensor(0, "boxes");
  const auto* scores = context.Tensor(1, "scores");
  CheckRank(boxes, 3, "boxes");
  CheckRank(scores, 3, "scores");
  CheckIntegral(context.Tensor(2, "most"), "most");
  CheckRank(context.Tensor(2, "most"), 0, "most");
  CheckRank(context.Tensor(3, "iou_threshold"), 0, "iou_threshold");
  CheckRank(context.Tensor(4, "score_threshold"), 0, "score_threshold");
  CheckSameDType(boxes, scores);
  CheckSameDType(boxes, context.Tensor(3, "iou_threshold"));
  CheckSameDType(boxes, context.Tensor(4, "score_threshold"));
  if (boxes->dtype != DataType::Float(32)) throw DTypeError("boxes must be float32");
  if (!context.Equal(boxes->shape[2], Dim(4))) throw ShapeError("boxes must have 4 coordinates");
  if (!context.Equal(boxes->shape[0], scores->shape[0]) || !context.Equal(boxes->shape[1], scores->shape[2])) {
    throw ShapeError("boxes and scores must have the same batch and number of boxes");
  }
  const DataType index = DataType::Int(64);
  return TupleType(
      Array<Type>{TensorType(Array<PrimExpr>{AnyDim(), Dim(3)}, index), TensorType(Array<PrimExpr>{Dim(1)}, index),
                  TensorType(Array<PrimExpr>{boxes->shape[1]}, index),
                  TensorType(Array<PrimExpr>{Dim(5), DimAdd(boxes->shape[1], Dim(kBlock))}, boxes->dtype)});
}

Array<Array<PrimExpr>> NmsShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& scores = operands[1]->shape;
  PrimExpr most = tir::min(tir::max(element(2, 0), Index(0)), scores[2]);
  return {{scores[0] * scores[1] * most, Index(3)}, {Index(1)}, {scores[2]}, {Index(5), scores[2] + Index(kBlock)}};
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

PrimExpr AreaOf(const Box& box) { return (box.y2 - box.y1) * (box.x2 - box.x1); }

/// What two boxes have in common, and the part of both together that it is.
std::pair<PrimExpr, PrimExpr> Overlap(const Box& a, const PrimExpr& a_area, const Box& b, const PrimExpr& b_area) {
  const PrimExpr zero = tir::make_zero(DataType::Float(32));
  // One instruction each, for that of a NaN either; areas of such boxes are NaN, and they overlap none.
  auto lesser = [](const PrimExpr& x, const PrimExpr& y) { return tir::select(x < y, x, y); };
  auto greater = [](const PrimExpr& x, const PrimExpr& y) { return tir::select(x > y, x, y); };
  PrimExpr height = tir::max(lesser(a.y2, b.y2) - greater(a.y1, b.y1), zero);
  PrimExpr width = tir::max(lesser(a.x2, b.x2) - greater(a.x1, b.x1), zero);
  PrimExpr common = height * width;
  PrimExpr all = a_area + b_area - common;
  return {common, tir::div(common, tir::max(all, tir::make_const(DataType::Float(32), 1e-37)))};
}

tir::Stmt Lanes(int64_t count, const std::function<tir::Stmt(PrimExpr)>& body) {
  tir::Var lane("lane", DataType::Int(64));
  return tir::For(lane, Index(0), Index(count), tir::ForKind::kVectorized, body(lane));
}

/// The kept boxes of a class: corners and areas, field by field.
struct KeptBoxes {
  tir::Buffer fields;
  tir::Buffer hits;  ///< which lanes overlap

  Box At(const PrimExpr& i) const {
    auto field = [&](int64_t k) { return Load(fields, {Index(k), i}); };
    return {field(0), field(1), field(2), field(3)};
  }
  PrimExpr AreaAt(const PrimExpr& i) const { return Load(fields, {Index(4), i}); }
  /// A box of no extent, which overlaps none, in each place.
  tir::Stmt Clear(const PrimExpr& count) const {
    return Loop(tir::floordiv(count, kLanes), "i", [&](const PrimExpr& i) {
      return Loop(Index(5), "k", [&](const PrimExpr& k) {
        return Lanes(kLanes, [&](const PrimExpr& lane) {
          return Store(fields, tir::make_zero(DataType::Float(32)), {k, i * kLanes + lane});
        });
      });
    });
  }
  tir::Stmt Add(const Box& box, const PrimExpr& place) const {
    const PrimExpr values[] = {box.y1, box.x1, box.y2, box.x2, AreaOf(box)};
    Array<tir::Stmt> stores;
    for (int64_t k = 0; k < 5; ++k) stores.push_back(Store(fields, values[k], {Index(k), place}));
    return tir::SeqStmt(stores);
  }
  /// Lane 0 of `hits` becomes 1 if one of the first `count` overlaps `box` by more than `threshold`.
  tir::Stmt Find(const Box& box, const PrimExpr& count, const PrimExpr& threshold, const tir::Buffer& cursor) const {
    const DataType i32 = DataType::Int(32);
    const PrimExpr first = Load(cursor, {Index(0)}), area = AreaOf(box);
    tir::Stmt start = Lanes(kLanes, [&](const PrimExpr& lane) { return Store(hits, tir::make_zero(i32), {lane}); });
    tir::Stmt compare = Loop(Index(kBlock / kLanes), "part", [&](const PrimExpr& part) {
      return Lanes(kLanes, [&](const PrimExpr& lane) {
        const PrimExpr place = first + part * kLanes + lane;
        const auto [common, ratio] = Overlap(box, area, At(place), AreaAt(place));
        const PrimExpr overlaps = common > tir::make_zero(DataType::Float(32)) && ratio > threshold;
        return Store(hits, tir::select(overlaps, tir::make_const(i32, 1), Load(hits, {lane})), {lane});
      });
    });
    Array<tir::Stmt> block{compare};
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      block.push_back(Lanes(half, [&](const PrimExpr& lane) {
        return Store(hits, tir::max(Load(hits, {lane}), Load(hits, {lane + half})), {lane});
      }));
    }
    block.push_back(Store(cursor, first + kBlock, {Index(0)}));
    tir::Stmt search =
        tir::While(first < count && tir::equal(Load(hits, {Index(0)}), tir::make_zero(i32)), tir::SeqStmt(block));
    return tir::SeqStmt(Array<tir::Stmt>{start, Store(cursor, Index(0), {Index(0)}), search});
  }
};

/// Boxes leave a heap in the order of their scores, and are kept unless one that is kept already overlaps them.
Array<Tensor> NmsCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const bool centered = attrs.as<NmsPaddedAttrs>()->center_point_box;
  const DataType index = DataType::Int(64), f32 = DataType::Float(32);
  const Array<PrimExpr>& shape = OutTensor(out_type, 0)->shape;
  const PrimExpr batches = inputs[1]->shape[0], classes = inputs[1]->shape[1], count = inputs[1]->shape[2];
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const Array<PrimExpr> none, first{Index(0)};
    const tir::Buffer &rows = out[0], &found = out[1], &places = out[2];
    auto local = [&](const char* name, DataType dtype, int64_t n) {
      return tir::DeclBuffer({Index(n)}, dtype, name, "local");
    };
    // Boxes in the heap, kept ones of this class, the place of an element that sinks and of a box that is compared.
    const tir::Buffer open = local("open", index, 1), kept = local("kept", index, 1),
                      cursor = local("cursor", index, 1);
    const KeptBoxes boxes{out[3], local("hits", DataType::Int(32), kLanes)};
    const PrimExpr size = Load(open, first), number = Load(kept, first), row = Load(found, first);
    const PrimExpr most = tir::min(tir::max(tir::cast(index, Load(in[2], none)), Index(0)), tir::cast(index, count));
    auto of_class = [&](const PrimExpr& batch, const PrimExpr& cls) -> tir::Stmt {
      auto score = [&](const PrimExpr& i) { return Load(in[1], {batch, cls, i}); };
      const Heap heap{[&](const PrimExpr& place) { return Load(places, {place}); },
                      [&](const PrimExpr& value, const PrimExpr& place) { return Store(places, value, {place}); },
                      [&](const PrimExpr& a, const PrimExpr& b) {
                        return score(a) > score(b) || (tir::equal(score(a), score(b)) && a < b);
                      },
                      cursor, first};
      tir::Stmt collect = Loop(count, "i", [&](const PrimExpr& i) {
        tir::Stmt add =
            tir::SeqStmt(Array<tir::Stmt>{heap.set(tir::cast(index, i), size), Store(open, size + 1, first)});
        return tir::IfThenElse(score(i) > Load(in[4], none), add);
      });
      auto keep = [&](const PrimExpr& chosen, const Box& box) -> tir::Stmt {
        return tir::SeqStmt::Flatten(Array<tir::Stmt>{
            boxes.Add(box, number), Store(kept, number + 1, first),
            Store(rows, tir::cast(index, batch), {row, Index(0)}), Store(rows, tir::cast(index, cls), {row, Index(1)}),
            Store(rows, chosen, {row, Index(2)}), Store(found, row + 1, first)});
      };
      tir::Stmt choose = LetIn("chosen", heap.element(Index(0)), [&](const PrimExpr& chosen) -> tir::Stmt {
        tir::Stmt pop = tir::SeqStmt(Array<tir::Stmt>{
            Store(open, size - 1, first), heap.set(heap.element(size), Index(0)), heap.Sink(Index(0), size)});
        const Box corners = CornersOf(in[0], batch, chosen, centered);
        tir::Stmt judge = LetIn("y1", corners.y1, [&](const PrimExpr& y1) {
          return LetIn("x1", corners.x1, [&](const PrimExpr& x1) {
            return LetIn("y2", corners.y2, [&](const PrimExpr& y2) {
              return LetIn("x2", corners.x2, [&](const PrimExpr& x2) -> tir::Stmt {
                const Box box{y1, x1, y2, x2};
                tir::Stmt find = boxes.Find(box, number, Load(in[3], none), cursor);
                const PrimExpr free = tir::equal(Load(boxes.hits, first), tir::make_zero(DataType::Int(32)));
                return tir::SeqStmt(Array<tir::Stmt>{find, tir::IfThenElse(free, keep(chosen, box))});
              });
            });
          });
        });
        return tir::SeqStmt(Array<tir::Stmt>{pop, judge});
      });
      return tir::SeqStmt(Array<tir::Stmt>{Store(open, Index(0), first), Store(kept, Index(0), first), collect,
                                           heap.Build(size), boxes.Clear(tir::min(size, most) + kBlock),
                                           tir::While(size > Index(0) && number < most, choose)});
    };
    tir::Stmt all =
        LoopNest({batches, classes}, "c", [&](const Array<PrimExpr>& at) { return of_class(at[0], at[1]); });
    for (const tir::Buffer& buffer : {open, kept, cursor, boxes.hits}) all = tir::Allocate(buffer, all);
    return tir::SeqStmt(Array<tir::Stmt>{Store(found, tir::make_zero(index), first), all});
  };
  return te::Extern({shape, {Index(1)}, {count}, {Index(5), count + Index(kBlock)}}, {index, index, index, f32}, inputs,
                    body, "nms_padded", "nms_padded");
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
  if (!context.Equal(boxes->shape[2], Dim(4))) throw ShapeError("boxes must have 4 coordinates");
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
          const Box one_box = CornersOf(in[0], batch, i, false), other = CornersOf(in[0], batch, j, false);
          const auto ratio = Overlap(one_box, AreaOf(one_box), other, AreaOf(other)).second;
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
