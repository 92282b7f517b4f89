# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of a model, and the state of a thread that runs it."""
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arguments, _feeds, _nd
from ._benchmark import OperatorTime
from ._core import CancelToken
from ._dtype import DataType, to_numpy
from ._nd import _view, as_tensor
from .error import DTypeError, Error, ShapeError

if TYPE_CHECKING:
    from .model import Model


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """An input or output. `shape` contains integers, and the names of dynamic dimensions."""

    name: str
    shape: tuple[int | str, ...]
    dtype: DataType
    value_type: str = ""  # of what isn't a tensor of numbers

    @property
    def type(self) -> str:
        """The type as ONNX Runtime writes it: tensor(float)."""
        if self.value_type:
            return self.value_type
        names = {"float32": "float", "float64": "double"}
        return f"tensor({names.get(self.dtype, self.dtype)})"


def _infos(rows, described):
    types = [info.get("value_type", "") for info in described]
    return [TensorInfo(name, shape, DataType(dtype), value_type) for (name, shape, dtype), value_type in zip(rows, types)]


class Context:
    """State of one thread that runs a model repeatedly. Model.create_context creates it."""

    def __init__(self, model: "Model", threads: int, state: "Mapping[str, str] | Context | None" = None) -> None:
        self._context = model._model.create_context()
        self._inputs = {info.name: info for info in model.inputs}
        self._outputs = model.outputs
        self._bound: dict[str, np.ndarray] = {}
        self._written: set[str] = set()  # outputs that kernels write where they are bound
        self._given: dict[str, Any] = {}  # tensors that inputs may still be read from
        self._context.set_threads(threads)
        pairs = state._pairs if isinstance(state, Context) else state
        self._pairs: dict[str, str] = _arguments.mapping("state", pairs, "{'past': 'present'}")
        self._state: dict[str, Any] = state._state if isinstance(state, Context) else {}
        self._in_place: dict[str, Any] = {}  # what an input and an output are both bound to
        self._positions = {info.name: i for i, info in enumerate(self._outputs)}
        for name, output in self._pairs.items():
            self._check_pair(name, output)
            if name not in self._state and all(isinstance(d, int) and d >= 0 for d in self._inputs[name].shape):
                self._state[name] = _nd.array(np.zeros(self._inputs[name].shape, to_numpy(self._inputs[name].dtype)))

    def _check_pair(self, name, output):
        if name not in self._inputs:
            raise Error(f"state: the model has no input '{name}'" + _arguments.suggest(name, self._inputs))
        if output not in self._positions:
            raise Error(f"state: the model has no output '{output}'" + _arguments.suggest(output, self._positions))
        before, after = self._inputs[name], self._outputs[self._positions[output]]
        known = all(not isinstance(a, int) or not isinstance(b, int) or a == b
                    for a, b in zip(before.shape, after.shape))
        if before.dtype != after.dtype or len(before.shape) != len(after.shape) or not known:
            raise ShapeError(f"state: input '{name}' is {before.dtype} {list(before.shape)}, output '{output}' "
                             f"{after.dtype} {list(after.shape)}")

    @property
    def state(self) -> "dict[str, np.ndarray]":
        """The current values of the inputs in `state` of create_context, for the next run. If the model updates them in
        place, these arrays share its memory."""
        return {name: _view(tensor) for name, tensor in self._state.items()}

    def bind_state(self, name: str, array: "np.ndarray") -> None:
        """Keeps the state of input `name` in `array` (same type and shape), which runs update in place if possible.

        Errors: Error for inputs that are not states, DTypeError and ShapeError for arrays that do not match."""
        if name not in self._pairs:
            raise Error(f"input '{name}' is no state; there are: {', '.join(self._pairs) or 'none'}")
        info = self._inputs[name]
        if not isinstance(array, np.ndarray) or array.dtype != to_numpy(info.dtype) or not array.flags.writeable:
            raise DTypeError(f"the state of '{name}' is a writable NumPy array of {info.dtype}, not "
                             f"{getattr(array, 'dtype', type(array).__name__)}")
        if array.ndim != len(info.shape) or any(isinstance(d, int) and d != n for d, n in zip(info.shape, array.shape)):
            raise ShapeError(f"the state of '{name}' is {list(info.shape)}, not {list(array.shape)}")
        self._state[name] = as_tensor(array)

    def _bind_state(self):
        for name, output in self._pairs.items():
            value = self._state.get(name)
            if value is None or self._in_place.get(name) is value:
                continue
            if self._context.bind_state(name, output, value):
                self._in_place[name] = value
            else:
                self._context.set_input(name, value)

    def _keep_state(self):
        for name, output in self._pairs.items():
            if self._in_place.get(name) is not self._state.get(name) or name not in self._state:
                self._state[name] = self._context.get_output(self._positions[output])

    def _set(self, inputs):
        if self._pairs and isinstance(inputs, Mapping):
            inputs = dict(inputs)
        for name in self._pairs:
            if name in inputs:
                value = inputs.pop(name)
                self._state[name] = _nd.array(np.array(value, to_numpy(self._inputs[name].dtype)))
        self._bind_state()
        for name, tensor in _feeds.to_tensors(inputs, self._inputs).items():
            if any(np.may_share_memory(_view(tensor), self._bound[output]) for output in self._written):
                tensor = _nd.array(np.array(_view(tensor)))  # the run writes there before it has read all of it
            self._given[name] = tensor
            self._context.set_input(name, tensor)

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        """Returns the outputs by name. Omitted inputs keep the value of the previous run. Errors: see Model.run."""
        return self.run(inputs)

    def run(self, inputs: Mapping[str, Any], *, timeout: float | None = None,
            cancel: CancelToken | None = None) -> dict[str, Any]:
        """Like calling the context, with the limits of Model.run."""
        self._set(inputs)
        self._context.run(_arguments.seconds(timeout), _arguments.cancel_token(cancel))
        kept = {*self._pairs.values(), *self._written}
        results = {info.name: _feeds.to_python(self._context.get_output(i), info) for i, info in enumerate(self._outputs)
                   if info.name not in kept}
        self._keep_state()
        for name, array in self._bound.items():
            if name in self._written:
                results[name] = array
                continue
            if results[name].shape != array.shape:
                raise ShapeError(f"output '{name}' is {list(results[name].shape)}, but it is bound to an array "
                                 f"{list(array.shape)}")
            array[...] = results[name]
            results[name] = array
        return {info.name: results[info.name] for info in self._outputs if info.name in results}

    def bind_output(self, name: str, array: "np.ndarray | None") -> None:
        """Later runs of this context write the output to `array` and return it; None: allocate a new array again.

        array: a writable NumPy array of the type and shape of the output. Kernels write to it directly if it is
        contiguous, does not alias an input or another output, and its shape was known at compile time; otherwise the
        output is copied.
        Errors: Error for unknown outputs, DTypeError and ShapeError for arrays that do not match (shapes that depend on
        the inputs are checked at run time).

        >>> context, y = model.create_context(), np.empty(2, np.float32)
        >>> context.bind_output("y", y)
        >>> context(x=[-1, 2])["y"] is y
        True
        >>> y
        array([0., 2.], dtype=float32)
        """
        infos = {info.name: info for info in self._outputs}
        if name not in infos:
            raise Error(f"the model has no output '{name}'; it has: {', '.join(infos)}" + _arguments.suggest(name, infos))
        if name in self._pairs.values():
            raise Error(f"output '{name}' is kept as a state; bind_state says where")
        if array is None:
            self._unbind_output(name)
            return
        info = infos[name]
        if info.value_type:
            raise DTypeError(f"output '{name}' is of type {info.value_type}; only tensors of numbers can be bound")
        if not isinstance(array, np.ndarray) or array.dtype != to_numpy(info.dtype) or not array.flags.writeable:
            found = getattr(array, "dtype", type(array).__name__)
            if isinstance(array, np.ndarray) and not array.flags.writeable:
                found = f"a read-only one of {found}"
            raise DTypeError(f"output '{name}' is bound to a writable NumPy array of {info.dtype}, not to {found}")
        shape = info.shape
        if len(shape) != array.ndim or any(isinstance(d, int) and d not in (-1, n) for d, n in zip(shape, array.shape)):
            raise ShapeError(f"output '{name}' is {list(shape)}, not {list(array.shape)}")
        self._unbind_output(name)
        others = [*self._bound.values(), *map(_view, self._given.values())]
        shared = any(np.may_share_memory(array, other) for other in others)
        if array.flags.c_contiguous and not shared and self._context.bind_output(
                self._positions[name], as_tensor(array)):
            self._written.add(name)
        self._bound[name] = array

    def _unbind_output(self, name):
        self._bound.pop(name, None)
        if name in self._written:
            self._written.discard(name)
            self._context.bind_output(self._positions[name], None)

    def profile(self, **inputs: Any) -> list[OperatorTime]:
        """Runs once and returns the time of each kernel call in seconds, in order."""
        self._set(inputs)
        times = self._context.profile()
        self._keep_state()
        return [OperatorTime(*row) for row in times]
