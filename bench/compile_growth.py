#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seconds of compiling per node of networks of 100 to 20,000 nodes: the same blocks again and again, so that kernels are
shared and the rest shows, and blocks of which each has sizes of its own. Prints a table; --svg FILE draws it."""
import argparse
import math
import os
import resource
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

NODES_OF_BLOCK = 10


def network(nodes, distinct):
    """Residual blocks of ten nodes: two products, normalisation by hand, an activation."""
    rng, made, weights, x, width = np.random.default_rng(0), [], [], "x", 32
    for block in range(max(1, nodes // NODES_OF_BLOCK)):
        inner = 48 + (block % 64 if distinct else 0)
        names = [f"{name}{block}" for name in ("a", "b")]
        for name, shape in zip(names, ((width, inner), (inner, width))):
            weights.append(numpy_helper.from_array((rng.standard_normal(shape) / 8).astype(np.float32), name))
        value = [f"v{block}_{i}" for i in range(NODES_OF_BLOCK)]
        made += [helper.make_node("ReduceMean", [x], [value[0]], axes=[-1]),
                 helper.make_node("Sub", [x, value[0]], [value[1]]),
                 helper.make_node("MatMul", [value[1], names[0]], [value[2]]),
                 helper.make_node("Sigmoid", [value[2]], [value[3]]),
                 helper.make_node("Mul", [value[2], value[3]], [value[4]]),
                 helper.make_node("MatMul", [value[4], names[1]], [value[5]]),
                 helper.make_node("Tanh", [value[5]], [value[6]]),
                 helper.make_node("Transpose", [value[6]], [value[7]], perm=[0, 1]),
                 helper.make_node("Add", [value[7], x], [value[8]]),
                 helper.make_node("Relu", [value[8]], [value[9]])]
        x = value[9]
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, width])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def processor_seconds(model):
    """Of all threads of this process while the model is compiled."""
    import treadle

    data = model.SerializeToString()
    before = resource.getrusage(resource.RUSAGE_SELF)
    treadle.compile(data)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def draw(path, rows):
    """Milliseconds per node over nodes, both axes logarithmic."""
    left, top, wide, high = 60, 20, 520, 260
    most = max(per for _, *pers in rows for per in pers)
    least = min(per for _, *pers in rows for per in pers)
    low, span = math.floor(math.log10(least)), max(1, math.ceil(math.log10(most)) - math.floor(math.log10(least)))
    first, last = math.log10(rows[0][0]), math.log10(rows[-1][0])

    def at(nodes, per):
        return (left + wide * (math.log10(nodes) - first) / (last - first),
                top + high * (1 - (math.log10(per) - low) / span))

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 330" font-family="sans-serif" font-size="12">',
             f'<rect x="{left}" y="{top}" width="{wide}" height="{high}" fill="none" stroke="#888"/>']
    for power in range(low, low + span + 1):
        y = top + high * (1 - (power - low) / span)
        parts.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{10 ** power:g}</text>')
    for nodes, *_ in rows:
        parts.append(f'<text x="{at(nodes, most)[0]:.0f}" y="{top + high + 16}" text-anchor="middle">{nodes}</text>')
    for color, name, column in (("#1f77b4", "equal blocks", 1), ("#d62728", "64 kinds of blocks", 2)):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(row[0], row[column]) for row in rows))
        parts += [f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>',
                  f'<text x="{left + 12}" y="{top + 4 + 16 * column}" fill="{color}">{name}</text>']
    parts.append(f'<text x="{left + wide / 2}" y="{top + high + 36}" text-anchor="middle">'
                 "nodes; milliseconds of processor time per node</text></svg>")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 300, 1000, 3000, 10000, 20000])
    parser.add_argument("--svg", help="file to draw")
    args = parser.parse_args()
    rows = []
    print("| nodes | equal blocks, ms per node | 64 kinds of blocks, ms per node |\n|---|---|---|")
    for nodes in args.sizes:
        per = []
        for distinct in (False, True):
            with tempfile.TemporaryDirectory() as cache:  # cold
                os.environ["TREADLE_CACHE_DIR"] = cache
                per.append(1000 * processor_seconds(network(nodes, distinct)) / nodes)
        rows.append((nodes, *per))
        print(f"| {nodes} | {per[0]:.2f} | {per[1]:.2f} |", flush=True)
    if args.svg:
        draw(args.svg, rows)


if __name__ == "__main__":
    main()
