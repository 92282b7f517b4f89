// SPDX-License-Identifier: Apache-2.0
// Numbers of the protocol buffer wire format.
#pragma once

namespace treadle {

/// Whether the varint in the bytes [begin, end) has no bit set beyond its first `bits`. Readers of protozero drop
/// those.
inline bool VarintFits(const char* begin, const char* end, int bits) {
  const int rest = bits - 7 * (static_cast<int>(end - begin) - 1);  // for the last byte
  return rest >= 7 || (rest >= 0 && static_cast<unsigned char>(end[-1]) >> rest == 0);
}

}  // namespace treadle
