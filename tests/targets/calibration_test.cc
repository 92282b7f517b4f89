// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/calibration.h"

#include <gtest/gtest.h>

#include "targets/cpu/machine_costs.h"
#include "treadle/ir/transform.h"

namespace treadle::targets {
namespace {

constexpr const char* kNative = "llvm -mcpu=native -vector-width=256 -num-cores=2";

/// Costs for a target, in a pass context with that calibration.
schedule::Machine CostsWith(const std::string& calibration, const std::string& target = kNative) {
  transform::PassContext context = transform::PassContext::Create();
  context.CopyOnWrite()->config.Set(kCalibrationOption, String(calibration));
  transform::PassContext::Scope scope(context);
  return ops::cpu::MachineOf(Target(target));
}

std::string MessageOf(const std::string& text) {
  try {
    ParseCalibration(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CalibrationTest, TextHasAllThatWasMeasured) {
  const Calibration made{256, 2, 1.5, 4, 31.25, 0, 5, 6.5, 4200};
  const std::string text = ToText(made);
  EXPECT_EQ(text, "bits=256 multiply-adds=2 loads=1.5 latency=4 l2=31.25 memory=5 other-core=6.5 fork-join=4200");
  EXPECT_EQ(ToText(ParseCalibration(text)), text);
}

TEST(CalibrationTest, RefusesWhatNoMachineIs) {
  EXPECT_NE(MessageOf("bits=256 l2=-3").find("l2=-3: expected a number from 0.1 to 512"), std::string::npos);
  EXPECT_NE(MessageOf("bits=256 loads=nan").find("loads=nan"), std::string::npos);
  EXPECT_NE(MessageOf("bits=256 l4=1").find("unknown 'l4'; there are: bits, multiply-adds"), std::string::npos);
  EXPECT_NE(MessageOf("l2=30").find("lacks bits"), std::string::npos);
  EXPECT_NE(MessageOf("bits").find("bits="), std::string::npos);
}

TEST(CalibrationTest, CostsFollowWhatWasMeasured) {
  const schedule::Machine slow = CostsWith("bits=256 multiply-adds=1 l2=10 l3=10 memory=1 other-core=2 fork-join=2000");
  const schedule::Machine fast = CostsWith("bits=256 multiply-adds=2 l2=20 l3=20 memory=2 other-core=4 fork-join=1000");
  EXPECT_EQ(slow.costs_of, "calibration");
  EXPECT_DOUBLE_EQ(slow.fma_cycles, 2 * fast.fma_cycles);
  EXPECT_DOUBLE_EQ(slow.l2_cycles_per_byte, 2 * fast.l2_cycles_per_byte);
  EXPECT_DOUBLE_EQ(slow.beyond_l2_cycles_per_byte, 2 * fast.beyond_l2_cycles_per_byte);
  EXPECT_DOUBLE_EQ(slow.weight_cycles_per_byte, 2 * fast.weight_cycles_per_byte);
  EXPECT_DOUBLE_EQ(slow.coherence_cycles_per_byte, 2 * fast.coherence_cycles_per_byte);
  EXPECT_DOUBLE_EQ(slow.fork_join_cycles, 2 * fast.fork_join_cycles);
}

TEST(CalibrationTest, WhatWasNotMeasuredStays) {
  const schedule::Machine none = CostsWith(kNoCalibration);
  const schedule::Machine some = CostsWith("bits=256 latency=5");
  EXPECT_NE(some.fma_latency_cycles, none.fma_latency_cycles);
  EXPECT_DOUBLE_EQ(some.fma_cycles, none.fma_cycles);
  EXPECT_DOUBLE_EQ(some.weight_cycles_per_byte, none.weight_cycles_per_byte);
}

TEST(CalibrationTest, PipelinesOfOtherVectorsDoNotCount) {
  const schedule::Machine none = CostsWith(kNoCalibration);
  const schedule::Machine wide = CostsWith("bits=512 multiply-adds=1 memory=1");
  EXPECT_DOUBLE_EQ(wide.fma_cycles, none.fma_cycles);
  EXPECT_NE(wide.weight_cycles_per_byte, none.weight_cycles_per_byte);
}

TEST(CalibrationTest, OtherMachinesKeepTheirModels) {
  const char* target = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake -num-cores=1";
  EXPECT_EQ(CostsWith("bits=256 multiply-adds=1", target).costs_of, "skylake");
}

}  // namespace
}  // namespace treadle::targets
