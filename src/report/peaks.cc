// SPDX-License-Identifier: Apache-2.0
#include "report/peaks.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "targets/cpu/machine_costs.h"
#include "targets/cpu/measure_calibration.h"
#include "treadle/base/error.h"
#include "treadle/ir/target.h"

namespace treadle::report {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Bytes per second that each of `threads` threads reads from a block of its own, together.
double MeasureSpeed(size_t threads, double block_bytes, double least_bytes) {
  const auto count = static_cast<size_t>(block_bytes / sizeof(uint64_t));
  const auto rounds = static_cast<size_t>(std::max(1.0, least_bytes / block_bytes));
  std::vector<double> speeds(threads);
  std::vector<std::jthread> workers;  // joined, too, where not all can be started
  for (double& speed : speeds) {
    workers.emplace_back([&speed, count, rounds] {
      const std::vector<uint64_t> block(count, 1);
      constexpr int kTrials = 5;
      for (int trial = 0; trial < kTrials; ++trial) {
        const auto start = Clock::now();
        uint64_t total = 0;
        for (size_t i = 0; i < rounds; ++i) {
          total += std::accumulate(block.begin(), block.end(), i);
          asm volatile("" : : "r"(block.data()) : "memory");  // read again in each round
        }
        asm volatile("" : : "r"(total));
        speed = std::max(speed, static_cast<double>(rounds * count * sizeof(uint64_t)) / SecondsSince(start));
      }
    });
  }
  for (std::jthread& worker : workers) worker.join();
  return std::accumulate(speeds.begin(), speeds.end(), 0.0);
}

std::vector<MemoryLevel> MeasureLevels(const TargetFeatures& machine, size_t threads) {
  const auto n = static_cast<double>(threads);
  const auto l2 = static_cast<double>(machine.l2_bytes), l3 = static_cast<double>(machine.l3_bytes);
  constexpr double kRead = 16 << 20, kLargest = 256 << 20;
  std::vector<MemoryLevel> levels{{"L2 cache", l2 * n, MeasureSpeed(threads, l2 / 2, kRead)}};
  // A little more than the L2 cache holds: other programs, and on virtual machines other guests, use the L3 cache, too.
  if (l3 > l2 * n) levels.push_back({"L3 cache", l3, MeasureSpeed(threads, std::min(l3 / 2 / n, 3 * l2), kRead)});
  levels.push_back({"memory", std::numeric_limits<double>::infinity(),
                    MeasureSpeed(threads, std::min(kLargest, 4 * std::max(l3, l2)) / n, 0)});
  return levels;
}

/// Multiply-adds of narrow numbers for each of float32: of products of 16 x 16 tiles over `k` in `tile_cycles` (0: the
/// machine has none), else of `dots` in each lane of a vector.
double RateOf(double tile_cycles, double k, double per_cycle, double dots) {
  return tile_cycles > 0 ? std::max(dots, 16 * 16 * k / tile_cycles / per_cycle) : dots;
}

}  // namespace

Peaks MeasurePeaks(const std::string& target_text, int threads) {
  try {
    const Target target(target_text);
    const TargetFeatures own = Target("llvm -mcpu=native")->Features();
    const schedule::Machine machine = ops::cpu::MachineOf(target);
    if (machine.arch != own.arch) return {};
    const auto count = static_cast<size_t>(threads > 0 ? threads : std::max(1, own.num_cores));
    const double per_cycle = machine.vector_lanes(32) / machine.fma_cycles;
    Peaks peaks;
    peaks.flops = static_cast<double>(count) * 2 * per_cycle * targets::MeasureClock();
    peaks.byte_rate = RateOf(machine.byte_tile_cycles, 64, per_cycle, machine.vnni ? 4 : 2);
    peaks.pair_rate = RateOf(machine.pair_tile_cycles, 32, per_cycle, 2);
    peaks.levels = MeasureLevels(own, count);
    return peaks;
  } catch (const Error&) {
    return {};  // a target of another kind
  }
}

}  // namespace treadle::report
