# SPDX-License-Identifier: Apache-2.0
"""The compile engine under its newer name, and the choice between the implementations of an operator."""
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..._ffi import Api
from ...error import Error
from ...ir import Attrs, Op
from ...target import Target
from ...te import Tensor, create_schedule
from ..expr import Call, Function, Tuple, var
from ..op.strategy import OpImplementation, OpStrategy, _why_not
from .compile_engine import CCacheKey, CCacheValue, CompileEngine, get

TECompiler = CompileEngine
_topi = Api("topi")


class LoweredOutput(NamedTuple):
    """What lower_call gives: the results as tensor expressions, and the implementation they come from."""
    outputs: list[Any]
    implement: OpImplementation


def _own(op, target):
    """Treadle's own compute of an operator as an implementation."""

    def compute(attrs, inputs, _out_type):
        params = [var(f"p{i}", shape=list(tensor.shape), dtype=str(tensor.dtype)) for i, tensor in enumerate(inputs)]

        def called(args):
            return list(_topi.Compute(Function(params, Call(op, args, attrs)), inputs, str(target)))

        if op.num_inputs != 1:
            return called(params)
        try:
            return called(params) if len(params) == 1 else called([Tuple(params)])
        except Error:
            if len(params) != 1:
                raise
            return called([Tuple(params)])  # an operator of a tuple, of one tensor

    def schedule(_attrs, outs, _target):
        return create_schedule([out.op for out in outs])

    return OpImplementation(compute, schedule, f"{op.name}.generic", 10)


def _checked(op, attrs, inputs, target):
    op = Op.get(op) if isinstance(op, str) else op
    if not isinstance(op, Op):
        raise TypeError(f"expected an operator or its name, not {op!r}")
    if attrs is not None and not isinstance(attrs, Attrs):
        raise TypeError(f"attrs of {op.name}: expected Attrs, not {attrs!r}")
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) or hasattr(inputs, "__len__") else [inputs]
    wrong = next((tensor for tensor in inputs if not isinstance(tensor, Tensor)), None)
    if wrong is not None or not inputs:
        raise TypeError(f"inputs of {op.name}: expected tensor expressions, not {wrong!r}")
    return op, inputs, target if isinstance(target, Target) else Target(target or Target.current() or "llvm")


def get_valid_implementations(op: Any, attrs: Any, inputs: Sequence[Tensor], out_type: Any,
                              target: Any) -> list[OpImplementation]:
    """The implementations of a call that can be used for these inputs: those of the operator's strategy
    (register_strategy), then Treadle's own, of level 10, unless the strategy has one of its name."""
    op, inputs, target = _checked(op, attrs, inputs, target)
    found = []
    strategy = op.get_attr("FTVMStrategy")
    if strategy is not None:
        with target:
            made = strategy(attrs, inputs, out_type, target)
        if not isinstance(made, OpStrategy):
            raise TypeError(f"the strategy of {op.name} returned {made!r}; expected an OpStrategy")
        found = [implementation for each in made.specializations if not _why_not(each.condition)
                 for implementation in each.implementations]
    own = _own(op, target)
    return found if any(each.name == own.name for each in found) else [*found, own]


def select_implementation(op: Any, attrs: Any, inputs: Sequence[Tensor], out_type: Any, target: Any,
                          use_autotvm: bool = True) -> tuple[OpImplementation, list[Tensor]]:
    """The implementation of the highest level, the first of equal ones, and its results for these inputs. Tuned kernels are
    a matter of the schedules of a target, whatever `use_autotvm`: relay.build takes them from records."""
    del use_autotvm
    op, inputs, target = _checked(op, attrs, inputs, target)
    best = max(get_valid_implementations(op, attrs, inputs, out_type, target), key=lambda each: each.plevel)
    with target:
        return best, best.compute(attrs, inputs, out_type)


def lower_call(call: Call, inputs: Sequence[Tensor], target: Any) -> LoweredOutput:
    """A call of an operator, of known type, as tensor expressions of its inputs."""
    if not isinstance(call, Call) or not isinstance(call.op, Op):
        raise TypeError(f"lower_call: expected a call of an operator, not {call!r}")
    best, outputs = select_implementation(call.op, call.attrs, inputs, call.checked_type, target)
    return LoweredOutput(outputs, best)


__all__ = ["CCacheKey", "CCacheValue", "LoweredOutput", "TECompiler", "get", "get_valid_implementations",
           "lower_call", "select_implementation"]
