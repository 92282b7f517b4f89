# SPDX-License-Identifier: Apache-2.0
"""Sketch rules of one's own for auto_scheduler, states as lists of steps, and what they are mostly for: sparse products."""
import numpy as np
import pytest

import treadle as tvm
from treadle import auto_scheduler, te, topi
from treadle.auto_scheduler import PreloadCustomSketchRule, _ffi_api
from treadle.auto_scheduler.loop_state import State

scipy_sparse = pytest.importorskip("scipy.sparse")


@auto_scheduler.register_workload("test_states.sparse")
def sparse_workload(m, n, k, data_shape, nnz, rows):
    x, data = te.placeholder((m, k), name="X"), te.placeholder(data_shape, name="D")
    indices, indptr = te.placeholder((nnz,), "int32", name="I"), te.placeholder((rows + 1,), "int32", name="P")
    return [x, data, indices, indptr, topi.nn.relu(topi.nn.sparse_dense(x, data, indices, indptr))]


@pytest.fixture(scope="module")
def matrix():
    np.random.seed(3)
    return topi.sparse.utils.random_bsr_matrix(32, 24, 4, 2, density=0.4, dtype="float32")


@pytest.fixture
def task(matrix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prefix = f"sparse_dense_bsr_32_24_4_2_{len(matrix.indices)}_9_"
    return auto_scheduler.SearchTask(
        func="test_states.sparse", args=(16, 32, 24, list(matrix.data.shape), len(matrix.indices), 8), target="llvm",
        task_inputs={prefix + "W_data": tvm.nd.array(matrix.data), prefix + "W_indices": tvm.nd.array(matrix.indices),
                     prefix + "W_indptr": tvm.nd.array(matrix.indptr)}, task_inputs_save_to_file=True)


def check(function, matrix, x):
    out = tvm.nd.empty((16, 32))
    function(*map(tvm.nd.array, (x, matrix.data, matrix.indices, matrix.indptr)), out)
    np.testing.assert_allclose(out.numpy(), np.maximum(x @ matrix.todense().T, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lhs", [False, True])
@pytest.mark.parametrize("form", ["csr", "bsr"])
def test_sparse_products(matrix, form, lhs):
    given = matrix if form == "bsr" else scipy_sparse.csr_matrix(matrix)
    x = np.random.default_rng(0).random((16, 24), "float32")
    arrays = (x, given.data, given.indices.astype("int32"), given.indptr.astype("int32"))
    tensors = [te.placeholder(a.shape, str(a.dtype)) for a in arrays]
    result = topi.nn.sparse_dense(*tensors, sparse_lhs=lhs)
    out = tvm.nd.empty([int(d) for d in result.shape])
    tvm.build(te.create_schedule(result.op), [*tensors, result])(*map(tvm.nd.array, arrays), out)
    expected = x @ np.asarray(matrix.todense()).T
    np.testing.assert_allclose(out.numpy(), expected.T if lhs else expected, rtol=1e-4, atol=1e-5)


def meets(policy, state, stage_id):
    tag = State(state, policy.search_task.compute_dag).stages[stage_id].op.tag
    return PreloadCustomSketchRule.APPLY_AND_SKIP_REST if tag.startswith("sparse_dense_sp_rhs") else PreloadCustomSketchRule.PASS


def applies(policy, state, stage_id):
    dag = policy.search_task.compute_dag
    made = State(state, dag)
    if made.stages[stage_id].op.tag.endswith("block"):
        return [[made.state_object, stage_id - 1]]
    block, gathered = made.stages[stage_id - 1].op, made.stages[stage_id].op
    ((consumer, _),) = _ffi_api.SearchPolicyUtilsGetConsumers(policy.search_task, state, stage_id).items()
    assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(policy.search_task, state, stage_id, consumer)
    made.compute_inline(gathered)
    i, block_row, j, e, c = made[block].iters
    m, n = made[consumer].iters
    i0, i1, i2 = made.split(block, i, [None, None])
    m0, m1 = made.follow_split(consumer, m, len(made.transform_steps) - 1, 1)
    r0, r1 = made.split(block, block_row, [None])
    n0, n1 = made.follow_split(consumer, n, len(made.transform_steps) - 1, 1)
    made.reorder(block, [i0, r0, i1, r1, e, i2, j, c])
    made.reorder(consumer, [m0, n0, m1, n1])
    made.compute_at(block, consumer, n0)
    assert State(made.state_object, dag) == made and made.copy() == made
    return [[made.state_object, stage_id - 2]]


def test_sketches_of_own_rules_are_tuned(task, matrix, tmp_path):
    policy = auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(),
                                         init_search_callbacks=[PreloadCustomSketchRule(meets, applies, "SparseDense")])
    log = str(tmp_path / "states.json")
    task.tune(auto_scheduler.TuningOptions(num_measure_trials=3, measure_callbacks=[auto_scheduler.RecordToFile(log)],
                                           runner=auto_scheduler.LocalRunner(number=1, min_repeat_ms=0)), policy)
    inputs, results = auto_scheduler.RecordReader(log).read_lines()
    assert len({i.plans for i in inputs}) == 3 and all(r.error_no == 0 for r in results), [r.error_msg for r in results]
    schedule, tensors = task.apply_best(log)
    assert "ramp" in str(tvm.lower(schedule, tensors, simple_mode=True))
    check(tvm.build(schedule, tensors, "llvm"), matrix, np.random.default_rng(1).random((16, 24), "float32"))
    assert len(list(tmp_path.glob("sparse_dense_bsr_*.npy"))) == 3


def test_states_apply_to_schedules(task, matrix):
    state = task.compute_dag.get_init_state()
    last = len(state.stages) - 1
    i, j = state.stages[last].iters
    outer, _ = state.split(last, i, [4])
    state.parallel(last, state.fuse(last, [outer, state[last].iters[1]]))
    state.vectorize(last, j)
    schedule, tensors = task.compute_dag.apply_steps_from_state(state)
    check(tvm.build(schedule, tensors), matrix, np.random.default_rng(2).random((16, 24), "float32"))
    assert [stage.compute_at for stage in state.stages] == ["root"] * len(state.stages)
    with pytest.raises(tvm.Error, match="has no iterator"):
        state.unroll(last, outer)
    with pytest.raises(tvm.Error, match="expected a split"):
        state.follow_split(last, state[last].iters[0], 1, 1)
    with pytest.raises(tvm.Error, match="inner_to_outer"):
        state.split(last, state[last].iters[0], [2], inner_to_outer=False)


def test_mistakes_in_inputs_and_rules_are_named(task, matrix):
    arguments = (16, 32, 24, list(matrix.data.shape), len(matrix.indices), 8)
    with pytest.raises(tvm.Error, match="no tensor is called weights; there are: sparse_dense_bsr_32_24_4_2_"):
        auto_scheduler.SearchTask(func="test_states.sparse", args=arguments, task_inputs={"weights": matrix.data})
    (name,) = [n for n in task.inputs._named if n.endswith("W_data")]
    with pytest.raises(tvm.Error, match="W_data is float64"):
        auto_scheduler.SearchTask(func="test_states.sparse", args=arguments, task_inputs={name: matrix.data.astype("float64")})
    forever = PreloadCustomSketchRule(meets, lambda policy, state, stage_id: [[state, stage_id]], "forever")
    with pytest.raises(tvm.Error, match="rule forever: .* an earlier stage"):
        task.tune(auto_scheduler.TuningOptions(1), auto_scheduler.SketchPolicy(task, init_search_callbacks=[forever]))
