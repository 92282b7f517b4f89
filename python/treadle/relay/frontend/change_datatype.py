# SPDX-License-Identifier: Apache-2.0
"""Whole models in another element type."""
from typing import Any

from ... import relay
from ...relay import transform
from ..expr_functor import ExprMutator


@transform.function_pass(opt_level=0)
class ChangeDatatype(ExprMutator):
    """Writes `dst` in place of the element type `src`: in types of variables, in attributes named dtype, and as casts
    of constants. As a pass, or `ChangeDatatype("float32", "custom[myfloat]32").visit(function)`."""

    def __init__(self, src: Any, dst: Any) -> None:
        super().__init__()
        self.src, self.dst = str(src), str(dst)

    def transform_function(self, func: Any, mod: Any, ctx: Any) -> Any:
        """Of a pass."""
        return self.visit(func)

    def _type(self, given):
        if isinstance(given, relay.TensorType) and str(given.dtype) == self.src:
            return relay.TensorType(given.shape, self.dst)
        if isinstance(given, relay.TupleType):
            return relay.TupleType([self._type(field) for field in given.fields])
        return given

    def visit_constant(self, const: Any) -> Any:
        return const.astype(self.dst) if str(const.data.dtype) == self.src else const

    def visit_function(self, fn: Any) -> Any:
        ret_type = self._type(fn.ret_type) if fn.ret_type is not None else None
        return relay.Function([self.visit(p) for p in fn.params], self.visit(fn.body), ret_type, fn.type_params,
                              fn.attrs)

    def visit_var(self, var: Any) -> Any:
        annotation = var.type_annotation
        changed = self._type(annotation) if annotation is not None else None
        return var if changed is annotation else relay.var(var.name_hint, changed)
