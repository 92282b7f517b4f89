// SPDX-License-Identifier: Apache-2.0
// Nodes of the graph IR.
#include "python/checked.h"
#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::python {

using runtime::Registry;

void RegisterRelayApi() {
  using namespace relay;  // NOLINT(google-build-using-namespace): this function lists most of it
  RegisterChecked("relay.ir.Constant", [](NDArray data) { return Constant(data); });
  RegisterChecked("relay.ir.Var", [](std::string name, OrNull<Type> type) { return Var(name, type); });
  RegisterChecked("relay.ir.Tuple", [](Array<Expr> fields, Span span) { return Tuple(fields, span); });
  RegisterChecked("relay.ir.TupleGetItem",
                  [](Expr tuple, int index, Span span) { return TupleGetItem(tuple, index, span); });
  RegisterChecked("relay.ir.Call", [](Expr op, Array<Expr> args, Attrs attrs, Array<Type> type_args, Span span) {
    return Call(op, args, attrs, type_args, span);
  });
  RegisterChecked("relay.ir.Let",
                  [](Var var, Expr value, Expr body, Span span) { return Let(var, value, body, span); });
  RegisterChecked("relay.ir.If",
                  [](Expr cond, Expr then, Expr otherwise, Span span) { return If(cond, then, otherwise, span); });
  RegisterChecked("relay.ir.RefCreate", [](Expr value) { return RefCreate(value); });
  RegisterChecked("relay.ir.RefRead", [](Expr ref) { return RefRead(ref); });
  RegisterChecked("relay.ir.RefWrite", [](Expr ref, Expr value) { return RefWrite(ref, value); });
  RegisterChecked("relay.ir.Function", [](Array<Var> params, Expr body, OrNull<Type> ret, Array<TypeVar> type_params,
                                          Map<String, ObjectRef> attrs, Span span) {
    return Function(params, body, ret, type_params, DictAttrs(attrs), span);
  });
  RegisterChecked("relay.ir.FunctionWithAttr",
                  [](Function func, std::string key, ObjectRef value) { return WithAttr(func, key, value); });
  RegisterChecked("relay.ir.TempExprRealize", [](TempExpr temp) { return temp->Realize(); });
  RegisterChecked("relay.ir.PatternWildcard", [] { return PatternWildcard(Span()); });
  RegisterChecked("relay.ir.PatternVar", [](Var var) { return PatternVar(var); });
  RegisterChecked("relay.ir.PatternConstructor", [](Constructor constructor, Array<Pattern> patterns) {
    return PatternConstructor(constructor, patterns);
  });
  RegisterChecked("relay.ir.PatternTuple", [](Array<Pattern> patterns) { return PatternTuple(patterns); });
  RegisterChecked("relay.ir.Clause", [](Pattern lhs, Expr rhs) { return Clause(lhs, rhs); });
  RegisterChecked("relay.ir.Match",
                  [](Expr data, Array<Clause> clauses, bool complete) { return Match(data, clauses, complete); });
}

}  // namespace treadle::python
