// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/te/schedule.h"

namespace treadle::te {

/// As CreatePrimFunc; also tells the name of each operation's block.
tir::PrimFunc CreatePrimFunc(const std::vector<Parameter>& params, const std::string& name,
                             std::unordered_map<const Object*, std::string>* block_names);

}  // namespace treadle::te
