// SPDX-License-Identifier: Apache-2.0
// Convolution and its transpose.
#include <algorithm>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/conv_any_weights.h"
#include "frontend/onnx/rules.h"
#include "frontend/onnx/window.h"
#include "treadle/base/checked_math.h"

namespace treadle::onnx {
namespace {

using relay::Expr;

constexpr const char* kConv[] = {"nn.conv1d", "nn.conv2d", "nn.conv3d"};
constexpr const char* kConvTranspose[] = {"nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"};
constexpr const char* kDataLayout[] = {"NCW", "NCHW", "NCDHW"};
constexpr const char* kKernelLayout[] = {"OIW", "OIHW", "OIDHW"};
constexpr const char* kTransposedKernelLayout[] = {"IOW", "IOHW", "IODHW"};

/// Spatial dimensions of the weights; checks their rank and sizes, but for that of input channels (`channels_axis`).
std::vector<int64_t> KernelOf(NodeImport& n, size_t channels_axis) {
  if (n.Rank(1) != n.Rank(0)) n.Invalid(StrCat("the weights have rank ", n.Rank(1), ", the operand ", n.Rank(0)));
  std::vector<int64_t> shape = n.StaticShape(1);
  if (shape.size() < 3) n.Unsupported(StrCat("operands of rank ", shape.size(), " aren't implemented"));
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < (i == channels_axis ? 0 : 1)) n.Invalid("the weights have a dimension of 0");
  }
  return {shape.begin() + 2, shape.end()};
}

int64_t Groups(NodeImport& n, int64_t channels) {
  int64_t groups = n.Int("group", 1);
  if (groups < 1 || groups > std::max<int64_t>(channels, 1) || channels % groups != 0) {
    n.Invalid(StrCat("'group' is ", groups, ", which doesn't divide ", channels, " channels"));
  }
  return groups;
}

Expr AddBias(NodeImport& n, const Expr& x) {
  if (!n.Has(2)) return x;
  Expr bias = n.In(2);
  // One element would be read as many times as there are channels, or elements beyond it.
  if (HasUnknownDim(n.In(1))) {
    bias = OfSameSize(Term(n, bias), {{0, 1}}, Term(n, x), "numbers of channels and of entries of the bias");
  }
  return n.Call("nn.bias_add", {x, bias}, {{"axis", int64_t{1}}});
}

/// One channel of zeros in place of none, whose products have the same sum.
Term ChannelOfZeros(NodeImport& n, const Expr& x, int64_t axis) { return Term(n, x).Sum({axis}, true); }

Expr ImportConv(NodeImport& n) {
  if (HasUnknownDim(n.In(1))) return AddBias(n, ConvOfAnyWeights(n, In(n, 0), In(n, 1)));
  Window w = ReadWindow(n, KernelOf(n, 1));
  int64_t out_channels = n.StaticDim(n.In(1), 0);
  int64_t groups = Groups(n, out_channels);
  int64_t per_group = n.StaticDim(n.In(1), 1);
  Expr x =
      OperandWithChannels(n, 0, CheckedMul(per_group, groups), StrCat(per_group, " in each of ", groups, " groups"));
  Expr weights = n.In(1);
  if (per_group == 0) {
    x = ChannelOfZeros(n, x, 1);
    weights = ChannelOfZeros(n, weights, 1);
    groups = 1;
  }
  size_t i = w.spatial - 1;
  return AddBias(n, n.Call(kConv[i], {PadAtRunTime(n, w, x, 0), weights},
                           {{"strides", w.strides},
                            {"padding", w.pads},
                            {"dilation", w.dilations},
                            {"groups", groups},
                            {"channels", out_channels},
                            {"kernel_size", w.kernel},
                            {"data_layout", kDataLayout[i]},
                            {"kernel_layout", kKernelLayout[i]}}));
}

/// Padding of a transposed convolution whose output shape is given: by `output_shape`, or by auto_pad SAME, which
/// makes it stride x input.
void PadToOutputShape(NodeImport& n, Window& w, std::vector<int64_t>& output_padding) {
  std::string auto_pad = n.Str("auto_pad", "NOTSET");
  bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  auto shape = n.OptInts("output_shape");
  if (!same && !shape) return;
  if (shape && shape->size() == w.spatial + 2) shape->erase(shape->begin(), shape->begin() + 2);
  if (shape && shape->size() != w.spatial) n.Invalid("'output_shape' has the wrong number of entries");
  for (size_t i = 0; i < w.spatial; ++i) {
    int64_t total = output_padding[i] + w.Extent(i) - w.strides[i];  // whatever the size
    if (shape) total += w.strides[i] * n.StaticDim(n.In(0), static_cast<int>(i) + 2) - (*shape)[i];
    if (total < 0) {  // nothing to cut: the output is extended instead
      output_padding[i] -= total;
      total = 0;
    }
    int64_t less = total / 2;
    bool begin_gets_less = auto_pad == "SAME_UPPER";
    w.pads[i] = begin_gets_less ? less : total - less;
    w.pads[w.spatial + i] = total - w.pads[i];
  }
}

Expr ImportConvTranspose(NodeImport& n) {
  if (HasUnknownDim(n.In(1))) return AddBias(n, ConvTransposeOfAnyWeights(n, In(n, 0), In(n, 1)));
  Window w = ReadWindow(n, KernelOf(n, 0), /*transposed=*/true);
  int64_t in_channels = n.StaticDim(n.In(1), 0);
  const int64_t groups = Groups(n, in_channels);
  Expr x = OperandWithChannels(n, 0, in_channels, StrCat(in_channels));
  Expr weights = n.In(1);
  if (in_channels == 0) {
    x = ChannelOfZeros(n, x, 1);
    weights = ChannelOfZeros(n, weights, 0);
  }
  std::vector<int64_t> output_padding = n.Ints("output_padding", std::vector<int64_t>(w.spatial, 0));
  if (output_padding.size() != w.spatial) n.Invalid("'output_padding' has the wrong number of entries");
  for (size_t i = 0; i < w.spatial; ++i) {
    if (output_padding[i] < 0) n.Invalid("'output_padding' has a negative entry");
  }
  PadToOutputShape(n, w, output_padding);
  size_t i = w.spatial - 1;
  const int64_t out_channels = n.StaticDim(n.In(1), 1) * groups;
  return AddBias(n, n.Call(kConvTranspose[i], {x, weights},
                           {{"strides", w.strides},
                            {"padding", w.pads},
                            {"output_padding", output_padding},
                            {"dilation", w.dilations},
                            {"groups", groups},
                            {"channels", out_channels},
                            {"kernel_size", w.kernel},
                            {"data_layout", kDataLayout[i]},
                            {"kernel_layout", kTransposedKernelLayout[i]}}));
}

}  // namespace

void RegisterConvRules(RuleTable& table) {
  table.Add1("Conv", {1, 11, 22}, ImportConv);
  table.Add1("ConvTranspose", {1, 11, 22}, ImportConvTranspose);
}

}  // namespace treadle::onnx
