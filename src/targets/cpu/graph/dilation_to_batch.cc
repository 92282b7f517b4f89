// SPDX-License-Identifier: Apache-2.0
// DilationToBatch: a convolution whose window takes each second pixel is one of four images, the even or odd rows and
// columns, with a window without gaps (Yu & Koltun 2016, arXiv:1511.07122; TensorFlow's SpaceToBatchND). Winograd's
// method has a form for that; its tiles must fill those smaller images.
#include "targets/cpu/graph/passes.h"

#include <algorithm>

#include "ir/accuracy.h"
#include "passes/pass_util.h"
#include "targets/cpu/graph/plain_conv.h"
#include "targets/cpu/kernels/winograd_transform.h"
#include "treadle/base/int_math.h"
#include "treadle/ops/attrs/nn.h"

namespace treadle::relay {
namespace {

constexpr int64_t kDilation = 2, kTaps = 3, kTile = 4;

/// Rows, or columns, that both sides of a convolution have.
struct Extent {
  int64_t in, out, before, after;  ///< `before`, `after`: padding

  /// Pixels that make the padded input whole pairs.
  int64_t Missing() const { return (in + before + after) % kDilation; }
  int64_t OutputsOfImage() const { return (in + before + after + Missing()) / kDilation - (kTaps - 1); }
  /// Outputs that are computed for each that there is.
  double Waste() const {
    const int64_t tiles = CeilDiv(OutputsOfImage(), kTile);
    return static_cast<double>(tiles * kTile * kDilation) / static_cast<double>(out);
  }
};

class Divider : public MixedModeMutator {
  using MixedModeMutator::Rewrite_;

  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const auto* call = post.as<CallNode>();
    if (call == nullptr || call->op.as<OpNode>() == nullptr || OpName(call) != "nn.conv2d") return post;
    const auto *data = TensorTypeOf(pre->args[0]), *weight = TensorTypeOf(pre->args[1]),
               *out = TensorTypeOf(GetRef<Expr>(pre));
    const auto* attrs = call->attrs_as<ops::Conv2DAttrs>();
    if (!Fits(attrs, data, weight, out)) return post;
    Extent sides[2];
    for (size_t i = 0; i < 2; ++i) {
      sides[i] = {*AsConstInt(data->shape[2 + i]), *AsConstInt(out->shape[2 + i]), attrs->padding[i],
                  attrs->padding[2 + i]};
    }
    constexpr double kMostWaste = 1.6;  // of a method that multiplies a quarter as often
    if (sides[0].Waste() * sides[1].Waste() > kMostWaste) return post;
    return Divided(call, attrs, sides);
  }

  static bool Fits(const ops::Conv2DAttrs* a, const TensorTypeNode* data, const TensorTypeNode* weight,
                   const TensorTypeNode* out) {
    constexpr int64_t kLeastChannels = 32;
    return IsPlainConv(a, data, weight, out, kLeastChannels) && *AsConstInt(weight->shape[2]) == kTaps &&
           *AsConstInt(weight->shape[3]) == kTaps && a->dilation == std::vector<int64_t>(2, kDilation);
  }

  static Expr Divided(const CallNode* call, const ops::Conv2DAttrs* attrs, const Extent (&sides)[2]) {
    // Of dimensions after the first: channels stay as they are.
    std::vector<std::pair<int64_t, int64_t>> pads{{0, 0}}, crops{{0, 0}};
    for (const Extent& side : sides) {
      pads.emplace_back(side.before, side.after + side.Missing());
      crops.emplace_back(0, side.OutputsOfImage() * kDilation - side.out);
    }
    const std::vector<int64_t> block{1, kDilation, kDilation};
    const Expr images = ops::CallWith<ops::SpaceToBatchNDAttrs>("nn.space_to_batch_nd", {call->args[0]}, [&](auto& a) {
      a.block_shape = block;
      a.paddings = ops::IntPairs(pads);
    });
    auto window = MakeObject<ops::Conv2DAttrs>(*attrs);
    window->dilation = {1, 1};
    window->padding = {0, 0, 0, 0};
    const Expr sums = ops::CallOp("nn.conv2d", {images, call->args[1]}, Attrs(ObjectPtr<Object>(window)), call->span);
    return ops::CallWith<ops::BatchToSpaceNDAttrs>("nn.batch_to_space_nd", {sums}, [&](auto& a) {
      a.block_shape = block;
      a.crops = ops::IntPairs(crops);
    });
  }
};

}  // namespace

namespace transform {

Pass DilationToBatch() {
  return CreateFunctionPass(
      [](const Function& func, const IRModule&, const PassContext& context) {
        const bool winograd = context->GetConfigBool(ops::cpu::kWinogradOption, true) &&
                              treadle::transform::CurrentAccuracy() != treadle::transform::Accuracy::kStrict;
        return winograd ? Downcast<Function>(Divider().Mutate(func)) : func;
      },
      {"DilationToBatch", 3, {"InferType"}, "Divides images for windows that take each second pixel"});
}

}  // namespace transform
}  // namespace treadle::relay
