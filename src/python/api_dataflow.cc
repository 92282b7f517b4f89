// SPDX-License-Identifier: Apache-2.0
// Patterns of data flow.
#include "python/checked.h"
#include "treadle/relay/byoc.h"
#include "treadle/relay/dataflow_pattern.h"

namespace treadle::python {
namespace {

using namespace relay;  // NOLINT(google-build-using-namespace): this file lists most of it
using runtime::PackedFunc;
using runtime::Registry;

std::vector<DFPattern> ToVector(const Array<DFPattern>& patterns) { return {patterns.begin(), patterns.end()}; }

std::function<bool(const Expr&)> ToCheck(const PackedFunc& check) {
  if (check == nullptr) return nullptr;
  return [check](const Expr& expr) { return check(expr).As<bool>(); };
}

void RegisterPatterns() {
  const std::string prefix = "relay.dataflow_pattern.";
  RegisterChecked(prefix + "ExprPattern", [](Expr expr) { return IsExpr(expr); });
  RegisterChecked(prefix + "OpPattern", [](std::string name) { return IsOp(name); });
  RegisterChecked(prefix + "VarPattern", [](std::string name) { return IsVar(name); });
  RegisterChecked(prefix + "ConstantPattern", [] { return IsConstant(); });
  RegisterChecked(prefix + "WildcardPattern", [] { return Wildcard(); });
  RegisterChecked(prefix + "CallPattern", [](DFPattern op, Array<DFPattern> args) { return op(ToVector(args)); });
  RegisterChecked(prefix + "CallOfAny", [](DFPattern op) { return CallOfAny(op); });
  RegisterChecked(prefix + "FunctionPattern",
                  [](Array<DFPattern> params, DFPattern body) { return IsFunction(ToVector(params), body); });
  RegisterChecked(prefix + "FunctionOfAny", [](DFPattern body) { return IsFunctionOfAny(body); });
  RegisterChecked(prefix + "LetPattern",
                  [](DFPattern var, DFPattern value, DFPattern body) { return IsLet(var, value, body); });
  RegisterChecked(prefix + "IfPattern",
                  [](DFPattern cond, DFPattern then, DFPattern otherwise) { return IsIf(cond, then, otherwise); });
  RegisterChecked(prefix + "TuplePattern", [](Array<DFPattern> fields) { return IsTuple(ToVector(fields)); });
  RegisterChecked(prefix + "AnyTuplePattern", [] { return IsAnyTuple(); });
  RegisterChecked(prefix + "TupleGetItemPattern",
                  [](DFPattern tuple, int index) { return IsTupleGetItem(tuple, index); });
  RegisterChecked(prefix + "AltPattern", [](DFPattern left, DFPattern right) { return left | right; });
  RegisterChecked(prefix + "TypePattern", [](DFPattern pattern, Type type) { return pattern.HasType(type); });
  RegisterChecked(prefix + "ShapePattern",
                  [](DFPattern pattern, Array<PrimExpr> shape) { return pattern.HasShape(shape); });
  RegisterChecked(prefix + "DataTypePattern",
                  [](DFPattern pattern, DataType dtype) { return pattern.HasDtype(dtype); });
  RegisterChecked(prefix + "AttrPattern",
                  [](DFPattern pattern, Map<String, ObjectRef> attrs) { return pattern.HasAttr(attrs); });
  RegisterChecked(prefix + "DominatorPattern",
                  [](DFPattern parent, DFPattern path, DFPattern child) { return Dominates(parent, path, child); });
}

/// Entries of the table: name, pattern, check or null.
treadle::transform::Pass MergeComposites(Array<String> names, Array<DFPattern> patterns, Array<ObjectRef> checks) {
  std::vector<CompositePattern> table;
  for (size_t i = 0; i < names.size(); ++i) {
    std::function<bool(const CallNode*)> check;
    if (checks[i].as<runtime::PackedFuncNode>() != nullptr) {
      const PackedFunc accepts(checks[i].data());
      check = [accepts](const CallNode* call) { return accepts(GetRef<Call>(call)).As<bool>(); };
    }
    table.emplace_back(names[i].str(), patterns[i], check);
  }
  return relay::transform::MergeComposite(table);
}

}  // namespace

void RegisterDataflowApi() {
  RegisterPatterns();
  RegisterChecked("relay.dataflow_pattern.match",
                  [](DFPattern pattern, Expr expr) { return MatchPattern(pattern, expr); });
  RegisterChecked("relay.dataflow_pattern.partition",
                  [](DFPattern pattern, Expr expr, Map<String, ObjectRef> attrs, OrNull<PackedFunc> check) {
                    return PartitionPattern(pattern, expr, attrs, ToCheck(check));
                  });
  RegisterChecked("relay.dataflow_pattern.rewrite",
                  [](Array<DFPattern> patterns, Array<ObjectRef> functions, Array<IntImm> require_type,
                     Array<IntImm> rewrite_once, Expr expr, OrNull<IRModule> module) {
                    std::vector<DFPatternCallback> callbacks;
                    for (size_t i = 0; i < patterns.size(); ++i) {
                      const PackedFunc rewrite(functions[i].data());
                      DFPatternCallback callback;
                      callback.pattern = patterns[i];
                      callback.require_type = require_type[i]->value != 0;
                      callback.rewrite_once = rewrite_once[i]->value != 0;
                      callback.rewrite = [rewrite](const Expr& pre, const Expr& post, const DFMatch& match) {
                        return rewrite(pre, post, match).As<Expr>();
                      };
                      callbacks.push_back(std::move(callback));
                    }
                    return RewritePatterns(callbacks, expr, module);
                  });
  RegisterChecked("relay._transform.MergeCompositeTable", &MergeComposites);
}

}  // namespace treadle::python
