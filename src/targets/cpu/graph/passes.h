// SPDX-License-Identifier: Apache-2.0
// The passes over graph IR that suit CPUs: they bring models into the forms that schedules for vectors are made for.
#pragma once

#include <vector>

#include "targets/cpu/machine_costs.h"
#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"

namespace treadle::relay {

/// Pass options: the number format of products (f32, bf16, f16, mixed), and lines with names of layers that keep
/// float32.
inline constexpr const char* kComputePrecision = "relay.precision";
inline constexpr const char* kKeepPrecision = "relay.precision.keep";
/// Pass option: blocks of channels of the whole graph are chosen together (assign_layouts.h).
inline constexpr const char* kJointLayouts = "relay.PlanLayout.joint";
/// Attribute of a function: Array<String>, names of the layers that ComputePrecision narrowed.
inline constexpr const char* kNarrowedLayers = "narrowed_layers";

}  // namespace treadle::relay

namespace treadle::relay::transform {

using treadle::transform::Pass;

/// Convolutions over one dimension become convolutions over two, the first of extent 1.
Pass Conv1DToConv2D();
/// Rewrites three-dimensional convolutions to two-dimensional ones of a batch of depths.
Pass Conv3DToConv2D();
/// Transposed convolutions by weights that only the run knows become products, whose columns are added up.
Pass ConvTransposeToProduct();
/// Columns become channels where windows of few channels cover the whole width of images.
Pass WidthToChannels();
/// Dilated windows most of whose taps lie in the padding are convolved in blocks with the taps that don't.
Pass SkipPaddedTaps();
/// Images become four, of even and odd rows and columns, where Winograd's method suits windows of dilation 2 then.
Pass DilationToBatch();
/// Depthwise convolutions between transpositions from and to channels last are computed with channels last.
Pass ChannelsLast();
/// Products in the number format that the model or the user (options above) states, by the instructions that the target
/// (may be null) has for it.
Pass ComputePrecision(const Target& target = Target());
void RegisterPrecisionOptions();
/// Activations of which ComputePrecision rounds a copy to bfloat16 are kept in that form alone, where their other
/// readers are element-wise.
Pass ShareRounding();
/// Products of many rows with weights that have a scale per block are computed in bfloat16 where the machine has tiles
/// of those (kernels/block_tiles.cc) and that is faster.
Pass TileBlockProducts(const schedule::Machine& machine = ops::cpu::GenericMachine());
/// Widens bytes that are multiplied to 16 bits where the target (null: any) multiplies those only.
Pass WidenBytes(const Target& target = Target());
/// Chooses the kernel and the layout in which each operator runs, for the whole graph.
Pass PlanLayout(const schedule::Machine& machine = ops::cpu::GenericMachine(),
                const Target& target = Target(ObjectPtr<Object>()));

/// Registers them by name.
void RegisterCpuPasses();

}  // namespace treadle::relay::transform

namespace treadle::targets {

/// For a target with the schedules for CPUs (TargetSpec::early_passes, graph_passes): TileBlockProducts, and the
/// others.
std::vector<transform::Pass> CpuEarlyPasses(const Target& target);
std::vector<transform::Pass> CpuGraphPasses(const Target& target);

}  // namespace treadle::targets
