// SPDX-License-Identifier: Apache-2.0
// Modules: collections of functions of one kind (compiled code, source text, graphs), importing each other.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/packed_func.h"

namespace treadle::runtime {

class Module;

/// Name under which a module has the function that a call of the module calls.
inline constexpr char kEntryFunction[] = "__tvm_main__";

/// Base of all kinds of modules. Functions that a module hands out keep it alive.
class ModuleNode : public Object {
 public:
  ModuleNode();
  ~ModuleNode() override;

  /// Names the kind, as in `runtime.module.loadbinary_<kind>`: "llvm", "c", "library", "graph_executor", ...
  virtual std::string module_type() const = 0;
  /// The function called `name`, or null.
  virtual PackedFunc GetFunction(const std::string& name) const = 0;
  virtual void SaveToFile(const std::string& path, const std::string& format) const;
  /// What `runtime.module.loadbinary_<kind>` reads back.
  virtual void SaveToBinary(ByteWriter* writer) const;
  /// Text of the module in `format` (the default one when empty); empty where there is none.
  virtual std::string GetSource(const std::string& format) const;
  /// Whether this module's code is linked into an exported library, rather than stored as data in it.
  virtual bool IsDSOExportable() const { return false; }

  const std::vector<Module>& imports() const { return imports_; }
  /// A function for this module's own code: searched in its imports, then in the registry; remembered.
  /// Throws when there is none.
  const PackedFunc& GetFuncFromEnv(const std::string& name) const;
  TREADLE_NODE(ModuleNode, Object, "runtime.Module")

 protected:
  friend class Module;
  std::vector<Module> imports_;

 private:
  mutable std::mutex env_mutex_;
  mutable std::unordered_map<std::string, PackedFunc> env_;
};

class Module : public ObjectRef {
 public:
  TREADLE_BASE_REF(Module, ObjectRef, ModuleNode);

  /// The function called `name`, in this module or (`query_imports`) depth first in its imports; null when absent.
  PackedFunc GetFunction(const std::string& name, bool query_imports = false) const;
  /// Adds an import; one that would make a cycle is an Error.
  void Import(const Module& other) const;
  const std::vector<Module>& imports() const;
  std::string module_type() const;
  /// Loads a file with the loader of `format` (of the file's extension when empty).
  static Module LoadFromFile(const std::string& path, const std::string& format = "");
};

/// Writes the modules below `root` that aren't part of its library, and the tree of imports:
///   u64 groups; per group: string kind, string payload (SaveToBinary); kind "_lib" with no payload stands for the
///   library itself (all DSO-exportable modules merged). Last: string "_import_tree", u64s row_ptr, u64s children
///   (children of group i are children[row_ptr[i] .. row_ptr[i+1]]). Group 0 is the root.
/// Merging that would make a cycle is an Error.
void SaveImports(const Module& root, ByteWriter* writer);
/// Rebuilds the tree; `library` (may be null when no group is "_lib") takes the place of the library. Returns group 0.
/// `import_into_library` false: a library that has its imports already.
Module LoadImports(ByteReader* reader, const Module& library, bool import_into_library = true);

}  // namespace treadle::runtime
