// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "cli/compiler_api.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

constexpr const char* kLibrary = "libtreadle_cli_compiler.so";

/// The API, or null with the reason in `why`.
const CompilerApi* Load(std::string* why) {
  void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // found by the program's run path
  if (handle == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  auto entry = reinterpret_cast<decltype(&treadle_cli_compiler_api)>(dlsym(handle, "treadle_cli_compiler_api"));
  if (entry == nullptr) {
    *why = StrCat(kLibrary, " has no entry point");
    return nullptr;
  }
  return entry();
}

}  // namespace

const CompilerApi* FindCompiler() {
  static std::string why;
  static const CompilerApi* api = Load(&why);
  return api;
}

const CompilerApi& Compiler() {
  const CompilerApi* api = FindCompiler();
  if (api == nullptr) {
    std::string why;
    Load(&why);
    throw Error(
        StrCat("this installation has no compiler: ", why,
               "\nhelp: the Python package treadle and Debian's treadle-compiler have it; models that are compiled "
               "already can be run, measured and inspected"),
        ExitCode::kUnsupported);
  }
  return *api;
}

}  // namespace treadle::cli
