# SPDX-License-Identifier: Apache-2.0
"""Runs cases: in this process, or each in a child with limits of time and memory."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import warnings

import numpy as np

SECONDS = 10  # of processor time, which a loaded machine doesn't shorten
HANGS = (signal.SIGALRM, signal.SIGXCPU)
BYTES = 2 << 30  # of address space beyond what the process has


def reference(case):
    """What ONNX's reference evaluator answers; None where it can't."""
    import onnx
    import onnx.inliner
    from onnx.reference import ReferenceEvaluator

    if case.files is not None or case.size > 1 << 20:
        return None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            loaded = onnx.load_model_from_string(case.data)
            return ReferenceEvaluator(onnx.inliner.inline_local_functions(loaded)).run(None, case.feeds)
        except Exception:  # noqa: BLE001 - it refuses in many ways
            return None


def wrong(answers, expected):
    """Why `answers` aren't what is expected; None where they are."""
    for index, (ours, theirs) in enumerate(zip(answers, expected)):
        theirs = np.asarray(theirs)
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"output {index}: {ours.dtype}{list(ours.shape)}, expected {theirs.dtype}{list(theirs.shape)}"
        if theirs.dtype.kind in "OSU":
            if [str(a) for a in ours.ravel()] != [str(a) for a in theirs.ravel()]:
                return f"output {index}: {ours.ravel()[:8]}, expected {theirs.ravel()[:8]}"
        elif not np.allclose(ours.astype("float64"), theirs.astype("float64"), 1e-4, 1e-5, equal_nan=True):
            return f"output {index}: {ours.ravel()[:8]}, expected {theirs.ravel()[:8]}"
    return None


def answer(case, opt_level=3, target=None):
    """("ok", outputs) or ("error", text)."""
    import treadle

    options = {"opt_level": opt_level, **({"target": target} if target else {})}
    with tempfile.TemporaryDirectory() as folder:
        source = case.data
        if case.files is not None:
            source = os.path.join(folder, "model", "m.onnx")
            os.mkdir(os.path.dirname(source))
            case.files(os.path.dirname(source))
            with open(source, "wb") as file:
                file.write(case.data)
        try:
            compiled = treadle.compile(source, **options)
            return "ok", [np.asarray(value) for value in compiled.run(None, case.feeds)]
        except (treadle.InternalError, MemoryError) as error:
            return "internal", f"{type(error).__name__}: {error}"
        except treadle.Error as error:
            return "error", str(error)


def by_command(case, opt_level=3, target=None, command="treadle"):
    """As `answer`, of `treadle run`; "skipped" where files can't hold the operands or the results."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "model")
        os.mkdir(place)
        if case.files is not None:
            case.files(place)
        model, results = os.path.join(place, "m.onnx"), os.path.join(folder, "out.npz")
        with open(model, "wb") as file:
            file.write(case.data)
        arguments = [command, "run", model, "-o", results, "--opt-level", str(opt_level), "--quiet"]
        arguments += ["--target", target] if target else []
        for number, (name, value) in enumerate(case.feeds.items()):
            if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufc" or "=" in name or not name:
                return "skipped", None
            path = os.path.join(folder, f"{number}.npy")
            np.save(path, value)
            arguments += ["-i", f"{name}={path}"]
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode < 0:
            return "internal", f"crash: signal {-done.returncode}"
        if done.returncode not in (0, 2, 3, 4, 5):
            return "internal", f"exit {done.returncode}: {done.stderr}"
        if done.returncode:
            unread = "which files of tensors can't hold" in done.stderr
            return ("skipped", None) if unread else ("error", done.stderr.strip())
        with np.load(results) as arrays:
            return "ok", [arrays[name] for name in arrays.files]


def run_case(case, opt_level=3, target=None, command=None, **_):
    """None where all is well, else what is wrong. command: the program to run, instead of this process."""
    kind, result = by_command(case, opt_level, target, command) if command else answer(case, opt_level, target)
    if kind == "skipped":
        return None
    if kind == "internal":
        return result
    if kind == "error":
        if case.want == "ok":
            return f"refused: {result}"
        return None if len(result) > 10 else f"no reason given: {result!r}"
    if case.want == "error":
        return "accepted: " + ", ".join(f"{a.dtype}{list(a.shape)} {a.ravel()[:6]}" for a in result)
    expected = case.expected if case.expected is not None else reference(case)
    if expected is None:
        return "accepted, and nobody knows the answer" if case.want == "ok" else None
    text = wrong(result, expected)
    return text and f"wrong: {text}"


def in_child(case, seconds=SECONDS, extra=BYTES, **options):
    """run_case in a child; crashes, hangs and memory beyond the limits are faults."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            with open("/proc/self/statm", encoding="ascii") as file:
                used = int(file.read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            signal.alarm(seconds * 10)  # whatever sleeps
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            text = run_case(case, **options)
            os.write(write, json.dumps(text)[:4000].encode())
            status = 0
        except BaseException as error:  # noqa: BLE001 - nothing else would tell
            os.write(write, json.dumps(f"{type(error).__name__}: {error}")[:4000].encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        data = file.read()
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return (f"hang: more than {seconds} s" if number in HANGS else f"crash: signal {number}"), usage
    try:
        return json.loads(data), usage
    except ValueError:
        return data.decode(errors="replace") or "died without a word", usage


def run_all(cases, report=None, **options):
    """{name: fault}, of those cases that have one."""
    faults = {}
    for case in cases:
        fault, usage = in_child(case, **options)
        if fault:
            faults[case.name] = fault
        if report:
            report(case, fault, usage)
    return faults
