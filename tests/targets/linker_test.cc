// SPDX-License-Identifier: Apache-2.0
#include "targets/linker.h"

#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

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

void Link(const std::string& object, const std::optional<EmbeddedData>& data, const std::string& path,
          const Target& target) {
  runtime::OutputFile output(path, runtime::FileKind::kLibrary);
  LinkSharedLibrary({object}, data, &output, GetLinkOptions(target));
  output.Commit();
}

TEST(LinkerTest, LibraryRunsAndCarriesData) {
  const Target target("llvm -mcpu=native");
  te::Tensor a = Input();
  const std::string object = ObjectOf([&](const Array<tir::Var>& i) { return tir::exp(a(i[0])); }, a, target);
  const std::string path = TempPath("linker_test.so");
  Link(object, EmbeddedData{kBlobSymbol, {"hello ", "world"}, 64}, path, target);
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

/// Data between code and its constants would put them out of reach of each other: 2 GiB of weights didn't link.
TEST(LinkerTest, DataIsTheLastSegment) {
  const Target target("llvm -mcpu=native");
  te::Tensor a = Input();
  const std::string object = ObjectOf([&](const Array<tir::Var>& i) { return tir::exp(a(i[0])); }, a, target);
  const std::string path = TempPath("linker_last.so");
  Link(object, EmbeddedData{kBlobSymbol, {std::string_view("0123456789")}, 4096}, path, target);
  const std::string bytes = runtime::ReadFile(path);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  EXPECT_EQ(header.e_shoff % 8, 0u);
  Elf64_Phdr last{};
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes.data() + header.e_phoff + i * sizeof(segment), sizeof(segment));
    if (segment.p_type == PT_LOAD && segment.p_vaddr > last.p_vaddr) last = segment;
  }
  EXPECT_EQ(bytes.substr(last.p_offset, last.p_filesz), "0123456789");
  EXPECT_EQ(last.p_flags, static_cast<uint32_t>(PF_R));
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
    Link(object, std::nullopt, path, target);
    FAIL() << "linked";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not_there_at_all"), std::string::npos) << error.what();
  }
  EXPECT_EQ(std::fopen(path.c_str(), "rb"), nullptr);
}

/// Once a SIGBUS: the linker wrote to a mapped file.
TEST(LinkerTest, FullDisksAreErrors) {
  const Target target("llvm -mcpu=native");
  te::Tensor a = Input();
  const std::string object = ObjectOf([&](const Array<tir::Var>& i) { return tir::exp(a(i[0])); }, a, target);
  const std::string blob(200000, 'x');
  const std::string path = TempPath("linker_full.so");
  Link(object, EmbeddedData{kBlobSymbol, {blob}, 4096}, path, target);
  const uintmax_t whole = std::filesystem::file_size(path);
  std::remove(path.c_str());
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{whole - 100, old.rlim_max};  // enough for the inputs, not for the result
  auto* handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    Link(object, EmbeddedData{kBlobSymbol, {blob}, 4096}, path, target);
  } catch (const RuntimeError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("can't write"), std::string::npos) << message;
  EXPECT_EQ(std::fopen(path.c_str(), "rb"), nullptr);
  Link(object, EmbeddedData{kBlobSymbol, {blob}, 4096}, path, target);  // the linker is usable still
  std::remove(path.c_str());
}

TEST(LinkerTest, LinksForAnotherMachine) {
  const Target target("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic");
  te::Tensor a = Input();
  const std::string object =
      ObjectOf([&](const Array<tir::Var>& i) { return tir::tanh(a(i[0])) + tir::sqrt(a(i[0])); }, a, target);
  const std::string path = TempPath("linker_aarch64.so");
  Link(object, {{kBlobSymbol, {"x"}, 64}}, path, target);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  unsigned char header[20] = {};
  EXPECT_EQ(std::fread(header, 1, sizeof(header), file), sizeof(header));
  std::fclose(file);
  EXPECT_EQ(header[18], 183);  // EM_AARCH64
  std::remove(path.c_str());
}

TEST(TargetTest, OptionsAreInRange) {
  for (const char* option : {"-num-cores=0", "-num-cores=-1", "-num-cores=4294967296", "-num-cores=9223372036854775807",
                             "-vector-width=-1", "-vector-width=0", "-vector-width=96", "-vector-width=1000000000000",
                             "-opt-level=4", "-mattr=avx2", "-mattr=+", "-mattr=+avx2,+a b"}) {
    EXPECT_THROW(Target(StrCat("llvm ", option)), TargetError) << option;
  }
  EXPECT_THROW(Target("opencl -max_num_threads=0"), TargetError);
  EXPECT_THROW(ResolveLLVMTarget(Target("llvm -mattr=+foo")), TargetError);
  EXPECT_THROW(ResolveLLVMTarget(Target("llvm -mtriple=aarch64-unknown-linux-gnu -mattr=+avx2")), TargetError);
  EXPECT_NO_THROW(ResolveLLVMTarget(Target("llvm -num-cores=1 -vector-width=256 -mattr=+avx2,-fma")));
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
