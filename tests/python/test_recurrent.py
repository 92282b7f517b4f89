# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers of the usual form are one operator, whose kernels are compared with ONNX Runtime's."""
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle

ort = pytest.importorskip("onnxruntime")
PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


RESETTING = "GRU, states reset"  # before the product, as linear_before_reset=0 says


def layer(op, steps, batch, hidden, direction="forward", states=True, size=5, lengths=False):
    linear = op != RESETTING
    op = "GRU" if op == RESETTING else op
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    d = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(hidden)
    weight = lambda name, *shape: helper.make_tensor(  # noqa: E731
        name, TensorProto.FLOAT, shape, (rng.standard_normal(int(np.prod(shape))) * 0.3).astype("float32"))
    given = ["h0", "c0"][:2 if op == "LSTM" else 1] if states else []
    outputs = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
    attributes = {"linear_before_reset": int(linear)} if op == "GRU" else {}
    node = helper.make_node(op, ["x", "w", "r", "b", "lengths" if lengths else "", *given], outputs, hidden_size=hidden, direction=direction, **attributes)
    floats = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # noqa: E731
    ends = [helper.make_tensor_value_info("lengths", TensorProto.INT32, [batch])] if lengths else []
    graph = helper.make_graph(
        [node], "g", [floats("x", [steps, batch, size]), *ends, *(floats(name, [d, batch, hidden]) for name in given)],
        [floats(name, None) for name in outputs],
        [weight("w", d, gates * hidden, size), weight("r", d, gates * hidden, hidden), weight("b", d, 2 * gates * hidden)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), d, given


def feeds_of(t, n, d, hidden, given, size=5):
    rng = np.random.default_rng(t)
    draw = lambda *shape: rng.standard_normal(shape).astype("float32")  # noqa: E731
    return {"x": draw(t, n, size), **{name: draw(d, n, hidden) for name in given}}


def check(model, compiled, feeds):
    expected = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    for actual, wanted in zip(compiled.run(None, feeds), expected):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


def test_lstm_has_no_state_to_reset():
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(2, 1, 16), float32], %w: Tensor[(16, 4), float32], %s: Tensor[(1, 4), float32]) {
      nn.lstm(%x, %w, %s, %s, resets_state=True)
    }"""
    with pytest.raises(treadle.error.TreadleError, match="resets_state is an attribute of nn.gru only"):
        treadle.relay.transform.InferType()(treadle.parser.parse(text))


@pytest.mark.parametrize("op", ["LSTM", "GRU", RESETTING])
@pytest.mark.parametrize("target, hidden", [("llvm", 3), ("llvm", 16), ("llvm", 37), ("llvm -mcpu=x86-64-v3", 37), ("stackvm", 19),
                                            ("c", 19)])
def test_any_steps_and_batch(op, target, hidden):
    model, d, given = layer(op, "t", "n", hidden, "bidirectional")
    compiled = treadle.compile(model, target=target)
    for t, n in ((1, 1), (3, 2), (2, 11)):
        check(model, compiled, feeds_of(t, n, d, hidden, given))


@pytest.mark.parametrize("op", ["LSTM", "GRU", RESETTING])
def test_samples_beside_whole_tiles(op):
    """What tiles of the batch leave over is computed in tiles of each size."""
    model, d, given = layer(op, "t", "n", 20)
    compiled = treadle.compile(model)
    for batch in range(1, 17):
        check(model, compiled, feeds_of(3, batch, d, 20, given))


@pytest.mark.parametrize("op, rows", [("LSTM", 6), ("GRU", 8)])
def test_sums_and_operands_fit_the_registers(tmp_path, op, rows):
    """7 samples of LSTM took the time of 9: their sums, a row of weights and a state are 33 vectors."""
    model, _, _ = layer(op, "t", "n", 20)
    onnx.save(model, tmp_path / "m.onnx")
    command = [PROGRAM, "explain", tmp_path / "m.onnx", "--target", "llvm -mcpu=x86-64-v4"]
    assert f'"rows":{rows},' in subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("op", ["LSTM", "GRU", RESETTING])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("batch", [1, 6, 7])
def test_known_sizes(op, direction, batch):
    model, d, given = layer(op, 4, batch, 20, direction, states=False)
    check(model, treadle.compile(model), feeds_of(4, batch, d, 20, given))


@pytest.mark.parametrize("op", ["LSTM", "GRU", RESETTING])
def test_some_sizes_known(op):
    model, d, given = layer(op, 3, "n", 17, states=False)
    compiled = treadle.compile(model)
    for n in (1, 5):
        check(model, compiled, feeds_of(3, n, d, 17, given))


@pytest.mark.parametrize("op, problem", [("LSTM", "lstm.packed"), ("GRU", "gru.packed")])
def test_plans(op, problem):
    """Threads that share the units of a step, and tiles that don't divide the batch."""
    model, d, given = layer(op, "t", 5, 40)
    gates = 4 if op == "LSTM" else 3
    plan = ('{"problem":{"type":"schedule.RecurrentProblem","batch":5,"units":40,"gates":%d,"dtype":"float32"},'
            '"kernel":"%s","revision":1,"plan":{"type":"schedule.RecurrentPlan","rows":3,"share_panels":true}}')
    compiled = treadle.compile(model, target="llvm -num-cores=2", pass_config={"schedule.plans": plan % (gates, problem)})
    check(model, compiled, feeds_of(6, 5, d, 40, given))


def test_long_sequences_are_no_larger_graphs():
    module = treadle.relay.frontend.from_onnx(layer("LSTM", 20000, 1, 8)[0])
    calls = []
    module = module[0] if isinstance(module, tuple) else module
    treadle.relay.analysis.post_order_visit(module["main"], calls.append)
    assert len(calls) < 100


def test_widths_that_differ_are_refused():
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(2, 1, 12), float32], %w: Tensor[(12, 3), float32], %s: Tensor[(1, 4), float32]) {
      nn.lstm(%x, %w, %s, %s)
    }"""
    with pytest.raises(treadle.error.TreadleError, match="has the wrong shape|expected a shape"):
        treadle.relay.transform.InferType()(treadle.parser.parse(text))


@pytest.mark.parametrize("op", ["LSTM", "GRU", RESETTING])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [False, True])
def test_sequences_that_end_early(op, direction, states):
    hidden = 20
    model, d, given = layer(op, "t", "n", hidden, direction, states, lengths=True)
    module = treadle.relay.frontend.from_onnx(model)
    assert f"nn.{op.split(',')[0].lower()}(" in str(module[0] if isinstance(module, tuple) else module)
    compiled = treadle.compile(model)
    for t, lengths in ((1, [1]), (6, [6, 1, 3]), (9, [2, 5, 4, 2, 1])):
        feeds = {**feeds_of(t, len(lengths), d, hidden, given), "lengths": np.array(lengths, "int32")}
        check(model, compiled, feeds)
        # What stands behind the end of a sequence isn't read.
        noisy = feeds["x"].copy()
        for sample, length in enumerate(lengths):
            noisy[length:, sample] = np.nan
        for actual, expected in zip(compiled.run(None, {**feeds, "x": noisy}), compiled.run(None, feeds)):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN", RESETTING])
@pytest.mark.parametrize("steps, batch", [("t", "n"), (3, 2)])
@pytest.mark.parametrize("lengths", [[0, 3], [0, 0]])
def test_empty_sequences_end_in_states_of_0(op, steps, batch, lengths):
    model, d, given = layer(op, steps, batch, 5, "bidirectional", lengths=True)
    feeds = {**feeds_of(3, 2, d, 5, given), "lengths": np.array(lengths, "int32")}
    compiled = treadle.compile(model)
    check(model, compiled, feeds)
    with pytest.raises(treadle.Error, match="sequence length"):
        compiled.run(None, {**feeds, "lengths": np.array([4, 3], "int32")})


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
@pytest.mark.parametrize("unusual", [False, True])
def test_steps_that_no_sequence_has_are_left_out(op, unusual):
    """All steps were computed, however short the sequences were: 11 times ONNX Runtime's time for one step of 100."""
    model, d, given = layer(op, "t", "n", 16, "bidirectional", lengths=True)
    if unusual:  # a loop
        model.graph.node[0].attribute.append(helper.make_attribute("clip", 0.5))
    module = treadle.relay.frontend.from_onnx(model)
    assert "dyn.take_rows(" in str(module[0] if isinstance(module, tuple) else module)
    compiled = treadle.compile(model)
    assert list(compiled.outputs[0].shape) == ["t", 2, "n", 16]
    for t, lengths in ((40, [1, 1, 1]), (12, [3, 7]), (5, [5]), (1, [1])):
        check(model, compiled, {**feeds_of(t, len(lengths), d, 16, given), "lengths": np.array(lengths, "int32")})
    for t, n in ((4, 2), (4, 0)):
        feeds = {**feeds_of(t, n, d, 16, given), "lengths": np.zeros(n, "int32")}
        y, *last = compiled.run(None, feeds)
        assert y.shape == (t, 2, n, 16) and not y.any()
        for state in last:
            assert state.shape == (d, n, 16) and not state.any()


@pytest.mark.parametrize("op, activations, alphas, betas", [
    ("GRU", ["Sigmoid", "LeakyRelu"], [0.3], []), ("GRU", ["HardSigmoid", "LeakyRelu"], [0.25, 0.3], [0.4]),
    ("LSTM", ["Sigmoid", "Elu", "LeakyRelu"], [0.3, 0.5], []), ("LSTM", ["HardSigmoid", "ScaledTanh", "Softsign"], [0.25, 1.5], [0.4, 0.75]),
    ("LSTM", ["Affine", "ThresholdedRelu", "Tanh"], [0.5, 0.1], [0.25]), ("RNN", ["Softplus"], [], []), ("RNN", ["Elu"], [], [])])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_activations_take_parameters_in_turn(op, activations, alphas, betas, direction):
    """Those without parameters counted, so that the parameters of others were their usual ones."""
    model, d, given = layer(op, 3, 2, 5, direction)
    for name, values in (("activations", activations), ("activation_alpha", alphas), ("activation_beta", betas)):
        if values:
            model.graph.node[0].attribute.append(helper.make_attribute(name, values * d))
    check(model, treadle.compile(model), feeds_of(3, 2, d, 5, given))


def test_thresholds_belong_to_what_passes():
    """As the standard's definition of the layer has it, unlike that of the operator ThresholdedRelu, and unlike ONNX Runtime."""
    weight = lambda name, value: helper.make_tensor(name, TensorProto.FLOAT, [1, 1, 1], [value])  # noqa: E731
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1, activations=["ThresholdedRelu"], activation_alpha=[1.0])
    graph = helper.make_graph([node], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [weight("w", 1), weight("r", 0)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    y, = treadle.compile(model).run(None, {"x": np.array([[[0.5], [1], [1.5]]], "float32")})
    np.testing.assert_array_equal(np.ravel(y), [0, 1, 1.5])


@pytest.mark.parametrize("linear", [0, 1])
def test_gru_of_doubles(linear):
    rng = np.random.default_rng(2)
    feeds = {"x": rng.standard_normal((4, 3, 5)), "w": rng.standard_normal((1, 18, 5)), "r": rng.standard_normal((1, 18, 6)), "b": rng.standard_normal((1, 36))}

    def outputs(dtype):
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), value.shape) for name, value in feeds.items()]
        node = helper.make_node("GRU", list(feeds), ["y"], hidden_size=6, linear_before_reset=linear)
        graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
        return model, {name: value.astype(dtype) for name, value in feeds.items()}

    model, given = outputs(np.float64)
    single, rounded = outputs(np.float32)
    expected = ort.InferenceSession(single.SerializeToString()).run(None, rounded)[0]
    np.testing.assert_allclose(treadle.compile(model).run(None, given)[0], expected, rtol=1e-4, atol=1e-5)
