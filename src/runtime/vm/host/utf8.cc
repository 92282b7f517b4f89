// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/host/utf8.h"

namespace treadle::runtime {

std::vector<uint32_t> Utf8CodePoints(std::string_view text) {
  std::vector<uint32_t> characters;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t length = first >= 0xf0 && first < 0xf5   ? 4
                          : first >= 0xe0 && first < 0xf0 ? 3
                          : first >= 0xc2 && first < 0xe0 ? 2
                                                          : 1;
    uint32_t c = length == 1 ? first : first & (0xffu >> (length + 1));
    bool valid = length > 1 && i + length <= text.size();
    for (size_t k = 1; valid && k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      valid = (byte & 0xc0) == 0x80;
      c = c << 6 | (byte & 0x3f);
    }
    characters.push_back(valid ? c : first);
    i += valid ? length : 1;
  }
  return characters;
}

void AppendUtf8(uint32_t c, std::string* text) {
  auto put = [&](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

}  // namespace treadle::runtime
