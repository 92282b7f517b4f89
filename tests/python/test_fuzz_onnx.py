# SPDX-License-Identifier: Apache-2.0
"""The short form of tools/fuzz_onnx.py: a few seeds, and the shrinker."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))

from differential import engines, graphs, guarded, rules, shrink  # noqa: E402

SEED, COUNT = 5000, 12


def fuzz(*options, python_path=str(pathlib.Path(treadle.__file__).parents[1])):
    return subprocess.run([sys.executable, ROOT / "tools" / "fuzz_onnx.py", *map(str, options)], text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": python_path}, check=False)


def test_random_graphs_agree_with_onnxruntime(tmp_path):
    done = fuzz("--seed", SEED, "--count", COUNT, "--output", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    agree = int(done.stdout.splitlines()[-1].split(" agree")[0].split()[-1])
    assert agree >= COUNT // 2, done.stdout


def test_levels_and_targets_agree(tmp_path):
    done = fuzz("--mixed", "--seed", SEED, "--count", COUNT // 2, "--output", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_single_operators_agree_on_odd_operands(tmp_path):
    done = fuzz("--operators", "--seed", SEED, "--count", 40, "--output", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split(" agree")[0].split()[-1]) >= 25, done.stdout


def test_sizes_of_a_run_are_refused_as_those_of_a_model(tmp_path):
    done = fuzz("--sizes", "--seed", SEED, "--count", 10, "--output", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split(" agree")[0].split()[-1]) >= 4, done.stdout


def test_a_seed_gives_one_graph():
    for seed in (1, 2):
        one, other = graphs.generate(seed), graphs.generate(seed)
        assert one.model.SerializeToString() == other.model.SerializeToString()


@pytest.mark.parametrize("rule", [function for function, _ in rules.RULES], ids=lambda function: function.__name__)
def test_each_rule_lets_graphs_grow(rule):
    """One whose operands weren't its own was refused by each graph, and so was never tried."""
    dims = {"float32": [[2, 4, 6, 6], [2, 4, 6, 6], [3, 1, 8], [4, 4]], "int64": [[2, 3]], "uint8": [[1, 4, 5, 5]], "bool": [[2, 4, 6, 6]]}

    def grows(seed):
        graph = graphs.Graph(seed, profile="few_bits" if seed % 2 else "any")
        for dtype, shapes in dims.items():
            for shape in shapes:
                graph.add_input(shape, dtype)
        try:
            return rule(graph)
        except graphs.Refused:
            return False

    assert any(grows(seed) for seed in range(200))


def test_shrinker_keeps_what_fails(tmp_path):
    def fails(case):
        return any(node.op_type == "Pad" for node in case.model.graph.node)

    def has_tensors_only(case):  # what makes a sequence isn't replaced by an operand
        return not any("Sequence" in node.op_type for node in case.model.graph.node)

    case = next(c for c in map(graphs.generate, range(100)) if fails(c) and has_tensors_only(c) and len(c.model.graph.node) > 6)
    small = shrink.shrink(case, fails)
    assert [node.op_type for node in small.model.graph.node] == ["Pad"]
    shrink.save(small, tmp_path / "small")
    again = shrink.load(tmp_path / "small")
    assert again.model.SerializeToString() == small.model.SerializeToString()
    assert fuzz("--replay", tmp_path / "small").returncode == 0


def test_shrinker_keeps_sequences(tmp_path):
    """It ended with an AttributeError where a graph had some."""
    def fails(case):
        return any(node.op_type == "SequenceAt" for node in case.model.graph.node)

    case = next(c for c in map(graphs.generate, range(200)) if fails(c))
    assert fails(shrink.shrink(case, fails))
    shrink.save_intermediates(case, tmp_path / "case")
    assert shrink.load_intermediates(tmp_path / "case").keys() == shrink.intermediates(case).keys()


def test_guarded_arrays_show_what_is_written_around_them():
    whole = guarded.Guarded((3, 5), "float32", 1.0)
    assert whole.is_whole() and (whole.array == 1).all()
    whole.array[...] = 2
    assert whole.is_whole()
    for place in (whole.begin - 1, whole.end):
        before, whole.bytes[place] = whole.bytes[place], 0
        assert not whole.is_whole()
        whole.bytes[place] = before


def test_values_between_nodes_come_from_another_process(tmp_path):
    """The tool ended with ONNX Runtime, which evaluated them in its own process."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]> g (float[n, 2] x) => (float[n, 2] y) {
        t = Neg (x)
        y = Exp (t)
    }""")
    case = graphs.Case(model, [{"x": np.full((n, 2), n, np.float32)} for n in (1, 3)], {"y": 1e-5})
    shrink.save_intermediates(case, tmp_path / "case")
    here, there = shrink.intermediates(case), shrink.load_intermediates(tmp_path / "case")
    assert here.keys() == there.keys()
    for name, arrays in here.items():
        for a, b in zip(arrays, there[name], strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_reference_decides_beside_operators_that_it_lacks():
    """A scale of infinity: ONNX Runtime subtracts infinity from itself."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[1, 2, 3] x) => (float[1, 2, 3] y) <float[2] s = {1, inf}, float[2] b = {0, 0}> {
            z = com.microsoft.Gelu (x)
            y = InstanceNormalization (z, s, b)
        }""")
    feeds = {"x": np.float32([[[1, 2, 4], [1, 2, 4]]])}
    case = graphs.Case(model, [feeds], {"y": 1e-3})
    assert np.isnan(engines.open_session(model).run(None, feeds)[0]).any()
    verdict = engines.compare(case)
    assert verdict.kind == "peer", verdict


def test_workers_that_cannot_start_end_the_run(tmp_path):
    """Each graph counted as a crash, and was made smaller, a process a step."""
    (tmp_path / "treadle.py").write_text("raise ImportError('not built')")
    done = fuzz("--seed", SEED, "--count", 3, "--output", tmp_path, python_path=str(tmp_path))
    assert done.returncode == 1
    assert "a worker can't start (exit 1)" in done.stderr and "not built" in done.stderr


def test_strings_are_saved_as_they_are(tmp_path):
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [2])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [value],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [2])])
    words = np.array(["a", "bcd"], object)
    case = graphs.Case(onnx.helper.make_model(graph, ir_version=10), [{"x": words}], {})
    shrink.save(case, tmp_path / "case")
    again = shrink.load(tmp_path / "case").feeds[0]["x"]
    assert again.dtype == object and again.tolist() == words.tolist()
