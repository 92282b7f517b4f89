// SPDX-License-Identifier: Apache-2.0
// Importers.
#include <memory>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/model_info.h"
#include "frontend/onnx/proto_reader.h"
#include "python/checked.h"
#include "treadle/base/error.h"

namespace treadle::python {
namespace {

using runtime::Registry;

int64_t ToInt(const ObjectRef& value, const std::string& what) {
  const auto* imm = value.as<IntImmNode>();
  if (imm == nullptr) throw DTypeError(StrCat(what, " must be integers"));
  return imm->value;
}

/// [module, params] of a model.
Array<ObjectRef> Import(const onnx::Model& model, Map<String, ObjectRef> shapes, bool freeze_params) {
  onnx::ImportOptions options;
  options.freeze_params = freeze_params;
  for (const auto& [name, shape] : shapes) {
    std::vector<int64_t> sizes;
    for (const ObjectRef& dim : Expect<Array<ObjectRef>>(shape)) sizes.push_back(ToInt(dim, "shapes"));
    options.shapes[name] = sizes;
  }
  onnx::ImportResult result = onnx::FromOnnx(model, options);
  Map<String, NDArray> params;
  for (const auto& [name, value] : result.params) params.Set(name, value);
  return {result.mod, params};
}

Array<ObjectRef> FromOnnx(const std::string& data, Map<String, ObjectRef> shapes, const std::string& directory,
                          bool freeze_params) {
  auto owner = std::make_shared<const std::string>(data);
  return Import(onnx::ReadModelBytes(*owner, owner, "model", directory), std::move(shapes), freeze_params);
}

/// The module lives on while its file may be written again.
Array<ObjectRef> FromOnnxFile(const std::string& path, Map<String, ObjectRef> shapes, bool freeze_params) {
  return Import(onnx::ReadModelFile(path, {}, onnx::WeightStorage::kCopies), std::move(shapes), freeze_params);
}

}  // namespace

void RegisterFrontendApi() {
  RegisterChecked("frontend.onnx.CheckModelFile", [](const std::string& path) { onnx::ReadModelFile(path); });
  RegisterChecked("relay.frontend.FromONNX", FromOnnx);
  RegisterChecked("relay.frontend.FromONNXFile", FromOnnxFile);
  RegisterChecked("frontend.onnx.ModelInfo", [](const std::string& data, const std::string& directory) {
    auto owner = std::make_shared<const std::string>(data);
    return onnx::ModelInfoJson(onnx::ReadModelBytes(*owner, owner, "model", directory));
  });
}

}  // namespace treadle::python
