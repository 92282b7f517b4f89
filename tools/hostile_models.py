#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile ONNX models (tests/fuzz/hostile), each in a process of its own, limited in time and memory.

    tools/hostile_models.py                     all of them; what isn't as it should be, ends with 1 then
    tools/hostile_models.py --match gather      those whose name contains this; --verbose: also what came of the others
    tools/hostile_models.py --write FOLDER      as files, with expected.json, for other programs
"""
import argparse
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
sys.path.append(str(ROOT / "build" / "python"))  # PYTHONPATH comes first


def write(cases, folder):
    import numpy as np

    for case in cases:
        place = folder / case.name / "model"
        place.mkdir(parents=True)
        (place / "m.onnx").write_bytes(case.data)
        if case.files is not None:
            case.files(str(place))
        arrays = {name: value for name, value in case.feeds.items() if isinstance(value, (np.ndarray, np.generic))}
        np.savez(place.parent / "inputs.npz", **arrays)
    (folder / "expected.json").write_text(json.dumps({case.name: case.want for case in cases}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--opt-level", type=int, default=3)
    parser.add_argument("--target", default="llvm -mcpu=native")
    parser.add_argument("--command", help="the program `treadle`, which runs them instead of the library")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--write", metavar="FOLDER", type=pathlib.Path)
    options = parser.parse_args()
    import hostile

    cases = [case for case in hostile.all_cases() if options.match in case.name]
    if options.write:
        return write(cases, options.write)
    import treadle  # noqa: F401  once, not in each child

    start = time.monotonic()

    def report(case, fault, usage):
        seconds = usage.ru_utime + usage.ru_stime
        if fault or options.verbose:
            print(f"{case.name} ({case.want}, {seconds:.2f} s, {usage.ru_maxrss >> 10} MiB): {fault or 'as it should be'}",
                  flush=True)

    faults = hostile.run_all(cases, report, seconds=options.seconds, opt_level=options.opt_level, target=options.target,
                             command=options.command)
    print(f"{len(cases) - len(faults)} of {len(cases)} as they should be, {time.monotonic() - start:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
