// SPDX-License-Identifier: Apache-2.0
// Models as users run them: the C++ class, the C interface, and modules loaded by name.
#include "treadle/runtime/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/test_models.h"
#include "treadle/runtime/c_api.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DataType kF32 = DataType::Float(32);

NDArray Ones() { return NDArray::FromVector<float>({1, 1, 1, 1, 1, 1}, {2, 3}, kF32); }
std::vector<float> Values(const NDArray& array) {
  return std::vector<float>(array.Data<float>(), array.Data<float>() + array.size());
}
const std::vector<float> kExpected = {22, 42, 62, 82, 102, 122};

TEST(Model, LoadsAndRuns) {
  SealedModel file;
  Model model = Model::Load(file.path());
  ASSERT_EQ(model.inputs().size(), 1u);
  EXPECT_EQ(model.inputs()[0].name, "x");
  EXPECT_EQ(model.outputs()[0].str(), "float32 (6,)");
  EXPECT_EQ(Values(model.Run({{"x", Ones()}})[0]), kExpected);
  MemoryReport memory = model.Memory();
  EXPECT_EQ(memory.params, 24);
  EXPECT_EQ(memory.inputs, 24);
  EXPECT_EQ(memory.activations, 48);
}

TEST(Model, OutputsAreTheCallers) {
  SealedModel file;
  Model model = Model::Load(file.path());
  NDArray first = model.Run({{"x", Ones()}})[0];
  NDArray zero = NDArray::FromVector<float>({0, 0, 0, 0, 0, 0}, {2, 3}, kF32);
  NDArray second = model.Run({{"x", zero}})[0];
  EXPECT_EQ(Values(first), kExpected);
  EXPECT_EQ(Values(second)[0], 20);
}

TEST(Model, InputsAreReleasedAfterTheRun) {
  SealedModel file;
  Model model = Model::Load(file.path());
  NDArray x = Ones();
  model.Run({{"x", x}});
  EXPECT_EQ(x->use_count(), 1);
}

TEST(Model, UnalignedInputsAreCopied) {
  SealedModel file;
  Model model = Model::Load(file.path());
  std::vector<float> data(7, 1.0f);
  NDArray x = NDArray::View(data.data() + 1, {2, 3}, kF32, Cpu(), nullptr);
  EXPECT_EQ(Values(model.Run({{"x", x}})[0]), kExpected);
}

TEST(Model, OutlivesItsFile) {
  Model model;
  NDArray y;
  {
    SealedModel file;
    model = Model::Load(file.path());
  }
  y = model.Run({{"x", Ones()}})[0];
  model = Model();
  EXPECT_EQ(Values(y), kExpected);
}

TEST(Model, WrongInputsAreOneLineErrors) {
  SealedModel file;
  Model model = Model::Load(file.path());
  EXPECT_THAT([&] { model.Run({}); }, ThrowsMessage<Error>("input \"x\" is missing: expected float32 (2, 3)"));
  EXPECT_THAT([&] { model.Run({{"z", Ones()}}); }, ThrowsMessage<Error>("no input \"z\"; the inputs are: x"));
  EXPECT_THAT([&] { model.Run({{"x", NDArray::Empty({3, 2}, kF32)}}); },
              ThrowsMessage<ShapeError>("input \"x\": expected float32 (2, 3) but got float32 (3, 2)"));
  EXPECT_THAT([&] { model.Run({{"x", NDArray::Empty({2, 3}, DataType::Float(64))}}); },
              ThrowsMessage<DTypeError>("input \"x\": expected float32 (2, 3) but got float64 (2, 3)"));
  EXPECT_EQ(Values(model.Run({{"x", Ones()}})[0]), kExpected);
}

TEST(Model, ManyThreadsShareOneModel) {
  SealedModel file;
  Model model = Model::Load(file.path());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&model] {
      for (int i = 0; i < 100; ++i) ASSERT_EQ(Values(model.Run({{"x", Ones()}}, 2)[0]), kExpected);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Model, ContextNeedsItsInputs) {
  SealedModel file;
  ModelContext context = Model::Load(file.path()).CreateContext();
  EXPECT_THAT([&] { context.Run(); }, ThrowsMessage<Error>(HasSubstr("input \"x\" is missing")));
  context.SetInput("x", Ones());
  context.Run();
  EXPECT_EQ(Values(context.GetOutput(0)), kExpected);
  EXPECT_THROW(context.GetOutput(1), Error);
}

TEST(Model, ManifestMustAgreeWithTheGraph) {
  SealedModel file;
  Model model = Model::Load(file.path());
  Manifest manifest = model.manifest();
  manifest.inputs[0].shape = {9};
  EXPECT_THAT([&] { Model::FromGraph(model.graph_json(), {}, model.library(), manifest); },
              ThrowsMessage<ModelFormatError>(HasSubstr("in the manifest but")));
}

/// An executor of one output that is its input plus one.
class PlusOne final : public Executable {
 public:
  class Context final : public ExecutionContext {
   public:
    void SetInput(size_t, const NDArray& value) override { value_ = value.Copy(); }
    void Run() override {
      for (int64_t i = 0; i < value_.size(); ++i) value_.Data<float>()[i] += 1;
    }
    NDArray GetOutput(size_t, bool) override { return value_; }
    void SetThreads(int) override {}
    std::vector<OpTiming> RunProfiled(bool) override { return {}; }

   private:
    NDArray value_;
  };
  std::unique_ptr<ExecutionContext> CreateContext() const override { return std::make_unique<Context>(); }
  MemoryReport Memory() const override { return {}; }
};

TEST(Model, OtherExecutorsPlugIn) {
  SealedModel file(TREADLE_TEST_MODEL_EXECUTOR);
  EXPECT_THAT([&] { Model::Load(file.path()); },
              ThrowsMessage<ModelFormatError>(HasSubstr("no executor \"test_executor\"")));
  RegisterExecutor("test_executor",
                   [](const Module&, const Module&, const Manifest&) { return std::make_shared<PlusOne>(); });
  EXPECT_EQ(Values(Model::Load(file.path()).Run({{"x", Ones()}})[0])[0], 2);
}

TEST(Model, LoadsAsAModuleThatMakesExecutors) {
  SealedModel file;
  Module factory = Module::LoadFromFile(file.path());
  EXPECT_EQ(factory.module_type(), "GraphExecutorFactory");
  Module m = factory.GetFunction("default")(Cpu());
  m.GetFunction("set_input")("x", Ones());
  m.GetFunction("run")();
  EXPECT_EQ(Values(m.GetFunction("get_output")(0).As<NDArray>()), kExpected);
  EXPECT_TRUE(factory.GetFunction("test_add", true));
}

TEST(CApi, RunsAModel) {
  SealedModel file;
  TreadleModelHandle model;
  ASSERT_EQ(TreadleModelLoad(file.path().c_str(), &model), 0) << TreadleGetLastError();
  ASSERT_EQ(TreadleModelNumInputs(model), 1);
  const char* name;
  int ndim;
  const int64_t* shape;
  DLDataType dtype;
  ASSERT_EQ(TreadleModelInputInfo(model, 0, &name, &ndim, &shape, &dtype), 0);
  DLTensor* x;
  ASSERT_EQ(TreadleTensorCreate(shape, ndim, dtype, DLDevice{kDLCPU, 0}, &x), 0);
  std::vector<float> ones(6, 1.0f), result(6);
  ASSERT_EQ(TreadleTensorCopyFromBytes(x, ones.data(), TreadleTensorNumBytes(x)), 0);
  ASSERT_EQ(TreadleModelSetInput(model, name, x), 0);
  ASSERT_EQ(TreadleModelRun(model), 0);
  DLTensor* y;
  ASSERT_EQ(TreadleModelGetOutput(model, 0, &y), 0);
  ASSERT_EQ(TreadleTensorCopyToBytes(y, result.data(), 24), 0);
  EXPECT_EQ(result, kExpected);
  EXPECT_EQ(TreadleModelSetInput(model, "z", x), -1);
  EXPECT_STREQ(TreadleGetLastError(), "no input \"z\"; the inputs are: x");
  EXPECT_EQ(TreadleGetLastErrorCode(), 2);
  TreadleModelHandle clone;
  ASSERT_EQ(TreadleModelClone(model, &clone), 0);
  TreadleModelFree(model);
  EXPECT_EQ(TreadleModelRun(clone), -1);  // its inputs are its own
  TreadleModelFree(clone);
  TreadleTensorFree(x);
  TreadleTensorFree(y);
}

TEST(CApi, ReportsErrors) {
  TreadleModelHandle model;
  EXPECT_EQ(TreadleModelLoad("/nowhere/m.so", &model), -1);
  EXPECT_STREQ(TreadleGetLastErrorKind(), "FileNotFoundError");
  EXPECT_EQ(TreadleGetLastErrorCode(), 2);
}

TEST(CApi, CallsAndRegistersFunctions) {
  TreadlePackedCFunc add = [](TreadleValue* args, int*, int n, TreadleValue* ret, int* code, void* base) {
    ret->v_int64 = *static_cast<int64_t*>(base);
    for (int i = 0; i < n; ++i) ret->v_int64 += args[i].v_int64;
    *code = kTreadleInt;
    return 0;
  };
  static int64_t base = 100;
  TreadleFuncHandle f;
  ASSERT_EQ(TreadleFuncCreate(add, &base, [](void* r) { *static_cast<int64_t*>(r) = -1; }, &f), 0);
  ASSERT_EQ(TreadleFuncRegisterGlobal("test.c_api.add", f, 1), 0);
  EXPECT_EQ(Registry::Get("test.c_api.add")(1, 2).As<int>(), 103);
  TreadleValue args[1], ret;
  int codes[1] = {kTreadleInt}, code = kTreadleNull;
  args[0].v_int64 = 5;
  ASSERT_EQ(TreadleFuncCall(f, args, codes, 1, &ret, &code), 0);
  EXPECT_EQ(ret.v_int64, 105);
  int removed = 0;
  ASSERT_EQ(TreadleFuncRemoveGlobal("test.c_api.add", &removed), 0);
  EXPECT_EQ(removed, 1);
  TreadleFuncFree(f);
  EXPECT_EQ(base, -1);
  ASSERT_EQ(TreadleFuncGetGlobal("test.c_api.add", &f), 0);
  EXPECT_EQ(f, nullptr);
  int count = 0;
  const char* const* names = nullptr;
  ASSERT_EQ(TreadleFuncListGlobalNames(&count, &names), 0);
  EXPECT_GT(count, 5);
}

TEST(CApi, LoadsModules) {
  TreadleModuleHandle module;
  ASSERT_EQ(TreadleModuleLoadFromFile(TREADLE_TEST_KERNELS, nullptr, &module), 0);
  TreadleFuncHandle f;
  ASSERT_EQ(TreadleModuleGetFunction(module, "test_fail", 0, &f), 0);
  TreadleValue ret;
  int code = kTreadleNull;
  EXPECT_EQ(TreadleFuncCall(f, nullptr, nullptr, 0, &ret, &code), -1);
  EXPECT_STREQ(TreadleGetLastError(), "index 7 is out of bounds");
  TreadleFuncFree(f);
  TreadleModuleFree(module);
}

}  // namespace
}  // namespace treadle::runtime
