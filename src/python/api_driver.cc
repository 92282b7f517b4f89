// SPDX-License-Identifier: Apache-2.0
// Compiling.
#include "driver/evaluate/numeric_check.h"
#include "driver/graph/why_not_graph.h"
#include "python/build_options.h"
#include "python/checked.h"
#include "treadle/base/error.h"
#include "treadle/driver/compile.h"
#include "treadle/ir/target.h"
#include "treadle/ir/transform.h"
#include "treadle/runtime/graph_executor.h"
#include "treadle/runtime/module.h"
#include "treadle/runtime/params.h"
#include "treadle/runtime/plugin.h"
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

}  // namespace

CompileOptions BuildOptions(const Map<String, ObjectRef>& flags) {
  CompileOptions options;
  options.inherit_context = true;
  for (const auto& [key, value] : flags) {
    const std::string name = key.str();
    if (name == "target") options.target = Expect<String>(value).str();
    if (name == "targets") {
      for (const auto& [device, text] : Expect<Map<String, String>>(value)) {
        options.device_targets[std::stoi(device.str())] = text.str();
      }
    }
    if (name == "target_host") options.target_host = Expect<String>(value).str();
    if (name == "mod_name") options.module_name = Expect<String>(value).str();
    if (name == "executor") options.executor = Expect<String>(value).str();
    if (name == "external") {
      for (const String& item : Expect<Array<String>>(value)) options.external.push_back(item.str());
    }
  }
  return options;
}

namespace {

/// Sizes, or texts of ranges.
void SetDims(const Map<String, ObjectRef>& map, driver::CompileOptions* options) {
  for (const auto& [name, value] : map) {
    if (const auto* number = value.as<IntImmNode>()) {
      options->dims[name.str()] = number->value;
    } else if (value.as<StringNode>() != nullptr) {
      options->dim_ranges[name.str()] = Expect<String>(value).str();
    } else {
      throw Error(StrCat("size of dimension '", name, "' must be an integer or a range"));
    }
  }
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

/// Calls `function` with the numbers of kernels done, of those that came from the cache, and of all.
driver::ProgressFn ToProgress(PackedFunc function) {
  return [function = std::move(function)](const driver::Progress& progress) {
    function(static_cast<int64_t>(progress.done), static_cast<int64_t>(progress.cached),
             static_cast<int64_t>(progress.total));
  };
}

/// The keys of `flags` are those of CompileOptions.
CompileOptions ToOptions(const Map<String, ObjectRef>& flags) {
  CompileOptions options;
  for (const auto& [key, value] : flags) {
    const std::string name = key.str();
    if (name == "target") options.target = Expect<String>(value).str();
    if (name == "opt_level") options.opt_level = static_cast<int>(Expect<IntImm>(value)->value);
    if (name == "max_model_memory") options.max_model_memory = Expect<IntImm>(value)->value;
    if (name == "threads") options.threads = static_cast<int>(Expect<IntImm>(value)->value);
    if (name == "shapes") options.input_shapes = ToShapes(Expect<Map<String, Array<IntImm>>>(value));
    if (name == "dims") SetDims(Expect<Map<String, ObjectRef>>(value), &options);
    if (name == "constants") {
      for (const auto& [input, tensor] : Expect<Map<String, NDArray>>(value)) options.constants[input.str()] = tensor;
    }
    if (name == "overridable") options.overridable = ToStrings(Expect<Array<String>>(value));
    if (name == "external") options.external = ToStrings(Expect<Array<String>>(value));
    if (name == "disabled_pass") options.disabled_pass = ToStrings(Expect<Array<String>>(value));
    if (name == "required_pass") options.required_pass = ToStrings(Expect<Array<String>>(value));
    if (name == "dump") options.dump.stages = ToStrings(Expect<Array<String>>(value));
    if (name == "dump_dir") options.dump.directory = Expect<String>(value).str();
    if (name == "progress") options.progress = ToProgress(Expect<PackedFunc>(value));
    if (name == "config") {
      for (const auto& [option, text] : Expect<Map<String, String>>(value)) options.config[option.str()] = text.str();
    }
  }
  return options;
}

/// Compiles serialised ONNX.
CompiledModelRef CompileOnnx(std::string data, std::string directory, Map<String, ObjectRef> flags) {
  return Wrap(driver::CompileOnnxBytes(std::move(data), ToOptions(flags), directory));
}

CompiledModelRef CompileOnnxFile(std::string path, Map<String, ObjectRef> flags) {
  return Wrap(driver::CompileOnnxFile(path, ToOptions(flags)));
}

/// What compiled models have to tell.
void RegisterCompiledModel() {
  RegisterChecked("driver.CompiledModel_GraphJson", [](CompiledModelRef model) { return model->model.graph_json; });
  RegisterChecked("driver.CompiledModel_Params", [](CompiledModelRef model) { return ToMap(model->model.params); });
  RegisterChecked("driver.CompiledModel_Optimized", [](CompiledModelRef model) { return model->model.optimized; });
  RegisterChecked("driver.CompiledModel_Lowered", [](CompiledModelRef model) {
    Map<String, IRModule> modules;
    for (const auto& [target, module] : model->model.lowered()) modules.Set(target, module);
    return modules;
  });
  RegisterChecked("driver.CompiledModel_Source", [](CompiledModelRef model, std::string format) {
    if (format == "partition") return model->model.partition;
    for (const Module& module : model->model.external_modules) {
      if (module.GetFunction("get_symbol") && module.GetFunction("get_symbol")().As<std::string>() == format) {
        return module->GetSource("");
      }
      if (module.GetFunction(format)) return module->GetSource("");
    }
    Module library = model->model.library;
    if (library.module_type() == "metadata") library = library.imports().at(0);
    return library.get()->GetSource(format);
  });
  RegisterChecked("driver.CompiledModel_MemoryReport",
                  [](CompiledModelRef model) { return model->model.memory_report; });
  RegisterChecked("driver.CompiledModel_KernelCounts", [](CompiledModelRef model) {
    return Array<IntImm>{IntImm(DataType::Int(64), static_cast<int64_t>(model->model.num_kernels)),
                         IntImm(DataType::Int(64), static_cast<int64_t>(model->model.cached_kernels))};
  });
  RegisterChecked("driver.CompiledModel_ExternalModules",
                  [](CompiledModelRef model) { return Array<Module>(model->model.external_modules); });
  RegisterChecked("driver.CompiledModel_Export",
                  [](CompiledModelRef model, std::string path) { driver::ExportLibrary(model->model, path); });
  RegisterChecked("driver.CompiledModel_Lib", [](CompiledModelRef model) { return model->model.library; });
  RegisterChecked("driver.CompiledModel_Module", [](CompiledModelRef model) {
    if (model->model.manifest.executor == "vm") {
      throw Error(StrCat("the graph executor can't run this program: ", driver::WhyNotGraph(model->model.optimized),
                         "; relay.vm.compile and treadle.compile can"));
    }
    return runtime::MakeGraphFactoryModule(model->model.graph_json, model->model.params,
                                           model->model.manifest.module_name, model->model.library);
  });
}

}  // namespace

void RegisterDriverApi() {
  driver::RegisterAll();
  RegisterCompiledModel();
  RegisterChecked("runtime.ModuleExportLibrary", &driver::ExportModule);
  RegisterChecked("driver.CompileOnnx", &CompileOnnx);
  RegisterChecked("driver.CompileOnnxFile", &CompileOnnxFile);
  RegisterChecked("runtime.LoadPlugin", &runtime::LoadPluginFile);
  RegisterChecked("driver.Build", [](IRModule module, Map<String, NDArray> params, Map<String, ObjectRef> flags) {
    return Wrap(driver::Build(module, ToParams(params), BuildOptions(flags)));
  });
  RegisterChecked("instrument.NumericCheck", [](double rtol, double atol, int64_t seed) {
    relay::NumericCheckOptions options{rtol, atol, static_cast<uint64_t>(seed)};
    return ObjectRef(ObjectPtr<Object>(driver::MakeNumericCheck(options)));
  });
}

}  // namespace treadle::python
