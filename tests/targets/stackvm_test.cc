// SPDX-License-Identifier: Apache-2.0
// Programs of the interpreter that don't end by themselves, as damage may make them.
#include <gtest/gtest.h>

#include <thread>

#include "targets/stackvm/program.h"
#include "treadle/runtime/run_limits.h"

namespace treadle::targets {
namespace {

using runtime::CancelToken;
using runtime::RunLimitScope;

/// Jumps back forever: by a jump, or by a condition that holds.
VmProgram Endless(VmOp jump) {
  VmProgram program;
  program.name = "endless";
  program.registers = 1;
  program.code = {{VmOp::kMove, 0, 0, 0, 0, 0, 0, 0}, {jump, 0, 0, 0, 0, 0, 0, 0}, {}};
  return VmProgram::Load(program.Save());
}

/// Elements are read in words of 8, 16, 32 or 64 bits: the last of 24 bits would end within one.
TEST(StackVm, BuffersHaveTypesThatAreStored) {
  VmProgram program;
  program.buffers.resize(1);
  for (const DataType dtype : {DataType::Int(24), DataType::UInt(12), DataType::Float(24), DataType::Float(48)}) {
    program.buffers[0].dtype = dtype;
    EXPECT_THROW(VmProgram::Load(program.Save()), ModelFormatError) << dtype;
  }
  for (const DataType dtype : {DataType::Bool(), DataType::Int(4), DataType::BFloat(16), DataType(kDLFloat4_e2m1fn, 4),
                               DataType(kDLFloat8_e8m0fnu, 8)}) {
    program.buffers[0].dtype = dtype;
    EXPECT_EQ(VmProgram::Load(program.Save()).buffers[0].dtype, dtype);
  }
}

TEST(StackVm, LoopsEndAtTheTimeLimit) {
  for (const VmOp jump : {VmOp::kJump, VmOp::kJumpIfZero}) {
    const VmProgram program = Endless(jump);
    RunLimitScope limits({.cancel = {}, .timeout_s = 0.01});
    EXPECT_THROW(program.Run({}), runtime::RunTimeout);
  }
}

TEST(StackVm, LoopsEndWhenCancelled) {
  const CancelToken token;
  RunLimitScope limits({.cancel = token});
  std::thread other([&] { token.Cancel(); });
  EXPECT_THROW(Endless(VmOp::kJump).Run({}), runtime::RunCancelled);
  other.join();
}

TEST(StackVm, LimitsOfOuterScopesHold) {
  const CancelToken token;
  token.Cancel();
  RunLimitScope outer({.cancel = token});
  RunLimitScope inner({.cancel = {}, .timeout_s = 1000});
  EXPECT_THROW(Endless(VmOp::kJump).Run({}), runtime::RunCancelled);
}

}  // namespace
}  // namespace treadle::targets
