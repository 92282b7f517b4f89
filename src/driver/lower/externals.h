// SPDX-License-Identifier: Apache-2.0
// The functions of a program that external code generators compile.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "treadle/relay/expr.h"
#include "treadle/runtime/metadata_module.h"

namespace treadle::driver {

/// Collects external functions; the same symbol stands for the same function.
class Externals {
 public:
  /// The function's name in the library. Throws Error for a function without one, and for two under one name.
  std::string Declare(const relay::Function& func);
  const std::vector<relay::Function>& list() const { return list_; }  ///< in order of first use

 private:
  std::map<std::string, relay::Function> by_symbol_;
  std::vector<relay::Function> list_;
};

/// What external code generators made of functions.
struct ExternalCode {
  std::vector<runtime::Module> modules;
  runtime::ConstantsOfSymbols constants;  ///< names of the constants that a function is given, by function
};

/// Runs the code generators: "relay.ext.<compiler>" gets each function, without the attribute Compiler, and returns a
/// module; one that isn't registered is an Error. Constants that modules ask for join `params`, as
/// <symbol>_const_<i> or as "relay.ext.<compiler>.constant_updater" says.
ExternalCode CompileExternals(const std::vector<relay::Function>& functions, runtime::ParamList* params);

}  // namespace treadle::driver
