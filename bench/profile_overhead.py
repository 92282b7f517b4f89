# SPDX-License-Identifier: Apache-2.0
"""What measuring each call adds to a run, model by model:

    python bench/profile_overhead.py model.so ... [--threads 1] [--repeat 50]

Models (compiled, or ONNX) run with and without measuring calls, in turns. A measured run lasts to the end of its last
call, what is noted between calls included. The share is that of the medians; below 2 % is the goal."""
import argparse
import pathlib
import statistics
import sys
import time

import numpy as np

import treadle


def overhead(path, threads, repeat):
    """(seconds of a run, seconds of a measured run, calls)."""
    model = treadle.load(path) if path.endswith(".so") else treadle.compile(path)
    rng = np.random.default_rng(0)
    inputs = {info.name: rng.random(info.shape).astype(str(info.dtype)) for info in model.inputs}
    context = model.create_context(threads=threads)
    plain, measured, calls = [], [], 0
    for _ in range(5):
        context.run(inputs)
    for _ in range(repeat):
        start = time.perf_counter()
        context.run(inputs)
        plain.append(time.perf_counter() - start)
        times = context.profile(**inputs)
        measured.append(times[-1].start + times[-1].seconds)
        calls = len(times)
    return statistics.median(plain), statistics.median(measured), calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=50)
    args = parser.parse_args()
    print(f"{'ms':>9}  {'measured':>9}  {'share':>7}  {'calls':>5}  model")
    worst = 0.0
    for model in args.models:
        plain, measured, calls = overhead(model, args.threads, args.repeat)
        worst = max(worst, measured / plain - 1)
        print(f"{plain * 1e3:9.3f}  {measured * 1e3:9.3f}  {measured / plain - 1:+7.1%}  {calls:5}  {pathlib.Path(model).name}")
    return 0 if worst < 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
