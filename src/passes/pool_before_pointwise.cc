// SPDX-License-Identifier: Apache-2.0
// PoolBeforePointwise: an average pool of a convolution whose window is one pixel becomes the convolution of the pooled
// input, which multiplies fewer pixels. Both are linear, and averages of a bias are the bias. Transitions of DenseNet
// (Huang et al., 2017) are stated so.
#include <algorithm>

#include "passes/channel_scale.h"
#include "passes/pass_util.h"
#include "passes/pointwise.h"
#include "treadle/ops/attrs/pool.h"

namespace treadle::relay {
namespace {

bool All(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

/// The layout of a pool that makes fewer pixels, each of them an average of pixels of the image; else nothing.
std::optional<Layout> LayoutOfAverages(const CallNode* call) {
  if (OpName(call) == "nn.global_avg_pool2d") {
    const auto* attrs = call->attrs_as<ops::GlobalPoolAttrs>();
    return Layout(attrs->layout);
  }
  if (OpName(call) != "nn.avg_pool2d") return std::nullopt;
  const auto* attrs = call->attrs_as<ops::AvgPoolAttrs>();
  const bool counts_border = attrs->count_include_pad && (attrs->ceil_mode || !All(attrs->padding, 0));
  const bool same_layout = attrs->ParsedLayout() == attrs->ParsedOutLayout();
  if (counts_border || !same_layout || All(attrs->strides, 1)) return std::nullopt;
  return attrs->ParsedLayout();
}

/// Whether pooling the inputs of the convolution takes less than it saves.
bool SavesMore(const CallNode* conv) {
  constexpr int64_t kMostInputs = 4;  // per output
  const PointwiseChannels channels = ChannelsOfPointwise(conv);
  return channels.in <= kMostInputs * channels.out;
}

class PoolMover : public MixedModeMutator {
 public:
  explicit PoolMover(const Expr& root) : uses_(CountUses(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto layout = LayoutOfAverages(pre);
    if (!layout) return post;
    Expr bias;
    const auto* conv = pre->args[0].as<CallNode>();
    if (conv != nullptr && OpName(conv) == "add" && uses_[conv] == 1) {
      const auto scale = AsChannelScale(conv->args[1], conv->type_as<TensorTypeNode>());
      if (!scale || scale->axis != layout->IndexOf('C')) return post;
      bias = conv->args[1];
      conv = conv->args[0].as<CallNode>();
    }
    if (conv == nullptr || uses_[conv] != 1 || !IsPointwise(conv, *layout) || !SavesMore(conv)) return post;
    const Expr pooled = Call(pre->op, {Mutate(conv->args[0])}, pre->attrs, pre->type_args, pre->span);
    const Expr result = Call(conv->op, {pooled, Mutate(conv->args[1])}, conv->attrs, conv->type_args, conv->span);
    return bias.defined() ? ops::CallOp("add", {result, bias}) : result;
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass PoolBeforePointwise() {
  return MutatorPass<PoolMover>({"PoolBeforePointwise", 2, {"InferType"}, "Averages pixels before they are convolved"});
}

}  // namespace transform
}  // namespace treadle::relay
