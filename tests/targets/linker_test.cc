// SPDX-License-Identifier: Apache-2.0
#include "targets/linker.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "driver/lower/lower_tir.h"
#include "targets/llvm/codegen.h"
#include "treadle/base/error.h"
#include "treadle/ir/prim_ops.h"
#include "treadle/te/tensor.h"

namespace treadle::targets {
namespace {

/// f(A[8]) -> B[8]
std::string ObjectOf(const te::FCompute& body, const te::Tensor& a, const Target& target) {
  te::Tensor b = te::Compute({PrimExpr(8)}, body, "B");
  tir::PrimFunc func = driver::LowerPrimFunc(te::CreatePrimFunc({a, b}, "f"), target);
  return CodegenLLVM({func}, target).code;
}

te::Tensor Input() { return te::Placeholder({PrimExpr(8)}, DataType::Float(32), "A"); }

std::string TempPath(const char* name) { return std::string(::testing::TempDir()) + name; }

TEST(LinkerTest, LibraryRunsAndCarriesData) {
  const Target target("llvm -mcpu=native");
  te::Tensor a = Input();
  const std::string object = ObjectOf([&](const Array<tir::Var>& i) { return tir::exp(a(i[0])); }, a, target);
  const std::string path = TempPath("linker_test.so");
  LinkSharedLibrary({object}, {{kBlobSymbol, {"hello ", "world"}, 64}}, path, GetLinkOptions(target));
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto* blob = static_cast<const char*>(dlsym(library, kBlobSymbol));
  const auto* size = static_cast<const uint64_t*>(dlsym(library, "__treadle_blob_size"));
  ASSERT_TRUE(blob != nullptr && size != nullptr);
  EXPECT_EQ(std::string(blob, *size), "hello world");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(blob) % 64, 0u);
  auto raw = reinterpret_cast<RawFunction>(dlsym(library, "f__raw"));
  ASSERT_NE(raw, nullptr);
  float x[8] = {0, 0, 0, 0, 0, 0, 0, 0}, y[8];
  void* data[] = {x, y};
  EXPECT_EQ(raw(data, nullptr), 0);
  EXPECT_EQ(y[7], 1.0f);
  dlclose(library);
  std::remove(path.c_str());
}

TEST(LinkerTest, NamesUndefinedSymbols) {
  const Target target("llvm -mcpu=native");
  te::Tensor a = Input();
  const std::string object = ObjectOf(
      [&](const Array<tir::Var>& i) { return tir::CallPureExtern(DataType::Float(32), "not_there_at_all", {a(i[0])}); },
      a, target);
  const std::string path = TempPath("linker_undefined.so");
  try {
    LinkSharedLibrary({object}, {}, path, GetLinkOptions(target));
    FAIL() << "linked";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not_there_at_all"), std::string::npos) << error.what();
  }
  EXPECT_EQ(std::fopen(path.c_str(), "rb"), nullptr);
}

TEST(LinkerTest, LinksForAnotherMachine) {
  const Target target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic");
  te::Tensor a = Input();
  const std::string object =
      ObjectOf([&](const Array<tir::Var>& i) { return tir::tanh(a(i[0])) + tir::sqrt(a(i[0])); }, a, target);
  const std::string path = TempPath("linker_aarch64.so");
  LinkSharedLibrary({object}, {{kBlobSymbol, {"x"}, 64}}, path, GetLinkOptions(target));
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  unsigned char header[20] = {};
  EXPECT_EQ(std::fread(header, 1, sizeof(header), file), sizeof(header));
  std::fclose(file);
  EXPECT_EQ(header[18], 183);  // EM_AARCH64
  std::remove(path.c_str());
}

TEST(TargetTest, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Target("lvm"), TargetError);
  EXPECT_THROW(Target("llvm -mcup=native"), TargetError);
  EXPECT_THROW(ResolveLLVMTarget(Target("llvm -mcpu=native -mtriple=aarch64-unknown-linux-gnu")), TargetError);
  te::Tensor a = Input();
  EXPECT_THROW(ObjectOf([&](const Array<tir::Var>& i) { return a(i[0]); }, a, Target("llvm -mcpu=pentium99")),
               TargetError);
}

TEST(TargetTest, TextIsCanonical) {
  const Target a("llvm -mcpu=haswell -mattr=+avx2"), b("llvm  -mattr=+avx2 -mcpu=haswell");
  EXPECT_EQ(a.str(), b.str());
  EXPECT_EQ(Target(a.str()).str(), a.str());
  EXPECT_EQ(a->Features().vector_bits, 256);
  EXPECT_TRUE(a->Features().fma);
}

TEST(TargetTest, ModelsOfProcessorsGoByName) {
  const TargetFeatures zen5 = Target("llvm -mcpu=znver5")->Features();
  EXPECT_EQ(zen5.vector_bits, 512);
  EXPECT_EQ(zen5.vector_registers, 32);
  EXPECT_EQ(zen5.l1_bytes, 48 << 10);
  EXPECT_EQ(zen5.l2_bytes, 1 << 20);
  EXPECT_TRUE(zen5.vnni);
  EXPECT_EQ(Target("llvm -mcpu=skylake_avx512")->Features().vector_bits, 512);
  EXPECT_EQ(Target("llvm -mcpu=raptorlake")->Features().vector_bits, 256);
}

TEST(TargetTest, CachesOfThisMachineArePlausible) {
  const TargetFeatures host = Target("llvm -mcpu=native")->Features();
  EXPECT_GE(host.l1_bytes, 16 << 10);
  EXPECT_GE(host.l2_bytes, 128 << 10);
  EXPECT_LE(host.l1_bytes, host.l2_bytes);
}

}  // namespace
}  // namespace treadle::targets
