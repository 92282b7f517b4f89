// SPDX-License-Identifier: Apache-2.0
// From tensor expressions to native code in this process.
#include <gtest/gtest.h>

#include <cmath>

#include "driver/lower/lower_tir.h"
#include "targets/llvm/codegen.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/runtime/c_types.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/te/tensor.h"
#include "treadle/tir/schedule.h"

namespace treadle {
namespace {

using runtime::NDArray;

const DataType kF32 = DataType::Float(32);

/// Compiles one function and calls it with raw pointers.
void RunRaw(const Array<te::Tensor>& args, const std::vector<NDArray>& values) {
  Target target("llvm -mcpu=native");
  tir::PrimFunc func = te::CreatePrimFunc(args, "f");
  func = driver::LowerPrimFunc(func, target);
  auto module = targets::JitLLVM({func}, target);
  auto f = reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"));
  ASSERT_NE(f, nullptr);
  std::vector<void*> data;
  for (const NDArray& value : values) data.push_back(value.data_ptr());
  ASSERT_EQ(f(data.data(), nullptr), 0);
}

NDArray Iota(const std::vector<int64_t>& shape, float start, float step) {
  NDArray a = NDArray::Empty(shape, kF32);
  for (int64_t i = 0; i < a.size(); ++i) a.Data<float>()[i] = start + step * static_cast<float>(i);
  return a;
}

TEST(LLVMTest, AddsElementwise) {
  te::Tensor a = te::Placeholder({PrimExpr(5), PrimExpr(7)}, kF32, "A");
  te::Tensor b =
      te::Compute({PrimExpr(5), PrimExpr(7)}, [&](const Array<tir::Var>& i) { return a(i[0], i[1]) + 2.5f; }, "B");
  NDArray x = Iota({5, 7}, 1, 1), y = Iota({5, 7}, 0, 0);
  RunRaw({a, b}, {x, y});
  for (int i = 0; i < 35; ++i) EXPECT_EQ(y.Data<float>()[i], static_cast<float>(i) + 3.5f);
}

/// Copies of a body bind one variable to several values. What is known of the first one (that it isn't negative), or
/// was computed with it, is wrong for the next.
TEST(LLVMTest, EachLetOfAVariableCounts) {
  const DataType i32 = DataType::Int(32);
  const tir::Var t("t", i32), i("i", i32);
  const tir::Buffer a = tir::DeclBuffer({PrimExpr(8)}, i32, "A"), b = tir::DeclBuffer({PrimExpr(16)}, i32, "B");
  const PrimExpr third = tir::floordiv(t, PrimExpr(3)), here = tir::BufferLoad(a, {i});
  const tir::Stmt first = tir::LetStmt(t, i, tir::BufferStore(b, third, {i}));
  const PrimExpr twice = tir::Let(t, i, third) * 100 + tir::Let(t, here, third);
  const tir::Stmt second = tir::LetStmt(t, here, tir::BufferStore(b, third * 100, {i}));
  const tir::Stmt both = tir::BufferStore(b, twice, {i + 8});
  const tir::Stmt body =
      tir::For(i, PrimExpr(0), PrimExpr(8), tir::ForKind::kSerial, tir::SeqStmt(Array<tir::Stmt>{first, second, both}));
  const tir::Var pa("a", DataType::Handle()), pb("b", DataType::Handle());
  Map<tir::Var, tir::Buffer> buffers;
  buffers.Set(pa, a);
  buffers.Set(pb, b);
  tir::PrimFunc func = WithAttr(tir::PrimFunc({pa, pb}, body, Type(), buffers), attr::kGlobalSymbol, String("f"));
  NDArray x = NDArray::Empty({8}, i32), y = NDArray::Empty({16}, i32);
  for (int k = 0; k < 8; ++k) x.Data<int32_t>()[k] = -5 * k;
  Target target("llvm -mcpu=native");
  auto module = targets::JitLLVM({func}, target);
  auto f = reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"));
  std::vector<void*> data{x.data_ptr(), y.data_ptr()};
  ASSERT_EQ(f(data.data(), nullptr), 0);
  for (int k = 0; k < 8; ++k) {
    const int floor = static_cast<int>(std::floor(-5.0 * k / 3));
    EXPECT_EQ(y.Data<int32_t>()[k], floor * 100) << k;
    EXPECT_EQ(y.Data<int32_t>()[k + 8], k / 3 * 100 + floor) << k;
  }
}

TEST(LLVMTest, MultipliesMatrices) {
  const int n = 13, m = 9, k = 17;
  te::Tensor a = te::Placeholder({PrimExpr(n), PrimExpr(k)}, kF32, "A");
  te::Tensor b = te::Placeholder({PrimExpr(k), PrimExpr(m)}, kF32, "B");
  tir::IterVar r = te::ReduceAxis(tir::Range(PrimExpr(k)), "k");
  te::Tensor c = te::Compute(
      {PrimExpr(n), PrimExpr(m)},
      [&](const Array<tir::Var>& i) { return te::Sum(a(i[0], r->var) * b(r->var, i[1]), {r}); }, "C");
  NDArray x = Iota({n, k}, -3, 0.25f), y = Iota({k, m}, 2, -0.5f), z = Iota({n, m}, 7, 0);
  RunRaw({a, b, c}, {x, y, z});
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) {
      float expected = 0;
      for (int q = 0; q < k; ++q) expected += x.Data<float>()[i * k + q] * y.Data<float>()[q * m + j];
      EXPECT_NEAR(z.Data<float>()[i * m + j], expected, std::fabs(expected) * 1e-5f);
    }
  }
}

/// Largest error of a function over [low, high] in units in the last place of float32.
double WorstUlps(PrimExpr (*function)(PrimExpr), double (*reference)(double), float low, float high) {
  const int n = 20001;
  te::Tensor a = te::Placeholder({PrimExpr(n)}, kF32, "A");
  te::Tensor b = te::Compute({PrimExpr(n)}, [&](const Array<tir::Var>& i) { return function(a(i[0])); }, "B");
  NDArray x = Iota({n}, low, (high - low) / (n - 1)), y = Iota({n}, 0, 0);
  RunRaw({a, b}, {x, y});
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double expected = reference(x.Data<float>()[i]);
    const float got = y.Data<float>()[i];
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << x.Data<float>()[i];
      continue;
    }
    const auto nearest = static_cast<float>(expected);
    if (std::isinf(nearest)) {
      EXPECT_EQ(got, nearest);
      continue;
    }
    const double ulp = std::max<double>(std::nextafter(std::fabs(nearest), INFINITY) - std::fabs(nearest), 1e-45);
    const double error = std::fabs(got - expected) / ulp;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

TEST(LLVMTest, MathFunctionsAreAccurate) {
  EXPECT_LE(WorstUlps(tir::exp, std::exp, -110, 95), 2);
  EXPECT_LE(WorstUlps(tir::exp, std::exp, -1, 1), 2);
  EXPECT_LE(WorstUlps(tir::exp2, std::exp2, -155, 130), 2);
  EXPECT_LE(WorstUlps(tir::exp10, [](double x) { return std::pow(10.0, x); }, -46, 40), 2);
  EXPECT_LE(WorstUlps(tir::expm1, std::expm1, -3, 3), 2);
  EXPECT_LE(WorstUlps(tir::log, std::log, -1, 10), 2);
  EXPECT_LE(WorstUlps(tir::log, std::log, 0.9f, 1.1f), 2);
  EXPECT_LE(WorstUlps(tir::log2, std::log2, 0, 1e30f), 2);
  EXPECT_LE(WorstUlps(tir::log10, std::log10, 0, 1e-37f), 2);
  EXPECT_LE(WorstUlps(tir::log1p, std::log1p, -1, 3), 2);
  EXPECT_LE(WorstUlps(tir::tanh, std::tanh, -12, 12), 2);
  EXPECT_LE(WorstUlps(tir::tanh, std::tanh, -1, 1), 2);
  EXPECT_LE(WorstUlps(tir::erf, std::erf, -5, 5), 2);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(WorstUlps(tir::sigmoid, sigmoid, -86.5f, 90), 3);
  // Rather 0 than subnormal.
  EXPECT_LE(WorstUlps(tir::sigmoid, [](double) { return 0.0; }, -1000, -87), 0);
  EXPECT_LE(WorstUlps(tir::sin, std::sin, -1000, 1000), 2);
  EXPECT_LE(WorstUlps(tir::cos, std::cos, -1000, 1000), 2);
  EXPECT_LE(WorstUlps(tir::sin, std::sin, -3e38f, 3e38f), 2);
  EXPECT_LE(WorstUlps(tir::cos, std::cos, -1e20f, 1e20f), 2);
  EXPECT_LE(WorstUlps(tir::tan, std::tan, -10, 10), 2);
  EXPECT_LE(WorstUlps(tir::asin, std::asin, -1.5f, 1.5f), 2);
  EXPECT_LE(WorstUlps(tir::acos, std::acos, -1.5f, 1.5f), 2);
  EXPECT_LE(WorstUlps(tir::atan, std::atan, -20, 20), 2);
  EXPECT_LE(WorstUlps(tir::sinh, std::sinh, -95, 95), 2);
  EXPECT_LE(WorstUlps(tir::cosh, std::cosh, -95, 95), 2);
  EXPECT_LE(WorstUlps(tir::asinh, std::asinh, -50, 50), 2);
  EXPECT_LE(WorstUlps(tir::acosh, std::acosh, 0, 50), 2);
  EXPECT_LE(WorstUlps(tir::atanh, std::atanh, -1.5f, 1.5f), 2);
  EXPECT_LE(WorstUlps(tir::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0, 100), 2);
  EXPECT_LE(WorstUlps(tir::round, std::round, -9, 9), 0);
}

/// Lowered `B[i] = A[i] * 2 + 1` over 64 elements in a loop of vectors of 16, of a dtype.
tir::PrimFunc ScaledVectors(const Target& target, DataType dtype = kF32) {
  te::Tensor a = te::Placeholder({PrimExpr(64)}, dtype, "A");
  te::Tensor b = te::Compute(
      {PrimExpr(64)},
      [&](const Array<tir::Var>& i) { return a(i[0]) * tir::make_const(dtype, 2) + tir::make_const(dtype, 1); }, "B");
  tir::Schedule schedule(te::CreatePrimFunc({a, b}, "f"));
  const auto parts = schedule.Split(schedule.GetLoops(schedule.GetBlock("B"))[0], {PrimExpr(), PrimExpr(16)});
  schedule.Vectorize(parts[1]);
  return driver::LowerPrimFunc(schedule.func(), target);
}

targets::Artifact Generate(const std::string& target_text, bool texts = false) {
  const Target target(target_text);
  targets::CodegenOptions options;
  if (texts) options.texts = {"ll", "asm"};
  return targets::CodegenLLVM({ScaledVectors(target)}, target, options);
}

/// e_machine of an ELF object.
int MachineOf(const std::string& object) {
  return static_cast<unsigned char>(object[18]) | static_cast<unsigned char>(object[19]) << 8;
}

TEST(LLVMTest, MakesObjectsForOtherMachines) {
  const std::string object = Generate("llvm -mtriple=aarch64-linux-gnu").code;
  ASSERT_GT(object.size(), 64u);
  EXPECT_EQ(object.substr(0, 4), std::string("\x7f") + "ELF");
  EXPECT_EQ(MachineOf(object), 183);  // EM_AARCH64
  EXPECT_EQ(MachineOf(Generate("llvm -mcpu=x86-64").code), 62);
}

TEST(LLVMTest, CodeForOtherMachinesIsNotRunHere) {
  const Target target("llvm -mtriple=aarch64-linux-gnu");
#if defined(__x86_64__)
  EXPECT_THROW(targets::JitLLVM({ScaledVectors(target)}, target), TargetError);
#endif
}

TEST(LLVMTest, UsesTheRegistersOfTheCpu) {
  auto assembly = [](const char* cpu) { return Generate(std::string("llvm -mcpu=") + cpu, true).texts.at("asm"); };
  const std::string v1 = assembly("x86-64"), v2 = assembly("x86-64-v2"), v3 = assembly("x86-64-v3"),
                    v4 = assembly("x86-64-v4");
  for (const std::string& text : {v1, v2}) {
    EXPECT_NE(text.find("xmm"), std::string::npos);
    EXPECT_EQ(text.find("ymm"), std::string::npos);
  }
  EXPECT_NE(v3.find("vfmadd"), std::string::npos);
  EXPECT_NE(v3.find("ymm"), std::string::npos);
  EXPECT_EQ(v3.find("zmm"), std::string::npos);
  EXPECT_NE(v4.find("zmm"), std::string::npos);
  EXPECT_EQ(v1.find("vfmadd"), std::string::npos);
}

/// Also where instructions are selected one by one.
TEST(LLVMTest, SumsOfProductsAreMultiplyAdds) {
  for (const char* level : {"", " -opt-level=1"}) {
    const std::string text = Generate(std::string("llvm -mcpu=x86-64-v3") + level, true).texts.at("asm");
    EXPECT_NE(text.find("vfmadd"), std::string::npos) << level;
    EXPECT_EQ(text.find("vaddps"), std::string::npos) << level;
  }
}

TEST(LLVMTest, GeneratesTheSameBytesTwice) {
  const std::string first = Generate("llvm -mcpu=x86-64-v3").code;
  EXPECT_EQ(first, Generate("llvm -mcpu=x86-64-v3").code);
}

TEST(LLVMTest, DescribesFunctionsForDebuggersWhenAsked) {
  EXPECT_EQ(Generate("llvm -mcpu=x86-64-v3", true).texts.at("ll").find("DISubprogram"), std::string::npos);
  EXPECT_NE(
      Generate("llvm -mcpu=x86-64-v3 -debug-info=1", true).texts.at("ll").find("DISubprogram(name: \"f__compute\""),
      std::string::npos);
}

TEST(LLVMTest, RefusesCpusAndConventionsThatDoNotExist) {
  EXPECT_THROW(Generate("llvm -mcpu=x86-64-v9"), TargetError);
  EXPECT_THROW(Generate("llvm -mfloat-abi=warm"), TargetError);
  EXPECT_THROW(Generate("llvm -mtriple=zx80-unknown"), TargetError);
}

/// Every 16-bit pattern to float32 and back, on a machine without conversion instructions.
void ExpectRoundTrip(DataType small, const std::string& target_text) {
  const int n = 1 << 16;
  const Target target(target_text);
  te::Tensor a = te::Placeholder({PrimExpr(n)}, small, "A");
  te::Tensor wide = te::Compute({PrimExpr(n)}, [&](const Array<tir::Var>& i) { return tir::Cast(kF32, a(i[0])); }, "W");
  te::Tensor back =
      te::Compute({PrimExpr(n)}, [&](const Array<tir::Var>& i) { return tir::Cast(small, wide(i[0])); }, "S");
  auto module = targets::JitLLVM({driver::LowerPrimFunc(te::CreatePrimFunc({a, back}, "f"), target)}, target);
  NDArray x = NDArray::Empty({n}, small), y = NDArray::Empty({n}, small);
  for (int i = 0; i < n; ++i) x.Data<uint16_t>()[i] = static_cast<uint16_t>(i);
  void* data[] = {x.data_ptr(), y.data_ptr()};
  ASSERT_EQ(reinterpret_cast<targets::RawFunction>(module->GetSymbol("f__raw"))(data, nullptr), 0);
  const int exponent = small.is_float16() ? 0x7c00 : 0x7f80;
  for (int i = 0; i < n; ++i) {
    const int got = y.Data<uint16_t>()[i];
    const bool nan = (i & exponent) == exponent && (i & (exponent ^ 0x7fff)) != 0;
    if (nan) {
      EXPECT_EQ(got & exponent, exponent);
      EXPECT_NE(got & (exponent ^ 0x7fff), 0) << "NaN " << i << " became infinity";
    } else {
      EXPECT_EQ(got, i);
    }
  }
}

TEST(LLVMTest, ConvertsHalvesWithoutInstructionsForIt) {
  ExpectRoundTrip(DataType::Float(16), "llvm -mcpu=x86-64");
  ExpectRoundTrip(DataType::BFloat(16), "llvm -mcpu=x86-64");
}

}  // namespace
}  // namespace treadle
