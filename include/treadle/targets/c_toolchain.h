// SPDX-License-Identifier: Apache-2.0
// From generated C to native code, with the C compiler of the machine.
#pragma once

#include <string>
#include <vector>

#include "treadle/ir/target.h"

namespace treadle::targets {

/// The command of the C compiler, as words: $TREADLE_CC, else $CC, else the first of cc, gcc, clang, clang-19 that is
/// in PATH. A TargetError that says what to do when there is none.
std::vector<std::string> FindCCompiler();

/// Compiles one translation unit of C99 to a relocatable object (its bytes) for this machine. Options of the target:
/// -opt-level (0 to 3, 3 where absent), -march and -mcpu (passed on). What the compiler says of a failure is in the
/// TargetError.
std::string CompileC(const std::string& source, const Target& target);

/// Paths of the C library and its mathematical part, as the compiler finds them, for linking what CompileC makes.
std::vector<std::string> CLibraries();

}  // namespace treadle::targets
