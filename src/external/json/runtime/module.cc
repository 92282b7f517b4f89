// SPDX-License-Identifier: Apache-2.0
// Modules of type "examplejson": run the graphs of an ExampleJSON text.

#include "treadle/runtime/module.h"
#include "external/json/runtime/graph.h"
#include "runtime/file_io.h"
#include "treadle/base/error.h"
#include "treadle/runtime/plugin.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

using runtime::Module;
using runtime::ModuleNode;
using runtime::NDArray;
using runtime::PackedFunc;

namespace {

/// out = a op b, operands broadcast to the shape of the result. Integers wrap around.
template <typename T, typename U>
void Compute(const JsonNode& node, const JsonNode& a_node, const JsonNode& b_node, const void* a_data,
             const void* b_data, void* out_data) {
  const T* a = static_cast<const T*>(a_data);
  const T* b = static_cast<const T*>(b_data);
  T* out = static_cast<T*>(out_data);
  const size_t rank = node.shape.size();
  auto strides = [&](const std::vector<int64_t>& shape) {
    std::vector<int64_t> result(rank, 0);
    int64_t stride = 1;
    for (size_t k = shape.size(); k-- > 0; stride *= shape[k]) {
      if (shape[k] != 1) result[rank - shape.size() + k] = stride;
    }
    return result;
  };
  const std::vector<int64_t> sa = strides(a_node.shape), sb = strides(b_node.shape);
  std::vector<int64_t> index(rank, 0);
  int64_t ia = 0, ib = 0, size = 1;
  for (int64_t dim : node.shape) size *= dim;
  for (int64_t i = 0; i < size; ++i) {
    const U x = static_cast<U>(a[ia]), y = static_cast<U>(b[ib]);
    out[i] = static_cast<T>(node.op == JsonNode::kAdd ? x + y : node.op == JsonNode::kSub ? x - y : x * y);
    for (size_t d = rank; d-- > 0;) {
      ia += sa[d], ib += sb[d];
      if (++index[d] < node.shape[d]) break;
      ia -= sa[d] * node.shape[d], ib -= sb[d] * node.shape[d];
      index[d] = 0;
    }
  }
}

class ExampleJsonModule final : public ModuleNode {
 public:
  explicit ExampleJsonModule(std::string text) : text_(std::move(text)), graphs_(ParseExampleJson(text_)) {}

  std::string module_type() const override { return "examplejson"; }

  /// Nothing is shared between the functions, nor between calls of one: they may run side by side.
  PackedFunc GetFunction(const std::string& name) const override {
    auto it = graphs_.find(name);
    if (it == graphs_.end()) return nullptr;
    Module self = GetRef<Module>(this);  // keeps the graph alive
    const JsonGraph* graph = &it->second;
    return PackedFunc([self, graph, name](runtime::Args args, runtime::RetValue*) { Run(*graph, name, args); });
  }

  std::string GetSource(const std::string&) const override { return text_; }
  void SaveToBinary(runtime::ByteWriter* writer) const override { writer->WriteString(text_); }
  void SaveToFile(const std::string& path, const std::string&) const override { runtime::WriteFile(path, text_); }

  static Module Create(std::string text) {
    return Module(ObjectPtr<Object>(MakeObject<ExampleJsonModule>(std::move(text))));
  }
  static Module LoadFromBinary(const std::string& bytes) {
    runtime::ByteReader reader(bytes, "examplejson module");
    std::string text(reader.ReadString());
    reader.ExpectEnd();
    return Create(std::move(text));
  }
  static Module LoadFromFile(const std::string& path) { return Create(runtime::ReadFile(path)); }

 private:
  static void CheckArgument(const JsonNode& node, const DLTensor& tensor, const std::string& what) {
    std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    if (shape == node.shape && DataType(tensor.dtype) == node.dtype && runtime::IsCompact(tensor)) return;
    throw ShapeError(StrCat(what, ": expected a compact ", node.dtype, " tensor of shape ",
                            runtime::ShapeString(node.shape), " but got ", DataType(tensor.dtype), " ",
                            runtime::ShapeString(shape)));
  }

  static void Run(const JsonGraph& graph, const std::string& name, runtime::Args args) {
    const size_t inputs = graph.inputs.size(), outputs = graph.outputs.size();
    if (static_cast<size_t>(args.size()) != inputs + outputs) {
      throw Error(
          StrCat(name, " takes ", inputs, " inputs and ", outputs, " outputs, not ", args.size(), " arguments"));
    }
    std::vector<void*> data(graph.nodes.size(), nullptr);
    auto argument = [&](size_t i, size_t node) {
      const DLTensor* tensor = args[static_cast<int>(i)].As<DLTensor*>();
      CheckArgument(graph.nodes[node], *tensor, StrCat(name, ", argument ", i));
      return static_cast<char*>(tensor->data) + tensor->byte_offset;
    };
    for (size_t i = 0; i < inputs; ++i) data[graph.inputs[i]] = argument(i, graph.inputs[i]);
    std::vector<NDArray> values;  // of this call
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const JsonNode& node = graph.nodes[i];
      if (node.op == JsonNode::kInput) continue;
      if (node.op == JsonNode::kConst) {
        data[i] = node.data.data_ptr();
        continue;
      }
      values.push_back(NDArray::Empty(node.shape, node.dtype));
      data[i] = values.back().data_ptr();
      const size_t a = node.inputs[0], b = node.inputs[1];
      Dispatch(node, graph.nodes[a], graph.nodes[b], data[a], data[b], data[i]);
    }
    for (size_t k = 0; k < outputs; ++k) {
      const size_t node = graph.outputs[k];
      std::memcpy(argument(inputs + k, node), data[node],
                  static_cast<size_t>(runtime::TensorBytes(graph.nodes[node].shape, graph.nodes[node].dtype)));
    }
  }

  static void Dispatch(const JsonNode& node, const JsonNode& a, const JsonNode& b, const void* x, const void* y,
                       void* out) {
    if (node.dtype == DataType::Float(32)) return Compute<float, float>(node, a, b, x, y, out);
    if (node.dtype == DataType::Float(64)) return Compute<double, double>(node, a, b, x, y, out);
    if (node.dtype == DataType::Int(8)) return Compute<int8_t, uint32_t>(node, a, b, x, y, out);
    if (node.dtype == DataType::Int(32)) return Compute<int32_t, uint32_t>(node, a, b, x, y, out);
    return Compute<int64_t, uint64_t>(node, a, b, x, y, out);
  }

  const std::string text_;
  const std::map<std::string, JsonGraph> graphs_;
};

void RegisterExampleJson() {
  using runtime::Registry;
  Registry::RegisterTyped("runtime.ExampleJsonModuleCreate", &ExampleJsonModule::Create, true);
  Registry::RegisterTyped("runtime.module.loadbinary_examplejson", &ExampleJsonModule::LoadFromBinary, true);
  Registry::RegisterTyped(
      "runtime.module.loadfile_examplejson",
      [](std::string path, std::string) { return ExampleJsonModule::LoadFromFile(path); }, true);
}

}  // namespace
}  // namespace treadle::external

TREADLE_PLUGIN("examplejson", treadle::external::RegisterExampleJson)
