// SPDX-License-Identifier: Apache-2.0
// Random sequences of primitives on small functions: refused with a reason, or the results stay the same.
#include <gtest/gtest.h>

#include <random>

#include "tests_common/interpret.h"
#include "tests_common/sample_functions.h"
#include "treadle/tir/schedule.h"
#include "treadle/tir/text.h"

namespace treadle::tir {
namespace {

class RandomScheduler {
 public:
  RandomScheduler(const PrimFunc& func, unsigned seed) : schedule_(func), random_(seed) {}

  void Step() {
    try {
      auto blocks = schedule_.GetBlocks();
      BlockRV block = blocks[Pick(blocks.size())], other = blocks[Pick(blocks.size())];
      auto loops = schedule_.GetLoops(block), other_loops = schedule_.GetLoops(other);
      if (loops.empty() || other_loops.empty()) return;
      size_t at = Pick(loops.size());
      LoopRV loop = loops[at], target = other_loops[Pick(other_loops.size())];
      const PrimExpr open{ObjectPtr<Object>()};
      switch (Pick(14)) {
        case 0:
        case 1:
          schedule_.Split(loop, {open, PrimExpr(static_cast<int>(2 + Pick(4)))});
          break;
        case 2:
          if (at + 1 < loops.size()) schedule_.Fuse({loop, loops[at + 1]});
          break;
        case 3:
        case 4: {
          LoopRV second = loops[Pick(loops.size())];
          if (!second.same_as(loop)) schedule_.Reorder({second, loop});
          break;
        }
        case 5:
          schedule_.ComputeInline(block);
          break;
        case 6:
          schedule_.ReverseComputeInline(block);
          break;
        case 7:
          schedule_.ComputeAt(block, target);
          break;
        case 8:
          schedule_.ReverseComputeAt(block, target);
          break;
        case 9:
          schedule_.CacheWrite(block, 0, "local");
          break;
        case 10:
          schedule_.CacheRead(block, 0, "local");
          break;
        case 11:
          schedule_.DecomposeReduction(block, loop);
          break;
        case 12:
          schedule_.RFactor(loop);
          break;
        default:
          Pick(2) ? schedule_.Parallel(loop) : schedule_.Vectorize(loop);
          break;
      }
    } catch (const ScheduleError&) {
      // Refused: nothing has changed.
    }
  }
  PrimFunc func() const { return schedule_.func(); }
  std::string trace() const { return schedule_.TraceText(); }

 private:
  size_t Pick(size_t n) { return random_() % n; }
  Schedule schedule_;
  std::mt19937 random_;
};

TEST(RandomSchedule, ResultsStayTheSame) {
  const PrimFunc functions[] = {testing_util::Matmul(5, 6, 7), testing_util::Chain(11, 4),
                                testing_util::ConvRelu(5, 3)};
  for (unsigned seed = 0; seed < 240; ++seed) {
    const PrimFunc& func = functions[seed % 3];
    RandomScheduler scheduler(func, seed);
    for (int step = 0; step < 12; ++step) scheduler.Step();
    ASSERT_TRUE(testing_util::SameResults(func, scheduler.func())) << "seed " << seed << "\n"
                                                                   << scheduler.trace() << AsText(scheduler.func());
  }
}

}  // namespace
}  // namespace treadle::tir
