// SPDX-License-Identifier: Apache-2.0
#include "driver/build/compile_relay.h"

#include "runtime/file_io.h"
#include "treadle/relay/text.h"

namespace treadle::driver {

bool IsRelayFile(const std::string& path) {
  if (path.ends_with(".relay")) return true;
  return runtime::MappedFile(path).bytes().starts_with("#[version");
}

CompiledModel CompileRelayFile(const std::string& path, const CompileOptions& options) {
  if (!options.input_shapes.empty() || !options.dims.empty()) {
    throw Error(StrCat(path, ": Relay text states the shapes of its inputs; change them there, not by options"));
  }
  RegisterAll();
  const std::string text = runtime::ReadFile(path);
  IRModule module = relay::ParseModule(text, path);
  if (!module->ContainGlobalVar("main")) {
    throw ModelFormatError(StrCat(path, ": there is no function @main, which is what gets compiled"));
  }
  CompiledModel compiled = Build(std::move(module), {}, options);
  const std::string file = path.substr(path.find_last_of('/') + 1);
  compiled.manifest.name = file.substr(0, file.find_last_of('.'));
  return compiled;
}

}  // namespace treadle::driver
