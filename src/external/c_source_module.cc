// SPDX-License-Identifier: Apache-2.0
#include "treadle/external/c_source_module.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

extern char** environ;

namespace treadle::external {

TREADLE_DEFINE_NODE(CSourceModuleNode);

using runtime::Module;
using runtime::PackedFunc;
using runtime::Registry;

namespace {

Array<String> ToArray(const std::vector<std::string>& items) {
  Array<String> array;
  for (const std::string& item : items) array.push_back(item);
  return array;
}

/// Runs a program found through PATH, its output into a file; -1 when it isn't there.
int RunTool(const std::vector<std::string>& words, const std::string& output) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 127 ? -1 : WEXITSTATUS(status);
  return 128;
}

std::vector<std::string> Compilers(bool cxx) {
  std::vector<std::string> list;
  for (const char* name : cxx ? std::initializer_list<const char*>{"TREADLE_CXX", "CXX"}
                              : std::initializer_list<const char*>{"TREADLE_CC", "CC"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') list.emplace_back(value);
  }
  // Once one is named, no other is tried.
  if (!list.empty()) return {list.front()};
  if (cxx) return {"c++", "g++", "clang++", "clang++-19"};
  return {"cc", "gcc", "clang", "clang-19"};
}

/// Runs the first compiler that is there; throws what it says when it refuses.
void Compile(bool cxx, const runtime::TemporaryDirectory& folder, const std::vector<std::string>& arguments) {
  for (const std::string& compiler : Compilers(cxx)) {
    std::vector<std::string> words{compiler};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const int status = RunTool(words, folder.Path("log"));
    if (status < 0) continue;
    if (status == 0) return;
    throw Error(StrCat(compiler, " refuses its C source:\n", runtime::ReadFile(folder.Path("log"))));
  }
  std::string tried;
  for (const std::string& compiler : Compilers(cxx)) tried += (tried.empty() ? "" : ", ") + compiler;
  throw TargetError(StrCat("no compiler found for its C source (tried ", tried, "); install one or name it with ",
                           cxx ? "TREADLE_CXX" : "TREADLE_CC"));
}

/// Assembler text that takes the bytes of the constants from files.
std::string ConstantsText(const std::map<std::string, runtime::NDArray>& values,
                          const runtime::TemporaryDirectory& folder) {
  std::string text = "\t.section .rodata\n";
  size_t count = 0;
  for (const auto& [name, value] : values) {
    const std::string file = folder.Path(StrCat("constant", count++));
    runtime::WriteFile(file, {value.Data<char>(), static_cast<size_t>(value.nbytes())});
    text += StrCat("\t.globl ", name, "\n\t.type ", name, ", @object\n\t.balign 64\n", name, ":\n\t.incbin \"", file,
                   "\"\n\t.size ", name, ", ", value.nbytes(), "\n");
  }
  return text + "\t.section .note.GNU-stack,\"\",@progbits\n";
}

}  // namespace

const std::string& CSourceModuleNode::Object() const {
  std::call_once(compile_, [this] {
    const bool cxx = format != "c";
    runtime::TemporaryDirectory folder;
    const std::string source = folder.Path(cxx ? "source.cc" : "source.c"), object = folder.Path("source.o");
    runtime::WriteFile(source, code);
    Compile(cxx, folder,
            {cxx ? "-std=c++17" : "-std=gnu11", "-O3", "-march=native", "-fPIC", "-fwrapv", "-fno-math-errno",
             StrCat("-I", runtime::RuntimeDirectory(), "/../include"), "-c", source, "-o", object});
    if (values_.empty()) {
      object_ = runtime::ReadFile(object);
      return;
    }
    const std::string data = folder.Path("constants.s"), both = folder.Path("both.o");
    runtime::WriteFile(data, ConstantsText(values_, folder));
    Compile(cxx, folder, {"-c", data, "-o", folder.Path("constants.o")});
    Compile(cxx, folder, {"-r", "-nostdlib", object, folder.Path("constants.o"), "-o", both});
    object_ = runtime::ReadFile(both);
  });
  return object_;
}

Module CSourceModuleNode::LoadNow() const {
  const bool cxx = format != "c";
  runtime::TemporaryDirectory folder;
  runtime::WriteFile(folder.Path("source.o"), Object());
  Compile(cxx, folder, {"-shared", folder.Path("source.o"), "-o", folder.Path("source.so"), "-lm"});
  return Module::LoadFromFile(folder.Path("source.so"));  // stays mapped
}

PackedFunc CSourceModuleNode::GetFunction(const std::string& name) const {
  if (name == "get_symbol") {
    String symbol = functions.empty() ? "" : functions.front();
    return PackedFunc::FromTyped([symbol] { return symbol; });
  }
  if (name == "get_func_names" || name == "get_const_vars") {
    Array<String> names = ToArray(name == "get_func_names" ? functions : constants);
    return PackedFunc::FromTyped([names] { return names; });
  }
  if (std::find(functions.begin(), functions.end(), name) == functions.end()) return nullptr;
  std::call_once(load_, [this] { loaded_ = LoadNow(); });
  return loaded_.GetFunction(name);
}

void CSourceModuleNode::SaveToFile(const std::string& path, const std::string& as) const {
  runtime::WriteFile(path, as == "o" ? Object() : code);
}

Module CSourceModule(std::string code, std::string format, std::vector<std::string> functions,
                     std::vector<std::string> constants) {
  if (format != "c" && format != "cc" && format != "cpp") {
    throw Error(StrCat("a C source module can't be of format '", format, "'; there are c, cc and cpp"));
  }
  return Module(ObjectPtr<Object>(
      MakeObject<CSourceModuleNode>(std::move(code), std::move(format), std::move(functions), std::move(constants))));
}

namespace {

/// The packed functions that a text defines: "TREADLE_API int32_t name(".
std::vector<std::string> DefinedFunctions(const std::string& code) {
  std::vector<std::string> names;
  for (const std::string marker : {"TREADLE_API int32_t ", "TREADLE_API int "}) {
    for (size_t at = code.find(marker); at != std::string::npos; at = code.find(marker, at + 1)) {
      const size_t begin = at + marker.size(), end = code.find('(', begin);
      if (end != std::string::npos) names.push_back(code.substr(begin, end - begin));
    }
  }
  return names;
}

}  // namespace

void RegisterCSourceModule() {
  // The name of older versions, which weren't told what the text defines.
  Registry::RegisterTyped(
      "module.csource_module_create",
      [](std::string code, std::string format) {
        std::vector<std::string> functions = DefinedFunctions(code);
        return CSourceModule(std::move(code), std::move(format), std::move(functions));
      },
      /*override=*/true);
  Registry::RegisterTyped(
      "runtime.CSourceModuleCreate",
      [](std::string code, std::string format, Array<String> functions, Array<String> constants) {
        std::vector<std::string> names(functions.begin(), functions.end());
        std::vector<std::string> values(constants.begin(), constants.end());
        return CSourceModule(std::move(code), std::move(format), std::move(names), std::move(values));
      },
      /*override=*/true);
}

}  // namespace treadle::external
