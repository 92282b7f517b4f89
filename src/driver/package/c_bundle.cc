// SPDX-License-Identifier: Apache-2.0
#include "driver/package/c_bundle.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "runtime/file_io.h"
#include "treadle/base/int_math.h"
#include "treadle/runtime/graph_spec.h"
#include "treadle/targets/target_spec.h"

namespace treadle::driver {
namespace {

using runtime::GraphSpec;
using runtime::NDArray;

std::string ElementType(DataType t) {
  if (t.is_bool()) return "uint8_t";
  if (t.is_float() && t.bits() == 32) return "float";
  if (t.is_float() && t.bits() == 64) return "double";
  const int bits = std::max(8, t.bits());
  return StrCat(t.is_int() ? "" : "u", "int", bits, "_t");
}

/// Words of the widest type that fits, so that the text is short and the array aligned.
std::string ArrayText(const std::string& name, const NDArray& value) {
  const auto bytes = static_cast<size_t>(value.nbytes());
  TextStream out;
  const size_t words = CeilDiv(bytes, 8);
  out << "const uint64_t " << name << "[" << std::max<size_t>(words, 1) << "] = {";
  for (size_t i = 0; i < words; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, static_cast<const char*>(value.data_ptr()) + i * 8, std::min<size_t>(8, bytes - i * 8));
    out << (i % 8 == 0 ? "\n  " : " ") << "0x" << HexText(word) << "u,";
  }
  if (words == 0) out << "0";
  out << "\n};\n";
  return out.str();
}

/// Where each value of the graph lives, as C expressions.
class Values {
 public:
  Values(const GraphSpec& spec, const CompiledModel& model) : spec_(spec), text_(spec.entries.size()) {
    std::map<std::string, size_t> params, inputs;
    for (size_t i = 0; i < model.params.size(); ++i) params[model.params[i].first] = i;
    for (size_t i = 0; i < model.manifest.inputs.size(); ++i) inputs[model.manifest.inputs[i].name] = i;
    for (uint32_t id : spec.arg_nodes) {
      const std::string& name = spec.nodes[id].name;
      std::string& text = text_[spec.EntryId(id, 0)];
      if (params.count(name) != 0) {
        text = StrCat("(void*)model_", name);
      } else if (inputs.count(name) != 0) {
        text = StrCat("(void*)inputs[", inputs[name], "]");
      } else {
        throw InternalError(StrCat("internal error: '", name, "' is neither input nor parameter"));
      }
    }
    for (uint32_t id = 0; id < spec.nodes.size(); ++id) {
      const GraphSpec::Node& node = spec.nodes[id];
      if (!node.is_op) continue;
      for (uint32_t k = 0; k < node.num_outputs; ++k) {
        const GraphSpec::Entry& entry = spec.entries[spec.EntryId(id, k)];
        std::string& text = text_[spec.EntryId(id, k)];
        if (entry.arena_offset >= 0) {
          text = StrCat("memory + ", entry.arena_offset);
        } else if (node.func_name == "__nop") {
          text = text_[spec.EntryId(node.inputs[0])];
        } else {
          throw TargetError("a C bundle needs a model whose memory is planned as one block");
        }
      }
    }
  }
  const std::string& operator[](uint32_t entry) const { return text_[entry]; }

 private:
  const GraphSpec& spec_;
  std::vector<std::string> text_;
};

std::string HeaderText(const CompiledModel& model, const GraphSpec& spec) {
  TextStream out;
  out << "/* Model " << (model.manifest.name.empty() ? "model" : model.manifest.name) << ", made by Treadle "
      << model.manifest.treadle_version << ". Tensors are compact and row-major.\n";
  for (const auto* list : {&model.manifest.inputs, &model.manifest.outputs}) {
    for (size_t i = 0; i < list->size(); ++i) {
      const runtime::TensorInfo& info = (*list)[i];
      out << " *   " << (list == &model.manifest.inputs ? "inputs[" : "outputs[") << i << "]: " << info.name << ", "
          << info.str() << ", elements of type " << ElementType(info.dtype) << "\n";
    }
  }
  out << " */\n#ifndef TREADLE_MODEL_H_\n#define TREADLE_MODEL_H_\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "enum { MODEL_INPUTS = " << model.manifest.inputs.size()
      << ", MODEL_OUTPUTS = " << model.manifest.outputs.size() << " };\n\n"
      << "/* Bytes of working memory that a call of model_run needs. */\n#define MODEL_MEMORY_BYTES "
      << std::max<int64_t>(spec.arena_bytes, 1) << "\n\n"
      << "/* Computes the outputs. `memory` is MODEL_MEMORY_BYTES of working memory, aligned as by malloc; its "
         "contents\n"
      << " * don't matter. Calls with different memory may run at once. Returns 0, or -1 when the heap is exhausted. "
         "*/\n"
      << "int model_run(const void* const* inputs, void* const* outputs, void* memory);\n\n"
      << "#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
  return out.str();
}

std::string ModelText(const CompiledModel& model, const GraphSpec& spec) {
  const Values values(spec, model);
  TextStream declarations, body;
  std::map<std::string, bool> declared;
  for (const auto& [name, value] : model.params) declarations << "extern const uint64_t model_" << name << "[];\n";
  for (uint32_t id = 0; id < spec.nodes.size(); ++id) {
    const GraphSpec::Node& node = spec.nodes[id];
    if (!node.is_op || node.func_name == "__nop") continue;
    if (!declared[node.func_name]) {
      declarations << "int32_t " << node.func_name << "__raw(void* const* data, const int64_t* scalars);\n";
      declared[node.func_name] = true;
    }
    body << "  {\n    void* data[" << node.inputs.size() + node.num_outputs << "];\n";
    size_t position = 0;
    for (GraphSpec::Ref input : node.inputs) {
      body << "    data[" << position++ << "] = " << values[spec.EntryId(input)] << ";\n";
    }
    for (uint32_t k = 0; k < node.num_outputs; ++k) {
      body << "    data[" << position++ << "] = " << values[spec.EntryId(id, k)] << ";\n";
    }
    body << "    if (" << node.func_name << "__raw(data, 0) != 0) return -1;\n  }\n";
  }
  for (size_t i = 0; i < spec.heads.size(); ++i) {
    const uint32_t entry = spec.EntryId(spec.heads[i]);
    body << "  memcpy(outputs[" << i << "], " << values[entry] << ", " << spec.entries[entry].bytes << ");\n";
  }
  return StrCat("#include \"model.h\"\n\n#include <stdint.h>\n#include <string.h>\n\n", declarations.str(),
                "\nint model_run(const void* const* inputs, void* const* outputs, void* working_memory) {\n",
                "  char* memory = working_memory;\n  (void)memory;\n  (void)inputs;\n", body.str(), "  return 0;\n}\n");
}

constexpr const char* kMakefile = R"(CFLAGS ?= -O3
CFLAGS += -std=c99 -fno-math-errno

libmodel.a: model.o kernels.o weights.o
	$(AR) rcs $@ $^

clean:
	$(RM) libmodel.a model.o kernels.o weights.o
)";

}  // namespace

void ExportCBundle(const CompiledModel& model, const std::string& directory) {
  const Target target(model.target);
  const targets::TargetSpec& spec = targets::GetTargetSpec(target);
  if (!spec.standalone_c) {
    throw TargetError(StrCat("C sources are made by target c; this model was compiled for \"", model.target, "\""));
  }
  const GraphSpec graph = GraphSpec::FromJson(model.graph_json);
  std::vector<tir::PrimFunc> functions;
  for (const auto& [text, module] : model.lowered()) {
    for (const auto& [name, func] : module->functions) functions.push_back(Downcast<tir::PrimFunc>(func));
  }
  targets::CodegenOptions options;
  options.packed_api = false;
  const std::string kernels = spec.codegen(functions, target, options).code;
  std::string weights = "#include <stdint.h>\n\n";
  for (const auto& [name, value] : model.params) {
    weights += StrCat("extern const uint64_t model_", name, "[];\n", ArrayText("model_" + name, value));
  }
  std::error_code error;
  const std::filesystem::path path(directory);
  std::filesystem::create_directories(path, error);
  if (error) throw Error(StrCat("can't create directory '", directory, "': ", error.message()));
  runtime::WriteFile(path / "model.h", HeaderText(model, graph));
  runtime::WriteFile(path / "model.c", ModelText(model, graph));
  runtime::WriteFile(path / "kernels.c", kernels);
  runtime::WriteFile(path / "weights.c", weights);
  runtime::WriteFile(path / "Makefile", kMakefile);
}

}  // namespace treadle::driver
