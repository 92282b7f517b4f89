// SPDX-License-Identifier: Apache-2.0
#include "runtime/handles.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace treadle::runtime {
namespace {

/// One of several tables, so that threads with handles of their own rarely meet.
struct Shard {
  std::mutex mutex;
  std::unordered_map<const void*, std::pair<HandleKind, int64_t>> counts;
};

Shard& ShardOf(const void* handle) {
  static auto* shards = new std::array<Shard, 64>();  // never destroyed: handles may be freed at exit
  return (*shards)[reinterpret_cast<uintptr_t>(handle) / 64 % shards->size()];
}

}  // namespace

void AddHandle(const void* handle, HandleKind kind) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto [it, inserted] = shard.counts.try_emplace(handle, kind, 0);
  it->second.first = kind;
  ++it->second.second;
}

bool DropHandle(const void* handle, HandleKind kind) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.counts.find(handle);
  if (it == shard.counts.end() || it->second.first != kind) return false;
  if (--it->second.second == 0) shard.counts.erase(it);
  return true;
}

bool IsHandle(const void* handle, HandleKind kind) {
  Shard& shard = ShardOf(handle);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.counts.find(handle);
  return it != shard.counts.end() && it->second.first == kind;
}

}  // namespace treadle::runtime
