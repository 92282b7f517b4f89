// SPDX-License-Identifier: Apache-2.0
// Modules of C or C++ source text, which are compiled into the library that is exported.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"

namespace treadle::external {

/// A module of type "c". `format` is "c" for C, "cc" for C++ (with extern "C" functions). `functions` are the packed
/// functions that the text defines; `constants` the symbols that it declares as `extern const T name[]`: the library
/// holds them, aligned to 64 bytes. The text may include Treadle's C headers, such as "treadle/runtime/c_types.h".
class CSourceModuleNode : public runtime::ModuleNode {
 public:
  CSourceModuleNode(std::string code, std::string format, std::vector<std::string> functions,
                    std::vector<std::string> constants)
      : code(std::move(code)),
        format(std::move(format)),
        functions(std::move(functions)),
        constants(std::move(constants)) {}
  const std::string code, format;
  const std::vector<std::string> functions, constants;

  /// The value of one of `constants`.
  void SetConstant(const std::string& name, const runtime::NDArray& value) const { values_[name] = value; }
  /// The bytes of a relocatable object: the text, compiled for this machine, and the constants. Made once. Throws
  /// TargetError when there is no compiler, Error with the compiler's messages when it refuses.
  const std::string& Object() const;

  std::string module_type() const override { return "c"; }
  /// Those that the text defines (compiled, linked and loaded by the machine's compiler when the first is asked for),
  /// get_symbol, get_func_names, get_const_vars.
  runtime::PackedFunc GetFunction(const std::string& name) const override;
  std::string GetSource(const std::string&) const override { return code; }
  /// Format "o": Object(); else the text.
  void SaveToFile(const std::string& path, const std::string& format) const override;
  bool IsDSOExportable() const override { return true; }
  TREADLE_DECLARE_NODE(CSourceModuleNode, runtime::ModuleNode, "external.CSourceModule");

 private:
  runtime::Module LoadNow() const;

  mutable std::map<std::string, runtime::NDArray> values_;
  mutable std::once_flag compile_, load_;
  mutable std::string object_;
  mutable runtime::Module loaded_;
};

/// A module of that kind. Compilers are those of $TREADLE_CC, $CC, cc, gcc, clang (for C++ TREADLE_CXX, CXX, c++, ...),
/// whichever is found first.
runtime::Module CSourceModule(std::string code, std::string format, std::vector<std::string> functions,
                              std::vector<std::string> constants = {});

/// Registers runtime.CSourceModuleCreate(code, format, functions, constants).
void RegisterCSourceModule();

}  // namespace treadle::external
