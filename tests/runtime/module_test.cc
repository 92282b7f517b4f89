// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "treadle/runtime/metadata_module.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A module whose only function returns its name.
class NamedModule final : public ModuleNode {
 public:
  NamedModule(std::string name, bool exportable) : name_(std::move(name)), exportable_(exportable) {}
  std::string module_type() const override { return "test_named"; }
  PackedFunc GetFunction(const std::string& name) const override {
    if (name != name_) return nullptr;
    return PackedFunc::FromTyped([self = GetRef<Module>(this), name] { return name; });
  }
  void SaveToBinary(ByteWriter* writer) const override { writer->WriteString(name_); }
  bool IsDSOExportable() const override { return exportable_; }

 private:
  std::string name_;
  bool exportable_;
};

Module Make(const std::string& name, bool exportable = false) {
  return Module(ObjectPtr<Object>(NewObject<NamedModule>(name, exportable)));
}

class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Registry::RegisterTyped(
        "runtime.module.loadbinary_test_named",
        [](std::string bytes) {
          ByteReader reader(bytes, "test");
          return Make(std::string(reader.ReadString()));
        },
        true);
  }
};

TEST_F(ModuleTest, FindsFunctionsInImports) {
  Module a = Make("a"), b = Make("b"), c = Make("c");
  a.Import(b);
  b.Import(c);
  EXPECT_FALSE(a.GetFunction("c"));
  EXPECT_EQ(a.GetFunction("c", true)().As<std::string>(), "c");
  EXPECT_FALSE(a.GetFunction("d", true));
}

TEST_F(ModuleTest, RefusesCycles) {
  Module a = Make("a"), b = Make("b");
  a.Import(b);
  EXPECT_THAT([&] { b.Import(a); }, ThrowsMessage<Error>(HasSubstr("cycle")));
  EXPECT_THROW(a.Import(a), Error);
}

TEST_F(ModuleTest, EnvironmentIsImportsThenRegistry) {
  Module a = Make("a");
  a.Import(Make("b"));
  EXPECT_EQ(a->GetFuncFromEnv("b")().As<std::string>(), "b");
  EXPECT_TRUE(a->GetFuncFromEnv("runtime.ModuleImport"));
  EXPECT_THROW(a->GetFuncFromEnv("nowhere"), RuntimeError);
}

TEST_F(ModuleTest, ImportTreeRoundTrips) {
  Module root = Make("root"), library = Make("library", true), second = Make("library2", true), leaf = Make("leaf");
  root.Import(library);
  library.Import(second);
  root.Import(leaf);
  second.Import(leaf);
  ByteWriter writer;
  SaveImports(root, &writer);
  ByteReader reader(writer.bytes(), "tree");
  Module loaded_library = Make("loaded library");
  Module loaded = LoadImports(&reader, loaded_library);
  reader.ExpectEnd();
  ASSERT_TRUE(loaded.GetFunction("root"));
  ASSERT_EQ(loaded.imports().size(), 2u);
  EXPECT_TRUE(loaded.imports()[0].same_as(loaded_library));
  EXPECT_TRUE(loaded.imports()[1].GetFunction("leaf"));
  EXPECT_TRUE(loaded_library.imports()[0].same_as(loaded.imports()[1]));
}

TEST_F(ModuleTest, MergingThatMakesACycleIsRefused) {
  Module first = Make("first", true), between = Make("between"), second = Make("second", true);
  first.Import(between);
  between.Import(second);
  ByteWriter writer;
  EXPECT_THAT([&] { SaveImports(first, &writer); }, ThrowsMessage<Error>(HasSubstr("cycle")));
}

TEST_F(ModuleTest, BrokenImportTreesAreRefused) {
  Module root = Make("root");
  root.Import(Make("leaf"));
  ByteWriter writer;
  SaveImports(root, &writer);
  for (size_t length = 0; length < writer.size(); ++length) {
    ByteReader reader(std::string_view(writer.bytes()).substr(0, length), "tree");
    EXPECT_THROW(LoadImports(&reader, Module()), ModelFormatError) << length;
  }
  for (size_t i = 0; i < writer.size(); ++i) {
    std::string bytes = writer.bytes();
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    ByteReader reader(bytes, "tree");
    try {
      LoadImports(&reader, Module());
    } catch (const ModelFormatError&) {
    }
  }
}

TEST_F(ModuleTest, DeepImportChainsNeedNoStack) {
  Module root = Make("0");
  for (int i = 1; i < 3000; ++i) {
    Module parent = Make(std::to_string(i));
    parent.Import(root);
    root = parent;
  }
  EXPECT_TRUE(root.GetFunction("0", true));
}

/// An external module: "f" returns the sum of the constants that it was initialised with, and of how often.
class ExternalModule final : public ModuleNode {
 public:
  std::string module_type() const override { return "test_external"; }
  PackedFunc GetFunction(const std::string& name) const override {
    Module self = GetRef<Module>(this);
    if (name == "f") return PackedFunc::FromTyped([this, self] { return sum_; });
    if (name != "__init_f") return nullptr;
    return PackedFunc::FromTyped([this, self](Array<NDArray> constants) {
      for (const NDArray& constant : constants) sum_ += constant.Data<float>()[0];
      return 0;
    });
  }
  void SaveToBinary(ByteWriter*) const override {}

 private:
  mutable double sum_ = 0;
};

TEST_F(ModuleTest, MetadataModuleInitialisesOnce) {
  Registry::RegisterTyped(
      "runtime.module.loadbinary_test_external",
      [](std::string) { return Module(ObjectPtr<Object>(NewObject<ExternalModule>())); }, true);
  NDArray one = NDArray::FromVector<float>({1}, {1}, DataType::Float(32));
  NDArray two = NDArray::FromVector<float>({2}, {1}, DataType::Float(32));
  ParamList constants = {{"one", one}, {"two", two}};
  Module external(ObjectPtr<Object>(NewObject<ExternalModule>()));
  Module module = MakeMetadataModule(constants, {{"f", {"one", "two"}}}, Make("host"), {external});
  EXPECT_EQ(module.GetFunction("f", true)().As<double>(), 3);
  EXPECT_EQ(module.GetFunction("f", true)().As<double>(), 3);
  EXPECT_TRUE(module.GetFunction("host", true));
  ByteWriter writer;
  SaveImports(module, &writer);
  ByteReader reader(writer.bytes(), "t");
  EXPECT_EQ(LoadImports(&reader, Module()).GetFunction("f", true)().As<double>(), 3);
  EXPECT_THAT([&] { MakeMetadataModule({}, {{"f", {"one"}}}, Module(), {external}); },
              ThrowsMessage<Error>(HasSubstr("wants constant \"one\"")));
  EXPECT_THAT([&] { MakeMetadataModule(constants, {{"f", {"one"}}}, Module(), {external, external}); },
              ThrowsMessage<Error>(HasSubstr("several external modules")));
}

/// A module whose initialisation asks the metadata module itself for functions.
class AskingModule final : public ModuleNode {
 public:
  std::string module_type() const override { return "test_asking"; }
  PackedFunc GetFunction(const std::string& name) const override {
    if (name == "__init_f") {
      return PackedFunc::FromTyped([this](Array<NDArray>) { asked = host.GetFunction("f", true)().As<int>(); });
    }
    if (name != "f") return nullptr;
    return PackedFunc::FromTyped([self = GetRef<Module>(this)] { return 7; });
  }
  mutable Module host{ObjectPtr<Object>()};
  mutable int asked = 0;
};

/// Once a deadlock.
TEST_F(ModuleTest, InitialisationMayAskForFunctions) {
  AskingModule* asking = NewObject<AskingModule>();
  Module external{ObjectPtr<Object>(asking)};
  Module module = MakeMetadataModule({}, {{"f", {}}}, Module(), {external});
  asking->host = module;
  EXPECT_EQ(module.GetFunction("f")().As<int>(), 7);
  EXPECT_EQ(asking->asked, 7);
  asking->host = Module(ObjectPtr<Object>());  // no circle
}

TEST_F(ModuleTest, OwnersOfFunctionsMayLieDeep) {
  Registry::RegisterTyped(
      "runtime.module.loadbinary_test_external",
      [](std::string) { return Module(ObjectPtr<Object>(NewObject<ExternalModule>())); }, true);
  Module external(ObjectPtr<Object>(NewObject<ExternalModule>()));
  Module middle = Make("middle"), outer = Make("outer");
  middle.Import(external);
  outer.Import(middle);
  Module top = Make("top");
  top.Import(outer);
  NDArray one = NDArray::FromVector<float>({1}, {1}, DataType::Float(32));
  Module module = MakeMetadataModule({{"one", one}, {"two", one}}, {{"f", {"one", "two"}}}, top, {});
  EXPECT_EQ(module.GetFunction("f")().As<double>(), 2);
}

TEST_F(ModuleTest, UnknownFormatsListTheKnownOnes) {
  EXPECT_THAT([] { Module::LoadFromFile("m.unknown_format"); },
              ThrowsMessage<Error>(HasSubstr("there are loaders for")));
  EXPECT_THROW(Module::LoadFromFile("dir.x/model"), Error);
}

}  // namespace
}  // namespace treadle::runtime
