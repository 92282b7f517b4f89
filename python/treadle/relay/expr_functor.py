# SPDX-License-Identifier: Apache-2.0
"""Visiting and rewriting expressions in Python.

The walks below recurse, so that a subclass's methods call each other as it likes; their depth is Python's. For deep
graphs there is post_order_visit, and MixedModeVisitor and MixedModeMutator, which walk data flow without recursion.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ffi import get_global_func
from ..ir import Constructor, GlobalVar, Op
from .expr import (Call, Clause, Constant, Expr, Function, If, Let, Match, PatternConstructor, PatternTuple, PatternVar,
                   PatternWildcard, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var)

_METHODS = {Function: "visit_function", Call: "visit_call", Let: "visit_let", Var: "visit_var",
            GlobalVar: "visit_global_var", If: "visit_if", Tuple: "visit_tuple", TupleGetItem: "visit_tuple_getitem",
            Constant: "visit_constant", Op: "visit_op", RefCreate: "visit_ref_create", RefRead: "visit_ref_read",
            RefWrite: "visit_ref_write", Constructor: "visit_constructor", Match: "visit_match"}


class ExprFunctor:
    """Dispatches on the kind of an expression to visit_call, visit_let, ...; each object is visited once."""

    def __init__(self) -> None:
        self.memo_map: dict[Expr, Any] = {}

    def visit(self, expr: Expr) -> Any:
        """What the method of the expression's kind gives; remembered."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        method = _METHODS.get(type(expr))
        if method is None:
            raise TypeError(f"no visit method for {type(expr).__name__}")
        result = getattr(self, method)(expr)
        self.memo_map[expr] = result
        return result

    def _unhandled(self, expr: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} doesn't handle {type(expr).__name__}")

    (visit_function, visit_call, visit_let, visit_var, visit_global_var, visit_if, visit_tuple, visit_tuple_getitem,
     visit_constant, visit_op, visit_ref_create, visit_ref_read, visit_ref_write, visit_constructor,
     visit_match) = (_unhandled,) * 15


class ExprVisitor(ExprFunctor):
    """Visits all expressions below one, operands in order."""

    def visit_tuple(self, tup: Tuple) -> Any:
        for field in tup.fields:
            self.visit(field)

    def visit_call(self, call: Call) -> Any:
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_var(self, expr: Any) -> Any:
        pass

    visit_global_var = visit_constant = visit_op = visit_constructor = visit_var

    def visit_let(self, let: Let) -> Any:
        self.visit(let.var)
        self.visit(let.value)
        self.visit(let.body)

    def visit_function(self, func: Function) -> Any:
        for param in func.params:
            self.visit(param)
        self.visit(func.body)

    def visit_if(self, if_: If) -> Any:
        self.visit(if_.cond)
        self.visit(if_.true_branch)
        self.visit(if_.false_branch)

    def visit_tuple_getitem(self, item: TupleGetItem) -> Any:
        self.visit(item.tuple_value)

    def visit_ref_create(self, ref: RefCreate) -> Any:
        self.visit(ref.value)

    def visit_ref_read(self, ref: RefRead) -> Any:
        self.visit(ref.ref)

    def visit_ref_write(self, ref: RefWrite) -> Any:
        self.visit(ref.ref)
        self.visit(ref.value)

    def visit_match(self, match: Match) -> Any:
        self.visit(match.data)
        for clause in match.clauses:
            self.visit(clause.rhs)


def _same(old, new):
    return len(old) == len(new) and all(a.same_as(b) for a, b in zip(old, new))


class ExprMutator(ExprFunctor):
    """Rewrites bottom-up: a method gives what stands for its expression. What didn't change stays the same object."""

    def visit_function(self, func: Function) -> Any:
        params = [self.visit(param) for param in func.params]
        body = self.visit(func.body)
        if _same(func.params, params) and body.same_as(func.body):
            return func
        return Function(params, body, func.ret_type, func.type_params, func.attrs)

    def visit_let(self, let: Let) -> Any:
        var, value, body = self.visit(let.var), self.visit(let.value), self.visit(let.body)
        if _same((let.var, let.value, let.body), (var, value, body)):
            return let
        return Let(var, value, body)

    def visit_call(self, call: Call) -> Any:
        op, args = self.visit(call.op), [self.visit(arg) for arg in call.args]
        if op.same_as(call.op) and _same(call.args, args):
            return call
        return Call(op, args, call.attrs, call.type_args, call.span)

    def visit_var(self, var: Var) -> Any:
        return var

    def visit_global_var(self, gvar: GlobalVar) -> Any:
        return gvar

    def visit_constant(self, const: Constant) -> Any:
        return const

    def visit_op(self, op: Op) -> Any:
        return op

    def visit_constructor(self, constructor: Constructor) -> Any:
        return constructor

    def visit_if(self, if_: If) -> Any:
        parts = (if_.cond, if_.true_branch, if_.false_branch)
        made = tuple(map(self.visit, parts))
        return if_ if _same(parts, made) else If(*made)

    def visit_tuple(self, tup: Tuple) -> Any:
        fields = [self.visit(field) for field in tup.fields]
        return tup if _same(tup.fields, fields) else Tuple(fields, tup.span)

    def visit_tuple_getitem(self, item: TupleGetItem) -> Any:
        value = self.visit(item.tuple_value)
        return item if value.same_as(item.tuple_value) else TupleGetItem(value, item.index, item.span)

    def visit_ref_create(self, ref: RefCreate) -> Any:
        value = self.visit(ref.value)
        return ref if value.same_as(ref.value) else RefCreate(value)

    def visit_ref_read(self, read: RefRead) -> Any:
        ref = self.visit(read.ref)
        return read if ref.same_as(read.ref) else RefRead(ref)

    def visit_ref_write(self, write: RefWrite) -> Any:
        ref, value = self.visit(write.ref), self.visit(write.value)
        return write if _same((write.ref, write.value), (ref, value)) else RefWrite(ref, value)

    def visit_match(self, match: Match) -> Any:
        data = self.visit(match.data)
        clauses = [Clause(self.visit_pattern(clause.lhs), self.visit(clause.rhs)) for clause in match.clauses]
        same = data.same_as(match.data) and all(
            new.lhs.same_as(old.lhs) and new.rhs.same_as(old.rhs) for old, new in zip(match.clauses, clauses))
        return match if same else Match(data, clauses, match.complete)

    def visit_pattern(self, pattern: Any) -> Any:
        """The pattern of a clause; its variables go through visit."""
        if isinstance(pattern, PatternWildcard):
            return pattern
        if isinstance(pattern, PatternVar):
            var = self.visit(pattern.var)
            return pattern if var.same_as(pattern.var) else PatternVar(var)
        inner = [self.visit_pattern(each) for each in pattern.patterns]
        if _same(pattern.patterns, inner):
            return pattern
        if isinstance(pattern, PatternConstructor):
            return PatternConstructor(pattern.constructor, inner)
        return PatternTuple(inner)


def _data_flow_children(expr):
    if isinstance(expr, Call):
        return [expr.op, *expr.args]
    if isinstance(expr, Tuple):
        return list(expr.fields)
    if isinstance(expr, TupleGetItem):
        return [expr.tuple_value]
    return []


def _visit_data_flow(functor, expr, visit):
    """Visits what an expression depends on through calls, tuples and projections before it, without recursion."""
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if node in functor.memo_map:
            continue
        children = [] if ready else [child for child in _data_flow_children(node) if child not in functor.memo_map]
        if children:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children))
        else:
            visit(node)
    return functor.memo_map[expr]


class MixedModeVisitor(ExprVisitor):
    """An ExprVisitor that walks data flow of any depth."""

    def visit(self, expr: Expr) -> Any:
        return _visit_data_flow(self, expr, super().visit)


class MixedModeMutator(ExprMutator):
    """An ExprMutator that walks data flow of any depth. Subclasses override rewrite_call, rewrite_tuple and
    rewrite_tuple_getitem: they get the expression and its copy with rewritten operands."""

    def visit(self, expr: Expr) -> Any:
        return _visit_data_flow(self, expr, super().visit)

    def visit_call(self, call: Call) -> Any:
        return self.rewrite_call(call, super().visit_call(call))

    def visit_tuple(self, tup: Tuple) -> Any:
        return self.rewrite_tuple(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, item: TupleGetItem) -> Any:
        return self.rewrite_tuple_getitem(item, super().visit_tuple_getitem(item))

    def rewrite_call(self, pre: Any, post: Any) -> Any:
        return post

    rewrite_tuple = rewrite_tuple_getitem = rewrite_call


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], Any]) -> None:
    """Calls `fvisit` with each expression once, operands first."""
    return get_global_func("relay.analysis.post_order_visit")(expr, fvisit)
