// SPDX-License-Identifier: Apache-2.0
// PointwiseBeforeResize: a convolution whose window is one pixel, of an image that was enlarged, becomes the enlarged
// convolution of the small image. Where channels are concatenated, enlarged ones with others, it becomes a sum of one
// convolution for each. Heads of segmentation networks (Xie et al., SegFormer, 2021) and necks of detectors (Lin et
// al., Feature Pyramid Networks, 2017) are stated the other way.
#include <algorithm>

#include "passes/pass_util.h"
#include "passes/pointwise.h"
#include "treadle/arith/analyzer.h"
#include "treadle/ir/structural.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/image.h"
#include "treadle/ops/attrs/transform.h"
#include "treadle/ops/make.h"
#include "treadle/tir/stmt_functor.h"

namespace treadle::relay {
namespace {

PrimExpr DimOf(const Expr& image, const Layout& layout, char axis) {
  return TensorTypeOf(image)->shape[static_cast<size_t>(layout.IndexOf(axis))];
}

int64_t SizeOf(const Expr& image, const Layout& layout, char axis) {
  const PrimExpr size = DimOf(image, layout, axis);
  const int64_t* known = AsConstInt(size);
  return known == nullptr ? -1 : *known;
}

/// How many elements a dimension has where each that only a run knows has 1024; -1 where nothing tells it. What is
/// faster is decided by it, never what is right.
int64_t SizeOfLarge(const PrimExpr& dim) {
  if (IsAnyDim(dim)) return -1;
  const auto large = [](const tir::Var& var) { return std::optional<PrimExpr>(IntImm(var.dtype(), 1024)); };
  const PrimExpr size = arith::Analyzer().Simplify(tir::Substitute(dim, large));
  const int64_t* known = AsConstInt(size);
  return known == nullptr ? -1 : *known;
}

const CallNode* AsResize(const Expr& expr) {
  const CallNode* call = AsCallOf(expr, "image.resize2d");
  return call != nullptr ? call : AsCallOf(expr, "dyn.image.resize2d");
}

/// Whether `expr` is an image in `layout` of at least twice the pixels of that which it is interpolated from.
bool IsEnlarged(const Expr& expr, const Layout& layout) {
  const CallNode* call = AsResize(expr);
  if (call == nullptr) return false;
  const auto* attrs = call->attrs_as<ops::Resize2DAttrs>();
  const auto *from = TensorTypeOf(call->args[0]), *to = call->type_as<TensorTypeNode>();
  // What lies outside the image has a value of its own there.
  if (attrs->coordinate_transformation_mode == "tf_crop_and_resize" || !(Layout(attrs->layout) == layout)) return false;
  if (from == nullptr || to == nullptr || from->dtype != to->dtype) return false;
  int64_t small = 1, large = 1;
  for (const char axis : {'H', 'W'}) {
    const int64_t before = SizeOfLarge(DimOf(call->args[0], layout, axis)),
                  after = SizeOfLarge(DimOf(expr, layout, axis));
    if (before <= 0 || after < before) return false;
    small *= before;
    large *= after;
  }
  return large >= 2 * small;
}

/// Whether images in `layout` have the same sizes, their channels aside: a sum would broadcast them otherwise.
bool SameSizes(const Expr& a, const Expr& b, const Layout& layout) {
  const auto *x = TensorTypeOf(a), *y = TensorTypeOf(b);
  for (const char axis : {'N', 'H', 'W'}) {
    const auto i = static_cast<size_t>(layout.IndexOf(axis));
    if (IsAnyDim(x->shape[i]) || !StructuralEqual(x->shape[i], y->shape[i])) return false;
  }
  return true;
}

/// Operands of a concatenation that one convolution takes: an enlarged image, or all others.
struct Part {
  Array<Expr> images;
  std::vector<std::pair<int64_t, int64_t>> channels;  ///< [begin, end) of each, of all that are concatenated
  bool enlarged = false;
};

class ConvMover : public MixedModeMutator {
 public:
  explicit ConvMover(const Expr& root) : uses_(CountUses(root)) {}

 private:
  Expr Rewrite_(const CallNode* pre, const Expr& post) override {
    const ops::ConvAttrs* attrs = OpName(pre) == "nn.conv2d" ? PlainConvAttrs(pre) : nullptr;
    if (attrs == nullptr || attrs->groups != 1 || pre->args[1].as<ConstantNode>() == nullptr) return post;
    const Layout layout = attrs->ParsedDataLayout();
    if (!IsPointwise(pre, layout) || uses_[pre->args[0].get()] != 1) return post;
    const std::vector<Part> parts = PartsOf(pre->args[0], layout);
    int64_t saved = 0;  // channels that are read where there are fewer pixels
    for (const Part& part : parts) {
      if (part.enlarged) saved += part.channels[0].second - part.channels[0].first;
    }
    // Interpolating a channel takes about as much as multiplying it with a few weights.
    constexpr int64_t kInterpolation = 16;
    const int64_t results = static_cast<int64_t>(parts.size()) * ChannelsOfPointwise(pre).out;
    if (saved == 0 || kInterpolation * (results - saved) > saved * ChannelsOfPointwise(pre).out / 2) return post;
    Expr sum;
    for (const Part& part : parts) {
      const Expr term = Convolved(pre, attrs, part);
      sum = sum.defined() ? ops::CallOp("add", {sum, term}) : term;
    }
    return sum;
  }

  /// Those that aren't enlarged first.
  std::vector<Part> PartsOf(const Expr& data, const Layout& layout) {
    Array<Expr> images{data};
    const CallNode* joined = AsCallOf(data, "concatenate");
    const auto* fields = joined == nullptr ? nullptr : joined->args[0].as<TupleNode>();
    if (fields != nullptr && uses_[fields] == 1 &&
        PositiveAxis(joined->attrs_as<ops::ConcatenateAttrs>()->axis, TensorTypeOf(data)->shape.size()) ==
            layout.IndexOf('C')) {
      images = fields->fields;
    }
    Part others;
    std::vector<Part> parts;
    int64_t begin = 0;
    for (const Expr& image : images) {
      const int64_t end = begin + SizeOf(image, layout, 'C');
      if (end < begin || !SameSizes(image, data, layout)) return {};
      if (uses_[image.get()] == 1 && IsEnlarged(image, layout)) {
        parts.push_back({{image}, {{begin, end}}, true});
      } else {
        others.images.push_back(image);
        others.channels.emplace_back(begin, end);
      }
      begin = end;
    }
    if (!others.images.empty()) parts.insert(parts.begin(), others);
    return parts;
  }

  /// The convolution of a part with the weights of its channels.
  Expr Convolved(const CallNode* conv, const ops::ConvAttrs* attrs, const Part& part) {
    const int in = attrs->ParsedKernelLayout().IndexOf('I');
    Array<Expr> weights, images;
    for (const auto& [begin, end] : part.channels) {
      weights.push_back(ops::MakeStridedSlice(conv->args[1], {begin}, {end}, {1}, std::vector<int64_t>{in}));
    }
    const auto joined = [](const Array<Expr>& of, int axis) {
      return of.size() == 1 ? of[0] : ops::MakeConcatenate(of, axis);
    };
    const Expr weight = joined(weights, in);
    const auto convolve = [&](const Expr& data) {
      return Call(conv->op, {data, weight}, conv->attrs, conv->type_args, conv->span);
    };
    if (part.enlarged) {
      const auto* resize = part.images[0].as<CallNode>();
      Array<Expr> operands{convolve(Mutate(resize->args[0]))};
      for (size_t i = 1; i < resize->args.size(); ++i) operands.push_back(Mutate(resize->args[i]));
      return Call(resize->op, operands, resize->attrs, resize->type_args, resize->span);
    }
    for (const Expr& image : part.images) images.push_back(Mutate(image));
    return convolve(joined(images, attrs->ParsedDataLayout().IndexOf('C')));
  }

  std::unordered_map<const Object*, int> uses_;
};

}  // namespace

namespace transform {

Pass PointwiseBeforeResize() {
  return MutatorPass<ConvMover>(
      {"PointwiseBeforeResize", 2, {"InferType"}, "Convolves pixels before they are enlarged"});
}

}  // namespace transform
}  // namespace treadle::relay
