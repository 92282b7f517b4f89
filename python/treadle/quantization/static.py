# SPDX-License-Identifier: Apache-2.0
"""Static quantisation: QuantizeLinear and DequantizeLinear around products and convolutions, and what lies between
convolutions, so that engines run all of it on integers."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .ranges import affine, spread, sqnr, weight_scales

if TYPE_CHECKING:
    from .graph import Graph
    from .layers import Layer
    from .ranges import Affine

# What moves or selects elements keeps their scale; the others of a network of convolutions have scales of their own.
_MOVES = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "MaxPool", "GlobalMaxPool"}
_BETWEEN = {"Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Sigmoid", "HardSigmoid", "HardSwish",
            "LeakyRelu", "Tanh"}
_CLIPS = {"Relu", "Clip"}


class StaticQuantizer:
    """Decides which values become 8-bit integers, and with which scales."""

    def __init__(self, graph: "Graph", layers: "Sequence[Layer]", options: Any) -> None:
        self.graph, self.layers, self.options = graph, layers, options
        self.by_node = {id(layer.node): layer for layer in layers}
        self.values, self.same_scale = self._choose()

    def _convolved(self):
        """Values that convolutions make, and what is computed from these alone."""
        region = set()
        for node in self.graph.sorted_nodes():
            layer = self.by_node.get(id(node))
            if layer is not None and not layer.is_product:
                region.add(node.output[0])
            elif node.op_type in _MOVES | _BETWEEN | _CLIPS:
                data = [name for name in node.input if name and not self.graph.is_constant(name)]
                if data and all(name in region for name in data):
                    region.add(node.output[0])
        return region

    def _fuses_into(self, name, node):
        """Whether a clip is the only reader of what it clips, so that nothing is rounded between."""
        maker = self.graph.producer.get(name)
        return maker is not None and (id(maker) in self.by_node or maker.op_type in _BETWEEN) and \
            self.graph.readers.get(name) == [node] and name not in self.graph.outputs

    def _choose(self):
        """Values to quantise, by the names of what reads them as integers; {value: the one whose scale it has}."""
        region = self._convolved()
        wanted, same = {}, {}
        for layer in self.layers:
            wanted.setdefault(layer.data, []).append(layer.node)
        for node in reversed(self.graph.sorted_nodes()):
            out = node.output[0] if node.output else ""
            if out not in wanted:
                continue
            data = [name for name in node.input if name and not self.graph.is_constant(name)]
            if node.op_type in _MOVES and len(node.output) == 1 and data and data[0] in region:
                wanted.setdefault(data[0], []).append(node)
                same[out] = data[0]
            elif node.op_type in _BETWEEN and data and len(data) == len([n for n in node.input if n]) and \
                    all(name in region for name in data):
                for name in data:
                    if node not in wanted.setdefault(name, []):
                        wanted[name].append(node)
            elif node.op_type in _CLIPS and data[0] in region:
                if self._fuses_into(data[0], node):
                    maker = self.graph.producer[data[0]]
                    if maker.op_type in _BETWEEN and id(maker) not in self.by_node:
                        inputs = [name for name in maker.input if name]
                        if all(name in region for name in inputs):
                            for name in inputs:
                                if maker not in wanted.setdefault(name, []):
                                    wanted[name].append(maker)
                else:
                    wanted.setdefault(data[0], []).append(node)
        return wanted, same

    def axes(self) -> dict[str, int]:
        """{value: axis of its channels}, for statistics."""
        last = {layer.data for layer in self.layers if layer.is_product}
        return {name: -1 if name in last else 1 for name in self.values}

    def _root(self, name):
        while name in self.same_scale:
            name = self.same_scale[name]
        return name

    def scales(self, statistics: Mapping[str, Any]) -> "dict[str, Affine]":
        """{value: Affine}; values that only move have the widest range of their group."""
        o = self.options
        groups: dict[Any, Any] = {}
        for name in self.values:
            low, high = statistics[name].range(o.method, o.percentile, o.activation_dtype, o.symmetric_activations)
            known = groups.get(self._root(name), (np.inf, -np.inf))
            groups[self._root(name)] = (min(known[0], low), max(known[1], high))
        made = {root: affine(limits[0], limits[1], o.activation_dtype, o.symmetric_activations) for root, limits in groups.items()}
        return {name: made[self._root(name)] for name in self.values}

    def rewrite(self, statistics: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Changes the graph; a row of the report for each layer."""
        scales = self.scales(statistics)
        rows = [self._layer(layer, scales[layer.data], statistics[layer.data]) for layer in self.layers]
        for name, readers in self.values.items():
            self._activation(name, readers, scales[name])
        return rows

    def _activation(self, name, readers, scale):
        graph = self.graph
        s = graph.add_constant(f"{name}_scale", scale.scale)
        z = graph.add_constant(f"{name}_zero_point", np.array(scale.zero_point, scale.dtype))
        codes = graph.add("QuantizeLinear", [name, s, z], graph.fresh(f"{name}_quantized"))
        real = graph.add("DequantizeLinear", [codes, s, z], graph.fresh(f"{name}_dequantized"))
        for node in readers:
            for i, read in enumerate(node.input):
                if read == name:
                    node.input[i] = real

    def _layer(self, layer, data, statistics):
        graph, o = self.graph, self.options
        weight = graph.value(layer.weight)
        axis = layer.axis if o.per_channel else None
        most = 63 if o.reduce_range else 127
        scales = weight_scales(weight, axis, most, o.weight_method)
        wide = spread(scales, weight.ndim, axis)
        codes = np.clip(np.rint(weight / wide), -most, most).astype(np.int8)
        rounded = codes * wide
        name = graph.add_constant(f"{layer.weight}_quantized", codes)
        s = graph.add_constant(f"{layer.weight}_scale", scales if axis is not None else scales.reshape(()))
        zeros = np.zeros(scales.shape if axis is not None else (), np.int8)
        z = graph.add_constant(f"{layer.weight}_zero_point", zeros)
        layer.node.input[1] = graph.add("DequantizeLinear", [name, s, z], graph.fresh(f"{layer.weight}_dequantized"),
                                        **({"axis": axis} if axis is not None else {}))
        self._bias(layer, data, scales, weight - rounded, statistics)
        kept = statistics.values
        low, high = data.limits
        half = float(data.scale) / 2
        return {"name": layer.name, "op": layer.node.op_type, "macs": layer.macs, "bits": 8,
                "weight_sqnr": sqnr(weight, rounded), "input_sqnr": sqnr(kept, data.round_trip(kept)),
                "clipped": float(np.mean((kept < low - half) | (kept > high + half))),
                "range": [float(statistics.low), float(statistics.high)], "scale": float(data.scale)}

    def _shift(self, layer, error, statistics):
        """What rounding the weights takes from the mean of each output channel."""
        mean = statistics.mean
        if not self.options.bias_correction or mean is None:
            return 0
        if layer.is_product:
            error = layer.matrix(error)
            return error @ mean if error.shape[1] == len(mean) else 0
        per_tap = error.reshape(*error.shape[:2], -1).sum(-1)  # (outputs, inputs of a group)
        groups = len(mean) // per_tap.shape[1]
        if groups * per_tap.shape[1] != len(mean) or len(per_tap) % groups:
            return 0
        by_group = per_tap.reshape(groups, len(per_tap) // groups, -1)
        return np.einsum("goi,gi->go", by_group, mean.reshape(groups, -1)).reshape(-1)

    def _bias(self, layer, data, scales, error, statistics):
        graph = self.graph
        shift = self._shift(layer, error, statistics)
        if layer.node.op_type == "MatMul":
            self._added_bias(layer, shift)
            return
        count = graph.constants[layer.weight].dims[layer.axis]
        if layer.bias is not None and not (graph.is_constant(layer.bias) and graph.value(layer.bias).size == count):
            return
        bias = graph.value(layer.bias).reshape(-1).astype(np.float64) if layer.bias is not None else np.zeros(count)
        if layer.bias is None and np.ndim(shift) == 0:
            return
        steps = scales.astype(np.float64) * float(data.scale)
        codes = np.clip(np.rint((bias + shift) / steps), -2**31, 2**31 - 1).astype(np.int32)
        base = layer.bias or f"{layer.weight}_bias"
        name = graph.add_constant(f"{base}_quantized", codes)
        per_channel = len(scales) > 1 or self.options.per_channel
        s = graph.add_constant(f"{base}_scale", steps.astype(np.float32) if per_channel else
                               np.float32(steps[0]).reshape(()))
        z = graph.add_constant(f"{base}_zero_point", np.zeros(scales.shape if per_channel else (), np.int32))
        real = graph.add("DequantizeLinear", [name, s, z], graph.fresh(f"{base}_dequantized"),
                         **({"axis": 0} if per_channel else {}))
        while len(layer.node.input) < 3:
            layer.node.input.append("")
        layer.node.input[2] = real

    def _added_bias(self, layer, shift):
        """A MatMul's bias is what an Add after it adds."""
        if np.ndim(shift) == 0:
            return
        readers = self.graph.readers.get(layer.node.output[0], [])
        if len(readers) != 1 or readers[0].op_type != "Add":
            return
        for i, name in enumerate(readers[0].input):
            if self.graph.is_constant(name) and self.graph.value(name).size == len(shift):
                value = self.graph.value(name)
                readers[0].input[i] = self.graph.add_constant(
                    f"{name}_corrected", (value + shift.reshape(value.shape)).astype(value.dtype))
                return
