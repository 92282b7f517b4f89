#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures one network in float32, with 8-bit integers (QDQ and operators of its own) and a stack of layers with 4-bit
weights, beside ONNX Runtime at the same precision; a network and a transformer in float32, bfloat16 and float16, beside
ONNX Runtime and OpenVINO in float32 and by its default. The engines take turns. Prints medians in milliseconds."""
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


def transformer(path, tokens=128, width=768, heads=12, layers=2):
    """Layers as BERT's: attention, normalisation, and GELU between two products."""
    graph = Graph()
    shapes = {name: graph.weight(np.array(value, np.int64)) for name, value in
              (("split", [0, 0, heads, width // heads]), ("join", [0, 0, width]))}
    scale, root, one, half = (graph.weight(np.float32(value)) for value in
                              ((width // heads)**-0.5, 2**0.5, 1.0, 0.5))

    def product(x, inputs, outputs):
        weight = RNG.standard_normal((inputs, outputs), dtype=np.float32) * np.float32(inputs**-0.5)
        bias = RNG.standard_normal(outputs, dtype=np.float32) * np.float32(0.1)
        return graph.add("Add", [graph.add("MatMul", [x, graph.weight(weight)]), graph.weight(bias)])

    def normalise(x):
        return graph.add("LayerNormalization", [x, graph.weight(np.ones(width, np.float32)),
                                                graph.weight(np.zeros(width, np.float32))], axis=-1)

    x = "x"
    for _ in range(layers):
        q, k, v = (graph.add("Reshape", [product(x, width, width), shapes["split"]]) for _ in range(3))
        q, k, v = (graph.add("Transpose", [part], perm=perm) for part, perm in
                   ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3])))
        scores = graph.add("Softmax", [graph.add("Mul", [graph.add("MatMul", [q, k]), scale])], axis=-1)
        y = graph.add("Transpose", [graph.add("MatMul", [scores, v])], perm=[0, 2, 1, 3])
        x = normalise(graph.add("Add", [x, product(graph.add("Reshape", [y, shapes["join"]]), width, width)]))
        y = product(x, width, 4 * width)
        erf = graph.add("Add", [graph.add("Erf", [graph.add("Div", [y, root])]), one])
        y = graph.add("Mul", [graph.add("Mul", [y, erf]), half])
        x = normalise(graph.add("Add", [x, product(y, 4 * width, width)]))
    graph.save(path, x, [1, tokens, width])
    return (1, tokens, width)


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


def onnxruntime_runner(path, x, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def treadle_runner(path, x, threads, precision):
    context = treadle.compile(path, precision=precision).create_context(threads=threads)

    def run():
        result = context(x=x)
        return next(iter(result.values())) if isinstance(result, dict) else result[0]

    return run


def openvino_runner(path, x, threads, precision):
    import openvino

    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    if precision == "f32":
        options["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = openvino.Core().compile_model(path, "CPU", options)
    request = compiled.create_infer_request()
    return lambda: request.infer({"x": x})[compiled.outputs[0]]


def compare(name, path, shape, precision, threads, seconds):
    """A row: what is measured, threads, milliseconds by engine, decibels of Treadle's result."""
    x = RNG.standard_normal(shape).astype(np.float32)
    wanted = onnxruntime_runner(path, x, threads)()
    runners = {"treadle": treadle_runner(path, x, threads, precision)}
    if precision == "f32":
        runners["onnxruntime"] = onnxruntime_runner(path, x, threads)
    try:
        runners["openvino"] = openvino_runner(path, x, threads, precision)
    except (ImportError, RuntimeError):  # not installed, or it refuses the model
        pass
    noise = np.square(np.asarray(runners["treadle"]()) - wanted).sum()
    quality = None if noise == 0 else round(float(10 * np.log10(np.square(wanted).sum() / noise)), 1)
    times = {engine: [] for engine in runners}
    for _ in range(3):
        for engine, run in runners.items():
            times[engine].append(median(run, seconds))
    return {"name": name, "threads": threads, "decibels": quality,
            "ms": {engine: min(values) for engine, values in times.items()}}


def text_of(row):
    quality = "equal" if row["decibels"] is None else f"{row['decibels']:.0f} dB"
    own = row["ms"]["treadle"]
    peers = "  ".join(f"{engine} {ms:.2f} ms, ratio {ms / own:.2f}" for engine, ms in row["ms"].items()
                      if engine != "treadle")
    return f"{row['name']:24} {row['threads']} thr  treadle {own:.2f} ms  {peers}  {quality}"


def rows(threads, seconds):
    """All rows, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = {name: str(pathlib.Path(folder) / f"{name}.onnx") for name in ("f32", "qdq", "qop", "w4", "w4_rows")}
        shape = residual_network(path["f32"])
        for form, kind in (("qdq", QuantFormat.QDQ), ("qop", QuantFormat.QOperator)):
            quantize_static(path["f32"], path[form], Samples(shape), quant_format=kind, per_channel=True,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        cases = [("network, f32", path["f32"], shape, "f32"), ("network, bf16", path["f32"], shape, "bf16"),
                 ("network, int8 QDQ", path["qdq"], shape, "f32"), ("network, int8 operators", path["qop"], shape, "f32")]
        for name, count in (("w4", 1), ("w4_rows", 32)):
            cases.append((f"4-bit layers, {count} rows", path[name], layers_of_few_bits(path[name], count), "f32"))
        for case in cases:
            for count in threads:
                yield compare(*case, count, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1", help="such as 1,2")
    parser.add_argument("--seconds", type=float, default=1.0, help="per engine and turn, three turns")
    arguments = parser.parse_args()
    for row in rows([int(n) for n in arguments.threads.split(",")], arguments.seconds):
        print(text_of(row), flush=True)


if __name__ == "__main__":
    main()
