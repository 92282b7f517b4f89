# SPDX-License-Identifier: Apache-2.0
"""Types of expressions while functions of operators build others around them."""
from ...ir import IntImm, IRModule, TensorType
from ..expr import Function, TupleWrapper, as_expr


def tensor_type(value):
    """The TensorType of an expression, inferred where it isn't known."""
    from ..analysis import free_vars
    from ..transform import InferType

    if isinstance(value, TupleWrapper):
        value = value.astuple()
    expr = as_expr(value)
    kind = getattr(expr, "_checked_type_", None) or getattr(expr, "type_annotation", None)
    if kind is None:
        kind = InferType()(IRModule.from_expr(Function(free_vars(expr), expr)))["main"].ret_type
    if not isinstance(kind, TensorType):
        raise TypeError(f"expected a tensor, not a value of type {kind}")
    return kind


def static_shape(value, what):
    """The dimensions of an expression as integers; a ValueError naming `what` where one isn't known."""
    shape = tensor_type(value).shape
    if not all(isinstance(dim, IntImm) for dim in shape):
        raise ValueError(f"{what} needs a tensor of known shape, not {tensor_type(value)}")
    return [int(dim) for dim in shape]


def dtype_of(value):
    """The element type of an expression, as text."""
    return str(tensor_type(value).dtype)
