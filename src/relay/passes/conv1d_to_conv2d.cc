// SPDX-License-Identifier: Apache-2.0
// Conv1DToConv2D: a convolution over one dimension becomes one over two, the first of extent 1, so that layouts and
// kernels are chosen for one kind of convolution. Element-wise operators between convolutions follow, so that nothing
// stands between them.
#include "relay/passes/pass_util.h"

namespace treadle::relay {
namespace {

/// NCW -> NCHW.
constexpr int kHeight = 2;

class Widener : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr) return post;
    Expr wide = AsCallOf(post, "nn.conv1d") != nullptr ? Convolution(call) : ElementWise(pre, call);
    if (!wide.defined()) return post;
    Expr narrow = ops::MakeSqueeze(wide, {kHeight});
    wide_[narrow.get()] = wide;
    return narrow;
  }

  /// The NCHW form of an NCW expression that has one already.
  Expr Known(const Expr& e) const {
    auto it = wide_.find(e.get());
    return it == wide_.end() ? Expr() : it->second;
  }

  Expr Convolution(const CallNode* call) {
    const auto* narrow = call->attrs_as<ops::Conv1DAttrs>();
    if (narrow->data_layout != "NCW" || narrow->kernel_layout != "OIW" ||
        (!narrow->out_layout.empty() && narrow->out_layout != "NCW")) {
      return Expr();
    }
    Expr data = Known(call->args[0]);
    if (!data.defined()) data = ops::MakeExpandDims(call->args[0], kHeight);
    auto attrs = MakeAttrs<ops::Conv2DAttrs>([&](auto& a) {
      a.strides = {1, narrow->strides[0]};
      a.dilation = {1, narrow->dilation[0]};
      a.padding = {0, narrow->padding[0], 0, narrow->padding.back()};
      a.groups = narrow->groups;
      a.channels = narrow->channels;
      if (narrow->kernel_size) a.kernel_size = {1, (*narrow->kernel_size)[0]};
      a.out_dtype = narrow->out_dtype;
    });
    return ops::CallOp("nn.conv2d", {data, ops::MakeExpandDims(call->args[1], kHeight)}, attrs, call->span);
  }

  /// The operator on NCHW operands, where one of them has that form.
  Expr ElementWise(const CallNode* pre, const CallNode* call) {
    OpPatternKind pattern = Downcast<Op>(call->op).GetAttr(kOpPattern, OpPatternKind::kOpaque);
    if (pattern > OpPatternKind::kBroadcast || call->args.size() > 2) return Expr();
    if (call->args.size() == 1 && pattern != OpPatternKind::kElemWise) return Expr();
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

  std::unordered_map<const Object*, Expr> wide_;
};

}  // namespace

namespace transform {

Pass Conv1DToConv2D() {
  return CreateFunctionPass([](const Function& func, const IRModule&,
                               const PassContext&) { return Downcast<Function>(Widener().Mutate(func)); },
                            {"Conv1DToConv2D", 3, {"InferType"}, "Runs one-dimensional convolutions as two-dimensional"});
}

}  // namespace transform
}  // namespace treadle::relay
