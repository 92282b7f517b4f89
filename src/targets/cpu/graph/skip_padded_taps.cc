// SPDX-License-Identifier: Apache-2.0
// SkipPaddedTaps: where dilation is large beside an image, as in DeepLab's pyramids (Chen et al. 2017,
// arXiv:1706.05587), most taps of a window lie in the padding. Results whose windows have the same taps within the
// image are a block, which is convolved with those taps alone.
#include "targets/cpu/graph/passes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/pass_util.h"
#include "targets/cpu/graph/plain_conv.h"

namespace treadle::relay {
namespace {

using Ints = std::vector<int64_t>;

/// Neighbouring outputs [begin, end) of one dimension, whose windows have taps [first, last] within the image.
struct Segment {
  int64_t begin, end, first, last;

  int64_t Taps() const { return last - first + 1; }
};

/// One dimension of a convolution.
struct Side {
  int64_t in, out, taps, before, dilation;

  /// Empty where some window has no tap within the image.
  std::vector<Segment> Segments() const {
    std::vector<Segment> segments;
    for (int64_t y = 0; y < out; ++y) {
      int64_t first = 0, last = taps - 1;
      while (first < taps && At(y, first) < 0) ++first;
      while (last >= 0 && At(y, last) >= in) --last;
      if (first > last) return {};
      if (!segments.empty() && segments.back().first == first && segments.back().last == last) {
        segments.back().end = y + 1;
      } else {
        segments.push_back({y, y + 1, first, last});
      }
    }
    return segments;
  }
  /// The pixel that a tap of the window of output `y` is at.
  int64_t At(int64_t y, int64_t tap) const { return y - before + tap * dilation; }
  /// Products that remain, of all.
  double Share(const std::vector<Segment>& segments) const {
    int64_t products = 0;
    for (const Segment& s : segments) products += (s.end - s.begin) * s.Taps();
    return static_cast<double>(products) / static_cast<double>(out * taps);
  }
};

class Skipper : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    constexpr double kMostShare = 0.6;  // blocks have shorter rows, and weights of their own
    constexpr size_t kMostSegments = 3;
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr || OpName(call) != "nn.conv2d") return post;
    const auto *data = TensorTypeOf(pre->args[0]), *weight = TensorTypeOf(pre->args[1]),
               *out = TensorTypeOf(GetRef<Expr>(pre));
    const auto* attrs = call->attrs_as<ops::Conv2DAttrs>();
    if (!Fits(attrs, data, weight, out)) return post;
    double share = 1;
    std::vector<Segment> segments[2];
    Side sides[2];
    for (size_t i = 0; i < 2; ++i) {
      sides[i] = {*AsConstInt(data->shape[2 + i]), *AsConstInt(out->shape[2 + i]), *AsConstInt(weight->shape[2 + i]),
                  attrs->padding[i], attrs->dilation[i]};
      segments[i] = sides[i].Segments();
      if (segments[i].empty() || segments[i].size() > kMostSegments) return post;
      share *= sides[i].Share(segments[i]);
    }
    if (share > kMostShare) return post;
    Array<Expr> bands;
    for (const Segment& rows : segments[0]) {
      Array<Expr> blocks;
      for (const Segment& columns : segments[1]) blocks.push_back(Block(call, attrs, sides, rows, columns));
      bands.push_back(blocks.size() == 1 ? blocks[0] : ops::MakeConcatenate(blocks, 3));
    }
    return bands.size() == 1 ? bands[0] : ops::MakeConcatenate(bands, 2);
  }

  static bool Fits(const ops::Conv2DAttrs* a, const TensorTypeNode* data, const TensorTypeNode* weight,
                   const TensorTypeNode* out) {
    constexpr int64_t kLeastChannels = 32, kMostPixels = 1 << 10;
    return IsPlainConv(a, data, weight, out, kLeastChannels) &&
           *std::max_element(a->dilation.begin(), a->dilation.end()) > 1 &&
           std::max(*AsConstInt(out->shape[2]), *AsConstInt(out->shape[3])) <= kMostPixels;
  }

  static Expr Block(const CallNode* call, const ops::Conv2DAttrs* attrs, const Side (&sides)[2], const Segment& rows,
                    const Segment& columns) {
    const Ints axes{2, 3}, ones(2, 1);
    const auto begin = [](const Side& side, const Segment& s) { return side.At(s.begin, s.first); };
    const auto end = [](const Side& side, const Segment& s) { return side.At(s.end - 1, s.last) + 1; };
    const Expr image = ops::MakeStridedSlice(call->args[0], {begin(sides[0], rows), begin(sides[1], columns)},
                                             {end(sides[0], rows), end(sides[1], columns)}, ones, axes);
    const Expr taps = ops::MakeStridedSlice(call->args[1], {rows.first, columns.first},
                                            {rows.last + 1, columns.last + 1}, ones, axes);
    auto window = MakeObject<ops::Conv2DAttrs>(*attrs);
    window->padding = {0, 0, 0, 0};
    window->kernel_size = Ints{rows.Taps(), columns.Taps()};
    return ops::CallOp("nn.conv2d", {image, taps}, Attrs(ObjectPtr<Object>(window)), call->span);
  }
};

}  // namespace

namespace transform {

Pass SkipPaddedTaps() {
  return MutatorPass<Skipper>(
      {"SkipPaddedTaps", 3, {"InferType"}, "Leaves out taps of dilated windows that lie in the padding"});
}

}  // namespace transform
}  // namespace treadle::relay
