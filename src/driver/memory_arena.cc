// SPDX-License-Identifier: Apache-2.0
// Largest first: Pisarchyk, Lee: Efficient Memory Management for Deep Neural Net Inference (arXiv:2001.03288).
#include "driver/memory_arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace treadle::driver {
namespace {

/// Above this number of buffers only the near-linear heuristic is used.
constexpr size_t kMaxQuadratic = 4096;

int64_t Align(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

/// Memory that one tensor or several, one after the other in place, use.
struct Buffer {
  int64_t bytes = 0;
  int first = 0, last = 0;  ///< steps, inclusive
  int device_type = 0;
};

struct Buffers {
  std::vector<Buffer> list;    ///< in order of first step
  std::vector<int> of_tensor;  ///< -1: persistent
};

Buffers CollectBuffers(const MemoryProgram& program) {
  Buffers result;
  result.of_tensor.assign(program.tensors.size(), -1);
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const PlannedStep& step = program.steps[s];
    if (step.call == nullptr) continue;
    for (int id : step.outputs) {
      const PlannedTensor& tensor = program.tensors[id];
      if (tensor.alias_of >= 0) {
        int buffer = result.of_tensor[tensor.alias_of];
        result.of_tensor[id] = buffer;
        if (buffer >= 0) result.list[buffer].last = std::max(result.list[buffer].last, tensor.last_use);
        continue;
      }
      int reused = -1;
      for (int input : step.inputs) {
        int buffer = result.of_tensor[input];
        if (buffer >= 0 && result.list[buffer].last == static_cast<int>(s) &&
            result.list[buffer].device_type == tensor.device_type && MayWriteInPlace(program, step, input)) {
          reused = buffer;
          break;
        }
      }
      if (reused < 0) {
        reused = static_cast<int>(result.list.size());
        result.list.push_back({0, static_cast<int>(s), 0, tensor.device_type});
      }
      Buffer& buffer = result.list[reused];
      buffer.bytes = std::max(buffer.bytes, Align(std::max<int64_t>(tensor.bytes, 1)));
      buffer.last = tensor.last_use;
      result.of_tensor[id] = reused;
    }
  }
  return result;
}

struct Placement {
  std::vector<int64_t> offsets;
  int64_t total = 0;  ///< of all devices
};

/// Largest buffer first, each at the smallest sufficient gap among those alive at the same time.
Placement LargestFirst(const std::vector<Buffer>& buffers) {
  Placement result{std::vector<int64_t>(buffers.size(), 0), 0};
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  std::map<int, std::vector<int>> placed;  // per device, in order of offset
  std::map<int, int64_t> totals;
  for (int id : order) {
    const Buffer& buffer = buffers[id];
    auto& others = placed[buffer.device_type];
    int64_t end = 0, best = -1, best_gap = 0;
    for (int other : others) {
      const Buffer& o = buffers[other];
      if (o.last < buffer.first || buffer.last < o.first) continue;
      int64_t gap = result.offsets[other] - end;
      if (gap >= buffer.bytes && (best < 0 || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, result.offsets[other] + o.bytes);
    }
    int64_t offset = best >= 0 ? best : end;
    result.offsets[id] = offset;
    auto at = std::upper_bound(others.begin(), others.end(), offset,
                               [&](int64_t value, int other) { return value < result.offsets[other]; });
    others.insert(at, id);
    totals[buffer.device_type] = std::max(totals[buffer.device_type], offset + buffer.bytes);
  }
  for (const auto& [device, total] : totals) result.total += total;
  return result;
}

/// Free ranges of one arena, merged with their neighbours.
class FreeRanges {
 public:
  int64_t Take(int64_t bytes) {
    auto it = by_size_.lower_bound({bytes, 0});
    if (it == by_size_.end()) {
      // Grow the arena; a free range at its end is used up first.
      int64_t offset = end_;
      if (!by_offset_.empty()) {
        auto last = std::prev(by_offset_.end());
        if (last->first + last->second == end_) {
          offset = last->first;
          Remove(last);
        }
      }
      end_ = offset + bytes;
      return offset;
    }
    auto [size, offset] = *it;
    Remove(by_offset_.find(offset));
    if (size > bytes) Add(offset + bytes, size - bytes);
    return offset;
  }
  void Release(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      auto joined = next++;
      Remove(joined);
    }
    if (next != by_offset_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous);
      }
    }
    Add(offset, bytes);
  }
  int64_t end() const { return end_; }

 private:
  void Add(int64_t offset, int64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void Remove(std::map<int64_t, int64_t>::iterator it) {
    by_size_.erase({it->second, it->first});
    by_offset_.erase(it);
  }
  std::map<int64_t, int64_t> by_offset_;           ///< offset -> bytes
  std::set<std::pair<int64_t, int64_t>> by_size_;  ///< (bytes, offset)
  int64_t end_ = 0;
};

/// Buffers in order of their first step; memory is returned after the last.
Placement InOrderOfTime(const std::vector<Buffer>& buffers) {
  Placement result{std::vector<int64_t>(buffers.size(), 0), 0};
  std::map<int, FreeRanges> arenas;
  std::set<std::pair<int, int>> alive;  // (last step, buffer)
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    while (!alive.empty() && alive.begin()->first < buffer.first) {
      int done = alive.begin()->second;
      arenas[buffers[done].device_type].Release(result.offsets[done], buffers[done].bytes);
      alive.erase(alive.begin());
    }
    result.offsets[i] = arenas[buffer.device_type].Take(buffer.bytes);
    alive.insert({buffer.last, static_cast<int>(i)});
  }
  for (const auto& [device, arena] : arenas) result.total += arena.end();
  return result;
}

}  // namespace

std::vector<TensorPlace> PlanArena(const MemoryProgram& program) {
  Buffers buffers = CollectBuffers(program);
  Placement best = InOrderOfTime(buffers.list);
  if (buffers.list.size() <= kMaxQuadratic) {
    Placement other = LargestFirst(buffers.list);
    if (other.total < best.total) best = std::move(other);
  }
  std::vector<TensorPlace> places(program.tensors.size(), {-1, 0});
  int64_t next_id = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (program.tensors[i].persistent) places[i].storage_id = next_id++;
  }
  std::map<int, int64_t> arena_of_device;
  for (size_t i = 0; i < places.size(); ++i) {
    int buffer = buffers.of_tensor[i];
    if (buffer >= 0) {
      auto [it, inserted] = arena_of_device.emplace(buffers.list[buffer].device_type, next_id);
      if (inserted) ++next_id;
      places[i] = {it->second, best.offsets[buffer]};
    } else if (!program.tensors[i].persistent) {
      places[i] = places[program.tensors[i].alias_of];  // another name of a parameter or constant
    }
  }
  return places;
}

int64_t PeakLiveBytes(const MemoryProgram& program) {
  std::vector<int64_t> change(program.steps.size() + 2, 0);
  for (const PlannedTensor& tensor : program.tensors) {
    if (tensor.persistent || tensor.alias_of >= 0) continue;
    change[static_cast<size_t>(tensor.defined_at)] += tensor.bytes;
    change[static_cast<size_t>(tensor.last_use) + 1] -= tensor.bytes;
  }
  int64_t peak = 0, alive = 0;
  for (int64_t delta : change) peak = std::max(peak, alive += delta);
  return peak;
}

}  // namespace treadle::driver
