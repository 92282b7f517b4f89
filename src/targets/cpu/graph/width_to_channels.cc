// SPDX-License-Identifier: Apache-2.0
// WidthToChannels: where windows of few channels cover the whole width of images, as those over sentences of embedded
// words (Kim 2014, arXiv:1408.5882), a column is a channel: (N, C, H, W) is convolved as (N, C W, 1, H). Sums are over
// channels then, which layouts and kernels are made for.
#include "targets/cpu/graph/passes.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/pass_util.h"

namespace treadle::relay {
namespace {

/// Channels that don't fill vectors, and columns that do.
constexpr int64_t kMostChannels = 7, kLeastWidth = 8;

using Sizes = std::array<int64_t, 4>;

std::optional<Sizes> SizesOf(const Expr& e) {
  const auto* type = TensorTypeOf(e);
  if (type == nullptr || type->shape.size() != 4) return std::nullopt;
  Sizes sizes{};
  for (size_t i = 0; i < 4; ++i) {
    const int64_t* size = AsConstInt(type->shape[i]);
    if (size == nullptr) return std::nullopt;
    sizes[i] = *size;
  }
  return sizes;
}

class Folder : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    std::optional<Sizes> out = SizesOf(GetRef<Expr>(pre));
    if (call == nullptr || call->op.as<OpNode>() == nullptr || !out) return post;
    Expr folded = OpName(call) == "nn.conv2d" ? Convolution(pre, call, *out) : Follow(call);
    if (!folded.defined()) return post;
    Expr result = ops::MakeReshape(folded, std::vector<int64_t>(out->begin(), out->end()));
    folded_[result.get()] = {result, folded};
    return result;
  }

  static Expr Convolution(const CallNode* pre, const CallNode* call, const Sizes& out) {
    const auto* a = call->attrs_as<ops::Conv2DAttrs>();
    std::optional<Sizes> data = SizesOf(pre->args[0]), weight = SizesOf(pre->args[1]);
    const bool plain = a->IsIn("NCHW", "OIHW") && a->groups == 1 && a->padding.size() == 4 && a->strides.size() == 2 &&
                       a->dilation.size() == 2;
    if (!plain || !data || !weight) return Expr();
    const auto [n, channels, height, width] = *data;
    const bool covers = (*weight)[3] == width && out[3] == 1 && a->padding[1] == 0 && a->padding[3] == 0;
    if (!covers || channels > kMostChannels || width < kLeastWidth || out[2] == 1) return Expr();
    auto attrs = MakeObject<ops::Conv2DAttrs>(*a);
    attrs->strides = {1, a->strides[0]};
    attrs->dilation = {1, a->dilation[0]};
    attrs->padding = {0, a->padding[0], 0, a->padding[2]};
    attrs->kernel_size = {1, (*weight)[2]};
    auto fold = [](const Expr& e, int64_t first, int64_t folded, int64_t last) {
      return ops::MakeReshape(ops::MakeTranspose(e, {0, 1, 3, 2}), std::vector<int64_t>{first, folded, 1, last});
    };
    Array<Expr> args{fold(call->args[0], n, channels * width, height),
                     fold(call->args[1], (*weight)[0], channels * width, (*weight)[2])};
    return ops::CallOp("nn.conv2d", args, Attrs(ObjectPtr<Object>(attrs)), call->span);
  }

  /// Biases and functions of one argument stay with the convolution.
  Expr Follow(const CallNode* call) const {
    auto it = call->args.empty() ? folded_.end() : folded_.find(call->args[0].get());
    if (it == folded_.end()) return Expr();
    const bool bias = OpName(call) == "nn.bias_add" && call->attrs_as<ops::BiasAddAttrs>()->axis == 1;
    const bool unary = call->args.size() == 1 &&
                       Downcast<Op>(call->op).GetAttr(kOpPattern, OpPatternKind::kOpaque) == OpPatternKind::kElemWise;
    if (!bias && !unary) return Expr();
    Array<Expr> args = call->args;
    args.Set(0, it->second.second);
    return Call(call->op, args, call->attrs, call->type_args, call->span);
  }

  /// (N, C W, 1, H) forms by the forms that the model states, which are kept alive.
  std::unordered_map<const Object*, std::pair<Expr, Expr>> folded_;
};

}  // namespace

namespace transform {

Pass WidthToChannels() {
  return MutatorPass<Folder>(
      {"WidthToChannels", 3, {"InferType"}, "Makes channels of the columns that windows cover whole"});
}

}  // namespace transform
}  // namespace treadle::relay
