// SPDX-License-Identifier: Apache-2.0
// External code generator "c": element-wise operators and matrix products as readable C, compiled into the library.
#include "treadle/external/codegen.h"
#include "external/c/emit.h"
#include "external/register.h"
#include "treadle/external/c_source_module.h"

namespace treadle::external {
namespace {

/// The numbering follows the article: functions from the result backwards, buffers from the inputs forwards.
std::vector<int> FunctionNumbers(const Region& region) {
  std::vector<int> numbers(region.nodes.size(), -1);
  std::vector<int> stack(region.outputs.rbegin(), region.outputs.rend());
  int next = 0;
  while (!stack.empty()) {
    int node = stack.back();
    stack.pop_back();
    const RegionNode& n = region.nodes[static_cast<size_t>(node)];
    if (n.kind != RegionNode::kCall || numbers[static_cast<size_t>(node)] >= 0) continue;
    numbers[static_cast<size_t>(node)] = next++;
    stack.insert(stack.end(), n.inputs.rbegin(), n.inputs.rend());
  }
  return numbers;
}

/// Writes the C function of one region.
class CodegenC {
 public:
  explicit CodegenC(const relay::Function& function) : region_(function), numbers_(FunctionNumbers(region_)) {}

  Module Generate() {
    for (size_t i = 0; i < region_.nodes.size(); ++i) {
      const RegionNode& node = region_.nodes[i];
      if (node.kind == RegionNode::kInput) names_.push_back(StrCat("in", node.index));
      if (node.kind == RegionNode::kConstant) names_.push_back(DeclareConstant(node));
      if (node.kind == RegionNode::kCall) names_.push_back("");
    }
    PlaceResults();
    for (size_t i = 0; i < region_.nodes.size(); ++i) {
      if (region_.nodes[i].kind == RegionNode::kCall) VisitCall(static_cast<int>(i));
    }
    for (size_t k = 0; k < region_.outputs.size(); ++k) {
      const auto node = static_cast<size_t>(region_.outputs[k]);
      const std::string out = StrCat("out", k);
      if (names_[node] == out) continue;
      body_ += StrCat("  memcpy(", out, ", ", names_[node], ", ", Bytes(region_.nodes[node].type), ");\n");
    }
    return CSourceModule(Assemble(), "c", {region_.symbol}, constants_);
  }

 private:
  static std::string Bytes(const Tensor& type) { return StrCat(type.dtype.bytes(), " * ", type.size()); }

  /// Small constants stand in the text; the library holds the others.
  std::string DeclareConstant(const RegionNode& node) {
    const std::string name = StrCat(region_.symbol, "_const_", node.index), type = CTypeName(node.type.dtype);
    if (node.type.size() > 64) {
      declarations_ += StrCat("extern const ", type, " ", name, "[", node.type.size(), "];\n");
      constants_.push_back(name);
    } else {
      declarations_ += StrCat("static const ", type, " ", name, "[", node.type.size(), "] = {",
                              CLiterals(node.data, node.type), "};\n");
    }
    return name;
  }

  /// The memory that a call's result is: that of its operand for those that only relabel the shape.
  int Root(int node) const {
    while (region_.nodes[static_cast<size_t>(node)].kind == RegionNode::kCall &&
           IsReshape(region_.nodes[static_cast<size_t>(node)])) {
      node = region_.nodes[static_cast<size_t>(node)].inputs[0];
    }
    return node;
  }

  /// Results are written in place; the lives of the other values are counted.
  void PlaceResults() {
    last_use_.assign(region_.nodes.size(), -1);
    for (size_t i = 0; i < region_.nodes.size(); ++i) {
      for (int input : region_.nodes[i].inputs) last_use_[static_cast<size_t>(Root(input))] = static_cast<int>(i);
    }
    for (size_t k = 0; k < region_.outputs.size(); ++k) {
      const auto root = static_cast<size_t>(Root(region_.outputs[k]));
      if (region_.nodes[root].kind == RegionNode::kCall && names_[root].empty()) names_[root] = StrCat("out", k);
      last_use_[root] = static_cast<int>(region_.nodes.size());
    }
  }

  void VisitCall(int index) {
    const auto i = static_cast<size_t>(index);
    const RegionNode& node = region_.nodes[i];
    if (IsReshape(node)) {
      names_[i] = names_[static_cast<size_t>(node.inputs[0])];
      return;
    }
    const std::string function = StrCat(region_.symbol, "_", numbers_[i]);
    std::vector<Tensor> types;
    std::string call = function + "(";
    for (int input : node.inputs) {
      types.push_back(region_.nodes[static_cast<size_t>(input)].type);
      call += names_[static_cast<size_t>(input)] + ", ";
    }
    functions_ += EmitFunction(function, node, types);
    if (names_[i].empty()) names_[i] = TakeBuffer(node.type);
    body_ += StrCat("  ", call, names_[i], ");\n");
    for (int input : node.inputs) {
      const int root = Root(input);
      if (last_use_[static_cast<size_t>(root)] == index) Release(names_[static_cast<size_t>(root)]);
    }
    if (last_use_[i] < 0) Release(names_[i]);
  }

  /// A buffer that nobody uses any more if one is large enough, else a new one.
  std::string TakeBuffer(const Tensor& type) {
    const int64_t bytes = type.size() * type.dtype.bytes();
    for (size_t b = 0; b < buffers_.size(); ++b) {
      if (!buffers_[b].free || buffers_[b].dtype != type.dtype || buffers_[b].bytes < bytes) continue;
      buffers_[b].free = false;
      return StrCat("buf_", b);
    }
    buffers_.push_back({bytes, type.dtype, Bytes(type), false});
    return StrCat("buf_", buffers_.size() - 1);
  }
  void Release(const std::string& name) {
    if (name.rfind("buf_", 0) == 0) buffers_[std::stoul(name.substr(4))].free = true;
  }

  std::string Assemble() const {
    std::string params, arguments;
    std::vector<Tensor> types;
    auto add = [&](const std::string& name, int node, bool result) {
      const Tensor& type = region_.nodes[static_cast<size_t>(node)].type;
      params += StrCat(params.empty() ? "" : ", ", result ? "" : "const ", CTypeName(type.dtype), "* ", name);
      arguments += StrCat(arguments.empty() ? "" : ", ", result ? "(" : "(const ", CTypeName(type.dtype),
                          "*)treadle_data(args, ", types.size(), ")");
      types.push_back(type);
    };
    for (size_t k = 0; k < region_.params.size(); ++k) add(StrCat("in", k), region_.params[k], false);
    for (size_t k = 0; k < region_.outputs.size(); ++k) add(StrCat("out", k), region_.outputs[k], true);

    std::string allocate, release, missing;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      const std::string type = CTypeName(buffers_[b].dtype);
      allocate += StrCat("  ", type, "* buf_", b, " = (", type, "*)malloc(", buffers_[b].text, ");\n");
      release += StrCat("  free(buf_", b, ");\n");
      missing += StrCat(missing.empty() ? "" : " && ", "buf_", b);
    }
    const std::string& symbol = region_.symbol;
    std::string text = StrCat(CHeader(), declarations_, declarations_.empty() ? "" : "\n", functions_, "\nstatic int ",
                              symbol, "_(", params, ") {\n");
    if (buffers_.empty()) {
      text += StrCat(body_, "  return 0;\n}\n");
    } else {
      std::string indented;
      for (size_t begin = 0; begin < body_.size();) {
        size_t end = body_.find('\n', begin) + 1;
        indented += "  " + body_.substr(begin, end - begin);
        begin = end;
      }
      text += StrCat(allocate, "  const int allocated = ", missing, ";\n  if (allocated) {\n", indented, "  }\n",
                     release, "  return allocated ? 0 : treadle_fail(\"", symbol, ": out of memory\");\n}\n");
    }
    return text + CEntry(symbol, types, arguments);
  }

  struct Buffer {
    int64_t bytes;
    DataType dtype;
    std::string text;
    bool free;
  };

  const Region region_;
  const std::vector<int> numbers_;
  std::vector<std::string> names_;  ///< of each node's memory
  std::vector<int> last_use_;
  std::vector<Buffer> buffers_;
  std::vector<std::string> constants_;
  std::string declarations_, functions_, body_;
};

void RegisterUnder(const std::string& name, const std::string& doc) {
  Codegen codegen;
  codegen.name = name;
  codegen.doc = doc;
  for (const std::string& op : COperators()) codegen.ops.emplace_back(op, &CTakes);
  codegen.compile = [](const Function& region) { return CodegenC(region).Generate(); };
  RegisterCodegen(std::move(codegen));
}

}  // namespace

void RegisterCCodegen() {
  RegisterUnder("c", "element-wise operators and matrix products as C source");
  RegisterUnder("ccompiler", "the same by TVM's name");
}

}  // namespace treadle::external
