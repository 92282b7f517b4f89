#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close a model that is offloaded to oneDNN comes to oneDNN's own primitives.

Prints the time of a run and the sum of the times that oneDNN reports for the primitives of a run (its verbose mode),
with and without the reorders between layouts: external_dnnl.py model.onnx [--shape x:1,3,224,224] [--repeat 20]
"""
import argparse
import os
import re
import subprocess
import sys
import time


def child(arguments):
    import numpy as np

    import treadle

    shapes = {name: tuple(int(dim) for dim in dims.split(",")) for name, dims in
              (text.split(":") for text in arguments.shape)}
    model = treadle.compile(arguments.model, shapes=shapes, external="dnnl", threads=arguments.threads)
    context = model.create_context()
    inputs = {info.name: np.random.rand(*info.shape).astype(str(info.dtype)) for info in model.inputs}
    context(**inputs)
    context(**inputs)
    print("measured", flush=True)
    times = []
    for _ in range(arguments.repeat):
        start = time.perf_counter()
        context(**inputs)
        times.append(time.perf_counter() - start)
        print(f"run,{times[-1]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--child", action="store_true")
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments)
    command = [sys.executable, __file__, *sys.argv[1:], "--child"]
    quiet = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    run = min(float(line.split(",")[1]) for line in quiet.splitlines() if line.startswith("run,"))
    text = subprocess.run(command, capture_output=True, text=True, check=True,
                          env=dict(os.environ, ONEDNN_VERBOSE="1", DNNL_VERBOSE="1")).stdout
    best = {}
    for part in text[text.index("measured"):].split("run,"):
        rows = [line.split(",") for line in part.splitlines() if re.match(r"(onednn|dnnl)_verbose,exec,", line)]
        for k, row in enumerate(rows):
            key = (k, row[3])
            best[key] = min(best.get(key, 1e9), float(row[-1]))
    total = sum(best.values())
    reorders = sum(value for (_, kind), value in best.items() if kind == "reorder")
    print(f"run {run * 1e3:.3f} ms; primitives {total - reorders:.3f} ms and reorders {reorders:.3f} ms; "
          f"ratio {run * 1e3 / (total - reorders):.3f}")


if __name__ == "__main__":
    main()
