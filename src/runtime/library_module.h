// SPDX-License-Identifier: Apache-2.0
// Compiled shared libraries as modules.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "treadle/runtime/artifact.h"
#include "treadle/runtime/manifest.h"
#include "treadle/runtime/module.h"

namespace treadle::runtime {

/// Function of libraries that carry parameters: (name) -> NDArray, or null.
inline constexpr char kLookupLinkedParam[] = "_lookup_linked_param";

/// A shared library opened with dlopen. Its functions are its exported symbols of the packed convention.
class LibraryModuleNode final : public ModuleNode {
 public:
  /// `handle` is owned.
  LibraryModuleNode(void* handle, std::string path);
  ~LibraryModuleNode() override;

  std::string module_type() const override { return "library"; }
  PackedFunc GetFunction(const std::string& name) const override;
  bool IsDSOExportable() const override { return true; }
  /// Address of a symbol, or null.
  void* Symbol(const std::string& name) const;
  const std::string& path() const { return path_; }
  /// The blob, where there is one; lives as long as the library.
  const ArtifactReader* blob() const { return blob_ ? &*blob_ : nullptr; }
  /// The manifest; defined when there is a blob with one.
  const Manifest* manifest() const { return manifest_ ? &*manifest_ : nullptr; }
  /// Moves the parameters to memory from which they are read faster, which takes time once; see huge_pages.h.
  void MoveParamsToHugePages() const;

 private:
  friend struct LoadedLibrary LoadLibraryFile(const std::string& path, bool is_model);
  PackedFunc LinkedParamLookup() const;
  void BindBackendFunctions();
  void ReadBlob();

  void* handle_;
  std::string path_;
  std::optional<ArtifactReader> blob_;
  std::optional<Manifest> manifest_;
  mutable std::once_flag moved_;
};

/// Opens a library: checks the file, loads it, binds the functions it calls, checks that this processor has the
/// instructions its code uses, and loads the modules it carries. Loading a file again while it is in use shares it.
/// is_model: a library that carries no model is refused before it is loaded. Throws ModelFormatError (the file),
/// TargetError (the processor).
struct LoadedLibrary {
  Module library;  ///< a LibraryModuleNode
  Module root;     ///< root of the import tree: the library itself unless other modules wrap it
};
LoadedLibrary LoadLibraryFile(const std::string& path, bool is_model = false);

}  // namespace treadle::runtime
