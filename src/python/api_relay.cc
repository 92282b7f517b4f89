// SPDX-License-Identifier: Apache-2.0
// Nodes of the graph IR.
#include "python/api.h"
#include "treadle/ir/op.h"
#include "treadle/relay/expr.h"

namespace treadle::python {

using runtime::Registry;

void RegisterRelayApi() {
  using namespace relay;  // NOLINT(google-build-using-namespace): this function lists most of it
  Registry::RegisterTyped("relay.ir.Constant", [](NDArray data) { return Constant(data); });
  Registry::RegisterTyped("relay.ir.Var", [](std::string name, Type type) { return Var(name, type); });
  Registry::RegisterTyped("relay.ir.Tuple", [](Array<Expr> fields, Span span) { return Tuple(fields, span); });
  Registry::RegisterTyped("relay.ir.TupleGetItem",
                          [](Expr tuple, int index, Span span) { return TupleGetItem(tuple, index, span); });
  Registry::RegisterTyped("relay.ir.Call", [](Expr op, Array<Expr> args, Attrs attrs, Array<Type> type_args,
                                              Span span) { return Call(op, args, attrs, type_args, span); });
  Registry::RegisterTyped("relay.ir.Let",
                          [](Var var, Expr value, Expr body, Span span) { return Let(var, value, body, span); });
  Registry::RegisterTyped(
      "relay.ir.If", [](Expr cond, Expr then, Expr otherwise, Span span) { return If(cond, then, otherwise, span); });
  Registry::RegisterTyped("relay.ir.RefCreate", [](Expr value) { return RefCreate(value); });
  Registry::RegisterTyped("relay.ir.RefRead", [](Expr ref) { return RefRead(ref); });
  Registry::RegisterTyped("relay.ir.RefWrite", [](Expr ref, Expr value) { return RefWrite(ref, value); });
  Registry::RegisterTyped("relay.ir.Function", [](Array<Var> params, Expr body, Type ret, Array<TypeVar> type_params,
                                                  Map<String, ObjectRef> attrs, Span span) {
    return Function(params, body, ret, type_params, DictAttrs(attrs), span);
  });
  Registry::RegisterTyped("relay.ir.FunctionWithAttr",
                          [](Function func, std::string key, ObjectRef value) { return WithAttr(func, key, value); });
  Registry::RegisterTyped("relay.ir.TempExprRealize", [](TempExpr temp) { return temp->Realize(); });
  Registry::RegisterTyped("relay.ir.PatternWildcard", [] { return PatternWildcard(Span()); });
  Registry::RegisterTyped("relay.ir.PatternVar", [](Var var) { return PatternVar(var); });
  Registry::RegisterTyped("relay.ir.PatternConstructor", [](Constructor constructor, Array<Pattern> patterns) {
    return PatternConstructor(constructor, patterns);
  });
  Registry::RegisterTyped("relay.ir.PatternTuple", [](Array<Pattern> patterns) { return PatternTuple(patterns); });
  Registry::RegisterTyped("relay.ir.Clause", [](Pattern lhs, Expr rhs) { return Clause(lhs, rhs); });
  Registry::RegisterTyped(
      "relay.ir.Match", [](Expr data, Array<Clause> clauses, bool complete) { return Match(data, clauses, complete); });
}

}  // namespace treadle::python
