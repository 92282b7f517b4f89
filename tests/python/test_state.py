# SPDX-License-Identifier: Apache-2.0
"""States of models: inputs that are outputs of the run before, and caches changed in place."""
import subprocess
import sys
import textwrap

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle

ROOM, STEP, SIZE = 6, 2, 4


def cache_model(mode="linear", room=ROOM, size=SIZE, step=STEP, more=False):
    """`y` sums what the cache holds after rows of `x` were written to it; `more` reads the old cache as well."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("TensorScatter", ["past", "x", "at"], ["present"], axis=-2, mode=mode),
             helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0)]
    outputs = [value("y", TensorProto.FLOAT, []), value("present", TensorProto.FLOAT, [2, 3, room, size])]
    if more:
        nodes.append(helper.make_node("ReduceSum", ["past"], ["before"], keepdims=0))
        outputs.append(value("before", TensorProto.FLOAT, []))
    graph = helper.make_graph(nodes, "g", [value("past", TensorProto.FLOAT, [2, 3, room, size]),
                                           value("x", TensorProto.FLOAT, [2, 3, step, size]),
                                           value("at", TensorProto.INT64, [2])], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def updates(count):
    rng = np.random.default_rng(4)
    for i in range(count):
        yield rng.standard_normal((2, 3, STEP, SIZE)).astype(np.float32), np.array([2 * i, 2 * i + 1]) % ROOM


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("more", [False, True], ids=["in_place", "both_at_a_time"])
@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_runs_continue_from_the_state(mode, more, target):
    model = cache_model(mode, more=more)
    context = treadle.compile(model.SerializeToString(), target=target).create_context(state={"past": "present"})
    reference, past = ReferenceEvaluator(model), np.zeros((2, 3, ROOM, SIZE), np.float32)
    for x, at in updates(5):
        if mode == "linear":
            at = np.minimum(at, ROOM - STEP)
        before = past
        past = reference.run(["present"], {"past": past, "x": x, "at": at})[0]
        results = context(x=x, at=at)
        assert sorted(results) == (["before", "y"] if more else ["y"])
        np.testing.assert_allclose(results["y"], past.sum(), rtol=1e-4, atol=1e-4)
        if more:
            np.testing.assert_allclose(results["before"], before.sum(), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(context.state["past"], past)


def test_the_memory_stays_the_same():
    context = treadle.compile(cache_model().SerializeToString()).create_context(state={"past": "present"})
    memory = context.state["past"].ctypes.data
    for x, at in updates(2):
        context(x=x, at=at)
        assert context.state["past"].ctypes.data == memory


def test_rows_that_are_not_written_are_not_touched():
    """Of a cache of many pages all but the one that is written are protected: a copy would end the process."""
    program = """
        import ctypes, mmap, sys
        import numpy as np
        import test_state, treadle
        page, room = mmap.PAGESIZE, 64
        model = test_state.cache_model(room=room, size=page // 4, step=1)
        context = treadle.compile(model.SerializeToString()).create_context(state={"past": "present"})
        memory = mmap.mmap(-1, 2 * 3 * room * page)
        cache = np.frombuffer(memory, np.float32).reshape(2, 3, room, page // 4)
        context.bind_state("past", cache)
        x, at = np.ones((2, 3, 1, page // 4), np.float32), np.array([5, 5])
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        first = cache.ctypes.data
        for row in range(2 * 3 * room):
            if row % room != 5:
                assert protect(ctypes.c_void_p(first + row * page), ctypes.c_size_t(page), 1) == 0  # PROT_READ
        assert context(x=x, at=at)["y"] == x.sum()
        print("done")
    """
    folder = str(__import__("pathlib").Path(__file__).parent)
    run = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r})\n" + textwrap.dedent(program)],
                         capture_output=True, text=True, timeout=120)
    assert run.stdout == "done\n", run.stderr


def attention_model(room, rows, declared=True, heads=4, kept=2, size=8, batch=2):
    """GroupQueryAttention that gives back buffers as large as those of the steps before: `declared` so, or with a
    number of keys that is a constant."""
    value = helper.make_tensor_value_info
    cache = [batch, kept, room if declared else "rows", size]
    node = helper.make_node("GroupQueryAttention", ["q", "k", "v", "pk", "pv", "used", "total"], ["y", "key", "value"],
                            domain="com.microsoft", num_heads=heads, kv_num_heads=kept)
    inputs = [value("q", TensorProto.FLOAT, [batch, rows, heads * size]),
              *(value(name, TensorProto.FLOAT, [batch, rows, kept * size]) for name in "kv"),
              *(value(name, TensorProto.FLOAT, [batch, kept, room, size]) for name in ("pk", "pv")),
              value("used", TensorProto.INT32, [batch])]
    if declared:
        inputs.append(value("total", TensorProto.INT32, []))
    constants = [] if declared else [helper.make_tensor("total", TensorProto.INT32, [], [room])]
    outputs = [value("y", TensorProto.FLOAT, [batch, rows, heads * size]),
               value("key", TensorProto.FLOAT, cache), value("value", TensorProto.FLOAT, cache)]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def steps_of_attention(rows, totals, heads=4, kept=2, size=8, batch=2):
    rng = np.random.default_rng(5)
    for total in totals:
        widths = {"q": heads * size, "k": kept * size, "v": kept * size}
        values = {name: rng.standard_normal((batch, rows, width)).astype(np.float32) for name, width in widths.items()}
        used = np.array([total - 1, total - 1 - (total > rows)], np.int32)  # rows of different lengths
        yield {**values, "used": used, "total": np.array(total, np.int32)}


@pytest.mark.parametrize("declared", [True, False])
def test_group_query_attention_changes_its_caches_in_place(declared):
    ort = pytest.importorskip("onnxruntime")
    room = 8
    model = attention_model(room, 1, declared).SerializeToString()
    context = treadle.compile(model).create_context(state={"pk": "key", "pv": "value"})
    memory = [context.state[name].ctypes.data for name in ("pk", "pv")]
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    past = {name: np.zeros((2, 2, room, 8), np.float32) for name in ("pk", "pv")}
    for step in steps_of_attention(1, range(1, room + 1)):
        if not declared:
            del step["total"]
        y, past["pk"], past["pv"] = session.run(None, {**step, **past})
        np.testing.assert_allclose(context(**step)["y"], y, rtol=1e-4, atol=1e-5)
        for name in ("pk", "pv"):
            for row, last in enumerate(step["used"]):
                np.testing.assert_array_equal(context.state[name][row, :, :last + 1], past[name][row, :, :last + 1])
    assert [context.state[name].ctypes.data for name in ("pk", "pv")] == memory


def test_a_prompt_goes_into_the_caches():
    ort = pytest.importorskip("onnxruntime")
    model = attention_model(8, 3).SerializeToString()
    step = next(steps_of_attention(3, [3]))
    step["used"] = np.array([2, 2], np.int32)
    past = {name: np.zeros((2, 2, 8, 8), np.float32) for name in ("pk", "pv")}
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {**step, **past})
    results = treadle.compile(model).run(None, {**step, **past})
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-4, atol=1e-5)
    for result, wanted in zip(results[1:], expected[1:]):
        np.testing.assert_array_equal(np.asarray(result)[:, :, :3], wanted[:, :, :3])


def test_caches_without_room_are_an_error():
    model = treadle.compile(attention_model(4, 1).SerializeToString())
    step = next(steps_of_attention(1, [5]))
    past = {name: np.zeros((2, 2, 4, 8), np.float32) for name in ("pk", "pv")}
    with pytest.raises(treadle.Error, match="total_sequence_length"):
        model.run(None, {**step, **past})


def test_contexts_share_a_state():
    first = treadle.compile(cache_model(step=STEP).SerializeToString()).create_context(state={"past": "present"})
    second = treadle.compile(cache_model(step=1).SerializeToString()).create_context(state=first)
    first(x=np.ones((2, 3, STEP, SIZE), np.float32), at=np.array([0, 0]))
    total = second(x=np.ones((2, 3, 1, SIZE), np.float32), at=np.array([STEP, STEP]))["y"]
    assert total == 2 * 3 * (STEP + 1) * SIZE


def test_a_state_that_is_given_is_copied():
    context = treadle.compile(cache_model().SerializeToString()).create_context(state={"past": "present"})
    start, (x, at) = np.ones((2, 3, ROOM, SIZE), np.float32), next(updates(1))
    context(past=start, x=x, at=at)
    assert (start == 1).all()
    assert context.state["past"][0, 0, -1, 0] == 1


def test_mistakes_name_what_there_is():
    model = treadle.compile(cache_model().SerializeToString())
    with pytest.raises(treadle.Error, match="no input 'pasd'.*past"):
        model.create_context(state={"pasd": "present"})
    with pytest.raises(treadle.Error, match="no output 'presen'.*present"):
        model.create_context(state={"past": "presen"})
    with pytest.raises(treadle.ShapeError, match="'x' is .*'present'"):
        model.create_context(state={"x": "present"})
