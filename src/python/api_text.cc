// SPDX-License-Identifier: Apache-2.0
// Text and JSON forms of nodes.
#include "python/checked.h"
#include "relay/node_check.h"
#include "treadle/ir/serialization.h"
#include "treadle/ir/type.h"
#include "treadle/relay/text.h"
#include "treadle/tir/function.h"
#include "treadle/tir/text.h"

namespace treadle::python {
namespace {

using runtime::Registry;

bool HasTextForm(const ObjectRef& node) {
  return node.as<IRModuleNode>() != nullptr || node.as<RelayExprNode>() != nullptr || node.as<TypeNode>() != nullptr ||
         node.as<relay::PatternNode>() != nullptr || node.as<AttrsNode>() != nullptr;
}

/// Nodes of loop-level code, and modules of nothing else.
bool IsLoopLevel(const ObjectRef& node) {
  if (const auto* module = node.as<IRModuleNode>()) {
    bool all = !module->functions.empty();
    for (const auto& [var, func] : module->functions) all &= func.as<tir::PrimFuncNode>() != nullptr;
    return all;
  }
  return node.as<tir::StmtNode>() != nullptr || node.as<PrimExprNode>() != nullptr ||
         node.as<tir::PrimFuncNode>() != nullptr || node.as<tir::BufferNode>() != nullptr ||
         node.as<tir::RangeNode>() != nullptr;
}

}  // namespace

void RegisterTextApi() {
  // Both give "" for nodes that have no text form.
  RegisterChecked("ir.AsText", [](ObjectRef node, bool show_meta_data) -> std::string {
    if (IsLoopLevel(node)) return tir::AsText(node);
    return HasTextForm(node) ? relay::AsText(node, show_meta_data) : "";
  });
  RegisterChecked("ir.PrettyPrint", [](ObjectRef node) -> std::string {
    if (IsLoopLevel(node)) return tir::AsText(node);
    return HasTextForm(node) ? relay::PrettyPrint(node) : "";
  });
  RegisterChecked("node.SaveJSON", [](ObjectRef node) { return SaveJson(node); });
  RegisterChecked("node.LoadJSON", [](std::string text) {
    relay::RegisterNodeTypes();
    ObjectRef root = LoadJson(text);
    relay::CheckNodes(root);
    return root;
  });
  RegisterChecked("relay.parser.ParseModule",
                  [](std::string source_name, std::string text) { return relay::ParseModule(text, source_name); });
  RegisterChecked("relay.parser.ParseModuleInto", [](std::string source_name, std::string text, IRModule module) {
    return relay::ParseModuleInto(module, text, source_name);
  });
  RegisterChecked("relay.Prelude", [] { return relay::Prelude(); });
  RegisterChecked("relay.parser.ParseExpr",
                  [](std::string source_name, std::string text) { return relay::ParseExpr(text, source_name); });
}

}  // namespace treadle::python
