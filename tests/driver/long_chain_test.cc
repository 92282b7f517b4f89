// SPDX-License-Identifier: Apache-2.0
// Work grows with the length of a chain, not with its square: allocations are counted, time isn't measured.
#include <atomic>
#include <cstdlib>
#include <new>

#include "passes/pass_test.h"
#include "treadle/driver/compile.h"
#include "treadle/runtime/graph_executor.h"

// ThreadSanitizer brings operators new of its own, which nothing may replace.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if !defined(__SANITIZE_THREAD__) && !__has_feature(thread_sanitizer)
#define TREADLE_COUNTS_ALLOCATIONS
#endif

namespace {

std::atomic<size_t> allocations{0};

#ifdef TREADLE_COUNTS_ALLOCATIONS
void* Allocate(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
#endif

}  // namespace

#ifdef TREADLE_COUNTS_ALLOCATIONS
void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return std::malloc(size == 0 ? 1 : size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace treadle::driver {
namespace {

enum class Chain { kFused, kLets, kAlone };

/// max(max(x, 0), 0)..: each operator a call, a let, or one that fuses with none.
std::string Text(Chain kind, int length) {
  std::string text = "fn (%x: Tensor[(4), float32]) -> Tensor[(4), float32] {\n";
  std::string last = "%x";
  for (int i = 0; i < length; ++i) {
    const std::string name = StrCat(kind == Chain::kLets ? "%v" : "%", i);
    text += StrCat(kind == Chain::kLets ? "let " : "", name, " = ", kind == Chain::kAlone ? "cumsum" : "nn.relu", "(",
                   last, kind == Chain::kAlone ? ", axis=0" : "", ");\n");
    last = name;
  }
  return text + last + "\n}";
}

CompiledModel Compile(const std::string& text) {
  CompileOptions options;
  options.opt_level = 3;
  options.threads = 1;
  options.use_cache = false;
  return Build(testing::Parse(text), {}, options);
}

size_t AllocationsOf(Chain kind, int length) {
  const std::string text = Text(kind, length);
  const size_t before = allocations;
  Compile(text);
  return allocations - before;
}

class LongChain : public ::testing::TestWithParam<Chain> {};

TEST_P(LongChain, TwiceTheLengthIsTwiceTheWork) {
#ifndef TREADLE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "allocations aren't counted here";
#endif
  Compile(Text(GetParam(), 2));  // what is done once in a process
  const size_t once = AllocationsOf(GetParam(), 2560), twice = AllocationsOf(GetParam(), 5120);
  EXPECT_LT(static_cast<double>(twice), 2.3 * static_cast<double>(once));
}

TEST_P(LongChain, EqualKernelsAreCompiledOnce) { EXPECT_EQ(Compile(Text(GetParam(), 2560)).num_kernels, 1u); }

INSTANTIATE_TEST_SUITE_P(Kinds, LongChain, ::testing::Values(Chain::kFused, Chain::kLets, Chain::kAlone));

/// More calls than the graph's function has code for: a loop makes them.
TEST(LongChain, ALoopOverManyCallsComputesThemInOrder) {
  std::string text = "fn (%x: Tensor[(2), float32]) {\n%0 = add(%x, 1f);\n";
  constexpr int kLength = 3000;
  float expected[] = {2, 3};
  for (int i = 1; i < kLength; ++i) {
    const bool halve = i % 7 == 0;
    text += StrCat("%", 2 * i - 1, " = annotation.stop_fusion(%", 2 * i - 2, ");\n%", 2 * i, " = ",
                   halve ? "multiply" : "add", "(%", 2 * i - 1, halve ? ", 0.5f);\n" : ", 1f);\n");
    for (float& value : expected) value = halve ? value * 0.5F : value + 1;
  }
  CompiledModel model = Compile(StrCat(text, "%", 2 * kLength - 2, "\n}"));
  EXPECT_EQ(model.num_kernels, 2u);
  auto graph = std::make_shared<runtime::GraphModel>(runtime::GraphSpec::FromJson(model.graph_json), model.library,
                                                     std::vector<runtime::Device>{runtime::Cpu()}, model.params);
  runtime::GraphContext context(graph);
  context.SetInput("x", runtime::NDArray::FromVector<float>({1, 2}, {2}, DataType::Float(32)));
  context.Run();
  runtime::NDArray result = context.GetOutput(0);
  EXPECT_EQ(result.Data<float>()[0], expected[0]);
  EXPECT_EQ(result.Data<float>()[1], expected[1]);
}

}  // namespace
}  // namespace treadle::driver
