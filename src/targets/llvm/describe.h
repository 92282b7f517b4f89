// SPDX-License-Identifier: Apache-2.0
// What this machine is to LLVM, for people to read.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace treadle::targets {

/// Rows of name and text: LLVM's version, what -mcpu=native stands for, instruction sets that kernels make use of.
std::vector<std::pair<std::string, std::string>> DescribeNative();

}  // namespace treadle::targets
