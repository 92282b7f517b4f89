# SPDX-License-Identifier: Apache-2.0
"""Building and timing scheduled functions, in a process without compiler."""
import os
import tempfile
from typing import NamedTuple

from .. import build_module
from .._measure import Failed, Runner
from .._refused import refused
from ..error import Error
from ..ir import IntImm


class Timed(NamedTuple):
    """`seconds` of runs; none where `error` says why."""

    seconds: tuple
    error: str = ""

    @property
    def mean(self):
        return sum(self.seconds) / len(self.seconds) if self.seconds else float("inf")


class LocalBuilder:
    """Compiles in this process, while nothing is measured."""

    def __init__(self, *, max_workers=None, timeout_sec=30.0, f_build=None, f_export=None, initializer=None):
        given = {"f_build": f_build, "f_export": f_export, "initializer": initializer}
        for name, value in given.items():
            if value is not None:
                raise Error(f"meta_schedule.LocalBuilder: {name} has no counterpart: candidates are built by treadle.build")


class EvaluatorConfig(NamedTuple):
    """How often a candidate is run. enable_cpu_cache_flush: each run has copies of its inputs that no cache holds."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 20
    enable_cpu_cache_flush: bool = False


class LocalRunner:
    """Runs candidates in a process that may crash or hang: that is a result like others."""

    def __init__(self, timeout_sec=10.0, number=3, repeat=1, min_repeat_ms=20, threads=0, evaluator_config=None):
        self.config = evaluator_config or EvaluatorConfig(number, repeat, min_repeat_ms)
        self._runner = Runner(threads=threads, timeout=timeout_sec)

    def build(self, function, target, path):
        """Writes the library of a function; why not, or ""."""
        try:
            build_module.build(function, target=target, name="main").export_library(path)
        except Error as error:
            return str(error)
        return ""

    def time(self, function, target):
        """What a candidate takes."""
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            path = os.path.join(folder, "candidate.so")
            error = self.build(function, target, path)
            if error:
                return Timed((), error)
            try:
                shapes, outputs = tensors_of(function)
                number, repeat, min_repeat_ms, cold = self.config
                return Timed(tuple(self._runner.costs(path, "main", shapes, outputs, number, repeat, min_repeat_ms, cold)))
            except Failed as failed:
                return Timed((), str(failed))

    def ratios(self, incumbent, candidate, target, pairs=20, block=0.002):
        """Ratios of the candidate's times to the incumbent's, of blocks of runs next to each other; none where one of
        them can't run, or where their results differ."""
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            paths = [os.path.join(folder, name) for name in ("a.so", "b.so")]
            if any(self.build(f, target, path) for f, path in zip((incumbent, candidate), paths)):
                return []
            shapes, outputs = tensors_of(incumbent)
            tensors = [{"shape": list(shape), "dtype": dtype} for shape, dtype in shapes]
            try:
                ask, limit = self._runner._ask, self._runner.timeout + 5
                ask({"do": "arguments", "tensors": tensors, "outputs": outputs}, limit)
                for slot, path in enumerate(paths):
                    ask({"do": "kernel", "slot": slot, "path": path, "symbol": "main"}, limit)
                if ask({"do": "compare", "a": 0, "b": 1}, limit)["worst"] > 1e-4:
                    return []
                answer = ask({"do": "pairs", "a": 0, "b": 1, "count": pairs, "block": block}, limit + 60)
                return [b / a for a, b, _ in answer["pairs"]]
            except Failed:
                return []


def tensors_of(function):
    """((shape, dtype) of its parameters, the results last; number of results)."""
    buffers = [function.buffer_map[param] for param in function.params]
    shapes = []
    for buffer in buffers:
        if not all(isinstance(dim, IntImm) for dim in buffer.shape):
            raise Error(f"meta_schedule: parameter {buffer.name} has a dynamic shape; only static ones are timed")
        shapes.append((tuple(int(dim) for dim in buffer.shape), str(buffer.dtype)))
    return shapes, 1


RPCRunner = refused("meta_schedule.runner.RPCRunner", "measure on other machines with treadle.fleet (docs/tuning.md)")
