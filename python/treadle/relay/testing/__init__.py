# SPDX-License-Identifier: Apache-2.0
"""Networks for tests, written with the graph IR's operators, and helpers of tests."""
from typing import Any

import numpy as np

from ...ir import IRModule
from ...testing import enabled_targets  # noqa: F401
from .. import transform
from ..analysis import list_op_freqs
from ..prelude import Prelude  # noqa: F401
from ..transform import gradient  # noqa: F401
from ..expr import Function
from . import (dcgan, densenet, dqn, inception_v3, init, layers, lstm, mlp, mobilenet, nat, resnet, squeezenet, temp_op_attr,
               vgg)
from .init import create_workload
from .py_converter import run_as_python, to_python
from .nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from .temp_op_attr import TempOpAttr


def run_opt_pass(expr: Any, opt_pass: Any, import_prelude: bool = False) -> Any:
    """What a pass makes of an expression: its types are inferred before."""
    passes = [transform.InferType(), *(opt_pass if isinstance(opt_pass, (list, tuple)) else [opt_pass])]
    module = IRModule.from_expr(expr)
    if import_prelude:
        module.update(prelude())
    with transform.PassContext(opt_level=3):
        for each in passes:
            module = each(module)
    entry = module["main"]
    return entry if isinstance(expr, Function) else entry.body


def count_ops(expr: Any) -> Any:
    """How often each operator is called: a dict from names."""
    return list_op_freqs(expr)


def run_infer_type(expr: Any) -> Any:
    """The expression with its types inferred."""
    return run_opt_pass(expr, transform.InferType())


def prelude() -> Any:
    """A module with lists, options and trees, and functions on them."""
    from ..._ffi import get_global_func

    return get_global_func("relay.Prelude")()


def rand(dtype: str, *shape: Any) -> Any:
    """Random numbers in [0, 1) as a tensor."""
    from ... import nd

    return nd.array(np.random.rand(*shape).astype(dtype))


def check_grad(func: Function, inputs: Any = None, test_inputs: Any = None, eps: float = 1e-6, atol: float = 1e-5,
               rtol: float = 1e-3, scale: float | None = None, mean: float = 0, mode: str = "first_order",
               target_devices: Any = None, executor_kind: str = "debug") -> None:
    """Compares the gradient of a function with the differences of its values, in float64 or the parameters' types."""
    from .. import create_executor, gradient

    module = transform.InferType()(IRModule.from_expr(func))
    forward = module["main"]
    backward = transform.InferType()(IRModule.from_expr(gradient(forward, mode=mode)))
    if inputs is None:
        scale = 1 if scale is None else scale
        inputs = [scale * (np.random.normal(size=param.checked_type.concrete_shape) + mean) for param in forward.params]
        inputs = [value.astype(str(param.checked_type.dtype)) for value, param in zip(inputs, forward.params)]
    test_inputs = inputs if test_inputs is None else test_inputs
    run = create_executor("debug", mod=module).evaluate()
    _, grads = create_executor("debug", mod=backward).evaluate()(*inputs)
    for value, grad in zip(inputs, grads):
        if not any(value is checked for checked in test_inputs):
            continue
        wanted = np.zeros(value.shape)
        for index in np.ndindex(*value.shape):
            moved = [np.array(x) for x in inputs]
            place = next(i for i, x in enumerate(inputs) if x is value)
            moved[place][index] = value[index] + eps
            plus = run(*moved).numpy().astype("float64").sum()
            moved[place][index] = value[index] - eps
            minus = run(*moved).numpy().astype("float64").sum()
            wanted[index] = (plus - minus) / (2 * eps)
        np.testing.assert_allclose(grad.numpy(), wanted, atol=atol, rtol=rtol)
