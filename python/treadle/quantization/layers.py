# SPDX-License-Identifier: Apache-2.0
"""The layers that quantisation is about: products and convolutions with constant weights."""
import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .graph import Graph


@dataclasses.dataclass
class Layer:
    node: Any  # onnx.NodeProto
    data: str  # names of values
    weight: str
    bias: str | None
    axis: int  # of the weight, along output channels
    macs: float = 0

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def is_product(self) -> bool:
        return self.node.op_type in ("MatMul", "Gemm")

    def matrix(self, array: np.ndarray) -> np.ndarray:
        """The weight of a product as (n, k)."""
        return array if self.axis == 0 else np.ascontiguousarray(array.T)


def attribute(node: Any, name: str, otherwise: Any = None) -> Any:
    """The value of an attribute of an ONNX node, or `otherwise`."""
    for item in node.attribute:
        if item.name == name:
            return {1: item.f, 2: item.i, 3: item.s}.get(item.type, list(item.ints))
    return otherwise


def find_layers(graph: "Graph") -> "list[Layer]":
    """In the order of the graph; a weight in float32 that isn't scalar."""
    found = []
    for node in graph.sorted_nodes():
        if node.domain not in ("", "ai.onnx") or len(node.input) < 2 or not graph.is_constant(node.input[1]):
            continue
        tensor = graph.constants[node.input[1]]
        if tensor.data_type != graph.onnx.TensorProto.FLOAT or graph.is_constant(node.input[0]):
            continue
        rank = len(tensor.dims)
        bias = node.input[2] if len(node.input) > 2 and node.input[2] else None
        if node.op_type == "Conv" and rank >= 3:
            axis = 0
        elif node.op_type == "MatMul" and rank == 2:
            axis = 1
        elif node.op_type == "Gemm" and not attribute(node, "transA", 0) and attribute(node, "alpha", 1.0) == 1.0 and \
                attribute(node, "beta", 1.0) == 1.0:
            axis = 0 if attribute(node, "transB", 0) else 1
        else:
            continue
        shape = graph.shape(node.output[0])
        positions = 0.0
        if shape is not None and all(shape):
            positions = float(np.prod([size or 0 for size in shape])) / tensor.dims[axis]
        found.append(Layer(node, node.input[0], node.input[1], bias, axis, positions * float(np.prod(tensor.dims))))
    return found
