# SPDX-License-Identifier: Apache-2.0
"""Building and timing scheduled functions, in a process without compiler."""
import os
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import build_module
from .._arguments import repetitions, seconds, whole
from .._measure import Failed, Runner
from .._refused import refused
from ..error import Error
from ..ir import IntImm


class Timed(NamedTuple):
    """`seconds` of runs; none where `error` says why."""

    seconds: tuple
    error: str = ""

    @property
    def mean(self) -> Any:
        return sum(self.seconds) / len(self.seconds) if self.seconds else float("inf")


class LocalBuilder:
    """Compiles in this process, while nothing is measured."""

    def __init__(self, *, max_workers: Any = None, timeout_sec: float = 30.0, f_build: Any = None, f_export: Any = None,
                 initializer: Callable[..., Any] | None = None) -> None:
        given = {"f_build": f_build, "f_export": f_export, "initializer": initializer}
        for name, value in given.items():
            if value is not None:
                raise Error(f"meta_schedule.LocalBuilder: {name} has no counterpart: candidates are built by treadle.build")
        if max_workers is not None:
            whole("meta_schedule.LocalBuilder: max_workers", max_workers, 1)
        seconds(timeout_sec, "meta_schedule.LocalBuilder: timeout_sec")


class EvaluatorConfig(NamedTuple):
    """How often a candidate is run. enable_cpu_cache_flush: each run has copies of its inputs that no cache holds."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 20
    enable_cpu_cache_flush: bool = False


class LocalRunner:
    """Runs candidates in a process that may crash or hang: that is a result like others."""

    def __init__(self, timeout_sec: float = 10.0, number: int = 3, repeat: int = 1, min_repeat_ms: int = 20, threads: int = 0,
                 evaluator_config: Any = None) -> None:
        self.config = evaluator_config or EvaluatorConfig(number, repeat, min_repeat_ms)
        repetitions("meta_schedule.LocalRunner", timeout_sec, self.config.number, self.config.repeat,
                    self.config.min_repeat_ms)
        self._runner = Runner(threads=threads, timeout=timeout_sec)

    def build(self, function: Any, target: Any, path: str | os.PathLike[str]) -> str:
        """Writes the library of a function; why not, or ""."""
        try:
            build_module.build(function, target=target, name="main").export_library(path)
        except Error as error:
            return str(error)
        return ""

    def time(self, function: Any, target: Any) -> "Timed":
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

    def ratios(self, incumbent: Any, candidate: Any, target: Any, pairs: int = 20, block: float = 0.002) -> list[Any]:
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


def tensors_of(function: Any) -> tuple[Any, Any]:
    """((shape, dtype) of its parameters, the results last; number of results)."""
    buffers = [function.buffer_map[param] for param in function.params]
    shapes = []
    for buffer in buffers:
        if not all(isinstance(dim, IntImm) for dim in buffer.shape):
            raise Error(f"meta_schedule: parameter {buffer.name} has a dynamic shape; only static ones are timed")
        shapes.append((tuple(int(dim) for dim in buffer.shape), str(buffer.dtype)))
    return shapes, 1


RPCRunner = refused("meta_schedule.runner.RPCRunner", "measure on other machines with treadle.fleet (docs/tuning.md)")
