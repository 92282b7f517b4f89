// SPDX-License-Identifier: Apache-2.0
// Random schedules don't change results: every legal sequence of primitives on random programs, compiled by every
// backend, gives what the untouched function gives in the interpreter; what isn't legal is refused.
//
// TREADLE_TEST_DRAWS=10000 sets the number of draws of each test, TREADLE_TEST_SEED the first seed; TREADLE_TEST_SHOW
// prints a draw and its code before it runs, TREADLE_TEST_TARGET replaces the test's target.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>

#include "driver/lower/device_code.h"
#include "driver/lower/lower_tir.h"
#include "targets/random_programs.h"
#include "targets/stackvm/stackvm.h"
#include "treadle/driver/build_module.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/structural.h"
#include "treadle/runtime/device.h"
#include "treadle/targets/c_toolchain.h"
#include "treadle/tir/text.h"
#include "treadle/tir/verify.h"

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

/// The arguments after `run` on copies of them.
template <typename F>
std::vector<NDArray> ResultOf(const Program& program, F&& run) {
  std::vector<NDArray> args;
  for (const NDArray& a : program.args) args.push_back(a.Copy());
  run(args);
  return args;
}

bool AllEqual(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Equal(a[i], b[i])) return false;
  }
  return true;
}

/// One program with its schedule.
struct Draw {
  unsigned seed;
  Program program;
  tir::PrimFunc scheduled;
  std::string trace;
  std::vector<NDArray> expected;
  std::string Describe() const { return StrCat("draw ", seed, " (", program.kind, ")\n", trace); }
};

enum class Front { kTir, kTe };

/// A printed function reads back as it was.
void CheckText(const tir::PrimFunc& func, const std::string& what) {
  const std::string text = tir::AsText(func);
  std::string why = "it is another function";
  try {
    if (StructuralEqual(tir::ParsePrimFunc(text), func)) return;
  } catch (const Error& error) {
    why = error.what();
  }
  throw InternalError(StrCat(what, " doesn't read back as it was printed: ", why, "\n", text));
}

/// Draws steps for the program. `trace` is set on errors too. False: the steps don't go together, and were refused.
bool DrawSchedule(Front front, Random& random, bool threads, StepCounts* counts, Draw* draw) {
  const int steps = random.Between(1, front == Front::kTir ? 12 : 7);
  if (front == Front::kTir) {
    tir::Schedule schedule(draw->program.func);
    for (int k = 0; k < steps; ++k) {
      testing_random::RandomStep(schedule, random, threads, counts);
      draw->trace = schedule.TraceText();
    }
    draw->scheduled = schedule.func();
    tir::Schedule again(draw->program.func);
    again.Replay(schedule.TraceJson());
    TREADLE_ICHECK(StructuralEqual(again.func(), draw->scheduled)) << "the replayed trace gives something else";
    return true;
  }
  Array<te::Operation> outputs;
  for (size_t i = draw->program.params.size() - draw->program.outputs; i < draw->program.params.size(); ++i) {
    outputs.push_back(draw->program.params[i]->op);
  }
  te::TeSchedule schedule = te::CreateSchedule(outputs);
  for (int k = 0; k < steps; ++k) testing_random::RandomStageStep(schedule, random, threads, counts);
  auto& [taken, refused] = counts->by_primitive["te.apply"];
  try {
    draw->scheduled = schedule.Apply(draw->program.params);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    if (std::getenv("TREADLE_TEST_MESSAGES") != nullptr) std::cout << error.what() << "\n";
    ++refused;
    return false;
  }
  ++taken;
  return true;
}

/// Draws a program, schedules it, and checks that the scheduled function is well formed and keeps its result.
/// Failures are gtest's.
bool MakeDraw(unsigned seed, Front front, bool threads, StepCounts* counts, std::vector<Draw>* draws) {
  Random random(seed);
  Draw draw{seed, testing_random::RandomProgram(random), tir::PrimFunc(), "", {}};
  try {
    if (!DrawSchedule(front, random, threads, counts, &draw)) return true;
    draw.scheduled = WithAttr(draw.scheduled, attr::kGlobalSymbol, String(StrCat("f", seed)));
    CheckText(draw.scheduled, "the scheduled function");
    driver::LowerOptions options;
    options.after_pass = [](const std::string& pass, const tir::PrimFunc& f) { tir::VerifyWellFormed(f, pass); };
    options.bounds_check = random.Chance(8);
    options.disable_vectorize = random.Chance(8);
    options.simple_mode = random.Chance(16);
    if (random.Chance(8)) options.unroll_max_step = random.Between(1, 64);
    const tir::PrimFunc lowered = driver::LowerPrimFunc(draw.scheduled, Target("stackvm"), options);
    CheckText(lowered, "the lowered function");
    draw.expected =
        ResultOf(draw.program, [&](const std::vector<NDArray>& a) { targets::RunPrimFunc(draw.program.func, a); });
    const auto got =
        ResultOf(draw.program, [&](const std::vector<NDArray>& a) { targets::RunPrimFunc(draw.scheduled, a); });
    if (!AllEqual(got, draw.expected)) {
      ADD_FAILURE() << "the schedule changes the result: " << draw.Describe() << tir::AsText(draw.scheduled);
      return false;
    }
    const auto after = ResultOf(draw.program, [&](const std::vector<NDArray>& a) { targets::RunPrimFunc(lowered, a); });
    if (!AllEqual(after, draw.expected)) {
      ADD_FAILURE() << "lowering changes the result: " << draw.Describe() << tir::AsText(draw.scheduled)
                    << tir::AsText(lowered);
      return false;
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << draw.Describe();
    return false;
  }
  draws->push_back(std::move(draw));
  return true;
}

/// The lowering pass after which the result differs, with what it made of the function; "" if none.
std::string GuiltyPass(const Draw& draw, const Target& target) {
  std::string guilty, before;
  driver::LowerOptions options;
  options.after_pass = [&](const std::string& pass, const tir::PrimFunc& f) {
    if (!guilty.empty()) return;
    const auto got = ResultOf(draw.program, [&](const std::vector<NDArray>& a) { targets::RunPrimFunc(f, a); });
    if (!AllEqual(got, draw.expected)) {
      guilty = StrCat("the result differs after ", pass, ": ", tir::AsText(f), "before: ", before);
    }
    before = tir::AsText(f);
  };
  try {
    driver::LowerPrimFunc(draw.scheduled, target, options);
  } catch (const std::exception& error) {
    return StrCat(error.what(), "\n", before);
  }
  return guilty;
}

/// Builds all draws of a batch at once and compares what each gives.
void CheckBatch(const std::vector<Draw>& draws, const Target& target, int* refused) {
  const int device_type = targets::GetTargetSpec(target).device_type;
  const runtime::Device device{static_cast<DLDeviceType>(device_type), 0};
  auto check = [&](const std::vector<const Draw*>& batch) {
    IRModule functions = IRModule::Empty();
    for (const Draw* draw : batch) {
      functions.CopyOnWrite()->Add(GlobalVar(StrCat("f", draw->seed)), draw->scheduled);
    }
    const bool show = std::getenv("TREADLE_TEST_SHOW") != nullptr;
    if (show) std::cout << batch[0]->Describe() << tir::AsText(batch[0]->scheduled) << std::flush;
    const runtime::Module module = driver::BuildModule(functions, target);
    if (show && !module->imports().empty()) std::cout << module->imports()[0]->GetSource("") << std::flush;
    for (const Draw* draw : batch) {
      const auto got = ResultOf(draw->program, [&](const std::vector<NDArray>& args) {
        std::vector<NDArray> there;
        for (const NDArray& a : args) there.push_back(device_type == kDLCPU ? a : a.Copy(device));
        std::vector<TreadleValue> values(args.size());
        std::vector<int> codes(args.size(), kTreadleDLTensor);
        for (size_t i = 0; i < args.size(); ++i) values[i].v_handle = there[i].handle();
        runtime::RetValue result;
        module.GetFunction(StrCat("f", draw->seed))
            .CallPacked({values.data(), codes.data(), static_cast<int>(args.size())}, &result);
        for (size_t i = 0; device_type != kDLCPU && i < args.size(); ++i) there[i].CopyTo(args[i]);
      });
      EXPECT_TRUE(AllEqual(got, draw->expected))
          << target.str() << " changes the result: " << draw->Describe() << GuiltyPass(*draw, target);
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

void CheckTarget(const std::string& target_text, Front front, int otherwise, int batch, bool threads = false) {
  driver::RegisterAll();
  const char* instead = std::getenv("TREADLE_TEST_TARGET");
  const Target target(instead != nullptr ? instead : target_text);
  const int count = FromEnvironment("TREADLE_TEST_DRAWS", otherwise);
  const auto first = static_cast<unsigned>(FromEnvironment("TREADLE_TEST_SEED", 1000));
  StepCounts counts;
  std::vector<Draw> draws;
  int clean = 0, refused = 0;
  for (int k = 0; k < count; ++k) {
    clean += MakeDraw(first + static_cast<unsigned>(k), front, threads, &counts, &draws);
    if (static_cast<int>(draws.size()) == batch || (k + 1 == count && !draws.empty())) {
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

TEST(RandomScheduleTest, StackVM) { CheckTarget("stackvm", Front::kTir, 300, 1); }
TEST(RandomScheduleTest, StagesStackVM) { CheckTarget("stackvm", Front::kTe, 300, 1); }
TEST(RandomScheduleTest, LLVM) { CheckTarget("llvm -mcpu=native -opt-level=1", Front::kTir, 60, 20); }
TEST(RandomScheduleTest, StagesLLVM) { CheckTarget("llvm -mcpu=native -opt-level=1", Front::kTe, 60, 20); }
bool HasCCompiler() {
  try {
    targets::FindCCompiler();
    return true;
  } catch (const TargetError&) {
    return false;
  }
}

TEST(RandomScheduleTest, C) {
  if (!HasCCompiler()) GTEST_SKIP() << "no C compiler";
  CheckTarget("c -opt-level=0", Front::kTir, 40, 40);
}
TEST(RandomScheduleTest, StagesC) {
  if (!HasCCompiler()) GTEST_SKIP() << "no C compiler";
  CheckTarget("c -opt-level=0", Front::kTe, 40, 40);
}
TEST(RandomScheduleTest, OpenCL) {
  if (!HasOpenCL()) GTEST_SKIP() << "no OpenCL device";
  CheckTarget("opencl", Front::kTir, 10, 10, true);
}
TEST(RandomScheduleTest, StagesOpenCL) {
  if (!HasOpenCL()) GTEST_SKIP() << "no OpenCL device";
  CheckTarget("opencl", Front::kTe, 10, 10, true);
}

}  // namespace
}  // namespace treadle
