// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "cli/commands.h"
#include "cli/session.h"
#include "runtime/library_module.h"
#include "treadle/base/error.h"
#include "treadle/base/html.h"
#include "treadle/base/json.h"
#include "treadle/runtime/byte_stream.h"
#include "treadle/runtime/params.h"
#include "treadle/runtime/vm/program.h"

namespace treadle::cli {
namespace {

Json ToJson(const std::vector<runtime::TensorInfo>& infos) {
  Json list = Json::array();
  for (const auto& info : infos) {
    Json shape = Json::array();
    for (size_t d = 0; d < info.shape.size(); ++d) {
      const bool named = info.shape[d] < 0 && d < info.dim_names.size() && !info.dim_names[d].empty();
      shape.push_back(named ? Json(info.dim_names[d]) : Json(info.shape[d]));
    }
    list.push_back({{"name", info.name}, {"shape", shape}, {"dtype", info.dtype.str()}});
  }
  return list;
}

/// Calls of a program, how often each kernel is called, and of which nodes of the model.
struct Kernels {
  size_t calls = 0;
  std::map<std::string, size_t> count;
  std::map<std::string, std::set<std::string>> nodes;

  void Add(const std::string& kernel, const std::string& origin) {
    ++calls;
    ++count[kernel];
    if (!origin.empty()) nodes[kernel].insert(origin);
  }
};

Kernels CountKernels(const std::string& graph_json) {
  Kernels kernels;
  if (graph_json.empty()) return kernels;
  const Json graph = Json::parse(graph_json);
  for (const auto& node : graph.at("nodes")) {
    if (node.at("op") == "null") continue;
    const Json& attrs = node.at("attrs");
    kernels.Add(attrs.at("func_name").get<std::string>(), attrs.value("origin", ""));
  }
  return kernels;
}

void Put(const Kernels& kernels, Json* report) {
  (*report)["calls"] = kernels.calls;
  (*report)["kernels"] = Json::object();
  (*report)["nodes"] = Json::object();
  for (const auto& [name, count] : kernels.count) (*report)["kernels"][name] = count;
  for (const auto& [name, nodes] : kernels.nodes) {
    (*report)["nodes"][name] = std::vector<std::string>(nodes.begin(), nodes.end());
  }
}

/// The library in a tree of modules that holds the model's blob; null where there is none.
const runtime::LibraryModuleNode* LibraryOf(const runtime::Module& module) {
  if (module.module_type() == "library") {
    const auto* library = static_cast<const runtime::LibraryModuleNode*>(module.get());
    if (library->blob() != nullptr) return library;
  }
  for (const runtime::Module& import : module.imports()) {
    if (const auto* library = LibraryOf(import)) return library;
  }
  return nullptr;
}

Json Described(const std::string& name, const std::string& model_name, const runtime::NDArray& value) {
  return {{"name", name},
          {"model_name", model_name},
          {"dtype", value.dtype().str()},
          {"shape", value.shape()},
          {"bytes", value.nbytes()}};
}

/// Adds what a program of the virtual machine is made of: its functions, how often they name each kernel, its
/// constants.
void DescribeProgram(const runtime::Module& module, Json* report) {
  const runtime::LibraryModuleNode* library = LibraryOf(module);
  if (library == nullptr) return;
  const std::shared_ptr<void> unowned(nullptr, [keep = module](void*) {});
  Json& constants = (*report)["constants"];
  for (const auto& [name, value] : library->blob()->Params(unowned)) {
    constants.push_back(Described(name, "", value));
  }
  const auto program =
      runtime::vm::Program::Load(library->blob()->Require("vm"), static_cast<uint32_t>(constants.size()));
  Kernels kernels;
  (*report)["functions"] = Json::array();
  for (const runtime::vm::Function& function : program.functions) {
    (*report)["functions"].push_back({{"name", function.name}, {"instructions", function.code.size()}});
    for (const runtime::vm::Instruction& instruction : function.code) {
      if (instruction.op != runtime::vm::Opcode::kKernel) continue;
      kernels.Add(program.kernels[static_cast<size_t>(instruction.imm)].name,
                  instruction.b >= 0 ? program.strings[static_cast<size_t>(instruction.b)] : "");
    }
  }
  Put(kernels, report);
}

/// The constants that a metadata module, of which these are the bytes, hands to external functions.
Json ConstantsOfExternals(const std::string& bytes) {
  Json list = Json::array();
  runtime::ByteReader reader(bytes, "metadata module");
  for (const auto& [name, value] : runtime::LoadParams(reader.ReadString(), "metadata module")) {
    list.push_back(Described(name, "", value));
  }
  return list;
}

/// A module and what it imports: type, the function that it is asked for, sizes of its text and of what is stored, the
/// constants of external functions.
Json ModuleTree(const runtime::Module& module) {
  Json tree{{"type", module.module_type()}};
  for (const char* name : {"get_symbol", "get_func_names"}) {
    const runtime::PackedFunc function = module.GetFunction(name);
    if (!function) continue;
    const runtime::RetValue value = function();
    if (value.view().IsText()) tree["symbol"] = value.As<std::string>();
  }
  if (const std::string source = module->GetSource(""); !source.empty()) tree["source_bytes"] = source.size();
  if (module.module_type() != "library" && !module->IsDSOExportable()) {
    try {
      runtime::ByteWriter writer;
      module->SaveToBinary(&writer);
      tree["stored_bytes"] = writer.size();
      if (module.module_type() == "metadata") tree["constants"] = ConstantsOfExternals(writer.bytes());
    } catch (const Error& error) {
      tree["not_stored"] = error.what();
    }
  }
  tree["imports"] = Json::array();
  for (const runtime::Module& import : module.imports()) tree["imports"].push_back(ModuleTree(import));
  return tree;
}

/// Weights: the graph's name, the model's, type, shape and bytes.
Json Constants(const std::string& graph_json, const std::vector<runtime::TensorInfo>& inputs) {
  Json list = Json::array();
  if (graph_json.empty()) return list;
  const Json graph = Json::parse(graph_json);
  const Json& attrs = graph.at("attrs");
  const Json names = graph.value("metadata", Json::object()).value("param_names", Json::object());
  for (const Json& id : graph.at("arg_nodes")) {
    const std::string name = graph.at("nodes").at(id.get<size_t>()).at("name").get<std::string>();
    if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name == name; })) continue;
    const auto entry = graph.at("node_row_ptr").at(id.get<size_t>()).get<size_t>();
    const std::string dtype = attrs.at("dltype").at(1).at(entry).get<std::string>();
    const Json& shape = attrs.at("shape").at(1).at(entry);
    list.push_back({{"name", name},
                    {"model_name", names.value(name, "")},
                    {"dtype", dtype},
                    {"shape", shape},
                    {"bytes", runtime::TensorBytes(shape.get<std::vector<int64_t>>(), DataType::FromString(dtype))}});
  }
  return list;
}

struct InspectVerb {
  CompileFlags flags;
  std::string html;
  bool ops = false, memory = false, json = false;

  int Run() const {
    CheckTextOutputs({html}, {flags.request.model});
    const runtime::Model model = LoadOrCompile(flags.Parse());
    const Json report = Describe(model);
    if (!html.empty()) WriteText(html, Html(report));
    if (json) {
      std::cout << report.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    } else {
      Print(report);
    }
    return 0;
  }

  Json Describe(const runtime::Model& model) const {
    const runtime::Manifest& manifest = model.manifest();
    const runtime::MemoryReport bytes = model.Memory();
    Json report{{"file", flags.request.model},
                {"bytes", std::filesystem::file_size(flags.request.model)},
                {"name", manifest.name},
                {"treadle_version", manifest.treadle_version},
                {"executor", manifest.executor},
                {"target", manifest.target},
                {"cpu_features", manifest.cpu_features},
                {"source_hash", manifest.source_hash},
                {"provenance", manifest.provenance},
                {"inputs", ToJson(model.inputs())},
                {"outputs", ToJson(model.outputs())},
                {"memory", {{"weights", bytes.params}, {"inputs", bytes.inputs}, {"activations", bytes.activations}}}};
    Put(CountKernels(model.graph_json()), &report);
    report["modules"] = ModuleTree(model.library());
    report["constants"] = Constants(model.graph_json(), model.inputs());
    if (manifest.executor == "vm") DescribeProgram(model.library(), &report);
    return report;
  }

  static void PrintTensors(const char* title, const Json& list) {
    for (const auto& item : list) {
      std::cout << fmt::format("{:12s} {} {} {}\n", title, item["name"].get<std::string>(),
                               item["dtype"].get<std::string>(), ShapeText(item["shape"]));
    }
  }

  /// Unknown sizes without a name are "?".
  static std::string ShapeText(const Json& shape) {
    std::string text;
    for (const Json& dim : shape) {
      const bool unknown = dim.is_number() && dim.get<int64_t>() < 0;
      text += StrCat(text.empty() ? "[" : ",", unknown ? "?" : dim.dump());
    }
    return text.empty() ? "[]" : text + "]";
  }

  static void PrintModule(const Json& module, size_t depth) {
    std::string what = module["type"].get<std::string>();
    if (module.contains("symbol")) what += " " + module["symbol"].get<std::string>();
    if (module.contains("source_bytes")) what += fmt::format(", text of {} bytes", module["source_bytes"].dump());
    if (module.contains("stored_bytes")) what += fmt::format(", {} bytes stored", module["stored_bytes"].dump());
    std::cout << fmt::format("{:12s} {:>{}}{}\n", depth == 0 ? "modules" : "", "", 2 * depth, what);
    for (const Json& import : module["imports"]) PrintModule(import, depth + 1);
  }

  /// The constants of external functions, in a tree of modules.
  static void PrintConstantsOf(const Json& module) {
    PrintConstants(module.value("constants", Json::array()));
    for (const Json& import : module["imports"]) PrintConstantsOf(import);
  }

  static void PrintConstants(const Json& list) {
    for (const Json& constant : list) {
      const auto model_name = constant["model_name"].get<std::string>();
      std::cout << fmt::format("{:12s} {} {} {} {} bytes{}{}\n", "constant", constant["name"].get<std::string>(),
                               constant["dtype"].get<std::string>(), constant["shape"].dump(), constant["bytes"].dump(),
                               model_name.empty() ? "" : " ", model_name);
    }
  }

  static void PrintProvenance(const Json& report) {
    const Json& made = report["provenance"];
    for (const char* name : {"cpu", "source", "command", "dims"}) {
      if (const std::string text = made.value(name, ""); !text.empty())
        std::cout << fmt::format("{:12s} {}\n", name, text);
    }
    if (const std::string hash = report["source_hash"].get<std::string>(); !hash.empty())
      std::cout << fmt::format("{:12s} {}\n", "source hash", hash);
  }

  /// Why the weights take what they take.
  static void PrintWeights(const Json& report) {
    const Json& made = report["provenance"];
    if (!made.contains("weights")) return;
    const int64_t before = std::stoll(made["weights"].get<std::string>()),
                  winograd = std::stoll(made.value("winograd", "0"));
    const auto stored = report["memory"]["weights"].get<int64_t>();
    std::cout << fmt::format("{:12s} {} KiB in the model, {} KiB packed for the kernels", "weights", before / 1024,
                             stored / 1024);
    if (winograd > 0) std::cout << fmt::format("; {} KiB of them transformed for Winograd's method", winograd / 1024);
    std::cout << (stored > before + winograd ? "; channels are padded to whole vectors\n" : "\n");
  }

  void Print(const Json& report) const {
    std::cout << fmt::format("{:12s} {} ({} KiB), treadle {}\n", "model", report["file"].get<std::string>(),
                             report["bytes"].get<int64_t>() / 1024, report["treadle_version"].get<std::string>());
    std::cout << fmt::format("{:12s} {}\n", "target", report["target"].get<std::string>());
    PrintProvenance(report);
    PrintTensors("input", report["inputs"]);
    PrintTensors("output", report["outputs"]);
    if (report["executor"] == "vm") {
      const Json functions = report.value("functions", Json::array());
      std::cout << fmt::format(
          "{:12s} run by the virtual machine (dynamic shapes or control flow): {} function{}, {} calls of {} "
          "kernels\n",
          "program", functions.size(), functions.size() == 1 ? "" : "s", report["calls"].get<size_t>(),
          report["kernels"].size());
    } else {
      std::cout << fmt::format("{:12s} {} calls of {} kernels\n", "graph", report["calls"].get<size_t>(),
                               report["kernels"].size());
    }
    const Json& bytes = report["memory"];
    if (report["executor"] == "vm") {
      std::cout << fmt::format("{:12s} weights {} KiB; inputs and activations by the sizes of a run\n", "memory",
                               bytes["weights"].get<int64_t>() / 1024);
    } else {
      std::cout << fmt::format("{:12s} weights {} KiB, inputs {} KiB, activations {} KiB\n", "memory",
                               bytes["weights"].get<int64_t>() / 1024, bytes["inputs"].get<int64_t>() / 1024,
                               bytes["activations"].get<int64_t>() / 1024);
    }
    PrintWeights(report);
    PrintModule(report["modules"], 0);
    if (memory) {
      PrintConstants(report["constants"]);
      PrintConstantsOf(report["modules"]);
    }
    if (ops) {
      for (const Json& function : report.value("functions", Json::array())) {
        std::cout << fmt::format("{:12s} {}: {} instructions\n", "function", function["name"].get<std::string>(),
                                 function["instructions"].dump());
      }
      for (const auto& [name, count] : report["kernels"].items()) {
        std::cout << fmt::format("{:>6} x {}{}\n", count.get<size_t>(), name, NodesOf(report, name));
      }
    }
    if (memory) {
      std::cout << fmt::format("{:12s} {} bytes, mapped from the file and shared\n", "weights",
                               bytes["weights"].dump());
      if (report["executor"] != "vm")
        std::cout << fmt::format("{:12s} {} bytes for each context\n", "activations", bytes["activations"].dump());
    }
  }

  /// " (conv, act; conv_1, act_1; ..)": what a kernel computes, the first few of them.
  static std::string NodesOf(const Json& report, const std::string& kernel) {
    const Json nodes = report["nodes"].value(kernel, Json::array());
    constexpr size_t kMost = 3;
    std::string text;
    for (size_t i = 0; i < std::min(nodes.size(), kMost); ++i)
      text += StrCat(i == 0 ? "" : "; ", nodes[i].get<std::string>());
    if (nodes.size() > kMost) text += StrCat("; and ", nodes.size() - kMost, " more");
    return text.empty() ? "" : StrCat("  (", text, ")");
  }

  static std::string Html(const Json& report) {
    std::string rows;
    for (const auto& [key, value] : report.items()) {
      if (value.is_array() || value.is_object()) continue;
      rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", EscapeHtml(key),
                          EscapeHtml(value.is_string() ? value.get<std::string>() : value.dump()));
    }
    std::string tensors;
    for (const char* kind : {"inputs", "outputs"}) {
      for (const auto& item : report[kind]) {
        tensors += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", kind,
                               EscapeHtml(item["name"].get<std::string>()), item["dtype"].get<std::string>(),
                               EscapeHtml(ShapeText(item["shape"])));
      }
    }
    std::string kernels;
    for (const auto& [name, count] : report["kernels"].items()) {
      kernels += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", EscapeHtml(name), count.dump());
    }
    std::string bytes;
    for (const auto& [name, count] : report["memory"].items()) {
      bytes += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", name, count.dump());
    }
    return fmt::format(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>"
        "body{{font:14px system-ui;margin:2em "
        "auto;max-width:1000px}}table{{border-collapse:collapse;margin-bottom:2em}}"
        "td,th{{text-align:left;padding:.2em .8em;border-bottom:1px solid #ddd}}</style></head><body><h1>{0}</h1>"
        "<table>{1}</table><h2>Inputs and outputs</h2><table>{2}</table><h2>Memory (bytes)</h2><table>{3}</table>"
        "<h2>Kernels (calls)</h2><table>{4}</table></body></html>\n",
        EscapeHtml(report["file"].get<std::string>()), rows, tensors, bytes, kernels);
  }
};

}  // namespace

void AddInspect(CLI::App* app, Action* action) {
  auto verb = std::make_shared<InspectVerb>();
  Verb sub(app, "inspect", "show the contents of a model: inputs, outputs, target, memory, kernels", action,
           [verb] { return verb->Run(); });
  sub.Add("model", &verb->flags.request.model, "a compiled .so, or an .onnx file").Required();
  sub.Add("--html", &verb->html, "write a page");
  sub.Add("--ops", &verb->ops, "list the kernels");
  sub.Add("--memory", &verb->memory, "show memory use and list all constants");
  sub.Add("--json", &verb->json, "machine-readable output");
  verb->flags.AddTo(&sub);
}

}  // namespace treadle::cli
