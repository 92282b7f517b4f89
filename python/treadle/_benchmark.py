# SPDX-License-Identifier: Apache-2.0
"""Times of runs."""
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class BenchmarkResult:
    """Times of one run, in seconds, of each repetition."""

    def __init__(self, results: Sequence[float]) -> None:
        self.results = tuple(results)
        self.mean = statistics.fmean(results)
        self.median = statistics.median(results)
        self.min, self.max = min(results), max(results)
        self.std = statistics.pstdev(results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':^14}" for name in names)
        row = "".join(f"{getattr(self, name) * 1e3:^14.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"

    __repr__ = __str__


class OperatorTime(NamedTuple):
    """What one call took in a profiled run: the node, its kernel, seconds from the run's start and of its own, types
    of its arguments, and the multiply-adds of its convolutions and matrix products (whether they are known: macs_known);
    the model's nodes that it computes ("" where that isn't known), and the external code generator that made it.

    Of models with dynamic shapes or control flow also: a number of the place that it was called from, as in a loop (-1:
    not known); where its operands come from (positions of earlier calls, -1 - i: input i); which outputs it wrote."""

    name: str
    kernel: str
    start: float
    seconds: float
    shapes: str
    macs: float
    nodes: str = ""
    compiler: str = ""
    macs_known: bool = True
    site: int = -1
    sources: Sequence[int] = ()
    outputs: Sequence[int] = ()
