// SPDX-License-Identifier: Apache-2.0
// External code generator "json": sums, differences and products as ExampleJSON, a list of nodes as text. The format is
// described in external/json/runtime/graph.h; its modules are of type "examplejson".
#include <charconv>
#include <map>

#include "external/register.h"
#include "treadle/base/error.h"
#include "treadle/external/codegen.h"
#include "treadle/external/region.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {
namespace {

const std::map<std::string, std::string>& Ops() {
  static const std::map<std::string, std::string> ops = {{"add", "add"}, {"subtract", "sub"}, {"multiply", "mul"}};
  return ops;
}

const std::vector<DataType>& Types() {
  static const std::vector<DataType> types = {DataType::Float(32), DataType::Float(64), DataType::Int(8),
                                              DataType::Int(32), DataType::Int(64)};
  return types;
}

std::string Dims(const Tensor& type) {
  std::string text;
  for (int64_t dim : type.shape) text += StrCat(" ", dim);
  return text;
}

std::string TypeSuffix(const Tensor& type) {
  return type.dtype == DataType::Float(32) ? "" : StrCat(" dtype: ", type.dtype);
}

template <typename T>
std::string Values(const runtime::NDArray& data, int64_t count) {
  std::string text;
  char buffer[64];
  for (int64_t i = 0; i < count; ++i) {
    // The shortest text that reads back as the same value.
    auto end = std::to_chars(buffer, buffer + sizeof(buffer), data.Data<T>()[i]);
    text += " " + std::string(buffer, end.ptr);
  }
  return text;
}

std::string Values(const runtime::NDArray& data, const Tensor& type) {
  if (type.dtype == DataType::Float(32)) return Values<float>(data, type.size());
  if (type.dtype == DataType::Float(64)) return Values<double>(data, type.size());
  if (type.dtype == DataType::Int(8)) return Values<int8_t>(data, type.size());
  if (type.dtype == DataType::Int(32)) return Values<int32_t>(data, type.size());
  return Values<int64_t>(data, type.size());
}

/// One region as text. Inputs are numbered first, then constants and calls in order.
class ExampleJsonCodegen {
 public:
  std::string Generate(const relay::Function& function) {
    const Region region(function);
    std::string text = region.symbol + "\n";
    std::vector<int> ids(region.nodes.size(), -1);
    int next = 0;
    for (size_t i = 0; i < region.nodes.size(); ++i) {
      const RegionNode& node = region.nodes[i];
      const int id = ids[i] = next++;
      if (node.kind == RegionNode::kInput) {
        text += StrCat("  input ", id, Dims(node.type), TypeSuffix(node.type), "\n");
      } else if (node.kind == RegionNode::kConstant) {
        text += StrCat("  const ", id, " shape:", Dims(node.type), TypeSuffix(node.type),
                       " values:", Values(node.data, node.type), "\n");
      } else {
        auto op = Ops().find(node.op());
        if (op == Ops().end()) throw Error(StrCat("ExampleJSON has no operator ", node.op()));
        text += StrCat("  ", op->second, " ", id, " inputs:");
        for (int input : node.inputs) text += StrCat(" ", ids[static_cast<size_t>(input)]);
        text += StrCat(" shape:", Dims(node.type), TypeSuffix(node.type), "\n");
      }
    }
    // The last node is the result unless it is said otherwise.
    if (region.outputs.size() != 1 || ids[static_cast<size_t>(region.outputs[0])] != next - 1) {
      text += "  output";
      for (int output : region.outputs) text += StrCat(" ", ids[static_cast<size_t>(output)]);
      text += "\n";
    }
    return text;
  }
};

void RequireRuntime() {
  std::string problem;
  if (!runtime::Registry::Get("runtime.ExampleJsonModuleCreate") &&
      !runtime::LoadRuntimeOfKind("examplejson", &problem)) {
    throw TargetError(StrCat("its run-time library can't be loaded: ", problem));
  }
}

Module Compile(const Function& region) {
  RequireRuntime();
  std::string text = ExampleJsonCodegen().Generate(region);
  return runtime::Registry::Require("runtime.ExampleJsonModuleCreate")(text).As<Module>();
}

void RegisterUnder(const std::string& name, const std::string& doc) {
  Codegen codegen;
  codegen.name = name;
  codegen.doc = doc;
  for (const auto& [op, text] : Ops()) {
    codegen.ops.emplace_back(
        op, [](const relay::CallNode* call, std::string* reason) { return CheckTensors(call, Types(), reason); });
  }
  codegen.compile = &Compile;
  codegen.require = &RequireRuntime;
  RegisterCodegen(std::move(codegen));
}

}  // namespace

void RegisterJsonCodegen() {
  RegisterUnder("json", "sums, differences and products as a graph in text (ExampleJSON)");
  RegisterUnder("examplejsoncompiler", "the same by TVM's name");
}

}  // namespace treadle::external
