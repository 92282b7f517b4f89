// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "targets/cpu/machine_costs.h"
#include "targets/cpu/schedule/cpu.h"

namespace treadle::ops::cpu {
namespace {

constexpr int64_t kLanes = 16, kBlocks = 24, kWidth = 16;

/// Bytes of the weights of a block of channels with so many steps of the sum.
constexpr int64_t Panel(int64_t steps) { return 4 * kLanes * steps; }

TEST(RegisterTile, WeightsBeyondTheL1CacheArePaidByEachTile) {
  schedule::Machine machine = GenericMachine();
  machine.l1_bytes = 32 << 10;
  const RegisterTile tile{2, 3};
  const double near = TileCycles(tile, kWidth, kLanes, machine);
  EXPECT_EQ(TileCycles(tile, kWidth, kLanes, machine, Panel(128)), near);  // 3 * 8 KiB
  const double far = TileCycles(tile, kWidth, kLanes, machine, Panel(384));
  EXPECT_DOUBLE_EQ(far - near, kWidth / 2 * 4 * kLanes * machine.l2_cycles_per_byte);
}

TEST(RegisterTile, FewerBlocksOfChannelsWhereTheirWeightsDoNotFitTheL1Cache) {
  const schedule::Machine machine = MachineOf(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3"));
  EXPECT_EQ(ChooseTile(kWidth, kLanes, kBlocks, machine).blocks, 3);
  EXPECT_EQ(ChooseTile(kWidth, kLanes, kBlocks, machine, Panel(384)).blocks, 1);
}

}  // namespace
}  // namespace treadle::ops::cpu
