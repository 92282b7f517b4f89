# SPDX-License-Identifier: Apache-2.0
"""What `treadle.build` makes of tensor expressions without a schedule, against their plain loops (te.create_schedule,
nothing scheduled): ratios of medians, taken in turns, of computations of all kinds. Checked against NumPy.

    python bench/te_unscheduled.py [--only NAME] [--repeat 5]
"""
import argparse
import math
import statistics
import time

import numpy as np

import treadle
from treadle import te

TARGET = "llvm -mcpu=native"


def matmul(m, n, k, ta=False, tb=False):
    a = te.placeholder((k, m) if ta else (m, k), name="a")
    b = te.placeholder((n, k) if tb else (k, n), name="b")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum((a[r, i] if ta else a[i, r]) * (b[j, r] if tb else b[r, j]), axis=r), "c")
    return [a, b, c], lambda x, y: (x.T if ta else x) @ (y.T if tb else y)


def batched(b, m, n, k):
    x, y = te.placeholder((b, m, k), name="x"), te.placeholder((b, k, n), name="y")
    r = te.reduce_axis((0, k), "k")
    return [x, y, te.compute((b, m, n), lambda h, i, j: te.sum(x[h, i, r] * y[h, r, j], axis=r), "c")], lambda p, q: p @ q


def dense_relu(m, n, k):
    (a, b, c), _ = matmul(m, n, k, tb=True)
    bias = te.placeholder((n,), name="bias")
    out = te.compute((m, n), lambda i, j: te.max(c[i, j] + bias[j], te.const(0.0)), "relu")
    return [a, b, bias, out], lambda x, y, z: np.maximum(x @ y.T + z, 0)


def conv(layout, ci, size, co, kernel, stride=1, depthwise=False):
    out = (size - kernel) // stride + 1
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    if depthwise:
        d, w = te.placeholder((1, ci, size, size), name="d"), te.placeholder((ci, kernel, kernel), name="w")
        c = te.compute((1, ci, out, out), lambda n, f, y, x: te.sum(
            d[n, f, y * stride + ry, x * stride + rx] * w[f, ry, rx], axis=[ry, rx]), "c")

        def reference(x, y):
            views = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
            return np.einsum("ncyxab,cab->ncyx", views, y)
        return [d, w, c], reference
    rc = te.reduce_axis((0, ci), "rc")
    if layout == "NCHW":
        d, w = te.placeholder((1, ci, size, size), name="d"), te.placeholder((co, ci, kernel, kernel), name="w")
        c = te.compute((1, co, out, out), lambda n, f, y, x: te.sum(
            d[n, rc, y * stride + ry, x * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), "c")

        def reference(x, y):
            views = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
            return np.einsum("ncyxab,fcab->nfyx", views, y, optimize=True)
    else:
        d, w = te.placeholder((1, size, size, ci), name="d"), te.placeholder((kernel, kernel, ci, co), name="w")
        c = te.compute((1, out, out, co), lambda n, y, x, f: te.sum(
            d[n, y * stride + ry, x * stride + rx, rc] * w[ry, rx, rc, f], axis=[ry, rx, rc]), "c")

        def reference(x, y):
            views = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
            return np.einsum("nyxcab,abcf->nyxf", views, y, optimize=True)
    return [d, w, c], reference


def conv1d(ci, size, co, kernel):
    d, w = te.placeholder((1, ci, size), name="d"), te.placeholder((co, ci, kernel), name="w")
    rc, rx = te.reduce_axis((0, ci), "rc"), te.reduce_axis((0, kernel), "rx")
    c = te.compute((1, co, size - kernel + 1), lambda n, f, x: te.sum(d[n, rc, x + rx] * w[f, rc, rx], axis=[rc, rx]), "c")
    return [d, w, c], lambda x, y: np.einsum(
        "ncxa,fca->nfx", np.lib.stride_tricks.sliding_window_view(x, kernel, 2), y, optimize=True)


def reduce_rows(n, m, combine, numpy):
    x = te.placeholder((n, m), name="x")
    r = te.reduce_axis((0, m), "r")
    return [x, te.compute((n,), lambda i: combine(x[i, r], axis=r), "s")], lambda v: numpy(v, axis=1)


def reduce_columns(n, m):
    x = te.placeholder((n, m), name="x")
    r = te.reduce_axis((0, n), "r")
    return [x, te.compute((m,), lambda j: te.sum(x[r, j], axis=r), "s")], lambda v: v.sum(axis=0)


def softmax(n, m):
    x = te.placeholder((n, m), name="x")
    r, s = te.reduce_axis((0, m), "r"), te.reduce_axis((0, m), "s")
    most = te.compute((n,), lambda i: te.max(x[i, r], axis=r), "most")
    e = te.compute((n, m), lambda i, j: te.exp(x[i, j] - most[i]), "e")
    total = te.compute((n,), lambda i: te.sum(e[i, s], axis=s), "total")
    out = te.compute((n, m), lambda i, j: e[i, j] / total[i], "y")

    def reference(v):
        v = np.exp(v - v.max(axis=1, keepdims=True))
        return v / v.sum(axis=1, keepdims=True)
    return [x, out], reference


def layer_norm(n, m):
    x = te.placeholder((n, m), name="x")
    r, s = te.reduce_axis((0, m), "r"), te.reduce_axis((0, m), "s")
    total = te.compute((n,), lambda i: te.sum(x[i, r], axis=r), "total")
    centred = te.compute((n, m), lambda i, j: x[i, j] - total[i] / m, "centred")
    square = te.compute((n,), lambda i: te.sum(centred[i, s] * centred[i, s], axis=s), "square")
    out = te.compute((n, m), lambda i, j: centred[i, j] * te.rsqrt(square[i] / m + 1e-5), "y")
    return [x, out], lambda v: (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5)


def stencil(n):
    x = te.placeholder((n, n), name="x")
    return [x, te.compute((n - 2, n - 2), lambda i, j: (x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]) *
                          0.25 + te.exp(x[i + 1, j + 1]), "y")], lambda v: (
        v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]) * 0.25 + np.exp(v[1:-1, 1:-1])


def scan(n, m):
    x = te.placeholder((n, m), name="x")
    state = te.placeholder((n, m), name="state")
    init = te.compute((1, m), lambda _, j: x[0, j], "init")
    update = te.compute((n, m), lambda t, j: state[t - 1, j] + x[t, j], "update")
    return [x, te.scan(init, update, state, inputs=[x])], lambda v: v.cumsum(axis=0)


def gelu(n):
    x = te.placeholder((n,), name="x")
    return [x, te.compute((n,), lambda i: x[i] * 0.5 * (1 + te.tanh(0.79788456 * (x[i] + 0.044715 * x[i] * x[i] * x[i]))),
                          "y")], lambda v: v * 0.5 * (1 + np.tanh(0.79788456 * (v + 0.044715 * v**3)))


CASES = {
    "matmul 512": lambda: matmul(512, 512, 512),
    "matmul 384x200x300": lambda: matmul(384, 200, 300),
    "matmul A^T 384": lambda: matmul(384, 384, 384, ta=True),
    "matmul B^T 384": lambda: matmul(384, 384, 384, tb=True),
    "dense + relu": lambda: dense_relu(128, 512, 512),
    "batched 12x128": lambda: batched(12, 128, 128, 64),
    "conv NCHW 3x3": lambda: conv("NCHW", 64, 30, 64, 3),
    "conv NHWC 3x3": lambda: conv("NHWC", 64, 30, 64, 3),
    "conv NCHW 1x1": lambda: conv("NCHW", 128, 28, 128, 1),
    "conv NCHW /2": lambda: conv("NCHW", 32, 57, 64, 3, 2),
    "conv depthwise": lambda: conv("NCHW", 128, 58, 128, 3, 1, True),
    "conv1d": lambda: conv1d(64, 1000, 64, 5),
    "row sums": lambda: reduce_rows(1024, 1024, te.sum, np.sum),
    "row maxima": lambda: reduce_rows(1024, 1024, te.max, np.max),
    "column sums": lambda: reduce_columns(1024, 1024),
    "softmax": lambda: softmax(512, 512),
    "layer norm": lambda: layer_norm(512, 768),
    "stencil": lambda: stencil(1024),
    "gelu": lambda: gelu(1 << 19),
    "scan": lambda: scan(256, 4096),
}


def seconds(function, arguments, least=0.02):
    function(*arguments)
    start = time.perf_counter()
    function(*arguments)
    runs = max(1, int(least / max(1e-7, time.perf_counter() - start)))
    start = time.perf_counter()
    for _ in range(runs):
        function(*arguments)
    return (time.perf_counter() - start) / runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of the names of computations")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    ratios = []
    for name, make in CASES.items():
        if options.only not in name:
            continue
        tensors, reference = make()
        arrays = [rng.standard_normal([int(d) for d in t.shape]).astype(np.float32) for t in tensors[:-1]]
        expected = reference(*[a.astype(np.float64) for a in arrays])
        plain = treadle.build(te.create_schedule(tensors[-1].op), tensors, target=TARGET)
        auto = treadle.build(tensors, target=TARGET)
        inputs = [treadle.nd.array(a) for a in arrays]
        times = {}
        for which, module in (("plain", plain), ("auto", auto)):
            out = treadle.nd.array(np.zeros(expected.shape, np.float32))
            module(*inputs, out)
            np.testing.assert_allclose(out.numpy(), expected, rtol=2e-3, atol=2e-3 * np.abs(expected).max())
            times[which] = (module, [*inputs, out], [])
        for _ in range(options.repeat):
            for module, arguments, list_ in times.values():
                list_.append(seconds(module, arguments))
        plain_time, auto_time = (statistics.median(times[which][2]) for which in ("plain", "auto"))
        ratios.append(plain_time / auto_time)
        print(f"{name:20} plain {plain_time * 1e3:9.3f} ms, without a schedule {auto_time * 1e3:8.3f} ms: {ratios[-1]:7.1f} x",
              flush=True)
    print(f"geometric mean of {len(ratios)}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f} x")


if __name__ == "__main__":
    main()
