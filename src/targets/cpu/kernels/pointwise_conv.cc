// SPDX-License-Identifier: Apache-2.0
// Pointwise convolutions of channels that don't divide into blocks: on plain data, all pixels in one row.
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/rooms.h"

namespace treadle::ops::cpu {

void RegisterPointwiseConv() {
  Kernel kernel;
  kernel.name = "conv2d.flat_pointwise";
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.why_not = [](const Problem& problem, const Machine&) {
    return WhyNotFlatPointwise(*problem.as<ConvProblemNode>());
  };
  kernel.rewrite = [](const LayoutRequest& request, const Problem&, const Plan&) { return FlatPointwiseConv(request); };
  schedule::RegisterKernel(std::move(kernel));
  // Last of all: the operator's own computation.
  Kernel plain;
  plain.name = "conv2d.plain";
  plain.op = "nn.conv2d";
  plain.target = "cpu";
  plain.level = schedule::kPlainLevel;
  schedule::RegisterKernel(std::move(plain));
}

}  // namespace treadle::ops::cpu
