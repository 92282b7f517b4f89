// SPDX-License-Identifier: Apache-2.0
// What is known of processors from their makers: the pipelines of one core.
#pragma once

#include <string>
#include <vector>

namespace treadle::targets {

/// One core. Rates are of vectors of `bits`, per cycle of its clock.
struct MachineModel {
  const char* name;
  std::vector<std::string> cpus;  ///< LLVM's names (-mcpu)
  int bits;                       ///< of the vectors that code for it has
  double multiply_adds;           ///< that start in a cycle
  double loads;                   ///< from the L1 cache
  double latency;                 ///< cycles until another multiply-add can be added to the result of one
  double l2_bytes;                ///< that arrive from the L2 cache in a cycle; 0: not published
  const char* source;
  double memory_bytes = 0;  ///< that one core gets from memory in a cycle, by doctor --calibrate; 0: not measured
  /// Sums of products of two bfloat16 each (vdpbf16ps) that start in a cycle; 0: as many as multiply-adds.
  double pair_dots = 0;
  double l3_bytes = 0;  ///< that one core gets from the L3 cache in a cycle, by doctor --calibrate; 0: not measured
};

/// All models; no processor is in two.
const std::vector<MachineModel>& MachineModels();
/// The model of a processor by LLVM's name of it; null where there is none.
const MachineModel* FindMachineModel(const std::string& cpu);

}  // namespace treadle::targets
