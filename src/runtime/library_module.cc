// SPDX-License-Identifier: Apache-2.0
#include "runtime/library_module.h"

#include <dlfcn.h>

#include <mutex>
#include <unordered_map>

#include "runtime/cpu_topology.h"
#include "runtime/huge_pages.h"
#include "treadle/base/error.h"
#include "treadle/runtime/c_backend_api.h"
#include "treadle/runtime/unpack_arguments.h"

namespace treadle::runtime {

/// The libraries that are loaded now, by their handle. Entries are removed by the modules' destructors.
class LibraryTable {
 public:
  static LibraryTable& Global() {
    static auto* table = new LibraryTable();
    return *table;
  }

  /// The live module of `handle`, or null.
  Module Find(void* handle) {
    auto it = modules_.find(handle);
    if (it == modules_.end() || !it->second->TryIncRef()) return Module();
    Module module(ObjectPtr<Object>(it->second));
    it->second->DecRef();  // the reference of TryIncRef
    return module;
  }
  void Set(void* handle, LibraryModuleNode* module) { modules_[handle] = module; }
  void Forget(void* handle, const LibraryModuleNode* module) {
    auto it = modules_.find(handle);
    if (it != modules_.end() && it->second == module) modules_.erase(it);
  }

  std::recursive_mutex mutex;  // recursive: loading a library's imports may load further libraries

  /// A spelling of `path` that dlopen hasn't seen: it takes a library for loaded already when it knows its name, even
  /// if the file has been replaced since.
  std::string FreshPath(const std::string& path) {
    size_t uses = uses_[path]++;
    size_t slash = path.rfind('/');
    std::string directory = slash == std::string::npos ? "." : path.substr(0, slash);
    std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    for (size_t i = 0; i < uses % 256; ++i) directory += "/.";
    return directory + "/" + name;
  }

 private:
  std::unordered_map<void*, LibraryModuleNode*> modules_;
  std::unordered_map<std::string, size_t> uses_;
};

namespace {

/// Stores `function` in the library's pointer variable "__<name>", when it has one.
template <typename F>
void BindFunction(void* handle, const char* name, F* function) {
  std::string variable = std::string("__") + name;
  if (void* slot = dlsym(handle, variable.c_str())) *static_cast<F**>(slot) = function;
}

/// Code of targets with -system-lib calls the runtime by name, which a library loaded by an interpreter keeps to
/// itself.
bool MakeRuntimeVisible() {
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&TreadleBackendParallelLaunch), &own) == 0) return false;
  return dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != nullptr;
}

void CheckCpu(const Manifest& manifest, const std::string& path) {
  std::vector<std::string> missing = MissingCpuFeatures(manifest.cpu_features);
  if (missing.empty()) return;
  std::string list;
  for (const std::string& feature : missing) list += (list.empty() ? "" : ", ") + feature;
  throw TargetError(StrCat(path, ": compiled for target \"", manifest.target, "\", but this processor lacks ", list,
                           "; compile it for this machine or for a baseline such as \"llvm -mcpu=x86-64-v2\""));
}

}  // namespace

LibraryModuleNode::LibraryModuleNode(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

LibraryModuleNode::~LibraryModuleNode() {
  LibraryTable& table = LibraryTable::Global();
  {
    std::lock_guard<std::recursive_mutex> lock(table.mutex);
    table.Forget(handle_, this);
  }
  imports_.clear();
  dlclose(handle_);
}

void* LibraryModuleNode::Symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

PackedFunc LibraryModuleNode::GetFunction(const std::string& name) const {
  if (name == kBlobSymbol || name.rfind("__Treadle", 0) == 0 || name.rfind("__TVM", 0) == 0)
    return nullptr;  // data, not functions
  if (name == kEntryFunction) {
    const auto entry = blob_ ? blob_->Section("entry") : std::nullopt;
    if (entry) return GetFunction(std::string(*entry));
    // Linked by hand of one object: the object says its entry itself.
    const void* named = Symbol(kEntryFunction);
    return named != nullptr ? GetFunction(static_cast<const char*>(named)) : PackedFunc();
  }
  if (name == kLookupLinkedParam) return LinkedParamLookup();
  void* symbol = Symbol(name);
  if (symbol == nullptr) return nullptr;
  return PackedFunc::FromC(reinterpret_cast<TreadlePackedCFunc>(symbol), nullptr, GetRef<Module>(this));
}

PackedFunc LibraryModuleNode::LinkedParamLookup() const {
  if (!blob_ || !blob_->Section("linked_params")) return nullptr;
  Module self = GetRef<Module>(this);
  std::shared_ptr<void> owner(nullptr, [self](void*) {});
  auto params = std::make_shared<std::unordered_map<std::string, NDArray>>();
  for (auto& [name, value] : blob_->Params(owner)) params->emplace(name, std::move(value));
  return PackedFunc([params](Args args, RetValue* ret) {
    auto it = params->find(args[0].AsString());
    if (it != params->end()) *ret = it->second;
  });
}

void LibraryModuleNode::MoveParamsToHugePages() const {
  std::call_once(moved_, [this] {
    const auto params = blob_ ? blob_->Section("params") : std::nullopt;
    if (params) MoveToHugePages(params->data(), params->size());
  });
}

void LibraryModuleNode::BindBackendFunctions() {
  BindFunction(handle_, "TreadleBackendParallelLaunch", &TreadleBackendParallelLaunch);
  BindFunction(handle_, "TreadleBackendAllocWorkspace", &TreadleBackendAllocWorkspace);
  BindFunction(handle_, "TreadleBackendFreeWorkspace", &TreadleBackendFreeWorkspace);
  BindFunction(handle_, "TreadleBackendSetLastError", &TreadleBackendSetLastError);
  BindFunction(handle_, "TreadleBackendGetFuncFromEnv", &TreadleBackendGetFuncFromEnv);
  BindFunction(handle_, "TreadleBackendFuncCall", &TreadleBackendFuncCall);
  BindFunction(handle_, "TreadleBackendUnpackArguments", &TreadleBackendUnpackArguments);
  if (void* slot = dlsym(handle_, "__treadle_module_ctx")) *static_cast<void**>(slot) = static_cast<ModuleNode*>(this);
  // Kernels that TVM compiled: the calling convention and these functions are the same, under other names.
  BindFunction(handle_, "TVMBackendParallelLaunch", &TreadleBackendParallelLaunch);
  BindFunction(handle_, "TVMBackendAllocWorkspace", &TreadleBackendAllocWorkspace);
  BindFunction(handle_, "TVMBackendFreeWorkspace", &TreadleBackendFreeWorkspace);
  BindFunction(handle_, "TVMAPISetLastError", &TreadleBackendSetLastError);
  BindFunction(handle_, "TVMBackendGetFuncFromEnv", &TreadleBackendGetFuncFromEnv);
  BindFunction(handle_, "TVMFuncCall", &TreadleBackendFuncCall);
  if (void* slot = dlsym(handle_, "__tvm_module_ctx")) *static_cast<void**>(slot) = static_cast<ModuleNode*>(this);
  if (dlsym(handle_, "__tvm_dev_mblob") != nullptr) {
    throw ModelFormatError(StrCat(path_,
                                  ": holds modules that TVM stored in a format of its own; what can be read is a "
                                  "library of kernels alone (lib.get_lib().export_library), its graph's JSON and its "
                                  "parameters"));
  }
}

void LibraryModuleNode::ReadBlob() {
  void* start = dlsym(handle_, kBlobSymbol);
  if (start == nullptr) return;
  if (reinterpret_cast<uintptr_t>(start) % kBlobAlignment != 0) {
    throw ModelFormatError(StrCat(path_, ": corrupt: its data isn't aligned to ", kBlobAlignment, " bytes"));
  }
  // The file has been checked: the size in the header lies within the symbol.
  uint64_t bytes = 0;
  std::memcpy(&bytes, static_cast<const char*>(start) + 16, sizeof(bytes));
  blob_.emplace(std::string_view(static_cast<const char*>(start), bytes), path_);
  if (auto text = blob_->Section("manifest")) manifest_ = Manifest::FromJson(*text, path_ + ": manifest");
}

LoadedLibrary LoadLibraryFile(const std::string& path, bool is_model) {
  // Before the loader runs what may be a damaged file's code.
  if (!CheckLibraryFile(path).has_blob && is_model) {
    throw ModelFormatError(StrCat(path, ": a library, but not a compiled model"));
  }
  LibraryTable& table = LibraryTable::Global();
  std::lock_guard<std::recursive_mutex> lock(table.mutex);
  HostCpuFeatures();  // asks the operating system for what the code may need: libraries of one kernel have no manifest
  void* handle = dlopen(table.FreshPath(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* problem = dlerror();
    const std::string reason = problem != nullptr ? problem : "unknown reason";
    if (reason.find("undefined symbol: TreadleBackend") != std::string::npos && MakeRuntimeVisible()) {
      handle = dlopen(table.FreshPath(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) throw ModelFormatError(StrCat("can't load ", path, ": ", reason));
  }
  LoadedLibrary loaded;
  loaded.library = table.Find(handle);
  bool fresh = !loaded.library.defined();
  if (fresh) {
    auto* node = NewObject<LibraryModuleNode>(handle, path);
    loaded.library = Module(ObjectPtr<Object>(node));
    node->ReadBlob();
    if (node->manifest() != nullptr) CheckCpu(*node->manifest(), path);
    node->BindBackendFunctions();
    table.Set(handle, node);
  } else {
    dlclose(handle);  // the module holds its own reference
  }
  loaded.root = loaded.library;
  const auto* node = static_cast<const LibraryModuleNode*>(loaded.library.get());
  if (node->blob() == nullptr) return loaded;
  if (auto imports = node->blob()->Section("imports")) {
    ByteReader reader(*imports, path + ": imports");
    loaded.root = LoadImports(&reader, loaded.library, fresh);
    reader.ExpectEnd();
  }
  return loaded;
}

}  // namespace treadle::runtime
