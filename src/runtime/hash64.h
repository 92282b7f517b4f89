// SPDX-License-Identifier: Apache-2.0
// XXH64 (https://github.com/Cyan4973/xxHash, specification in doc/xxhash_spec.md): a fast 64-bit checksum.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace treadle::runtime {

namespace hash_detail {
inline constexpr uint64_t kP1 = 0x9E3779B185EBCA87, kP2 = 0xC2B2AE3D27D4EB4F, kP3 = 0x165667B19E3779F9,
                          kP4 = 0x85EBCA77C2B2AE63, kP5 = 0x27D4EB2F165667C5;
template <typename T>
T Load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
inline uint64_t Round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kP2, 31) * kP1; }
inline uint64_t Merge(uint64_t hash, uint64_t lane) { return (hash ^ Round(0, lane)) * kP1 + kP4; }
}  // namespace hash_detail

inline uint64_t Hash64(std::string_view data, uint64_t seed = 0) {
  using namespace hash_detail;  // NOLINT(google-build-using-namespace)
  const char* p = data.data();
  const char* end = p + data.size();
  uint64_t hash = seed + kP5;
  if (data.size() >= 32) {
    uint64_t lanes[4] = {seed + kP1 + kP2, seed + kP2, seed, seed - kP1};
    for (; end - p >= 32; p += 32) {
      for (int i = 0; i < 4; ++i) lanes[i] = Round(lanes[i], Load<uint64_t>(p + 8 * i));
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes) hash = Merge(hash, lane);
  }
  hash += data.size();
  for (; end - p >= 8; p += 8) hash = std::rotl(hash ^ Round(0, Load<uint64_t>(p)), 27) * kP1 + kP4;
  if (end - p >= 4) {
    hash = std::rotl(hash ^ (Load<uint32_t>(p) * kP1), 23) * kP2 + kP3;
    p += 4;
  }
  for (; p != end; ++p) hash = std::rotl(hash ^ (static_cast<unsigned char>(*p) * kP5), 11) * kP1;
  hash = (hash ^ (hash >> 33)) * kP2;
  hash = (hash ^ (hash >> 29)) * kP3;
  return hash ^ (hash >> 32);
}

}  // namespace treadle::runtime
