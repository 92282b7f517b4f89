// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx/model_info.h"

#include <set>

#include "treadle/base/json.h"

namespace treadle::onnx {
namespace {

/// Before, each initializer had to be an input as well, which tells nothing about what callers are to replace.
constexpr int64_t kFirstIrWithConstants = 4;

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

/// The inputs of the graph that have an initializer, or those that have none.
std::vector<const ValueInfo*> InputsThatAre(bool initialized, const Model& model) {
  std::set<std::string_view> names;
  for (const auto& tensor : model.graph.initializers) names.insert(tensor->name);
  for (const auto& tensor : model.graph.sparse_initializers) names.insert(tensor->values.name);
  std::vector<const ValueInfo*> inputs;
  for (const ValueInfo& info : model.graph.inputs) {
    if ((names.count(info.name) != 0) == initialized) inputs.push_back(&info);
  }
  return inputs;
}

}  // namespace

std::vector<const ValueInfo*> RequiredInputs(const Model& model) { return InputsThatAre(false, model); }

std::vector<const ValueInfo*> OverridableInitializers(const Model& model) { return InputsThatAre(true, model); }

std::string ModelInfoJson(const Model& model) {
  Json json{{"inputs", Json::array()}, {"overridable", Json::array()}, {"outputs", Json::array()}};
  for (const ValueInfo* input : RequiredInputs(model)) json["inputs"].push_back(Describe(*input));
  if (model.ir_version >= kFirstIrWithConstants) {
    for (const ValueInfo* input : OverridableInitializers(model)) json["overridable"].push_back(Describe(*input));
  }
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
