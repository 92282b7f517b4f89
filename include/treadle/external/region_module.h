// SPDX-License-Identifier: Apache-2.0
// Base of run-time modules that run one region each: what they share is name, text, constants and storing. Needs the
// runtime only.
//
//   class MyModule : public RegionModule {
//    public:
//     MyModule(RegionParts parts) : RegionModule("myaccel", std::move(parts)) { .. parse text() .. }
//     void Init(const std::vector<NDArray>& constants) override { .. }
//     void Run(const std::vector<const DLTensor*>& args) const override { .. }
//   };
//   RegisterRegionModule<MyModule>("myaccel");
//
// registers runtime.MyModuleCreate's equivalent "runtime.module.create_myaccel"(symbol, text, constant names) and
// "runtime.module.loadbinary_myaccel".
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/ndarray.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

struct RegionParts {
  std::string symbol;                  ///< of the function
  std::string text;                    ///< what the code generator made of the region
  std::vector<std::string> constants;  ///< names of the tensors that Init receives, in order
};

class RegionModule : public runtime::ModuleNode {
 public:
  RegionModule(std::string kind, RegionParts parts) : kind_(std::move(kind)), parts_(std::move(parts)) {}

  /// Called once, before the first run; also where there are no constants.
  virtual void Init(const std::vector<runtime::NDArray>& constants) = 0;
  /// Inputs, then outputs. May be called by several threads at once. Must check what it can't rely on.
  virtual void Run(const std::vector<const DLTensor*>& args) const = 0;

  const std::string& symbol() const { return parts_.symbol; }
  const std::string& text() const { return parts_.text; }

  std::string module_type() const override { return kind_; }
  std::string GetSource(const std::string&) const override { return parts_.text; }
  runtime::PackedFunc GetFunction(const std::string& name) const override {
    using runtime::PackedFunc;
    runtime::Module self = GetRef<runtime::Module>(this);
    if (name == parts_.symbol) {
      return PackedFunc([self, this](runtime::Args args, runtime::RetValue*) {
        if (!ready_.load(std::memory_order_acquire)) {
          if (parts_.constants.empty()) return Prepare(), Call(args);
          throw Error(StrCat(kind_, " function ", parts_.symbol, " was called before it got its constants"));
        }
        Call(args);
      });
    }
    if (name == "__init_" + parts_.symbol) {
      return PackedFunc::FromTyped([self, this](Array<runtime::NDArray> constants) {
        if (constants.size() != parts_.constants.size()) {
          throw Error(StrCat(kind_, " function ", parts_.symbol, " takes ", parts_.constants.size(), " constants, not ",
                             constants.size()));
        }
        const_cast<RegionModule*>(this)->Init(constants.ToVector());
        ready_.store(true, std::memory_order_release);
      });
    }
    if (name == "get_symbol") return PackedFunc::FromTyped([self, this] { return String(parts_.symbol); });
    if (name == "get_const_vars") {
      return PackedFunc::FromTyped([self, this] {
        Array<String> names;
        for (const std::string& constant : parts_.constants) names.push_back(constant);
        return names;
      });
    }
    return nullptr;
  }
  void SaveToBinary(runtime::ByteWriter* writer) const override {
    writer->WriteString(parts_.symbol);
    writer->WriteString(parts_.text);
    writer->Write<uint64_t>(parts_.constants.size());
    for (const std::string& name : parts_.constants) writer->WriteString(name);
  }

  /// Checks an argument: compact, on the CPU, of this type and shape. Returns the address of its elements.
  void* CheckArgument(const std::vector<const DLTensor*>& args, size_t i, const std::vector<int64_t>& shape,
                      DataType dtype) const {
    if (i >= args.size()) throw Error(StrCat(symbol(), ": argument ", i, " is missing"));
    const DLTensor& tensor = *args[i];
    bool fits = tensor.ndim == static_cast<int>(shape.size()) && DataType(tensor.dtype) == dtype &&
                runtime::IsCompact(tensor) && tensor.device.device_type == kDLCPU;
    for (size_t d = 0; fits && d < shape.size(); ++d) fits = tensor.shape[d] == shape[d];
    if (!fits) {
      throw ShapeError(StrCat(symbol(), ": argument ", i, " should be a compact ", dtype, " tensor of shape ",
                              runtime::ShapeString(shape), ", not ", DataType(tensor.dtype), " ",
                              runtime::ShapeString(tensor.shape, tensor.ndim)));
    }
    return static_cast<char*>(tensor.data) + tensor.byte_offset;
  }

 private:
  void Call(const runtime::Args& args) const {
    std::vector<const DLTensor*> tensors;
    for (int i = 0; i < args.size(); ++i) tensors.push_back(args[i].As<DLTensor*>());
    Run(tensors);
  }
  /// Not called if there are no constants.
  void Prepare() const {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ready_.load(std::memory_order_acquire)) return;
    const_cast<RegionModule*>(this)->Init({});
    ready_.store(true, std::memory_order_release);
  }

  const std::string kind_;
  const RegionParts parts_;
  mutable std::mutex mutex_;
  mutable std::atomic<bool> ready_{false};
};

/// Registers the constructor and the loader of modules of class T, which is made from RegionParts.
template <typename T>
void RegisterRegionModule(const std::string& kind) {
  using runtime::Module;
  using runtime::Registry;
  Registry::RegisterTyped(
      "runtime.module.create_" + kind,
      [](std::string symbol, std::string text, Array<String> constants) {
        RegionParts parts{std::move(symbol), std::move(text), {}};
        for (const String& name : constants) parts.constants.push_back(name.str());
        return Module(ObjectPtr<Object>(MakeObject<T>(std::move(parts))));
      },
      true);
  Registry::RegisterTyped(
      "runtime.module.loadbinary_" + kind,
      [kind](std::string bytes) {
        runtime::ByteReader reader(bytes, kind + " module");
        RegionParts parts;
        parts.symbol = std::string(reader.ReadString());
        parts.text = std::string(reader.ReadString());
        for (uint64_t i = reader.ReadCount(8); i > 0; --i) parts.constants.emplace_back(reader.ReadString());
        reader.ExpectEnd();
        return Module(ObjectPtr<Object>(MakeObject<T>(std::move(parts))));
      },
      true);
}

}  // namespace treadle::external
