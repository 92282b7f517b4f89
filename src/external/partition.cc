// SPDX-License-Identifier: Apache-2.0
#include "external/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "treadle/base/error.h"
#include "treadle/base/suggest.h"
#include "treadle/passes/passes.h"
#include "treadle/relay/expr_functor.h"
#include "treadle/runtime/registry.h"

namespace treadle::external {

using relay::CallNode;
using relay::Expr;
using relay::FunctionNode;
using relay::TupleGetItemNode;
using relay::TupleNode;

namespace {

/// Puts the bodies of some global functions in place of their calls.
class Restorer : public relay::ExprMutator {
 public:
  explicit Restorer(std::map<std::string, Function> functions) : functions_(std::move(functions)) {}

 private:
  using ExprMutator::VisitExpr_;
  Expr VisitExpr_(const CallNode* call) override {
    Function callee;
    if (const auto* var = call->op.as<GlobalVarNode>()) {
      auto it = functions_.find(var->name_hint);
      if (it != functions_.end()) callee = it->second;
    } else if (const auto* func = call->op.as<FunctionNode>()) {
      if (func->attrs->dict.contains(attr::kComposite)) callee = GetRef<Function>(func);
    }
    if (!callee.defined()) return ExprMutator::VisitExpr_(call);
    Map<relay::Var, Expr> values;
    for (size_t i = 0; i < callee->params.size(); ++i) values.Set(callee->params[i], call->args[i]);
    return Mutate(relay::Bind(callee->body, values));
  }
  Expr VisitExpr_(const TupleGetItemNode* op) override {
    Expr result = ExprMutator::VisitExpr_(op);
    const auto* item = result.as<TupleGetItemNode>();
    const auto* tuple = item == nullptr ? nullptr : item->tuple.as<TupleNode>();
    return tuple == nullptr ? result : tuple->fields[static_cast<size_t>(item->index)];
  }
  Expr VisitExpr_(const FunctionNode* func) override {
    if (func->is_primitive() || func->attrs->dict.contains(attr::kCompiler)) return GetRef<Expr>(func);
    return ExprMutator::VisitExpr_(func);
  }

  std::map<std::string, Function> functions_;
};

std::string Join(const std::vector<std::string>& parts) {
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

/// Libraries are also called by the names of their packages.
std::string MeantCodegen(const std::string& name, const std::vector<std::string>& known) {
  const bool dnn = name == "onednn" || name == "oneDNN" || name == "mkldnn";
  const bool blas = name == "blas" || name == "openblas" || name == "mkl";
  return dnn ? "; did you mean 'dnnl'?" : blas ? "; did you mean 'cblas'?" : DidYouMean(name, known);
}

void CheckNames(const std::vector<std::string>& names) {
  std::vector<std::string> known = ListCodegens();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw TargetError(
          StrCat("unknown external code generator '", name, "'; there are: ", Join(known), MeantCodegen(name, known)));
    }
    const Codegen* codegen = FindCodegen(name);
    if (codegen == nullptr || !codegen->require) continue;
    try {
      codegen->require();
    } catch (const std::exception& error) {
      throw TargetError(StrCat("external code generator '", name, "' can't be used: ", error.what()));
    }
  }
}

/// Runs one step of a code generator; what it throws names it.
template <typename F>
auto Guard(const std::string& name, const char* what, F&& step) {
  try {
    return step();
  } catch (const std::exception& error) {
    throw Error(StrCat("external code generator '", name, "' failed in its ", what, ": ", error.what()));
  }
}

/// Operators of a region with their number: "nn.conv2d x 3, nn.relu x 2".
std::string Contents(const Function& region, int* count) {
  std::map<std::string, int> ops;
  relay::PostOrderVisit(region->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
    if (op != nullptr) ++ops[op->name], ++*count;
  });
  std::vector<std::string> parts;
  for (const auto& [name, number] : ops) parts.push_back(number == 1 ? name : StrCat(name, " x ", number));
  return Join(parts);
}

/// Why each code generator left a call to Treadle.
std::string Refusals(const CallNode* call, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    std::string reason;
    bool taken = Guard(name, "predicate", [&] { return relay::ExternalOpSupported(name, call, &reason); });
    if (taken) reason = "taken, but its region was taken back";
    text += StrCat(text.empty() ? "" : "; ", name, ": ", reason.empty() ? "refused" : reason);
  }
  return text;
}

class Reporter {
 public:
  Reporter(const std::vector<std::string>& names, const std::map<std::string, std::string>& taken_back)
      : names_(names), taken_back_(taken_back) {}

  PartitionReport Report(const IRModule& module) {
    std::string regions, kept;
    for (const auto& [var, base] : module->functions) {
      const auto* func = base.as<FunctionNode>();
      if (func == nullptr) continue;
      auto compiler = func->GetAttr<String>(attr::kCompiler);
      if (compiler) {
        int count = 0;
        std::string contents = Contents(GetRef<Function>(func), &count);
        regions += StrCat("region @", var->name_hint, " -> ", compiler->str(), ": ", contents, "\n");
        ++report_.regions;
        report_.offloaded += count;
      } else if (!func->is_primitive()) {
        kept += Kept(func);
      }
    }
    std::string returned;
    for (const auto& [symbol, reason] : taken_back_) returned += StrCat("taken back @", symbol, ": ", reason, "\n");
    report_.text = StrCat("# external code generators: ", Join(names_), "\n# ", report_.offloaded, " operators in ",
                          report_.regions, " regions, ", report_.kept, " with Treadle\n", regions, returned, kept);
    return report_;
  }

 private:
  std::string Kept(const FunctionNode* func) {
    std::string text;
    relay::PostOrderVisit(func->body, [&](const Expr& e) {
      const auto* call = e.as<CallNode>();
      const auto* op = call == nullptr ? nullptr : call->op.as<OpNode>();
      if (op == nullptr) return;
      ++report_.kept;
      text += StrCat("kept ", op->name, call->span.defined() ? " '" + call->span.str() + "'" : "", ": ",
                     Refusals(call, names_), "\n");
    });
    return text;
  }

  const std::vector<std::string>& names_;
  const std::map<std::string, std::string>& taken_back_;
  PartitionReport report_;
};

/// Calls the hook relay.ext.NAME.optimize on the module of the regions of each code generator.
IRModule OptimizeRegions(IRModule module, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    runtime::PackedFunc hook = runtime::Registry::Get(StrCat("relay.ext.", name, ".optimize"));
    if (!hook) continue;
    IRModule own = IRModule::Empty();
    for (const auto& [var, base] : module->functions) {
      auto compiler = base->GetAttr<String>(attr::kCompiler);
      if (compiler && *compiler == name) own.CopyOnWrite()->Add(var, base);
    }
    if (own->functions.empty()) continue;
    IRModule optimized = Guard(name, "optimize hook", [&] { return hook(own).As<IRModule>(); });
    for (const auto& [var, base] : optimized->functions) module.CopyOnWrite()->Add(var, base);
  }
  return module;
}

}  // namespace

IRModule TakeBack(IRModule module, const std::vector<std::string>& symbols) {
  std::map<std::string, Function> functions;
  for (const std::string& symbol : symbols) {
    functions.emplace(symbol, Downcast<Function>(module->Lookup(symbol)));
    module.CopyOnWrite()->Remove(module->GetGlobalVar(symbol));
  }
  IRModule result = module;
  for (const auto& [var, base] : module->functions) {
    const auto* func = base.as<FunctionNode>();
    if (func == nullptr || func->attrs->dict.contains(attr::kCompiler)) continue;
    Expr body = Restorer(functions).Mutate(func->body);
    if (body.same_as(func->body)) continue;
    Function restored = Downcast<Function>(base);
    restored.CopyOnWrite()->body = body;
    result.CopyOnWrite()->Add(var, restored);
  }
  return relay::transform::InferType()(result);
}

IRModule Partition(IRModule module, const std::vector<std::string>& names, const RegionJudge& judge,
                   PartitionReport* report) {
  CheckNames(names);
  Array<String> compilers;
  for (const std::string& name : names) {
    compilers.push_back(name);
    if (runtime::PackedFunc group = runtime::Registry::Get(StrCat("relay.ext.", name, ".patterns"))) {
      module = Guard(name, "patterns", [&] { return group(module).As<IRModule>(); });
    }
    const Codegen* codegen = FindCodegen(name);
    if (codegen == nullptr) continue;
    if (codegen->preprocess) module = Guard(name, "preprocessing", [&] { return codegen->preprocess()(module); });
    if (codegen->patterns) {
      module = Guard(name, "patterns", [&] { return relay::transform::MergeComposite(codegen->patterns())(module); });
    }
  }
  module = Guard(Join(names), "annotation", [&] { return relay::transform::AnnotateTarget(compilers)(module); });
  module = relay::transform::MergeCompilerRegions()(module);
  module = relay::transform::PartitionGraph()(module);
  module = OptimizeRegions(module, names);

  std::map<std::string, std::string> taken_back;
  std::vector<std::string> symbols;
  for (const auto& [var, base] : module->functions) {
    auto compiler = base->GetAttr<String>(attr::kCompiler);
    if (!compiler || base.as<FunctionNode>() == nullptr) continue;
    if (std::find(names.begin(), names.end(), compiler->str()) == names.end()) continue;  // partitioned before
    Function region = Downcast<Function>(base);
    const Codegen* codegen = FindCodegen(compiler->str());
    std::string reason;
    if (codegen != nullptr && codegen->refuse) {
      reason = Guard(compiler->str(), "check of a region", [&] { return codegen->refuse(region); });
      if (!reason.empty()) reason = compiler->str() + ": " + reason;
    }
    if (reason.empty() && judge) reason = judge(region);
    if (reason.empty()) continue;
    taken_back.emplace(var->name_hint, reason);
    symbols.push_back(var->name_hint);
  }
  module = TakeBack(module, symbols);
  if (report != nullptr) *report = Reporter(names, taken_back).Report(module);
  return module;
}

}  // namespace treadle::external
