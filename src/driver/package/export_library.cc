// SPDX-License-Identifier: Apache-2.0
#include "driver/package/export_library.h"

#include <algorithm>
#include <set>

#include "driver/package/c_bundle.h"
#include "driver/package/native_module.h"
#include "driver/package/tar.h"
#include "driver/package/target_module.h"
#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "targets/linker.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/graph_spec.h"
#include "treadle/targets/c_toolchain.h"

namespace treadle::driver {
namespace {

using runtime::Module;

/// What goes into a library: objects, and how they are linked.
struct Contents {
  std::vector<std::string> objects;
  std::string target;  ///< of the objects; "": there are none
  targets::LinkOptions link;
  bool has_modules = false;  ///< something besides objects
  runtime::ParamList linked_params;

  void AddLibraries(const std::vector<std::string>& libraries) {
    for (const std::string& library : libraries) {
      if (std::find(link.libraries.begin(), link.libraries.end(), library) == link.libraries.end()) {
        link.libraries.push_back(library);
      }
    }
  }
};

void AddNative(const NativeModuleNode& module, Contents* contents) {
  contents->linked_params = module.linked_params();
  if (module.objects().empty()) return;
  const targets::LinkOptions options = targets::GetLinkOptions(module.target());
  if (contents->target.empty()) contents->link.triple = options.triple;
  contents->target = module.target().str();
  contents->link.keep_debug_info |= options.keep_debug_info;
  contents->AddLibraries(options.libraries);
  contents->objects.insert(contents->objects.end(), module.objects().begin(), module.objects().end());
}

void Collect(const Module& module, std::set<const Object*>* seen, Contents* contents) {
  if (!seen->insert(module.get()).second) return;
  if (const auto* native = module.as<NativeModuleNode>()) {
    AddNative(*native, contents);
  } else if (!module.get()->IsDSOExportable()) {
    contents->has_modules = true;
  } else if (module.as<EmptyModuleNode>() == nullptr) {
    runtime::TemporaryDirectory directory;
    const std::string path = directory.Path("module.o");
    module.get()->SaveToFile(path, "o");
    contents->objects.push_back(runtime::ReadFile(path));
    contents->AddLibraries(targets::CLibraries());  // it was made by a compiler of C
  }
  for (const Module& import : module.imports()) Collect(import, seen, contents);
}

std::string WriteObjects(const Contents& contents, runtime::ArtifactWriter& writer) {
  std::vector<TarMember> members;
  for (size_t i = 0; i < contents.objects.size(); ++i) members.push_back({StrCat("lib", i, ".o"), contents.objects[i]});
  const targets::EmbeddedData data{targets::kBlobSymbol, writer.Pieces(/*sealed=*/false), 4096};
  members.push_back({"devc.o", targets::MakeDataObject(data, contents.link.triple)});
  return MakeTar(members);
}

/// Adds the import tree below `root` where it is more than one library.
void AddImports(const Module& root, const Contents& contents, runtime::ArtifactWriter* writer) {
  if (!contents.has_modules) return;
  runtime::ByteWriter bytes;
  runtime::SaveImports(root, &bytes);
  writer->AddSection("imports", std::move(bytes.bytes()));
}

/// The graph as JSON and in binary form, and the hash of the latter, by which a main function knows its graph.
void AddGraph(const std::string& json, runtime::ArtifactWriter* writer) {
  std::string plan = runtime::GraphSpec::FromJson(json).ToBinary();
  runtime::ByteWriter hash;
  hash.Write<uint64_t>(runtime::Hash64(plan));
  writer->AddSection("graph", json);
  writer->AddSection("plan", std::move(plan));
  writer->AddSection("main", std::move(hash.bytes()));
}

void Write(const Contents& contents, runtime::ArtifactWriter& writer, const std::string& path) {
  if (!path.ends_with(".tar")) {
    return WriteLibrary(contents.objects, &writer, path, contents.link);
  }
  runtime::WriteFile(path, WriteObjects(contents, writer), runtime::FileKind::kArchive);
}

}  // namespace

void WriteLibrary(const std::vector<std::string>& objects, runtime::ArtifactWriter* writer, const std::string& path,
                  const targets::LinkOptions& options) {
  runtime::OutputFile output(path, runtime::FileKind::kLibrary);
  if (writer == nullptr) {
    targets::LinkSharedLibrary(objects, std::nullopt, &output, options);
    return output.Commit();
  }
  const targets::EmbeddedData data{targets::kBlobSymbol, writer->Pieces(), 4096};
  targets::LinkSharedLibrary(objects, data, &output, options);
  runtime::SealFile(output.temporary());  // before it has its name, so that nobody loads half a library
  output.Commit();
}

void AddLinkedParams(const runtime::ParamList& params, runtime::ArtifactWriter* writer) {
  writer->AddSection("linked_params", "1");
  writer->AddParams(params);
}

void ExportLibrary(const CompiledModel& model, const std::string& path) {
  if (path.ends_with('/')) return ExportCBundle(model, path);
  Contents contents;
  std::set<const Object*> seen;
  Collect(model.library, &seen, &contents);
  runtime::ArtifactWriter writer;
  writer.AddSection("manifest", model.manifest.ToJson());
  if (model.manifest.executor == "vm") {
    writer.AddSection("vm", model.vm_program);
  } else {
    AddGraph(model.graph_json, &writer);
  }
  AddImports(model.library, contents, &writer);
  writer.AddParams({model.params.begin(), model.params.end()});
  Write(contents, writer, path);
}

Module LoadArchive(const std::string& path) {
  const std::string bytes = runtime::ReadFile(path);
  std::vector<std::string> objects;
  for (TarMember& member : ReadTar(bytes, path)) {
    if (member.name.ends_with(".o")) objects.push_back(std::move(member.bytes));
  }
  if (objects.empty()) throw ModelFormatError(StrCat(path, ": an archive without objects (.o)"));
  runtime::TemporaryDirectory directory;
  const std::string library = directory.Path("archive.so");
  targets::LinkOptions options;
  try {
    WriteLibrary(objects, nullptr, library, options);
  } catch (const ModelFormatError&) {
    throw;
  } catch (const Error& error) {
    // Objects of C sources may call the C library, which takes a C compiler to find.
    try {
      options.libraries = targets::CLibraries();
      WriteLibrary(objects, nullptr, library, options);
    } catch (const Error&) {
      throw ModelFormatError(StrCat(path, ": can't link its objects: ", error.what()));
    }
  }
  return Module::LoadFromFile(library, "so");  // stays mapped
}

void ExportModule(const Module& module, const std::string& path) {
  if (!module.defined()) throw Error("can't export a null module");
  const auto* native = module.as<NativeModuleNode>();
  if (native != nullptr && native->has_entry() && !path.ends_with(".tar")) return native->Export(path);
  runtime::ArtifactWriter writer;
  Module root = module;
  runtime::Manifest manifest;
  manifest.treadle_version = runtime::VersionString();
  manifest.executor = "none";
  runtime::ParamList params;
  if (module.module_type() == "GraphExecutorFactory") {
    if (module.imports().empty()) throw Error("can't export an executor factory without kernels");
    root = module.imports()[0];
    AddGraph(module.GetFunction("get_graph_json")().As<std::string>(), &writer);
    for (const auto& [name, value] : module.GetFunction("get_params")().As<Map<String, runtime::NDArray>>()) {
      params.emplace_back(name.str(), value);
    }
  }
  Contents contents;
  std::set<const Object*> seen;
  Collect(root, &seen, &contents);
  manifest.target = contents.target.empty() ? targets::DefaultTarget(kDLCPU).str() : contents.target;
  writer.AddSection("manifest", manifest.ToJson());
  AddImports(root, contents, &writer);
  if (!params.empty()) {
    writer.AddParams(params);
  } else if (!contents.linked_params.empty()) {
    AddLinkedParams(contents.linked_params, &writer);
  }
  Write(contents, writer, path);
}

}  // namespace treadle::driver
