// SPDX-License-Identifier: Apache-2.0
#include "driver/build/provenance.h"

#include <llvm/Support/BLAKE3.h>

#include "runtime/mapped_memory.h"
#include "targets/llvm/codegen.h"
#include "treadle/base/error.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {
namespace {

std::string Blake3(std::string_view bytes) {
  constexpr size_t kStep = size_t{1} << 24;
  llvm::BLAKE3 hasher;
  for (size_t at = 0; at < bytes.size(); at += kStep) {
    const std::string_view part = bytes.substr(at, kStep);
    hasher.update(llvm::StringRef(part.data(), part.size()));
    runtime::ReleasePages(part.data(), part.size());
  }
  const auto digest = hasher.final();
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "blake3:";
  for (uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

/// Quoted for a shell where that is needed.
std::string Quoted(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:@%+";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string CommandOf(const std::string& source, const CompileOptions& options) {
  std::string command = StrCat("treadle compile ", Quoted(source.empty() ? "model.onnx" : source));
  const auto add = [&](const char* flag, const std::string& value) {
    command += StrCat(" ", flag, " ", Quoted(value));
  };
  add("--target", options.target);
  if (options.opt_level != CompileOptions().opt_level) add("--opt-level", std::to_string(options.opt_level));
  for (const auto& [name, shape] : options.input_shapes) {
    std::string sizes;
    for (int64_t size : shape) sizes += StrCat(sizes.empty() ? "" : ",", size);
    add("--input-shapes", StrCat(name, ":[", sizes, "]"));
  }
  for (const auto& [name, size] : options.dims) add("--dim", StrCat(name, "=", size));
  for (const auto& [name, range] : options.dim_ranges) add("--dim", StrCat(name, "=", range));
  for (const std::string& name : options.external) add("--external", name);
  for (const std::string& name : options.disabled_pass) add("--disabled-pass", name);
  for (const std::string& name : options.required_pass) add("--required-pass", name);
  for (const auto& [key, value] : options.config) add("--pass-config", StrCat(key, "=", value));
  return command;
}

/// Bytes of constants that kernels of Winograd's method read.
int64_t WinogradBytes(const IRModule& module) {
  int64_t bytes = 0;
  relay::PostOrderVisit(module->Lookup("main"), [&](const relay::Expr& e) {
    const auto* call = e.as<relay::CallNode>();
    const auto* function = call != nullptr ? call->op.as<relay::FunctionNode>() : nullptr;
    if (function == nullptr) return;
    bool transformed = false;
    relay::PostOrderVisit(function->body, [&](const relay::Expr& inner) {
      const auto* op = inner.as<OpNode>();
      transformed |= op != nullptr && op->name.find("winograd") != std::string::npos;
    });
    if (!transformed) return;
    for (const relay::Expr& arg : call->args) {
      if (const auto* constant = arg.as<relay::ConstantNode>()) bytes += constant->data.nbytes();
    }
  });
  return bytes;
}

}  // namespace

void AddProvenance(const std::string& source, std::string_view bytes, int64_t weight_bytes,
                   const CompileOptions& options, CompiledModel* model) {
  runtime::Manifest& manifest = model->manifest;
  manifest.source_hash = Blake3(bytes);
  manifest.provenance["source"] = source;
  manifest.provenance["command"] = CommandOf(source, options);
  std::string ranges;
  for (const auto& [name, range] : options.dim_ranges) ranges += StrCat(ranges.empty() ? "" : ", ", name, "=", range);
  if (!ranges.empty()) manifest.provenance["dims"] = ranges;
  const Target target(options.target);
  const std::string cpu = target->GetAttr("mcpu", "");
  if (!cpu.empty()) manifest.provenance["cpu"] = cpu == "native" ? targets::ResolveLLVMTarget(target).cpu : cpu;
  manifest.provenance["weights"] = std::to_string(weight_bytes);
  if (const int64_t winograd = WinogradBytes(model->optimized); winograd > 0) {
    manifest.provenance["winograd"] = std::to_string(winograd);
  }
}

}  // namespace treadle::driver
