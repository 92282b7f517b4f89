// SPDX-License-Identifier: Apache-2.0
// Operators that relabel or permute dimensions.
#include <algorithm>
#include <array>

#include "ops/families.h"
#include "ops/gradients.h"
#include "ops/infer.h"
#include "ops/layout.h"
#include "ops/reshape.h"
#include "ops/te_util.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/compute.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {

TREADLE_DEFINE_NODE(SubPixelAttrs);
TREADLE_DEFINE_NODE(ReshapeAttrs);
TREADLE_DEFINE_NODE(TransposeAttrs);
TREADLE_DEFINE_NODE(SqueezeAttrs);
TREADLE_DEFINE_NODE(ExpandDimsAttrs);
TREADLE_DEFINE_NODE(LayoutTransformAttrs);

namespace {

/// Constant factor and symbolic factors of a product of dimensions.
struct Factors {
  int64_t constant = 1;
  std::vector<PrimExpr> symbolic;

  void Add(const PrimExpr& dim) {
    if (AsConstInt(dim) != nullptr) {
      constant = DimValue(DimMul(Dim(constant), dim));
    } else if (const auto* product = dim.as<tir::MulNode>()) {
      Add(product->a);
      Add(product->b);
    } else {
      symbolic.push_back(dim);
    }
  }
  /// Removes a factor equal to `dim`; false where there is none.
  bool Remove(const PrimExpr& dim) {
    auto it = std::find_if(symbolic.begin(), symbolic.end(), [&](const PrimExpr& f) { return SameDim(f, dim); });
    if (it == symbolic.end()) return false;
    symbolic.erase(it);
    return true;
  }
};

/// total / part; AnyDim where it can't be known. ShapeError where it isn't exact; where only a run knows, the remainder
/// has to be 0 in it.
PrimExpr DivideSizes(const InferContext& context, Factors total, const Factors& part, const std::string& what) {
  Factors rest;
  for (const PrimExpr& dim : part.symbolic) {
    if (!total.Remove(dim)) rest.symbolic.push_back(dim);
  }
  if (part.constant == 0) throw ShapeError(StrCat(what, ": -1 can't be inferred next to a dimension of size 0"));
  if (rest.symbolic.empty() && total.constant % part.constant == 0) {
    PrimExpr result = Dim(total.constant / part.constant);
    for (const PrimExpr& dim : total.symbolic) result = DimMul(dim, result);
    return result;
  }
  if (rest.symbolic.empty() && total.symbolic.empty()) {
    throw ShapeError(StrCat(what, ": ", total.constant, " elements aren't a multiple of ", part.constant));
  }
  PrimExpr numerator = Dim(total.constant);
  PrimExpr denominator = Dim(part.constant);
  for (const PrimExpr& dim : total.symbolic) numerator = DimMul(dim, numerator);
  for (const PrimExpr& dim : rest.symbolic) denominator = DimMul(dim, denominator);
  // The number of elements doesn't tell where another dimension is empty.
  if (!IsAnyDim(numerator) && !IsAnyDim(denominator)) {
    const bool known = AsConstInt(denominator) != nullptr;
    context.Equal(tir::floormod(numerator, known ? denominator : tir::max(denominator, Dim(1))), Dim(0));
  }
  return DimFloorDiv(numerator, denominator);
}

/// Dimensions that one is split into by the numbers after -4, of which one may be -1.
std::array<PrimExpr, 2> SplitSize(const InferContext& context, const PrimExpr& whole, std::array<PrimExpr, 2> parts,
                                  const std::string& what) {
  for (size_t p = 0; p < 2; ++p) {
    if (DimValue(parts[p]) != -1 || AsConstInt(parts[p]) == nullptr) continue;
    if (DimValue(parts[1 - p]) < 1 && AsConstInt(parts[1 - p]) != nullptr) {
      throw ShapeError(StrCat(what, ": only one of the numbers after -4 may be -1"));
    }
    Factors total, part;
    total.Add(whole);
    part.Add(parts[1 - p]);
    parts[p] = DivideSizes(context, total, part, what);
    return parts;
  }
  const PrimExpr product = DimMul(parts[0], parts[1]);
  if (!IsAnyDim(whole) && !IsAnyDim(product) && !SameDim(whole, product) && !context.Equal(whole, product)) {
    throw ShapeError(StrCat(what, ": ", ShapeText({whole}), " can't be split into ", ShapeText({parts[0], parts[1]})));
  }
  return parts;
}

/// Resolves the codes of ReshapeAttrs::newshape. ShapeError where sizes don't match.
Array<PrimExpr> ReshapeShape(const InferContext& context, const Array<PrimExpr>& shape, const Array<PrimExpr>& newshape,
                             bool allowzero) {
  std::string what = StrCat("reshape of ", ShapeText(shape), " to ", ShapeText(newshape));
  auto next_dim = [&](size_t i) {
    if (i >= shape.size()) throw ShapeError(StrCat(what, ": no dimension ", i, " in the input"));
    return shape[i];
  };
  Array<PrimExpr> out;
  int infer = -1;
  size_t src = 0;
  std::vector<bool> copied_from(shape.size(), false), copied_to(newshape.size() + shape.size(), false);
  for (size_t i = 0; i < newshape.size(); ++i) {
    const int64_t* code = AsConstInt(newshape[i]);
    if (code == nullptr || *code > 0 || (*code == 0 && allowzero)) {
      out.push_back(newshape[i]);
      ++src;
    } else if (*code == 0) {
      const PrimExpr copied = next_dim(src);
      copied_from[src++] = copied_to[out.size()] = true;
      out.push_back(copied);
    } else if (*code == -1) {
      if (infer >= 0) throw ShapeError(StrCat(what, ": more than one -1"));
      infer = static_cast<int>(out.size());
      out.push_back(Dim(1));
      ++src;
    } else if (*code == -2) {
      while (src < shape.size()) out.push_back(shape[src++]);
    } else if (*code == -3) {
      PrimExpr first = next_dim(src++);
      out.push_back(DimMul(first, next_dim(src++)));
    } else if (*code == -4) {
      if (i + 2 >= newshape.size()) throw ShapeError(StrCat(what, ": -4 needs two numbers after it"));
      const PrimExpr whole = next_dim(src++);
      const auto parts = SplitSize(context, whole, {newshape[i + 1], newshape[i + 2]}, what);
      i += 2;
      out.push_back(parts[0]);
      out.push_back(parts[1]);
    } else {
      throw ShapeError(StrCat(what, ": ", *code, " isn't a code"));
    }
  }
  Factors total, part;
  // What is copied is no part of what -1 stands for, so that it may be empty.
  for (size_t i = 0; i < shape.size(); ++i) {
    if (infer < 0 || !copied_from[i]) total.Add(shape[i]);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (infer < 0 || !copied_to[i]) part.Add(out[i]);
  }
  if (infer >= 0) {
    out.Set(static_cast<size_t>(infer), DivideSizes(context, total, part, what));
  } else if (total.symbolic.empty() && part.symbolic.empty() && total.constant != part.constant) {
    throw ShapeError(StrCat(what, ": ", total.constant, " elements can't become ", part.constant));
  }
  return out;
}

template <typename T>
Array<T> Reversed(const Array<T>& items) {
  Array<T> result;
  for (size_t i = items.size(); i > 0; --i) result.push_back(items[i - 1]);
  return result;
}

Type ReshapeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ReshapeAttrs>();
  return TensorType(ReshapeShape(context, data->shape, attrs->newshape, attrs->allowzero), data->dtype);
}

Type ReverseReshapeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ReshapeAttrs>();
  const Array<PrimExpr> out = ReshapeShape(context, Reversed(data->shape), Reversed(attrs->newshape), attrs->allowzero);
  return TensorType(Reversed(out), data->dtype);
}

Type ReshapeLikeInfer(const InferContext& context) {
  const auto *data = context.Tensor(0, "data"), *like = context.Tensor(1, "shape_like");
  const PrimExpr from = DimProduct(data->shape, 0, data->shape.size()),
                 to = DimProduct(like->shape, 0, like->shape.size());
  if (!IsAnyDim(from) && !IsAnyDim(to) && !context.Equal(from, to)) {
    throw ShapeError(
        StrCat("the ", ShapeText({from}), " elements of ", TypeText(data), " can't become ", TypeText(like)));
  }
  return TensorType(like->shape, data->dtype);
}

Type TransposeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  Array<PrimExpr> out;
  for (int axis : TransposeOrder(context.attrs<TransposeAttrs>(), data->shape.size())) {
    out.push_back(data->shape[static_cast<size_t>(axis)]);
  }
  return TensorType(out, data->dtype);
}

Type SqueezeInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<SqueezeAttrs>();
  std::vector<bool> removed(data->shape.size(), false);
  if (attrs->axis.has_value()) {
    for (int axis : NormalizeAxes(*attrs->axis, data->shape.size())) {
      const PrimExpr dim = data->shape[static_cast<size_t>(axis)];
      if (AsConstInt(dim) != nullptr && DimValue(dim) != 1) {
        throw ShapeError(StrCat("dimension ", axis, " of ", TypeText(data), " isn't 1"));
      }
      // The number of elements doesn't tell where another dimension is empty.
      if (AsConstInt(dim) == nullptr && !IsAnyDim(dim)) context.Equal(dim, Dim(1));
      removed[static_cast<size_t>(axis)] = true;
    }
  } else {
    for (size_t i = 0; i < removed.size(); ++i) removed[i] = DimValue(data->shape[i]) == 1;
  }
  Array<PrimExpr> out;
  for (size_t i = 0; i < removed.size(); ++i) {
    if (!removed[i]) out.push_back(data->shape[i]);
  }
  return TensorType(out, data->dtype);
}

Type ExpandDimsInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<ExpandDimsAttrs>();
  if (attrs->num_newaxis < 0) throw ShapeError(StrCat("num_newaxis must not be negative, is ", attrs->num_newaxis));
  auto axis = static_cast<size_t>(NormalizeAxis(attrs->axis, data->shape.size() + 1));
  Array<PrimExpr> out = data->shape;
  for (int i = 0; i < attrs->num_newaxis; ++i) out.insert(axis, Dim(1));
  return TensorType(out, data->dtype);
}

Type BatchFlattenInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  if (data->shape.empty()) throw ShapeError("data must have at least 1 dimension");
  return TensorType({data->shape[0], DimProduct(data->shape, 1, data->shape.size())}, data->dtype);
}

Type LayoutTransformInfer(const InferContext& context) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<LayoutTransformAttrs>();
  const Layout src(attrs->src_layout), dst(attrs->dst_layout);
  const std::string& names = src.primal_axes();
  for (size_t i = 0; i < src.ndim() && src.ndim() == data->shape.size(); ++i) {
    if (src[i].is_inner() && AsConstInt(data->shape[i]) == nullptr) context.Equal(data->shape[i], Dim(src[i].factor));
  }
  const Array<PrimExpr> sizes = LogicalShape(src, data->shape, names, "data");
  for (size_t i = 0; i < names.size(); ++i) RequireMultiple(context, sizes[i], dst.BlockOf(names[i]));
  return TensorType(PhysicalShape(dst, sizes, names), data->dtype);
}

/// Sizes N C H W of the operand of depth_to_space and space_to_depth.
Type SubPixelType(const InferContext& context, bool to_space) {
  const auto* data = context.Tensor(0, "data");
  const auto* attrs = context.attrs<SubPixelAttrs>();
  int64_t block = attrs->block_size;
  if (block < 1) throw ShapeError(StrCat("block_size must be at least 1, is ", block));
  if (attrs->mode != "DCR" && attrs->mode != "CRD") throw ShapeError(StrCat("unknown mode \"", attrs->mode, "\""));
  Layout layout(attrs->layout);
  Array<PrimExpr> sizes = LogicalShape(layout, data->shape, "NCHW", "data");
  auto divide = [&](size_t i, int64_t by) {
    if (DimValue(sizes[i]) >= 0 && DimValue(sizes[i]) % by != 0) {
      throw ShapeError(StrCat("dimension ", "NCHW"[i], " of ", TypeText(data), " isn't a multiple of ", by));
    }
    RequireMultiple(context, sizes[i], by);
    sizes.Set(i, DimFloorDiv(sizes[i], Dim(by)));
  };
  auto multiply = [&](size_t i, int64_t by) { sizes.Set(i, DimMul(sizes[i], Dim(by))); };
  if (to_space) {
    divide(1, block * block);
    multiply(2, block);
    multiply(3, block);
  } else {
    multiply(1, block * block);
    divide(2, block);
    divide(3, block);
  }
  return TensorType(PhysicalShape(layout, sizes, "NCHW"), data->dtype);
}

Type DepthToSpaceInfer(const InferContext& context) { return SubPixelType(context, true); }
Type SpaceToDepthInfer(const InferContext& context) { return SubPixelType(context, false); }

Tensor InjectiveTensor(const Array<PrimExpr>& shape, const IndexBody& body, const char* name) {
  return Compute(shape, body, name, tag::kInjective);
}

/// Dimensions of `shape` other than 1.
std::vector<size_t> ProperDims(const Array<PrimExpr>& shape) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (DimValue(shape[i]) != 1) dims.push_back(i);
  }
  return dims;
}

/// All operators that keep the elements in row-major order. Runs of dimensions that are equal in both shapes keep their
/// indices; only what lies between goes through a flat index.
Array<Tensor> ReshapeCompute(const Attrs&, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  const Array<PrimExpr>& shape = OutTensor(out_type)->shape;
  std::vector<size_t> from = ProperDims(x->shape);
  std::vector<size_t> to = ProperDims(shape);
  size_t head = 0;
  while (head < from.size() && head < to.size() && SameDim(x->shape[from[head]], shape[to[head]])) ++head;
  size_t tail = 0;
  while (tail + head < from.size() && tail + head < to.size() &&
         SameDim(x->shape[from[from.size() - 1 - tail]], shape[to[to.size() - 1 - tail]])) {
    ++tail;
  }
  return {InjectiveTensor(
      shape,
      [&](const Array<PrimExpr>& i) {
        std::vector<PrimExpr> at(x.ndim(), Index(0));
        for (size_t d = 0; d < head; ++d) at[from[d]] = i[to[d]];
        for (size_t d = 0; d < tail; ++d) at[from[from.size() - 1 - d]] = i[to[to.size() - 1 - d]];
        Array<PrimExpr> middle_index, middle_to, middle_from;
        for (size_t d = head; d + tail < to.size(); ++d) {
          middle_index.push_back(i[to[d]]);
          middle_to.push_back(shape[to[d]]);
        }
        for (size_t d = head; d + tail < from.size(); ++d) middle_from.push_back(x->shape[from[d]]);
        Array<PrimExpr> middle = UnflattenIndex(FlatIndex(middle_index, middle_to), middle_from);
        for (size_t d = 0; d < middle.size(); ++d) at[from[head + d]] = middle[d];
        Array<PrimExpr> index;
        for (const PrimExpr& e : at) index.push_back(e);
        return x(index);
      },
      "reshape")};
}

Array<Tensor> TransposeCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const Tensor& x = inputs[0];
  std::vector<int> order = TransposeOrder(attrs.as<TransposeAttrs>(), x.ndim());
  return {InjectiveTensor(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) {
        Array<PrimExpr> at = i;
        for (size_t d = 0; d < order.size(); ++d) at.Set(static_cast<size_t>(order[d]), i[d]);
        return x(at);
      },
      "transpose")};
}

Array<Tensor> LayoutTransformCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<LayoutTransformAttrs>();
  const Layout src(a->src_layout), dst(a->dst_layout);
  const std::string& names = src.primal_axes();
  return {InjectiveTensor(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& i) { return inputs[0](PhysicalIndex(src, LogicalIndex(dst, i, names), names)); },
      "layout_transform")};
}

template <bool kToSpace>
Array<Tensor> SubPixelCompute(const Attrs& attrs, const Array<Tensor>& inputs, const Type& out_type) {
  const auto* a = attrs.as<SubPixelAttrs>();
  const Tensor& x = inputs[0];
  Layout layout(a->layout);
  Array<PrimExpr> in = LogicalShape(layout, x->shape, "NCHW", "data");
  PrimExpr block = Index(a->block_size);
  Array<PrimExpr> out = LogicalShape(layout, OutTensor(out_type)->shape, "NCHW", "data");
  // The channel that holds pixel (h, w) of a block of channel c, of `depth` channels in all.
  auto channel = [&](const PrimExpr& c, const PrimExpr& h, const PrimExpr& w, const PrimExpr& depth) {
    PrimExpr pixel = h * block + w;
    return a->mode == "DCR" ? pixel * depth + c : c * (a->block_size * a->block_size) + pixel;
  };
  return {InjectiveTensor(
      OutTensor(out_type)->shape,
      [&](const Array<PrimExpr>& index) {
        Array<PrimExpr> i = LogicalIndex(layout, index, "NCHW");
        Array<PrimExpr> at;
        if (kToSpace) {
          PrimExpr c = channel(i[1], tir::floormod(i[2], block), tir::floormod(i[3], block), out[1]);
          at = {i[0], c, tir::floordiv(i[2], block), tir::floordiv(i[3], block)};
        } else {
          PrimExpr pixel, c;
          if (a->mode == "DCR") {
            pixel = tir::floordiv(i[1], in[1]);
            c = tir::floormod(i[1], in[1]);
          } else {
            pixel = tir::floormod(i[1], block * block);
            c = tir::floordiv(i[1], block * block);
          }
          at = {i[0], c, i[2] * block + tir::floordiv(pixel, block), i[3] * block + tir::floormod(pixel, block)};
        }
        return x(PhysicalIndex(layout, at, "NCHW"));
      },
      kToSpace ? "depth_to_space" : "space_to_depth")};
}

/// The same elements at other places.
OpRegistration Injective(const char* name, const char* text, TypeRelationFn relation,
                         FTECompute compute = ReshapeCompute) {
  return OpRegistration(name)
      .Describe(text)
      .Arguments({{"data", "Tensor", "The input."}})
      .SupportLevel(3)
      .Relation(relation)
      .Set(kOpPattern, OpPatternKind::kInjective)
      .Set(kValueRule, ValueRule::kMoves)
      .Set(kCompute, std::move(compute));
}

}  // namespace

std::vector<int> TransposeOrder(const TransposeAttrs* attrs, size_t rank) {
  std::vector<int> order;
  if (!attrs->axes.has_value()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int>(i - 1));
    return order;
  }
  if (attrs->axes->size() != rank) {
    throw ShapeError(StrCat("axes has ", attrs->axes->size(), " entries for rank ", rank));
  }
  NormalizeAxes(*attrs->axes, rank, "axes");
  for (int64_t axis : *attrs->axes) order.push_back(NormalizeAxis(axis, rank, "axes"));
  return order;
}

void RegisterReshapeOps() {
  Injective("reshape", "The same elements in another shape.", Rule<ReshapeInfer>)
      .AttrsType<ReshapeAttrs>()
      .Set(kReshapeOp, true)
      .Set(kGradient, FGradient(gradient::OfReshape));
  Injective("contrib_reverse_reshape", "Reshape whose codes are read from the last dimension on.",
            Rule<ReverseReshapeInfer>)
      .AttrsType<ReshapeAttrs>()
      .Set(kReshapeOp, true);
  Injective("reshape_like", "The same elements in the shape of the other tensor.", Rule<ReshapeLikeInfer>)
      .Arguments({{"data", "Tensor", "The input."}, {"shape_like", "Tensor", "Has the shape of the result."}})
      .Set(kGradient, FGradient(gradient::OfReshapeLike));
  Injective("transpose", "Dimensions in another order.", Rule<TransposeInfer>, TransposeCompute)
      .AttrsType<TransposeAttrs>()
      .Set(kGradient, FGradient(gradient::OfTranspose));
  Injective("squeeze", "Without dimensions of size 1.", Rule<SqueezeInfer>)
      .AttrsType<SqueezeAttrs>()
      .Set(kReshapeOp, true)
      .Set(kGradient, FGradient(gradient::OfReshape));
  Injective("expand_dims", "With more dimensions of size 1.", Rule<ExpandDimsInfer>)
      .AttrsType<ExpandDimsAttrs>()
      .Set(kOpPattern, OpPatternKind::kBroadcast)
      .Set(kReshapeOp, true)
      .Set(kGradient, FGradient(gradient::OfReshape));
  Injective("nn.batch_flatten", "All dimensions but the first become one.", Rule<BatchFlattenInfer>)
      .Set(kGradient, FGradient(gradient::OfReshape));
  Injective("layout_transform", "The same tensor in another layout.", Rule<LayoutTransformInfer>,
            LayoutTransformCompute)
      .AttrsType<LayoutTransformAttrs>();
  Injective("nn.depth_to_space", "Blocks of channels become blocks of pixels.", Rule<DepthToSpaceInfer>,
            SubPixelCompute<true>)
      .AttrsType<SubPixelAttrs>();
  Injective("nn.space_to_depth", "Blocks of pixels become channels.", Rule<SpaceToDepthInfer>, SubPixelCompute<false>)
      .AttrsType<SubPixelAttrs>();
}

}  // namespace treadle::ops
