// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/importer.h"
#include "frontend/onnx/proto_reader.h"
#include "treadle/driver/compile.h"
#include "treadle/relay/expr.h"

namespace treadle::driver {
namespace {

onnx::ReadLimits Limits(const CompileOptions& options) {
  onnx::ReadLimits limits;
  limits.max_memory = options.max_model_memory;
  return limits;
}

CompiledModel CompileOnnx(const onnx::Model& model, const std::string& name, const CompileOptions& options) {
  RegisterAll();
  onnx::ImportOptions import_options;
  import_options.shapes = options.input_shapes;
  import_options.dims = options.dims;
  import_options.constants = options.constants;
  onnx::ImportResult imported = onnx::FromOnnx(model, import_options);
  auto main = Downcast<relay::Function>(imported.mod->Lookup("main"));
  Array<String> names;
  for (const std::string& output : imported.output_names) names.push_back(output);
  IRModule module = imported.mod;
  module.CopyOnWrite()->Add(module->GetGlobalVar("main"), WithAttr(main, kOutputNames, names));
  std::vector<std::pair<std::string, runtime::NDArray>> params(imported.params.begin(), imported.params.end());
  CompiledModel compiled = Build(module, params, options);
  compiled.manifest.name = name;
  for (auto* infos : {&compiled.manifest.inputs, &compiled.manifest.outputs}) {
    for (runtime::TensorInfo& info : *infos) {
      auto type = imported.value_types.find(info.name);
      if (type != imported.value_types.end()) info.value_type = type->second;
    }
  }
  return compiled;
}

}  // namespace

CompiledModel CompileOnnxFile(const std::string& path, const CompileOptions& options) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  return CompileOnnx(onnx::ReadModelFile(path, Limits(options)), name.substr(0, name.find_last_of('.')), options);
}

CompiledModel CompileOnnxBytes(const std::string& bytes, const CompileOptions& options, const std::string& directory) {
  auto owner = std::make_shared<std::string>(bytes);
  return CompileOnnx(onnx::ReadModelBytes(*owner, owner, "model", directory, Limits(options)), "model", options);
}

}  // namespace treadle::driver
