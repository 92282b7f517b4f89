// SPDX-License-Identifier: Apache-2.0
// The targets of this build: a function each, which gives the spec. A new one has its line here and its folder.
#pragma once

#include "treadle/targets/target_spec.h"

/// The first target for a device type is the one that is taken where none is named.
#define TREADLE_BUILTIN_TARGETS(X) \
  X(LLVMTarget)                    \
  X(CTarget)                       \
  X(OpenCLTarget)                  \
  X(StackVMTarget)                 \
  X(NullTarget)

namespace treadle::targets {

#define TREADLE_DECLARE_TARGET(Name) TargetSpec Name();
TREADLE_BUILTIN_TARGETS(TREADLE_DECLARE_TARGET)
#undef TREADLE_DECLARE_TARGET

}  // namespace treadle::targets
