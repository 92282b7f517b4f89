// SPDX-License-Identifier: Apache-2.0
// Compiling.
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "backends/backend.h"
#include "driver/object_module.h"
#include "driver/optimize.h"
#include "python/api.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/tir/function.h"

namespace treadle::python {
namespace {

using driver::CompiledModel;
using driver::CompileOptions;
using runtime::Module;
using runtime::PackedFunc;
using runtime::Registry;

class CompiledModelNode : public Object {
 public:
  CompiledModel model;
  TREADLE_NODE(CompiledModelNode, Object, "driver.CompiledModel")
};
class CompiledModelRef : public ObjectRef {
 public:
  TREADLE_BASE_REF(CompiledModelRef, ObjectRef, CompiledModelNode);
};

/// The kernels as text: "ll", "asm" (or "s"), or what the target's own code is ("c").
std::string KernelSource(const CompiledModel& model, const std::string& format) {
  const Target target(model.target);
  std::vector<tir::PrimFunc> functions;
  for (const auto& [name, func] : model.lowered->functions) functions.push_back(Downcast<tir::PrimFunc>(func));
  backends::CodegenOptions options;
  options.emit_ll = format == "ll";
  options.emit_asm = format == "asm" || format == "s";
  const backends::Artifact artifact = backends::GetBackend(target->kind).codegen(functions, target, options);
  if (options.emit_ll) return artifact.ll;
  if (options.emit_asm) return artifact.assembly;
  if (format == artifact.format && format != "o") return artifact.code;
  throw Error(StrCat("no source in format '", format, "'; there are: ll, asm",
                     artifact.format == "o" ? "" : ", " + artifact.format));
}

/// The kernels of a compiled model. They are linked and loaded when a function is asked for.
class KernelLibrary : public runtime::ModuleNode {
 public:
  explicit KernelLibrary(CompiledModelRef model) : model_(std::move(model)) {}
  std::string module_type() const override { return Target(model_->model.target)->kind; }
  PackedFunc GetFunction(const std::string& name) const override {
    std::call_once(load_, [this] { loaded_ = LoadNow(); });
    return loaded_.GetFunction(name, true);
  }
  std::string GetSource(const std::string& format) const override {
    return KernelSource(model_->model, format.empty() ? (module_type() == "llvm" ? "ll" : module_type()) : format);
  }
  void SaveToFile(const std::string& path, const std::string&) const override {
    driver::ExportLibrary(model_->model, path);
  }
  bool IsDSOExportable() const override { return true; }
  TREADLE_NODE(KernelLibrary, runtime::ModuleNode, "driver.KernelLibrary")

 private:
  Module LoadNow() const {
    std::string name = (std::filesystem::temp_directory_path() / "treadle-XXXXXX.so").string();
    const int file = mkstemps(name.data(), 3);
    if (file < 0) throw RuntimeError(StrCat("can't make a temporary file ", name));
    close(file);
    struct Remove {
      const std::string& name;
      ~Remove() { std::filesystem::remove(name); }
    } remove{name};
    driver::ExportLibrary(model_->model, name);
    return Module::LoadFromFile(name);  // stays mapped
  }

  CompiledModelRef model_;
  mutable std::once_flag load_;
  mutable Module loaded_;
};

/// Writes the library of a compiled model, given its kernels or the executor factory that imports them.
void ExportModule(const Module& module, const std::string& path) {
  if (const auto* library = module.as<KernelLibrary>()) return library->SaveToFile(path, "so");
  if (const auto* object = module.as<driver::ObjectModuleNode>()) return object->Export(path);
  for (const Module& import : module.imports()) {
    if (import.as<KernelLibrary>() != nullptr) return ExportModule(import, path);
  }
  throw Error(StrCat("a module of type ", module.module_type(), " can't be exported; a compiled model can"));
}

/// The passes run in the context of the calling thread, its instruments included.
CompileOptions OptionsFromContext(const std::string& target) {
  CompileOptions options;
  options.target = target;
  options.opt_level = treadle::transform::PassContext::Current()->opt_level;
  options.inherit_context = true;
  return options;
}

std::map<std::string, int64_t> ToDims(const Map<String, ObjectRef>& map) {
  std::map<std::string, int64_t> dims;
  for (const auto& [name, value] : map) {
    const auto* number = value.as<IntImmNode>();
    if (number == nullptr) throw Error(StrCat("size of dimension '", name, "' must be an integer"));
    dims[name.str()] = number->value;
  }
  return dims;
}

std::map<std::string, std::vector<int64_t>> ToShapes(const Map<String, Array<IntImm>>& map) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, dims] : map) {
    auto& shape = shapes[name.str()];
    for (const IntImm& dim : dims) shape.push_back(dim->value);
  }
  return shapes;
}

std::vector<std::string> ToStrings(const Array<String>& array) {
  std::vector<std::string> strings;
  for (const String& item : array) strings.push_back(item.str());
  return strings;
}

CompiledModelRef Wrap(CompiledModel model) {
  auto node = MakeObject<CompiledModelNode>();
  node->model = std::move(model);
  return CompiledModelRef(ObjectPtr<Object>(node));
}

Map<String, NDArray> ToMap(const runtime::ParamList& params) {
  Map<String, NDArray> map;
  for (const auto& [name, tensor] : params) map.Set(name, tensor);
  return map;
}

runtime::ParamList ToParams(const Map<String, NDArray>& map) {
  runtime::ParamList params;
  for (const auto& [name, tensor] : map) params.emplace_back(name.str(), tensor);
  return params;
}

/// Compiles serialised ONNX; the keys of `flags` are those of CompileOptions.
CompiledModelRef CompileOnnx(std::string data, std::string directory, Map<String, ObjectRef> flags) {
  CompileOptions options;
  for (const auto& [key, value] : flags) {
    const std::string name = key.str();
    if (name == "target") options.target = Downcast<String>(value).str();
    if (name == "opt_level") options.opt_level = static_cast<int>(Downcast<IntImm>(value)->value);
    if (name == "threads") options.threads = static_cast<int>(Downcast<IntImm>(value)->value);
    if (name == "shapes") options.input_shapes = ToShapes(Downcast<Map<String, Array<IntImm>>>(value));
    if (name == "dims") options.dims = ToDims(Downcast<Map<String, ObjectRef>>(value));
    if (name == "constants") {
      for (const auto& [input, tensor] : Downcast<Map<String, NDArray>>(value)) options.constants[input.str()] = tensor;
    }
    if (name == "disabled_pass") options.disabled_pass = ToStrings(Downcast<Array<String>>(value));
    if (name == "required_pass") options.required_pass = ToStrings(Downcast<Array<String>>(value));
    if (name == "dump") options.dump.stages = ToStrings(Downcast<Array<String>>(value));
    if (name == "dump_dir") options.dump.directory = Downcast<String>(value).str();
    if (name == "config") {
      for (const auto& [option, text] : Downcast<Map<String, String>>(value)) options.config[option.str()] = text.str();
    }
  }
  return Wrap(driver::CompileOnnxBytes(data, options, directory));
}

/// What compiled models have to tell.
void RegisterCompiledModel() {
  Registry::RegisterTyped("driver.CompiledModel_GraphJson",
                          [](CompiledModelRef model) { return model->model.graph_json; });
  Registry::RegisterTyped("driver.CompiledModel_Params",
                          [](CompiledModelRef model) { return ToMap(model->model.params); });
  Registry::RegisterTyped("driver.CompiledModel_Optimized",
                          [](CompiledModelRef model) { return model->model.optimized; });
  Registry::RegisterTyped("driver.CompiledModel_Lowered", [](CompiledModelRef model) { return model->model.lowered; });
  Registry::RegisterTyped("driver.CompiledModel_Source", [](CompiledModelRef model, std::string format) {
    return KernelSource(model->model, format);
  });
  Registry::RegisterTyped("driver.CompiledModel_Export",
                          [](CompiledModelRef model, std::string path) { driver::ExportLibrary(model->model, path); });
  Registry::RegisterTyped("driver.CompiledModel_Lib", [](CompiledModelRef model) {
    return Module(ObjectPtr<Object>(MakeObject<KernelLibrary>(model)));
  });
  Registry::RegisterTyped("driver.CompiledModel_Module", [](CompiledModelRef model) {
    return runtime::MakeGraphFactoryModule(model->model.graph_json, model->model.params, "default",
                                           Module(ObjectPtr<Object>(MakeObject<KernelLibrary>(model))));
  });
}

}  // namespace

void RegisterDriverApi() {
  driver::RegisterAll();
  RegisterCompiledModel();
  Registry::RegisterTyped("runtime.ModuleExportLibrary", &ExportModule);
  Registry::RegisterTyped("driver.CompileOnnx", &CompileOnnx);
  Registry::RegisterTyped("driver.Build", [](IRModule module, Map<String, NDArray> params, std::string target) {
    return Wrap(driver::Build(module, ToParams(params), OptionsFromContext(target)));
  });
  Registry::RegisterTyped("driver.Optimize", [](IRModule module, Map<String, NDArray> params, std::string target) {
    return driver::Optimize(driver::BindParams(module, ToParams(params)), Target(target));
  });
}

}  // namespace treadle::python
