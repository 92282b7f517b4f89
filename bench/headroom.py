# SPDX-License-Identifier: Apache-2.0
"""How much faster than its default plan a kernel can be: many plans of its space, each raced against the default, the
best confirmed in fresh processes.

    python bench/headroom.py model.onnx [--plans 64] [--tasks 6]
"""
import argparse
import json
import random
import statistics

import treadle
from treadle import tuning


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--plans", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--target", default="llvm -mcpu=native")
    options = parser.parse_args()
    ratios = []
    everything = [t for t in tuning.tasks(options.model, options.target)]
    everything.sort(key=lambda t: -json.loads(t)["uses"])
    for task in everything[:options.tasks]:
        search = tuning.Search(task, seed=1, batch=options.plans)
        data = json.loads(task)
        plans = search.propose()
        space = [str(p) for p in treadle.get_global_func("schedule.Plans")(data["kernel"], data["problem"], data["target"])]
        random.Random(0).shuffle(space)
        plans += [p for p in space if p not in plans and p != data["plan"]][:max(0, options.plans - len(plans))]
        results = [r for r in tuning.measure_batch(task, data["plan"], plans, jobs=2) if r["pairs"]]
        best = min(results, key=lambda r: r["hi"], default=None)
        line = f"{data['kernel']:18} x{data['uses']}: space of {search.state['space']:4}, {len(results):3} raced"
        ratio = 1.0
        if best is not None and best["ratio"] < 1:
            confirmed = tuning.confirm(task, best["plan"])
            if confirmed["accepted"]:
                ratio = confirmed["ratio"]
            line += f", best {best['ratio']:.3f}, confirmed {confirmed['ratio']:.3f} ({confirmed['lo']:.3f} to {confirmed['hi']:.3f})"
        ratios.append(ratio)
        print(line, flush=True)
    if ratios:
        print(f"median {statistics.median(ratios):.3f}, least {min(ratios):.3f} of {len(ratios)}")


if __name__ == "__main__":
    main()
