# SPDX-License-Identifier: Apache-2.0
"""The virtual machine: runs programs with control flow, data types, recursion and dynamic shapes."""
from __future__ import annotations

import time

from ._benchmark import BenchmarkResult
from ._core import Object
from ._ffi import Api, register_object
from ._values import TupleValue, to_value
from . import _nd as nd

_api = Api("relay.vm")


@register_object("relay.vm.Executable")
class Executable(Object):
    """A compiled program: its kernels, bytecode and constants."""

    @property
    def bytecode(self) -> str:
        """The instructions as text."""
        return _api.Bytecode(self)

    @property
    def globals(self) -> list[str]:
        """Names of the functions."""
        return [str(name) for name in _api.Functions(self)]

    @property
    def primitive_ops(self) -> list[str]:
        """Names of the kernels that the instructions call."""
        import re

        return sorted(set(re.findall(r"^.*: kernel (\w+)", self.bytecode, re.MULTILINE)))

    def get_function_params(self, func_name: str) -> list[str]:
        return [str(name) for name in _api.FunctionParams(self, func_name)]

    def export_library(self, file_name, **options):
        """Writes the program as one shared library, that load_executable, treadle.load and `treadle run` take."""
        _api.Export(self, str(file_name))

    def save(self):
        """(code, lib): the program as bytes, and what writes it as a library (lib.export_library(path)); load_exec reads
        them back."""
        import pathlib
        import tempfile

        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            path = pathlib.Path(folder) / "program.so"
            self.export_library(path)
            return bytearray(path.read_bytes()), self

    @staticmethod
    def load_exec(bytecode, lib=None):
        """The program of the bytes that `save` gave. Its kernels are in them: `lib` isn't needed."""
        import pathlib
        import tempfile

        del lib
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            path = pathlib.Path(folder) / "program.so"
            path.write_bytes(bytes(bytecode))
            return load_executable(path)

    @property
    def stats(self) -> str:
        lines = self.bytecode.splitlines()
        return f"{len(self.globals)} functions, {sum(': ' in line for line in lines)} instructions"


def load_executable(file_name):
    """A program that export_library wrote."""
    return _api.Load(str(file_name))


class VirtualMachine:
    """Runs a program, for one thread at a time."""

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __init__(self, exe, device=None, memory_cfg=None):
        if isinstance(device, str):
            nd.device(device)
        self._exe = exe
        self._machine = _api.Machine(exe)
        self._inputs, self._outputs = {}, []

    def set_limits(self, call_depth: int = 0, instructions: int = 0) -> None:
        """Bounds on calls within each other (0: the default) and on instructions of one call (0: none)."""
        _api.SetLimits(self._machine, call_depth, instructions)

    def _arguments(self, func_name, args, kwargs):
        values = [to_value(arg) for arg in args]
        if kwargs:
            names = self._exe.get_function_params(func_name)
            unknown = [name for name in kwargs if name not in names[len(values):]]
            if unknown:
                raise TypeError(f"{func_name} has no further parameter {unknown[0]!r}; its parameters are {names}")
            values += [to_value(kwargs[name]) for name in names[len(values):] if name in kwargs]
        return values

    def set_input(self, func_name, *args, **kwargs):
        """Sets the arguments of the next call without arguments."""
        self._inputs[func_name] = self._arguments(func_name, args, kwargs)

    def invoke(self, func_name, *args, **kwargs):
        """Calls a function. Functions that it returns become Python functions."""
        values = self._arguments(func_name, args, kwargs)
        if not values and func_name in self._inputs:
            values = self._inputs[func_name]
        return self._wrap(_api.Invoke(self._machine, func_name, values))

    def run(self, *args, **kwargs):
        """Calls main."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name, *args, **kwargs):
        """Calls a function; get_outputs has what it gave."""
        result = self.invoke(func_name, *args, **kwargs)
        self._outputs = list(result) if isinstance(result, TupleValue) else [result]

    def get_outputs(self) -> list:
        """The results of the last invoke_stateful, fields of a tuple one by one."""
        return list(self._outputs)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Position of a parameter of a function, or -1."""
        names = self._exe.get_function_params(func_name)
        return names.index(input_name) if input_name in names else -1

    def benchmark(self, device=None, *args, func_name="main", repeat=5, number=5, min_repeat_ms=0, end_to_end=False,
                  **kwargs):
        """Times of `repeat` measurements of `number` calls each. Arguments are converted once; with `end_to_end` in each
        call."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        if func_name not in self._inputs and self._exe.get_function_params(func_name):
            raise TypeError(f"benchmark: {func_name} has parameters; give arguments, or set_input before")

        def seconds(count):
            start = time.perf_counter()
            for _ in range(count):
                if end_to_end and (args or kwargs):
                    self.invoke(func_name, *args, **kwargs)
                else:
                    self.invoke(func_name)
            return time.perf_counter() - start

        results = []
        for _ in range(repeat):
            count, spent = number, seconds(number)
            while spent * 1e3 < (min_repeat_ms or 0):
                count *= 2
                spent = seconds(count)
            results.append(spent / count)
        return BenchmarkResult(results)

    def _wrap(self, value):
        if not isinstance(value, _Closure):
            return value
        return lambda *args: self._wrap(_api.InvokeClosure(self._machine, value, [to_value(arg) for arg in args]))


@register_object("runtime.vm.Closure")
class _Closure(Object):
    pass
