# SPDX-License-Identifier: Apache-2.0
"""Decoders as optimum's exporter writes them (text-generation-with-past: attention, rotary positions and normalisation
as plain operators), in the shapes of published models, with seeded weights."""
import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Config:
    layers: int
    hidden: int
    inner: int  # of the feed-forward part
    heads: int
    kv_heads: int
    vocabulary: int
    rope_base: float
    bias: bool = False  # of queries, keys and values
    epsilon: float = 1e-6

    @property
    def head(self):
        return self.hidden // self.heads


CONFIGS = {
    "tiny": Config(2, 64, 96, 4, 2, 128, 1e4, bias=True),
    "qwen2-0.5b": Config(24, 896, 4864, 14, 2, 151936, 1e6, bias=True),
    "llama-3.2-1b": Config(16, 2048, 8192, 32, 8, 128256, 5e5, epsilon=1e-5),
}


class _Builder:
    def __init__(self, config, seed):
        self.config, self.rng = config, np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, name, *shape, scale=None):
        scale = shape[0]**-0.5 if scale is None else scale
        return self.constant(name, self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale))

    def add(self, op, inputs, name, outputs=None, domain="", **attributes):
        outputs = [name] if outputs is None else outputs
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def one_more(self, x, axes, name):
        return self.add("Unsqueeze", [x, self.integers(*axes)], name)

    def integers(self, *values):
        name = "i_" + "_".join(str(v) for v in values)
        if all(c.name != name for c in self.constants):
            self.constant(name, np.array(values, np.int64))
        return name

    def norm(self, x, name):
        squares = self.add("Pow", [x, "two"], f"{name}.Pow")
        mean = self.add("ReduceMean", [squares], f"{name}.ReduceMean", axes=[-1])
        size = self.add("Sqrt", [self.add("Add", [mean, "epsilon"], f"{name}.Add")], f"{name}.Sqrt")
        gamma = self.constant(f"{name}.weight", np.ones(self.config.hidden, np.float32))
        return self.add("Mul", [gamma, self.add("Div", [x, size], f"{name}.Div")], f"{name}.Mul")

    def linear(self, x, name, inputs, outputs, bias=False):
        y = self.add("MatMul", [x, self.weight(f"{name}.weight", inputs, outputs)], f"{name}.MatMul")
        return self.add("Add", [self.weight(f"{name}.bias", outputs, scale=0.1), y], f"{name}.Add") if bias else y

    def counting(self, value, name):
        """0, 1, .. along the rows of integers [batch, length]."""
        ones = self.add("Add", [self.add("Mul", [value, "zero"], f"{name}.zeros"), "one"], f"{name}.ones")
        return self.add("Sub", [self.add("CumSum", [ones, self.integers(1)], f"{name}.CumSum"), "one"], name)

    def mask(self):
        """What is added to scores: nothing for keys up to the query's own place that the attention mask has."""
        self.constant("zero", np.array(0, np.int64))
        self.constant("one", np.array(1, np.int64))
        keys = self.one_more(self.counting("attention_mask", "keys"), [1, 2], "keys.row")
        shape = self.add("Shape", ["past_key_values.0.key"], "past.Shape")
        past = self.add("Gather", [shape, self.constant("past.axis", np.array(2, np.int64))], "past", axis=0)
        queries = self.add("Add", [self.counting("input_ids", "new"), past], "queries")
        causal = self.add("LessOrEqual", [keys, self.one_more(queries, [1, 3], "queries.column")], "causal")
        there = self.add("Cast", [self.one_more("attention_mask", [1, 2], "attention_mask.4d")], "there",
                         to=TensorProto.BOOL)
        seen = self.add("And", [causal, there], "seen")
        return self.add("Where", [seen, self.constant("nothing", np.float32(0)),
                                  self.constant("lowest", np.float32(np.finfo(np.float32).min))], "mask")

    def rotary(self):
        """Cosines and sines [batch, 1, sequence, head]."""
        c = self.config
        turns = (c.rope_base**(-np.arange(0, c.head, 2) / c.head)).astype(np.float32)
        position = self.add("Cast", [self.one_more("position_ids", [2], "position.column")], "position",
                            to=TensorProto.FLOAT)
        angles = self.add("Mul", [position, self.constant("inv_freq", turns)], "angles")
        both = self.one_more(self.add("Concat", [angles, angles], "angles.both", axis=-1), [1], "angles.4d")
        return self.add("Cos", [both], "cos"), self.add("Sin", [both], "sin")

    def rotated(self, x, cos, sin, name):
        half, end = self.config.head // 2, np.iinfo(np.int64).max
        low = self.add("Slice", [x, self.integers(0), self.integers(half), self.integers(3)], f"{name}.low")
        high = self.add("Slice", [x, self.integers(half), self.integers(end), self.integers(3)], f"{name}.high")
        turned = self.add("Concat", [self.add("Neg", [high], f"{name}.Neg"), low], f"{name}.turned", axis=-1)
        x, turned = self.add("Mul", [x, cos], f"{name}.cos"), self.add("Mul", [turned, sin], f"{name}.sin")
        return self.add("Add", [x, turned], f"{name}.rotated")

    def heads(self, x, count, name):
        split = self.add("Reshape", [x, self.integers(0, 0, count, self.config.head)], f"{name}.heads")
        return self.add("Transpose", [split], f"{name}.Transpose", perm=[0, 2, 1, 3])

    def with_past(self, x, i, part):
        """Keys or values of all steps, one for each head of queries."""
        c, name = self.config, f"present.{i}.{part}"
        x = self.add("Concat", [f"past_key_values.{i}.{part}", x], name, axis=2)
        group = c.heads // c.kv_heads
        if group == 1:
            return x
        x = self.one_more(x, [2], f"{name}.5d")
        x = self.add("Expand", [x, self.integers(1, 1, group, 1, 1)], f"{name}.Expand")
        return self.add("Reshape", [x, self.integers(0, c.heads, -1, c.head)], f"{name}.repeated")

    def attention(self, i, y, shared):
        c, p, (mask, cos, sin) = self.config, f"layers.{i}.self_attn", shared
        q, k, v = (self.heads(self.linear(y, f"{p}.{part}_proj", c.hidden, count * c.head, c.bias), count,
                              f"{p}.{part}") for part, count in (("q", c.heads), ("k", c.kv_heads), ("v", c.kv_heads)))
        q = self.rotated(q, cos, sin, f"{p}.q")
        k = self.with_past(self.rotated(k, cos, sin, f"{p}.k"), i, "key")
        v = self.with_past(v, i, "value")
        scores = self.add("MatMul", [q, self.add("Transpose", [k], f"{p}.k_t", perm=[0, 1, 3, 2])], f"{p}.scores")
        scores = self.add("Add", [self.add("Mul", [scores, "scale"], f"{p}.scaled"), mask], f"{p}.masked")
        y = self.add("MatMul", [self.add("Softmax", [scores], f"{p}.Softmax", axis=-1), v], f"{p}.attended")
        y = self.add("Transpose", [y], f"{p}.attended_t", perm=[0, 2, 1, 3])
        y = self.add("Reshape", [y, self.integers(0, 0, c.heads * c.head)], f"{p}.joined")
        return self.linear(y, f"{p}.o_proj", c.heads * c.head, c.hidden)

    def layer(self, i, x, shared):
        c, p = self.config, f"layers.{i}"
        y = self.attention(i, self.norm(x, f"{p}.input_layernorm"), shared)
        x = self.add("Add", [x, y], f"{p}.residual")
        y = self.norm(x, f"{p}.post_attention_layernorm")
        gate = self.linear(y, f"{p}.mlp.gate_proj", c.hidden, c.inner)
        act = self.add("Mul", [gate, self.add("Sigmoid", [gate], f"{p}.mlp.Sigmoid")], f"{p}.mlp.SiLU")
        y = self.add("Mul", [act, self.linear(y, f"{p}.mlp.up_proj", c.hidden, c.inner)], f"{p}.mlp.Mul")
        return self.add("Add", [x, self.linear(y, f"{p}.mlp.down_proj", c.inner, c.hidden)], f"{p}.output")


def build(config, seed=0):
    """The ModelProto: input_ids, attention_mask, position_ids, past keys and values in; logits and present ones out."""
    b = _Builder(config, seed)
    b.constant("two", np.float32(2))
    b.constant("epsilon", np.float32(config.epsilon))
    b.constant("scale", np.float32(config.head**-0.5))
    table = b.weight("embed_tokens.weight", config.vocabulary, config.hidden, scale=1.0)
    x = b.add("Gather", [table, "input_ids"], "embed_tokens")
    shared = (b.mask(), *b.rotary())
    for i in range(config.layers):
        x = b.layer(i, x, shared)
    b.linear(b.norm(x, "norm"), "lm_head", config.hidden, config.vocabulary)
    b.nodes[-1].output[0] = "logits"
    cache = ["batch_size", config.kv_heads, "past_sequence_length", config.head]
    grown = ["batch_size", config.kv_heads, "total_sequence_length", config.head]
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
              value("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]),
              value("position_ids", TensorProto.INT64, ["batch_size", "sequence_length"])]
    outputs = [value("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", config.vocabulary])]
    for i in range(config.layers):
        for part in ("key", "value"):
            inputs.append(value(f"past_key_values.{i}.{part}", TensorProto.FLOAT, cache))
            outputs.append(value(f"present.{i}.{part}", TensorProto.FLOAT, grown))
    graph = helper.make_graph(b.nodes, "decoder", inputs, outputs, b.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(model, path):
    """With weights beside the file where they are too many for one."""
    large = sum(len(tensor.raw_data) for tensor in model.graph.initializer) > 1 << 30
    onnx.save(model, path, **({"save_as_external_data": True, "location": path.name + ".data"} if large else {}))
