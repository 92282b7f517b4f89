// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "driver/build/context.h"
#include "driver/build/optimize.h"
#include "driver/build/provenance.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/proto_reader.h"
#include "runtime/file_io.h"
#include "treadle/driver/compile.h"
#include "treadle/driver/dim_range.h"
#include "treadle/relay/expr.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {
namespace {

onnx::ReadLimits Limits(const CompileOptions& options) {
  onnx::ReadLimits limits;
  limits.max_memory = options.max_model_memory;
  return limits;
}

/// In the context of the build, whose options rules may ask for; what watches passes isn't called.
onnx::ImportResult Import(const onnx::Model& model, const onnx::ImportOptions& how, const CompileOptions& options) {
  std::optional<transform::PassContext::Scope> scope;
  if (!options.inherit_context) {
    CompileOptions unwatched = options;
    unwatched.instruments.clear();
    scope.emplace(MakeContext(unwatched));
  }
  return onnx::FromOnnx(model, how);
}

/// What is promised of dimensions, as main's attribute; those of one size are fixed.
Map<String, ObjectRef> DimRanges(const CompileOptions& options, onnx::ImportOptions* import) {
  Map<String, ObjectRef> ranges;
  for (const auto& [name, text] : options.dim_ranges) {
    const DimRange range = DimRange::Parse(name, text);
    if (auto size = import->dims.find(name); size != import->dims.end()) {
      if (range.Nearest(size->second) == size->second) continue;
      throw ShapeError(StrCat("dimension ", onnx::QuoteName(name), " has to be ", range.str(), ", not ", size->second));
    }
    if (range.min == range.max) {
      import->dims[name] = range.min;
      continue;
    }
    import->open_dims.push_back(name);
    Array<ObjectRef> numbers;
    for (int64_t value : {range.min, range.max, range.multiple}) numbers.push_back(IntImm(DataType::Int(64), value));
    ranges.Set(name, numbers);
  }
  return ranges;
}

CompiledModel CompileOnnx(const onnx::Model& model, const std::string& name, const std::string& file,
                          std::string_view bytes, const CompileOptions& options) {
  RegisterAll();
  onnx::ImportOptions import_options;
  import_options.shapes = options.input_shapes;
  import_options.dims = options.dims;
  import_options.constants = options.constants;
  import_options.overridable = options.overridable;
  const Map<String, ObjectRef> ranges = DimRanges(options, &import_options);
  onnx::ImportResult imported = Import(model, import_options, options);
  auto main = Downcast<relay::Function>(imported.mod->Lookup("main"));
  Array<String> names;
  for (const std::string& output : imported.output_names) names.push_back(output);
  IRModule module = imported.mod;
  main = WithAttr(std::move(main), kOutputNames, names);
  if (!ranges.empty()) main = WithAttr(main, kDimRanges, ranges);
  module.CopyOnWrite()->Add(module->GetGlobalVar("main"), std::move(main));
  ParamList params(imported.params.begin(), imported.params.end());
  // From here on only the graph holds the weights: those that passes pack are gone with their first form.
  module = BindParams(std::move(module), params);
  int64_t weight_bytes = 0;  // of initializers and of nodes (Constant)
  relay::PostOrderVisit(module->Lookup("main"), [&](const relay::Expr& e) {
    if (const auto* constant = e.as<relay::ConstantNode>()) weight_bytes += constant->data.nbytes();
  });
  params.clear();
  imported.params.clear();
  imported.mod = IRModule();
  CompiledModel compiled = Build(std::move(module), {}, options);
  compiled.manifest.name = name;
  AddProvenance(file, bytes, weight_bytes, options, &compiled);
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
  const onnx::Model model = onnx::ReadModelFile(path, Limits(options));
  const runtime::MappedFile file(path);
  return CompileOnnx(model, name.substr(0, name.find_last_of('.')), name, file.bytes(), options);
}

CompiledModel CompileOnnxBytes(std::string bytes, const CompileOptions& options, const std::string& directory) {
  auto owner = std::make_shared<std::string>(std::move(bytes));
  return CompileOnnx(onnx::ReadModelBytes(*owner, owner, "model", directory, Limits(options)), "model", "", *owner,
                     options);
}

}  // namespace treadle::driver
