// SPDX-License-Identifier: Apache-2.0
// Gives external modules their constants.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"

namespace treadle::runtime {

/// The names of the constants that each external function wants, in its order.
using ConstantsOfSymbols = std::map<std::string, std::vector<std::string>>;

/// A module of type "metadata" that imports `host` (may be null) and the external modules. When one of `symbols` is
/// looked up for the first time, the external module's function "__init_<symbol>" is called once with the array of its
/// constants; then the module's own function is returned. A constant that isn't there is an Error, and so is a symbol
/// that two of the modules have.
Module MakeMetadataModule(ParamList constants, ConstantsOfSymbols symbols, const Module& host,
                          const std::vector<Module>& externals);

}  // namespace treadle::runtime
