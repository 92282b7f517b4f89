# SPDX-License-Identifier: Apache-2.0
"""Model.benchmark and Model.verify."""
import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .error import Error

# Of verify, relative to the largest magnitude of an output.
RANGE_TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of runs: `seconds` of each, in order; `threads` (0: all)."""

    seconds: tuple[float, ...]
    threads: int

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)

    @property
    def mean(self) -> float:
        """Seconds."""
        return statistics.fmean(self.seconds)

    @property
    def min(self) -> float:
        """Seconds."""
        return min(self.seconds)

    def percentile(self, percent: float) -> float:
        """Seconds that so many per cent of the runs took at most."""
        return float(np.percentile(self.seconds, percent))

    def __str__(self) -> str:
        return (f"median {self.median * 1e3:.4g} ms, 5 % to 95 %: {self.percentile(5) * 1e3:.4g} to "
                f"{self.percentile(95) * 1e3:.4g} ms ({len(self.seconds)} runs)")


def measure(run: Callable[[], object], repeat: int, warm_up: int, seconds: float | None, threads: int) -> Times:
    """Times of `repeat` runs, or, if given, of as many as fit into so many seconds (at least one)."""
    for _ in range(warm_up):
        run()
    taken: list[float] = []
    started = time.perf_counter()
    while len(taken) < repeat if seconds is None else not taken or time.perf_counter() - started < seconds:
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return Times(tuple(taken), threads)


@dataclasses.dataclass(frozen=True)
class OutputError:
    """Difference of an output from the reference: largest absolute difference, number of elements out of tolerance
    (`wrong` of `size`), and as text any other problem (shape, type)."""

    name: str
    max_abs: float
    wrong: int
    size: int
    problem: str = ""

    @property
    def agrees(self) -> bool:
        return not self.problem and self.wrong == 0

    def __str__(self) -> str:
        if self.problem:
            return f"{self.name}: {self.problem}"
        text = "agrees" if self.agrees else f"differs in {self.wrong} of {self.size} elements"
        return f"{self.name}: {text}, largest difference {self.max_abs:.3g}"


def compare(name: str, actual: Any, expected: Any, rtol: float, atol: float | None) -> OutputError:
    """Compares an output with the reference, NaN equal to NaN."""
    if isinstance(actual, (list, dict)) or actual is None or np.asarray(expected).dtype.kind in "OUS":
        same = _equal(actual, expected)
        return OutputError(name, 0, 0 if same else 1, 1, "" if same else "differs from the reference")
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return OutputError(name, np.inf, expected.size, expected.size, f"is {actual.dtype}{list(actual.shape)} instead "
                           f"of {expected.dtype}{list(expected.shape)}")
    wide, other = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    if atol is None:
        atol = RANGE_TOLERANCE * float(finite.max(initial=0))
    right = np.isclose(wide, other, rtol, atol, equal_nan=True)
    with np.errstate(invalid="ignore"):
        difference = np.abs(wide - other)
    largest = float(np.nanmax(np.where(right & ~np.isfinite(difference), 0, difference), initial=0))
    return OutputError(name, largest, int((~right).sum()), right.size)


def _equal(actual: Any, expected: Any) -> bool:
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(actual) == len(expected) and all(_equal(a, e) for a, e in zip(actual, expected))
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(_equal(actual[k], expected[k]) for k in actual)
    if actual is None or expected is None:
        return actual is expected
    return bool(np.array_equal(np.asarray(actual), np.asarray(expected)))


def onnxruntime_outputs(model: Any, feed: Mapping[str, Any], names: list[str]) -> list[Any]:
    """What the package onnxruntime computes, without its optimisations. `model`: path or bytes."""
    try:
        import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise Error("verify compares with the package onnxruntime, which isn't installed; give the outputs to expect: "
                    "reference={'y': array}") from None
    if not isinstance(model, bytes) and not os.path.exists(model):
        raise Error(f"reference: there is no file '{os.fspath(model)}'; expected an ONNX model, which onnxruntime runs, or a "
                    "dict of the outputs to expect")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return list(session.run(names, dict(feed)))
    except Exception as problem:
        raise Error(f"the reference onnxruntime couldn't run the model: {problem}") from problem
