// SPDX-License-Identifier: Apache-2.0
// Wrong use of the C interface: an error each, never a crash.
#include "treadle/runtime/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "runtime/test_models.h"
#include "treadle/runtime/c_backend_api.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;

void ExpectError(int status, const char* text) {
  EXPECT_EQ(status, -1);
  EXPECT_THAT(TreadleGetLastError(), HasSubstr(text));
}

/// A model, a module, a function and a tensor that the library made, and a tensor that it didn't.
class CApiMisuse : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(TreadleModelLoad(file_.path().c_str(), &model_), 0) << TreadleGetLastError();
    ASSERT_EQ(TreadleModuleLoadFromFile(TREADLE_TEST_KERNELS, nullptr, &module_), 0);
    ASSERT_EQ(TreadleModuleGetFunction(module_, "test_fail", 0, &func_), 0);
    ASSERT_EQ(TreadleTensorCreate(shape_, 2, float32_, cpu_, &tensor_), 0);
    foreign_.data = values_.data();
    foreign_.device = cpu_;
    foreign_.dtype = float32_;
    foreign_.ndim = 2;
    foreign_.shape = shape_;
  }
  void TearDown() override {
    TreadleModelFree(model_);
    TreadleFuncFree(func_);
    TreadleModuleFree(module_);
    TreadleTensorFree(tensor_);
  }

  SealedModel file_;
  TreadleModelHandle model_ = nullptr, other_model_ = nullptr;
  TreadleModuleHandle module_ = nullptr;
  TreadleFuncHandle func_ = nullptr, other_func_ = nullptr;
  DLTensor* tensor_ = nullptr;
  DLTensor* other_tensor_ = nullptr;
  int64_t shape_[2] = {2, 3};
  DLDataType float32_{kDLFloat, 32, 1};
  DLDevice cpu_{kDLCPU, 0};
  std::vector<float> values_ = std::vector<float>(6, 1);
  DLTensor foreign_{};
  TreadleValue ret_{};
  int code_ = kTreadleNull;
};

TEST_F(CApiMisuse, NullModels) {
  const char* null = "'model' is null";
  ExpectError(TreadleModelClone(nullptr, &other_model_), null);
  ExpectError(TreadleModelNumInputs(nullptr), null);
  ExpectError(TreadleModelNumOutputs(nullptr), null);
  ExpectError(TreadleModelInputInfo(nullptr, 0, nullptr, nullptr, nullptr, nullptr), null);
  ExpectError(TreadleModelOutputInfo(nullptr, 0, nullptr, nullptr, nullptr, nullptr), null);
  ExpectError(TreadleModelSetNumThreads(nullptr, 1), null);
  ExpectError(TreadleModelSetInput(nullptr, "x", tensor_), null);
  ExpectError(TreadleModelRun(nullptr), null);
  ExpectError(TreadleModelSetTimeLimit(nullptr, 1), null);
  ExpectError(TreadleModelCancel(nullptr, 1), null);
  ExpectError(TreadleModelGetOutput(nullptr, 0, &other_tensor_), null);
  TreadleModelFree(nullptr);
}

TEST_F(CApiMisuse, NullResults) {
  ExpectError(TreadleModelLoad(file_.path().c_str(), nullptr), "'out' is null");
  ExpectError(TreadleModelClone(model_, nullptr), "'out' is null");
  ExpectError(TreadleModelGetOutput(model_, 0, nullptr), "'out' is null");
  ExpectError(TreadleTensorCreate(shape_, 2, float32_, cpu_, nullptr), "'out' is null");
  ExpectError(TreadleTensorFromDLPack(nullptr, nullptr), "'out' is null");
  ExpectError(TreadleTensorToDLPack(tensor_, nullptr), "'out' is null");
  ExpectError(TreadleDataTypeFromString("float32", nullptr), "'out' is null");
  ExpectError(TreadleModuleLoadFromFile(TREADLE_TEST_KERNELS, nullptr, nullptr), "'out' is null");
  ExpectError(TreadleModuleGetFunction(module_, "test_fail", 0, nullptr), "'out' is null");
  ExpectError(TreadleFuncCall(func_, nullptr, nullptr, 0, nullptr, &code_), "'ret' is null");
  ExpectError(TreadleFuncCall(func_, nullptr, nullptr, 0, &ret_, nullptr), "'ret_code' is null");
  ExpectError(TreadleFuncGetGlobal("x", nullptr), "'out' is null");
  ExpectError(TreadleFuncListGlobalNames(nullptr, nullptr), "'count' is null");
}

TEST_F(CApiMisuse, NullArguments) {
  ExpectError(TreadleModelLoad(nullptr, &other_model_), "'path' is null");
  ExpectError(TreadleModelSetInput(model_, nullptr, tensor_), "'name' is null");
  ExpectError(TreadleModelSetInput(model_, "x", nullptr), "'value' is null");
  ExpectError(TreadleTensorCreate(nullptr, 2, float32_, cpu_, &other_tensor_), "without a shape");
  ExpectError(TreadleTensorCopyFromBytes(tensor_, nullptr, 24), "'data' is null");
  ExpectError(TreadleTensorCopyToBytes(tensor_, nullptr, 24), "'data' is null");
  ExpectError(TreadleTensorCopy(nullptr, tensor_), "'from' is null");
  ExpectError(TreadleTensorCopy(tensor_, nullptr), "'to' is null");
  ExpectError(TreadleTensorFromDLPack(nullptr, &other_tensor_), "null DLPack tensor");
  ExpectError(TreadleDataTypeFromString(nullptr, &float32_), "'text' is null");
  ExpectError(TreadleModuleLoadFromFile(nullptr, nullptr, &module_), "'path' is null");
  ExpectError(TreadleModuleGetFunction(module_, nullptr, 0, &other_func_), "'name' is null");
  ExpectError(TreadleModuleImport(module_, nullptr), "'module' is null");
  ExpectError(TreadleFuncCall(nullptr, nullptr, nullptr, 0, &ret_, &code_), "'function' is null");
  ExpectError(TreadleFuncCall(func_, nullptr, nullptr, 3, &ret_, &code_), "'args' is null");
  ExpectError(TreadleFuncCreate(nullptr, nullptr, nullptr, &other_func_), "'function' is null");
  ExpectError(TreadleFuncGetGlobal(nullptr, &other_func_), "'name' is null");
  ExpectError(TreadleFuncRegisterGlobal("x", nullptr, 1), "'function' is null");
  ExpectError(TreadleFuncRemoveGlobal(nullptr, nullptr), "'name' is null");
  EXPECT_EQ(TreadleTensorNumBytes(nullptr), 0u);
}

TEST_F(CApiMisuse, HandlesOfOthersAndFreedOnes) {
  long words[64] = {};
  auto* model = reinterpret_cast<TreadleModelHandle>(words);
  auto* module = reinterpret_cast<TreadleModuleHandle>(words);
  auto* func = reinterpret_cast<TreadleFuncHandle>(words);
  const char* foreign = "wasn't created by this library";
  ExpectError(TreadleModelRun(model), foreign);
  ExpectError(TreadleModuleGetFunction(module, "f", 0, &other_func_), foreign);
  ExpectError(TreadleFuncCall(func, nullptr, nullptr, 0, &ret_, &code_), foreign);
  ExpectError(TreadleModuleImport(module_, reinterpret_cast<TreadleModuleHandle>(func_)), "expected a module");
  ExpectError(TreadleFuncCall(reinterpret_cast<TreadleFuncHandle>(module_), nullptr, nullptr, 0, &ret_, &code_),
              "expected a function");
  TreadleModelFree(model);  // no effect
  TreadleObjectFree(words);
  TreadleTensorFree(&foreign_);
  DLManagedTensor* managed = nullptr;
  ExpectError(TreadleTensorToDLPack(&foreign_, &managed), foreign);
  TreadleModelHandle clone = nullptr;
  ASSERT_EQ(TreadleModelClone(model_, &clone), 0);
  TreadleModelFree(clone);
  TreadleModelFree(clone);
  ExpectError(TreadleModelRun(clone), foreign);
}

TEST_F(CApiMisuse, CancelledModelsDontRun) {
  ASSERT_EQ(TreadleModelSetInput(model_, "x", tensor_), 0);
  ASSERT_EQ(TreadleModelCancel(model_, 1), 0);
  ExpectError(TreadleModelRun(model_), "cancelled");
  EXPECT_STREQ(TreadleGetLastErrorKind(), "RunCancelled");
  EXPECT_EQ(TreadleGetLastErrorCode(), 5);
  ASSERT_EQ(TreadleModelCancel(model_, 0), 0);
  EXPECT_EQ(TreadleModelRun(model_), 0) << TreadleGetLastError();
}

TEST_F(CApiMisuse, TimeLimits) {
  ASSERT_EQ(TreadleModelSetInput(model_, "x", tensor_), 0);
  ExpectError(TreadleModelSetTimeLimit(model_, -1), "time limit");
  ExpectError(TreadleModelSetTimeLimit(model_, std::nan("")), "time limit");
  ASSERT_EQ(TreadleModelSetTimeLimit(model_, 1e-9), 0);
  ExpectError(TreadleModelRun(model_), "longer than its time limit");
  EXPECT_STREQ(TreadleGetLastErrorKind(), "RunTimeout");
  ASSERT_EQ(TreadleModelSetTimeLimit(model_, 0), 0);
  EXPECT_EQ(TreadleModelRun(model_), 0) << TreadleGetLastError();
}

TEST_F(CApiMisuse, OutputsAreOfRunsThatSucceeded) {
  ExpectError(TreadleModelGetOutput(model_, 0, &other_tensor_), "no outputs yet");
  ExpectError(TreadleModelRun(model_), "\"x\" is missing");
  ExpectError(TreadleModelGetOutput(model_, 0, &other_tensor_), "no outputs yet");
  ASSERT_EQ(TreadleModelSetInput(model_, "x", tensor_), 0);
  ASSERT_EQ(TreadleModelRun(model_), 0);
  ExpectError(TreadleModelGetOutput(model_, -1, &other_tensor_), "no output -1; the model has");
  ExpectError(TreadleModelGetOutput(model_, 99, &other_tensor_), "no output 99; the model has");
  ASSERT_EQ(TreadleModelGetOutput(model_, 0, &other_tensor_), 0);
  TreadleTensorFree(other_tensor_);
  TreadleTensorFree(other_tensor_);
  EXPECT_THAT(TreadleGetLastError(), HasSubstr("freed already"));
}

TEST_F(CApiMisuse, TensorsThatDontFit) {
  const auto refused = [&](DLTensor tensor, const char* text) {
    ExpectError(TreadleModelSetInput(model_, "x", &tensor), text);
  };
  int64_t wide[] = {2, 4}, negative[] = {2, -3}, endless[] = {int64_t{1} << 40, int64_t{1} << 40};
  DLTensor tensor = foreign_;
  tensor.shape = wide;
  refused(tensor, "expected float32 (2, 3) but got float32 (2, 4)");
  tensor.shape = negative;
  refused(tensor, "negative dimension -3");
  tensor.shape = endless;
  refused(tensor, "overflows");
  tensor = foreign_;
  tensor.ndim = 1;
  refused(tensor, "but got float32 (2,)");
  tensor = foreign_;
  tensor.dtype.bits = 64;
  refused(tensor, "but got float64 (2, 3)");
  tensor.dtype.bits = 33;
  refused(tensor, "no known type");
  tensor = foreign_;
  tensor.byte_offset = uint64_t{1} << 60;
  refused(tensor, "starts at byte");
  ExpectError(TreadleModelSetInput(model_, "z", &foreign_), "no input \"z\"; the inputs are: x");
  ExpectError(TreadleTensorCopyToBytes(tensor_, values_.data(), 8), "has 24 bytes, not 8");
  ExpectError(TreadleTensorCopyFromBytes(tensor_, values_.data(), 8), "takes 24 bytes, not 8");
  ExpectError(TreadleModelSetNumThreads(model_, -3), "must be from 0 to 4096, got -3");
  ExpectError(TreadleModelInputInfo(model_, 5, nullptr, nullptr, nullptr, nullptr), "no tensor 5; the model has 1");
}

TEST_F(CApiMisuse, ErrorsAreTheThreadsOwn) {
  ExpectError(TreadleModelSetInput(model_, "z", tensor_), "no input");
  std::string seen = "not run";
  std::thread([&] { seen = TreadleGetLastError(); }).join();
  EXPECT_EQ(seen, "");
}

TEST_F(CApiMisuse, TensorsOfTheCallersOwnCanBeCopied) {
  ASSERT_EQ(TreadleTensorCopy(&foreign_, tensor_), 0) << TreadleGetLastError();
  std::vector<float> back(6);
  ASSERT_EQ(TreadleTensorCopyToBytes(&foreign_, back.data(), 24), 0);
  EXPECT_EQ(back, values_);
  EXPECT_EQ(TreadleTensorNumBytes(&foreign_), 24u);
  ASSERT_EQ(TreadleModelSetInput(model_, "x", &foreign_), 0) << TreadleGetLastError();
}

TEST_F(CApiMisuse, TensorsThatCantBe) {
  DLTensor broken = foreign_;
  broken.data = nullptr;
  ExpectError(TreadleModelSetInput(model_, "x", &broken), "has no data");
  ExpectError(TreadleTensorCopy(&broken, tensor_), "has no data");
  broken = foreign_;
  broken.shape = nullptr;
  ExpectError(TreadleModelSetInput(model_, "x", &broken), "without a shape");
  ExpectError(TreadleTensorCopyToBytes(&broken, values_.data(), 24), "without a shape");
  ExpectError(TreadleTensorCreate(shape_, -1, float32_, cpu_, &other_tensor_), "impossible rank");
  ExpectError(TreadleTensorCreate(shape_, 2, {kDLFloat, 0, 1}, cpu_, &other_tensor_), "0 bits");
  ExpectError(TreadleTensorCreate(shape_, 2, {kDLFloat, 32, 0}, cpu_, &other_tensor_), "0 lanes");
  ExpectError(TreadleTensorCreate(shape_, 2, {77, 32, 1}, cpu_, &other_tensor_), "code 77");
  ExpectError(TreadleTensorCreate(shape_, 2, float32_, {kDLCPU, -7}, &other_tensor_), "cpu:-7");
  TreadleValue args[1];
  args[0].v_handle = nullptr;
  int codes[1] = {kTreadleStr};
  ExpectError(TreadleFuncCall(func_, args, codes, 1, &ret_, &code_), "argument 0 (str) is null");
  codes[0] = kTreadleModule;
  args[0].v_handle = &foreign_;
  ExpectError(TreadleFuncCall(func_, args, codes, 1, &ret_, &code_), "argument 0 (module)");
}

TEST_F(CApiMisuse, FunctionsMayUseWhatTheyAreGiven) {
  TreadlePackedCFunc size = [](TreadleValue* args, int* codes, int, TreadleValue* ret, int* code, void*) {
    auto* tensor = static_cast<DLTensor*>(args[0].v_handle);
    DLManagedTensor* managed = nullptr;
    if (codes[0] != kTreadleNDArray || TreadleTensorToDLPack(tensor, &managed) != 0) return -1;
    managed->deleter(managed);
    ret->v_int64 = static_cast<int64_t>(TreadleTensorNumBytes(tensor));
    *code = kTreadleInt;
    return 0;
  };
  ASSERT_EQ(TreadleFuncCreate(size, nullptr, nullptr, &other_func_), 0);
  TreadleValue args[1];
  args[0].v_handle = tensor_;
  int codes[1] = {kTreadleNDArray};
  ASSERT_EQ(TreadleFuncCall(other_func_, args, codes, 1, &ret_, &code_), 0) << TreadleGetLastError();
  EXPECT_EQ(ret_.v_int64, 24);
  TreadleFuncFree(other_func_);
}

TEST_F(CApiMisuse, ValuesWithoutMeaning) {
  const auto refused = [&](int code, void* handle, const char* text) {
    TreadleValue arg{};
    arg.v_handle = handle;
    ExpectError(TreadleFuncCall(func_, &arg, &code, 1, &ret_, &code_), text);
  };
  refused(999, nullptr, "argument 0 has the unknown type code 999");
  refused(1, nullptr, "unknown type code 1");
  refused(-1, nullptr, "unknown type code -1");
  TreadleByteArray bytes{nullptr, 5};
  refused(kTreadleBytes, &bytes, "argument 0 (bytes) has no data");
  void* slot = values_.data();
  refused(kTreadleObjectRValue, &slot, "wasn't created by this library");
  slot = nullptr;
  refused(kTreadleObjectRValue, &slot, "argument 0 (object) is null");
  ExpectError(TreadleFuncRegisterGlobal("", func_, 0), "'name' is empty");
}

TEST_F(CApiMisuse, ResultsOfFunctionsAreChecked) {
  const auto refused = [&](TreadlePackedCFunc function, const char* text) {
    ASSERT_EQ(TreadleFuncCreate(function, nullptr, nullptr, &other_func_), 0);
    ExpectError(TreadleFuncCall(other_func_, nullptr, nullptr, 0, &ret_, &code_), text);
    TreadleFuncFree(other_func_);
  };
  TreadleBackendSetLastError("an earlier error");
  refused([](TreadleValue*, int*, int, TreadleValue*, int*, void*) { return -1; },
          "the function returned -1 without setting an error");
  refused(
      [](TreadleValue*, int*, int, TreadleValue* ret, int* code, void*) {
        ret->v_str = nullptr;
        *code = kTreadleStr;
        return 0;
      },
      "function's result (str) is null");
  refused(
      [](TreadleValue*, int*, int, TreadleValue*, int* code, void*) {
        *code = 77;
        return 0;
      },
      "function's result has the unknown type code 77");
}

TEST_F(CApiMisuse, BackendFunctions) {
  ExpectError(TreadleBackendParallelLaunch(nullptr, nullptr, 0), "'lambda' is null");
  void* found = nullptr;
  ExpectError(TreadleBackendGetFuncFromEnv(nullptr, "f", &found), "module context");
  ExpectError(TreadleBackendGetFuncFromEnv(module_, nullptr, &found), "'func_name' is null");
  ExpectError(TreadleBackendGetFuncFromEnv(module_, "f", nullptr), "'out' is null");
  ExpectError(TreadleBackendFuncCall(nullptr, nullptr, nullptr, 0, &ret_, &code_), "'func' is null");
  ExpectError(TreadleBackendFuncCall(func_, nullptr, nullptr, 0, nullptr, &code_), "'ret' is null");
  ExpectError(TreadleBackendFuncCall(func_, nullptr, nullptr, 0, &ret_, nullptr), "'ret_code' is null");
  EXPECT_EQ(TreadleBackendAllocWorkspace(77, 0, 64, kDLFloat, 32), nullptr);
  EXPECT_EQ(TreadleBackendAllocWorkspace(kDLCPU, 0, ~uint64_t{0}, kDLFloat, 32), nullptr);
  EXPECT_EQ(TreadleBackendFreeWorkspace(kDLCPU, 0, values_.data()), -1);
}

}  // namespace
}  // namespace treadle::runtime
