// SPDX-License-Identifier: Apache-2.0
// Attributes of pooling. `padding` is given as for convolutions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "treadle/ir/attrs.h"
#include "treadle/ir/layout.h"

namespace treadle::ops {

/// What window pooling of 1, 2 and 3 spatial dimensions shares.
class PoolAttrs : public AttrsNode {
 public:
  std::vector<int64_t> pool_size, strides, dilation, padding;
  std::string layout, out_layout;
  bool ceil_mode = false;

  PoolAttrs() = default;
  PoolAttrs(int rank, std::string layout)
      : strides(rank, 1), dilation(rank, 1), padding(rank, 0), layout(std::move(layout)) {}
  /// The layouts, parsed. ShapeError where one is malformed.
  Layout ParsedLayout() const { return Layout(layout); }
  Layout ParsedOutLayout() const { return Layout(out_layout.empty() ? layout : out_layout); }
  /// Whether data and results are in `data`.
  bool IsIn(std::string_view data) const { return layout == data && (out_layout.empty() || out_layout == data); }
  TREADLE_DECLARE_NODE(PoolAttrs, AttrsNode, "relay.attrs.PoolAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("pool_size", &PoolAttrs::pool_size).Doc("Window").Required();
    r.Field("strides", &PoolAttrs::strides).Doc("Steps of the window, each at least 1");
    r.Field("dilation", &PoolAttrs::dilation).Doc("Distance between elements of the window, each at least 1");
    r.Field("padding", &PoolAttrs::padding).Doc("Border around the input");
    r.Field("layout", &PoolAttrs::layout).Doc("Order of the dimensions");
    r.Field("out_layout", &PoolAttrs::out_layout).Doc("Order of the output's dimensions; empty: layout");
    r.Field("ceil_mode", &PoolAttrs::ceil_mode)
        .Doc("Round the output's size up; a window that would start in the padding at the end is dropped");
  }
};

class MaxPool1DAttrs : public PoolAttrs {
 public:
  MaxPool1DAttrs() : PoolAttrs(1, "NCW") {}
  TREADLE_DECLARE_NODE(MaxPool1DAttrs, PoolAttrs, "relay.attrs.MaxPool1DAttrs");
};
class MaxPool2DAttrs : public PoolAttrs {
 public:
  MaxPool2DAttrs() : PoolAttrs(2, "NCHW") {}
  TREADLE_DECLARE_NODE(MaxPool2DAttrs, PoolAttrs, "relay.attrs.MaxPool2DAttrs");
};
class MaxPool3DAttrs : public PoolAttrs {
 public:
  MaxPool3DAttrs() : PoolAttrs(3, "NCDHW") {}
  TREADLE_DECLARE_NODE(MaxPool3DAttrs, PoolAttrs, "relay.attrs.MaxPool3DAttrs");
};

class AvgPoolAttrs : public PoolAttrs {
 public:
  bool count_include_pad = false;
  using PoolAttrs::PoolAttrs;
  TREADLE_DECLARE_NODE(AvgPoolAttrs, PoolAttrs, "relay.attrs.AvgPoolAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("count_include_pad", &AvgPoolAttrs::count_include_pad).Doc("Whether padding counts in the divisor");
  }
};
class AvgPool1DAttrs : public AvgPoolAttrs {
 public:
  AvgPool1DAttrs() : AvgPoolAttrs(1, "NCW") {}
  TREADLE_DECLARE_NODE(AvgPool1DAttrs, AvgPoolAttrs, "relay.attrs.AvgPool1DAttrs");
};
class AvgPool2DAttrs : public AvgPoolAttrs {
 public:
  AvgPool2DAttrs() : AvgPoolAttrs(2, "NCHW") {}
  TREADLE_DECLARE_NODE(AvgPool2DAttrs, AvgPoolAttrs, "relay.attrs.AvgPool2DAttrs");
};
class AvgPool3DAttrs : public AvgPoolAttrs {
 public:
  AvgPool3DAttrs() : AvgPoolAttrs(3, "NCDHW") {}
  TREADLE_DECLARE_NODE(AvgPool3DAttrs, AvgPoolAttrs, "relay.attrs.AvgPool3DAttrs");
};

/// Pooling over all of the spatial dimensions; each becomes 1.
class GlobalPoolAttrs : public AttrsNode {
 public:
  std::string layout, out_layout;
  GlobalPoolAttrs() = default;
  explicit GlobalPoolAttrs(std::string layout) : layout(std::move(layout)) {}
  /// The layouts, parsed. ShapeError where one is malformed.
  Layout ParsedLayout() const { return Layout(layout); }
  Layout ParsedOutLayout() const { return Layout(out_layout.empty() ? layout : out_layout); }
  /// Whether data and results are in `data`.
  bool IsIn(std::string_view data) const { return layout == data && (out_layout.empty() || out_layout == data); }
  TREADLE_DECLARE_NODE(GlobalPoolAttrs, AttrsNode, "relay.attrs.GlobalPoolAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("layout", &GlobalPoolAttrs::layout).Doc("Order of the dimensions");
    r.Field("out_layout", &GlobalPoolAttrs::out_layout).Doc("Order of the output's dimensions; empty: layout");
  }
};
class GlobalPool1DAttrs : public GlobalPoolAttrs {
 public:
  GlobalPool1DAttrs() : GlobalPoolAttrs("NCW") {}
  TREADLE_DECLARE_NODE(GlobalPool1DAttrs, GlobalPoolAttrs, "relay.attrs.GlobalPool1DAttrs");
};
class GlobalPool2DAttrs : public GlobalPoolAttrs {
 public:
  GlobalPool2DAttrs() : GlobalPoolAttrs("NCHW") {}
  TREADLE_DECLARE_NODE(GlobalPool2DAttrs, GlobalPoolAttrs, "relay.attrs.GlobalPool2DAttrs");
};
class GlobalPool3DAttrs : public GlobalPoolAttrs {
 public:
  GlobalPool3DAttrs() : GlobalPoolAttrs("NCDHW") {}
  TREADLE_DECLARE_NODE(GlobalPool3DAttrs, GlobalPoolAttrs, "relay.attrs.GlobalPool3DAttrs");
};

/// Pooling to a given output size: output i covers floor(i * in / out) to ceil((i + 1) * in / out).
class AdaptivePoolAttrs : public AttrsNode {
 public:
  std::vector<int64_t> output_size;
  std::string layout, out_layout;
  AdaptivePoolAttrs() = default;
  explicit AdaptivePoolAttrs(std::string layout) : layout(std::move(layout)) {}
  /// The layouts, parsed. ShapeError where one is malformed.
  Layout ParsedLayout() const { return Layout(layout); }
  Layout ParsedOutLayout() const { return Layout(out_layout.empty() ? layout : out_layout); }
  /// Whether data and results are in `data`.
  bool IsIn(std::string_view data) const { return layout == data && (out_layout.empty() || out_layout == data); }
  TREADLE_DECLARE_NODE(AdaptivePoolAttrs, AttrsNode, "relay.attrs.AdaptivePoolAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("output_size", &AdaptivePoolAttrs::output_size).Doc("Spatial output size; empty: the input's");
    r.Field("layout", &AdaptivePoolAttrs::layout).Doc("Order of the dimensions");
    r.Field("out_layout", &AdaptivePoolAttrs::out_layout).Doc("Order of the output's dimensions; empty: layout");
  }
};
class AdaptivePool1DAttrs : public AdaptivePoolAttrs {
 public:
  AdaptivePool1DAttrs() : AdaptivePoolAttrs("NCW") {}
  TREADLE_DECLARE_NODE(AdaptivePool1DAttrs, AdaptivePoolAttrs, "relay.attrs.AdaptivePool1DAttrs");
};
class AdaptivePool2DAttrs : public AdaptivePoolAttrs {
 public:
  AdaptivePool2DAttrs() : AdaptivePoolAttrs("NCHW") {}
  TREADLE_DECLARE_NODE(AdaptivePool2DAttrs, AdaptivePoolAttrs, "relay.attrs.AdaptivePool2DAttrs");
};
class AdaptivePool3DAttrs : public AdaptivePoolAttrs {
 public:
  AdaptivePool3DAttrs() : AdaptivePoolAttrs("NCDHW") {}
  TREADLE_DECLARE_NODE(AdaptivePool3DAttrs, AdaptivePoolAttrs, "relay.attrs.AdaptivePool3DAttrs");
};

}  // namespace treadle::ops
