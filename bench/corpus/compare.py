#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder of models in Treadle and ONNX Runtime: does each compile, do all sizes agree, how long does importing take?

    compare.py DIR [--out results.json] [--table corpus.md] [--again] [NAME..]

Takes each NAME.onnx with its NAME.INDEX.npz (export.py writes both). Models are compiled once, without any shapes, and
run at all sizes. Each model is compared in a process of its own."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np


def _difference(expected, actual):
    """Largest difference over the largest expected element, or what differs otherwise."""
    if isinstance(expected, list) and expected and isinstance(expected[0], dict):  # ZipMap's
        if not isinstance(actual, list) or [list(row) for row in expected] != [list(row) for row in actual]:
            return "other keys"
        expected, actual = (np.array([list(row.values()) for row in rows], "f4") for rows in (expected, actual))
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if expected.size == 0:
        return 0.0
    if not np.issubdtype(expected.dtype, np.inexact):
        return float(np.mean(expected != actual))
    if (np.isnan(expected) != np.isnan(actual)).any():
        return "NaN at other places"
    same = (expected == actual) | np.isnan(expected)
    return float(np.abs(np.where(same, 0, expected.astype("f8") - actual)).max() / (np.nanmax(np.abs(expected)) + 1e-9))


def _best(action, times=3):
    """The least time of a few, in seconds, and the last result."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        result = action()
        best = min(best, time.process_time() - start)
    return best, result


def work(path):
    """What one model gives, as a line of JSON after each step, so that a crash leaves what came before."""
    import onnxruntime
    import treadle

    row = {}

    def note(**more):
        row.update(more)
        print(json.dumps(row), flush=True)

    feeds = [{name: value.astype(object) if value.dtype.kind == "U" else value for name, value in np.load(file).items()}
             for file in sorted(path.parent.glob(f"{path.stem}.[0-9].npz"))]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    expected = []
    try:
        seconds, session = _best(lambda: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
        note(session=seconds)
        names = [value.name for value in session.get_inputs()]
        for feed in feeds:
            expected.append(session.run(None, {name: feed[name] for name in names}))
    except Exception as error:  # what the peer refuses isn't our failure
        note(peer=str(error).strip().splitlines()[0][:300])
        feeds = feeds[:len(expected)]
    try:
        import_seconds, _ = _best(lambda: treadle.relay.frontend.from_onnx(str(path)))
        note(imported=import_seconds)
        start = time.process_time()
        model = treadle.compile(path, threads=1)
        note(compiled=time.process_time() - start)
        worst = 0.0
        for index, (feed, results) in enumerate(zip(feeds, expected)):
            inputs = {info.name for info in model.inputs}
            actual = model.run(None, {name: value for name, value in feed.items() if name in inputs})
            for number, (one, other) in enumerate(zip(results, actual)):
                difference = _difference(one, other)
                if isinstance(difference, str) or difference > 1:
                    note(differs=f"inputs {index}, output {number}: {difference}")
                    return
                worst = max(worst, difference)
        note(error=worst, sizes=len(expected))
    except Exception as error:
        note(refused=f"{type(error).__name__}: {error}")


def _compare(path, seconds):
    command = [sys.executable, __file__, "--work", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        output, ended = done.stdout, f"ended with {done.returncode}: {done.stderr[-300:]}" if done.returncode else None
    except subprocess.TimeoutExpired as late:
        output, ended = (late.stdout or b"").decode(), f"took more than {seconds:.0f} s"
    lines = output.strip().splitlines()
    row = json.loads(lines[-1]) if lines else {}
    if ended:
        row["refused"] = ended
    return row


def _verdict(row):
    if "refused" in row:
        return "refused: " + row["refused"].splitlines()[0]
    if "differs" in row:
        return row["differs"]
    if row.get("sizes", 0) == 0:
        return "compiles; " + row.get("peer", "nothing to compare with")
    return f"off by {row['error']:.1e}" if row["error"] > 1e-3 else "agrees"


def table(rows):
    agree = sum(_verdict(row) == "agrees" for row in rows.values())
    slower = sum(row.get("imported", 0) > row.get("session", float("inf")) for row in rows.values())
    lines = [f"{len(rows)} models, compiled once without shapes; {agree} agree with ONNX Runtime (largest difference at most 0.1 % of "
             f"the largest element). Import takes longer than ONNX Runtime's session creation for {slower}.", "",
             "| model | sizes | outcome | import, ms | session, ms | compile, s |", "|---|---|---|---|---|---|"]
    for name, row in sorted(rows.items()):
        number = lambda key, scale, digits: f"{row[key] * scale:.{digits}f}" if key in row else "–"
        lines.append(f"| {name} | {row.get('sizes', 0)} | {re.sub('[|]', '/', _verdict(row))} | {number('imported', 1e3, 0)} | "
                     f"{number('session', 1e3, 0)} | {number('compiled', 1, 1)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="results, kept from earlier calls; DIR/results.json")
    parser.add_argument("--table", type=pathlib.Path, help="write a table in Markdown")
    parser.add_argument("--seconds", type=float, default=300, help="for one model")
    parser.add_argument("--again", action="store_true", help="those that have results, too")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    if options.work:
        return work(options.dir)
    out = options.out or options.dir / "results.json"
    rows = json.loads(out.read_text()) if out.exists() else {}
    for path in sorted(options.dir.glob("*.onnx")):
        name = path.stem
        if options.names and not any(part in name for part in options.names) or name in rows and not options.again:
            continue
        rows[name] = _compare(path, options.seconds)
        out.write_text(json.dumps(rows, indent=1))
        print(f"{name:50s} {_verdict(rows[name])[:300]} compile {rows[name].get('compiled', 0):.1f}s", flush=True)
    if options.table:
        options.table.write_text(table(rows))


if __name__ == "__main__":
    main()
