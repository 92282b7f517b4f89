// SPDX-License-Identifier: Apache-2.0
// Gradients of operators that slide a window over pictures: convolution, pooling, resizing. Layout NCHW.
#include <algorithm>
#include <limits>

#include "ops/gradients.h"
#include "treadle/base/checked_math.h"
#include "treadle/ops/attrs/conv.h"
#include "treadle/ops/attrs/pool.h"

namespace treadle::ops::gradient {

namespace {

/// Padding as top, left, bottom, right.
std::vector<int64_t> Padding4(const std::vector<int64_t>& padding) {
  if (padding.size() == 1) return std::vector<int64_t>(4, padding[0]);
  if (padding.size() == 2) return {padding[0], padding[1], padding[0], padding[1]};
  return padding;
}

/// The gradient of the weight of a convolution without groups: a convolution of the inputs by the gradient, batch and
/// channels exchanged.
Expr WeightGradient(const Site& s, const ConvAttrs* attrs, const std::vector<int64_t>& pad) {
  const auto* weight = s.type(1);
  Expr windows = CallWith<Conv2DAttrs>(
      "nn.conv2d", {MakeTranspose(s.arg(0), {1, 0, 2, 3}), MakeTranspose(s.grad, {1, 0, 2, 3})}, [&](auto& a) {
        a.strides = attrs->dilation;
        a.dilation = attrs->strides;
        a.padding = pad;
      });
  windows = MakeStridedSlice(windows, {0, 0, 0, 0}, {Dim(weight, 1), Dim(weight, 0), Dim(weight, 2), Dim(weight, 3)},
                             {1, 1, 1, 1});
  return MakeTranspose(windows, {1, 0, 2, 3});
}

/// The same with groups: each picture's channel is a group of one convolution, its filters are the gradients of the
/// channels that it contributes to.
Expr GroupedWeightGradient(const Site& s, const ConvAttrs* attrs, const std::vector<int64_t>& pad) {
  const auto *data = s.type(0), *weight = s.type(1), *out = s.result_type();
  const int64_t n = Dim(data, 0), groups = attrs->groups, in = Dim(weight, 1), outs = Dim(weight, 0) / groups;
  const int64_t oh = Dim(out, 2), ow = Dim(out, 3), kh = Dim(weight, 2), kw = Dim(weight, 3);
  Expr filters = MakeReshape(s.grad, std::vector<int64_t>{n, groups, 1, outs, oh, ow});
  filters = MakeBroadcastTo(filters, IntArray({n, groups, in, outs, oh, ow}));
  filters = MakeReshape(filters, std::vector<int64_t>{n * groups * in * outs, 1, oh, ow});
  Expr pictures = MakeReshape(s.arg(0), std::vector<int64_t>{1, n * groups * in, Dim(data, 2), Dim(data, 3)});
  Expr windows = CallWith<Conv2DAttrs>("nn.conv2d", {pictures, filters}, [&](auto& a) {
    a.strides = attrs->dilation;
    a.dilation = attrs->strides;
    a.padding = pad;
    a.groups = static_cast<int>(n * groups * in);
    a.channels = n * groups * in * outs;
    a.kernel_size = std::vector<int64_t>{oh, ow};
  });
  windows = MakeStridedSlice(windows, {0, 0}, {kh, kw}, {1, 1}, std::vector<int64_t>{2, 3});
  windows = MakeReshape(windows, std::vector<int64_t>{n, groups, in, outs, kh, kw});
  windows = MakeTranspose(MakeReduce("sum", windows, std::vector<int64_t>{0}), {0, 2, 1, 3, 4});
  return MakeReshape(windows, weight->shape);
}

}  // namespace

Grads OfConv2D(const Site& s) {
  const auto* attrs = s.call->attrs_as<ConvAttrs>();
  if (!attrs->IsIn("NCHW", "OIHW")) {
    throw Error("the gradient of nn.conv2d is implemented for layouts NCHW and OIHW");
  }
  const auto *data = s.type(0), *weight = s.type(1), *out = s.result_type();
  std::vector<int64_t> pad = Padding4(attrs->padding), extra(2);
  for (size_t i = 0; i < 2; ++i) {
    int64_t window = (Dim(weight, i + 2) - 1) * attrs->dilation[i] + 1;
    extra[i] = Dim(data, i + 2) - ((Dim(out, i + 2) - 1) * attrs->strides[i] - pad[i] - pad[i + 2] + window);
  }
  Expr to_data = CallWith<Conv2DTransposeAttrs>("nn.conv2d_transpose", {s.grad, s.arg(1)}, [&](auto& a) {
    a.strides = attrs->strides;
    a.padding = pad;
    a.dilation = attrs->dilation;
    a.output_padding = extra;
    a.groups = attrs->groups;
    a.channels = Dim(data, 1);
    a.kernel_size = std::vector<int64_t>{Dim(weight, 2), Dim(weight, 3)};
  });
  return {to_data, attrs->groups == 1 ? WeightGradient(s, attrs, pad) : GroupedWeightGradient(s, attrs, pad)};
}

namespace {

/// The windows of a pooling operator: element (i, j) of each is a tensor of the result's shape.
class Windows {
 public:
  explicit Windows(const Site& s) : s_(s), attrs_(s.call->attrs_as<PoolAttrs>()), pad_(Padding4(attrs_->padding)) {
    if (!attrs_->IsIn("NCHW")) throw Error("the gradient of pooling is implemented for layout NCHW");
    for (size_t i = 0; i < 2; ++i) {
      in_.push_back(Dim(s.type(0), i + 2));
      out_.push_back(Dim(s.result_type(), i + 2));
      const int64_t reach = (out_[i] - 1) * attrs_->strides[i] + (attrs_->pool_size[i] - 1) * attrs_->dilation[i] + 1;
      padded_.push_back(std::max(reach, in_[i] + pad_[i] + pad_[i + 2]));
    }
  }

  int64_t size() const { return attrs_->pool_size[0] * attrs_->pool_size[1]; }
  /// The operand with its border, filled with `value`.
  Expr Padded(double value) const {
    return MakePad(s_.arg(0), Borders(pad_[0], pad_[1], padded_[0] - in_[0] - pad_[0], padded_[1] - in_[1] - pad_[1]),
                   Scalar(s_, value));
  }
  /// Element `k` of each window.
  Expr Element(const Expr& padded, int64_t k) const {
    const auto [y, x] = Offset(k);
    return MakeStridedSlice(padded, {y, x},
                            {y + (out_[0] - 1) * attrs_->strides[0] + 1, x + (out_[1] - 1) * attrs_->strides[1] + 1},
                            {attrs_->strides[0], attrs_->strides[1]}, std::vector<int64_t>{2, 3});
  }
  /// Puts a tensor of the result's shape back where element `k` of each window came from; zeros elsewhere.
  Expr Place(Expr values, int64_t k) const {
    if (attrs_->strides[0] != 1 || attrs_->strides[1] != 1) {
      values = CallWith<DilateAttrs>("nn.dilate", {values},
                                     [&](auto& a) { a.strides = {1, 1, attrs_->strides[0], attrs_->strides[1]}; });
    }
    // The border is cut off at once: what lies there has a negative distance.
    const auto [y, x] = Offset(k);
    const int64_t top = y - pad_[0], left = x - pad_[1];
    const int64_t height = (out_[0] - 1) * attrs_->strides[0] + 1, width = (out_[1] - 1) * attrs_->strides[1] + 1;
    return MakePad(values, Borders(top, left, in_[0] - top - height, in_[1] - left - width), Scalar(s_, 0));
  }
  /// By how many elements each window is divided.
  Expr Counts(bool include_padding) const {
    std::vector<double> counts;
    for (int64_t y = 0; y < out_[0]; ++y) {
      for (int64_t x = 0; x < out_[1]; ++x) {
        const int64_t inside = Inside(0, y) * Inside(1, x);
        counts.push_back(static_cast<double>(include_padding ? size() : std::max<int64_t>(inside, 1)));
      }
    }
    relay::Constant all(runtime::NDArray::FromVector(counts, {1, 1, out_[0], out_[1]}, DataType::Float(64)));
    return MakeCast(all, s_.type(0)->dtype);
  }

 private:
  static std::vector<std::pair<int64_t, int64_t>> Borders(int64_t top, int64_t left, int64_t bottom, int64_t right) {
    return {{0, 0}, {0, 0}, {top, bottom}, {left, right}};
  }
  std::pair<int64_t, int64_t> Offset(int64_t k) const {
    return {k / attrs_->pool_size[1] * attrs_->dilation[0], k % attrs_->pool_size[1] * attrs_->dilation[1]};
  }
  /// Elements of window `at` of dimension `i` that aren't in the border.
  int64_t Inside(size_t i, int64_t at) const {
    int64_t count = 0;
    for (int64_t k = 0; k < attrs_->pool_size[i]; ++k) {
      const int64_t place = at * attrs_->strides[i] + k * attrs_->dilation[i] - pad_[i];
      count += place >= 0 && place < in_[i] ? 1 : 0;
    }
    return count;
  }

  const Site& s_;
  const PoolAttrs* attrs_;
  std::vector<int64_t> pad_, in_, out_, padded_;
};

}  // namespace

/// To the first element of each window that has its value.
Grads OfMaxPool2D(const Site& s) {
  const Windows windows(s);
  Expr padded = windows.Padded(std::numeric_limits<float>::lowest()), sum;
  Expr left = s.grad;  // what no element has taken yet
  for (int64_t k = 0; k < windows.size(); ++k) {
    Expr is_max = CallOp("equal", {windows.Element(padded, k), s.result()});
    Expr zero = Scalar(s, 0);
    Expr taken = CallOp("where", {is_max, left, zero});
    left = CallOp("where", {is_max, zero, left});
    Expr part = windows.Place(taken, k);
    sum = sum.defined() ? Add(sum, part) : part;
  }
  return {sum};
}

Grads OfAvgPool2D(const Site& s) {
  const Windows windows(s);
  Expr share = Div(s.grad, windows.Counts(s.call->attrs_as<AvgPoolAttrs>()->count_include_pad)), sum;
  for (int64_t k = 0; k < windows.size(); ++k) {
    Expr part = windows.Place(share, k);
    sum = sum.defined() ? Add(sum, part) : part;
  }
  return {sum};
}

namespace {

void CheckGlobalLayout(const Site& s) {
  if (!s.call->attrs_as<GlobalPoolAttrs>()->IsIn("NCHW")) {
    throw Error("the gradient of global pooling is implemented for layout NCHW");
  }
}

}  // namespace

Grads OfGlobalAvgPool2D(const Site& s) {
  CheckGlobalLayout(s);
  double count = static_cast<double>(Dim(s.type(0), 2) * Dim(s.type(0), 3));
  return {Mul(Mul(s.grad, Scalar(s, 1 / count)), OnesLike(s.arg(0)))};
}

Grads OfGlobalMaxPool2D(const Site& s) {
  CheckGlobalLayout(s);
  Expr chosen = MakeCast(CallOp("equal", {s.arg(0), s.result()}), s.type(0)->dtype);
  return {Mul(Div(chosen, MakeReduce("sum", chosen, std::vector<int64_t>{2, 3}, true)), s.grad)};
}

/// Each element's copies are summed.
Grads OfUpSampling(const Site& s) {
  const auto* attrs = s.call->attrs_as<UpSamplingAttrs>();
  const auto *from = s.type(0), *to = s.result_type();
  const int64_t h = Dim(from, 2), w = Dim(from, 3);
  if (attrs->method != "nearest_neighbor" || attrs->layout != "NCHW" || Dim(to, 2) % h != 0 || Dim(to, 3) % w != 0) {
    throw Error("the gradient of nn.upsampling is implemented for nearest_neighbor, NCHW and whole factors");
  }
  std::vector<int64_t> blocks{Dim(from, 0), Dim(from, 1), h, Dim(to, 2) / h, w, Dim(to, 3) / w};
  return {MakeReduce("sum", MakeReshape(s.grad, blocks), std::vector<int64_t>{3, 5})};
}

}  // namespace treadle::ops::gradient
