// SPDX-License-Identifier: Apache-2.0
// nn.contrib_columns_to_image: the sums of windows that a transposed convolution, or Col2Im, puts into an image.
#pragma once

#include <cstdint>
#include <vector>

#include "treadle/ir/attrs.h"

namespace treadle::ops {

class ColumnsToImageAttrs : public AttrsNode {
 public:
  std::vector<int64_t> strides, dilation, padding;
  TREADLE_DECLARE_NODE(ColumnsToImageAttrs, AttrsNode, "relay.attrs.ColumnsToImageAttrs");
  template <typename R>
  static void Reflect(R& r) {
    r.Field("strides", &ColumnsToImageAttrs::strides).Doc("Steps of the window over the image, each at least 1");
    r.Field("dilation", &ColumnsToImageAttrs::dilation).Doc("Distance between elements of the window, each at least 1");
    r.Field("padding", &ColumnsToImageAttrs::padding)
        .Doc("Begins, then ends, that are left out of the image; negative ones add zeros");
  }
};

}  // namespace treadle::ops
