// SPDX-License-Identifier: Apache-2.0
// Models on several devices: a second device that is ordinary memory, whose kernels are interpreted.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <gmock/gmock.h>

#include "passes/pass_test.h"
#include "treadle/base/json.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/device.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/vm/machine.h"

namespace treadle::driver {
namespace {

using namespace treadle::testing;  // NOLINT(google-build-using-namespace)
using runtime::Device;
using runtime::NDArray;

constexpr int kOther = kDLExtDev;

/// Memory of the process under another name; counts copies.
class MemoryDevice final : public runtime::DeviceAPI {
 public:
  runtime::DeviceAttrValue GetAttr(Device, runtime::DeviceAttr) override { return int64_t{1}; }
  void SetDevice(Device) override {}
  void* AllocDataSpace(Device, size_t bytes, size_t alignment) override {
    void* data = nullptr;
    return posix_memalign(&data, alignment, bytes + 1) == 0 ? data : nullptr;
  }
  void FreeDataSpace(Device, void* data) override { std::free(data); }
  void CopyDataFromTo(const void* from, size_t from_offset, void* to, size_t to_offset, size_t bytes, Device, Device,
                      runtime::StreamHandle) override {
    std::memcpy(static_cast<char*>(to) + to_offset, static_cast<const char*>(from) + from_offset, bytes);
    ++copies;
  }
  void StreamSync(Device, runtime::StreamHandle) override {}
  static MemoryDevice* Get() {
    static auto* device = [] {
      auto* made = new MemoryDevice();
      runtime::DeviceAPI::Register(kOther, made);
      return made;
    }();
    return device;
  }
  int copies = 0;
};

CompileOptions TwoDevices() {
  CompileOptions options;
  options.device_targets = {{kDLCPU, "llvm"}, {kOther, "stackvm"}};
  options.opt_level = 1;
  options.use_cache = false;
  return options;
}

const char* const kSplit = R"(
  fn (%x: Tensor[(4, 8), float32], %y: Tensor[(4, 8), float32]) {
    %0 = add(%x, %y);
    %1 = sqrt(%0);
    %2 = on_device(%1, device_type=12);
    %3 = log(%0);
    %4 = subtract(%2, %3);
    %5 = exp(%4);
    on_device(%5, device_type=12)
  })";

std::vector<int64_t> DeviceIndex(const CompiledModel& model) {
  return Json::parse(model.graph_json)["attrs"]["device_index"][1].get<std::vector<int64_t>>();
}

TEST(Heterogeneous, CopiesStandBetweenDevices) {
  CompiledModel model = Build(Parse(kSplit), {}, TwoDevices());
  EXPECT_EQ(DeviceIndex(model), (std::vector<int64_t>{1, 1, 1, 12, 12, 1, 1, 12, 12}));
  auto graph = Json::parse(model.graph_json);
  int copies = 0;
  for (const auto& node : graph["nodes"]) copies += node["op"] == "tvm_op" && node["attrs"]["func_name"] == "__copy";
  EXPECT_EQ(copies, 3);
  EXPECT_EQ(model.lowered().size(), 2u);
}

TEST(Heterogeneous, ResultsAreThoseOfOneDevice) {
  MemoryDevice::Get();
  NDArray x = NDArray::Empty({4, 8}, DataType::Float(32)), y = NDArray::Empty({4, 8}, DataType::Float(32));
  for (int i = 0; i < 32; ++i) {
    x.Data<float>()[i] = 1 + 0.1F * static_cast<float>(i);
    y.Data<float>()[i] = 2 - 0.05F * static_cast<float>(i);
  }
  CompiledModel split = Build(Parse(kSplit), {}, TwoDevices());
  std::vector<Device> devices{runtime::Cpu(), {static_cast<DLDeviceType>(kOther), 0}};
  auto graph = std::make_shared<runtime::GraphModel>(runtime::GraphSpec::FromJson(split.graph_json), split.library,
                                                     devices, runtime::ParamList{});
  runtime::GraphContext context(graph);
  context.SetInput("x", x);
  context.SetInput("y", y);
  const int before = MemoryDevice::Get()->copies;
  context.Run();
  EXPECT_EQ(MemoryDevice::Get()->copies - before, 3);
  NDArray result = context.GetOutput(0);
  EXPECT_EQ(result.device().device_type, kOther);
  NDArray host = result.Copy(runtime::Cpu());
  for (int i = 0; i < 32; ++i) {
    const float sum = x.Data<float>()[i] + y.Data<float>()[i];
    EXPECT_NEAR(host.Data<float>()[i], std::exp(std::sqrt(sum) - std::log(sum)), 1e-4F);
  }
}

/// Branches on the other device, between values of the CPU: both kernels of the first branch read %0.
const char* const kBranch = R"(
  fn (%x: Tensor[(4), float32], %c: bool) {
    %0 = on_device(add(%x, %x), device_type=12);
    %1 = if (%c) {
      %2 = on_device(exp(%0), device_type=12);
      %3 = on_device(multiply(%2, 3f), device_type=12);
      %4 = on_device(sum(%0, axis=[0], keepdims=True), device_type=12);
      on_device(subtract(%4, %3), device_type=12)
    } else {
      on_device(negative(%0), device_type=12)
    };
    negative(%1)
  })";

TEST(Heterogeneous, ProgramsOfTheVirtualMachinePlaceTheirValues) {
  MemoryDevice::Get();
  CompiledModel split = Build(Parse(kBranch), {}, TwoDevices());
  ASSERT_EQ(split.manifest.executor, "vm");
  EXPECT_THAT(split.vm_text, ::testing::HasSubstr("device_copy r1 to cpu"));  // the condition
  EXPECT_THAT(split.vm_text, ::testing::HasSubstr("on ext_dev"));
  std::vector<NDArray> constants;
  for (const auto& [name, value] : split.params) constants.push_back(value);
  auto model = std::make_shared<const runtime::vm::VmModel>(
      runtime::vm::Program::Load(split.vm_program, static_cast<uint32_t>(constants.size())), split.library, constants);
  runtime::vm::VirtualMachine machine(model);
  NDArray x = NDArray::Empty({4}, DataType::Float(32)), c = NDArray::Empty({}, DataType::Bool());
  for (int i = 0; i < 4; ++i) x.Data<float>()[i] = 1 + static_cast<float>(i);
  for (const bool taken : {true, false}) {
    c.Data<uint8_t>()[0] = taken ? 1 : 0;
    const int before = MemoryDevice::Get()->copies;
    auto result = Downcast<NDArray>(machine.InvokeEntry({x, c}));
    // To the device once, however many kernels read the value, and back once.
    EXPECT_EQ(MemoryDevice::Get()->copies - before, 2) << split.vm_text;
    ASSERT_EQ(result.device().device_type, kDLCPU);
    for (int i = 0; i < 4; ++i) {
      const float twice = 2 * x.Data<float>()[i];
      const float expected = taken ? 3 * std::exp(twice) - 20 : twice;
      EXPECT_NEAR(result.Data<float>()[i], expected, std::abs(expected) * 1e-5F);
    }
  }
}

TEST(Heterogeneous, AllOnOneDeviceNeedsNoCopies) {
  CompiledModel model = Build(Parse(R"(
    fn (%x: Tensor[(4, 8), float32], %y: Tensor[(4, 8), float32]) {
      %0 = add(%x, %y);
      %1 = on_device(%0, device_type=12);
      %2 = exp(%1);
      on_device(%2, device_type=12)
    })"),
                              {}, TwoDevices());
  EXPECT_EQ(DeviceIndex(model), (std::vector<int64_t>{12, 12, 12}));
}

TEST(Heterogeneous, WithoutAnnotationsEverythingIsOnTheFallbackDevice) {
  const char* text = "fn (%x: Tensor[(4), float32]) { exp(%x) }";
  EXPECT_EQ(DeviceIndex(Build(Parse(text), {}, TwoDevices())), (std::vector<int64_t>{1, 1}));
  CompileOptions options = TwoDevices();
  options.config["relay.fallback_device_type"] = "12";
  EXPECT_EQ(DeviceIndex(Build(Parse(text), {}, options)), (std::vector<int64_t>{12, 12}));
}

TEST(Heterogeneous, DeviceWithoutTargetIsAnError) {
  CompileOptions options;
  try {
    Build(Parse(kSplit), {}, options);
    FAIL();
  } catch (const TargetError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("ext_dev"));
  }
}

TEST(Heterogeneous, HostsThatDifferAreAnError) {
  CompileOptions options;
  options.target = "llvm -host=\"llvm -mcpu=x86-64-v2\"";
  options.target_host = "llvm -mcpu=x86-64-v3";
  EXPECT_THROW(Build(Parse("fn (%x: Tensor[(4), float32]) { exp(%x) }"), {}, options), TargetError);
}

}  // namespace
}  // namespace treadle::driver
