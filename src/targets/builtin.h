// SPDX-License-Identifier: Apache-2.0
// The targets of this build, one function each, called by the list in registry.cc.
#pragma once

#include "treadle/targets/target_spec.h"

namespace treadle::targets {

TargetSpec LLVMTarget();
TargetSpec CTarget();
TargetSpec StackVMTarget();
TargetSpec OpenCLTarget();
TargetSpec NullTarget();

}  // namespace treadle::targets
