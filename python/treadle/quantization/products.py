# SPDX-License-Identifier: Apache-2.0
"""Products quantised at run time (dynamic), or only in their weights."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .ranges import blocks_of, sqnr, spread, weight_scales

if TYPE_CHECKING:
    from .graph import Graph
    from .layers import Layer


def dynamic(graph: "Graph", layers: "Sequence[Layer]", options: Any) -> list[dict[str, Any]]:
    """Products of rows that are quantised as they come: DynamicQuantizeLinear and MatMulInteger."""
    rows, known = [], {}
    for layer in layers:
        node = layer.node
        weight = graph.value(layer.weight)
        axis = layer.axis if options.per_channel else None
        scales = weight_scales(weight, axis, 127, options.weight_method)
        wide = spread(scales, weight.ndim, axis)
        codes = np.clip(np.rint(weight / wide), -127, 127).astype(np.int8)
        rows.append({"name": layer.name, "op": node.op_type, "macs": layer.macs, "bits": 8,
                     "weight_sqnr": sqnr(weight, codes * wide)})
        if layer.data not in known:
            names = [graph.fresh(f"{layer.data}_{part}") for part in ("quantized", "scale", "zero_point")]
            graph.nodes.append(graph.onnx.helper.make_node("DynamicQuantizeLinear", [layer.data], names,
                                                           name=graph.fresh(f"{layer.data}_DynamicQuantizeLinear")))
            known[layer.data] = names
        x, x_scale, x_zero = known[layer.data]
        w = graph.add_constant(f"{layer.weight}_quantized", codes if layer.axis == 1 else codes.T)
        zero = graph.add_constant(f"{layer.weight}_zero_point", np.array(0, np.int8))
        s = graph.add_constant(f"{layer.weight}_scale", scales if axis is not None else scales.reshape(()))
        base, out = node.output[0], node.output[0]
        sums = graph.add("MatMulInteger", [x, w, x_zero, zero], graph.fresh(f"{base}_int32"))
        real = graph.add("Cast", [sums], graph.fresh(f"{base}_float"), to=graph.onnx.TensorProto.FLOAT)
        factor = graph.add("Mul", [x_scale, s], graph.fresh(f"{base}_scale"))
        product = out if layer.bias is None else graph.fresh(f"{base}_product")
        graph.add("Mul", [real, factor], product)
        if layer.bias is not None:
            graph.add("Add", [product, layer.bias], out)
        graph.nodes = [other for other in graph.nodes if other is not node]
    return rows


def _packed(codes, bits):
    """Codes (n, blocks, block) as bytes, the first in the low bits."""
    if bits == 8:
        return codes
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def _packed_zeros(zeros, bits):
    """Zero points (n, blocks), each row filled up to whole bytes."""
    if bits == 8:
        return zeros
    if zeros.shape[1] % 2:
        zeros = np.concatenate([zeros, np.zeros((len(zeros), 1), np.uint8)], axis=1)
    return (zeros[:, 0::2] | zeros[:, 1::2] << 4).astype(np.uint8)


def weight_only(graph: "Graph", layers: "Sequence[Layer]", options: Any,
                awq_scales: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Weights of 4 or 8 bits with scales per block of k: com.microsoft.MatMulNBits. `awq_scales`: {layer name: factors
    of the columns of its weight that its input was divided by}."""
    rows = []
    for layer in layers:
        node = layer.node
        weight = layer.matrix(graph.value(layer.weight)).astype(np.float32)
        n, k = weight.shape
        if layer.name in awq_scales:
            weight = weight * awq_scales[layer.name]
        bits, block = options.bits, options.block
        codes, scales, zeros = blocks_of(weight, bits, block, options.symmetric_weights, options.weight_method)
        rounded = ((codes.astype(np.float32) - zeros[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
        rows.append({"name": layer.name, "op": node.op_type, "macs": layer.macs, "bits": bits,
                     "weight_sqnr": sqnr(weight, rounded)})
        inputs = [node.input[0], graph.add_constant(f"{layer.weight}_q{bits}", _packed(codes, bits)),
                  graph.add_constant(f"{layer.weight}_scales", scales)]
        if not options.symmetric_weights:
            inputs.append(graph.add_constant(f"{layer.weight}_zero_points", _packed_zeros(zeros, bits)))
        out = node.output[0] if layer.bias is None else graph.fresh(f"{node.output[0]}_product")
        graph.add("MatMulNBits", inputs, out, domain="com.microsoft", K=k, N=n, bits=bits, block_size=block,
                  accuracy_level=options.accuracy_level)
        if layer.bias is not None:
            graph.add("Add", [out, layer.bias], node.output[0])
        graph.nodes = [other for other in graph.nodes if other is not node]
    return rows
