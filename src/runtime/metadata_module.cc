// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/metadata_module.h"

#include <mutex>
#include <set>

#include "runtime/builtins.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

class MetadataModule final : public ModuleNode {
 public:
  MetadataModule(ParamList constants, ConstantsOfSymbols symbols) : symbols_(std::move(symbols)) {
    for (auto& [name, value] : constants) constants_.emplace(name, std::move(value));
    for (const auto& [symbol, names] : symbols_) {
      for (const std::string& name : names) {
        if (constants_.count(name) == 0) {
          throw Error(StrCat("external function \"", symbol, "\" wants constant \"", name, "\", which isn't there"));
        }
      }
    }
  }

  std::string module_type() const override { return "metadata"; }

  PackedFunc GetFunction(const std::string& name) const override {
    auto symbol = symbols_.find(name);
    if (symbol == symbols_.end()) return nullptr;  // the imports are searched next
    Module owner = FindOwner(name);
    if (!owner.defined()) return nullptr;
    Initialise(owner, name, symbol->second);
    return owner.GetFunction(name);
  }

  void SaveToBinary(ByteWriter* writer) const override {
    writer->WriteString(SaveParams(ParamList(constants_.begin(), constants_.end())));
    writer->Write<uint64_t>(symbols_.size());
    for (const auto& [symbol, names] : symbols_) {
      writer->WriteString(symbol);
      writer->Write<uint64_t>(names.size());
      for (const std::string& name : names) writer->WriteString(name);
    }
  }

  static Module LoadFromBinary(const std::string& bytes) {
    ByteReader reader(bytes, "metadata module");
    ParamList constants = LoadParams(reader.ReadString(), "constants of the metadata module");
    ConstantsOfSymbols symbols;
    for (uint64_t i = reader.ReadCount(16); i > 0; --i) {
      auto& names = symbols[std::string(reader.ReadString())];
      for (uint64_t k = reader.ReadCount(8); k > 0; --k) names.emplace_back(reader.ReadString());
    }
    reader.ExpectEnd();
    return Module(ObjectPtr<Object>(NewObject<MetadataModule>(std::move(constants), std::move(symbols))));
  }

 private:
  /// The module that has `symbol` among the imports and all that they import, nearest first.
  Module FindOwner(const std::string& symbol) const {
    std::vector<Module> queue(imports_.begin(), imports_.end());
    std::set<const Object*> seen;
    for (size_t i = 0; i < queue.size(); ++i) {
      const Module module = queue[i];
      if (!seen.insert(module.get()).second) continue;
      if (module.GetFunction(symbol)) return module;
      queue.insert(queue.end(), module.imports().begin(), module.imports().end());
    }
    return Module();
  }

  void Initialise(const Module& owner, const std::string& symbol, const std::vector<std::string>& names) const {
    // What initialises may itself ask this module for functions.
    std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (initialised_.count(symbol) != 0) return;
    PackedFunc init = owner.GetFunction("__init_" + symbol);
    if (!init) {
      if (names.empty()) return;
      throw Error(StrCat("external function \"", symbol, "\" wants constants, but its ", owner.module_type(),
                         " module has no function \"__init_", symbol, "\""));
    }
    Array<NDArray> values;
    for (const std::string& name : names) values.push_back(constants_.at(name));
    initialised_.insert(symbol);
    try {
      init(values);
    } catch (...) {
      initialised_.erase(symbol);
      throw;
    }
  }

  std::map<std::string, NDArray> constants_;
  ConstantsOfSymbols symbols_;
  mutable std::recursive_mutex mutex_;
  mutable std::set<std::string> initialised_;
};

}  // namespace

Module MakeMetadataModule(ParamList constants, ConstantsOfSymbols symbols, const Module& host,
                          const std::vector<Module>& externals) {
  for (const auto& [symbol, names] : symbols) {
    std::string owners;
    int count = 0;
    for (const Module& external : externals) {
      if (!external.GetFunction(symbol)) continue;
      owners += (count++ != 0 ? ", " : "") + external.module_type();
    }
    if (count > 1) throw Error(StrCat("function \"", symbol, "\" is in several external modules: ", owners));
  }
  Module module(ObjectPtr<Object>(NewObject<MetadataModule>(std::move(constants), std::move(symbols))));
  if (host.defined()) module.Import(host);
  for (const Module& external : externals) module.Import(external);
  return module;
}

void AddMetadataFunctions(const AddBuiltin& add) {
  add("runtime.MetadataModuleCreate",
      PackedFunc::FromTyped([](Map<String, NDArray> constants, Map<String, Array<String>> symbols, Module host,
                               Array<Module> externals) {
        if (constants.get() == nullptr || symbols.get() == nullptr || !host.defined() || externals.get() == nullptr) {
          throw DTypeError(
              "a module with constants takes dicts of constants and symbols, a module and a list of modules");
        }
        ParamList list;
        for (const auto& [name, value] : constants) list.emplace_back(name.str(), value);
        ConstantsOfSymbols names_of;
        for (const auto& [symbol, names] : symbols) {
          auto& of_symbol = names_of[symbol.str()];
          for (const String& name : names) of_symbol.push_back(name.str());
        }
        std::vector<Module> modules(externals.begin(), externals.end());
        return MakeMetadataModule(std::move(list), std::move(names_of), host, modules);
      }));
  add("runtime.module.loadbinary_metadata",
      PackedFunc::FromTyped([](std::string bytes) { return MetadataModule::LoadFromBinary(bytes); }));
}

}  // namespace treadle::runtime
