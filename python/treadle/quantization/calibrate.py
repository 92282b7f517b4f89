# SPDX-License-Identifier: Apache-2.0
"""Runs the float model over samples and keeps what ranges, corrections and reports need of its values."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..error import Error
from .graph import compile_model
from .ranges import range_of

if TYPE_CHECKING:
    from .graph import Graph

_BINS, _KEPT, _ROWS = 2048, 1 << 16, 64


class Statistics:
    """Of one value over all samples."""

    def __init__(self):
        self.low, self.high = np.inf, -np.inf
        self.histogram, self.edges = None, None
        self.kept, self.rows = [], []
        self.sums = self.count = self.largest = None

    def see(self, x: np.ndarray, axis: int, share: Any) -> None:
        if not np.isfinite(x).all():
            raise Error("a value of the float model isn't finite on the calibration data")
        self.low, self.high = min(self.low, float(x.min(initial=0))), max(self.high, float(x.max(initial=0)))
        flat = x.reshape(-1)
        self.kept.append(flat[::max(1, -(-flat.size // share))].astype(np.float32))
        if x.ndim > axis >= -x.ndim and x.ndim > 1:
            others = tuple(d for d in range(x.ndim) if d != axis % x.ndim)
            sums, largest, count = x.sum(axis=others, dtype=np.float64), np.abs(x).max(axis=others), \
                x.size // x.shape[axis]
            if self.sums is None or len(self.sums) != len(sums):
                self.sums, self.largest, self.count = sums, largest, count
            else:
                self.sums, self.largest, self.count = self.sums + sums, np.maximum(self.largest, largest), \
                    self.count + count
            if axis == -1:
                rows = x.reshape(-1, x.shape[-1])
                self.rows.append(rows[::max(1, len(rows) // _ROWS)][:_ROWS].astype(np.float32))

    def bin(self, x: np.ndarray) -> None:
        if self.histogram is None:
            self.edges = np.linspace(self.low, max(self.high, self.low + 1e-12), _BINS + 1)
            self.histogram = np.zeros(_BINS, np.int64)
        self.histogram += np.histogram(x, self.edges)[0]

    @property
    def mean(self) -> Any:
        return None if self.sums is None else self.sums / max(1, self.count)

    @property
    def values(self) -> np.ndarray:
        return np.concatenate(self.kept)

    def range(self, method: str, percentile: float, dtype: Any, symmetric: bool) -> Any:
        if self.histogram is None:
            return self.low, self.high
        return range_of(self.histogram, self.edges, method, percentile, dtype, symmetric)


def collect(graph: "Graph", axes: Mapping[str, int], samples: Sequence[Any], histograms: Any, threads: int = 0) -> tuple[Any, Any]:
    """{name: Statistics} of the values named in `axes` ({name: axis of channels}), and the outputs for each sample.
    Histograms take a second run."""
    inputs = {value.name for value in graph.graph.input}
    names = [name for name in axes if name not in inputs]
    outputs = [value.name for value in graph.graph.output]
    exposed = list(dict.fromkeys(outputs + names))
    statistics = {name: Statistics() for name in axes}
    try:
        model = compile_model(graph.with_outputs(exposed), threads=threads)
    except Error as error:
        raise Error(f"the model can't be run for calibration: {error}") from None

    def run(sample):
        try:
            return {**{name: np.asarray(array) for name, array in sample.items()}, **model(**sample)}
        except Error as error:
            raise Error(f"a calibration sample doesn't fit the model: {error}") from None

    results = []
    share = max(256, _KEPT // len(samples))
    for sample in samples:
        values = run(sample)
        results.append({name: values[name] for name in outputs})
        for name, axis in axes.items():
            statistics[name].see(np.asarray(values[name], np.float32), axis, share)
    if histograms:
        for sample in samples:
            values = run(sample)
            for name in axes:
                statistics[name].bin(np.asarray(values[name], np.float32))
    return statistics, results
