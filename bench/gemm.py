#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A matrix product of float32 written as a tensor expression, with one schedule primitive more at each step, on one
core, beside the machine's peak of multiply-adds measured in turn with it. Prints a table, or JSON with --json."""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import numpy as np

import treadle
from treadle import te

ROWS, COLUMNS, UNROLL = 6, 16, 2  # of C in registers; steps of k that are written out
BLOCKS = 4  # of columns that are packed at a time


def product(n):
    """A, B and C = A B."""
    k = te.reduce_axis((0, n), "k")
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    return a, b, te.compute((n, n), lambda x, y: te.sum(a[x, k] * b[k, y], axis=k), name="C")


def default(n):
    a, b, c = product(n)
    return te.create_schedule(c.op), [a, b, c]


def tiled(n):
    a, b, c = product(n)
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, ki, xi, yi)
    return s, [a, b, c]


def vectorized(n):
    a, b, c = product(n)
    s = te.create_schedule(c.op)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, xi, ki, yi)
    s[c].vectorize(yi)
    return s, [a, b, c]


def packed_columns(b, n):
    """B in the order in which it is read: blocks of COLUMNS columns."""
    return te.compute((n // COLUMNS, n, COLUMNS), lambda yo, z, yi: b[z, yo * COLUMNS + yi], name="P")


def pack_columns(s, p):
    """Some blocks at a time, so that rows of B are read in long runs."""
    yo, z, yi = p.op.axis
    outer, inner = s[p].split(yo, factor=BLOCKS)
    s[p].reorder(outer, z, inner, yi)
    s[p].vectorize(yi)
    s[p].parallel(outer)


def packed(n):
    k = te.reduce_axis((0, n), "k")
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    p = packed_columns(b, n)
    c = te.compute((n, n), lambda x, y: te.sum(a[x, k] * p[y // COLUMNS, k, y % COLUMNS], axis=k), name="C")
    s = te.create_schedule(c.op)
    pack_columns(s, p)
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], 32, COLUMNS)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(xo, yo, ko, xi, ki, yi)
    s[c].vectorize(yi)
    return s, [a, b, c]


def registers(n):
    """Both operands packed, columns just before they are used, and a tile of C that stays in registers over all of k:
    cache_write."""
    k = te.reduce_axis((0, n), "k")
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    p = packed_columns(b, n)
    tiles = (n + ROWS - 1) // ROWS  # the last one may have rows that aren't A's
    q = te.compute((tiles, n, ROWS), lambda xo, z, xi: te.if_then_else(xo * ROWS + xi < n, a[xo * ROWS + xi, z], 0.0),
                   name="Q")
    c = te.compute((n, n), lambda x, y: te.sum(q[x // ROWS, k, x % ROWS] * p[y // COLUMNS, k, y % COLUMNS], axis=k),
                   name="C")
    s = te.create_schedule(c.op)
    s[q].unroll(q.op.axis[2])
    s[q].parallel(q.op.axis[0])
    cc = s.cache_write(c, "local")
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], ROWS, COLUMNS)
    outer, yo = s[c].split(yo, factor=BLOCKS)
    s[c].reorder(outer, yo, xo, xi, yi)
    s[c].unroll(xi)
    s[c].vectorize(yi)
    s[c].parallel(outer)
    s[p].compute_at(s[c], outer)
    blocks, z, columns = p.op.axis
    s[p].reorder(z, blocks, columns)
    s[p].vectorize(columns)
    s[cc].compute_at(s[c], xo)
    x, y = cc.op.axis
    ko, ki = s[cc].split(cc.op.reduce_axis[0], factor=UNROLL)
    s[cc].reorder(ko, ki, x, y)
    s[cc].unroll(ki)
    s[cc].unroll(x)
    s[cc].vectorize(y)
    return s, [a, b, c]


STEPS = {"default": default, "tile, reorder": tiled, "vectorize": vectorized, "packing": packed,
         "cache_write, unroll": registers}


class Product:
    """A schedule compiled, with operands."""

    def __init__(self, make, n, target):
        schedule, tensors = make(n)
        self.run = treadle.build(schedule, tensors, target=target, name="gemm")["gemm"]
        rng = np.random.default_rng(0)
        a, b = (rng.random((n, n), dtype="float32") for _ in range(2))
        self.args = [treadle.nd.array(x) for x in (a, b, np.zeros_like(a))]
        self.run(*self.args)
        np.testing.assert_allclose(self.args[2].numpy(), a @ b, rtol=1e-4)

    def seconds(self, runs):
        best = float("inf")
        for _ in range(runs):
            start = time.perf_counter()
            self.run(*self.args)
            best = min(best, time.perf_counter() - start)
        return best


def measure(n, program, rounds=8, target="llvm -mcpu=native"):
    """{"n", "peak": GFLOP/s of program (bench/fma_peak), "steps": [{"name", "gflops", "of_peak"}]}: the best of
    rounds in which all take turns."""
    products = {name: Product(make, n, target) for name, make in STEPS.items()}
    best, peak = dict.fromkeys(products, float("inf")), 0.0
    for turn in range(rounds):
        text = subprocess.run([program, "1"], check=True, capture_output=True, text=True).stdout
        peak = max(peak, json.loads(text)["gflops"]["1"])
        for name, item in products.items():
            slow = turn > 1 and best[name] > 4 * min(best.values())  # known well enough
            if not slow:
                best[name] = min(best[name], item.seconds(1 if name == "default" else 6))
    steps = [{"name": name, "gflops": round(2e-9 * n**3 / seconds, 1)} for name, seconds in best.items()]
    for step in steps:
        step["of_peak"] = round(step["gflops"] / peak, 3)
    return {"n": n, "peak": peak, "steps": steps}


def table(result):
    lines = [f"matrix product {result['n']}^3 float32, one core, peak {result['peak']:.1f} GFLOP/s"]
    lines += [f"  {step['name']:22} {step['gflops']:7.1f} GFLOP/s {step['of_peak'] * 100:5.1f} %" for step in result["steps"]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import run

    if not run.machine_limit("fma_peak", "gflops", [1]):
        sys.exit("no C++ compiler to measure the peak with")
    result = measure(args.size, pathlib.Path(__file__).parents[1] / "build/bench/fma_peak")
    print(json.dumps(result) if args.json else table(result))


if __name__ == "__main__":
    main()
