// SPDX-License-Identifier: Apache-2.0
// Each rate is the best of many short runs: other processes, and the host of a virtual machine, only ever slow one
// down.
#include "targets/cpu/measure_calibration.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "runtime/cpu_topology.h"
#include "treadle/runtime/c_backend_api.h"

namespace treadle::targets {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Run>
double SecondsOf(const Run& run) {
  const auto start = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename Run>
double LeastSeconds(int runs, const Run& run) {
  double least = SecondsOf(run);
  for (int i = 1; i < runs; ++i) least = std::min(least, SecondsOf(run));
  return least;
}

// ---- Instructions, on vectors of `bits` ----

constexpr int kSums = 12;  ///< multiply-adds of one block of instructions
constexpr int kLoads = 8;  ///< loads of one block
constexpr int kAdds = 16;  ///< additions of one block

#if defined(__x86_64__)
constexpr bool kKnown = true;
// clang-format off
#define TREADLE_CLOBBERS "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
                         "xmm10", "xmm11", "xmm14", "xmm15"
#define TREADLE_ZERO ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,14,15\n\tvpxor %%xmm\\i, %%xmm\\i, %%xmm\\i\n\t.endr\n\t"
#define TREADLE_SUMS(r) ".irp i,0,1,2,3,4,5,6,7,8,9,10,11\n\tvfmadd231ps %%" r "14, %%" r "15, %%" r "\\i\n\t.endr\n\t"
#define TREADLE_CHAIN(r) ".rept 12\n\tvfmadd231ps %%" r "14, %%" r "15, %%" r "0\n\t.endr\n\t"
#define TREADLE_LOADS(r, bytes) ".irp i,0,1,2,3,4,5,6,7\n\tvmovups (\\i*" bytes ")(%0), %%" r "\\i\n\t.endr\n\t"
// clang-format on

/// Before the others: sums of zero, whose speed doesn't depend on what registers held.
void ClearVectors() { asm volatile(TREADLE_ZERO : : : TREADLE_CLOBBERS); }
template <int kBits>
void MultiplyAdds() {
  if constexpr (kBits == 512) {
    asm volatile(TREADLE_SUMS("zmm") : : : TREADLE_CLOBBERS);
  } else if constexpr (kBits == 256) {
    asm volatile(TREADLE_SUMS("ymm") : : : TREADLE_CLOBBERS);
  } else {
    asm volatile(TREADLE_SUMS("xmm") : : : TREADLE_CLOBBERS);
  }
}
template <int kBits>
void MultiplyAddsInTurn() {
  if constexpr (kBits == 512) {
    asm volatile(TREADLE_CHAIN("zmm") : : : TREADLE_CLOBBERS);
  } else if constexpr (kBits == 256) {
    asm volatile(TREADLE_CHAIN("ymm") : : : TREADLE_CLOBBERS);
  } else {
    asm volatile(TREADLE_CHAIN("xmm") : : : TREADLE_CLOBBERS);
  }
}
template <int kBits>
void Load(const std::byte* data) {
  if constexpr (kBits == 512) {
    asm volatile(TREADLE_LOADS("zmm", "64") : : "r"(data) : TREADLE_CLOBBERS);
  } else if constexpr (kBits == 256) {
    asm volatile(TREADLE_LOADS("ymm", "32") : : "r"(data) : TREADLE_CLOBBERS);
  } else {
    asm volatile(TREADLE_LOADS("xmm", "16") : : "r"(data) : TREADLE_CLOBBERS);
  }
}
/// After the others: what follows may be code of narrower vectors.
void LeaveVectors() { asm volatile("vzeroupper"); }
/// Additions that wait for each other. Of registers: some processors add constants without an adder.
void AddInTurn(uint64_t* value) { asm volatile(".rept 16\n\tadd %1, %0\n\t.endr" : "+r"(*value) : "r"(uint64_t{1})); }
#elif defined(__aarch64__)
constexpr bool kKnown = true;
#define TREADLE_CLOBBERS \
  "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v30", "v31"
void ClearVectors() {
  asm volatile(".irp i,0,1,2,3,4,5,6,7,16,17,18,19,30,31\n\tmovi v\\i\\().4s, #0\n\t.endr" : : : TREADLE_CLOBBERS);
}
template <int kBits>
void MultiplyAdds() {
  asm volatile(".irp i,0,1,2,3,4,5,6,7,16,17,18,19\n\tfmla v\\i\\().4s, v30.4s, v31.4s\n\t.endr"
               :
               :
               : TREADLE_CLOBBERS);
}
template <int kBits>
void MultiplyAddsInTurn() {
  asm volatile(".rept 12\n\tfmla v0.4s, v30.4s, v31.4s\n\t.endr" : : : TREADLE_CLOBBERS);
}
template <int kBits>
void Load(const std::byte* data) {
  asm volatile(".irp i,0,1,2,3,4,5,6,7\n\tldr q\\i, [%0, #(\\i*16)]\n\t.endr" : : "r"(data) : TREADLE_CLOBBERS);
}
void LeaveVectors() {}
void AddInTurn(uint64_t* value) {
  asm volatile(".rept 16\n\tadd %0, %0, %1\n\t.endr" : "+r"(*value) : "r"(uint64_t{1}));
}
#else
constexpr bool kKnown = false;
void ClearVectors() {}
template <int kBits>
void MultiplyAdds() {}
template <int kBits>
void MultiplyAddsInTurn() {}
template <int kBits>
void Load(const std::byte*) {}
void LeaveVectors() {}
void AddInTurn(uint64_t*) {}
#endif

// ---- Rates of one core ----

/// Cycles of one of `count` instructions that `block` has.
template <typename Instructions>
double CyclesEach(double clock, int count, const Instructions& block) {
  constexpr int kRounds = 1000, kRuns = 60;
  ClearVectors();
  const double seconds = LeastSeconds(kRuns, [&block] {
    for (int i = 0; i < kRounds; ++i) block();
  });
  LeaveVectors();
  return seconds * clock / kRounds / count;
}

/// Memory that begins with a cache line: no load is of two.
class Block {
 public:
  /// About `bytes`.
  explicit Block(int64_t bytes) : bytes_(std::max<int64_t>(1, bytes / kStep) * kStep) {
    data_.reset(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes_), kLine)));
    Fill(1);
  }
  void Fill(int value) const { std::memset(data_.get(), value, static_cast<size_t>(bytes_)); }
  const std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t kStep = 1024;  // a whole number of blocks of loads, of vectors of any width
  static constexpr std::align_val_t kLine{128};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kLine); }
  };
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

template <int kBits>
void Read(const Block& block) {
  constexpr int64_t kStep = int64_t{kLoads} * kBits / 8;
  for (int64_t at = 0; at < block.bytes(); at += kStep) Load<kBits>(block.data() + at);
}

/// Bytes per cycle that are read from a block of that size, again and again.
template <int kBits>
double ReadRate(double clock, int64_t size) {
  // Long enough for the clock to tell, short enough that many runs are left alone.
  constexpr int64_t kLeast = 1 << 20, kMost = 1 << 28;
  constexpr int kFewest = 12;
  const Block block(size);
  const int64_t rounds = std::max<int64_t>(1, kLeast / block.bytes());
  const int runs = std::max<int>(kFewest, static_cast<int>(kMost / (rounds * block.bytes())));
  const double seconds = LeastSeconds(runs, [&] {
    for (int64_t i = 0; i < rounds; ++i) Read<kBits>(block);
  });
  LeaveVectors();
  return static_cast<double>(rounds * block.bytes()) / (seconds * clock);
}

/// What one of four of these is below: of times that others can only lengthen, where not all have to be lengthened.
double LowerQuartile(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

void BindTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

/// Bytes per cycle that one core reads of what another has just written; 0 where there is one core.
template <int kBits>
double OtherCoreRate(double clock, int64_t size) {
  constexpr int kTurns = 60;
  const std::vector<int> cpus = runtime::AllowedCpus();
  if (runtime::PhysicalCores(cpus) < 2) return 0;
  const Block block(size);
  std::atomic<int> written{0}, read{0};
  std::vector<double> seconds;
  seconds.reserve(kTurns);
  // Neither numbering of the threads of a core makes the first and the last neighbours.
  std::jthread writer([&] {
    BindTo(cpus.back());
    for (int turn = 1; turn <= kTurns; ++turn) {
      while (read.load(std::memory_order_acquire) < turn - 1) std::this_thread::yield();
      block.Fill(turn);
      written.store(turn, std::memory_order_release);
    }
  });
  const auto read_all = [&] {
    BindTo(cpus.front());
    for (int turn = 1; turn <= kTurns; ++turn) {
      while (written.load(std::memory_order_acquire) < turn) std::this_thread::yield();
      seconds.push_back(SecondsOf([&] { Read<kBits>(block); }));
      read.store(turn, std::memory_order_release);
    }
    LeaveVectors();
  };
  try {
    std::jthread(read_all).join();
  } catch (...) {
    read.store(kTurns, std::memory_order_release);  // the writer waits for nobody and ends
    throw;
  }
  writer.join();
  return static_cast<double>(block.bytes()) / (LowerQuartile(seconds) * clock);
}

/// What a parallel loop on two threads takes beside its work, which has to be so long that both take part; 0 where
/// there is one thread.
double ForkJoinCycles(double clock) {
  constexpr int kFirst = 50, kCount = 2000, kRounds = 2500;
  constexpr int kThreads = 2;
  if (runtime::DefaultThreads(runtime::AllowedCpus()) < kThreads) return 0;
  const auto launch = [] {
    TreadleBackendParallelLaunch(
        [](int, TreadleParallelGroupEnv*, void*) {
          uint64_t value = 0;
          for (int i = 0; i < kRounds; ++i) AddInTurn(&value);
          return 0;
        },
        nullptr, kThreads);
  };
  for (int i = 0; i < kFirst; ++i) launch();
  std::vector<double> seconds(kCount);
  for (double& each : seconds) each = SecondsOf(launch);
  constexpr double kLeast = 50;
  return std::max(kLeast, LowerQuartile(std::move(seconds)) * clock - double{kRounds} * kAdds);
}

/// What depends on other cores and on memory is measured some times: there others are felt for longer.
constexpr int kTimes = 3;

template <int kBits>
Calibration Measure(const TargetFeatures& features) {
  Calibration measured;
  measured.bits = kBits;
  const double clock = MeasureClock();
  measured.multiply_adds = 1 / CyclesEach(clock, kSums, MultiplyAdds<kBits>);
  measured.latency = CyclesEach(clock, kSums, MultiplyAddsInTurn<kBits>);
  measured.loads = ReadRate<kBits>(clock, features.l1_bytes / 2) / (kBits / 8);
  const int64_t l2 = features.l2_bytes, l3 = features.l3_bytes;
  measured.l2 = ReadRate<kBits>(clock, l2 / 2);
  measured.fork_join_cycles = ForkJoinCycles(clock);
  for (int i = 0; i < kTimes; ++i) {
    // Others share the L3 cache: a part is what one core may hope for.
    constexpr int64_t kShare = 4, kMostMemory = int64_t{256} << 20;
    if (l3 / kShare > 2 * l2) measured.l3 = std::max(measured.l3, ReadRate<kBits>(clock, l3 / kShare));
    const int64_t beyond = std::min(kMostMemory, 4 * std::max(l2, l3));
    measured.memory = std::max(measured.memory, ReadRate<kBits>(clock, beyond));
    measured.other_core = std::max(measured.other_core, OtherCoreRate<kBits>(clock, l2 / 4));
    measured.fork_join_cycles = std::min(measured.fork_join_cycles, ForkJoinCycles(clock));
  }
  return measured;
}

}  // namespace

double MeasureClock() {
  if (!kKnown) return 0;
  constexpr int kRounds = 20'000, kRuns = 20;
  const double seconds = LeastSeconds(kRuns, [] {
    uint64_t value = 0;
    for (int i = 0; i < kRounds; ++i) AddInTurn(&value);
  });
  return double{kRounds} * kAdds / seconds;
}

Calibration MeasureCalibration(const TargetFeatures& features) {
  if (!kKnown || !features.fma) return {};
  switch (features.vector_bits) {
    case 512:
      return Measure<512>(features);
    case 256:
      return Measure<256>(features);
    default:
      return Measure<128>(features);
  }
}

}  // namespace treadle::targets
