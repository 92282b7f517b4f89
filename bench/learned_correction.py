# SPDX-License-Identifier: Apache-2.0
"""Whether boosted trees that correct the kernels' cost models would rank plans better: for each file of records (one of
a model each), trees are trained on the others, on the ratio of measured to modelled time, and rank its plans.

    pip install lightgbm==4.7.0 scipy==1.17.1
    python bench/learned_correction.py a.jsonl b.jsonl c.jsonl [--target "llvm -mcpu=native"]
"""
import argparse
import collections
import json
import math

import lightgbm
import numpy as np
from scipy.stats import spearmanr

import treadle
from treadle import tuning

plans_of = treadle.get_global_func("schedule.Plans")
cycles_of = treadle.get_global_func("schedule.CyclesWith")
FIRST = (1, 4, 8, 16)
LEAST_PLANS, LEAST_ROWS = 6, 80


def rows_of(path, target):
    """A dict for each plan that was raced: kernel, problem, features, logarithms of modelled and measured ratios to the
    default plan."""
    rows, default = [], {}
    for record in tuning.read_records(path)["records"]:
        kernel, problem = record["kernel"], record["problem"]
        if record["why_not"] or not record["pairs"] or not isinstance(json.loads(record["plan"]), dict):
            continue  # (a line without a plan states an algorithm)
        if (kernel, problem) not in default:
            costs = [cycles_of(kernel, problem, target, str(plan), "{}") for plan in plans_of(kernel, problem, target)]
            default[kernel, problem] = min((c for c in costs if c > 0), default=0)
        base, cycles = default[kernel, problem], cycles_of(kernel, problem, target, record["plan"], "{}")
        if base <= 0 or cycles <= 0:
            continue
        features = {"modelled": math.log(cycles / base), "cycles": math.log(base)}
        for part in ("problem", "plan"):
            features.update({f"{part}.{key}": math.log2(value) if value > 0 else -1
                             for key, value in json.loads(record[part]).items() if isinstance(value, (bool, int))})
        rows.append({"kernel": kernel, "problem": problem, "features": features, "modelled": features["modelled"],
                     "measured": math.log(record["ratio"])})
    return rows


def corrections(train, test):
    """What is to be added to the modelled logarithms of `test`."""
    names = sorted({name for row in train + test for name in row["features"]})

    def table(rows):
        return np.array([[row["features"].get(name, np.nan) for name in names] for row in rows])
    data = lightgbm.Dataset(table(train), np.array([row["measured"] - row["modelled"] for row in train]))
    options = {"objective": "huber", "learning_rate": 0.05, "num_leaves": 15, "min_data_in_leaf": 10, "lambda_l2": 1.0,
               "feature_fraction": 0.8, "deterministic": True, "seed": 0, "num_threads": 1, "verbose": -1}
    return lightgbm.train(options, data, 150).predict(table(test))


def scores(modelled, measured):
    """Rank correlation, and how much slower than the best plan the best of the first 1, 4, .. is."""
    order = np.argsort(modelled, kind="stable")
    correlation = spearmanr(modelled, measured)[0] if np.std(modelled) > 0 else 0.0
    return [correlation, *(math.expm1(measured[order[:n]].min() - measured.min()) for n in FIRST)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", nargs="+")
    parser.add_argument("--target", default="llvm -mcpu=native")
    options = parser.parse_args()
    files = {path: rows_of(path, options.target) for path in options.records}
    plain, learned = [], []
    for path, rows in files.items():
        for kernel in sorted({row["kernel"] for row in rows}):
            test = [row for row in rows if row["kernel"] == kernel]
            problems = {row["problem"] for row in test}
            train = [row for other, found in files.items() if other != path for row in found
                     if row["kernel"] == kernel and row["problem"] not in problems]
            if len(train) < LEAST_ROWS:
                continue
            groups = collections.defaultdict(list)
            for row, correction in zip(test, corrections(train, test)):
                groups[row["problem"]].append((row["modelled"], row["modelled"] + correction, row["measured"]))
            for group in groups.values():
                modelled, corrected, measured = map(np.array, zip(*group))
                if len(group) >= LEAST_PLANS and np.std(measured) > 0:
                    plain.append(scores(modelled, measured))
                    learned.append(scores(corrected, measured))
    print(f"{sum(map(len, files.values()))} plans of {len(files)} files; {len(plain)} problems that others' records can rank")
    for name, found in (("modelled", plain), ("corrected", learned)):
        if found:
            correlation, *slower = np.mean(found, axis=0)
            print(f"{name:10} rank correlation {correlation:.3f}, " + ", ".join(
                f"best of the first {n} {100 * value:.1f} % slower" for n, value in zip(FIRST, slower)))


if __name__ == "__main__":
    main()
