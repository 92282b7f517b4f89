// SPDX-License-Identifier: Apache-2.0
// Text within pages.
#pragma once

#include <string>
#include <string_view>

namespace treadle {

/// `text` as HTML shows it, in elements and in quoted values of attributes: < > & and " are written as references.
std::string EscapeHtml(std::string_view text);

}  // namespace treadle
