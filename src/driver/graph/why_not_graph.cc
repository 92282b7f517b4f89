// SPDX-License-Identifier: Apache-2.0
#include "driver/graph/why_not_graph.h"

#include <unordered_set>
#include <vector>

#include "driver/lower/compile_engine.h"
#include "treadle/relay/expr_functor.h"

namespace treadle::driver {

using relay::Expr;
using relay::Function;
using relay::FunctionNode;
using relay::Var;

namespace {

bool IsStaticTensors(const Type& type) {
  if (!type.defined()) return true;
  if (const auto* tuple = type.as<TupleTypeNode>()) {
    for (const Type& field : tuple->fields) {
      if (!IsStaticTensors(field)) return false;
    }
    return true;
  }
  const auto* tensor = type.as<TensorTypeNode>();
  return tensor != nullptr && IsStatic(tensor);
}

}  // namespace

void VisitOutsideKernels(const Expr& root, const std::function<void(const Expr&)>& visit) {
  std::vector<Expr> waiting{root};
  std::unordered_set<const Object*> seen{root.get()};
  while (!waiting.empty()) {
    Expr e = waiting.back();
    waiting.pop_back();
    visit(e);
    if (const auto* func = e.as<FunctionNode>(); func != nullptr && IsKernel(func)) continue;
    std::vector<Expr> children;
    relay::CollectChildren(e, &children);
    for (const Expr& child : children) {
      if (seen.insert(child.get()).second) waiting.push_back(child);
    }
  }
}

std::string WhyNotGraph(const IRModule& module) {
  auto main = Downcast<Function>(module->Lookup("main"));
  std::string why;
  for (const Var& param : main->params) {
    if (!IsStaticTensors(param->checked_type())) why = StrCat("the type of %", param->name_hint(), " isn't static");
  }
  if (!why.empty()) return why;
  VisitOutsideKernels(main->body, [&](const Expr& e) {
    if (!why.empty()) return;
    if (e.as<relay::IfNode>() || e.as<relay::MatchNode>() || e.as<relay::RefCreateNode>() ||
        e.as<relay::RefReadNode>() || e.as<relay::RefWriteNode>()) {
      why = StrCat("it holds a ", e->type_key());
    } else if (const auto* call = e.as<relay::CallNode>()) {
      if (call->op.as<GlobalVarNode>() || call->op.as<relay::VarNode>() || call->op.as<ConstructorNode>()) {
        why = "it calls functions";
      } else if (const auto* func = call->op.as<FunctionNode>(); func != nullptr && !IsKernel(func)) {
        why = "it calls a closure";
      } else if (const auto* op = call->op.as<OpNode>(); op != nullptr && op->name == "vm.host_call") {
        why = "it calls host functions";
      } else if (call->checked_type_.defined() && !IsStaticTensors(call->checked_type_)) {
        why = "the shape of a result isn't static";
      }
    } else if (const auto* func = e.as<FunctionNode>(); func != nullptr && !IsKernel(func)) {
      why = "it holds a closure";
    }
  });
  return why;
}

}  // namespace treadle::driver
