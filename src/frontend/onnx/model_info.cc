// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/model_info.h"

#include <set>

#include "treadle/base/json.h"

namespace treadle::onnx {
namespace {

/// "tensor(float)", "seq(tensor(int64))", ... : the type strings of the ONNX operator documents.
std::string TypeText(const TypeProto& type) {
  const auto of = [&](const char* kind, const std::string& inside) { return std::string(kind) + "(" + inside + ")"; };
  const std::string elem = ElemTypeName(type.elem_type);
  const std::string element = type.element == nullptr ? "" : TypeText(*type.element);
  switch (type.kind) {
    case TypeProto::Kind::kTensor:
      return of("tensor", elem);
    case TypeProto::Kind::kSparseTensor:
      return of("sparse_tensor", elem);
    case TypeProto::Kind::kSequence:
      return of("seq", element);
    case TypeProto::Kind::kOptional:
      return of("optional", element);
    case TypeProto::Kind::kMap:
      return of("map", elem + "," + element);
    default:
      return "unknown";
  }
}

Json Describe(const ValueInfo& info) {
  Json json{{"name", info.name}, {"type", TypeText(info.type)}};
  json["shape"] = nullptr;
  if (!info.type.shape) return json;
  json["shape"] = Json::array();
  for (const Dimension& dim : *info.type.shape) {
    json["shape"].push_back(dim.value ? Json(*dim.value) : dim.HasName() ? Json(dim.symbol) : Json(nullptr));
  }
  return json;
}

}  // namespace

std::vector<const ValueInfo*> RequiredInputs(const Model& model) {
  std::set<std::string_view> initialized;
  for (const auto& tensor : model.graph.initializers) initialized.insert(tensor->name);
  for (const auto& tensor : model.graph.sparse_initializers) initialized.insert(tensor->values.name);
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& info : model.graph.inputs) {
    if (initialized.count(info.name) == 0) inputs.push_back(&info);
  }
  return inputs;
}

std::string ModelInfoJson(const Model& model) {
  Json json{{"inputs", Json::array()}, {"outputs", Json::array()}};
  for (const ValueInfo* input : RequiredInputs(model)) json["inputs"].push_back(Describe(*input));
  for (const ValueInfo& output : model.graph.outputs) json["outputs"].push_back(Describe(output));
  json["graph_name"] = model.graph.name;
  json["producer_name"] = model.producer_name;
  json["domain"] = model.domain;
  json["description"] = model.doc_string;
  json["graph_description"] = model.graph.doc_string;
  json["version"] = model.model_version;
  json["metadata"] = Json::object();
  for (const auto& [key, value] : model.metadata) json["metadata"][key] = value;
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace treadle::onnx
