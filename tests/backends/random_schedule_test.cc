// SPDX-License-Identifier: Apache-2.0
// Random schedules don't change results: every legal sequence of primitives on random programs, compiled by every
// backend, gives what the untouched function gives in the interpreter; what isn't legal is refused.
//
// TREADLE_TEST_DRAWS=10000 sets the number of draws of each test, TREADLE_TEST_SEED the first seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>

#include "backends/c/toolchain.h"
#include "backends/random_programs.h"
#include "backends/stackvm/stackvm.h"
#include "driver/build_module.h"
#include "driver/device_code.h"
#include "driver/lower_tir.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/device.h"

namespace treadle {
namespace {

using runtime::NDArray;
using testing_random::Program;
using testing_random::Random;
using testing_random::StepCounts;

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

bool Equal(const NDArray& a, const NDArray& b) {
  return std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.nbytes())) == 0;
}

/// The result of `run` on copies of the arguments.
template <typename F>
NDArray ResultOf(const Program& program, F&& run) {
  std::vector<NDArray> args;
  for (const NDArray& a : program.args) args.push_back(a.Copy());
  run(args);
  return args.back();
}

/// One program with its schedule.
struct Draw {
  unsigned seed;
  Program program;
  tir::PrimFunc scheduled;
  std::string trace;
  NDArray expected;
  std::string Describe() const { return StrCat("draw ", seed, " (", program.kind, ")\n", trace); }
};

/// Draws a program, schedules it, and checks that the scheduled function is well formed and keeps its result.
/// Failures are gtest's.
bool MakeDraw(unsigned seed, bool threads, StepCounts* counts, std::vector<Draw>* draws) {
  Random random(seed);
  Draw draw{seed, testing_random::RandomProgram(random), tir::PrimFunc(), "", NDArray()};
  tir::Schedule schedule(draw.program.func);
  const int steps = random.Between(1, 12);
  try {
    for (int k = 0; k < steps; ++k) testing_random::RandomStep(schedule, random, threads, counts);
    draw.scheduled = WithAttr(schedule.func(), attr::kGlobalSymbol, String(StrCat("f", seed)));
    draw.trace = schedule.TraceText();
    draw.expected =
        ResultOf(draw.program, [&](const std::vector<NDArray>& a) { backends::RunPrimFunc(draw.program.func, a); });
    const NDArray got =
        ResultOf(draw.program, [&](const std::vector<NDArray>& a) { backends::RunPrimFunc(draw.scheduled, a); });
    if (!Equal(got, draw.expected)) {
      ADD_FAILURE() << "the schedule changes the result: " << draw.Describe();
      return false;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n"
                  << StrCat("draw ", seed, " (", draw.program.kind, ")\n", schedule.TraceText());
    return false;
  }
  draws->push_back(std::move(draw));
  return true;
}

/// Builds all draws of a batch at once and compares what each gives.
void CheckBatch(const std::vector<Draw>& draws, const Target& target, int* refused) {
  const int device_type = driver::DeviceTypeOf(target);
  const runtime::Device device{static_cast<DLDeviceType>(device_type), 0};
  auto check = [&](const std::vector<const Draw*>& batch) {
    IRModule functions = IRModule::Empty();
    for (const Draw* draw : batch) {
      functions.CopyOnWrite()->Add(GlobalVar(StrCat("f", draw->seed)), draw->scheduled);
    }
    const runtime::Module module = driver::BuildModule(functions, target);
    for (const Draw* draw : batch) {
      const NDArray got = ResultOf(draw->program, [&](const std::vector<NDArray>& args) {
        std::vector<NDArray> there;
        for (const NDArray& a : args) there.push_back(device_type == kDLCPU ? a : a.Copy(device));
        std::vector<TreadleValue> values(args.size());
        std::vector<int> codes(args.size(), kTreadleDLTensor);
        for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = there[i].handle();
        runtime::RetValue result;
        module.GetFunction(StrCat("f", draw->seed))
            .CallPacked({values.data(), codes.data(), static_cast<int>(args.size())}, &result);
        if (device_type != kDLCPU) there.back().CopyTo(args.back());
      });
      EXPECT_TRUE(Equal(got, draw->expected)) << target.str() << " changes the result: " << draw->Describe();
    }
  };
  std::vector<const Draw*> all;
  for (const Draw& draw : draws) all.push_back(&draw);
  try {
    return check(all);
  } catch (const std::exception&) {
    // One by one, to see which.
  }
  for (const Draw* draw : all) {
    try {
      check({draw});
    } catch (const TargetError& error) {
      if (device_type == kDLCPU) ADD_FAILURE() << error.what() << "\n" << draw->Describe();
      ++*refused;  // a grid of threads that the device can't have
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << "\n" << draw->Describe();
    }
  }
}

void CheckTarget(const std::string& target_text, int otherwise, int batch, bool threads = false) {
  driver::RegisterAll();
  const Target target(target_text);
  const int count = FromEnvironment("TREADLE_TEST_DRAWS", otherwise);
  const auto first = static_cast<unsigned>(FromEnvironment("TREADLE_TEST_SEED", 1000));
  StepCounts counts;
  std::vector<Draw> draws;
  int clean = 0, refused = 0;
  for (int k = 0; k < count; ++k) {
    clean += MakeDraw(first + static_cast<unsigned>(k), threads, &counts, &draws);
    if (static_cast<int>(draws.size()) == batch || k + 1 == count) {
      CheckBatch(draws, target, &refused);
      draws.clear();
    }
  }
  std::cout << target_text << ": " << count << " draws, " << count - clean << " changed by their schedule, " << refused
            << " refused by the backend; " << counts.Summary() << "\n";
  EXPECT_GT(counts.taken, counts.refused / 4) << "too few steps are legal to tell anything";
  EXPECT_LE(refused, count / 2) << "the backend refuses too much";
}

bool HasOpenCL() {
  auto* api = runtime::DeviceAPI::Find(kDLOpenCL);
  return api != nullptr && std::get<int64_t>(api->GetAttr({kDLOpenCL, 0}, runtime::DeviceAttr::kExist)) != 0;
}

TEST(RandomScheduleTest, StackVM) { CheckTarget("stackvm", 300, 1); }
TEST(RandomScheduleTest, LLVM) { CheckTarget("llvm -mcpu=native -opt-level=1", 60, 20); }
TEST(RandomScheduleTest, C) {
  try {
    backends::FindCCompiler();
  } catch (const TargetError&) {
    GTEST_SKIP() << "no C compiler";
  }
  CheckTarget("c -opt-level=0", 40, 40);
}
TEST(RandomScheduleTest, OpenCL) {
  if (!HasOpenCL()) GTEST_SKIP() << "no OpenCL device";
  CheckTarget("opencl", 10, 10, true);
}

}  // namespace
}  // namespace treadle
