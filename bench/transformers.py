# SPDX-License-Identifier: Apache-2.0
"""Transformer models with seeded weights, as exporters write them: separate MatMul, Reshape, Transpose, Softmax, GELU
by Erf. BERT (Devlin et al. 2018), ViT (Dosovitskiy et al. 2020), one step of a GPT-2 style decoder (Radford et al.
2019) with its cache of keys and values."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper


class _Builder:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []

    def constant(self, value):
        name = f"w{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape):
        return self.constant((self.rng.standard_normal(shape, dtype=np.float32) * 0.02))

    def add(self, op_type, *inputs, **attributes):
        name = f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def input(self, name, kind, shape):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, name, shape, kind=TensorProto.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, name, opset=17):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def dense(self, x, width, out):
        return self.add("Add", self.add("MatMul", x, self.weight(width, out)), self.weight(out))

    def norm(self, x, width):
        return self.add("LayerNormalization", x, self.constant(np.ones(width, np.float32)), self.weight(width),
                        axis=-1, epsilon=1e-5)

    def gelu(self, x):
        erf = self.add("Erf", self.add("Div", x, self.constant(np.float32(2**0.5))))
        gate = self.add("Add", erf, self.constant(np.float32(1)))
        return self.add("Mul", self.add("Mul", x, gate), self.constant(np.float32(0.5)))

    def heads(self, x, tokens, heads, size):
        shape = self.constant(np.array([1, tokens, heads, size], np.int64))
        return self.add("Transpose", self.add("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, x, tokens, width, heads, mask=None, cache=None):
        """Self-attention of x (1, tokens, width). `cache`: names of past keys and values (1, heads, past, size)."""
        size = width // heads
        q, k, v = (self.heads(self.dense(x, width, width), tokens, heads, size) for _ in range(3))
        if cache is not None:
            k, v = self.add("Concat", cache[0], k, axis=2), self.add("Concat", cache[1], v, axis=2)
        scores = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.add("Div", scores, self.constant(np.float32(size**0.5)))
        if mask is not None:
            scores = self.add("Add", scores, mask)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        shape = self.constant(np.array([1, tokens, width], np.int64))
        mixed = self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
        return self.dense(mixed, width, width), k, v

    def feed_forward(self, x, width):
        return self.dense(self.gelu(self.dense(x, width, 4 * width)), 4 * width, width)


def bert(layers=12, width=768, heads=12, tokens=128, vocabulary=30522):
    """Inputs input_ids and attention_mask, int64 (1, tokens); output (1, tokens, width)."""
    b = _Builder()
    ids = b.input("input_ids", TensorProto.INT64, [1, tokens])
    mask = b.add("Cast", b.input("attention_mask", TensorProto.INT64, [1, tokens]), to=TensorProto.FLOAT)
    mask = b.add("Unsqueeze", mask, b.constant(np.array([1, 2], np.int64)))
    mask = b.add("Mul", b.add("Sub", b.constant(np.float32(1)), mask), b.constant(np.float32(-10000)))
    x = b.add("Add", b.add("Gather", b.weight(vocabulary, width), ids), b.weight(1, tokens, width))
    x = b.norm(x, width)
    for _ in range(layers):
        x = b.norm(b.add("Add", x, b.attention(x, tokens, width, heads, mask)[0]), width)
        x = b.norm(b.add("Add", x, b.feed_forward(x, width)), width)
    b.output(x, [1, tokens, width])
    return b.model("bert")


def vit(layers=12, width=768, heads=12, patch=16, size=224, classes=1000):
    """Input data, float32 (1, 3, size, size); output (1, classes)."""
    b = _Builder()
    b.input("data", TensorProto.FLOAT, [1, 3, size, size])
    patches = (size // patch) ** 2
    x = b.add("Conv", "data", b.weight(width, 3, patch, patch), b.weight(width), kernel_shape=[patch, patch],
              strides=[patch, patch])
    x = b.add("Reshape", x, b.constant(np.array([1, width, patches], np.int64)))
    x = b.add("Concat", b.weight(1, 1, width), b.add("Transpose", x, perm=[0, 2, 1]), axis=1)
    x = b.add("Add", x, b.weight(1, patches + 1, width))
    for _ in range(layers):
        x = b.add("Add", x, b.attention(b.norm(x, width), patches + 1, width, heads)[0])
        x = b.add("Add", x, b.feed_forward(b.norm(x, width), width))
    x = b.add("Gather", b.norm(x, width), b.constant(np.int64(0)), axis=1)
    b.output(b.dense(x, width, classes), [1, classes])
    return b.model("vit")


def decoder_step(layers=12, width=768, heads=12, past=255, vocabulary=50257):
    """One token with a cache: input_ids, int64 (1, 1), past_key_i and past_value_i, float32 (1, heads, past, size);
    outputs the logits (1, 1, vocabulary) and the grown caches."""
    b = _Builder()
    size = width // heads
    ids = b.input("input_ids", TensorProto.INT64, [1, 1])
    table = b.weight(vocabulary, width)
    x = b.add("Add", b.add("Gather", table, ids), b.weight(1, 1, width))
    grown = []
    for i in range(layers):
        cache = [b.input(f"past_{part}_{i}", TensorProto.FLOAT, [1, heads, past, size]) for part in ("key", "value")]
        y, k, v = b.attention(b.norm(x, width), 1, width, heads, cache=cache)
        grown += [k, v]
        x = b.add("Add", x, y)
        x = b.add("Add", x, b.feed_forward(b.norm(x, width), width))
    x = b.add("MatMul", b.norm(x, width), b.add("Transpose", table, perm=[1, 0]))
    b.output(x, [1, 1, vocabulary])
    for name in grown:
        b.output(name, [1, heads, past + 1, size])
    return b.model("decoder_step")
