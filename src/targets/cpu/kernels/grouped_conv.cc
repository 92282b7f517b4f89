// SPDX-License-Identifier: Apache-2.0
// Convolutions of several groups, each of several channels: by the computation of direct_conv.cc, on blocks that belong
// to one group.
#include <algorithm>

#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/rooms.h"

namespace treadle::ops::cpu {

using relay::ConstantNode;
using relay::LaidOutCall;

namespace {

/// How many groups, taken as one, have whole blocks of outputs; 0 where too many zeros would be multiplied.
int64_t GroupsToMerge(int64_t groups, int64_t inputs, int64_t outputs) {
  for (int64_t count : {2, 4}) {
    if (groups % count == 0 && inputs * count % 8 == 0 && outputs * count % 8 == 0) return count;
  }
  return 0;
}

/// The weight of `groups` groups, `count` of which become one: zeros between channels of different ones.
runtime::NDArray MergeGroups(const runtime::NDArray& weight, int64_t groups, int64_t count) {
  std::vector<int64_t> shape(weight.shape().begin(), weight.shape().end());
  const int64_t row = shape[1] * shape[2] * shape[3], outputs = shape[0] / groups;
  runtime::NDArray result =
      runtime::NDArray::Empty({shape[0], shape[1] * count, shape[2], shape[3]}, DataType::Float(32));
  const auto* from = weight.Data<float>();
  auto* to = result.Data<float>();
  std::fill(to, to + result.size(), 0.0F);
  for (int64_t o = 0; o < shape[0]; ++o) {
    const int64_t place = o / outputs % count;
    std::copy(from + o * row, from + (o + 1) * row, to + (o * count + place) * row);
  }
  return result;
}

std::optional<LaidOutCall> Rewrite(const LayoutRequest& request, const Problem& problem, const Plan&) {
  const auto& p = *problem.as<ConvProblemNode>();
  const int lanes = request.args.lanes();
  auto flat = [&]() { return WhyNotFlatPointwise(p).empty() ? FlatPointwiseConv(request) : std::nullopt; };
  int64_t groups = p.groups;
  runtime::NDArray weight = request.call->args[1].as<ConstantNode>()->data;
  ChannelLayout out = relay::PaddedLayout(p.oc, lanes, groups), in = request.args.LayoutOf(0);
  if (out.is_plain()) {
    const int64_t merged = GroupsToMerge(groups, p.ic / groups, p.oc / groups);
    // A plain row of pixels takes less time than multiplying as many zeros as numbers.
    std::optional<LaidOutCall> plain = flat();
    if (plain || merged == 0) return plain;
    weight = MergeGroups(weight, groups, merged);
    groups /= merged;
    out = relay::PaddedLayout(p.oc, lanes, groups);
  }
  if (in.is_plain()) in = relay::PaddedLayout(p.ic, lanes, groups);
  if (in.is_plain()) in = relay::PaddedLayout(p.ic, lanes);
  if (in.is_plain() || out.is_plain()) return flat();
  weight = PadOutputChannels(weight, out);
  const bool whole_blocks = in.is_in_order() && p.ic / groups % in.block == 0;
  return whole_blocks ? BlockedConv(request, weight, in, out, groups) : IndexedConv(request, weight, in, out, groups);
}

}  // namespace

void RegisterGroupedConv() {
  Kernel kernel;
  kernel.name = "conv2d.grouped";
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.why_not = [](const Problem& problem, const Machine&) -> std::string {
    const auto& p = *problem.as<ConvProblemNode>();
    if (!p.not_blocked.empty()) return p.not_blocked;
    if (p.groups == 1) return "one group";
    return p.is_depthwise() ? "one channel in each group" : "";
  };
  kernel.rewrite = Rewrite;
  schedule::RegisterKernel(std::move(kernel));
}

}  // namespace treadle::ops::cpu
