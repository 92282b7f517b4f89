# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeLSTM against an exact reference: products of bytes in whole numbers, whatever the weights are."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import treadle

F4 = np.float32


def quantised(x):
    """DynamicQuantizeLinear-11."""
    low, high = min(F4(0), x.min(initial=0)), max(F4(0), x.max(initial=0))
    scale = F4((high - low) / F4(255)) if high != low else F4(1)
    zero = int(np.rint(np.clip(-low / scale, 0, 255)))
    return np.clip(np.rint(x / scale).astype(np.int64) + zero, 0, 255), scale, zero


def product(x, weight, scale, zero):
    values, own, own_zero = quantised(x)
    return ((values - own_zero) @ (weight.astype(np.int64) - zero.astype(np.int64))).astype(F4) * (own * scale)


def sigmoid(x):
    return F4(1) / (F4(1) + np.exp(-x))


def reference(x, w, r, b, h, c, lengths, reverse):
    """One direction. Sequences begin together, in reverse order at their last step; the range of x is that of the steps
    of the longest one, and ended sequences are 0 to the range of the states."""
    steps, batch, size = x.shape
    units = h.shape[1]
    y = np.zeros((steps, batch, units), F4)
    x = np.where(np.arange(steps)[:, None, None] < max(lengths), x, F4(0))
    given = product(x.reshape(steps * batch, size), *w).reshape(steps, batch, 4 * units) + (b[:4 * units] + b[4 * units:])
    h, c = h.copy(), c.copy()
    for step in range(steps):
        states = np.where((step <= lengths)[:, None], h, F4(0))
        sums = product(states, *r)
        for n in np.flatnonzero(step < lengths):
            t = lengths[n] - 1 - step if reverse else step
            i, o, f, g = np.split(given[t, n] + sums[n], 4)
            c[n] = sigmoid(f) * c[n] + sigmoid(i) * np.tanh(g)
            h[n] = y[t, n] = sigmoid(o) * np.tanh(c[n])
    empty = (np.asarray(lengths) == 0)[:, None]  # ends in states of 0, as in ONNX Runtime
    return y, np.where(empty, F4(0), h), np.where(empty, F4(0), c)


class Layer:
    """A model with dimensions of these sizes or names, and its weights."""

    def __init__(self, steps, batch, units, direction="forward", per_column=True, weights="int8", lengths=False, size=9,
                 states=True, spread=None):
        self.directions = 2 if direction == "bidirectional" else 1
        self.reversed = [direction == "reverse", True][:self.directions]
        self.units, self.size, self.states, self.lengths = units, size, states, lengths
        rng = np.random.default_rng(units)
        info = np.iinfo(weights)

        def matrix(rows):
            shape = (self.directions, rows, 4 * units)
            if spread is None:  # all of the range: sums of two products exceed 16 bits
                return rng.integers(info.min, info.max, shape, endpoint=True).astype(weights)
            return np.clip(rng.normal((info.min + info.max) / 2, spread, shape), info.min, info.max).astype(weights)

        of_scale = (self.directions, 4 * units) if per_column else (self.directions,)
        zero = np.full(of_scale, 121 if weights == "uint8" else 0, weights)
        scale = lambda: (rng.uniform(0.5, 1, of_scale) * 0.04 / np.sqrt(units)).astype(F4)  # noqa: E731
        self.w = [matrix(size), scale(), zero]
        self.r = [matrix(units), scale(), zero]
        self.b = (rng.standard_normal((self.directions, 8 * units)) * 0.3).astype(F4)
        constants = {"w": self.w[0], "r": self.r[0], "b": self.b, "ws": self.w[1], "wz": zero, "rs": self.r[1], "rz": zero}
        inputs = ["x", "w", "r", "b", "n" if lengths else "", *(["h", "c"] if states else ["", ""]), "", "ws", "wz", "rs", "rz"]
        node = helper.make_node("DynamicQuantizeLSTM", inputs, ["y", "yh", "yc"], domain="com.microsoft", hidden_size=units,
                                direction=direction)
        floats = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
        given = [floats("x", [steps, batch, size])]
        if lengths:
            given.append(helper.make_tensor_value_info("n", TensorProto.INT32, [batch]))
        if states:
            given += [floats(name, [self.directions, batch, units]) for name in "hc"]
        graph = helper.make_graph([node], "g", given, [floats(name, None) for name in ("y", "yh", "yc")],
                                  [helper.make_tensor(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.tobytes(), raw=True)
                                   for k, v in constants.items()])
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                                       ir_version=8)

    def feeds(self, steps, batch, lengths=None):
        rng = np.random.default_rng(steps * 100 + batch)
        draw = lambda *shape: rng.standard_normal(shape).astype(F4)  # noqa: E731
        feeds = {"x": draw(steps, batch, self.size)}
        if self.lengths:
            feeds["n"] = np.array(lengths, np.int32)
        if self.states:
            feeds["h"], feeds["c"] = (0.5 * draw(self.directions, batch, self.units) for _ in "hc")
        return feeds

    def expected(self, feeds):
        steps, batch, _ = feeds["x"].shape
        zeros = np.zeros((self.directions, batch, self.units), F4)
        lengths = feeds.get("n", np.full(batch, steps))
        of = lambda weight, d: [part[d] for part in weight]  # noqa: E731
        results = [reference(feeds["x"], of(self.w, d), of(self.r, d), self.b[d], feeds.get("h", zeros)[d],
                             feeds.get("c", zeros)[d], lengths, self.reversed[d]) for d in range(self.directions)]
        y, h, c = zip(*results)
        return np.stack(y, 1), np.stack(h), np.stack(c)

    def check(self, compiled, feeds):
        for actual, wanted in zip(compiled.run(None, feeds), self.expected(feeds)):
            np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target, units", [
    ("llvm", 3), ("llvm", 16), ("llvm", 37), ("llvm", 40), ("llvm -emulate-intrinsics", 20), ("llvm -mcpu=x86-64-v2", 21),
    ("llvm -mcpu=x86-64-v3", 37), ("stackvm", 11), ("c", 11)])
@pytest.mark.parametrize("spread", [None, 20])
def test_any_steps_and_batch(target, units, spread):
    layer = Layer("t", "n", units, "bidirectional", spread=spread)
    compiled = treadle.compile(layer.model, target=target)
    for steps, batch in ((1, 1), (3, 2), (2, 5)):
        layer.check(compiled, layer.feeds(steps, batch))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("weights, per_column", [("int8", False), ("uint8", True), ("uint8", False)])
@pytest.mark.parametrize("steps, batch, states", [(4, 3, True), (3, "n", False), ("t", 3, False)])
def test_weights(direction, weights, per_column, steps, batch, states):
    layer = Layer(steps, batch, 18, direction, per_column, weights, states=states)
    layer.check(treadle.compile(layer.model), layer.feeds(steps if steps != "t" else 5, 3))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("steps, batch", [("t", "n"), (6, 3)])
def test_sequences_that_end_early(direction, steps, batch):
    layer = Layer(steps, batch, 19, direction, lengths=True)
    compiled = treadle.compile(layer.model)
    for lengths in ([6, 6, 6], [6, 1, 3], [4, 2, 4], [2, 5, 0]):
        layer.check(compiled, layer.feeds(6, 3, lengths))


@pytest.mark.parametrize("lengths", [None, [7, 3], [5, 2]])
def test_as_onnxruntime_without_saturation(lengths):
    ort = pytest.importorskip("onnxruntime")
    layer = Layer("t", "n", 48, "bidirectional", lengths=lengths is not None)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.intra_op_num_threads = 1  # with several, rows of a batch are quantised apart
    feeds = layer.feeds(7, 2, lengths)
    session = ort.InferenceSession(layer.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for actual, wanted in zip(treadle.compile(layer.model).run(None, feeds), session.run(None, feeds)):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


def test_threads_share_a_step():
    layer = Layer("t", 2, 40, spread=20)
    plan = ('{"problem":{"type":"schedule.ByteRecurrentProblem","batch":2,"units":40,"listed":%s},"kernel":"byte_lstm.%s",'
            '"revision":1,"plan":{"type":"schedule.ByteRecurrentPlan","share_panels":true}}')
    for listed in ("packed", "listed"):
        plans = plan % ("true" if listed == "listed" else "false", listed)
        target = "llvm -num-cores=2 -mcpu=x86-64-v3" if listed == "listed" else "llvm -num-cores=2 -mcpu=x86-64-v2"
        compiled = treadle.compile(layer.model, target=target, pass_config={"schedule.plans": plans})
        layer.check(compiled, layer.feeds(5, 2))


def test_no_steps():
    layer = Layer("t", "n", 16)
    feeds = layer.feeds(1, 2)
    feeds["x"] = feeds["x"][:0]
    y, h, c = treadle.compile(layer.model).run(None, feeds)
    assert y.shape == (0, 1, 2, 16)
    np.testing.assert_array_equal(h, feeds["h"])
    np.testing.assert_array_equal(c, feeds["c"])


def test_long_sequences_are_no_larger_graphs():
    module = treadle.relay.frontend.from_onnx(Layer(20000, 1, 8).model)
    calls = []
    treadle.relay.analysis.post_order_visit((module[0] if isinstance(module, tuple) else module)["main"], calls.append)
    assert len(calls) < 150


@pytest.mark.parametrize("axes, options", [([0], {}), ([1], {"keepdims": True}), ([1], {"exclude": True}), ([0, 2], {}), (None, {}),
                                           ([-1], {})])
def test_sums_of_weights_are_computed_when_compiling(axes, options):
    values = np.random.default_rng(0).integers(-128, 128, (30, 90, 70)).astype("int32")
    call = treadle.relay.sum(treadle.relay.const(values), axis=axes, **options)
    module = treadle.relay.transform.InferType()(treadle.IRModule.from_expr(treadle.relay.Function([], call)))
    folded = treadle.relay.transform.FoldConstant()(module)["main"].body
    reduced = tuple(range(3)) if axes is None else tuple(a for a in range(3) if (a in [x % 3 for x in axes]) != options.get("exclude", False))
    np.testing.assert_array_equal(folded.data.numpy(), values.sum(reduced, keepdims=options.get("keepdims", False)))
