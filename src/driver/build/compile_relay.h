// SPDX-License-Identifier: Apache-2.0
// Compiles a module given as Relay text.
#pragma once

#include <string>

#include "treadle/driver/compile.h"

namespace treadle::driver {

/// Whether the file holds Relay text: its name ends in ".relay", or it begins with `#[version`.
bool IsRelayFile(const std::string& path);

/// Parses the file and builds its function main, whose parameters are the model's inputs. Throws ModelFormatError on
/// bad text, TypeInferError on ill-typed programs, Error where options change what a text states (shapes, dimensions).
CompiledModel CompileRelayFile(const std::string& path, const CompileOptions& options);

}  // namespace treadle::driver
