# SPDX-License-Identifier: Apache-2.0
"""treadle.Model's methods beyond those that docstrings show, progress and interruption."""
import signal
import sys
import threading
import time
import types

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

import treadle
from treadle import _nd


def products(count=8):
    """A chain of matrix products, each a kernel of its own."""
    rng = np.random.default_rng(0)
    nodes, weights, rows = [], [], 4
    for i in range(count):
        weights.append(numpy_helper.from_array(rng.standard_normal((rows, rows + 1), dtype=np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]))
        rows += 1
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("t0", TensorProto.FLOAT, [3, 4])],
                              [helper.make_tensor_value_info(f"t{count}", TensorProto.FLOAT, [3, rows])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def relu(shape):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def model():
    return treadle.compile(products())


@pytest.fixture(scope="module")
def dynamic():
    return treadle.compile(relu(["n", 2]))


def test_verify_compares_with_onnxruntime(model):
    rows = model.verify()
    assert [row.name for row in rows] == ["t8"] and rows[0].agrees


def test_verify_names_what_differs(model):
    t0 = np.ones((3, 4), np.float32)
    right = model(t0)["t8"]
    with pytest.raises(treadle.VerifyError, match=r"t8: is float32\[3, 12\] instead of float64\[3, 12\]"):
        model.verify({"t0": t0}, {"t8": right.astype(np.float64)})
    wrong = right.copy()
    wrong[1, 2] = np.nan
    with pytest.raises(treadle.VerifyError, match="t8: differs in 1 of 36 elements"):
        model.verify({"t0": t0}, {"t8": wrong})
    with pytest.raises(treadle.Error, match="the reference has no output 't8'"):
        model.verify({"t0": t0}, {"t7": right})


def test_verify_runs_constants_that_were_fixed():
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
             helper.make_tensor_value_info("s", TensorProto.INT64, [1])]
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["y"])], "g", infos,
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])])
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert treadle.compile(onnx_model, constants={"s": [6]}).verify()[0].agrees


def test_loaded_models_keep_what_needs_no_source(model, tmp_path):
    model.save(tmp_path / "m.so")
    loaded = treadle.load(tmp_path / "m.so")
    loaded.save(tmp_path / "m.so")
    assert loaded.verify(reference=products())[0].agrees
    assert len(loaded.profile()) == len(model.profile())
    for call in (loaded.explain, loaded.verify, loaded.get_source):
        with pytest.raises(treadle.Error, match="a loaded model"):
            call()
    with pytest.raises(treadle.Error, match="can't write .*nodir"):
        loaded.save(tmp_path / "nodir" / "m.so")


def test_explain_is_the_text_of_the_command_line(model, tmp_path):
    text = model.explain()
    assert "matmul" in text or "dense" in text
    onnx.save(products(), tmp_path / "m.onnx")
    assert treadle.compile(tmp_path / "m.onnx").explain() == text


def test_measuring_needs_sizes(dynamic):
    for call in (dynamic.benchmark, dynamic.profile, dynamic.verify):
        with pytest.raises(treadle.ShapeError, match=r"no random values for input 'x' \(float32\['n', 2\]\): give inputs="):
            call()
    assert len(dynamic.benchmark({"x": [[1, 2]]}, repeat=2).seconds) == 2
    assert len(dynamic.benchmark({"x": [[1, 2]]}, seconds=1e-9, warm_up=0).seconds) == 1


def test_notebooks_show_a_table(dynamic):
    assert "<tr><td>input</td><td>x</td><td>float32</td><td>n, 2</td></tr>" in dynamic._repr_html_()
    odd = treadle.compile(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'))
    odd._ins[0] = type(odd.inputs[0])("<b>", (2,), odd.inputs[0].dtype)
    assert "<td>&lt;b&gt;</td>" in odd._repr_html_()


def test_weights_come_from_elsewhere(tmp_path):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((4, 3), dtype=np.float32), rng.standard_normal((2, 4), dtype=np.float32)
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 4] x) => (float[2, 3] y) '
        '<float[4, 3] w = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}> { y = MatMul(x, w) }')
    onnx.save(proto, tmp_path / "m.onnx")
    save_file({"w": w}, tmp_path / "w.safetensors")
    sources = [{"w": w}, {"w": np.asfortranarray(w)}, tmp_path / "w.safetensors"]
    (tmp_path / "bad.safetensors").write_bytes(b"not one")
    with pytest.raises(treadle.ModelFormatError, match="isn't a file of safetensors"):
        treadle.compile(proto, weights=tmp_path / "bad.safetensors")
    for source in sources:
        for model in (proto, proto.SerializeToString(), tmp_path / "m.onnx"):
            np.testing.assert_allclose(treadle.compile(model, weights=source)(x)["y"], x @ w, rtol=1e-5, atol=1e-5)
    for wrong, error, text in (({"ww": w}, treadle.Error, "no initializer 'ww'; did you mean 'w'?"),
                               ({"w": w.T}, treadle.ShapeError, r"'w' is \[3, 4\], the model's \[4, 3\]"),
                               ({"w": w.astype("f8")}, treadle.DTypeError, "'w' is DOUBLE, the model's FLOAT"),
                               ([w], treadle.DTypeError, "weights: expected a dict")):
        with pytest.raises(error, match=text):
            treadle.compile(proto, weights=wrong)


def test_bound_outputs_are_written(dynamic):
    context, y = dynamic.create_context(), np.zeros((3, 2), np.float32)
    context.bind_output("y", y)
    assert context(x=np.full((3, 2), 5, np.float32))["y"] is y and (y == 5).all()
    with pytest.raises(treadle.ShapeError, match=r'output "y" is \(1, 2\), but it is bound to a tensor of \(3, 2\)'):
        context(x=np.ones((1, 2), np.float32))
    context.bind_output("y", None)
    assert context(x=np.ones((1, 2), np.float32))["y"].shape == (1, 2)
    for wrong, error in ((np.zeros((3, 3), np.float32), treadle.ShapeError), (np.zeros((3, 2)), treadle.DTypeError),
                         ([[0, 0]], treadle.DTypeError)):
        with pytest.raises(error, match="output 'y' is"):
            context.bind_output("y", wrong)
    with pytest.raises(treadle.Error, match="no output 'yy'; it has: y; did you mean 'y'?"):
        context.bind_output("yy", y)


def test_bound_outputs_of_open_shape_are_written_in_place():
    model = treadle.compile(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, 64] x) => (float[n, 64] y, float[n, 64] z, float[n, 64] same) '
        '{ t = ReduceSum(x) y = Add(x, t) z = Neg(y) same = Identity(x) }'))
    context, reference = model.create_context(threads=1), model.create_context(threads=1)
    y, same = (np.full((5, 64), np.nan, np.float32) for _ in range(2))
    context.bind_output("y", y)
    context.bind_output("same", same)
    for seed, rows in enumerate((5, 5, 5)):  # from the second run on kernels write to y
        x = np.random.default_rng(seed).standard_normal((rows, 64), dtype=np.float32)
        outputs, expected = context(x=x), reference(x=x)
        assert outputs["y"] is y and outputs["same"] is same
        for name, value in outputs.items():
            np.testing.assert_array_equal(value, expected[name])
    before = outputs["z"].copy()
    with pytest.raises(treadle.ShapeError):
        context(x=x[:2])
    np.testing.assert_array_equal(outputs["z"], before)
    context.bind_output("z", y)  # two outputs in one place, and an input beside
    np.testing.assert_array_equal(context(x=x)["z"], expected["z"])
    context.bind_output("z", None)
    y[...] = x
    np.testing.assert_array_equal(context(x=y)["y"], expected["y"])


def test_bound_outputs_when_runs_go_other_ways():
    """Which tensor a run makes first depends on values: none lands where another output is bound."""
    model = treadle.compile(onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[n, 8] x, bool c) => (float[n, 8] y, float[n, 8] z) {
          y, z = If (c) <then_branch = t () => (float[n, 8] a, float[n, 8] b) { a = Exp(x) b = Neg(a) },
                         else_branch = e () => (float[n, 8] p, float[n, 8] q) { q = Exp(x) p = Neg(q) }> }"""))
    context, reference = model.create_context(), model.create_context()
    y, z = (np.zeros((3, 8), np.float32) for _ in range(2))
    for bound in ({"y": y}, {"y": y, "z": z}, {"z": z}):
        for name in "yz":
            context.bind_output(name, bound.get(name))
        for seed, c in enumerate((True, True, False, False, True)):
            x = np.random.default_rng(seed).standard_normal((3, 8), dtype=np.float32)
            outputs, expected = context(x=x, c=np.array(c)), reference(x=x, c=np.array(c))
            for name in "yz":
                np.testing.assert_array_equal(outputs[name], expected[name])


def test_bound_outputs_of_known_shape_are_written_in_place():
    model = treadle.compile(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4, 64] x) => (float[4, 64] y, float[4, 64] z) '
        '{ t = ReduceSum(x) y = Add(x, t) z = Neg(x) }'))
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    expected = model(x=x)
    context, y = model.create_context(threads=1), np.zeros((4, 64), np.float32)
    context.bind_output("y", y)
    assert context(x=x)["y"] is y
    assert np.shares_memory(_nd._view(context._context.get_output(0)), y)
    np.testing.assert_array_equal(y, expected["y"])
    own = context(x=x)["z"]  # isn't touched by later runs
    context(x=2 * x)
    np.testing.assert_array_equal(own, expected["z"])
    # What is read and written at the same time is copied, either way around, as are two outputs in one place.
    same = x.copy()
    context.bind_output("y", same)
    np.testing.assert_array_equal(context(x=same)["y"], expected["y"])
    same[...] = x
    context(x=same)
    context.bind_output("z", same)
    same[...] = x
    np.testing.assert_array_equal(context(x=same)["z"], expected["z"])
    strided = np.zeros((64, 4), np.float32).T
    context.bind_output("y", strided)
    np.testing.assert_array_equal(context(x=x)["y"], expected["y"])
    for name in "yz":
        context.bind_output(name, None)
    kept = y.copy()
    np.testing.assert_array_equal(context(x=x)["y"], expected["y"])
    np.testing.assert_array_equal(y, kept)


def test_runs_in_other_threads_give_results_and_errors(model):
    inputs = [np.full((3, 4), i, np.float32) for i in range(10)]
    futures = [model.run_async(x) for x in inputs]
    for x, future in zip(inputs, futures):
        np.testing.assert_array_equal(future.result(60)["t8"], model(x)["t8"])
    with pytest.raises(treadle.ShapeError):
        model.run_async(np.ones(3, np.float32)).result(60)


def test_progress_counts_kernels():
    seen = []
    treadle.compile(products(), progress=seen.append)
    assert [p.done for p in seen] == list(range(1, len(seen) + 1)) and seen[-1].done == seen[-1].total >= 8
    assert all(p.cached <= p.done for p in seen)
    with pytest.raises(treadle.Error, match="progress is 3; expected True"):
        treadle.compile(products(), progress=3)


def test_errors_of_progress_end_compiling():
    def fail(_):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        treadle.compile(products(), progress=fail)


def test_progress_bar_of_tqdm_or_a_line(monkeypatch, capsys):
    class Bar:
        made = []

        def __init__(self, desc, unit):
            self.n, self.total = 0, None
            Bar.made.append(self)

        def update(self, count):
            self.n += count

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    treadle.compile(products(), progress=True)
    assert Bar.made[0].n == Bar.made[0].total >= 8
    for name in ("tqdm", "tqdm.auto", "rich", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    treadle.compile(products(), progress=True)
    assert "compiling: 8/8 kernels\n" in capsys.readouterr().err


def test_interrupting_ends_compiling():
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.05)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            treadle.compile(products(24), progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    for thread in threading.enumerate():
        if thread.name == "treadle-compile":
            thread.join(60)
    assert len(seen) < seen[0].total
    assert treadle.compile(products())(np.ones((3, 4), np.float32))["t8"].shape == (3, 12)


def test_compiling_without_a_thread_to_be_had(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert treadle.compile(relu([2]))([-1, 2])["y"].tolist() == [0, 2]


def test_shapes_seen_often_get_a_form_of_their_own():
    relu = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x, int64[2] axes) => (float y)'
        '{ r = Relu(x)  y = ReduceSum<keepdims = 0>(r, axes) }')
    model = treadle.compile(relu, specialise=2)
    axes = np.array([0, 1], np.int64)
    for _ in range(2):
        for n in (3, 4):
            assert model.run(None, {"x": np.ones((n, 2), np.float32), "axes": axes})[0] == 2 * n
    model._forms.settle()
    shapes = (("axes", (2,)), ("x", (4, 2)))
    assert model._forms.find(shapes).inputs[0].shape == (4, 2)
    assert model(x=np.ones((4, 2), np.float32), axes=axes)["y"] == 8
    for n in (5, 6):  # the least recently used go
        for _ in range(2):
            model(x=np.ones((n, 2), np.float32), axes=axes)
    model._forms.settle()
    assert len(model._forms._forms) == 2 and model._forms.find(shapes) is None


def test_static_models_have_no_forms():
    with pytest.raises(treadle.Error, match="specialise"):
        treadle.compile(onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'), specialise=-1)
    assert treadle.compile(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'), specialise=3)._forms is None


def test_dimensions_without_a_name_print_as_unknown():
    model = treadle.compile(onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[?, 3] x) => (float[?, 3] y) { y = Relu(x) }'))
    assert repr(model) == "<treadle.Model (x: float32[?, 3]) -> (y: float32[?, 3])>"
