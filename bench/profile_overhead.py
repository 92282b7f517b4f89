# SPDX-License-Identifier: Apache-2.0
"""What measuring each call adds to a run, model by model:

    python bench/profile_overhead.py model.so ... [--threads 1] [--repeat 50]

Models (compiled, or ONNX) run with and without measuring calls, in turns, in one executor and both timed within it: no
time of Python's is in either. A measured run lasts to the end of its last call, what is noted between calls included.
The share is that of the medians; below 2 % is the goal."""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np

import treadle
from treadle.contrib.debugger import debug_executor


def executor_of(path):
    """The graph executor of a compiled model, with inputs of random numbers."""
    library = treadle.runtime.load_module(path)
    made = library["debug_create"]("default", treadle.cpu())
    executor = debug_executor.GraphModuleDebug(made, [treadle.cpu()], library["get_graph_json"](), None)
    rng = np.random.default_rng(0)
    for info in treadle.load(path).inputs:
        executor.set_input(info.name, rng.random(info.shape).astype(str(info.dtype)))
    return executor


def overhead(path, repeat):
    """(seconds of a run, seconds of a measured run, calls)."""
    executor = executor_of(path)
    run = executor.module.time_evaluator("run", treadle.cpu(), number=1, repeat=1)
    trace = executor.module["profile_trace"]
    plain, measured, calls = [], [], 0

    def measure():
        nonlocal calls
        events = [event for event in json.loads(trace())["traceEvents"] if event["ph"] == "X"]
        calls = len(events)
        measured.append(max(event["ts"] + event["dur"] for event in events) * 1e-6)

    for _ in range(repeat):
        for step in (lambda: plain.append(run().results[0]), measure)[::1 if len(plain) % 2 else -1]:
            executor.run()  # what stood in the caches before is the same for both
            step()
    return statistics.median(plain), statistics.median(measured), calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=50)
    args = parser.parse_args()
    treadle.get_global_func("runtime.config_threadpool")(0, args.threads)
    print(f"{'ms':>9}  {'measured':>9}  {'share':>7}  {'calls':>5}  model")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            path = model
            if not model.endswith(".so"):
                path = str(pathlib.Path(folder) / "model.so")
                treadle.compile(model).save(path)
            plain, measured, calls = overhead(path, args.repeat)
            worst = max(worst, measured / plain - 1)
            print(f"{plain * 1e3:9.3f}  {measured * 1e3:9.3f}  {measured / plain - 1:+7.1%}  {calls:5}  {pathlib.Path(model).name}")
    return 0 if worst < 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
