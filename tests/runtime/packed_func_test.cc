// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/packed_func.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/runtime/last_error.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(PackedFunc, CarriesEveryKindOfValue) {
  PackedFunc echo([](Args args, RetValue* ret) { *ret = args[0]; });
  EXPECT_EQ(echo(int64_t{7}).As<int64_t>(), 7);
  EXPECT_EQ(echo(true).As<bool>(), true);
  EXPECT_EQ(echo(2.5).As<double>(), 2.5);
  EXPECT_EQ(echo("text").As<std::string>(), "text");
  EXPECT_EQ(echo(std::string("more")).As<std::string>(), "more");
  EXPECT_EQ(echo(String("object")).As<String>().str(), "object");
  EXPECT_EQ(echo(DataType::Int(8)).As<DataType>(), DataType::Int(8));
  EXPECT_EQ(echo(Cpu(3)).As<Device>().device_id, 3);
  EXPECT_TRUE(echo(nullptr).is_null());
  NDArray array = NDArray::Empty({2}, DataType::Float(32));
  EXPECT_TRUE(echo(array).As<NDArray>().same_as(array));
  EXPECT_EQ(echo(array).As<DLTensor*>(), array.handle());
  EXPECT_TRUE(echo(echo).As<PackedFunc>().same_as(echo));
  std::string raw("a\0b", 3);
  TreadleByteArray bytes{raw.data(), raw.size()};
  EXPECT_EQ(echo(&bytes).As<std::string>(), raw);
  Array<String> list{String("x")};
  EXPECT_EQ(echo(list).As<Array<String>>()[0].str(), "x");
}

TEST(PackedFunc, MismatchNamesArgumentAndTypes) {
  auto f = PackedFunc::FromTyped([](int a, std::string b) { return a + static_cast<int>(b.size()); });
  EXPECT_EQ(f(1, "ab").As<int>(), 3);
  EXPECT_THAT([&] { f(1, 2); }, ThrowsMessage<DTypeError>("argument 1: expected str but got int"));
  EXPECT_THAT([&] { f(1); }, ThrowsMessage<Error>("function takes 2 arguments but 1 was given"));
  auto g = PackedFunc::FromTyped([](NDArray) {});
  EXPECT_THAT([&] { g(Array<String>()); }, ThrowsMessage<DTypeError>(HasSubstr("expected runtime.NDArray")));
}

TEST(PackedFunc, TypedCallsConvert) {
  TypedPackedFunc<double(int)> half = PackedFunc::FromTyped([](int x) { return x / 2.0; });
  EXPECT_EQ(half(3), 1.5);
}

TEST(PackedFunc, CompiledFunctionsReportTheirError) {
  TreadlePackedCFunc fail = [](TreadleValue*, int*, int, TreadleValue*, int*, void*) {
    return SetLastError("division by zero");
  };
  PackedFunc f = PackedFunc::FromC(fail, nullptr, ObjectRef(), "kernel");
  EXPECT_THAT([&] { f(); }, ThrowsMessage<RuntimeError>("kernel: division by zero"));
  TreadlePackedCFunc silent = [](TreadleValue*, int*, int, TreadleValue*, int*, void*) { return 3; };
  EXPECT_THAT([&] { PackedFunc::FromC(silent, nullptr, ObjectRef(), "kernel")(); },
              ThrowsMessage<RuntimeError>("kernel returned 3 without setting an error"));
}

TEST(PackedFunc, ExceptionsCrossCompiledCodeUnchanged) {
  TreadlePackedCFunc fail = [](TreadleValue*, int*, int, TreadleValue*, int*, void*) {
    try {
      throw ShapeError("bad shape");
    } catch (...) {
      return SetLastErrorFromException();
    }
  };
  EXPECT_THAT([&] { PackedFunc::FromC(fail, nullptr, ObjectRef())(); }, ThrowsMessage<ShapeError>("bad shape"));
  EXPECT_STREQ(LastErrorKind(), "ShapeError");
}

TEST(PackedFunc, CompiledResultsAreTakenOver) {
  NDArray array = NDArray::Empty({1}, DataType::Float(32));
  TreadlePackedCFunc make = [](TreadleValue* args, int*, int, TreadleValue* ret, int* code, void*) {
    RetValue value;
    value = NDArray::FromHandle(static_cast<DLTensor*>(args[0].v_handle));
    std::move(value).MoveToC(ret, code);
    return 0;
  };
  {
    NDArray back = PackedFunc::FromC(make, nullptr, ObjectRef())(array);
    EXPECT_EQ(array->use_count(), 2);
  }
  EXPECT_EQ(array->use_count(), 1);
}

TEST(Registry, RefusesDuplicatesUnlessOverridden) {
  Registry::RegisterTyped("test.registry.f", [] { return 1; });
  EXPECT_THROW(Registry::RegisterTyped("test.registry.f", [] { return 2; }), Error);
  Registry::RegisterTyped("test.registry.f", [] { return 2; }, true);
  EXPECT_EQ(Registry::Get("test.registry.f")().As<int>(), 2);
  EXPECT_THAT(Registry::ListNames(), Contains("test.registry.f"));
  EXPECT_THAT([] { Registry::Require("test.registry.g"); }, ThrowsMessage<Error>(HasSubstr("test.registry.f")));
  EXPECT_TRUE(Registry::Remove("test.registry.f"));
  EXPECT_FALSE(Registry::Remove("test.registry.f"));
  EXPECT_FALSE(Registry::Get("test.registry.f"));
}

TEST(Registry, HasTheRuntimesOwnFunctions) { EXPECT_TRUE(Registry::Get("runtime.ModuleLoadFromFile")); }

}  // namespace
}  // namespace treadle::runtime
