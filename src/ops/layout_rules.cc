// SPDX-License-Identifier: Apache-2.0
// Operators that follow the layout of their inputs: where an input exists channel-blocked, they run blocked too.
#include <algorithm>
#include <set>

#include "ops/change_layout.h"
#include "ops/layout_rules.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/int_math.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/nn.h"
#include "treadle/ops/attrs/pool.h"
#include "treadle/ops/attrs/reduce.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/traits.h"

namespace treadle::ops {
namespace {

using relay::CallNode;
using relay::ChannelLayout;
using relay::Expr;
using relay::LaidOutCall;
using relay::LayoutArgs;
using relay::PaddingUse;

using Shape = std::vector<int64_t>;

/// Dimensions; -1 for dynamic ones.
Shape ShapeOf(const TensorTypeNode* type) {
  Shape shape;
  for (const PrimExpr& dim : type->shape) shape.push_back(AsConstInt(dim) != nullptr ? *AsConstInt(dim) : -1);
  return shape;
}

Expr Reshape(const Expr& data, const Shape& shape) {
  static const Op op = Op::Get("reshape");
  return relay::Call(op, {data}, MakeAttrs<ReshapeAttrs>([&](auto& a) {
                       for (int64_t dim : shape) a.newshape.push_back(PrimExpr(dim));
                     }));
}

Expr ExpandDims(const Expr& data, int axis, size_t count) {
  static const Op op = Op::Get("expand_dims");
  if (count == 0) return data;
  return relay::Call(op, {data}, MakeAttrs<ExpandDimsAttrs>([&](auto& a) {
                       a.axis = axis;
                       a.num_newaxis = static_cast<int>(count);
                     }));
}

/// The call in `layout`. Of operators that take channels apart, or refuse layouts with padding.
LaidOutCall SameCall(const CallNode* call, Array<Expr> args, Attrs attrs, const ChannelLayout& layout) {
  return {relay::Call(call->op, std::move(args), std::move(attrs), {}, call->span), layout, PaddingUse::kApart};
}

/// The layout of argument 0 where its channels are in order; else plain.
ChannelLayout OrderedLayout(const LayoutArgs& args) {
  const ChannelLayout layout = args.LayoutOf(0);
  return layout.is_in_order() ? layout : ChannelLayout();
}

/// Whether a call gives finite numbers for finite ones. bfloat16 has the exponents of float32: only numbers
/// beyond 3.39e38 become infinite, which nothing makes of what pads blocks that doesn't make them of all channels.
bool KeepsFinite(const CallNode* call, DataType from) {
  const DataType to = call->type_as<TensorTypeNode>()->dtype;
  if (from.is_integral() || to.is_integral()) return true;
  const auto op = Downcast<Op>(call->op);
  const bool in_range = (to.is_float() && to.bits() >= 32 && to.bits() > from.bits()) ||
                        (to.is_bfloat16() && from == DataType::Float(32));
  return (op->name == "cast" && in_range) || FiniteRuleOf(op) == FiniteRule::kAlways;
}

}  // namespace

/// One tensor in, one of the same shape out.
std::optional<LaidOutCall> ElementwiseLayoutRule(const CallNode* call, LayoutArgs& args) {
  const ChannelLayout layout = args.LayoutOf(0);
  if (layout.is_plain()) return std::nullopt;
  // What pads a block must stay finite.
  const Shape shape = ShapeOf(args.Type(0));
  const bool has_padding = shape.size() == 4 && layout.HasPadding(shape[1]);
  if (has_padding && !KeepsFinite(call, args.Type(0)->dtype)) return std::nullopt;
  return SameCall(call, {args.Get(0, layout)}, call->attrs, layout);
}

namespace {

/// A tensor of that shape (NCHW, none of it symbolic), whatever its own, in `layout`.
Expr InBlocks(const Expr& plain, const Shape& shape, DataType dtype, const ChannelLayout& layout) {
  if (shape[0] == 1 && shape[2] == 1 && shape[3] == 1 && layout.is_in_order() && !layout.HasPadding(shape[1])) {
    return Reshape(plain, {1, shape[1] / layout.block, 1, 1, layout.block});
  }
  Array<PrimExpr> dims;
  for (int64_t dim : shape) dims.push_back(PrimExpr(dim));
  const TensorType type(dims, dtype);
  return ChangeLayout(Reshape(plain, shape), type.as<TensorTypeNode>(), {}, layout);
}

/// An operand of a broadcast, made to line up with a result of `full` (NCHW) in `layout`.
std::optional<Expr> BroadcastOperand(LayoutArgs& args, size_t i, const Shape& full, const ChannelLayout& layout) {
  Shape shape = ShapeOf(args.Type(i));
  const bool is_static = IsStatic(args.Type(i));
  if (is_static && shape == full) return args.Get(i, layout);
  if (shape.size() > 4) return std::nullopt;
  size_t missing = 4 - shape.size();
  Shape aligned(missing, 1);
  aligned.insert(aligned.end(), shape.begin(), shape.end());
  if (aligned[1] == -1 || std::count(aligned.begin(), aligned.end(), 0) > 0) return std::nullopt;
  // One channel whose block is padded: the block must come from the operand that is in the layout.
  if (missing == 0 && aligned[1] == full[1] && args.LayoutOf(i) == layout) return args.Get(i, layout);
  if (aligned[1] == 1) {
    // The same for all channels: one more dimension of extent 1.
    if (!is_static) return ExpandDims(ExpandDims(args.Plain(i), 0, missing), 4, 1);
    if (NumElements(shape) == 1) return args.Plain(i);
    aligned.push_back(1);
    return Reshape(args.Plain(i), aligned);
  }
  if (missing == 0) return args.Get(i, layout);
  Expr plain = args.Plain(i);
  if (!is_static) {
    if (!layout.is_in_order() || layout.HasPadding(aligned[1])) return std::nullopt;
    return LayoutTransform(ExpandDims(plain, 0, missing), "NCHW", layout.axes());
  }
  return InBlocks(plain, aligned, args.Type(i)->dtype, layout);
}

}  // namespace

/// add, multiply, ...: NumPy broadcasting of two tensors, or three.
std::optional<LaidOutCall> BroadcastLayoutRule(const CallNode* call, LayoutArgs& args) {
  Shape full = ShapeOf(call->type_as<TensorTypeNode>());
  if (full.size() != 4 || full[1] == -1) return std::nullopt;
  ChannelLayout layout;
  for (size_t i = 0; i < args.size(); ++i) {
    Shape shape = ShapeOf(args.Type(i));
    if (shape.size() != 4 || shape[1] != full[1]) continue;
    // What comes from a convolution of groups goes to one, most often.
    const ChannelLayout own = args.LayoutOf(i);
    if (layout.is_plain() || (layout.is_in_order() && !own.is_in_order())) layout = own;
  }
  if (layout.is_plain()) return std::nullopt;
  if (layout.HasPadding(full[1])) {
    // What pads a block must stay finite.
    const FiniteRule rule = FiniteRuleOf(Downcast<Op>(call->op));
    const bool by_scalar = IsStatic(args.Type(1)) && NumElements(ShapeOf(args.Type(1))) == 1;
    if (rule == FiniteRule::kNever || (rule == FiniteRule::kByScalar && !by_scalar)) return std::nullopt;
  }
  Array<Expr> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    auto operand = BroadcastOperand(args, i, full, layout);
    if (!operand) return std::nullopt;
    operands.push_back(*operand);
  }
  return SameCall(call, operands, call->attrs, layout);
}

std::optional<LaidOutCall> BiasAddLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs_as<BiasAddAttrs>();
  const ChannelLayout layout = args.LayoutOf(0);
  Shape full = ShapeOf(call->type_as<TensorTypeNode>());
  if (layout.is_plain() || attrs->axis != 1 || full.size() != 4 || full[1] == -1) return std::nullopt;
  static const Op add = Op::Get("add");
  Expr bias = InBlocks(args.Plain(1), {1, full[1], 1, 1}, args.Type(1)->dtype, layout);
  return LaidOutCall{relay::Call(add, {args.Get(0, layout), bias}, Attrs(), {}, call->span), layout,
                     PaddingUse::kApart};
}

namespace {

template <typename PoolAttrsType>
std::optional<LaidOutCall> PoolIn(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs_as<PoolAttrsType>();
  const ChannelLayout layout = args.LayoutOf(0);
  if (layout.is_plain() || !attrs->IsIn("NCHW")) return std::nullopt;
  auto node = MakeObject<PoolAttrsType>(*attrs);
  node->layout = node->out_layout = layout.axes();
  return SameCall(call, {args.Get(0, layout)}, Attrs(ObjectPtr<Object>(node)), layout);
}

}  // namespace

std::optional<LaidOutCall> PoolLayoutRule(const CallNode* call, LayoutArgs& args) {
  if (call->attrs.as<MaxPool2DAttrs>()) return PoolIn<MaxPool2DAttrs>(call, args);
  if (call->attrs.as<AvgPool2DAttrs>()) return PoolIn<AvgPool2DAttrs>(call, args);
  return PoolIn<GlobalPool2DAttrs>(call, args);
}

std::optional<LaidOutCall> ConcatenateLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* attrs = call->attrs_as<ConcatenateAttrs>();
  if (attrs->axis != 1 || call->type_as<TensorTypeNode>()->shape.size() != 4) return std::nullopt;
  // The layout that most inputs have; ties go to the first.
  ChannelLayout layout;
  size_t best = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    size_t count = 0;
    const ChannelLayout own = args.LayoutOf(i).WithoutGroups();
    for (size_t j = 0; j < args.size(); ++j) count += args.LayoutOf(j).WithoutGroups() == own;
    if (own.is_blocked() && count > best) {
      best = count;
      layout = own;
    }
  }
  if (layout.is_plain()) return std::nullopt;
  // All but the last must have whole blocks; smaller ones are more often whole.
  auto fits = [&](const ChannelLayout& blocks) {
    for (size_t i = 0; i < args.size(); ++i) {
      const int64_t* channels = AsConstInt(args.Type(i)->shape[1]);
      if (channels == nullptr) return false;
      if (i + 1 < args.size() && *channels % blocks.block != 0) return false;
    }
    return true;
  };
  if (!fits(layout)) layout = {8};
  if (!fits(layout)) return std::nullopt;
  Array<Expr> fields;
  for (size_t i = 0; i < args.size(); ++i) fields.push_back(args.Get(i, layout));
  return SameCall(call, {relay::Tuple(fields)}, call->attrs, layout);
}

std::optional<LaidOutCall> LRNLayoutRule(const CallNode* call, LayoutArgs& args) {
  const ChannelLayout layout = OrderedLayout(args);
  if (layout.is_plain() || call->attrs_as<LRNAttrs>()->axis != 1) return std::nullopt;
  if (layout.HasPadding(ShapeOf(args.Type(0))[1])) return std::nullopt;  // neighbours are read
  static const Op blocked = Op::Get("nn.contrib_lrn_NCHWc");
  return LaidOutCall{relay::Call(blocked, {args.Get(0, layout)}, call->attrs, {}, call->span), layout};
}

namespace {

/// Dimensions of the first argument where it is a tensor of rank 4 that exists blocked (its channels are known); else
/// nothing.
std::optional<Shape> BlockedArgument(const LayoutArgs& args) {
  const auto* type = args.Type(0);
  if (args.LayoutOf(0).is_plain() || type == nullptr || type->shape.size() != 4) return std::nullopt;
  return ShapeOf(type);
}

}  // namespace

/// Slices that keep blocks of channels whole.
std::optional<LaidOutCall> StridedSliceLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs_as<StridedSliceAttrs>();
  auto shape = BlockedArgument(args);
  const ChannelLayout layout = OrderedLayout(args);
  if (!shape || layout.is_plain() || a->slice_mode != "end") return std::nullopt;
  const int64_t block = layout.block;
  StridedSliceAttrs blocked = *a;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < a->begin.size(); ++i) {
    int64_t axis = a->axes ? (*a->axes)[i] : static_cast<int64_t>(i);
    if (axis < 0) axis += 4;
    axes.push_back(axis);
    if (axis != 1) continue;
    const int64_t size = (*shape)[1], step = i < a->strides.size() ? a->strides[i] : 1;
    const int64_t begin = a->begin[i] < 0 ? a->begin[i] + size : a->begin[i];
    const int64_t end = std::min(a->end[i] < 0 ? a->end[i] + size : a->end[i], size);
    const bool whole = end % block == 0 || end == size;
    if (step != 1 || begin < 0 || end <= begin || begin % block != 0 || !whole) return std::nullopt;
    blocked.begin[i] = begin / block;
    blocked.end[i] = CeilDiv(end, block);
  }
  blocked.axes = axes;
  return SameCall(call, {args.Get(0, layout)}, Attrs(MakeObject<StridedSliceAttrs>(blocked)), layout);
}

/// Padding of other dimensions than channels.
std::optional<LaidOutCall> PadLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs_as<PadAttrs>();
  auto shape = BlockedArgument(args);
  if (!shape || a->pad_width.size() != 4 || !tir::is_zero(a->pad_width[1][0]) || !tir::is_zero(a->pad_width[1][1])) {
    return std::nullopt;
  }
  const ChannelLayout layout = args.LayoutOf(0);
  auto blocked = MakeObject<PadAttrs>(*a);
  blocked->pad_width.push_back(a->pad_width[1]);
  Array<Expr> operands{args.Get(0, layout)};
  for (size_t i = 1; i < args.size(); ++i) operands.push_back(args.Plain(i));
  return SameCall(call, operands, Attrs(ObjectPtr<Object>(blocked)), layout);
}

namespace {

/// Without a blocked consumer the smaller of argument and result becomes plain.
template <typename ResizeAttrsType>
std::optional<LaidOutCall> ResizeIn(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs_as<ResizeAttrsType>();
  auto shape = BlockedArgument(args);
  if (!shape || a->layout != "NCHW") return std::nullopt;
  const Shape result = ShapeOf(call->type_as<TensorTypeNode>());
  const bool known = result[2] >= 0 && result[3] >= 0 && (*shape)[2] >= 0 && (*shape)[3] >= 0;
  const bool shrinks = known && result[2] * result[3] < (*shape)[2] * (*shape)[3];
  if (!args.HasBlockedConsumer() && !shrinks) return std::nullopt;
  const ChannelLayout layout = args.LayoutOf(0);
  auto blocked = MakeObject<ResizeAttrsType>(*a);
  blocked->layout = layout.axes();
  Array<Expr> operands{args.Get(0, layout)};
  for (size_t i = 1; i < args.size(); ++i) operands.push_back(args.Plain(i));
  return SameCall(call, operands, Attrs(ObjectPtr<Object>(blocked)), layout);
}

}  // namespace

std::optional<LaidOutCall> ResizeLayoutRule(const CallNode* call, LayoutArgs& args) {
  if (call->attrs.as<Resize2DAttrs>()) return ResizeIn<Resize2DAttrs>(call, args);
  return ResizeIn<UpSamplingAttrs>(call, args);
}

namespace {

/// A reduction of all dimensions but the first (`axes` of NCHW), whose result is plain. Channels that pad blocks would
/// take part.
std::optional<LaidOutCall> ReduceChannels(const CallNode* call, LayoutArgs& args, std::vector<int64_t> axes) {
  const ChannelLayout layout = args.LayoutOf(0);
  const auto shape = BlockedArgument(args);
  if (!shape || !layout.is_in_order() || layout.HasPadding((*shape)[1])) return std::nullopt;
  axes.push_back(4);
  auto blocked = MakeObject<ReduceAttrs>(*call->attrs_as<ReduceAttrs>());
  blocked->axis = std::move(axes);
  blocked->keepdims = true;
  const Expr sum = relay::Call(call->op, {args.Get(0, layout)}, Attrs(ObjectPtr<Object>(blocked)), {}, call->span);
  return LaidOutCall{Reshape(sum, ShapeOf(call->type_as<TensorTypeNode>())), {}};
}

}  // namespace

/// Reductions of rows and columns, or of these and channels. A result of lower rank becomes plain: it is small.
std::optional<LaidOutCall> ReduceLayoutRule(const CallNode* call, LayoutArgs& args) {
  const auto* a = call->attrs_as<ReduceAttrs>();
  if (a->exclude || !a->axis || a->axis->empty()) return std::nullopt;
  std::vector<int64_t> axes = *a->axis;
  for (int64_t& axis : axes) axis += axis < 0 ? 4 : 0;
  const bool all_but_batch = std::set<int64_t>(axes.begin(), axes.end()) == std::set<int64_t>{1, 2, 3};
  if (all_but_batch) return ReduceChannels(call, args, axes);
  // Only results of lower rank are written with sizes.
  const auto* data = args.Type(0);
  const bool any_size = a->keepdims && !args.LayoutOf(0).is_plain() && data != nullptr && data->shape.size() == 4;
  if (!any_size && (!BlockedArgument(args) || !IsStatic(data))) return std::nullopt;
  auto blocked = MakeObject<ReduceAttrs>(*a);
  blocked->keepdims = true;
  if (std::any_of(axes.begin(), axes.end(), [](int64_t axis) { return axis < 2; })) return std::nullopt;
  blocked->axis = axes;
  const ChannelLayout layout = args.LayoutOf(0);
  LaidOutCall result = SameCall(call, {args.Get(0, layout)}, Attrs(ObjectPtr<Object>(blocked)), layout);
  if (a->keepdims) return result;
  Array<PrimExpr> kept = args.Type(0)->shape;
  for (int64_t axis : *blocked->axis) kept.Set(static_cast<size_t>(axis), PrimExpr(int64_t{1}));
  const TensorType type(kept, args.Type(0)->dtype);
  Expr plain = ChangeLayout(result.expr, type.as<TensorTypeNode>(), layout, {});
  return LaidOutCall{Reshape(plain, ShapeOf(call->type_as<TensorTypeNode>())), {}};
}

}  // namespace treadle::ops
