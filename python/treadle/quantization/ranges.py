# SPDX-License-Identifier: Apache-2.0
"""From numbers to scales: ranges of activations by min-max, percentile or least squared error; weights by channel or
block."""
from typing import Any

import numpy as np

TINY = np.float32(1e-12)


class Affine:
    """real = (code - zero_point) * scale."""

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        self.scale, self.zero_point, self.dtype = np.float32(scale), int(zero_point), np.dtype(dtype)

    @property
    def limits(self) -> tuple[Any, Any]:
        info = np.iinfo(self.dtype)
        return (info.min - self.zero_point) * float(self.scale), (info.max - self.zero_point) * float(self.scale)

    def round_trip(self, x: np.ndarray) -> np.ndarray:
        info = np.iinfo(self.dtype)
        code = np.clip(np.rint(x / self.scale) + self.zero_point, info.min, info.max)
        return (code - self.zero_point) * self.scale


def affine(low: float, high: float, dtype: Any, symmetric: bool = False) -> "Affine":
    """The scale of a range, widened to hold 0."""
    info = np.iinfo(dtype)
    low, high = min(0.0, float(low)), max(0.0, float(high))
    if symmetric:
        most = max(-low, high)
        middle = 0 if info.min < 0 else (info.max + 1) // 2
        return Affine(max(most / (info.max - middle), TINY), middle, dtype)
    scale = max((high - low) / (info.max - info.min), float(TINY))
    zero = int(np.clip(np.rint(info.min - low / scale), info.min, info.max))
    return Affine(scale, zero, dtype)


def range_of(histogram: Any, edges: Any, method: str, percentile: float, dtype: Any, symmetric: bool) -> Any:
    """(low, high) of a distribution."""
    low, high = edges[0], edges[-1]
    total = histogram.sum()
    if method == "minmax" or total == 0:
        return low, high
    if method == "percentile":
        share = np.cumsum(histogram) / total
        tail = (1 - percentile / 100) / 2
        first, last = np.searchsorted(share, tail), np.searchsorted(share, 1 - tail)
        return edges[first], edges[min(last + 1, len(edges) - 1)]
    # Least squared error over clipped ranges, each bin at its middle.
    centres = (edges[:-1] + edges[1:]) / 2
    best = (np.inf, low, high)
    for ratio in np.linspace(1, 0.5, 51):
        parameters = affine(low * ratio, high * ratio, dtype, symmetric)
        error = float(np.sum(histogram * (centres - parameters.round_trip(centres))**2))
        if error < best[0] * (1 - 1e-9):
            best = (error, low * ratio, high * ratio)
    return best[1:]


class Magnitudes:
    """A histogram of absolute values that arrive in parts; its range doubles as larger ones come."""
    BINS = 2048

    def __init__(self) -> None:
        self.counts, self.limit = np.zeros(self.BINS), 0.0

    def add(self, values: np.ndarray) -> None:
        sizes = np.abs(values[np.isfinite(values)])
        most = float(sizes.max(initial=0))
        self.limit = self.limit or most
        while 0 < self.limit < most:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(axis=1), np.zeros(self.BINS // 2)])
            self.limit *= 2
        if self.limit > 0:
            self.counts += np.histogram(sizes, self.BINS, (0, self.limit))[0]

    def least_divergent(self, levels: int) -> float:
        """The limit of a range of `levels` steps whose distribution of codes has the least Kullback-Leibler divergence from
        that of the values; what is beyond the limit counts as its last bin."""
        counts, best = self.counts.copy(), (np.inf, self.limit)
        counts[0] = counts[1]  # exact zeros, mostly of activations, need no range
        for size in range(levels, self.BINS + 1):
            clipped = counts[:size].copy()
            if not clipped.any():
                continue
            step = np.minimum(np.arange(size) * levels // size, levels - 1)
            used = clipped > 0
            members = np.bincount(step, weights=used, minlength=levels)
            codes = np.bincount(step, weights=clipped, minlength=levels) / np.maximum(members, 1)
            clipped[-1] += counts[size:].sum()
            spread_codes = np.where(clipped > 0, np.maximum(codes[step], 1e-9), 0)
            total, coded = clipped.sum(), spread_codes.sum()
            p, q = clipped[clipped > 0] / total, spread_codes[clipped > 0] / coded
            divergence = float(np.sum(p * np.log(p / q)))
            if divergence < best[0]:
                best = (divergence, size * self.limit / self.BINS)
        return best[1]


def weight_scales(weight: np.ndarray, axis: int | None, most: int, method: str) -> Any:
    """Scales per channel of `axis` (None: one) of symmetric codes up to `most`, by squared error or maximum."""
    rows = weight.reshape(1, -1) if axis is None else np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    largest = np.maximum(np.abs(rows).max(axis=1), TINY).astype(np.float32)
    if method != "mse":
        return largest / np.float32(most)
    best_error, best = np.full(len(rows), np.inf), largest / np.float32(most)
    for ratio in np.linspace(1, 0.5, 26):
        scales = (largest * np.float32(ratio) / np.float32(most)).astype(np.float32)
        codes = np.clip(np.rint(rows / scales[:, None]), -most, most)
        error = np.square(rows - codes * scales[:, None]).sum(axis=1)
        better = error < best_error
        best_error[better], best[better] = error[better], scales[better]
    return best


def spread(scales: np.ndarray, rank: int, axis: int | None) -> np.ndarray:
    """Scales per channel in a shape that broadcasts over a weight."""
    if axis is None:
        return scales.reshape(())
    return scales.reshape([-1 if d == axis else 1 for d in range(rank)])


def blocks_of(weight: np.ndarray, bits: int, block: int, symmetric: bool,
              method: str = "mse") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, k) in blocks along k: codes (n, blocks, block) uint8, scales, zero points (n, blocks)."""
    n, k = weight.shape
    count = -(-k // block)
    padded = np.zeros((n, count * block), np.float32)
    padded[:, :k] = weight
    parts = padded.reshape(n, count, block)
    levels, middle = (1 << bits) - 1, 1 << (bits - 1)
    low, high = np.minimum(parts.min(-1), 0), np.maximum(parts.max(-1), 0)
    best: Any = None
    for ratio in (np.linspace(1, 0.6, 17) if method == "mse" else (1.0,)):
        if symmetric:
            # The side that is larger in size takes the code that only the negative side has.
            largest = np.where(-low > high, low, high)
            scales = np.where(largest == 0, 1, largest * ratio / -middle).astype(np.float32)
            zeros = np.full_like(scales, middle)
        else:
            scales = np.maximum((high - low) * ratio / levels, TINY).astype(np.float32)
            zeros = np.clip(np.rint(-low * ratio / scales), 0, levels)
        codes = np.clip(np.rint(parts / scales[..., None]) + zeros[..., None], 0, levels)
        error = np.square(parts - (codes - zeros[..., None]) * scales[..., None]).sum(-1)
        if best is None:
            best = [error, scales, zeros, codes]
            continue
        better = error < best[0]
        for held, new in zip(best, (error, scales, zeros, codes)):
            held[better] = new[better]
    return best[3].astype(np.uint8), best[1], best[2].astype(np.uint8)


def sqnr(x: np.ndarray, y: np.ndarray) -> float:
    """Signal to quantisation noise, in dB; infinite where there is none."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    noise = np.square(x - y).sum()
    return float("inf") if noise == 0 else float(10 * np.log10(max(np.square(x).sum(), 1e-300) / noise))
