// SPDX-License-Identifier: Apache-2.0
// 1 x 1 convolutions whose channels don't divide into blocks: in NCHW (float32), with all pixels of an image as one
// row.
#include "targets/cpu/kernels/conv_layout.h"
#include "targets/cpu/kernels/kernels.h"
#include "treadle/base/int_math.h"

namespace treadle::ops::cpu {
namespace {

/// Every tile of output channels reads the channels of its group, for all pixels.
double Cycles(const Problem& problem, const Machine& machine, const Plan&) {
  const auto& p = *problem.as<ConvProblemNode>();
  const int64_t pixels = p.oh * p.ow, channels = p.oc, batch = std::max<int64_t>(1, p.batch);
  const RowTile tile = ChooseRowTile(channels, pixels);
  const auto tiles = static_cast<double>(channels / tile.channels), ic = static_cast<double>(p.ic / p.groups);
  const auto vectors = static_cast<double>(CeilDiv(pixels, tile.lanes));
  const double step = TileCycles({tile.channels, 1}, tile.channels, tile.lanes, machine);
  const double bytes = ic * static_cast<double>(pixels * p.dtype.bytes());
  // Channels are as far apart as a whole image: what a vector needs of them is in no cache unless all of them are.
  const bool near = bytes <= static_cast<double>(machine.l2_bytes);
  const double reads = tiles * bytes * (near ? machine.l2_cycles_per_byte : machine.beyond_l2_cycles_per_byte);
  const double weights = ic * static_cast<double>(channels * p.weight_dtype.bytes()) * machine.weight_cycles_per_byte;
  const double image = tiles * vectors * ic * step + reads + weights;
  const double imbalance = LoadImbalance(channels / tile.channels, 1, 1, batch, ModelledThreads(machine));
  const double cycles = static_cast<double>(batch) * image * (1 + imbalance) / 2;
  if (!p.in_layout.is_blocked()) return cycles;
  // Where neighbours run on blocks, their results are made plain, number by number, and its own blocked again.
  const auto elements = static_cast<double>(batch * p.ic * pixels);
  return cycles + (LayoutChangeCycles(p, machine) + elements * machine.load_cycles) *
                      (1 + static_cast<double>(p.oc) / static_cast<double>(p.ic));
}

}  // namespace

void RegisterPointwiseConv() {
  Kernel kernel;
  kernel.name = "conv2d.flat_pointwise";
  kernel.op = "nn.conv2d";
  kernel.target = "cpu";
  kernel.why_not = [](const Problem& problem, const Machine&) {
    return WhyNotFlatPointwise(*problem.as<ConvProblemNode>());
  };
  kernel.cycles = Cycles;
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
