// SPDX-License-Identifier: Apache-2.0
// Conv1DToConv2D: a convolution over one dimension becomes one over two, the first of extent 1, so that layouts and
// kernels are chosen for one kind of convolution. Element-wise operators, padding, slices, pooling and concatenation
// between convolutions follow, so that nothing stands between them.
#include "targets/cpu/graph/passes.h"

#include <type_traits>

#include "passes/pass_util.h"
#include "passes/wide_conv.h"
#include "targets/cpu/graph/channel_axis.h"

namespace treadle::relay {
namespace {

/// NCW -> NCHW.
constexpr int kHeight = 2;

class Widener : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    Expr wide = Wide(pre, call);
    if (!wide.defined()) return post;
    Expr narrow = ops::MakeSqueeze(wide, {kHeight});
    wide_[narrow.get()] = {narrow, wide};
    return narrow;
  }

  Expr Wide(const CallNode* pre, const CallNode* call) {
    const std::string& name = OpName(call);
    if (name == "nn.conv1d") return Convolution(call);
    if (name == "nn.conv1d_transpose") return Transposed(call);
    if (name == "concatenate") return Concatenation(call);
    if (!call->args.empty() && Known(call->args[0]).defined()) {
      if (name == "nn.pad") return Padded(call);
      if (name == "strided_slice") return Slice(call);
      if (name == "nn.max_pool1d") return Pool<ops::MaxPool1DAttrs, ops::MaxPool2DAttrs>(call, "nn.max_pool2d");
      if (name == "nn.avg_pool1d") return Pool<ops::AvgPool1DAttrs, ops::AvgPool2DAttrs>(call, "nn.avg_pool2d");
    }
    if (name == "mean" || name == "sum" || name == "max" || name == "min") {
      Expr reduced = Reduction(pre, call);
      if (reduced.defined()) return reduced;
    }
    return ElementWise(pre, call);
  }

  /// Of positions, to one.
  Expr Reduction(const CallNode* pre, const CallNode* call) {
    Expr wide = Known(call->args[0]);
    const auto* narrow = call->attrs_as<ops::ReduceAttrs>();
    if (!wide.defined() || narrow->exclude || !narrow->keepdims || !narrow->axis || narrow->axis->size() != 1) {
      return Expr();
    }
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    if (type == nullptr || type->shape.size() != 3 || PositiveAxis(static_cast<int>((*narrow->axis)[0]), 3) != 2)
      return Expr();
    auto attrs = MakeObject<ops::ReduceAttrs>(*narrow);
    attrs->axis = {int64_t{kHeight} + 1};
    return ops::CallOp(OpName(call), {wide}, Attrs(ObjectPtr<Object>(attrs)), call->span);
  }

  /// The NCHW form of an NCW expression that has one already.
  Expr Known(const Expr& e) const {
    auto it = wide_.find(e.get());
    return it == wide_.end() ? Expr() : it->second.second;
  }
  Expr WideForm(const Expr& e) const {
    Expr known = Known(e);
    return known.defined() ? known : ops::MakeExpandDims(e, kHeight);
  }

  Expr Convolution(const CallNode* call) {
    const auto* narrow = call->attrs_as<ops::Conv1DAttrs>();
    if (!narrow->IsIn("NCW", "OIW")) {
      return Expr();
    }
    Expr data = WideForm(call->args[0]);
    return ops::CallOp("nn.conv2d", {data, WithOneRow(call->args[1])}, WideConvAttrs(*narrow), call->span);
  }

  Expr Transposed(const CallNode* call) {
    const auto* narrow = call->attrs_as<ops::Conv1DTransposeAttrs>();
    if (!(narrow->IsIn("NCW", "IOW") || narrow->IsIn("NCW", "OIW"))) {
      return Expr();
    }
    auto attrs = MakeAttrs<ops::Conv2DTransposeAttrs>([&](auto& a) {
      a.strides = {1, narrow->strides[0]};
      a.dilation = {1, narrow->dilation[0]};
      a.padding = {0, narrow->padding[0], 0, narrow->padding.back()};
      a.output_padding = {0, narrow->output_padding[0]};
      a.groups = narrow->groups;
      a.channels = narrow->channels;
      if (narrow->kernel_size) a.kernel_size = {1, (*narrow->kernel_size)[0]};
      a.out_dtype = narrow->out_dtype;
    });
    Array<Expr> args{WideForm(call->args[0]), WithOneRow(call->args[1])};
    return ops::CallOp("nn.conv2d_transpose", args, attrs, call->span);
  }

  /// Of channels.
  Expr Concatenation(const CallNode* call) {
    const auto* parts = call->args[0].as<TupleNode>();
    if (parts == nullptr || call->attrs_as<ops::ConcatenateAttrs>()->axis != 1) return Expr();
    bool any = false;
    Array<Expr> fields;
    for (const Expr& part : parts->fields) {
      any |= Known(part).defined();
      fields.push_back(WideForm(part));
    }
    return any ? ops::MakeConcatenate(fields, 1) : Expr();
  }

  Expr Padded(const CallNode* call) {
    auto attrs = MakeObject<ops::PadAttrs>(*call->attrs_as<ops::PadAttrs>());
    if (attrs->pad_width.size() != 3) return Expr();
    attrs->pad_width.insert(kHeight, Array<PrimExpr>{PrimExpr(int64_t{0}), PrimExpr(int64_t{0})});
    Array<Expr> args = call->args;
    args.Set(0, Known(call->args[0]));
    return ops::CallOp("nn.pad", args, Attrs(ObjectPtr<Object>(attrs)), call->span);
  }

  Expr Slice(const CallNode* call) {
    auto attrs = MakeObject<ops::StridedSliceAttrs>(*call->attrs_as<ops::StridedSliceAttrs>());
    std::vector<int64_t> axes;
    for (size_t i = 0; i < attrs->begin.size(); ++i) {
      int64_t axis = attrs->axes ? (*attrs->axes)[i] : static_cast<int64_t>(i);
      if (axis < 0) axis += 3;
      axes.push_back(axis < kHeight ? axis : axis + 1);
    }
    attrs->axes = axes;
    return ops::CallOp("strided_slice", {Known(call->args[0])}, Attrs(ObjectPtr<Object>(attrs)), call->span);
  }

  template <typename From, typename To>
  Expr Pool(const CallNode* call, const char* name) {
    const auto* narrow = call->attrs_as<From>();
    if (!narrow->IsIn("NCW")) return Expr();
    auto attrs = MakeAttrs<To>([&](auto& a) {
      a.pool_size = {1, narrow->pool_size[0]};
      a.strides = {1, narrow->strides[0]};
      a.dilation = {1, narrow->dilation[0]};
      a.padding = {0, narrow->padding[0], 0, narrow->padding.back()};
      a.ceil_mode = narrow->ceil_mode;
      if constexpr (std::is_same_v<From, ops::AvgPool1DAttrs>) a.count_include_pad = narrow->count_include_pad;
    });
    return ops::CallOp(name, {Known(call->args[0])}, attrs, call->span);
  }

  /// The operator on NCHW operands, where one of them has that form.
  Expr ElementWise(const CallNode* pre, const CallNode* call) {
    OpPatternKind pattern = Downcast<Op>(call->op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
    if (pattern > OpPatternKind::kBroadcast || call->args.size() > 3) return Expr();
    if (call->args.size() == 1 && pattern != OpPatternKind::kElemWise) return Expr();
    if (!NamesChannelsOnly(pre)) return Expr();
    const auto* type = TensorTypeOf(GetRef<Expr>(pre));
    if (type == nullptr || type->shape.size() != 3) return Expr();
    bool any = false;
    Array<Expr> args;
    for (size_t i = 0; i < call->args.size(); ++i) {
      Expr wide = Known(call->args[i]);
      any |= wide.defined();
      const auto* operand = TensorTypeOf(pre->args[i]);
      if (operand == nullptr) return Expr();
      size_t rank = operand->shape.size();
      if (wide.defined()) {
        args.push_back(wide);
      } else if (rank >= 2) {
        args.push_back(ops::MakeExpandDims(call->args[i], static_cast<int>(rank) - 1));
      } else {
        args.push_back(call->args[i]);
      }
    }
    return any ? Expr(Call(call->op, args, call->attrs, call->type_args, call->span)) : Expr();
  }

  /// By narrow form, which is kept alive.
  std::unordered_map<const Object*, std::pair<Expr, Expr>> wide_;
};

}  // namespace

namespace transform {

Pass Conv1DToConv2D() {
  return MutatorPass<Widener>(
      {"Conv1DToConv2D", 3, {"InferType"}, "Runs one-dimensional convolutions as two-dimensional"});
}

}  // namespace transform
}  // namespace treadle::relay
