// SPDX-License-Identifier: Apache-2.0
// The registry of targets, and options of target strings.
#include "treadle/targets/target_spec.h"

#include <gmock/gmock.h>

#include "treadle/base/error.h"
#include "treadle/driver/build_module.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/te/tensor.h"

namespace treadle::targets {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TargetSpec Text(const std::string& name) {
  TargetSpec spec;
  spec.kind.name = name;
  spec.codegen = [](const Functions&, const Target&, const CodegenOptions&) { return Artifact(); };
  return spec;
}

TEST(TargetSpecTest, DefaultsAreTheFirstOfTheList) {
  EXPECT_EQ(DefaultTarget(kDLCPU)->kind, "llvm");
  EXPECT_EQ(DefaultTarget(kDLOpenCL)->kind, "opencl");
  EXPECT_THROW(DefaultTarget(kDLMetal), TargetError);
}

TEST(TargetSpecTest, AddedTargetsAreParsedAndListed) {
  TargetSpec spec = Text("test_added");
  spec.kind.options = {{"lanes", TargetOption::Type::kInteger, "", 1, 64}};
  spec.kind.tags = {{"test-board", "test_added -lanes=8"}};
  spec.kind.features = [](const TargetNode& target) {
    TargetFeatures features;
    features.vector_bits = static_cast<int>(32 * target.GetIntAttr("lanes", 1));
    return features;
  };
  RegisterTarget(spec);
  EXPECT_EQ(Target("test-board")->Features().vector_lanes(32), 8);
  EXPECT_EQ(ListTargets().back(), "test_added");
  EXPECT_THAT([] { Target("test_added -lanes=65"); },
              ThrowsMessage<TargetError>(HasSubstr("-lanes is \"65\", expected an integer from 1 to 64")));
  EXPECT_THAT([] { Target("test_added -mcpu=x"); }, ThrowsMessage<TargetError>(HasSubstr("has no option -mcpu")));
  EXPECT_THAT([&] { RegisterTarget(spec); }, ThrowsMessage<TargetError>(HasSubstr("already")));
}

TEST(TargetSpecTest, WhatItsFormNeedsIsAskedFor) {
  TargetSpec device = Text("test_device");
  device.form = ModuleForm::kDevice;
  EXPECT_THAT([&] { RegisterTarget(device); }, ThrowsMessage<TargetError>(HasSubstr("it has no runtime")));
  TargetSpec module = Text("test_module");
  module.form = ModuleForm::kModule;
  EXPECT_THAT([&] { RegisterTarget(module); }, ThrowsMessage<TargetError>(HasSubstr("it has no make_module")));
  EXPECT_THROW(Target("test_device"), TargetError);
}

TEST(TargetSpecTest, OptionsOfAllTargetsHaveRanges) {
  for (const char* text : {"llvm -num-cores=0", "llvm -num-cores=many", "c -opt-level=4", "llvm -fast-math=2",
                           "llvm -mfloat-abi=medium", "opencl -max_num_threads=0", "llvm -vector-width=-1"}) {
    EXPECT_THAT([&] { Target target(text); }, ThrowsMessage<TargetError>(HasSubstr("expected"))) << text;
  }
}

TEST(TargetSpecTest, TheEntryOfAnInterpretedModuleIsTheFirstFunction) {
  IRModule module = IRModule::Empty();
  for (int k = 0; k < 5; ++k) {
    te::Tensor a = te::Placeholder({PrimExpr(1)}, DataType::Float(32), "A");
    te::Tensor b = te::Compute(
        {PrimExpr(1)},
        [&](const Array<tir::Var>& i) { return tir::Add(a(i[0]), FloatImm(DataType::Float(32), 3.0 - k)); }, "B");
    const std::string name = "f" + std::to_string(9 - k);
    module.CopyOnWrite()->Add(GlobalVar(name), te::CreatePrimFunc({a, b}, name));
  }
  const runtime::Module built = driver::BuildModule(module, Target("stackvm"));
  runtime::NDArray in = runtime::NDArray::Empty({1}, DataType::Float(32));
  runtime::NDArray out = runtime::NDArray::Empty({1}, DataType::Float(32));
  *static_cast<float*>(in.data_ptr()) = 1;
  built.GetFunction(runtime::kEntryFunction)(in, out);
  EXPECT_EQ(*static_cast<float*>(out.data_ptr()), 4);
}

}  // namespace
}  // namespace treadle::targets
