// SPDX-License-Identifier: Apache-2.0
// Windows added up in images. Semantics: ONNX Col2Im-18, whose columns are windows with dimensions of their own here,
// so that all sizes are those of the operand.
#include "treadle/ops/columns_to_image.h"

#include "ops/families.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/te_util.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/shape_function.h"
#include "treadle/relay/rewrite_rules.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ColumnsToImageAttrs);

namespace {

/// (N, C, window.., places..)
size_t SpatialRank(size_t rank) {
  if (rank < 4 || rank % 2 != 0) {
    throw ShapeError(StrCat("columns must be (N, C, window.., places..), not of rank ", rank));
  }
  return rank / 2 - 1;
}

/// The rank of the images; checks what both forms of the operator have.
size_t CheckColumns(const InferContext& context) {
  const auto* columns = context.Tensor(0, "columns");
  const auto* a = context.attrs<ColumnsToImageAttrs>();
  const size_t rank = SpatialRank(columns->shape.size());
  CheckSpatial(a->strides, rank, 1, "strides");
  CheckSpatial(a->dilation, rank, 1, "dilation");
  return rank;
}

Type ColumnsToImageInfer(const InferContext& context) {
  const size_t rank = CheckColumns(context);
  const auto* columns = context.Tensor(0, "columns");
  const auto* a = context.attrs<ColumnsToImageAttrs>();
  if (a->padding.size() != 2 * rank) throw ShapeError(StrCat("padding must have ", 2 * rank, " entries"));
  Array<PrimExpr> shape{columns->shape[0], columns->shape[1]};
  for (size_t d = 0; d < rank; ++d) {
    const PrimExpr &window = columns->shape[2 + d], &places = columns->shape[2 + rank + d];
    const PrimExpr taken =
        DimAdd(DimAdd(Dim(a->dilation[d]), Dim(a->strides[d])), DimAdd(Dim(a->padding[d]), Dim(a->padding[rank + d])));
    const PrimExpr moved = DimAdd(DimMul(places, Dim(a->strides[d])), DimMul(window, Dim(a->dilation[d])));
    const PrimExpr size = DimAdd(moved, DimSub(Dim(1), taken));
    if (AsConstInt(size) != nullptr && DimValue(size) < 0) {
      throw ShapeError(StrCat("padding removes more than all of spatial dimension ", d));
    }
    RequireAtLeast(context, size, Dim(0));
    shape.push_back(size);
  }
  return TensorType(shape, columns->dtype);
}

/// An image of sizes that are an operand.
Type DynColumnsToImageInfer(const InferContext& context) {
  const size_t rank = CheckColumns(context);
  const auto* columns = context.Tensor(0, "columns");
  for (int i = 1; i < 3; ++i) {
    const auto* list = context.Tensor(i, i == 1 ? "image" : "before");
    CheckIntegral(list, i == 1 ? "image" : "before");
    CheckRank(list, 1, i == 1 ? "image" : "before");
    CheckDim(context, list, 0, i == 1 ? "image" : "before", Dim(static_cast<int64_t>(rank)), "columns");
  }
  Array<PrimExpr> shape{columns->shape[0], columns->shape[1]};
  for (size_t d = 0; d < rank; ++d) shape.push_back(AnyDim());
  return TensorType(shape, columns->dtype);
}

Array<Array<PrimExpr>> ImageShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& columns = operands[0]->shape;
  Array<PrimExpr> shape{columns[0], columns[1]};
  const size_t rank = attrs.as<ColumnsToImageAttrs>()->strides.size();
  for (size_t d = 0; d < rank; ++d) shape.push_back(element(1, static_cast<int64_t>(d)));
  return {shape};
}

/// `body` for each index below `count`, most of them in vectors.
tir::Stmt InVectors(const PrimExpr& count, const std::function<tir::Stmt(PrimExpr)>& body) {
  constexpr int64_t kLanes[] = {16, 4, 1};
  std::vector<tir::Stmt> parts;
  PrimExpr done = Index(0);
  for (const int64_t lanes : kLanes) {
    const PrimExpr end = lanes == 1 ? count : tir::floordiv(count, Index(lanes)) * lanes;
    parts.push_back(Loop(tir::floordiv(end - done, Index(lanes)), "v", [&](const PrimExpr& v) -> tir::Stmt {
      if (lanes == 1) return body(done + v);
      const tir::Var lane("lane", DataType::Int(64));
      return tir::For(lane, Index(0), Index(lanes), tir::ForKind::kVectorized, body(done + v * lanes + lane));
    }));
    done = end;
  }
  return InOrder(parts);
}

/// The images of one channel each, row by row. What a row sums is collected in `rows_`, one row for each phase of the
/// stride, where windows' elements are neighbours as they are in the operand: sums are vectors, and no element is
/// looked for. They are interleaved when the row is stored.
class Images {
 public:
  Images(const ColumnsToImageAttrs* a, const tir::Buffer& in, const tir::Buffer& out, Array<PrimExpr> before)
      : a_(a), in_(in), out_(out), before_(std::move(before)), rank_(a->strides.size()), last_(rank_ - 1) {
    const PrimExpr stride = Index(a_->strides[last_]);
    const PrimExpr summed = Places(last_) + tir::floordiv((Window(last_) - 1) * a_->dilation[last_], stride);
    length_ = tir::max(summed, Index(1));
    rows_ = tir::DeclBuffer({stride, length_}, AccumulatorDType(out_->dtype), "rows", "global");
  }

  tir::Stmt All() const {
    const PrimExpr channels = tir::max(out_->shape[1], Index(1));  // a divisor, even where there are no planes
    return LoopNest(
        {out_->shape[0] * out_->shape[1]}, "plane",
        [&](const Array<PrimExpr>& plane) -> tir::Stmt {
          const Array<PrimExpr> at{tir::floordiv(plane[0], channels), tir::floormod(plane[0], channels)};
          Array<PrimExpr> outer;
          for (size_t d = 0; d < last_; ++d) outer.push_back(out_->shape[2 + d]);
          return tir::Allocate(rows_, LoopNest(outer, "y", [&](const Array<PrimExpr>& y) -> tir::Stmt {
                                 return InOrder({Clear(), Sum(at, y), Keep(at, y)});
                               }));
        },
        true);
  }

 private:
  PrimExpr Window(size_t d) const { return in_->shape[2 + d]; }
  PrimExpr Places(size_t d) const { return in_->shape[2 + rank_ + d]; }

  tir::Stmt Clear() const {
    return Loop(rows_->shape[0], "phase", [&](const PrimExpr& phase) {
      return InVectors(length_,
                       [&](const PrimExpr& i) { return Store(rows_, tir::make_zero(rows_->dtype), {phase, i}); });
    });
  }

  /// Columns of the window outermost: sums of the same shift follow each other.
  tir::Stmt Sum(const Array<PrimExpr>& plane, const Array<PrimExpr>& y) const {
    const PrimExpr stride = Index(a_->strides[last_]);
    return Loop(Window(last_), "kx", [&](const PrimExpr& kx) {
      const PrimExpr moved = kx * a_->dilation[last_];
      return LetIn("phase", tir::floormod(moved, stride), [&](const PrimExpr& phase) {
        return LetIn("shift", tir::floordiv(moved, stride), [&](const PrimExpr& shift) {
          auto add = [&](const Array<PrimExpr>& k, const Array<PrimExpr>& place) {
            return InVectors(Places(last_), [&](const PrimExpr& i) {
              Array<PrimExpr> from = plane;
              for (const PrimExpr& at : k) from.push_back(at);
              from.push_back(kx);
              for (const PrimExpr& at : place) from.push_back(at);
              from.push_back(i);
              const Array<PrimExpr> to{phase, shift + i};
              return Store(rows_, Load(rows_, to) + tir::cast(rows_->dtype, Load(in_, from)), to);
            });
          };
          return Meeting(y, {}, {}, add);
        });
      });
    });
  }

  using AtPlace = std::function<tir::Stmt(const Array<PrimExpr>& k, const Array<PrimExpr>& place)>;
  /// The rows of windows, and their places, that meet row y of the image; `k` and `place` of the first dimensions are
  /// found.
  tir::Stmt Meeting(const Array<PrimExpr>& y, const Array<PrimExpr>& k, const Array<PrimExpr>& place,
                    const AtPlace& body) const {
    const size_t d = k.size();
    if (d == last_) return body(k, place);
    const PrimExpr stride = Index(a_->strides[d]), row = y[d] + before_[d];
    auto at = [&](const PrimExpr& tap) {
      return LetIn("row", row - tap * a_->dilation[d], [&](const PrimExpr& first) -> tir::Stmt {
        Array<PrimExpr> taps = k, places = place;
        taps.push_back(tap);
        places.push_back(tir::floordiv(first, stride));
        PrimExpr meets = first >= 0 && first < Places(d) * stride;
        if (a_->dilation[d] != 1) meets = meets && tir::equal(tir::floormod(first, stride), Index(0));
        return tir::IfThenElse(meets, Meeting(y, taps, places, body));
      });
    };
    if (a_->dilation[d] != 1) return Loop(Window(d), "k", at);
    // Every stride-th one, from that of the row's phase on.
    return LetIn("first", tir::floormod(row, stride), [&](const PrimExpr& first) {
      const PrimExpr count = tir::max(tir::floordiv(Window(d) - first + (stride - 1), stride), Index(0));
      return Loop(count, "k", [&](const PrimExpr& i) { return at(first + i * stride); });
    });
  }

  tir::Stmt Keep(const Array<PrimExpr>& plane, const Array<PrimExpr>& y) const {
    const int64_t stride = a_->strides[last_];
    const PrimExpr& before = before_[last_];
    const PrimExpr width = out_->shape[1 + rank_];
    auto store = [&](const PrimExpr& value, const PrimExpr& x) {
      Array<PrimExpr> to = plane;
      for (const PrimExpr& at : y) to.push_back(at);
      to.push_back(x);
      return Store(out_, tir::cast(out_->dtype.with_lanes(value.dtype().lanes()), value), to);
    };
    // Element i of a phase is that of the image at `first` + i * stride; behind the last sum are zeros.
    auto elements = [&](const PrimExpr& phase, const PrimExpr& from, const PrimExpr& first, const PrimExpr& count) {
      return LetIn("sums", tir::max(tir::min(count, length_ - from), Index(0)), [&](const PrimExpr& sums) {
        auto sum = [&](const PrimExpr& i) { return store(Load(rows_, {phase, from + i}), first + i * stride); };
        const tir::Stmt zeros = Loop(count - sums, "i", [&](const PrimExpr& i) {
          return store(tir::make_zero(out_->dtype), first + (sums + i) * stride);
        });
        return InOrder({stride == 1 ? InVectors(sums, sum) : Loop(sums, "i", sum), zeros});
      });
    };
    const PrimExpr none = tir::min(tir::max(Index(0) - before, Index(0)), width);  // elements before all windows
    const tir::Stmt zeros = Loop(none, "x", [&](const PrimExpr& x) { return store(tir::make_zero(out_->dtype), x); });
    if (stride == 1) return InOrder({zeros, elements(Index(0), tir::max(before, Index(0)), none, width - none)});
    constexpr int64_t kShuffled = 4;
    if (stride <= kShuffled) return Interleaved(width, before, store);
    const tir::Stmt phases = Loop(Index(stride), "phase", [&](const PrimExpr& phase) {
      const PrimExpr skipped = tir::max(tir::floordiv(before + (stride - 1) - phase, Index(stride)), Index(0));
      return LetIn("skipped", skipped, [&](const PrimExpr& q) {
        const PrimExpr first = q * stride + phase - before;
        const PrimExpr count = tir::max(tir::floordiv(width - first + (stride - 1), Index(stride)), Index(0));
        return elements(phase, q, first, count);
      });
    });
    return InOrder({zeros, phases});
  }

  /// The image's row from those of few phases: vectors of each are shuffled into one.
  tir::Stmt Interleaved(const PrimExpr& width, const PrimExpr& before,
                        const std::function<tir::Stmt(const PrimExpr&, const PrimExpr&)>& store) const {
    const int64_t stride = a_->strides[last_];
    auto one = [&](const PrimExpr& x) {
      const PrimExpr at = x + before, i = tir::floordiv(at, Index(stride));
      const PrimExpr sum = Load(rows_, {tir::floormod(at, Index(stride)), i});
      return store(tir::if_then_else(at >= 0 && i < length_, sum, tir::make_zero(rows_->dtype)), x);
    };
    auto block = [&](const PrimExpr& i, int64_t lanes) {
      Array<PrimExpr> phases, order;
      for (int64_t p = 0; p < stride; ++p) phases.push_back(Load(rows_, {Index(p), tir::Ramp(i, Index(1), lanes)}));
      for (int64_t k = 0; k < lanes * stride; ++k) order.push_back(Index(k % stride * lanes + k / stride));
      return store(tir::Shuffle(phases, order), tir::Ramp(i * stride - before, Index(1), lanes * stride));
    };
    // Elements of all phases from `begin` to `end`.
    const PrimExpr begin = tir::max(tir::floordiv(before + (stride - 1), Index(stride)), Index(0));
    const PrimExpr end = tir::max(tir::min(tir::floordiv(width + before, Index(stride)), length_), begin);
    const PrimExpr first = tir::min(begin * stride - before, width);
    return LetIn("begin", begin, [&](const PrimExpr& from) {
      return LetIn("whole", end - begin, [&](const PrimExpr& whole) {
        std::vector<tir::Stmt> parts{Loop(first, "x", one)};
        PrimExpr done = Index(0);
        for (const int64_t lanes : {int64_t{16}, int64_t{4}}) {
          parts.push_back(Loop(tir::floordiv(whole - done, Index(lanes)), "v",
                               [&, done](const PrimExpr& v) { return block(from + done + v * lanes, lanes); }));
          done = tir::floordiv(whole, Index(lanes)) * lanes;
        }
        const PrimExpr rest = tir::max((from + done) * stride - before, first);
        parts.push_back(Loop(width - rest, "x", [&](const PrimExpr& x) { return one(rest + x); }));
        return InOrder(parts);
      });
    });
  }

  const ColumnsToImageAttrs* a_;
  const tir::Buffer &in_, &out_;
  Array<PrimExpr> before_;  ///< what is left out of the image
  size_t rank_, last_;
  PrimExpr length_;   ///< of a row of `rows_`
  tir::Buffer rows_;  ///< (phases of the stride, sums)
};

Array<Tensor> ColumnsToImageCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ColumnsToImageAttrs>();
  const TensorTypeNode* out = OutTensor(out_type);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& outs) {
    Array<PrimExpr> before;
    for (size_t d = 0; d < a->strides.size(); ++d) {
      const auto i = static_cast<int64_t>(d);
      before.push_back(in.size() == 1 ? Index(a->padding[d]) : tir::cast(DataType::Int(64), Load(in[2], {Index(i)})));
    }
    return Images(a, in[0], outs[0], before).All();
  };
  return {te::Extern({out->shape}, {out->dtype}, inputs, body, "columns_to_image", "columns_to_image")[0]};
}

}  // namespace

void RegisterColumnsToImageOps() {
  const OpArgument columns{"columns", "Tensor", "(N, C, window.., places..), with as many dimensions of either"};
  OpRegistration("nn.contrib_columns_to_image")
      .Describe("Windows added up where they stand in an image, the reverse of taking them from one.")
      .Arguments({columns})
      .AttrsType<ColumnsToImageAttrs>()
      .SupportLevel(10)
      .Relation(Rule<ColumnsToImageInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kCompute, FTECompute(ColumnsToImageCompute));
  OpRegistration("dyn.nn.contrib_columns_to_image")
      .Describe("nn.contrib_columns_to_image, of images whose sizes are an operand.")
      .Arguments({columns,
                  {"image", "Tensor", "Sizes of the image, integers"},
                  {"before", "Tensor", "What is left out before the image, integers"}})
      .AttrsType<ColumnsToImageAttrs>()
      .SupportLevel(10)
      .Relation(Rule<DynColumnsToImageInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(relay::kMixedPrecision, relay::MixedPrecisionKind::kFollow)
      .Set(kDataDependentShape, true)
      .Set(kShapeFunction, FShapeFunction(ImageShapes))
      .Set(kCompute, FTECompute(ColumnsToImageCompute));
}

}  // namespace treadle::ops
