# SPDX-License-Identifier: Apache-2.0
"""Moves differences between channels from activations to weights (SmoothQuant, Xiao et al. 2022), or from weights that
matter to those that don't (AWQ, Lin et al. 2023): x w = (x / s) (s w)."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .ranges import blocks_of

if TYPE_CHECKING:
    from .graph import Graph
    from .layers import Layer


def _shared(graph, layers):
    """Products by the value that they read, where they alone read it."""
    groups = {}
    for layer in layers:
        if layer.is_product:
            groups.setdefault(layer.data, []).append(layer)
    return {name: group for name, group in groups.items()
            if len(graph.readers.get(name, [])) == len(group) and name not in graph.outputs}


def _divide(graph, name, group, factors):
    """Divides a value by factors of its last dimension: in the normalisation that makes it, else by a Mul."""
    maker = graph.producer.get(name)
    inverse = (1 / factors).astype(np.float32)
    if maker is not None and maker.op_type == "LayerNormalization" and \
            all(graph.is_constant(i) and graph.value(i).size == len(inverse) for i in maker.input[1:3]):
        for i in range(1, len(maker.input)):
            value = graph.value(maker.input[i])
            maker.input[i] = graph.add_constant(f"{maker.input[i]}_smooth", value * inverse.reshape(value.shape))
        return name
    divisor = graph.add_constant(f"{name}_smooth", inverse)
    divided = graph.add("Mul", [name, divisor], graph.fresh(f"{name}_smoothed"))
    for layer in group:
        layer.node.input[0] = divided
        layer.data = divided
    return divided


def _scale_statistics(statistics, name, divided, factors):
    """Statistics of the divided value; its ranges are known only from what was kept."""
    old = statistics[name]
    new = type(old)()
    new.rows = [rows / factors for rows in old.rows]
    new.kept = [np.concatenate(new.rows).reshape(-1)]
    new.low, new.high = float(new.kept[0].min()), float(new.kept[0].max())
    new.sums, new.count, new.largest = old.sums / factors, old.count, old.largest / factors
    new.high, new.low = max(new.high, 0.0), min(new.low, 0.0)
    most = float(new.largest.max())
    if new.high >= -new.low:
        new.high = max(new.high, most)
    if -new.low >= new.high:
        new.low = min(new.low, -most)
    if old.histogram is not None:
        new.bin(new.kept[0])
    statistics[divided] = new


def smooth_quant(graph: "Graph", layers: "Sequence[Layer]", statistics: Mapping[str, Any], alpha: float) -> int:
    """Before static quantisation; the number of values that were divided."""
    count = 0
    for name, group in _shared(graph, layers).items():
        seen = statistics.get(name)
        weights = [layer.matrix(graph.value(layer.weight)) for layer in group]
        if seen is None or seen.largest is None or len(seen.largest) != weights[0].shape[1] or not seen.rows:
            continue
        largest = np.maximum(np.max([np.abs(w).max(axis=0) for w in weights], axis=0), 1e-5)
        factors = np.maximum(seen.largest, 1e-5)**alpha / largest**(1 - alpha)
        factors = np.clip(factors / np.exp(np.mean(np.log(factors))), 1e-3, 1e3).astype(np.float32)
        for layer in group:
            weight = graph.value(layer.weight)
            wide = factors[None, :] if layer.axis == 0 else factors[:, None]
            layer.weight = graph.add_constant(f"{layer.weight}_smooth", weight * wide)
            layer.node.input[1] = layer.weight
        divided = _divide(graph, name, group, factors)
        _scale_statistics(statistics, name, divided, factors)
        count += 1
    graph.index()
    return count


def awq(graph: "Graph", layers: "Sequence[Layer]", statistics: Mapping[str, Any], options: Any) -> dict[str, Any]:
    """Before weights are rounded: {layer name: factors of its columns} of those that lose less so."""
    chosen = {}
    for name, group in _shared(graph, layers).items():
        seen = statistics.get(name)
        if seen is None or not seen.rows:
            continue
        rows = np.concatenate(seen.rows)[:256]
        size = np.maximum(np.abs(rows).mean(axis=0), 1e-5)
        weights = [layer.matrix(graph.value(layer.weight)).astype(np.float32) for layer in group]
        if rows.shape[1] != weights[0].shape[1]:
            continue

        def error(factors):
            total = 0.0
            for weight in weights:
                codes, scales, zeros = blocks_of(weight * factors, options.bits, options.block,
                                                 options.symmetric_weights, "max")
                back = ((codes.astype(np.float32) - zeros[..., None]) * scales[..., None]).reshape(len(weight), -1)
                total += float(np.square(rows @ (back[:, :weight.shape[1]] / factors - weight).T).sum())
            return total

        ones = np.ones_like(size)
        best, least = None, error(ones) * 0.99
        for step in range(1, 20):
            factors = size**(step / 20)
            factors = (factors / np.sqrt(factors.max() * factors.min())).astype(np.float32)
            now = error(factors)
            if now < least:
                best, least = factors, now
        if best is None:
            continue
        _divide(graph, name, group, best)
        for layer in group:
            chosen[layer.name] = best
    graph.index()
    return chosen
