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
    """One kernel call in a profiled run: node, kernel, start and duration in seconds, types of the arguments,
    multiply-adds of convolutions and matrix products (macs_known: whether they are known), ONNX nodes that it computes
    ("" if unknown), and the external code generator that compiled it.

    For dynamic models and control flow also: the call site, as in a loop (-1: unknown); the sources of its operands
    (index of an earlier call, or -1 - i for input i); the outputs it wrote. mac_share: of macs, what the kernel executes
    (below 1 for Winograd convolutions)."""

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
    mac_share: float = 1.0
