// SPDX-License-Identifier: Apache-2.0
// XXH64 (https://github.com/Cyan4973/xxHash, specification in doc/xxhash_spec.md): a fast 64-bit checksum.
#pragma once

#include <bit>
#include <cstddef>
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

/// The hash of bytes that come in pieces.
class Hasher64 {
 public:
  explicit Hasher64(uint64_t seed = 0)
      : seed_(seed),
        lanes_{seed + hash_detail::kP1 + hash_detail::kP2, seed + hash_detail::kP2, seed, seed - hash_detail::kP1} {}

  void Update(std::string_view data) {
    const char* p = data.data();
    const char* end = p + data.size();
    const size_t held = total_ % kStripe;
    total_ += data.size();
    if (held != 0) {
      const size_t taken = data.size() < kStripe - held ? data.size() : kStripe - held;
      std::memcpy(stripe_ + held, p, taken);
      p += taken;
      if (held + taken < kStripe) return;
      Stripe(stripe_);
    }
    for (; end - p >= static_cast<ptrdiff_t>(kStripe); p += kStripe) Stripe(p);
    if (p != end) std::memcpy(stripe_, p, static_cast<size_t>(end - p));
  }

  uint64_t Finish() const {
    using namespace hash_detail;  // NOLINT(google-build-using-namespace)
    uint64_t hash = seed_ + kP5;
    if (total_ >= kStripe) {
      hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
      for (uint64_t lane : lanes_) hash = Merge(hash, lane);
    }
    hash += total_;
    const char* p = stripe_;
    const char* end = stripe_ + total_ % kStripe;
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

 private:
  static constexpr size_t kStripe = 32;
  void Stripe(const char* p) {
    for (int i = 0; i < 4; ++i) lanes_[i] = hash_detail::Round(lanes_[i], hash_detail::Load<uint64_t>(p + 8 * i));
  }

  uint64_t seed_, total_ = 0;
  uint64_t lanes_[4];
  char stripe_[kStripe] = {};  ///< bytes that don't make a whole stripe yet
};

inline uint64_t Hash64(std::string_view data, uint64_t seed = 0) {
  Hasher64 hasher(seed);
  hasher.Update(data);
  return hasher.Finish();
}

}  // namespace treadle::runtime
