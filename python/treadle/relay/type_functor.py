# SPDX-License-Identifier: Apache-2.0
"""Visiting and rewriting types in Python."""
from __future__ import annotations

from typing import Any

from ..ir import (FuncType, GlobalTypeVar, IncompleteType, RelayRefType, TensorType, TupleType, TypeCall, TypeData,
                  TypeVar)

_METHODS = {TypeVar: "visit_type_var", IncompleteType: "visit_incomplete_type", TensorType: "visit_tensor_type",
            FuncType: "visit_func_type", TupleType: "visit_tuple_type", RelayRefType: "visit_ref_type",
            GlobalTypeVar: "visit_global_type_var", TypeCall: "visit_type_call", TypeData: "visit_type_data"}


class TypeFunctor:
    """Dispatches on the kind of a type to visit_tensor_type, visit_func_type, ..."""

    def visit(self, typ: Any) -> Any:
        """What the method of the type's kind gives."""
        method = _METHODS.get(type(typ))
        if method is None:
            raise TypeError(f"no visit method for {type(typ).__name__}")
        return getattr(self, method)(typ)

    def _unhandled(self, typ):
        raise NotImplementedError(f"{type(self).__name__} doesn't handle {type(typ).__name__}")

    (visit_type_var, visit_incomplete_type, visit_tensor_type, visit_func_type, visit_tuple_type, visit_ref_type,
     visit_global_type_var, visit_type_call, visit_type_data) = (_unhandled,) * 9


class TypeVisitor(TypeFunctor):
    """Visits all types within one."""

    def visit_type_var(self, tv: Any) -> Any:
        pass

    visit_incomplete_type = visit_tensor_type = visit_global_type_var = visit_type_var

    def visit_func_type(self, ft: Any) -> Any:
        for each in [*ft.arg_types, ft.ret_type, *ft.type_params]:
            self.visit(each)

    def visit_tuple_type(self, tt: Any) -> Any:
        for each in tt.fields:
            self.visit(each)

    def visit_ref_type(self, rt: Any) -> Any:
        self.visit(rt.value)

    def visit_type_call(self, tc: Any) -> Any:
        for each in [tc.func, *tc.args]:
            self.visit(each)

    def visit_type_data(self, td: Any) -> Any:
        for each in [td.header, *td.type_vars]:
            self.visit(each)
        for constructor in td.constructors:
            for each in constructor.inputs:
                self.visit(each)


class TypeMutator(TypeFunctor):
    """Rewrites types bottom-up."""

    def visit_type_var(self, tv: Any) -> Any:
        return tv

    visit_incomplete_type = visit_tensor_type = visit_global_type_var = visit_type_data = visit_type_var

    def visit_func_type(self, ft: Any) -> Any:
        return FuncType([self.visit(each) for each in ft.arg_types], self.visit(ft.ret_type),
                        [self.visit(each) for each in ft.type_params], ft.type_constraints)

    def visit_tuple_type(self, tt: Any) -> Any:
        return TupleType([self.visit(each) for each in tt.fields])

    def visit_ref_type(self, rt: Any) -> Any:
        return RelayRefType(self.visit(rt.value))

    def visit_type_call(self, tc: Any) -> Any:
        return TypeCall(self.visit(tc.func), [self.visit(each) for each in tc.args])
