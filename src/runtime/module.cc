// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/module.h"

#include <algorithm>
#include <unordered_set>

#include "treadle/base/error.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::runtime {
namespace {

/// `root` and all it imports, depth first, each once.
std::vector<const ModuleNode*> CollectModules(const ModuleNode* root) {
  std::vector<const ModuleNode*> order, stack{root};
  std::unordered_set<const ModuleNode*> seen;
  while (!stack.empty()) {
    const ModuleNode* module = stack.back();
    stack.pop_back();
    if (!seen.insert(module).second) continue;
    order.push_back(module);
    const auto& imports = module->imports();
    for (size_t i = imports.size(); i-- > 0;) stack.push_back(imports[i].get());
  }
  return order;
}

/// Whether a graph given by its edges has a cycle (Kahn's algorithm).
bool HasCycle(const std::vector<std::vector<uint64_t>>& children) {
  std::vector<size_t> parents(children.size(), 0);
  for (const auto& list : children) {
    for (uint64_t child : list) ++parents[child];
  }
  std::vector<uint64_t> ready;
  for (size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] == 0) ready.push_back(i);
  }
  size_t done = 0;
  while (!ready.empty()) {
    uint64_t group = ready.back();
    ready.pop_back();
    ++done;
    for (uint64_t child : children[group]) {
      if (--parents[child] == 0) ready.push_back(child);
    }
  }
  return done != children.size();
}

std::string NamesWithPrefix(const std::string& prefix) {
  std::string names;
  for (const std::string& name : Registry::ListNames()) {
    if (name.compare(0, prefix.size(), prefix) == 0) names += (names.empty() ? "" : ", ") + name.substr(prefix.size());
  }
  return names.empty() ? "none" : names;
}

constexpr char kLibraryKey[] = "_lib";
constexpr char kTreeKey[] = "_import_tree";
constexpr char kLoadBinary[] = "runtime.module.loadbinary_";
constexpr char kLoadFile[] = "runtime.module.loadfile_";

/// The loader `prefix` + `kind`, after loading the library that brings it where needed; null with the reason otherwise.
PackedFunc FindLoader(const char* prefix, const std::string& kind, std::string* problem) {
  PackedFunc loader = Registry::Get(prefix + kind);
  if (!loader && LoadRuntimeOfKind(kind, problem)) {
    loader = Registry::Get(prefix + kind);
    if (!loader) *problem = "the library of that name doesn't bring one";
  }
  return loader;
}

}  // namespace

ModuleNode::ModuleNode() = default;
ModuleNode::~ModuleNode() = default;

PackedFunc Module::GetFunction(const std::string& name, bool query_imports) const {
  TREADLE_ICHECK(defined()) << "GetFunction of a null module";
  if (PackedFunc function = get()->GetFunction(name)) return function;
  if (!query_imports) return nullptr;
  for (const ModuleNode* module : CollectModules(get())) {
    if (module == get()) continue;
    if (PackedFunc function = module->GetFunction(name)) return function;
  }
  return nullptr;
}

void Module::Import(const Module& other) const {
  if (!other.defined()) throw Error("can't import a null module");
  for (const ModuleNode* module : CollectModules(other.get())) {
    if (module == get()) {
      throw Error(StrCat("can't import module ", other.module_type(), " into ", module_type(),
                         ": the imports would form a cycle"));
    }
  }
  const_cast<ModuleNode*>(get())->imports_.push_back(other);
}

const std::vector<Module>& Module::imports() const { return get()->imports(); }
std::string Module::module_type() const { return get()->module_type(); }

Module Module::LoadFromFile(const std::string& path, const std::string& format) {
  std::string kind = format;
  if (kind.empty()) {
    size_t slash = path.rfind('/'), dot = path.rfind('.');
    if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) {
      throw Error(StrCat("can't load ", path, ": its name has no extension that tells the format"));
    }
    kind = path.substr(dot + 1);
  }
  if (kind == "dll" || kind == "dylib" || kind == "dso") kind = "so";
  std::string problem;
  PackedFunc loader = FindLoader(kLoadFile, kind, &problem);
  if (!loader) {
    throw Error(StrCat("can't load ", path, ": no loader for format \"", kind, "\" (", problem,
                       "); there are loaders for: ", NamesWithPrefix(kLoadFile)));
  }
  return loader(path, kind).As<Module>();
}

void ModuleNode::SaveToFile(const std::string& path, const std::string&) const {
  throw Error(StrCat("a module of type ", module_type(), " can't be saved to a file (", path, ")"));
}
void ModuleNode::SaveToBinary(ByteWriter*) const {
  throw Error(StrCat("a module of type ", module_type(), " can't be stored in a library"));
}
std::string ModuleNode::GetSource(const std::string&) const { return ""; }

const PackedFunc& ModuleNode::GetFuncFromEnv(const std::string& name) const {
  std::lock_guard<std::mutex> lock(env_mutex_);
  auto it = env_.find(name);
  if (it != env_.end()) return it->second;
  PackedFunc function;
  for (const Module& import : imports_) {
    function = import.GetFunction(name, true);
    if (function) break;
  }
  if (!function) function = Registry::Get(name);
  if (!function) {
    throw RuntimeError(StrCat("function \"", name, "\" is neither in the imports of this ", module_type(),
                              " module nor in the registry"));
  }
  return env_.emplace(name, std::move(function)).first->second;
}

void SaveImports(const Module& root, ByteWriter* writer) {
  std::vector<const ModuleNode*> modules = CollectModules(root.get());
  std::unordered_map<const ModuleNode*, uint64_t> group_of;
  std::vector<const ModuleNode*> groups;  // null stands for the library
  int64_t library = -1;
  for (const ModuleNode* module : modules) {
    if (module->IsDSOExportable()) {
      if (library < 0) {
        library = static_cast<int64_t>(groups.size());
        groups.push_back(nullptr);
      }
      group_of[module] = static_cast<uint64_t>(library);
    } else {
      group_of[module] = groups.size();
      groups.push_back(module);
    }
  }
  std::vector<std::vector<uint64_t>> children(groups.size());
  for (const ModuleNode* module : modules) {
    uint64_t from = group_of[module];
    for (const Module& import : module->imports()) {
      uint64_t to = group_of[import.get()];
      if (to == from) continue;  // between two modules of the library
      auto& list = children[from];
      if (std::find(list.begin(), list.end(), to) == list.end()) list.push_back(to);
    }
  }
  if (HasCycle(children)) {
    throw Error(
        "can't export: a compiled module is imported by way of a module of another kind; merging the compiled "
        "modules into one library would make a cycle");
  }
  writer->Write<uint64_t>(groups.size());
  for (const ModuleNode* module : groups) {
    ByteWriter payload;
    if (module != nullptr) module->SaveToBinary(&payload);
    writer->WriteString(module != nullptr ? module->module_type() : kLibraryKey);
    writer->WriteString(payload.bytes());
  }
  std::vector<uint64_t> row_ptr{0}, indices;
  for (const auto& list : children) {
    indices.insert(indices.end(), list.begin(), list.end());
    row_ptr.push_back(indices.size());
  }
  writer->WriteString(kTreeKey);
  writer->WriteU64s(row_ptr);
  writer->WriteU64s(indices);
}

Module LoadImports(ByteReader* reader, const Module& library, bool import_into_library) {
  uint64_t count = reader->ReadCount(16);
  if (count == 0) reader->Fail("an import tree without modules");
  std::vector<Module> modules;
  for (uint64_t i = 0; i < count; ++i) {
    std::string kind(reader->ReadString());
    std::string_view payload = reader->ReadString();
    if (kind == kLibraryKey) {
      if (!library.defined()) reader->Fail("the import tree refers to a library that isn't there");
      modules.push_back(library);
      continue;
    }
    std::string problem;
    PackedFunc loader = FindLoader(kLoadBinary, kind, &problem);
    if (!loader) {
      reader->Fail(StrCat("no loader for modules of type \"", kind, "\" (", problem,
                          "); there are loaders for: ", NamesWithPrefix(kLoadBinary)));
    }
    TreadleByteArray bytes{payload.data(), payload.size()};
    try {
      modules.push_back(loader(&bytes).As<Module>());
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      reader->Fail(StrCat("can't load the ", kind, " module in it: ", error.what()));
    }
    if (!modules.back().defined()) reader->Fail(StrCat("the loader of ", kind, " modules returned nothing"));
  }
  if (reader->ReadString() != kTreeKey) reader->Fail("the import tree is missing");
  std::vector<uint64_t> row_ptr = reader->ReadU64s(), indices = reader->ReadU64s();
  bool ok = row_ptr.size() == count + 1 && row_ptr.front() == 0 && row_ptr.back() == indices.size() &&
            std::is_sorted(row_ptr.begin(), row_ptr.end());
  for (uint64_t child : indices) ok = ok && child < count;
  if (!ok) reader->Fail("inconsistent import tree");
  std::vector<std::vector<uint64_t>> children(count);
  for (uint64_t i = 0; i < count; ++i)
    children[i].assign(indices.begin() + static_cast<ptrdiff_t>(row_ptr[i]),
                       indices.begin() + static_cast<ptrdiff_t>(row_ptr[i + 1]));
  if (HasCycle(children)) reader->Fail("the import tree has a cycle");
  for (uint64_t i = 0; i < count; ++i) {
    if (modules[i].same_as(library) && !import_into_library) continue;
    for (uint64_t child : children[i]) modules[i].Import(modules[child]);
  }
  return modules[0];
}

}  // namespace treadle::runtime
