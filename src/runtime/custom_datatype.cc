// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/custom_datatype.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>

#include "runtime/builtins.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

/// Names and codes; types are never unregistered.
struct Types {
  std::mutex mutex;
  std::map<std::string, int> codes;
  std::map<int, std::string> names;
  std::atomic<bool> any{false};

  static Types& Global() {
    static Types types;
    return types;
  }
};

bool IsName(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return c < 0x80 && (std::isalnum(c) != 0 || c == '_'); });
}

}  // namespace

void RegisterCustomDatatype(const std::string& name, int code) {
  if (!IsName(name)) {
    throw DTypeError(StrCat("the name of a custom data type is of letters, digits and underscores, not \"",
                            name.substr(0, 64), "\""));
  }
  if (code < kFirstCustomCode || code > kLastCustomCode) {
    throw DTypeError(StrCat("custom data type ", name, ": its code is ", code, "; expected ", kFirstCustomCode, " to ",
                            kLastCustomCode));
  }
  Types& types = Types::Global();
  const std::lock_guard<std::mutex> lock(types.mutex);
  auto named = types.codes.find(name);
  auto coded = types.names.find(code);
  if (named != types.codes.end() && named->second != code) {
    throw DTypeError(StrCat("custom data type ", name, " has code ", named->second, " already, not ", code));
  }
  if (coded != types.names.end() && coded->second != name) {
    throw DTypeError(StrCat("code ", code, " is that of custom data type ", coded->second, ", not of ", name));
  }
  types.codes[name] = code;
  types.names[code] = name;
  types.any = true;
}

std::optional<std::string> CustomDatatypeName(int code) {
  Types& types = Types::Global();
  const std::lock_guard<std::mutex> lock(types.mutex);
  auto found = types.names.find(code);
  return found == types.names.end() ? std::nullopt : std::optional<std::string>(found->second);
}

std::optional<int> CustomDatatypeCode(const std::string& name) {
  Types& types = Types::Global();
  const std::lock_guard<std::mutex> lock(types.mutex);
  auto found = types.codes.find(name);
  return found == types.codes.end() ? std::nullopt : std::optional<int>(found->second);
}

bool HasCustomDatatypes() { return Types::Global().any; }

void AddCustomDatatypeFunctions(const AddBuiltin& add) {
  add("runtime._datatype_register",
      PackedFunc::FromTyped([](std::string name, int code) { RegisterCustomDatatype(name, code); }));
  add("runtime._datatype_get_type_name", PackedFunc::FromTyped([](int code) {
        auto name = CustomDatatypeName(code);
        if (!name) throw DTypeError(StrCat("no custom data type has code ", code));
        return *name;
      }));
  add("runtime._datatype_get_type_code", PackedFunc::FromTyped([](std::string name) {
        auto code = CustomDatatypeCode(name);
        if (!code) throw DTypeError(StrCat("there is no custom data type ", name));
        return *code;
      }));
  add("runtime._datatype_get_type_registered",
      PackedFunc::FromTyped([](int code) { return CustomDatatypeName(code).has_value(); }));
}

}  // namespace treadle::runtime
