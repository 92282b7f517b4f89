# SPDX-License-Identifier: Apache-2.0
"""What writers of importers ask of expressions."""
from collections.abc import Callable
from typing import Any

from ...error import ShapeError
from ...ir import IRModule, Op, TensorType
from .. import transform
from ..analysis import free_vars
from ..build_module import create_executor
from ..expr import Function, var


def new_var(name_hint: str, type_annotation: Any = None, shape: Any = None, dtype: str = "float32") -> Any:
    """A variable."""
    return var(name_hint, type_annotation, shape, dtype)


def infer_type(node: Any, mod: IRModule | None = None) -> Any:
    """The expression with its types found; `mod` has the functions that it calls."""
    module = IRModule.from_expr(node)
    if mod is not None:
        module.update(IRModule({name: func for name, func in mod.functions.items() if name.name_hint != "main"},
                               dict(mod.type_definitions.items())))
    entry = transform.InferType()(module)["main"]
    return entry if isinstance(node, Function) else entry.body


def _tensor_type(node, mod):
    found = infer_type(node, mod).checked_type
    if not isinstance(found, TensorType):
        raise ShapeError(f"expected a tensor, but the expression is a {found}")
    return found


def infer_shape(inputs: Any, mod: IRModule | None = None) -> tuple[Any, ...]:
    """The dimensions of a tensor: ints where they are known."""
    return tuple(int(dim) if isinstance(getattr(dim, "value", None), int) else dim
                 for dim in _tensor_type(inputs, mod).shape)


def infer_channels(inputs: Any, transpose: bool = False) -> Any:
    """How many channels a convolution's weight OIHW makes; transposed, IOHW."""
    return infer_shape(inputs)[1 if transpose else 0]


def infer_value(input_val: Any, params: Any = None, mod: IRModule | None = None) -> Any:
    """The value of an expression whose variables are in `params`, as a tensor."""
    func = Function(list(free_vars(input_val)), input_val)
    module = IRModule.from_expr(func)
    if mod is not None:
        module.update(IRModule({name: each for name, each in mod.functions.items() if name.name_hint != "main"}))
    values = [params[param.name_hint] for param in module["main"].params]
    return create_executor("debug", mod=module).evaluate()(*values)


def get_relay_op(op_name: str) -> Callable[..., Any]:
    """The function that makes calls of an operator: relay.op_name or relay.nn.op_name."""
    from .. import op as operators

    if "." in op_name:
        space, _, name = op_name.rpartition(".")
        return getattr(getattr(operators, space), name)
    for family in (operators, operators.nn, operators.image, operators.vision):
        try:
            return getattr(family, op_name)
        except AttributeError:
            continue
    raise AttributeError(f"there is no operator {op_name}; there are {len(Op.list_op_names())} others")
