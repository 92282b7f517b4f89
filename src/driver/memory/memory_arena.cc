// SPDX-License-Identifier: Apache-2.0
// Largest first: Pisarchyk, Lee: Efficient Memory Management for Deep Neural Net Inference (arXiv:2001.03288).
#include "driver/memory/memory_arena.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "treadle/base/int_math.h"

namespace treadle::driver {
namespace {

/// Above this number of buffers only the near-linear heuristic is used.
constexpr size_t kMaxQuadratic = 4096;
/// Above this number of joins and splits they are in place all or none.
constexpr size_t kMaxTrials = 64;
/// How often buffers are placed again at most, for a trial and for what is compared in the end.
constexpr int kTrialRounds = 4, kRounds = 64;
/// The same in pairs of buffers, which bounds the time of a plan.
constexpr int64_t kMaxWork = int64_t{1} << 24;

int64_t Align(int64_t bytes) { return RoundUp(bytes, kArenaAlignment); }

/// Memory that one tensor or several, one after the other in place, use.
struct Buffer {
  int64_t bytes = 0;
  int first = 0, last = 0;  ///< steps, inclusive
  int device_type = 0;
};

struct Buffers {
  std::vector<Buffer> list;     ///< in order of first step; those without bytes stand for nothing
  std::vector<int> of_tensor;   ///< -1: persistent
  std::vector<int64_t> offset;  ///< of the tensor in its buffer
};

/// Assigns tensors to buffers, step by step.
class BufferCollector {
 public:
  /// `in_place`: by step, whether a join or split is to move nothing.
  BufferCollector(const MemoryProgram& program, const std::vector<bool>& in_place, const InPlaceRule& rule)
      : program_(program), in_place_(in_place), rule_(rule) {
    result_.of_tensor.assign(program.tensors.size(), -1);
    result_.offset.assign(program.tensors.size(), 0);
  }

  Buffers Collect() {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const PlannedStep& step = program_.steps[s];
      if (step.call == nullptr) continue;
      if (in_place_[s] && (Join(step, static_cast<int>(s)) || Split(step))) continue;
      for (int id : step.outputs) Place(step, id, static_cast<int>(s));
    }
    return std::move(result_);
  }

 private:
  Buffer& BufferOf(int tensor) { return result_.list[result_.of_tensor[tensor]]; }

  int NewBuffer(int tensor, int step) {
    const PlannedTensor& t = program_.tensors[tensor];
    const int from = program_.steps[static_cast<size_t>(step)].memory_from;
    result_.list.push_back({Align(std::max<int64_t>(t.bytes, 1)), from >= 0 ? from : step, t.last_use, t.device_type});
    tensors_of_.emplace_back();
    return static_cast<int>(result_.list.size()) - 1;
  }
  void Assign(int tensor, int buffer, int64_t offset) {
    result_.of_tensor[tensor] = buffer;
    result_.offset[tensor] = offset;
    tensors_of_[buffer].push_back(tensor);
    result_.list[buffer].last = std::max(result_.list[buffer].last, program_.tensors[tensor].last_use);
  }

  void Place(const PlannedStep& step, int id, int index) {
    const PlannedTensor& tensor = program_.tensors[id];
    if (tensor.alias_of >= 0) {
      const int buffer = result_.of_tensor[tensor.alias_of];
      if (buffer >= 0) Assign(id, buffer, result_.offset[tensor.alias_of]);
      return;
    }
    for (int input : step.inputs) {
      if (result_.of_tensor[input] < 0 || step.memory_from >= 0) continue;
      const Buffer& buffer = BufferOf(input);
      if (buffer.last == index && buffer.device_type == tensor.device_type &&
          MayWriteInPlace(program_, step, input, rule_)) {
        return Assign(id, result_.of_tensor[input], result_.offset[input]);
      }
    }
    Assign(id, NewBuffer(id, index), 0);
  }

  /// Makes the operands' buffers parts of the result's; false where one of them can't be.
  bool Join(const PlannedStep& step, int index) {
    const std::vector<int64_t> offsets = PiecesOfJoin(program_, step);
    if (offsets.empty()) return false;
    std::set<int> parts;
    for (int input : step.inputs) {
      const int part = result_.of_tensor[input];
      // The piece must be all of a buffer that no other piece has.
      const bool fits = part >= 0 && parts.insert(part).second && result_.offset[input] == 0 &&
                        result_.list[part].bytes == Align(program_.tensors[input].bytes);
      if (!fits) return false;
    }
    const int whole = NewBuffer(step.outputs[0], index);
    Assign(step.outputs[0], whole, 0);
    for (size_t i = 0; i < offsets.size(); ++i) {
      const int part = result_.of_tensor[step.inputs[i]];
      Buffer& buffer = result_.list[part];
      result_.list[whole].first = std::min(result_.list[whole].first, buffer.first);
      result_.list[whole].last = std::max(result_.list[whole].last, buffer.last);
      for (int tensor : std::exchange(tensors_of_[part], {}))
        Assign(tensor, whole, result_.offset[tensor] + offsets[i]);
      buffer.bytes = 0;
    }
    return true;
  }

  /// Makes the results parts of the operand's buffer.
  bool Split(const PlannedStep& step) {
    const std::vector<int64_t> offsets = PiecesOfSplit(program_, step);
    if (offsets.empty() || result_.of_tensor[step.inputs[0]] < 0) return false;
    const int whole = result_.of_tensor[step.inputs[0]];
    const int64_t start = result_.offset[step.inputs[0]];
    for (size_t i = 0; i < offsets.size(); ++i) Assign(step.outputs[i], whole, start + offsets[i]);
    return true;
  }

  const MemoryProgram& program_;
  const std::vector<bool>& in_place_;
  const InPlaceRule& rule_;
  Buffers result_;
  std::vector<std::vector<int>> tensors_of_;  ///< by buffer
};

/// `buffers` without those that stand for nothing, in order of first step.
Buffers Compact(const Buffers& buffers) {
  std::vector<int> order;
  for (size_t i = 0; i < buffers.list.size(); ++i) {
    if (buffers.list[i].bytes > 0) order.push_back(static_cast<int>(i));
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::make_pair(buffers.list[a].first, a) < std::make_pair(buffers.list[b].first, b);
  });
  std::vector<int> place(buffers.list.size(), -1);
  Buffers result{{}, buffers.of_tensor, buffers.offset};
  for (int i : order) {
    place[i] = static_cast<int>(result.list.size());
    result.list.push_back(buffers.list[i]);
  }
  for (int& buffer : result.of_tensor) {
    if (buffer >= 0) buffer = place[buffer];
  }
  return result;
}

struct Placement {
  std::vector<int64_t> offsets;
  int64_t total = 0;  ///< of all devices
};

/// Buffers in an order, each at the smallest sufficient gap among those alive at the same time.
Placement InOrder(const std::vector<Buffer>& buffers, const std::vector<int>& order) {
  Placement result{std::vector<int64_t>(buffers.size(), 0), 0};
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

/// The most bytes of buffers that are alive at one step, over all devices: no placement needs less.
int64_t LeastTotal(const std::vector<Buffer>& buffers) {
  std::map<int, std::map<int, int64_t>> changes;  // by device, then step
  for (const Buffer& buffer : buffers) {
    changes[buffer.device_type][buffer.first] += buffer.bytes;
    changes[buffer.device_type][buffer.last + 1] -= buffer.bytes;
  }
  int64_t total = 0;
  for (const auto& [device, at] : changes) {
    int64_t alive = 0, most = 0;
    for (const auto& [step, change] : at) most = std::max(most, alive += change);
    total += most;
  }
  return total;
}

/// Largest buffer first. Where that leaves holes, those that came to lie above the least total come earlier, and all
/// are placed again, up to `rounds` times (Joslin, Clements: "Squeaky wheel" optimization, JAIR 10, 1999).
Placement LargestFirst(const std::vector<Buffer>& buffers, int rounds) {
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> priority(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) priority[i] = buffers[i].bytes;
  auto sort = [&] {
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return priority[a] != priority[b] ? priority[a] > priority[b] : a < b; });
  };
  sort();
  Placement best = InOrder(buffers, order);
  const int64_t least = LeastTotal(buffers);
  Placement placement = best;
  for (int round = 0; round < rounds && best.total > least; ++round) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const int64_t excess = placement.offsets[i] + buffers[i].bytes - least;
      if (excess > 0) priority[i] += std::max(excess, buffers[i].bytes);
    }
    sort();
    placement = InOrder(buffers, order);
    if (placement.total < best.total) best = placement;
  }
  return best;
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

struct ArenaPlan {
  Buffers buffers;
  Placement placement;
};

ArenaPlan PlanWith(const MemoryProgram& program, const std::vector<bool>& in_place, const InPlaceRule& rule,
                   int max_rounds) {
  ArenaPlan plan{Compact(BufferCollector(program, in_place, rule).Collect()), {}};
  plan.placement = InOrderOfTime(plan.buffers.list);
  if (plan.buffers.list.size() <= kMaxQuadratic) {
    const auto pairs = static_cast<int64_t>(plan.buffers.list.size() * plan.buffers.list.size());
    const auto rounds = static_cast<int>(std::min<int64_t>(max_rounds, kMaxWork / std::max<int64_t>(1, pairs)));
    Placement other = LargestFirst(plan.buffers.list, rounds);
    if (other.total < plan.placement.total) plan.placement = std::move(other);
  }
  return plan;
}

/// The plan that moves least without taking more memory than one that moves everything.
ArenaPlan BestPlan(const MemoryProgram& program, const InPlaceRule& rule) {
  std::vector<size_t> candidates;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const PlannedStep& step = program.steps[s];
    if (!PiecesOfJoin(program, step).empty() || !PiecesOfSplit(program, step).empty()) candidates.push_back(s);
  }
  std::vector<bool> in_place(program.steps.size(), false);
  ArenaPlan best = PlanWith(program, in_place, rule, kRounds);
  if (candidates.empty()) return best;
  std::vector<bool> all = in_place;
  for (size_t s : candidates) all[s] = true;
  ArenaPlan plan = PlanWith(program, all, rule, kRounds);
  if (plan.placement.total <= best.placement.total) return plan;
  if (candidates.size() > kMaxTrials) return best;
  for (size_t s : candidates) {
    in_place[s] = true;
    plan = PlanWith(program, in_place, rule, kTrialRounds);
    if (plan.placement.total <= best.placement.total) {
      best = std::move(plan);
    } else {
      in_place[s] = false;
    }
  }
  plan = PlanWith(program, in_place, rule, kRounds);
  return plan.placement.total < best.placement.total ? plan : best;
}

}  // namespace

std::vector<TensorPlace> PlanArena(const MemoryProgram& program, const InPlaceRule& rule) {
  const ArenaPlan plan = BestPlan(program, rule);
  const Buffers& buffers = plan.buffers;
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
      places[i] = {it->second, plan.placement.offsets[buffer] + buffers.offset[i]};
    } else if (!program.tensors[i].persistent) {
      places[i] = places[program.tensors[i].alias_of];  // another name of a parameter or constant
    }
  }
  return places;
}

bool IsInPlace(const MemoryProgram& program, const PlannedStep& step, const std::vector<TensorPlace>& places) {
  std::vector<int64_t> offsets = PiecesOfJoin(program, step);
  const bool joins = !offsets.empty();
  if (!joins) offsets = PiecesOfSplit(program, step);
  if (offsets.empty()) return false;
  const TensorPlace& whole = places[joins ? step.outputs[0] : step.inputs[0]];
  for (size_t i = 0; i < offsets.size(); ++i) {
    const int piece = joins ? step.inputs[i] : step.outputs[i];
    if (program.tensors[piece].persistent || places[piece].storage_id != whole.storage_id ||
        places[piece].offset != whole.offset + offsets[i]) {
      return false;
    }
  }
  return true;
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
