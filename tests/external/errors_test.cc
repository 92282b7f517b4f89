// SPDX-License-Identifier: Apache-2.0
// What goes wrong with an external code generator names it.
#include <fstream>
#include <sstream>

#include "external/external_test_util.h"
#include "treadle/external/c_source_module.h"
#include "treadle/runtime/artifact.h"
#include "treadle/runtime/registry.h"

namespace treadle::testing {
namespace {

using external::Codegen;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const char kGraph[] = "fn (%a: Tensor[(4), float32]) { exp(add(%a, %a)) }";

/// Registers a code generator for additions that compiles as given, and builds a graph with it.
void BuildWithCodegen(const std::string& name, std::function<runtime::Module(const relay::Function&)> compile,
                      relay::TargetPredicate predicate = nullptr) {
  driver::RegisterAll();
  Codegen codegen;
  codegen.name = name;
  codegen.ops = {{"add", std::move(predicate)}};
  codegen.compile = std::move(compile);
  external::RegisterCodegen(codegen);
  BuildWith(ParseGraph(kGraph), {name});
}

class OddModule : public runtime::ModuleNode {
 public:
  explicit OddModule(std::string symbol) : symbol_(std::move(symbol)) {}
  std::string module_type() const override { return "odd"; }
  runtime::PackedFunc GetFunction(const std::string& name) const override {
    if (name != symbol_) return nullptr;
    return runtime::PackedFunc([](runtime::Args, runtime::RetValue*) {});
  }
  TREADLE_NODE(OddModule, runtime::ModuleNode, "test.OddModule")

 private:
  std::string symbol_;
};

TEST(ExternalErrors, UnknownNameListsThoseThatExist) {
  EXPECT_THAT([] { BuildWith(ParseGraph(kGraph), {"nosuch"}); },
              ThrowsMessage<TargetError>(AllOf(HasSubstr("'nosuch'"), HasSubstr("json"))));
}

TEST(ExternalErrors, ThrowingCodegen) {
  EXPECT_THAT([] { BuildWithCodegen("thrower", [](const relay::Function&) -> runtime::Module { throw Error("no"); }); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'thrower'"), HasSubstr("no"), HasSubstr("add"))));
}

TEST(ExternalErrors, NoModule) {
  EXPECT_THAT([] { BuildWithCodegen("nothing", [](const relay::Function&) { return runtime::Module(); }); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'nothing'"), HasSubstr("module is expected"))));
}

TEST(ExternalErrors, WrongTypeOfResult) {
  driver::RegisterAll();
  runtime::Registry::RegisterTyped("relay.ext.wrongtype", [](relay::Function) { return 3; }, true);
  relay::RegisterExternalOp("wrongtype", "add");
  EXPECT_THAT([] { BuildWith(ParseGraph(kGraph), {"wrongtype"}); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'wrongtype'"), HasSubstr("int"))));
}

TEST(ExternalErrors, ModuleWithoutTheFunction) {
  auto compile = [](const relay::Function&) {
    return runtime::Module(ObjectPtr<Object>(MakeObject<OddModule>("other")));
  };
  EXPECT_THAT([&] { BuildWithCodegen("lacks", compile); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'lacks'"), HasSubstr("without that function"))));
}

TEST(ExternalErrors, ModuleThatCantBeLoadedAgain) {
  auto compile = [](const relay::Function& region) {
    return runtime::Module(
        ObjectPtr<Object>(MakeObject<OddModule>(region->GetAttr<String>(attr::kGlobalSymbol)->str())));
  };
  EXPECT_THAT([&] { BuildWithCodegen("unloadable", compile); },
              ThrowsMessage<Error>(AllOf(HasSubstr("'unloadable'"), HasSubstr("libtreadle_odd.so"))));
}

TEST(ExternalErrors, CThatDoesntCompile) {
  auto compile = [](const relay::Function& region) {
    return external::CSourceModule("not C", "c", {region->GetAttr<String>(attr::kGlobalSymbol)->str()});
  };
  EXPECT_THAT([&] { BuildWithCodegen("badc", compile); }, ThrowsMessage<Error>(HasSubstr("'badc'")));
}

TEST(ExternalErrors, ThrowingPredicate) {
  auto compile = [](const relay::Function&) { return runtime::Module(); };
  EXPECT_THAT(
      [&] {
        BuildWithCodegen("badpredicate", compile,
                         [](const relay::CallNode*, std::string*) -> bool { throw Error("oh"); });
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("badpredicate"), HasSubstr("oh"))));
}

TEST(ExternalErrors, MissingRequirement) {
  driver::RegisterAll();
  Codegen codegen;
  codegen.name = "absent";
  codegen.compile = [](const relay::Function&) { return runtime::Module(); };
  codegen.require = [] { throw TargetError("libabsent.so isn't installed"); };
  external::RegisterCodegen(codegen);
  EXPECT_THAT([] { BuildWith(ParseGraph(kGraph), {"absent"}); },
              ThrowsMessage<TargetError>(AllOf(HasSubstr("'absent'"), HasSubstr("libabsent.so"))));
}

TEST(ExternalErrors, RefusedRegionsGoBack) {
  driver::RegisterAll();
  Codegen codegen;
  codegen.name = "choosy";
  codegen.ops = {{"add", nullptr}};
  codegen.refuse = [](const relay::Function&) { return "too small"; };
  codegen.compile = [](const relay::Function&) -> runtime::Module { throw Error("never called"); };
  external::RegisterCodegen(codegen);
  driver::CompiledModel model = ExpectSameResults(kGraph, {"choosy"});
  EXPECT_THAT(model.partition, HasSubstr("too small"));
  EXPECT_THAT(model.partition, ::testing::ContainsRegex("kept exp [^\n]*choosy: not an operator of choosy"));
}

TEST(ExternalErrors, CorruptSubgraphIsRefused) {
  driver::CompiledModel model = BuildWith(ParseGraph("fn (%a: Tensor[(4), float32]) { add(%a, %a) }"), {"json"});
  runtime::ByteWriter writer;
  runtime::SaveImports(model.library, &writer);
  std::string bytes = writer.bytes();
  size_t at = bytes.find("add 1");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 3, "xyz");
  runtime::ByteReader reader(bytes, "test");
  EXPECT_THAT([&] { runtime::LoadImports(&reader, model.library.imports()[0]); },
              ThrowsMessage<ModelFormatError>(AllOf(HasSubstr("examplejson"), HasSubstr("xyz"))));
}

}  // namespace
}  // namespace treadle::testing
