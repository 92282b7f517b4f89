# SPDX-License-Identifier: Apache-2.0
"""Modelled against measured time of kernels and their plans, and the constants of cost models that fit the measured
times best.

    python bench/fit_costs.py                         what layers there are, and the constants that each is for
    python bench/fit_costs.py products                modelled and measured cycles of plans for matrix products
    python bench/fit_costs.py products --fit          and the constants of src/targets/cpu/fitted_costs.inc for them
    python bench/fit_costs.py products --save p.json  keeps what was measured;  --load p.json fits it again

Times are of one thread, with weights that are in no cache, as `treadle tune` measures them, while nothing else runs.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import tuning

plans_of = treadle.get_global_func("schedule.Plans")
cycles_of = treadle.get_global_func("schedule.CyclesWith")
CLOCK = treadle.get_global_func("schedule.MeasureClock")()
TABLE = json.loads(str(treadle.get_global_func("schedule.FittedCosts")()))


# ---- Layers ----

def model(nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "layer", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
                              [numpy_helper.from_array(w, name) for name, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
                             ir_version=8)


def numbers(*shape):
    return (np.random.default_rng(1).standard_normal(shape) * 0.1).astype(np.float32)


def product(m, k, n, constant=True):
    inputs, weights = [("a", TensorProto.FLOAT, (m, k))], []
    if constant:
        weights = [("b", numbers(k, n))]
    else:
        inputs.append(("b", TensorProto.FLOAT, (k, n)))
    return model([helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [("y", TensorProto.FLOAT)], weights)


def integer_product(m, k, n):
    rng = np.random.default_rng(1)
    return model([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], [("a", TensorProto.UINT8, (m, k))],
                 [("y", TensorProto.INT32)], [("b", rng.integers(-127, 127, (k, n)).astype(np.int8))])


def convolution(ic, size, oc, kernel, stride=1, groups=1, before=False):
    """`before`: after a pointwise convolution, which gives its result in blocks."""
    pads = [kernel // 2] * 4
    nodes, x, weights = [], "x", [("w", numbers(oc, ic // groups, kernel, kernel))]
    if before:
        nodes, x = [helper.make_node("Conv", ["x", "v"], ["z"])], "z"
        weights.append(("v", numbers(ic, ic, 1, 1)))
    nodes.append(helper.make_node("Conv", [x, "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads,
                                  group=groups))
    return model(nodes, [("x", TensorProto.FLOAT, (1, ic, size, size))], [("y", TensorProto.FLOAT)], weights)


def integer_depthwise(channels, size, kernel):
    rng = np.random.default_rng(1)
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=channels)
    return model([node], [("x", TensorProto.UINT8, (1, channels, size, size))], [("y", TensorProto.INT32)],
                 [("w", rng.integers(-127, 127, (channels, 1, kernel, kernel)).astype(np.int8))])


def attention(heads, queries, keys, size):
    nodes = [helper.make_node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "t"], ["s"]),
             helper.make_node("Mul", ["s", "scale"], ["u"]), helper.make_node("Softmax", ["u"], ["p"], axis=-1),
             helper.make_node("MatMul", ["p", "v"], ["y"])]
    inputs = [(name, TensorProto.FLOAT, (1, heads, n, size)) for name, n in (("q", queries), ("k", keys), ("v", keys))]
    return model(nodes, inputs, [("y", TensorProto.FLOAT)], [("scale", np.float32(size ** -0.5))])


def block_dense(m, k, n, block=32):
    rng = np.random.default_rng(1)
    node = helper.make_node("MatMulNBits", ["a", "b", "s"], ["y"], domain="com.microsoft", K=k, N=n, bits=4,
                            block_size=block, accuracy_level=4)
    return model([node], [("a", TensorProto.FLOAT, (m, k))], [("y", TensorProto.FLOAT)],
                 [("b", rng.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8)),
                  ("s", np.abs(numbers(n * (k // block))))])


# Of each the kernels whose plans are measured, and layers that networks have.
LAYERS = {
    "products": (("matmul.packed",), [product(*s) for s in (
        (128, 768, 768), (128, 768, 3072), (128, 3072, 768), (1024, 1024, 1024), (197, 768, 768), (16, 1024, 1024),
        (4, 1024, 1024), (1, 1024, 1000), (3136, 64, 64))]),
    "packed": (("matmul.packed",), [product(*s, constant=False) for s in (
        (512, 512, 512), (197, 768, 768), (128, 1024, 1024), (64, 256, 4096))]),
    "bytes": (("matmul.packed",), [integer_product(*s) for s in ((128, 768, 768), (128, 768, 3072), (16, 1024, 1024))]),
    "convolutions": (("conv2d.direct",), [convolution(*s) for s in (
        (3, 224, 64, 7, 2), (64, 56, 64, 1), (256, 56, 512, 1, 2), (1024, 14, 256, 1), (512, 7, 2048, 1), (32, 28, 64, 5),
        (96, 28, 24, 1))]),
    "chunks": (("conv2d.direct",), [convolution(*s, before=True) for s in (
        (728, 19, 728, 1), (256, 75, 256, 1), (512, 14, 512, 1), (256, 28, 256, 5, 2))]),
    "select": (("conv2d.direct",), [convolution(*s, before=True) for s in (
        (24, 56, 144, 1), (20, 28, 120, 1), (40, 28, 240, 1), (58, 28, 58, 1), (40, 14, 80, 3))]),
    "depthwise": (("conv2d.depthwise",), [convolution(*s, before=True) for s in (
        (32, 112, 32, 3, 1, 32), (96, 112, 96, 3, 2, 96), (144, 56, 144, 3, 1, 144), (240, 28, 240, 5, 1, 240),
        (480, 14, 480, 3, 1, 480), (960, 7, 960, 5, 1, 960))]),
    "depthwise_bytes": (("conv2d.depthwise",), [integer_depthwise(*s) for s in ((32, 112, 3), (144, 56, 3), (480, 14, 5))]),
    "rows": (("conv2d.rows",), [convolution(*s) for s in (
        (3, 96, 4, 3), (16, 56, 1, 3), (64, 56, 2, 3), (32, 128, 3, 3), (64, 14, 5, 3), (9, 30, 9, 3, 1, 3),
        (60, 15, 30, 3, 1, 6), (30, 28, 30, 3, 1, 10), (5, 40, 5, 5, 1, 5), (32, 64, 2, 7, 2), (2, 64, 4, 3, 2))]),
    "winograd": (("conv2d.winograd",), [convolution(*s) for s in (
        (64, 56, 64, 3), (128, 28, 128, 3), (256, 14, 256, 3), (512, 7, 512, 3), (32, 112, 32, 3), (128, 56, 128, 3, 2))]),
    "attention": (("attention.packed",), [attention(*s) for s in (
        (12, 128, 128, 64), (12, 197, 197, 64), (8, 64, 512, 64), (4, 512, 512, 32))]),
    "block_dense": (("block_dense",), [block_dense(*s) for s in ((1, 2048, 2048), (8, 2048, 2048), (64, 1024, 2048))]),
}


# ---- Measured times ----

def spread(plans, count, cost):
    """Of many plans those whose cost is nearest to evenly spaced ranks, the cheapest first."""
    ranked = sorted(plans, key=cost)
    if len(ranked) <= count or count < 2:
        return ranked[:count]
    return [ranked[round(i * (len(ranked) - 1) / (count - 1))] for i in range(count)]


def modelled(row, costs="{}"):
    return cycles_of(row["kernel"], row["problem"], row["target"], row["plan"], costs)


def measure(kernels, models, target, count):
    """A dict for each plan: kernel, problem, target, plan, seconds."""
    rows, seen = [], set()
    with tempfile.TemporaryDirectory(prefix="treadle-fit-") as folder:
        path = pathlib.Path(folder) / "layer.onnx"
        for layer in models:
            onnx.save(layer, path)
            for task in tuning.tasks(path, target):
                data = json.loads(task)
                if data["kernel"] not in kernels or data["problem"] in seen:
                    continue
                seen.add(data["problem"])
                base = {key: data[key] for key in ("kernel", "problem", "target")}
                space = [str(p) for p in plans_of(data["kernel"], data["problem"], data["target"])]
                others = spread([p for p in space if p != data["plan"]], count - 1,
                                lambda p, base=base: modelled({**base, "plan": p}))
                results = tuning.measure_batch(task, data["plan"], others, threads=1, jobs=2)
                known = [r for r in results if r["pairs"]]
                seconds = min((r["us"] for r in known), default=0) * 1e-6
                if seconds:
                    rows.append({**base, "plan": data["plan"], "seconds": seconds, "default": True})
                rows += [{**base, "plan": r["plan"], "seconds": seconds * r["ratio"]} for r in known]
                print(f"measured {name_of(data)}: {len(known) + 1} of {len(space)} plans", file=sys.stderr)
    return [row for row in rows if modelled(row) > 0]


def name_of(row):
    """The kernel and the sizes that a problem has."""
    problem = json.loads(row["problem"])
    keys = ("m", "k", "n", "s", "d", "batch", "ic", "ih", "iw", "oc", "kh", "stride_h", "groups")
    sizes = [f"{key}={problem[key]}" for key in keys if problem.get(key, 1) != 1]
    return f"{row['kernel']} {' '.join(sizes)}"


def knobs(row):
    return " ".join(f"{key}={int(value)}" for key, value in json.loads(row["plan"]).items() if key != "type")


# ---- Models ----

def logarithms(rows, costs="{}"):
    """log(modelled / measured) of each row."""
    return [math.log(modelled(row, costs) / row["seconds"] / CLOCK) for row in rows]


def error(rows, costs="{}"):
    """Root of the mean square of the logarithms."""
    return math.sqrt(statistics.mean([x * x for x in logarithms(rows, costs)]))


def report(rows):
    lost = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        group = [row for row in rows if row["problem"] == problem]
        print(f"\n{name_of(group[0])}")
        least = min(row["seconds"] for row in group)
        for row in sorted(group, key=lambda r: r["seconds"]):
            cycles = modelled(row)
            print(f"  {row['seconds'] * CLOCK:12,.0f} measured {cycles:12,.0f} modelled {cycles / row['seconds'] / CLOCK:6.2f}"
                  f"  {knobs(row)}{'  (default)' if row.get('default') else ''}")
        lost.append(min(group, key=modelled)["seconds"] / least)
    print(f"\n{len(rows)} plans of {len(lost)} problems. Cycles are of {CLOCK / 1e9:.2f} GHz. Modelled over measured is"
          f" {math.exp(statistics.mean(logarithms(rows))):.2f} in the mean, and off by a factor of {math.exp(error(rows)):.2f}"
          " (root of the mean square).")
    print(f"The plan that it takes for the fastest is {statistics.geometric_mean(lost):.3f} times as slow as the fastest that"
          f" was measured (worst {max(lost):.2f}).")


def fit(rows, constants):
    """Coordinate descent over factors of each constant; prints what each becomes."""
    values = {row["name"]: row["value"] for row in constants}
    best = error(rows)
    before, step = best, 1.5
    while step > 1.04:
        improved = False
        for name in values:
            for factor in (step, 1 / step):
                trial = {**values, name: values[name] * factor}
                now = error(rows, json.dumps(trial))
                if now < best * (1 - 1e-4):
                    best, values, improved = now, trial, True
        if not improved:
            step = step ** 0.5
    print(f"\nOff by a factor of {math.exp(before):.2f} before, {math.exp(best):.2f} with:")
    for row in constants:
        weight = error(rows, json.dumps({**values, row["name"]: values[row["name"]] * 2})) - best
        note = "" if weight > 1e-3 else "  (these layers hardly depend on it)"
        print(f"  {row['name']:24} {row['value']:8.3g} -> {values[row['name']]:8.3g}  {row['meaning']}{note}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="?", choices=sorted(LAYERS))
    parser.add_argument("--fit", action="store_true", help="also fits the constants")
    parser.add_argument("--plans", type=int, default=8, help="of each problem (8)")
    parser.add_argument("--target", default="llvm -mcpu=native -num-cores=1")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="of the layers those with these numbers, from 0")
    parser.add_argument("--save", type=pathlib.Path, help="writes what was measured")
    parser.add_argument("--load", type=pathlib.Path, nargs="+", help="takes what was measured from files")
    options = parser.parse_args()
    if options.layers is None:
        for name in sorted({row["layers"] for row in TABLE}):
            own = [row["name"] for row in TABLE if row["layers"] == name]
            print(f"{name:14} {', '.join(own)}{'' if name in LAYERS else '  (not measured here)'}")
        return
    kernels, models = LAYERS[options.layers]
    models = [models[i] for i in options.only] if options.only else models
    if options.load:
        rows = [row for path in options.load for row in json.loads(path.read_text())]
    else:
        rows = measure(kernels, models, options.target, options.plans)
    for row in rows if options.load else ():
        row["target"] = options.target
    if options.save:
        options.save.write_text(json.dumps(rows, indent=1))
    if not rows:
        sys.exit(f"none of the layers has a choice of plans of {', '.join(kernels)}")
    report(rows)
    if options.fit:
        fit(rows, [row for row in TABLE if row["layers"] == options.layers])


if __name__ == "__main__":
    main()
