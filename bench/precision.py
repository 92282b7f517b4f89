#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures one network in float32, with 8-bit integers (QDQ and operators of its own) and a stack of layers with 4-bit
weights, beside ONNX Runtime at the same precision; the engines take turns. Prints medians in milliseconds."""
import argparse
import pathlib
import statistics
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import treadle

RNG = np.random.default_rng(0)


class Graph:
    """Collects nodes and weights."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{name}", **attributes))
        return name

    def save(self, path, result, shape):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], self.weights)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def residual_network(path, size=224):
    graph = Graph()

    def conv(x, inputs, outputs, kernel, stride=1):
        weight = RNG.standard_normal((outputs, inputs, kernel, kernel)) * (2 / (inputs * kernel * kernel)) ** 0.5
        return graph.add("Conv", [x, graph.weight(weight.astype(np.float32)),
                                  graph.weight(np.zeros(outputs, np.float32))],
                         kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2)

    x, channels = graph.add("Relu", [conv("x", 3, 64, 7, 2)]), 64
    x = graph.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, count in enumerate((2, 2, 2, 2)):
        for block in range(count):
            stride, outputs = 2 if block == 0 and stage > 0 else 1, 256 << stage
            y = graph.add("Relu", [conv(x, channels, outputs // 4, 1)])
            y = graph.add("Relu", [conv(y, outputs // 4, outputs // 4, 3, stride)])
            y = conv(y, outputs // 4, outputs, 1)
            x = graph.add("Relu", [graph.add("Add", [y, conv(x, channels, outputs, 1, stride) if block == 0 else x])])
            channels = outputs
    graph.save(path, graph.add("GlobalAveragePool", [x]), [1, 3, size, size])
    return (1, 3, size, size)


def layers_of_few_bits(path, rows=1, width=2048, inner=5632, block=32):
    graph, x = Graph(), "x"
    for _ in range(4):
        for inputs, outputs in ((width, inner), (inner, width)):
            packed = RNG.integers(0, 256, (outputs, inputs // block, block // 2), dtype=np.uint8)
            scales = np.full(outputs * inputs // block, inputs**-0.5 / 8, np.float32)
            x = graph.add("MatMulNBits", [x, graph.weight(packed), graph.weight(scales)], domain="com.microsoft",
                          K=inputs, N=outputs, bits=4, block_size=block, accuracy_level=4)
    graph.save(path, x, [rows, width])
    return (rows, width)


class Samples(CalibrationDataReader):
    def __init__(self, shape):
        self.left = [RNG.standard_normal(shape).astype(np.float32) for _ in range(2)]

    def get_next(self):
        return {"x": self.left.pop()} if self.left else None


def median(run, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def compare(name, path, shape, threads, seconds):
    x = RNG.standard_normal(shape).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    context = treadle.compile(path).create_context(threads=threads)
    wanted, = session.run(None, {"x": x})
    result = context(x=x)
    result = np.asarray(next(iter(result.values())) if isinstance(result, dict) else result[0])
    noise = np.square(result - wanted).sum()
    quality = "equal" if noise == 0 else f"{10 * np.log10(np.square(wanted).sum() / noise):.0f} dB"
    times = [(median(lambda: session.run(None, {"x": x}), seconds), median(lambda: context(x=x), seconds))
             for _ in range(3)]
    peer, own = (min(column) for column in zip(*times))
    print(f"{name:24} ONNX Runtime {peer:8.2f}  Treadle {own:8.2f}  ratio {peer / own:5.2f}  {quality}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="per engine and turn, three turns")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = {name: str(pathlib.Path(folder) / f"{name}.onnx") for name in ("f32", "qdq", "qop", "w4", "w4_rows")}
        shape = residual_network(path["f32"])
        for form, kind in (("qdq", QuantFormat.QDQ), ("qop", QuantFormat.QOperator)):
            quantize_static(path["f32"], path[form], Samples(shape), quant_format=kind, per_channel=True,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        for name in ("f32", "qdq", "qop"):
            compare(f"residual network, {name}", path[name], shape, arguments.threads, arguments.seconds)
        for name, rows in (("w4", 1), ("w4_rows", 32)):
            compare(f"4-bit layers, {rows} rows", path[name], layers_of_few_bits(path[name], rows), arguments.threads,
                    arguments.seconds)


if __name__ == "__main__":
    main()
