// SPDX-License-Identifier: Apache-2.0
// Computation and run-time shapes of the operators whose shape is an operand. Semantics: ONNX Slice-13, Expand-13,
// Tile-13, Pad-19, OneHot-11, NonZero-13.
#include <algorithm>

#include "ops/dynamic.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/loops.h"
#include "ops/resize_compute.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/algorithm.h"
#include "treadle/ops/attrs/dynamic.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/shape_function.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(ForgetShapeAttrs);
TREADLE_DEFINE_NODE(RaiseAttrs);

namespace {

using Shapes = Array<Array<PrimExpr>>;

size_t Length(const TensorType& list) { return static_cast<size_t>(DimValue(list->shape[0])); }

PrimExpr Select(const PrimExpr& condition, const PrimExpr& yes, const PrimExpr& no) {
  return tir::select(condition, yes, no);
}

/// Codes 0 (copies a dimension) and -1 (what is left), as Reshape-14.
Shapes ReshapeShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& shape = operands[0]->shape;
  bool allowzero = AttrsOrDefault<ReshapeAttrs>(attrs)->allowzero;
  Array<PrimExpr> codes;
  // What is copied is no part of what -1 stands for, so that it may be empty; beside another 0 nothing tells it.
  PrimExpr known = Index(1), total = Index(1), inferred = Index(0);
  const size_t length = Length(operands[1]);
  for (size_t i = 0; i < length; ++i) {
    PrimExpr code = element(1, static_cast<int64_t>(i));
    const PrimExpr infers = tir::equal(code, Index(-1));
    PrimExpr factor = Select(infers, Index(1), code);
    inferred = inferred + Select(infers, Index(1), Index(0));
    if (!allowzero && i < shape.size()) {
      const PrimExpr copies = tir::equal(code, Index(0));
      factor = Select(copies, Index(1), factor);
      total = total * Select(copies, Index(1), shape[i]);
      code = Select(copies, shape[i], code);
    } else if (i < shape.size()) {
      total = total * shape[i];
    }
    codes.push_back(code);
    known = known * factor;
  }
  total = total * DimProduct(shape, std::min(length, shape.size()), shape.size());
  // Of elements that aren't a multiple the check of their number tells more, where there are any.
  const PrimExpr by = tir::max(known, Index(1));
  const PrimExpr empty = tir::equal(DimProduct(shape, 0, shape.size()), Index(0));
  const PrimExpr odd = tir::And(empty, tir::not_equal(tir::floormod(total, by), Index(0)));
  const PrimExpr open = tir::Or(tir::equal(known, Index(0)), inferred > Index(1));
  const PrimExpr rest = Select(tir::Or(open, odd), Index(-1), tir::floordiv(total, by));
  return {codes.Map([&](const PrimExpr& code) { return Select(tir::equal(code, Index(-1)), rest, code); })};
}

/// Removes dimensions; negative axes count from the end. The axes have to be constants.
Shapes SqueezeShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < Length(operands[1]); ++i) {
    const PrimExpr axis = element(1, static_cast<int64_t>(i));
    if (AsConstInt(axis) == nullptr) throw ShapeError("the axes of dyn.squeeze aren't known");
    axes.push_back(*AsConstInt(axis));
  }
  Array<PrimExpr> out;
  std::vector<int> removed = NormalizeAxes(axes, operands[0]->shape.size());
  for (size_t i = 0; i < operands[0]->shape.size(); ++i) {
    if (std::find(removed.begin(), removed.end(), static_cast<int>(i)) == removed.end())
      out.push_back(operands[0]->shape[i]);
  }
  return {out};
}

PrimExpr ExpandedDim(const PrimExpr& x, const PrimExpr& wanted) {
  if (DimValue(wanted) == 1 || SameDim(x, wanted)) return x;
  if (AsConstInt(x) != nullptr) return DimValue(x) == 1 ? wanted : x;
  if (AsConstInt(wanted) != nullptr) return wanted;
  return Select(tir::equal(x, Index(1)), wanted, x);
}

Shapes BroadcastShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& shape = operands[0]->shape;
  size_t length = Length(operands[1]), rank = std::max(length, shape.size());
  Array<PrimExpr> out;
  for (size_t i = 0; i < rank; ++i) {
    PrimExpr x = i + shape.size() >= rank ? shape[i + shape.size() - rank] : Index(1);
    PrimExpr wanted = i + length >= rank ? element(1, static_cast<int64_t>(i + length - rank)) : Index(1);
    out.push_back(ExpandedDim(x, wanted));
  }
  return {out};
}

Array<Tensor> BroadcastCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape, [&](const Array<PrimExpr>& i) { return LoadBroadcast(inputs[0], i, shape); }, "broadcast_to",
      tag::kBroadcast)};
}

/// The elements of the operand that lists the shape; `at` is its number.
template <size_t at>
Shapes ListedShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out;
  for (size_t i = 0; i < Length(operands[at]); ++i) out.push_back(element(at, static_cast<int64_t>(i)));
  return {out};
}

FTECompute FillCompute(double value) {
  return [value](const Attrs&, const Array<Tensor>&, const Type& out_type) {
    const TensorTypeNode* out = OutTensor(out_type);
    PrimExpr element = tir::make_const(out->dtype, value);
    return Array<Tensor>{Compute(out->shape, [&](const Array<PrimExpr>&) { return element; }, "fill", tag::kElemWise)};
  };
}

Array<Tensor> FullCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  return {Compute(
      out->shape, [&](const Array<PrimExpr>&) { return tir::cast(out->dtype, inputs[0](Array<PrimExpr>{})); }, "full",
      tag::kBroadcast)};
}

/// Beyond the size of any dimension that has elements.
constexpr int64_t kFar = int64_t{1} << 48;

/// A bound or step of a slice, a border. What is beyond any dimension does as well, and can't overflow.
PrimExpr FarAtMost(const PrimExpr& number) {
  if (const int64_t* known = AsConstInt(number)) return Index(std::clamp(*known, -kFar, kFar));
  return Clamp(number, Index(-kFar), Index(kFar));
}

/// The size of a dimension that is repeated: what overflows is too large, whatever would be left of it. Negative
/// numbers of copies are refused where they are read.
PrimExpr RepeatedSize(const PrimExpr& size, const PrimExpr& times) {
  if (const int64_t* known = AsConstInt(times); known != nullptr && *known < kFar >> 16) return size * times;
  const PrimExpr copies = tir::max(times, Index(0));
  return size * tir::min(copies, tir::floordiv(Index(kFar), tir::max(size, Index(1))));
}

Shapes TileShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  const Array<PrimExpr>& shape = operands[0]->shape;
  size_t length = Length(operands[1]), rank = std::max(length, shape.size());
  Array<PrimExpr> out;
  for (size_t i = 0; i < rank; ++i) {
    PrimExpr x = i + shape.size() >= rank ? shape[i + shape.size() - rank] : Index(1);
    out.push_back(i + length >= rank ? RepeatedSize(x, element(1, static_cast<int64_t>(i + length - rank))) : x);
  }
  return {out};
}

Array<Tensor> TileCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at;
        for (size_t d = 0; d < x.ndim(); ++d) {
          const size_t of = d + i.size() - x.ndim();
          at.push_back(tir::floormod(i[of], tir::max(x->shape[d], Index(1))));
        }
        return x(at);
      },
      "tile", tag::kInjective)};
}

std::vector<size_t> SlicedAxes(const Attrs& attrs, size_t rank, size_t length) {
  std::vector<size_t> axes;
  const auto* slice = AttrsOrDefault<StridedSliceAttrs>(attrs);
  for (size_t i = 0; i < length; ++i) {
    axes.push_back(slice->axes.has_value() ? static_cast<size_t>(NormalizeAxis((*slice->axes)[i], rank)) : i);
  }
  return axes;
}

/// First index of a slice of a dimension of `size`, which may be `size` (or -1 going backwards): nothing is left then.
PrimExpr SliceBegin(const PrimExpr& number, const PrimExpr& stride, const PrimExpr& size) {
  const PrimExpr begin = FarAtMost(number);
  PrimExpr b = Select(begin < 0, begin + size, begin);
  PrimExpr forward = Clamp(b, Index(0), size);
  if (const int64_t* s = AsConstInt(stride); s != nullptr && *s > 0) return forward;
  return Select(stride > 0, forward, Clamp(b, Index(-1), size - 1));
}

Shapes StridedSliceShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out = operands[0]->shape;
  std::vector<size_t> axes = SlicedAxes(attrs, out.size(), Length(operands[1]));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto k = static_cast<int64_t>(i);
    PrimExpr size = out[axes[i]], stride = FarAtMost(element(3, k)), begin = SliceBegin(element(1, k), stride, size);
    PrimExpr end = SliceBegin(element(2, k), stride, size);
    PrimExpr up = tir::floordiv(end - begin + stride - 1, tir::max(stride, Index(1)));
    if (const int64_t* s = AsConstInt(stride); s != nullptr && *s > 0) {
      out.Set(axes[i], tir::max(up, Index(0)));
      continue;
    }
    PrimExpr back = Index(0) - stride;
    PrimExpr down = tir::floordiv(begin - end + back - 1, tir::max(back, Index(1)));
    out.Set(axes[i], tir::max(Select(stride > 0, up, down), Index(0)));
  }
  return {out};
}

Array<Tensor> StridedSliceCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  std::vector<size_t> axes = SlicedAxes(attrs, x.ndim(), static_cast<size_t>(DimValue(inputs[1]->shape[0])));
  auto load = [&](size_t operand, size_t k) {
    return tir::cast(DataType::Int(64), inputs[operand](Array<PrimExpr>{Index(static_cast<int64_t>(k))}));
  };
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  return {Compute(
      shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        for (size_t k = 0; k < axes.size(); ++k) {
          const size_t axis = axes[k];
          PrimExpr size = x->shape[axis], stride = load(3, k), begin = SliceBegin(load(1, k), stride, size);
          at.Set(axis, Clamp(begin + i[axis] * stride, Index(0), size - 1));
          // Neighbours in a row are copied in vectors.
          if (axis + 1 != x.ndim()) continue;
          const PrimExpr first = Clamp(begin, Index(0), tir::max(size - shape[axis], Index(0)));
          at.Set(axis, Select(tir::equal(stride, Index(1)), first + i[axis], at[axis]));
        }
        return x(at);
      },
      "strided_slice", tag::kInjective)};
}

/// A border whose width isn't computed from dimensions could be of any number.
PrimExpr Border(const PrimExpr& width) {
  return AsConstInt(width) != nullptr || width.as<tir::VarNode>() != nullptr ? FarAtMost(width) : width;
}

Shapes PadShapes(const Attrs&, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out;
  for (size_t d = 0; d < operands[0]->shape.size(); ++d) {
    auto k = static_cast<int64_t>(d);
    out.push_back(operands[0]->shape[d] + Border(element(1, 2 * k)) + Border(element(1, 2 * k + 1)));
  }
  return {out};
}

/// What is added to dimension `d` at its beginning (side 0) or end (1), of widths (rank, 2).
PrimExpr WidthOf(const Tensor& widths, size_t d, int64_t side) {
  const Array<PrimExpr> place = {Index(static_cast<int64_t>(d)), Index(side)};
  return FarAtMost(tir::cast(DataType::Int(64), widths(place)));
}

Array<Tensor> PadCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const std::string mode = AttrsOrDefault<PadAttrs>(attrs)->pad_mode;
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    throw UnsupportedOpError(StrCat("dyn.nn.pad of mode ", mode, " isn't implemented"), {});
  }
  return {Compute(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        PrimExpr inside = tir::make_bool(true);
        Array<PrimExpr> at;
        for (size_t d = 0; d < x.ndim(); ++d) {
          const PrimExpr before = WidthOf(inputs[1], d, 0), size = x->shape[d];
          PrimExpr position = i[d] - before;
          inside = inside && position >= 0 && position < size;
          if (mode == "reflect" || mode == "wrap") {
            // What is left of what negative widths cut is repeated, as often as it takes.
            const PrimExpr cut = tir::max(-before, Index(0)),
                           left = size - cut - tir::max(-WidthOf(inputs[1], d, 1), Index(0));
            position = position - cut;
            if (mode == "reflect") {  // there and back
              PrimExpr period = (left - 1) * 2;
              position = tir::floormod(position, tir::max(period, Index(1)));
              position = Select(position >= left, period - position, position);
            } else {
              position = tir::floormod(position, tir::max(left, Index(1)));
            }
            position = position + cut;
          }
          if (mode == "constant") {
            at.push_back(position);
            continue;
          }
          // Between the ends elements are where they were: loops over them are copies.
          const PrimExpr place = i[d] - before;
          at.push_back(tir::if_then_else(place >= 0 && place < size, place, Clamp(position, Index(0), size - 1)));
        }
        if (mode != "constant") return x(at);
        return tir::if_then_else(inside, x(at), inputs[2](Array<PrimExpr>{}));
      },
      "pad", tag::kInjective)};
}

/// Positions of H and W in the layout, which the type rule has checked.
std::vector<size_t> RowsAndColumns(const ResizeAttrs* attrs) {
  const Layout layout(attrs->layout);
  return {static_cast<size_t>(layout.IndexOf('H')), static_cast<size_t>(layout.IndexOf('W'))};
}

/// (data, size of the dimensions H and W, roi); layouts without blocks of them.
Shapes Resize2DShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  const auto axes = RowsAndColumns(attrs.as<ResizeAttrs>());
  Array<PrimExpr> out = operands[0]->shape;
  for (size_t d = 0; d < axes.size(); ++d) out.Set(axes[d], tir::max(element(1, static_cast<int64_t>(d)), Index(0)));
  return {out};
}

Array<Tensor> Resize2DCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<ResizeAttrs>();
  if (a->antialias || a->coordinate_transformation_mode == "tf_crop_and_resize") {
    throw UnsupportedOpError("dyn.image.resize2d with antialiasing or a region isn't implemented", {});
  }
  return {ResizeTensor(*a, inputs[0], RowsAndColumns(a), OutTensor(out_type))};
}

Shapes OneHotShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  Array<PrimExpr> out = operands[0]->shape;
  const auto* one_hot = AttrsOrDefault<OneHotAttrs>(attrs);
  out.insert(static_cast<size_t>(NormalizeAxis(one_hot->axis, out.size() + 1)), element(3, 0));
  return {out};
}

Array<Tensor> OneHotCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const TensorTypeNode* out = OutTensor(out_type);
  auto axis = static_cast<size_t>(NormalizeAxis(AttrsOrDefault<OneHotAttrs>(attrs)->axis, out->shape.size()));
  return {Compute(
      out->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        at.erase(axis);
        PrimExpr hot = tir::equal(tir::cast(DataType::Int(64), inputs[0](at)), i[axis]);
        Array<PrimExpr> none;
        return tir::select(hot, tir::cast(out->dtype, inputs[1](none)), tir::cast(out->dtype, inputs[2](none)));
      },
      "one_hot", tag::kInjective)};
}

/// As many elements along the axis as the second operand says, which is taken for checked.
Shapes TopKShapes(const Attrs& attrs, const Array<TensorType>& operands, const ElementOf& element) {
  const auto* top = AttrsOrDefault<TopKAttrs>(attrs);
  Array<PrimExpr> out = operands[0]->shape;
  out.Set(static_cast<size_t>(NormalizeAxis(top->axis, out.size())), element(1, 0));
  return top->ret_type == "both" ? Shapes{out, out} : Shapes{out};
}

// ---- Operators of Treadle's own: what data-dependent ones are made of.

/// (count)
Type IotaInfer(const InferContext& context) {
  CheckRank(context.Tensor(0, "count"), 0, "count");
  CheckIntegral(context.Tensor(0, "count"), "count");
  return TensorType(Array<PrimExpr>{AnyDim()}, DataType::Int(64));
}
Shapes IotaShapes(const Attrs&, const Array<TensorType>&, const ElementOf& element) {
  return {Array<PrimExpr>{tir::max(element(0, 0), Index(0))}};
}
Array<Tensor> IotaCompute(const Attrs&, const Array<Tensor>&, const Type& out_type) {
  return {Compute(
      OutTensor(out_type)->shape, [](const Array<PrimExpr>& i) { return tir::cast(DataType::Int(64), i[0]); }, "iota",
      tag::kInjective)};
}

/// (data, count)
Type TakeRowsInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (data->shape.empty()) throw ShapeError("data must have at least 1 dimension");
  CheckIntegral(context.Tensor(1, "count"), "count");
  Array<PrimExpr> out = data->shape;
  out.Set(0, AnyDim());
  return TensorType(out, data->dtype);
}

/// (rows, row)
Type AppendInfer(const InferContext& context) {
  const auto* rows = context.Tensor(0, "rows");
  const auto* row = context.Tensor(1, "row");
  CheckSameDType(rows, row);
  if (rows->shape.size() != row->shape.size() + 1) {
    throw ShapeError(StrCat("a row of ", TypeText(rows), " can't be ", TypeText(row)));
  }
  for (size_t i = 0; i < row->shape.size(); ++i) CheckDim(context, row, i, "row", rows->shape[i + 1], "rows");
  Array<PrimExpr> out = rows->shape;
  out.Set(0, AnyDim());
  return TensorType(out, rows->dtype);
}

/// (data)
Type ForgetShapeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  Array<PrimExpr> out = data->shape;
  for (int64_t axis : context.attrs<ForgetShapeAttrs>()->axes) {
    out.Set(static_cast<size_t>(NormalizeAxis(axis, out.size())), AnyDim());
  }
  return TensorType(out, data->dtype);
}

/// ()
Type RaiseInfer(const InferContext& context) {
  const auto* attrs = context.attrs<RaiseAttrs>();
  Array<PrimExpr> shape =
      attrs->shape.Map([](const PrimExpr& dim) -> PrimExpr { return DimValue(dim) < 0 ? AnyDim() : dim; });
  return TensorType(shape, attrs->dtype);
}

/// Coordinates of the nonzero elements in the first rows, and their number.
Type NonzeroInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  auto rank = static_cast<int64_t>(data->shape.size());
  PrimExpr size = DimProduct(data->shape, 0, data->shape.size());
  return TupleType(Array<Type>{TensorType(Array<PrimExpr>{size, Dim(rank)}, DataType::Int(64)),
                               TensorType(Array<PrimExpr>{Dim(1)}, DataType::Int(64))});
}

Array<Tensor> NonzeroCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const Array<PrimExpr>& shape = OutTensor(out_type, 0)->shape;
  DataType index = DataType::Int(64);
  auto body = [&](const Array<tir::Buffer>& in, const Array<tir::Buffer>& out) -> tir::Stmt {
    const Array<PrimExpr> zero{Index(0)};
    tir::Stmt scan = LoopNest(x->shape, "i", [&](const Array<PrimExpr>& i) -> tir::Stmt {
      PrimExpr element = Load(in[0], i);
      tir::Stmt record = LetIn("n", Load(out[1], zero), [&](const PrimExpr& n) -> tir::Stmt {
        Array<tir::Stmt> stores;
        for (size_t d = 0; d < i.size(); ++d) {
          stores.push_back(Store(out[0], tir::cast(index, i[d]), {n, Index(static_cast<int64_t>(d))}));
        }
        stores.push_back(Store(out[1], n + 1, zero));
        return tir::SeqStmt::Flatten(stores);
      });
      PrimExpr test = element.dtype().is_bool() ? element : tir::not_equal(element, tir::make_zero(element.dtype()));
      return tir::IfThenElse(test, record);
    });
    return tir::SeqStmt(Array<tir::Stmt>{Store(out[1], tir::make_zero(index), zero), scan});
  };
  return te::Extern({shape, {Index(1)}}, {index, index}, {x}, body, "nonzero", "nonzero");
}

}  // namespace

void RegisterDynamicComputes() {
  auto set = [](const char* name, FShapeFunction shapes, FTECompute compute) {
    OpRegistration op(name);
    op.Set(kShapeFunction, std::move(shapes));
    if (compute) op.Set(kCompute, std::move(compute));
  };
  // Alone it moves nothing; fused with what reads it, it is the elements in row-major order, as for the static one.
  set("dyn.reshape", ReshapeShapes, [](const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
    return (*Op::Get("reshape").GetAttr(kCompute))(attrs, {inputs[0]}, out_type);
  });
  set("dyn.squeeze", SqueezeShapes, nullptr);
  set("dyn.broadcast_to", BroadcastShapes, BroadcastCompute);
  set("dyn.tile", TileShapes, TileCompute);
  set("dyn.zeros", ListedShapes<0>, FillCompute(0));
  set("dyn.ones", ListedShapes<0>, FillCompute(1));
  set("dyn.full", ListedShapes<1>, FullCompute);
  set("dyn.strided_slice", StridedSliceShapes, StridedSliceCompute);
  set("dyn.nn.pad", PadShapes, PadCompute);
  set("dyn.image.resize2d", Resize2DShapes, Resize2DCompute);
  set("dyn.one_hot", OneHotShapes, OneHotCompute);
  set("dyn.topk", TopKShapes, [](const Attrs& attrs, const Array<te::Tensor>& inputs, const Type& out_type) {
    return (*Op::Get("topk").GetAttr(kCompute))(attrs, {inputs[0]}, out_type);
  });
  OpRegistration("dyn.iota")
      .Describe("0, 1, .., count - 1.")
      .Arguments({{"count", "Tensor", "Scalar."}})
      .Relation(Rule<IotaInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kDataDependentShape, true);
  set("dyn.iota", IotaShapes, IotaCompute);
  OpRegistration("dyn.take_rows")
      .Describe("The first rows, as many as `count` says, in the same memory.")
      .Arguments({{"data", "Tensor", "The input."}, {"count", "Tensor", "One number."}})
      .Relation(Rule<TakeRowsInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNonComputational, true)
      .Set(kDataDependentShape, true);
  OpRegistration("dyn.append")
      .Describe("`rows` with one more: what loops collect results with. Rows of size 0 take the shape of the first.")
      .Arguments({{"rows", "Tensor", "(n, ..)"}, {"row", "Tensor", "(..)"}})
      .Relation(Rule<AppendInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNonComputational, true)
      .Set(kDataDependentShape, true);
  OpRegistration("dyn.forget_shape")
      .Describe("The operand; nothing is known of these dimensions. Branches of different shapes have one type so.")
      .Arguments({{"data", "Tensor", "The input."}})
      .AttrsType<ForgetShapeAttrs>()
      .Relation(Rule<ForgetShapeInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kNonComputational, true);
  OpRegistration("raise")
      .Describe("Stops with an error: what stands in a branch that can't be run.")
      .Arguments({})
      .AttrsType<RaiseAttrs>()
      .Relation(Rule<RaiseInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kOpIsStateful, true)
      .Set(kNonComputational, true);
  OpRegistration("nonzero_padded")
      .Describe("Coordinates of the nonzero elements (size, rank), of which the first `count` rows are set, and count.")
      .Arguments({{"data", "Tensor", "The input."}})
      .Relation(Rule<NonzeroInfer>)
      .Set(kOpPattern, OpPatternKind::kOpaque)
      .Set(kCompute, FTECompute(NonzeroCompute));
}

}  // namespace treadle::ops
