// SPDX-License-Identifier: Apache-2.0
// Colours of what the program says, on terminals.
#pragma once

#include <string>

namespace treadle::cli {

enum class Color { kRed, kGreen, kCyan };

/// When colours are used: auto (terminals, unless NO_COLOR is set or TERM is dumb), always or never.
void SetColorMode(const std::string& mode);

/// `text` in a colour where those are used on the descriptor that it is written to.
std::string Painted(const std::string& text, Color color, int descriptor);

/// A message to standard error: "error: ", "note: " or "help: " at the beginning of its lines in colour.
std::string PaintedMessage(const std::string& text);

}  // namespace treadle::cli
