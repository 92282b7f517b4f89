# SPDX-License-Identifier: Apache-2.0
"""Building and running configurations."""
import enum
import os
import tempfile
import time
from typing import Any, NamedTuple

from .. import build_module
from .._arguments import repetitions, seconds, whole
from .._measure import Failed, Runner
from ..error import Error


class MeasureErrorNo(enum.IntEnum):
    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


class _Named(NamedTuple):
    name: str
    args: tuple
    target: Any

    @property
    def workload(self):
        return (self.name, *self.args)


class MeasureInput(NamedTuple):
    target: Any
    task: Any
    config: Any


class MeasureResult(NamedTuple):
    """costs: seconds; 1e9 where there was an error, whose text is `error`."""

    costs: tuple
    error_no: int
    all_cost: float
    timestamp: float
    error: str = ""


class LocalBuilder:
    """Compiles in this process, one after the other: nothing is compiled while something is measured."""

    def __init__(self, timeout: float = 10, n_parallel: Any = None, build_kwargs: Any = None, build_func: Any = "default",
                 do_fork: bool = False, runtime: Any = None) -> None:
        if build_func != "default":
            raise Error(f"LocalBuilder: build_func={build_func!r} isn't there; only 'default' is")
        seconds(timeout, "LocalBuilder: timeout")
        if n_parallel is not None:
            whole("LocalBuilder: n_parallel", n_parallel, 1)
        self.timeout = timeout


class LocalRunner:
    """Runs in a process without compiler; one that crashes or hangs is a result with an error. enable_cpu_cache_flush: each
    run has copies of its inputs that no cache holds."""

    def __init__(self, timeout: float = 10, number: int = 4, repeat: int = 3, min_repeat_ms: int = 0,
                 cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, module_loader: Any = None) -> None:
        if module_loader is not None:
            raise Error("LocalRunner: module_loader has no counterpart")
        repetitions("LocalRunner", timeout, number, repeat, min_repeat_ms)
        self.enable_cpu_cache_flush = enable_cpu_cache_flush
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval = cooldown_interval
        self._runner = Runner(timeout=timeout)

    def run(self, path: str | os.PathLike[str], shapes: Any) -> Any:
        if self.cooldown_interval:
            time.sleep(self.cooldown_interval)
        return self._runner.costs(path, "main", shapes, number=self.number, repeat=self.repeat,
                                  min_repeat_ms=self.min_repeat_ms, cold=self.enable_cpu_cache_flush)


class RPCRunner:
    """Isn't there: an Error names what is."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise Error("RPCRunner: there is no tracker; measure on other machines with treadle.fleet (docs/tuning.md)")


class _Option(NamedTuple):
    builder: object
    runner: object


def measure_option(builder: Any, runner: Any) -> "_Option":
    """How configurations are built and run; "local" for either."""
    builder = LocalBuilder() if builder == "local" else builder
    runner = LocalRunner() if runner == "local" else runner
    for what, value, kind in (("builder", builder, "LocalBuilder"), ("runner", runner, "LocalRunner")):
        if isinstance(value, (str, int, float)) or value is None:
            raise Error(f"measure_option: the {what} is {value!r}; expected \"local\" or a {kind}")
    return _Option(builder, runner)


def measure(task: Any, config: Any, option: Any) -> Any:
    """Builds and times one configuration."""
    start = time.time()

    def result(costs, error_no, error=""):
        return MeasureResult(tuple(costs), int(error_no), time.time() - start, time.time(), error)

    try:
        schedule, args = task.instantiate(config)
        if not config.valid():
            return result([1e9], MeasureErrorNo.INSTANTIATION_ERROR, "; ".join(config.errors))
    except Exception as error:  # noqa: BLE001 - users' code
        return result([1e9], MeasureErrorNo.INSTANTIATION_ERROR, str(error))
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = os.path.join(folder, "candidate.so")
        try:
            build_module.build(schedule, args, target=task.target, name="main").export_library(path)
        except Error as error:
            return result([1e9], MeasureErrorNo.COMPILE_HOST, str(error))
        try:
            shapes = [([int(d) for d in arg.shape], str(arg.dtype)) for arg in args]
            return result(option.runner.run(path, shapes), MeasureErrorNo.NO_ERROR)
        except Failed as error:
            kind = MeasureErrorNo.RUN_TIMEOUT if error.kind == "timeout" else MeasureErrorNo.RUNTIME_DEVICE
            return result([1e9], kind, str(error))
