// SPDX-License-Identifier: Apache-2.0
#include "driver/build/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "driver/graph/origin.h"
#include "driver/graph/why_not_graph.h"
#include "driver/lower/compile_engine.h"
#include "treadle/relay/device.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/device.h"

namespace treadle::driver {
namespace {

using relay::CallNode;
using relay::Function;
using relay::FunctionNode;

void AddOnce(const std::string& word, std::vector<std::string>* words) {
  if (std::find(words->begin(), words->end(), word) == words->end()) words->push_back(word);
}

std::string Join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

void AddTypes(const Type& type, std::vector<std::string>* names) {
  if (!type.defined()) return;
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) AddTypes(field, names);
  } else if (const auto* tensor = type.as<TensorTypeNode>()) {
    AddOnce(tensor->dtype.str(), names);
  }
}

std::string OperatorsOf(const Function& kernel) {
  std::vector<std::string> names;
  relay::PostOrderVisit(kernel->body, [&](const relay::Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call != nullptr ? call->op.as<OpNode>() : nullptr;
    if (op != nullptr) names.push_back(op->name);
  });
  return Join(names);
}

/// "NCHW -> NCHW8c, weights OIHW8o", of the attributes that fusion copied to the function; "" without layouts.
std::string LayoutsOf(const Function& kernel) {
  const auto get = [&](const char* name) {
    const auto text = kernel->GetAttr<String>(name);
    return text ? text->str() : std::string();
  };
  std::string from = get("src_layout").empty() ? get("data_layout") : get("src_layout");
  if (from.empty()) from = get("layout");
  const std::string to = get("dst_layout").empty() ? get("out_layout") : get("dst_layout");
  std::string text = to.empty() || to == from ? from : StrCat(from, " -> ", to);
  if (const std::string weights = get("kernel_layout"); !weights.empty()) text += StrCat(", weights ", weights);
  return text;
}

/// "uint8, int8 -> float32", or one name where all are of one type.
std::string TypesOf(const Function& kernel) {
  std::vector<std::string> inputs, results;
  for (const relay::Var& param : kernel->params) AddTypes(param->checked_type_, &inputs);
  AddTypes(kernel->body->checked_type_, &results);
  return inputs.empty() || inputs == results ? Join(results) : StrCat(Join(inputs), " -> ", Join(results));
}

std::string KernelLine(const Function& kernel, int device) {
  const std::string nodes = OriginOf(kernel);
  std::string text = StrCat("#   ", nodes.empty() ? "(made by passes)" : nodes, ": ", OperatorsOf(kernel));
  for (const std::string& part : {LayoutsOf(kernel), TypesOf(kernel)}) {
    if (!part.empty()) text += StrCat("; ", part);
  }
  const auto compiler = kernel->GetAttr<String>(attr::kCompiler);
  return StrCat(text, "; ",
                compiler ? StrCat("external code generator ", compiler->str()) : runtime::DeviceTypeName(device), "\n");
}

/// Kernels in the order in which they are computed, once each.
std::string KernelLines(const IRModule& module, int default_device) {
  std::string text;
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    if (func == nullptr || IsKernel(func)) continue;
    const relay::DeviceMap devices = relay::CollectDeviceInfo(GetRef<Function>(func));
    std::vector<std::string> lines;  // from the last call to the first
    VisitOutsideKernels(func->body, [&](const relay::Expr& e) {
      const auto* call = e.as<CallNode>();
      const auto* callee = call != nullptr ? call->op.as<FunctionNode>() : nullptr;
      if (callee == nullptr || !IsKernel(callee)) return;
      const auto found = devices.find(e);
      lines.push_back(KernelLine(GetRef<Function>(callee), found == devices.end() ? default_device : found->second));
    });
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
  }
  return text;
}

/// The lines of `text` that contain `word`, without what stands before it.
std::string LinesWith(const std::string& word, const std::string& text) {
  std::string found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find(word); at != std::string::npos)
      found += StrCat("#   ", line.substr(at + word.size()), "\n");
  }
  return found;
}

std::string Section(const std::string& title, const std::string& lines) {
  return lines.empty() ? "" : StrCat("# ", title, "\n", lines);
}

}  // namespace

std::string DecisionsText(const CompiledModel& model, const std::string& fusion, int device) {
  const bool vm = model.manifest.executor == "vm";
  const std::string why = vm ? WhyNotGraph(model.optimized) : "";
  return StrCat("# Run by the ", vm ? "virtual machine" : "graph executor", why.empty() ? "" : ", since ", why,
                "; code for ", model.target, ".\n",
                Section("Kernels: nodes of the model, operators that were fused; layouts; element types; device.",
                        KernelLines(model.optimized, device)),
                Section("Not fused, and why.", LinesWith("not fused: ", fusion)),
                Section("With external code generators, and what they left.",
                        StrCat(LinesWith("region ", model.partition), LinesWith("kept ", model.partition))));
}

}  // namespace treadle::driver
