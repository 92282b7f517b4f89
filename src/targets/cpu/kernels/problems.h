// SPDX-License-Identifier: Apache-2.0
// The problems that calls state (schedule/kernel.h). Each function is defined in the file of the kernel that most of
// these problems are solved by; that of convolutions is in conv_layout.h.
#pragma once

#include "targets/cpu/kernels/kernels.h"

namespace treadle::ops::cpu {

Problem ByteConvProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem ConvTransposeProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem MatmulProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem AttentionProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem RecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args);
Problem ByteRecurrentProblem(const relay::CallNode* call, const relay::LayoutArgs& args, const Machine& machine);

}  // namespace treadle::ops::cpu
