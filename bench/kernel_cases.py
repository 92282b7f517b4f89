# SPDX-License-Identifier: Apache-2.0
"""Small generated models that together use every kernel of the CPU targets: each kind of convolution, matrix products,
attention, recurrent layers, resizing, pooling, reductions. For comparing what two compilers make of them, not for
timing."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# inputs, (height, width), outputs, kernel, stride, dilation, groups, padding
CONVOLUTIONS = [
    # direct, of plain and of blocked inputs, of channels that fill blocks or don't
    (3, (224, 224), 64, 7, 2, 1, 1, 3), (3, (96, 320), 16, 3, 2, 1, 1, 1), (1, (28, 28), 8, 5, 1, 1, 1, 2),
    (24, (40, 40), 24, 5, 1, 1, 1, 2), (20, (17, 23), 36, 3, 1, 1, 1, 1), (64, (56, 56), 64, 5, 2, 1, 1, 2),
    (32, (30, 30), 32, 3, 1, 2, 1, 2), (512, (14, 14), 512, 3, 2, 1, 1, 0), (48, (9, 100), 96, 3, 1, 1, 1, 1),
    (256, (28, 28), 128, 7, 1, 1, 1, 3),
    # Winograd
    (64, (56, 56), 64, 3, 1, 1, 1, 1), (128, (28, 28), 128, 3, 1, 1, 1, 1), (256, (14, 14), 256, 3, 1, 1, 1, 1),
    (512, (7, 7), 512, 3, 1, 1, 1, 1), (128, (56, 56), 256, 3, 2, 1, 1, 1), (64, (112, 112), 128, 3, 1, 1, 1, 1),
    (16, (160, 160), 16, 3, 1, 1, 1, 1), (32, (33, 65), 48, 3, 1, 1, 1, 0),
    # pointwise
    (64, (56, 56), 256, 1, 1, 1, 1, 0), (256, (56, 56), 512, 1, 2, 1, 1, 0), (1024, (14, 14), 256, 1, 1, 1, 1, 0),
    (512, (7, 7), 2048, 1, 1, 1, 1, 0), (10, (20, 20), 10, 1, 1, 1, 1, 0), (960, (1, 1), 240, 1, 1, 1, 1, 0),
    (2048, (28, 28), 512, 1, 1, 1, 1, 0),
    # depthwise
    (32, (112, 112), 32, 3, 1, 1, 32, 1), (64, (56, 56), 64, 3, 2, 1, 64, 1), (512, (14, 14), 512, 5, 1, 1, 512, 2),
    (24, (30, 30), 24, 3, 1, 1, 24, 1), (10, (30, 30), 10, 3, 1, 1, 10, 1),
    # grouped
    (128, (28, 28), 128, 3, 1, 1, 4, 1), (64, (28, 28), 64, 3, 1, 1, 16, 1), (240, (14, 14), 240, 1, 1, 1, 3, 0),
    (256, (56, 56), 256, 3, 2, 1, 32, 1), (60, (15, 15), 30, 3, 1, 1, 6, 1),
]
# inputs, (height, width), outputs, kernel, stride, padding
TRANSPOSED = [(64, (16, 16), 32, 2, 2, 0), (32, (13, 17), 3, 4, 2, 1), (24, (8, 8), 24, 3, 1, 1), (16, (7, 7), 16, 3, 3, 0)]
# m, k, n, whether the right operand is constant
PRODUCTS = [(1, 512, 1000, True), (4, 64, 64, True), (17, 100, 30, True), (128, 768, 768, True), (128, 768, 3072, True),
            (128, 3072, 768, True), (197, 64, 197, False), (512, 512, 512, False), (32, 48, 5, False),
            (1000, 1024, 1024, True), (6, 4096, 4096, True), (3, 20, 40, False)]
# batch, heads, queries, keys, size
ATTENTION = [(1, 4, 128, 128, 64), (2, 3, 197, 197, 64), (1, 2, 1, 255, 64), (1, 2, 33, 50, 24)]


class _Graph:
    def __init__(self):
        self.rng = np.random.default_rng(3)
        self.nodes, self.inputs, self.outputs, self.initializers = [], [], [], []

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, *shape):
        scale = (2 / max(1, int(np.prod(shape[1:])))) ** 0.5
        return self.constant((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, value):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind, *inputs, results=1, **attributes):
        names = [f"{kind}{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names[0] if results == 1 else names

    def output(self, *names):
        self.outputs.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)

    def model(self, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def convolutions():
    g = _Graph()
    for i, (ic, (ih, iw), oc, kernel, stride, dilation, groups, pad) in enumerate(CONVOLUTIONS):
        x = g.input(1, ic, ih, iw)
        # What comes in blocks is another kernel than what comes plain.
        x = g.add("Relu", x) if i % 2 else x
        y = g.add("Conv", x, g.weight(oc, ic // groups, kernel, kernel), g.weight(oc), kernel_shape=[kernel] * 2,
                  strides=[stride] * 2, dilations=[dilation] * 2, group=groups, pads=[pad] * 4)
        g.output(g.add("Relu", y) if i % 3 else y)
    return g.model("convolutions")


def convolutions_of_batches():
    g = _Graph()
    for ic, (ih, iw), oc, kernel, stride, dilation, groups, pad in CONVOLUTIONS[10:35:3]:
        y = g.add("Conv", g.input(4, ic, ih, iw), g.weight(oc, ic // groups, kernel, kernel), kernel_shape=[kernel] * 2,
                  strides=[stride] * 2, dilations=[dilation] * 2, group=groups, pads=[pad] * 4)
        g.output(g.add("Add", y, g.input(*(1, oc, 1, 1))))
    return g.model("convolutions_of_batches")


def other_convolutions():
    g = _Graph()
    for ic, (ih, iw), oc, kernel, stride, pad in TRANSPOSED:
        g.output(g.add("ConvTranspose", g.input(1, ic, ih, iw), g.weight(ic, oc, kernel, kernel), g.weight(oc),
                       kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4))
    g.output(g.add("Conv", g.input(1, 80, 300), g.weight(128, 80, 5), g.weight(128), kernel_shape=[5], pads=[2, 2]))
    g.output(g.add("Conv", g.input(1, 8, 6, 12, 12), g.weight(16, 8, 3, 3, 3), kernel_shape=[3] * 3, pads=[1] * 6))
    # A network of several: what lies between convolutions follows their layouts.
    x = g.input(1, 3, 64, 64)
    for i, (ic, oc, groups) in enumerate([(3, 24, 1), (24, 24, 24), (24, 40, 1), (40, 40, 1), (40, 116, 2)]):
        x = g.add("Conv", x, g.weight(oc, ic // groups, 3, 3), g.weight(oc), kernel_shape=[3] * 2, pads=[1] * 4,
                  group=groups, strides=[1 + i % 2] * 2)
        x = g.add("HardSwish" if i % 2 else "Relu", x)
    g.output(g.add("GlobalAveragePool", x), g.add("Resize", x, "", g.constant(np.float32([1, 1, 2, 2])), mode="nearest"))
    return g.model("other_convolutions")


def products():
    g = _Graph()
    for m, k, n, constant in PRODUCTS:
        right = g.weight(k, n) if constant else g.input(k, n)
        g.output(g.add("MatMul", g.input(m, k), right))
    g.output(g.add("Gemm", g.input(20, 96), g.weight(70, 96), g.weight(70), transB=1))
    g.output(g.add("Relu", g.add("Add", g.add("MatMul", g.input(2, 30, 64), g.weight(64, 128)), g.weight(128))))
    g.output(g.add("MatMul", g.input(6, 40, 32), g.input(6, 32, 48)))
    g.output(g.add("MatMul", g.add("Softmax", g.input(6, 40, 32)), g.add("Tanh", g.input(6, 32, 48))))
    return g.model("products")


def attention():
    g = _Graph()
    for batch, heads, queries, keys, size in ATTENTION:
        q, k, v = (g.input(batch, heads, n, size) for n in (queries, keys, keys))
        scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.add("Mul", scores, g.constant(np.float32(size ** -0.5)))
        scores = g.add("Add", scores, g.input(1, 1, 1, keys))
        g.output(g.add("MatMul", g.add("Softmax", scores, axis=-1), v))
    return g.model("attention")


def recurrent():
    g = _Graph()
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for directions in (1, 2):
            y = g.add(kind, g.input(6, 1, 40), g.weight(directions, gates * 24, 40), g.weight(directions, gates * 24, 24),
                      g.weight(directions, 2 * gates * 24), hidden_size=24,
                      direction="bidirectional" if directions == 2 else "forward")
            g.output(y)
    return g.model("recurrent")


def resampling():
    g = _Graph()
    sizes = [np.float32([1, 1, 2, 2]), np.float32([1, 1, 1.5, 0.75])]
    for mode, how in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
                      ("cubic", "half_pixel")):
        for scale in sizes:
            g.output(g.add("Resize", g.input(1, 16, 24, 32), "", g.constant(scale), mode=mode,
                           coordinate_transformation_mode=how))
    for kind in ("MaxPool", "AveragePool"):
        g.output(g.add(kind, g.input(1, 20, 30, 30), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    return g.model("resampling")


def injective():
    g = _Graph()
    g.output(g.add("Softmax", g.input(8, 100), axis=-1), g.add("Softmax", g.input(4, 10, 16), axis=1))
    g.output(g.add("ReduceSum", g.input(4, 64, 30), g.constant(np.int64([1])), keepdims=0))
    g.output(g.add("ReduceMean", g.input(4, 64, 30), axes=[2], keepdims=1), g.add("ReduceMax", g.input(50, 33), axes=[0]))
    g.output(g.add("LayerNormalization", g.input(2, 20, 96), g.weight(96), g.weight(96)))
    g.output(g.add("Transpose", g.input(2, 30, 40, 5), perm=[0, 2, 3, 1]), g.add("Transpose", g.input(300, 200)))
    g.output(g.add("Erf", g.input(7, 11)), g.add("Gather", g.input(100, 24), g.constant(np.int64([3, 1, 4])), axis=0))
    g.output(g.add("Concat", g.input(2, 3, 8), g.input(2, 5, 8), axis=1), g.add("Mul", g.input(8, 1, 6), g.input(7, 1)))
    g.output(g.add("CumSum", g.input(4, 20), g.constant(np.int64(1))), *g.add("Split", g.input(6, 10), results=2, axis=1))
    return g.model("injective")


CASES = [convolutions, convolutions_of_batches, other_convolutions, products, attention, recurrent, resampling,
         injective]
