// SPDX-License-Identifier: Apache-2.0
#include "driver/vm/vm_codegen.h"
#include "driver/graph/why_not_graph.h"

#include <gtest/gtest.h>

#include "treadle/driver/compile.h"
#include "treadle/ir/structural.h"
#include "treadle/relay/text.h"
#include "treadle/relay/transform.h"

namespace treadle::driver {
namespace {

VmProgram Compile(const std::string& text, int* kernels = nullptr) {
  RegisterAll();
  IRModule module = relay::transform::InferType()(relay::ParseModule(text));
  std::vector<relay::Function> seen;
  VmProgram program = GenerateVmProgram(module, [&](const relay::Function& func) {
    for (size_t i = 0; i < seen.size(); ++i) {
      if (StructuralEqual(seen[i], func)) return DeclaredKernel{"kernel" + std::to_string(i)};
    }
    seen.push_back(func);
    return DeclaredKernel{"kernel" + std::to_string(seen.size() - 1)};
  });
  if (kernels != nullptr) *kernels = static_cast<int>(seen.size());
  return program;
}

TEST(VmCodegen, CallsThatDifferInShapesShareAKernel) {
  int kernels = 0;
  Compile(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) {
  (exp(%x), exp(%y))
})",
          &kernels);
  EXPECT_EQ(kernels, 1);
}

TEST(VmCodegen, ShapesAreFollowedWithoutKernels) {
  std::string text = Compile(R"(#[version = "0.0.5"]
def @main(%x: Tensor[(?, 4), float32]) {
  %0 = shape_of(%x, dtype="int64");
  dyn.reshape(%x, %0, newshape=[-1, -1])
})")
                         .program.Disassemble();
  EXPECT_EQ(text.find("kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("reshape"), std::string::npos) << text;
}

TEST(VmCodegen, RecursionInTailPositionIsALoop) {
  std::string text = Compile(R"(#[version = "0.0.5"]
def @loop(%n: int64, %x: float32) -> float32 {
  if (equal(%n, 0i64)) {
    %x
  } else {
    @loop(subtract(%n, 1i64), add(%x, %x))
  }
}
def @main(%n: int64, %x: float32) -> float32 {
  @loop(%n, %x)
})")
                         .program.Disassemble();
  EXPECT_NE(text.find("tail_invoke @loop"), std::string::npos) << text;
}

TEST(VmCodegen, GraphsNeedNoMachine) {
  RegisterAll();
  auto why = [](const std::string& text) {
    return WhyNotGraph(relay::transform::InferType()(relay::ParseModule("#[version = \"0.0.5\"]\n" + text)));
  };
  EXPECT_EQ(why("def @main(%x: Tensor[(2, 4), float32]) { exp(%x) }"), "");
  EXPECT_NE(why("def @main(%x: Tensor[(?, 4), float32]) { exp(%x) }"), "");
  EXPECT_NE(why("def @main(%c: bool, %x: float32) { if (%c) { exp(%x) } else { %x } }"), "");
}

}  // namespace
}  // namespace treadle::driver
