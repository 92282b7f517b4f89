# SPDX-License-Identifier: Apache-2.0
"""Runs compiled graphs."""
from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import nd
from .._arguments import converted, is_array, repetitions
from .._benchmark import BenchmarkResult
from .._ffi import get_global_func
from ..error import DTypeError


def _devices(device):
    devices = list(device) if isinstance(device, (list, tuple)) else [device]
    return [nd.device(each) if isinstance(each, str) else each for each in devices]


def _bytes(what, value):
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise DTypeError(f"{what}: expected the bytes of relay.save_param_dict, got {type(value).__name__}")
    return bytes(value)


def create(graph_json_str: str, libmod: Any, device: Any) -> GraphModule:
    """An executor for a graph with the kernels of a module; parameters are loaded afterwards. `device`: one, or a list
    of those that the graph uses; with a module and devices of an RPC session, the executor runs there."""
    libmod = libmod.module if hasattr(libmod, "get_graph_json") and hasattr(libmod, "module") else libmod
    if not isinstance(graph_json_str, str):
        raise DTypeError(f"graph_executor.create: the graph is a text (get_graph_json), not {type(graph_json_str).__name__}")
    if not hasattr(libmod, "__getitem__"):
        raise DTypeError(f"graph_executor.create: expected a module of kernels (get_lib), got {type(libmod).__name__}")
    devices = _devices(device)
    session = getattr(devices[0], "rpc_session", None) if devices else None
    find = get_global_func if session is None else session.get_function
    return GraphModule(find("tvm.graph_executor.create")(graph_json_str, libmod, *devices))


class GraphModule:
    """An executor with methods: set_input, run, get_output."""

    def __init__(self, module: Any) -> None:
        if not hasattr(module, "__getitem__"):
            raise DTypeError(f"GraphModule: expected what lib[\"default\"](device) gives, got {type(module).__name__}")
        self.module = module
        self._functions: dict[str, Callable[..., Any]] = {}

    def _call(self, name: str, *args: Any) -> Any:
        if name not in self._functions:
            self._functions[name] = self.module[name]
        return self._functions[name](*args)

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copies an input (by name or index), and further ones by name. Arrays are converted to the input's type."""
        for name, array in ([(key, value)] if key is not None else []) + list(params.items()):
            self._call("set_input", name, self._tensor(name, array))

    def _tensor(self, name, value):
        """A value for an input as a tensor that the executor can read: of its session, where it is a remote one."""
        if not isinstance(value, nd.NDArray) and not hasattr(value, "rpc_session"):
            wanted = self._call("get_input", name).dtype
            numbers = is_array(value) and getattr(np.asarray(value).dtype, "kind", "") in "biuf"
            value = nd.array(value if numbers else converted(str(name), value, wanted), dtype=wanted)
        session = getattr(self.module, "rpc_session", None)
        return session.array(value) if session is not None and isinstance(value, nd.NDArray) else value

    def set_input_zero_copy(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Uses the memory of tensors as inputs: contiguous, aligned to 64 bytes, of the input's shape and type, and on
        its device."""
        for name, tensor in ([(key, value)] if key is not None else []) + list(params.items()):
            self._call("set_input_zero_copy", name, tensor)

    def set_output_zero_copy(self, index: int | str, value: Any) -> None:
        """Uses the memory of a tensor as output `index`."""
        self._call("set_output_zero_copy", index, value)

    def run(self, **inputs: Any) -> None:
        if inputs:
            self.set_input(**inputs)
        self._call("run")

    def run_from_inputs(self, device: Any, **inputs: Any) -> list[nd.NDArray]:
        """Sets inputs, runs, and returns the outputs on a device."""
        flat = []
        for name, value in inputs.items():
            flat += [name, self._tensor(name, value)]
        return list(self._call("run_from_inputs", device.device_type, device.device_id, *flat))

    def get_output(self, index: int, out: Any = None) -> nd.NDArray:
        """An output; copied into `out` when that is given."""
        if isinstance(index, str):
            raise DTypeError(f"get_output: outputs are numbered from 0; expected an int, got {index!r}")
        if out is None:
            return self._call("get_output", index)
        if not isinstance(out, (nd.NDArray, np.ndarray)) and not hasattr(out, "rpc_session"):
            raise DTypeError(f"get_output: expected a tensor to copy into, got {type(out).__name__}")
        if hasattr(self.module, "rpc_session") and isinstance(out, nd.NDArray):
            return self._call("get_output", index).copyto(out)
        self._call("get_output", index, out)
        return out

    def get_input(self, index: str | int, out: Any = None) -> nd.NDArray:
        tensor = self._call("get_input", index)
        return tensor if out is None else tensor.copyto(out)

    def get_input_index(self, name: str) -> int:
        """Position of an input among inputs and parameters, or -1."""
        return self._call("get_input_index", name)

    def get_num_outputs(self) -> int:
        return self._call("get_num_outputs")

    def get_num_inputs(self) -> int:
        return self._call("get_num_inputs")

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """(shapes by name, types by name) of the inputs and parameters."""
        names = [self.module["get_input_name"](i) for i in range(self.get_num_inputs())]
        tensors = {name: self._call("get_input", name) for name in names}
        return ({name: tensor.shape for name, tensor in tensors.items()},
                {name: str(tensor.dtype) for name, tensor in tensors.items()})

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Sets the parameters that relay.save_param_dict wrote; names that the graph lacks are skipped."""
        self._call("load_params", _bytes("load_params", params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Uses the memory of another executor for the parameters named in `params_bytes`."""
        if not isinstance(other, GraphModule):
            raise DTypeError(f"share_params: expected a GraphModule, got {type(other).__name__}")
        self._call("share_params", other.module, _bytes("share_params", params_bytes))

    def __getitem__(self, name: str) -> Any:
        return self.module[name]

    def benchmark(self, device: Any = None, func_name: str = "run", repeat: int = 5, number: int = 5,
                  min_repeat_ms: float = 0, end_to_end: bool = False, **kwargs: Any) -> BenchmarkResult:
        """Times of `repeat` measurements of `number` runs each. With `end_to_end`, copying inputs and outputs counts."""
        repetitions("benchmark", 1, number, repeat, min_repeat_ms or 0)
        device = nd.device(device) if isinstance(device, str) else device
        if end_to_end:
            from ..runtime import Module

            device = device or nd.cpu()
            flat = [device.device_type, device.device_id]
            for name, value in kwargs.items():
                flat += [name, value if isinstance(value, nd.NDArray) else nd.array(value)]
            evaluate = Module.time_evaluator(self.module, "run_from_inputs", device, number=number, repeat=repeat,
                                             min_repeat_ms=min_repeat_ms)
            return BenchmarkResult(evaluate(*flat).results)
        if kwargs:
            self.set_input(**kwargs)
        if func_name != "run":
            result = self.module.time_evaluator(func_name, device, number=number, repeat=repeat,
                                                min_repeat_ms=min_repeat_ms)()
            return BenchmarkResult(result.results)
        raw = bytes(self.module["benchmark"](number, repeat, min_repeat_ms))
        return BenchmarkResult(struct.unpack(f"<{len(raw) // 8}d", raw))
