// SPDX-License-Identifier: Apache-2.0
// Options of verbs from a file in TOML's form:
//
//   target = "llvm -mcpu=x86-64-v3"   # of each verb that has this option
//   [bench]                           # of this verb; goes before those above
//   compare = ["onnxruntime", "openvino"]
//
// The command line goes before the file.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace treadle::cli {

/// Gives the program --config FILE, of effect behind each verb too, and --dump-config. Reading a file throws Error that
/// names it, for sections that aren't verbs, names that no verb has as an option and values that don't fit.
void AddConfig(CLI::App* app);

/// Where --dump-config was given, the options that the chosen verb has from the command line and the file, as such a
/// file; else "".
std::string DumpedConfig(const CLI::App& app);

}  // namespace treadle::cli
