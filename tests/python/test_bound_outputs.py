# SPDX-License-Identifier: Apache-2.0
"""Model.bind_output: runs of a model that write where the caller says; and mistakes near it."""
import concurrent.futures
import gc
import json

import numpy as np
import onnx.parser
import pytest

import treadle
import treadle.onnxruntime as ort
from treadle import relay
from treadle.contrib import graph_executor

MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x, float[3] c) => (float[n, 3] y, float[n, 3] z) {
    y = Add(x, c)
    z = Mul(x, c)
}""")
X, C = np.arange(6, dtype="float32").reshape(2, 3), np.array([1, 2, 3], "float32")


@pytest.fixture(scope="module")
def compiled():
    return treadle.compile(MODEL)


def test_bound_outputs_of_a_model(compiled):
    place = np.zeros((2, 3), "float32")
    compiled.bind_output("y", place)
    result = compiled(x=X, c=C)
    assert result["y"] is place and np.array_equal(place, X + C) and np.array_equal(result["z"], X * C)
    assert compiled.run(["z", "y"], {"x": X + 1, "c": C})[1] is place and np.array_equal(place, X + 1 + C)
    with pytest.raises(treadle.Error, match='input "c" is missing: expected float32'):
        compiled(x=X)
    with pytest.raises(treadle.Error, match="no output 'w'"):
        compiled.run(["w"], {"x": X, "c": C})
    compiled.bind_output("y", None)
    assert compiled(x=X, c=C)["y"] is not place


def test_threads_take_turns(compiled):
    place = np.zeros((2, 3), "float32")
    compiled.bind_output("z", place)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(lambda k: compiled(x=X * k, c=C)["y"], range(40)))
    compiled.bind_output("z", None)
    assert all(np.array_equal(sums[k], X * k + C) for k in range(40))


@pytest.mark.parametrize("make, kind, text", [
    (lambda m: m.bind_output("q", X), treadle.Error, "the model has no output 'q'; it has: y, z"),
    (lambda m: m.bind_output("y", [1]), treadle.DTypeError, "bound to a writable NumPy array of float32, not to list"),
    (lambda m: m(X, C, X), treadle.Error, "the model has 2 inputs, got 3"),
    (lambda m: m.verify({"x": X, "c": C}, reference="tensorflow"), treadle.Error, "reference: there is no file 'tensorflow'"),
    (lambda m: treadle.compile(MODEL, precision="fp16"), treadle.Error, "did you mean 'f16'"),
    (lambda m: treadle.compile(MODEL, precision="int8"), treadle.Error, "treadle.quantize makes models 8-bit"),
    (lambda m: treadle.compile(MODEL, quick="yes"), treadle.DTypeError, "quick: expected True or False, got 'yes'"),
])
def test_mistakes_name_what_is_wrong(compiled, make, kind, text):
    with pytest.raises(kind, match=text):
        make(compiled)


def test_bindings_of_sessions_take_values_of_their_kind():
    session = ort.InferenceSession(MODEL.SerializeToString())
    binding = session.io_binding()
    with pytest.raises(TypeError, match="expected an OrtValue, got ndarray; ortvalue_from_numpy"):
        binding.bind_ortvalue_input("x", X)
    with pytest.raises(TypeError, match="iobinding: expected an IOBinding, got int"):
        session.run_with_iobinding(3)


def test_outputs_that_are_parameters_outlive_their_executor(tmp_path):
    """They lie in the library, which was closed with the executor."""
    weights = np.arange(100_000, dtype="float32")
    x = relay.var("x", shape=(2,))
    results = relay.Tuple([relay.const(weights), relay.exp(x), relay.reshape(relay.const(weights), (100, 1000))])
    path = str(tmp_path / "m.so")
    relay.build(treadle.IRModule.from_expr(relay.Function([x], results)), "llvm").export_library(path)

    def outputs():
        executor = graph_executor.GraphModule(treadle.runtime.load_module(path)["default"](treadle.cpu()))
        executor.set_input("x", np.zeros(2, "float32"))
        executor.run()
        return [executor.get_output(i) for i in range(3)]

    same, ones, reshaped = outputs()
    gc.collect()
    np.testing.assert_array_equal(same.numpy(), weights)
    np.testing.assert_array_equal(ones.numpy(), [1, 1])
    np.testing.assert_array_equal(reshaped.numpy(), weights.reshape(100, 1000))
    with pytest.raises(treadle.error.RuntimeError, match="read-only tensor"):
        same.copyfrom(weights)


@pytest.mark.parametrize("size", [8, 128])
def test_large_results_have_memory_of_their_own(size):
    """A run writes them where the caller gets them; only small ones are copied in the end."""
    x = relay.var("x", shape=(size, size))
    y = relay.nn.dense(relay.nn.dense(relay.nn.dense(x, x), x), x)
    with treadle.transform.PassContext(opt_level=3, config={"relay.memory_planner": "arena"}):
        lib = relay.build(treadle.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.softmax(y)))), target="llvm")
    graph = json.loads(lib.get_graph_json())
    offsets = graph["attrs"]["storage_offset"][1]
    (head, _, _), = graph["heads"]
    shared = [i for i, offset in enumerate(offsets) if i != head and abs(offset - offsets[head]) < 4 * size * size
              and offset >= 0]
    assert bool(shared) == (size == 8)
    value = np.random.default_rng(0).standard_normal((size, size)).astype("float32") / size
    expected = value.astype("float64")
    for _ in range(3):
        expected = expected @ value.T
    expected = np.exp(expected - expected.max(axis=1, keepdims=True))
    module = graph_executor.GraphModule(lib["default"](treadle.cpu()))
    module.run(x=value)
    np.testing.assert_allclose(module.get_output(0).numpy(), expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)
