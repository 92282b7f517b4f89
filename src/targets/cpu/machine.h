// SPDX-License-Identifier: Apache-2.0
// Machine models of CPUs.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"

namespace treadle::targets {

/// The processor that -mtriple, -mcpu, -mattr, -vector-width and -num-cores describe; for "native" this machine.
TargetFeatures CpuFeatures(const TargetNode& target);
/// The same without what code in a portable language can't ask for: fused multiply-adds, conversions of float16.
TargetFeatures PortableCpuFeatures(const TargetNode& target);
/// As PortableCpuFeatures, of code that a C compiler makes for -march or -mcpu: vectors of 128 bits unless they name a
/// processor, or "native".
TargetFeatures CompilerCpuFeatures(const TargetNode& target);
/// LLVM's name of the processor that -mcpu names; for "native" that of this machine. "" where there is no -mcpu.
std::string ProcessorOf(const TargetNode& target);
/// LLVM's name of the processor that this runs on.
const std::string& HostProcessor();
/// Whether the code is made quickly, to be replaced soon: -opt-level=0 or 1.
bool IsForShortUse(const TargetNode& target);
/// Instruction sets that native code for the target uses, by LLVM's names.
std::vector<std::string> CpuFeatureNames(const Target& target);

/// Whether native code for the target has an instruction that sums products of bfloat16 in float32 (AVX512_BF16, ARM's
/// BF16).
bool HasBFloat16Dot(const TargetNode& target);
/// Whether that instruction makes more products in a cycle than multiply-adds of float32 do; where nothing is known of
/// the processor, it does.
bool BFloat16DotPays(const TargetNode& target);

/// Whether native code for the target may use products of tiles: AMX-INT8, AMX-BF16.
struct TileInstructions {
  bool bytes = false, pairs = false;
};
TileInstructions TilesOf(const TargetNode& target);

}  // namespace treadle::targets
