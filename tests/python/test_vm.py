# SPDX-License-Identifier: Apache-2.0
"""Models whose shapes or control flow are only known when they run: compiled once, run by the virtual machine."""
import numpy as np
import onnx
import pytest
import treadle
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def model_of(nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def floats(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def ints(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def check(model, feeds_list, rtol=1e-5, atol=1e-6):
    """One compilation gives what the reference does for each of the inputs."""
    compiled = treadle.compile(model)
    reference = ReferenceEvaluator(model)
    for feeds in feeds_list:
        expected = reference.run(None, feeds)
        actual = compiled.run(None, feeds)
        for e, a in zip(expected, actual):
            assert a.shape == np.shape(e) and a.dtype == np.asarray(e).dtype
            np.testing.assert_allclose(a, e, rtol=rtol, atol=atol)
    return compiled


def rand(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def elementwise_model():
    return model_of(
        [
            helper.make_node("Add", ["x", "y"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("ReduceSum", ["b", "axes"], ["o"], keepdims=0),
        ],
        [floats("x", ["batch", 3, "width"]), floats("y", ["batch", 1, "width"])],
        [floats("o", None)],
        [helper.make_tensor("axes", TensorProto.INT64, [1], [2])],
    )


def test_symbolic_dimensions():
    compiled = check(
        elementwise_model(),
        [{"x": rand(b, 3, w), "y": rand(b, 1, w)} for b, w in [(1, 4), (2, 7), (5, 1), (3, 129), (0, 4), (2, 0)]],
    )
    assert compiled.inputs[0].shape[1] == 3


def test_equal_symbols_are_equal_dimensions():
    compiled = treadle.compile(elementwise_model())
    with pytest.raises(treadle.Error, match='dimension 2 of "y" has to equal "width"'):
        compiled.run(None, {"x": rand(2, 3, 4), "y": rand(2, 1, 5)})
    # The context is usable afterwards.
    assert compiled.run(None, {"x": rand(2, 3, 4), "y": rand(2, 1, 4)})[0].shape == (2, 3)


def test_symbolic_dimension_may_be_one():
    model = model_of(
        [helper.make_node("Mul", ["x", "y"], ["o"])],
        [floats("x", ["n", "m"]), floats("y", ["k", "m"])],
        [floats("o", None)],
    )
    check(model, [{"x": rand(a, 5), "y": rand(b, 5)} for a, b in [(1, 4), (4, 1), (3, 3), (1, 1)]])


def shape_model():
    """Slices, reshapes and ranges by computed sizes."""
    c = lambda name, *values: helper.make_tensor(name, TensorProto.INT64, [len(values)], list(values))  # noqa: E731
    return model_of(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Gather", ["s", "one"], ["width"]),
            helper.make_node("Div", ["width", "two"], ["half"]),
            helper.make_node("Slice", ["x", "zero", "half", "one"], ["left"]),
            helper.make_node("Concat", ["minus", "half"], ["rows_shape"], axis=0),
            helper.make_node("Reshape", ["left", "rows_shape"], ["rows"]),
            helper.make_node("Squeeze", ["half", "zero"], ["h"]),
            helper.make_node("Range", ["start", "h", "step"], ["ramp"]),
            helper.make_node("Cast", ["ramp"], ["ramp_f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["rows", "ramp_f"], ["sum"]),
            helper.make_node("Identity", ["sum"], ["out"]),
        ],
        [floats("x", ["n", "w"])],
        [floats("out", None)],
        [c("one", 1), c("two", 2), c("zero", 0), c("minus", -1),
         helper.make_tensor("start", TensorProto.INT64, [], [0]), helper.make_tensor("step", TensorProto.INT64, [], [1])],
    )


def test_shapes_computed_from_shapes():
    check(shape_model(), [{"x": rand(n, w)} for n, w in [(1, 2), (3, 5), (4, 8), (2, 17)]])


def test_number_of_results_depends_on_values():
    model = model_of([helper.make_node("NonZero", ["x"], ["i"])], [floats("x", ["n", 3])], [ints("i", None)])
    values = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 3]], "float32")
    check(model, [{"x": values}, {"x": values[:2]}, {"x": np.zeros((2, 3), "float32")}])


def if_model():
    then = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["t"])], "then", [], [floats("t", None)])
    other = helper.make_graph(
        [helper.make_node("Concat", ["x", "x"], ["e"], axis=0)], "else", [], [floats("e", None)])
    return model_of(
        [
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
            helper.make_node("Greater", ["total", "zero"], ["positive"]),
            helper.make_node("If", ["positive"], ["chosen"], then_branch=then, else_branch=other),
            helper.make_node("Neg", ["chosen"], ["y"]),
        ],
        [floats("x", ["n", 2])],
        [floats("y", None)],
        [helper.make_tensor("zero", TensorProto.FLOAT, [], [0])],
    )


def test_branches_of_different_shapes():
    check(if_model(), [{"x": np.full((n, 2), v, "float32")} for n in (1, 3) for v in (2, -2)])


def loop_model():
    """Doubles x until its sum exceeds a bound; collects the sums."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v_in", "v_in"], ["v_out"]),
            helper.make_node("ReduceSum", ["v_out"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["sum", "factor"], ["scaled"]),
            helper.make_node("Less", ["sum", "bound"], ["go_on"]),
        ],
        "body",
        [ints("trip", []), helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("v_in", None)],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), floats("v_out", None), floats("scaled", None)],
    )
    return model_of(
        [
            helper.make_node("Identity", ["scale"], ["factor"]),
            helper.make_node("Loop", ["limit", "yes", "x"], ["last", "sums"], body=body),
        ],
        [floats("x", ["n"]), ints("limit", []), floats("scale", [])],
        [floats("last", None), floats("sums", None)],
        [helper.make_tensor("yes", TensorProto.BOOL, [], [True]), helper.make_tensor("bound", TensorProto.FLOAT, [], [1e4])],
    )


def test_loops_run_as_often_as_values_say():
    feeds = [{"x": np.full(n, v, "float32"), "limit": np.array(limit, "int64"), "scale": np.array(0.5, "float32")}
             for n, v, limit in [(3, 1, 100), (1, 1, 5), (2, 1e5, 100), (4, 1, 0)]]
    compiled = treadle.compile(loop_model())
    reference = ReferenceEvaluator(loop_model())
    for feed in feeds:
        actual = compiled.run(None, feed)
        if feed["limit"] == 0:
            assert actual[1].shape == (0,)
            np.testing.assert_array_equal(actual[0], feed["x"])
            continue
        for e, a in zip(reference.run(None, feed), actual):
            np.testing.assert_allclose(a, np.reshape(e, a.shape), rtol=1e-6)  # the reference makes rows of scalars


def test_long_loops_take_no_stack():
    compiled = treadle.compile(loop_model())
    feed = {"x": np.zeros(1, "float32"), "limit": np.array(200000, "int64"), "scale": np.array(1, "float32")}
    last, sums = compiled.run(None, feed)
    assert sums.shape == (200000,)


def test_scan_over_a_sequence_of_any_length():
    body = helper.make_graph(
        [helper.make_node("Add", ["state_in", "item"], ["state_out"]), helper.make_node("Identity", ["state_out"], ["row"])],
        "body",
        [floats("state_in", [2]), floats("item", [2])],
        [floats("state_out", [2]), floats("row", [2])],
    )
    model = model_of(
        [helper.make_node("Scan", ["init", "xs"], ["last", "rows"], body=body, num_scan_inputs=1)],
        [floats("init", [2]), floats("xs", ["t", 2])],
        [floats("last", [2]), floats("rows", None)],
    )
    check(model, [{"init": rand(2), "xs": rand(t, 2)} for t in (1, 4, 100)])


LISTS = """
#[version = "0.0.5"]
type List[A] {
  Cons(A, List[A]),
  Nil,
}
def @sum(%l: List[Tensor[(), float32]], %acc: float32) -> float32 {
  match (%l) {
    Cons(%h, %t) => @sum(%t, add(%acc, %h)),
    Nil => %acc,
  }
}
def @iota(%n: int32, %l: List[Tensor[(), float32]]) -> List[Tensor[(), float32]] {
  if (equal(%n, 0)) {
    %l
  } else {
    @iota(subtract(%n, 1), Cons(cast(%n, dtype="float32"), %l))
  }
}
def @map[A, B](%f: fn (A) -> B, %l: List[A]) -> List[B] {
  match (%l) {
    Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)),
    Nil => Nil,
  }
}
def @main(%n: int32, %k: float32) -> (float32, List[Tensor[(), float32]]) {
  %0 = @iota(%n, Nil);
  let %double = fn (%x: float32) -> float32 { multiply(%x, %k) };
  let %mapped: List[Tensor[(), float32]] = @map(%double, %0);
  (@sum(%mapped, 0f), %mapped)
}
"""


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_lists_closures_and_recursion(kind):
    from treadle import relay

    mod = relay.parse(LISTS)
    total, values = relay.create_executor(kind, mod).evaluate()(np.array(10, "int32"), np.array(2, "float32"))
    assert total.numpy() == 110
    heads = []
    while len(values.fields):
        heads.append(float(values.fields[0].numpy()))
        values = values.fields[1]
    assert heads == [2.0 * i for i in range(1, 11)]


def test_vm_executable_names():
    from treadle import relay
    from treadle.runtime import vm

    exe = relay.vm.compile(relay.parse(LISTS), target="llvm")
    assert "main" in exe.globals and "tail_invoke @sum" in exe.bytecode
    machine = vm.VirtualMachine(exe, treadle.cpu())
    assert machine.invoke("main", np.array(3, "int32"), np.array(1, "float32")).fields[0].numpy() == 6
    machine.set_limits(instructions=50)
    with pytest.raises(treadle.Error, match="instructions"):
        machine.invoke("main", np.array(1000, "int32"), np.array(1, "float32"))


def test_memory_stays_bounded_over_varying_shapes():
    import resource

    compiled = treadle.compile(shape_model())
    random = np.random.default_rng(0)

    def run(times):
        for _ in range(times):
            n, w = random.integers(1, 40), 2 * random.integers(1, 60)
            compiled.run(None, {"x": np.ones((n, w), "float32")})
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(1000)
    assert run(3000) - before < 4096  # KiB


def silero_models():
    """Models of the wheel silero-vad (pip install --no-deps silero-vad), if it is there."""
    import importlib.util
    import pathlib

    spec = importlib.util.find_spec("silero_vad")
    if spec is None:
        return []
    data = pathlib.Path(spec.origin).parent / "data"
    names = ["silero_vad", "silero_vad_16k_op15", "silero_vad_op18_ifless", "silero_vad_half"]
    return [data / f"{name}.onnx" for name in names if (data / f"{name}.onnx").exists()]


@pytest.mark.parametrize("path", silero_models(), ids=lambda path: path.stem)
def test_voice_activity_over_frames(path):
    """If on ranks and sampling rates; the state is carried from frame to frame; any batch."""
    ort = pytest.importorskip("onnxruntime")
    compiled = treadle.compile(str(path))
    session = ort.InferenceSession(str(path))
    names = [i.name for i in session.get_inputs()]
    for batch in (1, 3):
        state = expected_state = np.zeros((2, batch, 128), "float32")
        for frame in range(10):
            sound = rand(batch, 576) * 0.1
            feeds = {"input": sound, "sr": np.array(16000, "int64")}
            actual = compiled.run(None, {k: v for k, v in {**feeds, "state": state}.items() if k in names})
            expected = session.run(None, {k: v for k, v in {**feeds, "state": expected_state}.items() if k in names})
            state, expected_state = actual[1], expected[1]
            for a, e in zip(actual, expected):
                np.testing.assert_allclose(a, e, rtol=1e-3, atol=1e-4)


def convolution_model(groups=1, kernel=3, stride=1, channels=32):
    """Convolution, bias, activation, residual sum, pooling: batch, height and width are free."""
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((channels, channels // groups, kernel, kernel)) / kernel / channels**0.5).astype("float32")
    b = rng.standard_normal(channels).astype("float32")
    pads = [kernel // 2] * 4
    return model_of(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], group=groups, pads=pads, strides=[stride, stride]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Conv", ["r", "w1"], ["p"]),
            helper.make_node("Add", ["p", "c"], ["s"]),
            helper.make_node("GlobalAveragePool", ["s"], ["g"]),
            helper.make_node("Mul", ["s", "g"], ["m"]),
            helper.make_node("MaxPool", ["m"], ["y"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0]),
        ],
        [floats("x", ["n", channels, "h", "w_"])],
        [floats("y", None)],
        [
            helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.ravel()),
            helper.make_tensor("b", TensorProto.FLOAT, b.shape, b),
            helper.make_tensor("w1", TensorProto.FLOAT, [channels, channels, 1, 1],
                               (rng.standard_normal(channels * channels) / channels**0.5).astype("float32")),
        ],
    )


@pytest.mark.parametrize("groups,kernel,stride", [(1, 3, 1), (1, 3, 2), (1, 1, 1), (32, 3, 1), (32, 5, 2), (1, 5, 1)])
def test_convolutions_of_any_size(groups, kernel, stride):
    ort = pytest.importorskip("onnxruntime")
    model = convolution_model(groups, kernel, stride)
    compiled = treadle.compile(model)
    session = ort.InferenceSession(model.SerializeToString())
    for n, h, w in [(1, 1, 1), (1, 2, 3), (2, 5, 7), (1, 16, 16), (3, 33, 17), (1, 40, 61)]:
        feeds = {"x": rand(n, 32, h, w)}
        (expected,), (actual,) = session.run(None, feeds), compiled.run(None, feeds)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_dense_layers_of_any_number_of_rows():
    rng = np.random.default_rng(5)
    w = rng.standard_normal((24, 37)).astype("float32")
    model = model_of(
        [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
        [floats("x", ["n", "m", 24])],
        [floats("y", None)],
        [helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.ravel())],
    )
    check(model, [{"x": rand(n, m, 24)} for n, m in [(1, 1), (1, 6), (2, 7), (3, 100), (1, 1200), (0, 3)]], rtol=1e-4)


@pytest.mark.parametrize("op,gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_recurrent_layers_over_sequences_of_any_length(op, gates, direction, lengths):
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(7)
    d, hidden, size = 2 if direction == "bidirectional" else 1, 8, 5
    make = lambda name, *shape: helper.make_tensor(  # noqa: E731
        name, TensorProto.FLOAT, shape, (rng.standard_normal(int(np.prod(shape))) * 0.4).astype("float32"))
    outputs = ["y", "h", "c"] if op == "LSTM" else ["y", "h"]
    inputs = [floats("x", ["t", "n", size])]
    if lengths:
        inputs.append(helper.make_tensor_value_info("len", TensorProto.INT32, ["n"]))
    model = model_of(
        [helper.make_node(op, ["x", "w", "r", "b"] + (["len"] if lengths else []), outputs, hidden_size=hidden,
                          direction=direction)],
        inputs,
        [floats(name, None) for name in outputs],
        [make("w", d, gates * hidden, size), make("r", d, gates * hidden, hidden), make("b", d, 2 * gates * hidden)],
    )
    compiled = treadle.compile(model)
    session = ort.InferenceSession(model.SerializeToString())
    for t, n in [(1, 1), (7, 1), (3, 4), (20, 2)]:
        feeds = {"x": rand(t, n, size)}
        if lengths:
            feeds["len"] = np.array([1 + i * 3 % t for i in range(n)], "int32")
        for a, e in zip(compiled.run(None, feeds), session.run(None, feeds)):
            np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


def constant_slices(name, rows, hidden):
    """Nodes that give weight `name` (1, gates * hidden, ..), put together from `rows` as exporters do."""
    nodes = [helper.make_node("Slice", [rows, f"at{k}", f"at{k + 1}", "at0"], [f"{name}_{k}"]) for k in range(2)]
    nodes += [helper.make_node("Concat", [f"{name}_0", f"{name}_1"], [f"{name}_all"], axis=0),
              helper.make_node("Unsqueeze", [f"{name}_all", "at0"], [name])]
    return nodes, [helper.make_tensor(f"at{k}", TensorProto.INT64, [1], [k * hidden]) for k in range(3)]


@pytest.mark.parametrize("op,gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("linear", [0, 1])
def test_recurrent_weights_may_be_inputs(op, gates, linear):
    ort = pytest.importorskip("onnxruntime")
    d, hidden, size = 2, 5, 3
    shapes = {"w": (d, gates * hidden, size), "r": (d, gates * hidden, hidden), "b": (d, 2 * gates * hidden)}
    attributes = {"linear_before_reset": linear} if op == "GRU" else {}
    names = ["x", "w", "r", "b"]
    if op == "LSTM" and linear:
        shapes["p"] = (d, 3 * hidden)
        names += ["", "", "", "p"]
    node = helper.make_node(op, names, ["y", "h"], hidden_size=hidden, direction="bidirectional", **attributes)
    inputs = [floats("x", ["t", "n", size]), *(floats(name, list(shape)) for name, shape in shapes.items())]
    model = model_of([node], inputs, [floats("y", None), floats("h", None)], [])
    feeds = {"x": rand(6, 2, size), **{name: rand(*shape) for name, shape in shapes.items()}}
    expected = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    for a, e in zip(treadle.compile(model).run(None, feeds), expected):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


def test_recurrent_weights_may_be_put_together():
    ort = pytest.importorskip("onnxruntime")
    hidden = size = 8
    rows = helper.make_tensor("rows", TensorProto.FLOAT, (2 * hidden, size), rand(2 * hidden, size).ravel())
    nodes, constants = constant_slices("w", "rows", hidden)
    # As a hidden size of 16: both halves.
    nodes.append(helper.make_node("Concat", ["w", "w"], ["r"], axis=2))
    nodes.append(helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2 * hidden))
    model = model_of(nodes, [floats("x", ["t", "n", size])], [floats("y", None)], [rows, *constants])
    feeds = {"x": rand(6, 2, size)}
    expected = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(treadle.compile(model).run(None, feeds)[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode,transform", [("linear", "half_pixel"), ("linear", "align_corners"),
                                            ("nearest", "asymmetric"), ("cubic", "half_pixel"),
                                            ("linear", "pytorch_half_pixel")])
def test_resize_of_any_size(mode, transform):
    ort = pytest.importorskip("onnxruntime")
    attrs = {"mode": mode, "coordinate_transformation_mode": transform}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    to_size = model_of(
        [
            helper.make_node("Shape", ["like"], ["s"]),
            helper.make_node("Slice", ["s", "two", "four", "zero"], ["hw"]),
            helper.make_node("Shape", ["x"], ["xs"]),
            helper.make_node("Slice", ["xs", "zero", "two", "zero"], ["nc"]),
            helper.make_node("Concat", ["nc", "hw"], ["size"], axis=0),
            helper.make_node("Resize", ["x", "", "", "size"], ["y"], **attrs),
        ],
        [floats("x", ["n", 3, "h", "w"]), floats("like", ["n", 1, "h2", "w2"])],
        [floats("y", None)],
        [helper.make_tensor(name, TensorProto.INT64, [1], [v]) for name, v in [("zero", 0), ("two", 2), ("four", 4)]],
    )
    by_factor = model_of(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], **attrs)],
        [floats("x", ["n", 3, "h", "w"])],
        [floats("y", None)],
        [helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 2 if transform == "align_corners" else 1.7, 0.5])],
    )
    sizes = [((1, 3, 5, 6), (9, 4)), ((2, 3, 10, 8), (10, 8)), ((1, 3, 7, 30), (3, 31))]
    for model, feeds in [(to_size, [{"x": rand(*s), "like": rand(s[0], 1, *t)} for s, t in sizes]),
                         (by_factor, [{"x": rand(*s)} for s, _ in sizes])]:
        compiled = treadle.compile(model)
        session = ort.InferenceSession(model.SerializeToString())
        for feed in feeds:
            (actual,), (expected,) = compiled.run(None, feed), session.run(None, feed)
            assert actual.shape == expected.shape
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_pyramids_of_features_of_any_size(mode):
    """Resized to the size of a feature with as many channels, and added to it: run in blocks of channels."""
    attrs = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    weights = {name: rand(*shape) / 10 for name, shape in [("a", (32, 3, 3, 3)), ("b", (32, 32, 3, 3)), ("c", (32, 32, 3, 3))]}
    model = model_of(
        [
            helper.make_node("Conv", ["x", "a"], ["low"], strides=[2, 2], pads=[1, 1, 1, 1]),
            helper.make_node("Conv", ["low", "b"], ["high"], strides=[2, 2], pads=[1, 1, 1, 1]),
            helper.make_node("Shape", ["low"], ["s"]),
            helper.make_node("Slice", ["s", "two", "four", "zero"], ["hw"]),
            helper.make_node("Shape", ["high"], ["hs"]),
            helper.make_node("Slice", ["hs", "zero", "two", "zero"], ["nc"]),
            helper.make_node("Concat", ["nc", "hw"], ["size"], axis=0),
            helper.make_node("Resize", ["high", "", "", "size"], ["up"], **attrs),
            helper.make_node("Add", ["up", "low"], ["sum"]),
            helper.make_node("Conv", ["sum", "c"], ["y"], pads=[1, 1, 1, 1]),
        ],
        [floats("x", ["n", 3, "h", "w"])], [floats("y", None)],
        [helper.make_tensor(name, TensorProto.INT64, [1], [v]) for name, v in [("zero", 0), ("two", 2), ("four", 4)]]
        + [onnx.numpy_helper.from_array(value.astype("float32"), name) for name, value in weights.items()],
    )
    check(model, [{"x": rand(*s)} for s in [(1, 3, 16, 16), (2, 3, 33, 18), (1, 3, 7, 41)]], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("center", [0, 1])
def test_boxes_that_overlap_are_suppressed(center):
    ort = pytest.importorskip("onnxruntime")
    scalar = lambda name, kind, value: helper.make_tensor(name, kind, [], [value])  # noqa: E731
    model = model_of(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["picked"],
                          center_point_box=center)],
        [floats("boxes", ["n", "boxes", 4]), floats("scores", ["n", "classes", "boxes"]), ints("most", [1])],
        [ints("picked", None)],
        [scalar("iou", TensorProto.FLOAT, 0.4), scalar("least", TensorProto.FLOAT, 0.2)],
    )
    compiled = treadle.compile(model)
    session = ort.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(11)
    # more are kept than are compared at once; scores that are equal; none
    for n, classes, count, most in [(1, 1, 6, 3), (2, 3, 50, 10), (1, 2, 200, 1000), (2, 1, 700, 600), (1, 1, 5, 0), (1, 1, 0, 4)]:
        corners = np.sort(rng.random((n, count, 2, 2)), axis=2).reshape(n, count, 4).astype("float32")
        scores = rng.random((n, classes, count))
        if count == 700:
            corners, scores = corners + rng.integers(0, 9, (n, count, 1)).astype("float32"), np.round(scores, 2)
        feeds = {"boxes": corners, "scores": scores.astype("float32"),
                 "most": np.array([most], "int64")}
        np.testing.assert_array_equal(compiled.run(None, feeds)[0], session.run(None, feeds)[0])


@pytest.mark.parametrize("attrs", [dict(sampling_ratio=2, spatial_scale=0.25), dict(sampling_ratio=0, spatial_scale=0.25),
                                   dict(sampling_ratio=3, spatial_scale=0.5, coordinate_transformation_mode="output_half_pixel"),
                                   dict(sampling_ratio=7, spatial_scale=0.25)])
def test_boxes_are_aligned(attrs):
    """Boxes within the image, across its edge, beyond it, and none."""
    ort = pytest.importorskip("onnxruntime")
    model = model_of([helper.make_node("RoiAlign", ["x", "boxes", "of"], ["y"], output_height=3, output_width=5, **attrs)],
                     [floats("x", ["n", "c", "h", "w"]), floats("boxes", ["boxes", 4]), ints("of", ["boxes"])], [floats("y", None)])
    compiled, session = treadle.compile(model), ort.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(5)
    for n, c, h, w, count in [(2, 3, 9, 12, 20), (1, 1, 1, 1, 3), (1, 2, 5, 4, 0)]:
        boxes = rng.random((count, 4)) * 5 * max(h, w) - 9
        boxes[:, 2:] = boxes[:, :2] + rng.random((count, 2)) * 30
        feeds = {"x": rand(n, c, h, w), "boxes": boxes.astype("float32"), "of": rng.integers(0, n, count)}
        actual = compiled.run(None, feeds)[0]
        assert actual.shape == (count, c, 3, 5)
        if count:
            np.testing.assert_allclose(actual, session.run(None, feeds)[0], rtol=1e-4, atol=1e-5)
