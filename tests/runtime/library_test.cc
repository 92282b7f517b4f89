// SPDX-License-Identifier: Apache-2.0
// Loading compiled libraries, good and broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/library_module.h"
#include "runtime/test_models.h"
#include "treadle/runtime/model.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DataType kF32 = DataType::Float(32);

NDArray Floats(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return NDArray::FromVector(values, shape, kF32);
}

std::vector<float> Values(const NDArray& array) {
  return std::vector<float>(array.Data<float>(), array.Data<float>() + array.size());
}

TEST(Library, PlainLibraryIsAModule) {
  Module module = Module::LoadFromFile(TREADLE_TEST_KERNELS);
  EXPECT_EQ(module.module_type(), "library");
  NDArray sum = NDArray::Empty({2}, kF32);
  module.GetFunction("test_add")(Floats({1, 2}, {2}), Floats({3, 4}, {2}), sum);
  EXPECT_EQ(Values(sum), (std::vector<float>{4, 6}));
  EXPECT_FALSE(module.GetFunction("no_such_function"));
  EXPECT_FALSE(module.GetFunction("__TreadleBackendParallelLaunch"));
}

TEST(Library, ErrorsOfCompiledCodeAreRaised) {
  Module module = Module::LoadFromFile(TREADLE_TEST_KERNELS);
  EXPECT_THAT([&] { module.GetFunction("test_fail")(); }, ThrowsMessage<RuntimeError>("index 7 is out of bounds"));
}

TEST(Library, CompiledCodeCallsTheRegistry) {
  Registry::RegisterTyped("test.env.twice", [](int64_t x) { return 2 * x; }, true);
  Module module = Module::LoadFromFile(TREADLE_TEST_KERNELS);
  EXPECT_EQ(module.GetFunction("test_env")(21).As<int>(), 42);
}

TEST(Library, LoadingTwiceSharesTheModuleWhileItLives) {
  SealedModel file;
  LoadedLibrary first = LoadLibraryFile(file.path());
  LoadedLibrary second = LoadLibraryFile(file.path());
  EXPECT_TRUE(first.library.same_as(second.library));
}

TEST(Library, ReplacedFileIsLoadedAnew) {
  SealedModel file;
  LoadedLibrary first = LoadLibraryFile(file.path());
  std::string bytes = file.Read();
  std::filesystem::remove(file.path());
  file.Write(bytes);
  LoadedLibrary second = LoadLibraryFile(file.path());
  EXPECT_FALSE(first.library.same_as(second.library));
}

TEST(Library, FunctionKeepsTheCodeLoaded) {
  PackedFunc add;
  {
    SealedModel file;
    add = LoadLibraryFile(file.path()).library.GetFunction("test_add");
  }
  NDArray sum = NDArray::Empty({1}, kF32);
  add(Floats({1}, {1}), Floats({2}, {1}), sum);
  EXPECT_EQ(Values(sum), (std::vector<float>{3}));
}

TEST(Library, MissingFileIsNamed) {
  EXPECT_THAT([] { Model::Load("/nowhere/m.so"); },
              ThrowsMessage<Error>(StrCat("can't read /nowhere/m.so: ", std::strerror(ENOENT))));
  EXPECT_THAT([] { Model::Load("/nowhere/m.so"); },
              ::testing::Throws<Error>(::testing::Property(&Error::code, ExitCode::kUsage)));
  EXPECT_THAT([] { Model::Load(::testing::TempDir()); }, ThrowsMessage<ModelFormatError>(HasSubstr("directory")));
}

TEST(Library, TextFileIsRefused) {
  TempFile file(".so");
  file.Write("this is no library, it is text");
  EXPECT_THAT([&] { Model::Load(file.path()); },
              ThrowsMessage<ModelFormatError>(AllOf(HasSubstr(file.path()), HasSubstr("not a compiled model"))));
  file.Write("");
  EXPECT_THAT([&] { Model::Load(file.path()); }, ThrowsMessage<ModelFormatError>(HasSubstr("empty")));
}

TEST(Library, PlainLibraryIsNoModel) {
  EXPECT_THAT([] { Model::Load(TREADLE_TEST_KERNELS); },
              ThrowsMessage<ModelFormatError>(HasSubstr("not a compiled model")));
}

TEST(Library, UnsealedModelIsTakenAsTruncated) {
  EXPECT_THAT([] { Model::Load(TREADLE_TEST_MODEL_GOOD); }, ThrowsMessage<ModelFormatError>(HasSubstr("seal")));
}

TEST(Library, SealsThatAreNotAtTheEndAreDamage) {
  SealedModel file;
  const std::string bytes = file.Read();
  for (const std::string& damaged :
       {bytes + "more", bytes.substr(0, bytes.size() - 60) + "x" + bytes.substr(bytes.size() - 60),
        bytes.substr(0, bytes.size() - 3)}) {
    file.Write(damaged);
    EXPECT_THAT([&] { LoadLibraryFile(file.path()); }, ThrowsMessage<ModelFormatError>(HasSubstr("seal")));
  }
}

TEST(Library, MissingCpuFeatureIsNamed) {
  SealedModel file(TREADLE_TEST_MODEL_CPU);
  EXPECT_THAT([&] { Model::Load(file.path()); },
              ThrowsMessage<TargetError>(AllOf(HasSubstr("avx9000"), HasSubstr("llvm -mcpu=test"))));
}

TEST(Library, FutureVersionIsRefused) {
  EXPECT_THAT([] { Model::Load(TREADLE_TEST_MODEL_VERSION); },
              ThrowsMessage<ModelFormatError>(HasSubstr("format version 99 isn't supported")));
}

TEST(Library, EveryTruncationIsAnErrorThatNamesTheFile) {
  SealedModel good;
  std::string bytes = good.Read();
  TempFile file(".so");
  for (size_t length = 1; length < bytes.size(); length += 211) {
    file.Write(bytes.substr(0, length));
    EXPECT_THAT([&] { Model::Load(file.path()); }, ThrowsMessage<ModelFormatError>(HasSubstr(file.path()))) << length;
  }
  file.Write(bytes.substr(0, bytes.size() - 1));
  EXPECT_THROW(Model::Load(file.path()), ModelFormatError);
}

TEST(Library, EveryChangedByteIsFoundBeforeLoading) {
  SealedModel good;
  std::string bytes = good.Read();
  TempFile file(".so");
  for (size_t i = 0; i < bytes.size(); i += 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    file.Write(changed);
    EXPECT_THROW(CheckLibraryFile(file.path()), ModelFormatError) << i;
  }
}

TEST(Artifact, ParametersAreUsedInPlace) {
  ArtifactWriter writer;
  writer.AddParams({{"a", Floats({1, 2, 3}, {3})}, {"b", Floats({4}, {})}});
  std::string blob = writer.Finish(false);
  NDArray aligned = NDArray::FromBytes(blob.data(), {static_cast<int64_t>(blob.size())}, DataType::UInt(8));
  ArtifactReader reader({aligned.Data<char>(), blob.size()}, "test");
  ParamList params = reader.Params(nullptr);
  ASSERT_EQ(params.size(), 2u);
  EXPECT_EQ(Values(params[0].second), (std::vector<float>{1, 2, 3}));
  EXPECT_GE(params[0].second.Data<char>(), aligned.Data<char>());
  EXPECT_LT(params[0].second.Data<char>(), aligned.Data<char>() + blob.size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(params[1].second.data_ptr()) % kTensorAlignment, 0u);
  EXPECT_TRUE(params[1].second.read_only());
  reader.VerifyAll();
}

TEST(Artifact, EveryTruncationAndChangeIsFound) {
  ArtifactWriter writer;
  writer.AddSection("manifest", "{}");
  writer.AddParams({{"a", Floats({1, 2, 3}, {3})}});
  std::string blob = writer.Finish();
  for (size_t length = 0; length < blob.size(); ++length) {
    EXPECT_THROW(ArtifactReader(std::string_view(blob).substr(0, length), "t"), ModelFormatError) << length;
  }
  // Bytes between sections and reserved ones aren't covered.
  ArtifactReader good(blob, "t");
  for (size_t i = 0; i < blob.size(); ++i) {
    std::string changed = blob;
    changed[i] = static_cast<char>(changed[i] ^ 0x20);
    try {
      ArtifactReader reader(changed, "t");
      EXPECT_EQ(reader.Section("manifest"), "{}");
      EXPECT_EQ(Values(reader.Params(nullptr)[0].second.Copy()), (std::vector<float>{1, 2, 3}));
    } catch (const ModelFormatError&) {
    }
  }
}

TEST(Artifact, SamplesOfWeightsAreCheckedWhenLoadingAllOnRequest) {
  ArtifactWriter writer;
  writer.AddParams({{"a", NDArray::FromVector(std::vector<float>(10000, 1.0f), {10000}, kF32)}});
  std::string blob = writer.Finish();
  size_t data = blob.size() - 40000;
  std::string sampled = blob, elsewhere = blob;
  sampled[data + 100] ^= 1;
  elsewhere[data + 20000] ^= 1;
  EXPECT_THROW(ArtifactReader(sampled, "t"), ModelFormatError);
  EXPECT_THAT([&] { ArtifactReader(elsewhere, "t").VerifyAll(); },
              ThrowsMessage<ModelFormatError>(HasSubstr("checksum of section \"params\" is wrong")));
}

/// Weights are hashed piece by piece as they are written, and as a whole when they are read.
TEST(Artifact, PiecesHaveTheHashesOfTheWhole) {
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{0},
                                                                             {1, 4095},
                                                                             {4096},
                                                                             {4097, 0, 3},
                                                                             {1 << 20, 5},
                                                                             {(1 << 20) + 100, 1000, 300000, 1},
                                                                             {700001, 700001, 900000}}) {
    ArtifactWriter writer;
    ParamList params;
    for (int64_t size : sizes) {
      std::vector<float> values(size);
      for (int64_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 1021);
      params.emplace_back(StrCat("p", params.size()), NDArray::FromVector(values, {size}, kF32));
    }
    writer.AddParams(params);
    const std::string blob = writer.Finish();
    ArtifactReader reader(blob, "t");
    reader.VerifyAll();
    EXPECT_EQ(reader.Require("params").size() % kTensorAlignment, 4 * sizes.back() % kTensorAlignment);
  }
}

TEST(Params, FileFormatIsChecked) {
  ParamList params = {{"a", Floats({1, 2}, {2})}, {"b", Floats({}, {0})}};
  std::string bytes = SaveParams(params);
  ParamList back = LoadParams(bytes);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].first, "a");
  EXPECT_EQ(Values(back[0].second), (std::vector<float>{1, 2}));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(LoadParams(std::string_view(bytes).substr(0, length)), ModelFormatError);
  }
  EXPECT_THAT([&] { LoadParams(bytes + "x", "p.params"); },
              ThrowsMessage<ModelFormatError>(HasSubstr("p.params: 1 unexpected bytes")));
  EXPECT_THROW(LoadParams(SaveParams({{"a", back[0].second}, {"a", back[0].second}})), ModelFormatError);
}

TEST(Manifest, RoundTrips) {
  Manifest manifest;
  manifest.name = "m \"quoted\"";
  manifest.cpu_features = {"avx2", "fma"};
  manifest.inputs = {{"x", {1, -1}, {"", "width"}, kF32, ""}};
  Manifest back = Manifest::FromJson(manifest.ToJson(), "m");
  EXPECT_EQ(back.ToJson(), manifest.ToJson());
  EXPECT_EQ(back.inputs[0].str(), "float32 (1, width)");
  EXPECT_THROW(Manifest::FromJson("{}", "m"), ModelFormatError);
}

}  // namespace
}  // namespace treadle::runtime
