# SPDX-License-Identifier: Apache-2.0
"""Kernels whose buffers lie between pages that aren't mapped, intermediate results and scratch memory as well: those that
read or wrote outside would end the process, and what they read before it is written is NaN."""
import os
import subprocess
import sys

SCRIPT = r"""
import numpy as np
import onnx.parser
import treadle

TEXT = '''<ir_version: 8, opset_import: ["": 17]> g (float[n, 3, h, w] x) => (float[a, b] y, float[c, d, e, f] z) {
    c = Conv <pads = [1, 1, 1, 1]> (x, k)
    r = Relu (c)
    p = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (r)
    s = ReduceMean <axes = [2, 3], keepdims = 0> (p)
    m = MatMul (s, v)
    y = Softmax <axis = 1> (m)
    t = Transpose <perm = [0, 2, 3, 1]> (p)
    u = Sigmoid (t)
    z = Concat <axis = 3> (u, t)
}'''
rng = np.random.default_rng(1)
model = onnx.parser.parse_model(TEXT)
model.graph.initializer.extend([onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
                                for name, shape in (("k", (5, 3, 3, 3)), ("v", (5, 7)))])
for target in ("llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "c"):
    compiled = treadle.compile(model, target=target)
    for shape in ((1, 3, 9, 11), (2, 3, 17, 8)):
        feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
        static = treadle.compile(model, shapes={"x": shape}, opt_level=0, target=target)
        for ours, theirs in zip(compiled.run(None, feeds), static.run(None, feeds)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
print("all ran")
"""


def test_kernels_stay_within_their_buffers():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False,
                            env={**os.environ, "TREADLE_GUARD_MEMORY": "1"})
    assert result.returncode == 0 and result.stdout == "all ran\n", (result.returncode, result.stderr[-2000:])
