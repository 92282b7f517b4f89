// SPDX-License-Identifier: Apache-2.0
// Shell completions and manual pages, written from the parser.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace treadle::cli {

/// A script that completes verbs, flags and file names: of bash, zsh or fish. Throws Error for other shells.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

/// A manual page in man(7)'s macros: of `verb`, or of the program where it is empty.
std::string ManualPage(const CLI::App& app, const std::string& verb);

}  // namespace treadle::cli
