# SPDX-License-Identifier: Apache-2.0
"""Models that tests and benchmarks run: those inside the installed packages `onnx` and `rapidocr-onnxruntime`, and
generated ones. Nothing is downloaded here."""
import dataclasses
import functools
import importlib.util
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

import layers
import transformers


@dataclasses.dataclass(frozen=True)
class Case:
    """A model at one size of its inputs."""

    name: str
    path: pathlib.Path | None
    shapes: dict
    make: object = None  # a function that builds the model, when there is no file
    integers: dict = dataclasses.field(default_factory=dict)  # of integer inputs: ((low, high), dtype)
    layer: bool = False  # a single layer, not a whole model

    def model(self):
        """The model as onnx.ModelProto."""
        return onnx.load(self.path) if self.path is not None else self.make()

    def bytes(self):
        return self.path.read_bytes() if self.path is not None else self.make().SerializeToString()

    def inputs(self, seed=0):
        """Random inputs, the same for the same seed."""
        rng = np.random.default_rng(seed)
        inputs = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in self.shapes.items()}
        for name, (value_range, dtype) in self.integers.items():
            inputs[name] = rng.integers(*value_range, size=self.shapes[name], dtype=dtype)
        if "ppocrv4_det" in self.name:  # finds no text in noise: all outputs would be rounding errors around 1e-7
            inputs["x"] = _picture_of_text(self.shapes["x"]) + 0.01 * inputs["x"]
        return inputs


def _picture_of_text(shape):
    """A word on light ground, normalised as for ImageNet, in BGR."""
    from PIL import Image, ImageDraw, ImageFont

    batch, _, height, width = shape
    picture = Image.new("RGB", (width, height), (250, 248, 240))
    font = ImageFont.load_default(size=height // 4)
    ImageDraw.Draw(picture).text((width // 16, height // 3), "Treadle", fill=(20, 20, 40), font=font)
    pixels = np.asarray(picture, np.float32)[:, :, ::-1] / 255
    normal = (pixels - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
    return np.repeat(np.ascontiguousarray(normal.transpose(2, 0, 1)[None]), batch, axis=0)


def _folder(package):
    return pathlib.Path(importlib.util.find_spec(package).origin).parent


def light_models():
    """The classic networks of the onnx package; their weights are computed by ConstantOfShape."""
    cases = []
    for path in sorted((_folder("onnx") / "backend/test/data/light").glob("light_*.onnx")):
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        shapes = {value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
                  for value in model.graph.input if value.name not in constants}
        cases.append(Case(path.stem, path, shapes))
    return cases


def seeded_light_model(case):
    """The light model with random weights instead of equal ones: its outputs depend on its inputs."""
    model = case.model()
    rng = np.random.default_rng(7)
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    kept = []
    consumers = {}
    for node in model.graph.node:
        for position, name in enumerate(node.input):
            consumers.setdefault(name, (node.op_type, position))
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in known:
            kept.append(node)
            continue
        shape = tuple(int(dim) for dim in known[node.input[0]])
        fan_in = max(1, int(np.prod(shape[1:])))
        value = rng.standard_normal(shape).astype(np.float32)
        kind, position = consumers.get(node.output[0], ("", 0))
        if kind == "BatchNormalization":
            value = (0.5 + 0.5 * np.abs(value)) if position in (1, 4) else 0.1 * value
        elif len(shape) > 1:
            value *= (2.0 / fan_in) ** 0.5
        else:
            value = 0.1 * value if position >= 2 else 1 + 0.1 * value
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


OCR_SHAPES = {
    "det": ("ch_PP-OCRv4_det_infer.onnx", [(1, 3, 96, 320), (1, 3, 224, 224), (1, 3, 320, 480)]),
    "rec": ("ch_PP-OCRv4_rec_infer.onnx", [(1, 3, 48, 160), (1, 3, 48, 320), (1, 3, 48, 480)]),
    "cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", [(1, 3, 48, 192), (2, 3, 48, 192), (6, 3, 48, 192)]),
}


def ocr_models():
    """The three PP-OCRv4 models (detector, recogniser, direction classifier) at three sizes each."""
    folder = _folder("rapidocr_onnxruntime") / "models"
    return [Case(f"ppocrv4_{kind}_{'x'.join(map(str, shape))}", folder / file, {"x": shape})
            for kind, (file, shapes) in OCR_SHAPES.items() for shape in shapes]


class _Builder:
    """Appends nodes with seeded weights to a graph."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.count = [], [], 0

    def constant(self, value):
        self.count += 1
        name = f"w{self.count}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op_type, *inputs, **attributes):
        self.count += 1
        name = f"t{self.count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=f"{op_type}_{self.count}", **attributes))
        return name

    def weight(self, *shape):
        fan_in = int(np.prod(shape[1:]))
        return self.constant((self.rng.standard_normal(shape) * (2 / fan_in) ** 0.5).astype(np.float32))

    def conv(self, x, inputs, outputs, kernel, stride=1, groups=1, relu=True):
        """Convolution, batch normalisation and, usually, ReLU."""
        pad = kernel // 2
        x = self.add("Conv", x, self.weight(outputs, inputs // groups, kernel, kernel), kernel_shape=[kernel, kernel],
                     strides=[stride, stride], pads=[pad] * 4, group=groups)
        gamma = self.constant(np.full(outputs, 0.7, np.float32))
        beta = self.constant((0.1 * self.rng.standard_normal(outputs)).astype(np.float32))
        mean = self.constant((0.1 * self.rng.standard_normal(outputs)).astype(np.float32))
        variance = self.constant((0.5 + self.rng.random(outputs)).astype(np.float32))
        x = self.add("BatchNormalization", x, gamma, beta, mean, variance)
        return self.add("Relu", x) if relu else x

    def model(self, name, shape, output, output_shape, opset=17):
        graph = helper.make_graph(
            self.nodes, name, [helper.make_tensor_value_info("data", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, output_shape)], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(model)
        return model


def resnet18(seed=0, batch=1, classes=1000):
    """ResNet-18 (He et al. 2015, the standard topology for ImageNet) with seeded weights."""
    b = _Builder(seed)
    x = b.conv("data", 3, 64, 7, stride=2)
    x = b.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            shortcut = x
            if stride != 1 or channels != width:
                shortcut = b.conv(x, channels, width, 1, stride=stride, relu=False)
            y = b.conv(x, channels, width, 3, stride=stride)
            y = b.conv(y, width, width, 3, relu=False)
            x = b.add("Relu", b.add("Add", y, shortcut))
            channels = width
    x = b.add("Flatten", b.add("GlobalAveragePool", x), axis=1)
    bias = b.constant(np.zeros(classes, np.float32))
    x = b.add("Gemm", x, b.weight(classes, 512), bias, transB=1)
    return b.model("resnet18", [batch, 3, 224, 224], x, [batch, classes])


def mobilenet(seed=0):
    """MobileNet v1 (Howard et al. 2017): depthwise and pointwise convolutions."""
    b = _Builder(seed)
    x, channels = b.conv("data", 3, 32, 3, stride=2), 32
    for width, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                          (1024, 1)):
        x = b.conv(x, channels, channels, 3, stride=stride, groups=channels)
        x, channels = b.conv(x, channels, width, 1), width
    x = b.add("Flatten", b.add("GlobalAveragePool", x), axis=1)
    x = b.add("Gemm", x, b.weight(1000, 1024), b.constant(np.zeros(1000, np.float32)), transB=1)
    return b.model("mobilenet", [1, 3, 224, 224], x, [1, 1000])


def shufflenet_v2(seed=0):
    """ShuffleNet v2 1.0x (Ma et al. 2018): 58 and 116 channels, which divide into no blocks."""
    b = _Builder(seed)
    x, channels, size = b.conv("data", 3, 24, 3, stride=2), 24, 56
    x = b.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for width, units in ((116, 4), (232, 8), (464, 4)):
        half, size = width // 2, size // 2
        for unit in range(units):
            if unit == 0:
                left = b.conv(x, channels, channels, 3, stride=2, groups=channels, relu=False)
                left, right, inputs = b.conv(left, channels, half, 1), x, channels
            else:
                left = b.add("Slice", x, *(b.constant(np.int64([v])) for v in (0, half, 1)))
                right, inputs = b.add("Slice", x, *(b.constant(np.int64([v])) for v in (half, width, 1))), half
            right = b.conv(right, inputs, half, 1)
            right = b.conv(right, half, half, 3, stride=2 if unit == 0 else 1, groups=half, relu=False)
            x = b.add("Concat", left, b.conv(right, half, half, 1), axis=1)
            x = b.add("Transpose", b.add("Reshape", x, b.constant(np.int64([1, 2, half, size, size]))),
                      perm=[0, 2, 1, 3, 4])
            x, channels = b.add("Reshape", x, b.constant(np.int64([1, width, size, size]))), width
    x = b.add("Flatten", b.add("GlobalAveragePool", b.conv(x, channels, 1024, 1)), axis=1)
    x = b.add("Gemm", x, b.weight(1000, 1024), b.constant(np.zeros(1000, np.float32)), transB=1)
    return b.model("shufflenet_v2", [1, 3, 224, 224], x, [1, 1000])


def efficientnet_b0(seed=0):
    """EfficientNet-B0 (Tan and Le 2019): 5 x 5 depthwise convolutions, gates from all positions, SiLU."""
    b = _Builder(seed)

    def silu(x):
        return b.add("Mul", x, b.add("Sigmoid", x))

    x, channels = silu(b.conv("data", 3, 32, 3, stride=2, relu=False)), 32
    for expansion, kernel, width, units, stride in ((1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2),
                                                    (6, 3, 80, 3, 2), (6, 5, 112, 3, 1), (6, 5, 192, 4, 2),
                                                    (6, 3, 320, 1, 1)):
        for unit in range(units):
            y, hidden = x, channels * expansion
            if expansion != 1:
                y = silu(b.conv(y, channels, hidden, 1, relu=False))
            y = silu(b.conv(y, hidden, hidden, kernel, stride=stride if unit == 0 else 1, groups=hidden, relu=False))
            gate = silu(b.conv(b.add("GlobalAveragePool", y), hidden, channels // 4, 1, relu=False))
            y = b.add("Mul", y, b.add("Sigmoid", b.conv(gate, channels // 4, hidden, 1, relu=False)))
            y = b.conv(y, hidden, width, 1, relu=False)
            x, channels = b.add("Add", x, y) if unit > 0 else y, width
    x = silu(b.conv(x, channels, 1280, 1, relu=False))
    x = b.add("Flatten", b.add("GlobalAveragePool", x), axis=1)
    x = b.add("Gemm", x, b.weight(1000, 1280), b.constant(np.zeros(1000, np.float32)), transB=1)
    return b.model("efficientnet_b0", [1, 3, 224, 224], x, [1, 1000])


def mlp(seed=0, batch=16, width=1024, layers=3):
    """Dense layers with ReLU."""
    b = _Builder(seed)
    x = "data"
    for _ in range(layers):
        x = b.add("Relu", b.add("Gemm", x, b.weight(width, width), b.constant(np.zeros(width, np.float32)), transB=1))
    return b.model("mlp", [batch, width], x, [batch, width])


def generated_models():
    return [Case("resnet18", None, {"data": (1, 3, 224, 224)}, resnet18),
            Case("mobilenet", None, {"data": (1, 3, 224, 224)}, mobilenet),
            Case("shufflenet_v2", None, {"data": (1, 3, 224, 224)}, shufflenet_v2),
            Case("efficientnet_b0", None, {"data": (1, 3, 224, 224)}, efficientnet_b0),
            Case("mlp", None, {"data": (16, 1024)}, mlp)]


def transformer_models(layers=12):
    """BERT-base with 128 tokens, ViT-B/16, one GPT-2 step with 255 tokens in the cache; with fewer layers for tests."""
    ids = {"input_ids": ((0, 1000), np.int64)}
    caches = {f"past_{part}_{i}": (1, 12, 255, 64) for i in range(layers) for part in ("key", "value")}
    return [Case("bert_base_128", None, {"input_ids": (1, 128), "attention_mask": (1, 128)},
                 functools.partial(transformers.bert, layers), {**ids, "attention_mask": ((0, 2), np.int64)}),
            Case("vit_b16", None, {"data": (1, 3, 224, 224)}, functools.partial(transformers.vit, layers)),
            Case("gpt2_step", None, {"input_ids": (1, 1), **caches},
                 functools.partial(transformers.decoder_step, layers), ids)]


def speech_models():
    """Silero VAD (16 kHz, one frame of 512 samples with 64 of context, the state carried by the caller) where its
    package is installed."""
    if importlib.util.find_spec("silero_vad") is None:
        return []
    path = _folder("silero_vad") / "data/silero_vad_16k_op15.onnx"
    return [Case("silero_vad_frame", path, {"input": (1, 576), "state": (2, 1, 128), "sr": ()},
                 integers={"sr": ((16000, 16001), np.int64)})]


def layer_models():
    """Single layers; see layers.py."""
    cases = [Case(f"product_{m}x{k}x{n}", None, {"a": (m, k), "b": (k, n)}, functools.partial(layers.product, m, k, n), layer=True)
             for m, k, n in layers.PRODUCTS]
    return cases + [Case("conv_{}x{}_{}_{}x{}_s{}_g{}".format(c, size, out, kernel, kernel, stride, groups), None,
                         {"x": (1, c, size, size)},
                         functools.partial(layers.convolution, c, size, out, kernel, stride, groups), layer=True)
                    for c, size, out, kernel, stride, groups in layers.CONVOLUTIONS]


@functools.lru_cache(maxsize=None)
def all_models():
    return (*light_models(), *ocr_models(), *generated_models(), *transformer_models(), *speech_models(),
            *layer_models())


def fixed_shapes(model, shapes):
    """A copy of the model whose inputs have these shapes, with the shapes of all its values inferred."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in model.graph.input:
        if value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, shapes[value.name]):
                dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return shape_inference.infer_shapes(model)


def flops(model, shapes):
    """Floating-point operations of the convolutions and matrix products, two per multiply-add; 0 where unknown."""
    model = fixed_shapes(model, shapes)
    known = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        known.setdefault(value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim))
    total = 0
    for node in model.graph.node:
        shape = [known.get(name, ()) for name in node.input]
        out = known.get(node.output[0], ())
        if node.op_type == "Conv" and len(shape[1]) > 2:
            total += 2 * int(np.prod(out)) * int(np.prod(shape[1][1:]))
        elif node.op_type == "ConvTranspose" and len(shape[1]) > 2:
            total += 2 * int(np.prod(shape[0])) * int(np.prod(shape[1][1:]))
        elif node.op_type == "Gemm" and len(shape[0]) == 2:
            transposed = any(a.name == "transA" and a.i for a in node.attribute)
            total += 2 * int(np.prod(out)) * shape[0][0 if transposed else 1]
        elif node.op_type == "MatMul" and shape[0]:
            total += 2 * int(np.prod(out)) * shape[0][-1]
    return total


def least_bytes(model, shapes):
    """Bytes that a run has to read and write at the least: weights that aren't looked up by index, inputs, outputs."""
    model = fixed_shapes(model, shapes)
    looked_up = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    total = 0
    for tensor in model.graph.initializer:
        if tensor.name not in looked_up:
            total += int(np.prod(tensor.dims)) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    for node in model.graph.node:  # weights that the light models hold as a value and a shape
        if node.op_type == "ConstantOfShape":
            value = next((v for v in model.graph.value_info if v.name == node.output[0]), None)
            dims = value.type.tensor_type.shape.dim if value is not None else ()
            total += 4 * int(np.prod([dim.dim_value for dim in dims])) if dims else 0
    for value in (*model.graph.input, *model.graph.output):
        total += 4 * int(np.prod([dim.dim_value for dim in value.type.tensor_type.shape.dim]))
    return total


def compare(actual, expected, rtol=1e-3, atol_of_range=1e-5):
    """None when two outputs agree, else a sentence that says how they differ."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"type {actual.dtype} instead of {expected.dtype}"
    if actual.size == 0:
        return None
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = e[np.isfinite(e)]
    value_range = float(np.max(finite) - np.min(finite)) if finite.size else 0.0
    # A range of 0 (equal outputs) leaves rounding: relative to their size.
    atol = atol_of_range * (value_range or float(np.max(np.abs(finite), initial=0.0)))
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(a - e) <= atol + rtol * np.abs(e)) | (a == e) | (np.isnan(a) & np.isnan(e)))
    if not wrong.any():
        return None
    worst = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(np.abs(a - e), nan=np.inf), -1)), a.shape)
    where = tuple(int(i) for i in worst)
    return f"{int(wrong.sum())} of {a.size} values differ, the worst at {where}: {a[worst]:.9g} instead of {e[worst]:.9g}"
