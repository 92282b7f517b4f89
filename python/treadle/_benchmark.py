# SPDX-License-Identifier: Apache-2.0
"""Times of runs."""
import statistics
from collections.abc import Sequence


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
