// SPDX-License-Identifier: Apache-2.0
// Attributes of convolutions. Spatial lists have one entry per spatial dimension; `padding` has one number (all
// sides), one per dimension (both sides), or two per dimension (all begins, then all ends).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/layout.h"

namespace treadle::ops {

/// What convolutions of 1, 2 and 3 spatial dimensions share: `attrs.as<ConvAttrs>()` reads any of them.
class ConvAttrs : public AttrsNode {
 public:
  std::vector<int64_t> strides, padding, dilation;
  int groups = 1;
  std::optional<int64_t> channels;
  std::optional<std::vector<int64_t>> kernel_size;
  std::string data_layout, kernel_layout, out_layout;
  DataType out_dtype;

  ConvAttrs() = default;
  ConvAttrs(int rank, std::string data, std::string kernel)
      : strides(rank, 1),
        padding(rank, 0),
        dilation(rank, 1),
        data_layout(std::move(data)),
        kernel_layout(std::move(kernel)) {}
  /// The layouts, parsed. ShapeError where one is malformed.
  Layout ParsedDataLayout() const { return Layout(data_layout); }
  Layout ParsedKernelLayout() const { return Layout(kernel_layout); }
  Layout ParsedOutLayout() const { return Layout(out_layout.empty() ? data_layout : out_layout); }
  /// Whether data and results are in `data` and the weight in `kernel`.
  bool IsIn(std::string_view data, std::string_view kernel) const {
    return data_layout == data && kernel_layout == kernel && (out_layout.empty() || out_layout == data);
  }
  TREADLE_DECLARE_NODE(ConvAttrs, AttrsNode, "relay.attrs.ConvAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("strides", &ConvAttrs::strides).Doc("Steps of the window, each at least 1");
    r.Field("padding", &ConvAttrs::padding).Doc("Zeros around the input");
    r.Field("dilation", &ConvAttrs::dilation).Doc("Distance between taps of the kernel, each at least 1");
    r.Field("groups", &ConvAttrs::groups).Doc("Input and output channels are split into so many groups").AtLeast(1);
    r.Field("channels", &ConvAttrs::channels).Doc("Output channels; taken from the weight when absent");
    r.Field("kernel_size", &ConvAttrs::kernel_size).Doc("Window; taken from the weight when absent");
    r.Field("data_layout", &ConvAttrs::data_layout).Doc("Order of the input's dimensions");
    r.Field("kernel_layout", &ConvAttrs::kernel_layout).Doc("Order of the weight's dimensions");
    r.Field("out_layout", &ConvAttrs::out_layout).Doc("Order of the output's dimensions; empty: data_layout");
    r.Field("out_dtype", &ConvAttrs::out_dtype).Doc("Type of the output; void: that of the input");
  }
};

class Conv1DAttrs : public ConvAttrs {
 public:
  Conv1DAttrs() : ConvAttrs(1, "NCW", "OIW") {}
  TREADLE_DECLARE_NODE(Conv1DAttrs, ConvAttrs, "relay.attrs.Conv1DAttrs");
};
class Conv2DAttrs : public ConvAttrs {
 public:
  Conv2DAttrs() : ConvAttrs(2, "NCHW", "OIHW") {}
  TREADLE_DECLARE_NODE(Conv2DAttrs, ConvAttrs, "relay.attrs.Conv2DAttrs");
};
class Conv3DAttrs : public ConvAttrs {
 public:
  Conv3DAttrs() : ConvAttrs(3, "NCDHW", "OIDHW") {}
  TREADLE_DECLARE_NODE(Conv3DAttrs, ConvAttrs, "relay.attrs.Conv3DAttrs");
};

/// Transposed convolutions. The weight of the default layout is (input channels, output channels / groups, window);
/// "OIHW" (OIW, OIDHW) is accepted as another name of it.
class ConvTransposeAttrs : public AttrsNode {
 public:
  std::optional<int64_t> channels;
  std::optional<std::vector<int64_t>> kernel_size;
  std::vector<int64_t> strides, output_padding, padding, dilation;
  int groups = 1;
  std::string data_layout, kernel_layout, out_layout;
  DataType out_dtype;

  ConvTransposeAttrs() = default;
  ConvTransposeAttrs(int rank, std::string data, std::string kernel)
      : strides(rank, 1),
        output_padding(rank, 0),
        padding(rank, 0),
        dilation(rank, 1),
        data_layout(std::move(data)),
        kernel_layout(std::move(kernel)) {}
  /// The layouts, parsed. ShapeError where one is malformed.
  Layout ParsedDataLayout() const { return Layout(data_layout); }
  /// Input channels first, whichever of its two names the layout has.
  Layout ParsedKernelLayout() const;
  Layout ParsedOutLayout() const { return Layout(out_layout.empty() ? data_layout : out_layout); }
  /// Whether data and results are in `data` and the weight in `kernel`.
  bool IsIn(std::string_view data, std::string_view kernel) const {
    return data_layout == data && kernel_layout == kernel && (out_layout.empty() || out_layout == data);
  }
  TREADLE_DECLARE_NODE(ConvTransposeAttrs, AttrsNode, "relay.attrs.ConvTransposeAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("channels", &ConvTransposeAttrs::channels).Doc("Output channels; taken from the weight when absent");
    r.Field("kernel_size", &ConvTransposeAttrs::kernel_size).Doc("Window; taken from the weight when absent");
    r.Field("strides", &ConvTransposeAttrs::strides).Doc("Steps of the window over the output, each at least 1");
    r.Field("output_padding", &ConvTransposeAttrs::output_padding).Doc("Rows added at the end of the output");
    r.Field("padding", &ConvTransposeAttrs::padding).Doc("Rows removed around the output");
    r.Field("dilation", &ConvTransposeAttrs::dilation).Doc("Distance between taps of the kernel, each at least 1");
    r.Field("groups", &ConvTransposeAttrs::groups).Doc("Channels are split into so many groups").AtLeast(1);
    r.Field("data_layout", &ConvTransposeAttrs::data_layout).Doc("Order of the input's dimensions");
    r.Field("kernel_layout", &ConvTransposeAttrs::kernel_layout).Doc("Order of the weight's dimensions");
    r.Field("out_layout", &ConvTransposeAttrs::out_layout).Doc("Order of the output's dimensions; empty: data_layout");
    r.Field("out_dtype", &ConvTransposeAttrs::out_dtype).Doc("Type of the output; void: that of the input");
  }
};

class Conv1DTransposeAttrs : public ConvTransposeAttrs {
 public:
  Conv1DTransposeAttrs() : ConvTransposeAttrs(1, "NCW", "IOW") {}
  TREADLE_DECLARE_NODE(Conv1DTransposeAttrs, ConvTransposeAttrs, "relay.attrs.Conv1DTransposeAttrs");
};
class Conv2DTransposeAttrs : public ConvTransposeAttrs {
 public:
  Conv2DTransposeAttrs() : ConvTransposeAttrs(2, "NCHW", "IOHW") {}
  TREADLE_DECLARE_NODE(Conv2DTransposeAttrs, ConvTransposeAttrs, "relay.attrs.Conv2DTransposeAttrs");
};
class Conv3DTransposeAttrs : public ConvTransposeAttrs {
 public:
  Conv3DTransposeAttrs() : ConvTransposeAttrs(3, "NCDHW", "IODHW") {}
  TREADLE_DECLARE_NODE(Conv3DTransposeAttrs, ConvTransposeAttrs, "relay.attrs.Conv3DTransposeAttrs");
};

}  // namespace treadle::ops
