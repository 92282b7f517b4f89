#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged models compiled and run, each in a process of its own: a result or an error, in time.

    tools/mutate_models.py --minutes 10 --seed 1     those that crash, hang or end in an InternalError go to build/mutants

Random graphs (tests/fuzz/differential) are damaged as tests/fuzz/mutants.py says. Limits: 2 GiB, 40 s in all, 8 s for the
run. Ends with 1 where one crashed, hung or showed a bug."""
import argparse
import collections
import os
import pathlib
import random
import resource
import signal
import sys
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
sys.path.append(str(ROOT / "build" / "python"))  # PYTHONPATH comes first

OUTCOMES = {0: "ran", 1: "refused", 2: "failed while running", 3: "ran too long", 4: "not tried on numbers", 70: "internal error",
            71: "foreign exception"}
BUGS = (70, 71)


def attempt(data, chooser):
    """What to exit with."""
    import treadle

    try:
        model = treadle.compile(data, threads=1)
    except treadle.InternalError:
        return 70
    except treadle.Error:
        return 1
    inputs = {}
    numbers = np.random.default_rng(chooser.randrange(1 << 30))
    for info in model.inputs:
        shape = [d if isinstance(d, int) and d >= 0 else chooser.choice([0, 1, 2, 3, 5]) for d in info.shape]
        try:
            dtype = np.dtype(str(info.dtype))
        except TypeError:
            return 4
        if info.value_type or np.prod(shape, dtype=object) > 10**7:
            return 4
        values = numbers.standard_normal(shape) if dtype.kind == "f" else numbers.integers(-9, 9, shape)
        inputs[info.name] = np.asarray(values).astype(dtype)
    try:
        model.run(None, inputs, timeout=8)
    except treadle.error.RunTimeout:
        return 3
    except treadle.InternalError:
        return 70
    except treadle.Error:
        return 2
    return 0


def child(data, chooser):
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(40)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        os._exit(attempt(data, chooser))
    except MemoryError:
        os._exit(4)
    except BaseException as error:  # pylint: disable=broad-except
        print(type(error).__name__, error, flush=True)
        os._exit(71)


def main():
    import treadle  # noqa: F401 - once, for all children
    import mutants
    from differential import graphs

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=str(ROOT / "build" / "mutants"), help="folder for what is found")
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    counts, base, seed, bad = collections.Counter(), None, options.seed, 0
    end = time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        seed += 1
        if base is None or seed % 12 == 0:
            try:
                base = graphs.generate(seed).model
            except (graphs.Refused, ValueError):
                continue
        chooser = random.Random(seed)
        whole = chooser.random() < 0.85
        data = mutants.of_model(chooser, base) if whole else mutants.of_bytes(chooser, base.SerializeToString())
        if data is None:
            continue
        pid = os.fork()
        if pid == 0:
            child(data, chooser)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        outcome = OUTCOMES.get(code, "hung" if code == -signal.SIGALRM else f"signal {-code}")
        counts[outcome] += 1
        if code < 0 or code in BUGS:
            bad += 1
            (folder / f"{seed}.onnx").write_bytes(data)
            print(f"{seed}: {outcome}", flush=True)
    print(", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
