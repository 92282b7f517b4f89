// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace treadle::runtime {

/// Characters of UTF-8 text. Bytes that aren't UTF-8 stand for the characters of their number.
std::vector<uint32_t> Utf8CodePoints(std::string_view text);
void AppendUtf8(uint32_t c, std::string* text);

}  // namespace treadle::runtime
