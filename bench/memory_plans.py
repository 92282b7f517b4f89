# SPDX-License-Identifier: Apache-2.0
"""Compares the default memory planner with Relay's, model by model:

    python bench/memory_plans.py model.onnx ... [--shape input=1,3,224,224] [--json plans.json]

Prints the bytes of activations that each plan needs, the least that any plan needs without writing in place, and the
saving. No kernel is compiled."""
import argparse
import json
import pathlib
import re
import sys

import onnx

import treadle
from treadle import relay


def peak(codegen, main, planner):
    """(bytes of activations, least bytes without writing in place) under a planner."""
    with treadle.transform.PassContext(opt_level=3, config={"relay.memory_planner": planner}):
        codegen["codegen"](main)
    report = codegen["get_memory_report"]()
    return tuple(int(re.search(rf"{text}: (\d+) bytes", report).group(1))
                 for text in (r"activations \(peak\)", "alive at one step without writing in place"))


def compare(path, shapes, target="llvm -mcpu=native"):
    """A row of the table, or the reason why there is none."""
    model = onnx.load(path)
    names = {value.name for value in model.graph.input}
    try:
        mod, params = relay.frontend.from_onnx(model, {name: shape for name, shape in shapes.items() if name in names})
        with treadle.transform.PassContext(opt_level=3):
            optimized, _ = relay.optimize(mod, target, params)
        codegen = treadle.get_global_func("relay.build_module._GraphExecutorCodegen")()
        codegen["init"](None, target)
        original, bound = peak(codegen, optimized["main"], "relay")
        arena, _ = peak(codegen, optimized["main"], "arena")
    except treadle.Error as error:
        return {"model": pathlib.Path(path).stem, "error": str(error).splitlines()[0]}
    return {"model": pathlib.Path(path).stem, "relay": original, "arena": arena, "bound": bound,
            "saving": 1 - arena / original if original else 0.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--shape", action="append", default=[], help="input=1,3,224,224")
    parser.add_argument("--json", help="write the rows to a file")
    options = parser.parse_args()
    shapes = {}
    for text in options.shape:
        name, _, dims = text.rpartition("=")
        shapes[name] = [int(dim) for dim in dims.split(",")]
    rows = []
    print(f"{'model':32} {'relay':>12} {'arena':>12} {'bound':>12} {'saving':>8}")
    for path in options.models:
        row = compare(path, shapes)
        rows.append(row)
        if "error" in row:
            print(f"{row['model']:32} {row['error']}")
            continue
        print(f"{row['model']:32} {row['relay']:12} {row['arena']:12} {row['bound']:12} {row['saving']:8.1%}", flush=True)
    savings = [row["saving"] for row in rows if "saving" in row]
    if savings:
        print(f"{'mean saving':32} {sum(savings) / len(savings):48.1%}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return 0 if savings else 1


if __name__ == "__main__":
    sys.exit(main())
