# SPDX-License-Identifier: Apache-2.0
"""What compiling takes of the memory, beside the weights of a model."""
import json
import pathlib
import subprocess
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
WIDTH, LAYERS = 3584, 8

MEASURE = """import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(json.dumps([done.returncode, done.stderr[-1000:], resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""


def peak_bytes(*command):
    """Of a process that must succeed: an interpreter of its own starts it, whose children are that one."""
    status, problem, peak = json.loads(subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)],
                                                      capture_output=True, text=True, check=True, timeout=240).stdout)
    assert status == 0, problem
    return peak


def test_weights_inside_the_file_are_in_memory_once(tmp_path):
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), dtype=np.float32) / 60
    weights = [numpy_helper.from_array(np.roll(weight, i), f"weight{i}") for i in range(LAYERS)]
    nodes = [helper.make_node("Gemm", [f"x{i}", f"weight{i}"], [f"x{i + 1}"], transB=i % 2) for i in range(LAYERS)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, WIDTH])],
                              [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, [1, WIDTH])], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    weight_bytes = LAYERS * weight.nbytes
    peak = peak_bytes(PROGRAM, "compile", tmp_path / "m.onnx", "-q", "--quick", "--no-cache", "-o", tmp_path / "m.so")
    # Where there isn't room for the packed weights, they are in a file as well.
    limited = ["sh", "-c", 'ulimit -d 400000; exec "$@"', "sh"]
    peak_bytes(*limited, PROGRAM, "compile", tmp_path / "m.onnx", "-q", "--quick", "--no-cache", "-o", tmp_path / "n.so")
    assert (tmp_path / "n.so").read_bytes() == (tmp_path / "m.so").read_bytes()
    (tmp_path / "m.onnx").unlink()
    assert peak < 1.3 * weight_bytes + 300e6, f"{peak / 1e6:.0f} MB for {weight_bytes / 1e6:.0f} MB of weights"
    x = np.random.default_rng(1).standard_normal((1, WIDTH), dtype=np.float32)
    expected = x
    for i in range(LAYERS):
        layer = np.roll(weight, i)
        expected = expected @ (layer.T if i % 2 else layer)
    model = treadle.load(tmp_path / "m.so")
    np.testing.assert_allclose(model(x0=x)[f"x{LAYERS}"], expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())
