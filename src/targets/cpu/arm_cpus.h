// SPDX-License-Identifier: Apache-2.0
// Instructions for narrow numbers that 64-bit ARM processors have, by the names that LLVM gives processors
// (`llc -mtriple=aarch64 -mcpu=help`), and this one.
#pragma once

#include <string>

namespace treadle {

struct ArmInstructions {
  bool dotprod = false;  ///< sdot, udot: sums of four products of bytes
  bool i8mm = false;     ///< usdot, smmla: bytes of mixed signs, 2 x 8 by 8 x 2 at a time
  bool bf16 = false;     ///< bfdot, bfmmla
};

/// Of a processor (-mcpu), "native" for the one that this runs on; none for a name that isn't known.
ArmInstructions ArmInstructionsOf(const std::string& cpu);

}  // namespace treadle
