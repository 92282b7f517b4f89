// SPDX-License-Identifier: Apache-2.0
#include "passes/wide_conv.h"

#include "passes/pass_util.h"
#include "treadle/ops/make.h"

namespace treadle::relay {

Expr WithOneRow(const Expr& tensor) {
  constexpr int kHeight = 2;
  const auto* constant = tensor.as<ConstantNode>();
  if (constant == nullptr || !constant->data.IsCompact()) return ops::MakeExpandDims(tensor, kHeight);
  const runtime::NDArray& data = constant->data;
  std::vector<int64_t> shape = data.shape();
  shape.insert(shape.begin() + kHeight, 1);
  return Constant(data.CreateView(shape, data.dtype()), tensor->span);
}

Attrs WideConvAttrs(const ops::Conv1DAttrs& narrow) {
  return MakeAttrs<ops::Conv2DAttrs>([&](auto& a) {
    a.strides = {1, narrow.strides[0]};
    a.dilation = {1, narrow.dilation[0]};
    a.padding = {0, narrow.padding[0], 0, narrow.padding.back()};
    a.groups = narrow.groups;
    a.channels = narrow.channels;
    if (narrow.kernel_size) a.kernel_size = {1, (*narrow.kernel_size)[0]};
    a.out_dtype = narrow.out_dtype;
  });
}

}  // namespace treadle::relay
