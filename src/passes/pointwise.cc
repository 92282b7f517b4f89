// SPDX-License-Identifier: Apache-2.0
#include "passes/pointwise.h"

#include <algorithm>

#include "passes/pass_util.h"
#include "treadle/ops/attrs/conv.h"

namespace treadle::relay {
namespace {

bool All(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

int64_t WeightSize(const CallNode* call, const ops::ConvAttrs* attrs, char axis) {
  const Layout kernel = attrs->ParsedKernelLayout();
  return *AsConstInt(TensorTypeOf(call->args[1])->shape[static_cast<size_t>(kernel.IndexOf(axis))]);
}

}  // namespace

bool IsPointwise(const CallNode* call, const Layout& layout) {
  const ops::ConvAttrs* attrs = OpName(call) == "nn.conv2d" ? PlainConvAttrs(call) : nullptr;
  if (attrs == nullptr || !(attrs->ParsedDataLayout() == layout) || !(attrs->ParsedOutLayout() == layout)) return false;
  const auto *data = TensorTypeOf(call->args[0]), *weight = TensorTypeOf(call->args[1]);
  const auto* result = call->type_as<TensorTypeNode>();
  if (data == nullptr || weight == nullptr || result == nullptr || !IsStatic(weight)) return false;
  if (!data->dtype.is_float() || data->dtype != result->dtype) return false;
  return WeightSize(call, attrs, 'H') == 1 && WeightSize(call, attrs, 'W') == 1 && All(attrs->strides, 1) &&
         All(attrs->padding, 0);
}

PointwiseChannels ChannelsOfPointwise(const CallNode* call) {
  const auto* attrs = PlainConvAttrs(call);
  return {WeightSize(call, attrs, 'I') * attrs->groups, WeightSize(call, attrs, 'O')};
}

}  // namespace treadle::relay
