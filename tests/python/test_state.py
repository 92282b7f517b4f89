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
