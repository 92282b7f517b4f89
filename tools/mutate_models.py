#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged models and artefacts loaded and run, each in a process of its own: a result or an error, in time.

    tools/mutate_models.py --minutes 10 --seed 1         those that crash, hang or end in an InternalError go to build/mutants
    tools/mutate_models.py --count 2000 a.onnx b.onnx    pieces of these models instead of random graphs
    tools/mutate_models.py --count 2000 --artefacts      compiled models, parameters, graphs, bytecode
    tools/mutate_models.py --count 2000 --calls          calls of operators in Relay text, which tests/fuzz/calls.py damages
    tools/mutate_models.py --replay build/mutants/7.onnx one file again, with what it says

Models (random graphs of tests/fuzz/differential, pieces of given ones) are damaged as tests/fuzz/mutants.py says. They are
made in a worker, since ONNX Runtime takes part in that. Limits: 2 GiB, 40 s of processor time in all, 8 s for the run. Ends
with 1 where one crashed, hung or showed a bug."""
import argparse
import collections
import os
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
sys.path.append(str(ROOT / "build" / "python"))  # PYTHONPATH comes first
import workers  # noqa: E402

OUTCOMES = {0: "ran", 1: "refused", 2: "failed while running", 3: "ran too long", 4: "not tried on numbers", 5: "not made",
            70: "internal error", 71: "foreign exception"}
BUGS = (70, 71)
SECONDS = 40
MUTANTS_OF_EACH = 12
TARGETS = ["llvm -mcpu=native", "llvm -mcpu=native", "llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v3", "llvm -mcpu=sapphirerapids"]
WORDS = ["", "a", "b,c", "\u00fcber", "1.5", "x" * 50]


def run_model(model, chooser):
    """What to exit with after a run on random numbers."""
    import treadle

    inputs = {}
    numbers = np.random.default_rng(chooser.randrange(1 << 30))
    for info in model.inputs:
        shape = [d if isinstance(d, int) and d >= 0 else chooser.choice([0, 1, 2, 3, 5]) for d in info.shape]
        if info.value_type == "tensor(string)":
            shape = chooser.choice([(), (1,), (3,), (2, 2), (0,), (1, 2, 2)])
            inputs[info.name] = np.array([chooser.choice(WORDS) for _ in range(int(np.prod(shape)))], object).reshape(shape)
            continue
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
    return 0


def load(kind, data, folder):
    """What runs what was loaded: a function of a random.Random that gives an exit status, or None."""
    import treadle
    from treadle.contrib import graph_executor

    path = pathlib.Path(tempfile.mkdtemp(dir=folder)) / {"bytecode": "f.stackvm", "objects": "f.tar"}.get(kind, "f.so")
    path.write_bytes(data)
    if kind in ("library", "program"):
        model = treadle.load(path, threads=1)
        return lambda chooser: run_model(model, chooser)
    if kind == "params":
        treadle.relay.load_param_dict(data)
        return None
    if kind == "graph":
        library = treadle.runtime.load_module(folder / "graph.so")
        module = graph_executor.create(data.decode(errors="replace"), library, treadle.cpu())
        return lambda chooser: module.run() or 0
    if kind == "bytecode":
        module = treadle.runtime.load_module(path)
        tensors = [treadle.nd.array(np.ones(shape, "float32")) for shape in ((4, 5), (5, 4))]
        return lambda chooser: treadle.limited(module["f"], *tensors, timeout=8) or 0
    return None  # objects are native code: their damage is the linker's, or nobody's


def build_text(data, folder):
    """What runs a program in Relay text, which alone decides on the target and on what it is run with."""
    import treadle

    chooser = random.Random(data)
    path = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "model.so"
    with treadle.transform.PassContext(opt_level=chooser.choice([0, 1, 2, 3, 3, 3, 4])):
        built = treadle.relay.build(treadle.parser.parse(data.decode()), target=chooser.choice(TARGETS))
    built.export_library(path)
    model = treadle.load(path, threads=1)
    return lambda _: run_model(model, chooser)


def attempt(kind, data, chooser, folder):
    """What to exit with."""
    import treadle

    def compiled():
        if kind == "relay":
            return build_text(data, folder)
        if kind != "onnx":
            return load(kind, data, folder)
        model = treadle.compile(data, threads=1)
        return lambda chooser: run_model(model, chooser)

    status = 1
    try:
        run = compiled()
        status = 2
        return run(chooser) if run else 4
    except treadle.InternalError as error:
        print(error, flush=True)
        return 70
    except (treadle.Error, AttributeError if kind in ("graph", "bytecode") else treadle.Error):
        return status


def child(kind, data, chooser, folder):
    """Ends this process with the status that says what became of it."""
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Of processor time, which a loaded machine doesn't shorten; whatever sleeps ends by the alarm.
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    signal.alarm(SECONDS * 10)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        os._exit(attempt(kind, data, chooser, folder))
    except MemoryError:
        os._exit(4)
    except BaseException as error:  # pylint: disable=broad-except
        print(type(error).__name__, error, flush=True)
        os._exit(71)


def in_child(kind, data, chooser, folder):
    """(what became of it, whether that is a bug)"""
    pid = os.fork()
    if pid == 0:
        child(kind, data, chooser, folder)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGALRM, -signal.SIGXCPU):
        return "hung", True
    return OUTCOMES.get(code, f"signal {-code}"), code < 0 or code in BUGS


class Sources:
    """What is damaged, drawn by seeds: (kind, bytes). maker: a Worker of tests/fuzz/bases.py."""

    def __init__(self, options, maker, folder):
        import bases
        import calls

        self._models, self._maker, self._folder = options.models, maker, folder
        self._kinds, self._base, self._calls = None, None, calls.of_operators() if options.calls else None
        if options.artefacts:
            answer = maker.ask(artefacts=str(folder))
            if answer["kind"] != "made":
                raise workers.WorkerFailed(f"artefacts can't be made: {answer}")
            self._kinds = {kind: (folder / kind).read_bytes() for kind in bases.ARTEFACTS}

    def draw(self, seed, chooser):
        """None where there is nothing to damage for this seed."""
        if self._calls:
            return "relay", chooser.choice(chooser.choice(list(self._calls.values())))
        if self._kinds:
            return chooser.choice(list(self._kinds.items()))
        if self._base is None or seed % MUTANTS_OF_EACH == 0:
            task = {"model": self._models[seed // MUTANTS_OF_EACH % len(self._models)]} if self._models else {}
            path = self._folder / "base"
            answer = self._maker.ask(seed=seed, path=str(path), **task)
            if answer["kind"] != "made":
                return None
            self._base = path.read_bytes()
        return "onnx", self._base


def damaged(kind, data, chooser):
    """None where nothing came of it."""
    import calls
    import mutants
    import onnx

    if kind == "relay":
        return calls.damaged(chooser, data).encode()
    if kind == "onnx" and chooser.random() < 0.85:
        return mutants.of_model(chooser, onnx.ModelProto.FromString(data))
    if kind == "graph" and chooser.random() < 0.8:
        return mutants.of_text(chooser, data)
    return mutants.of_bytes(chooser, data)


def run(options, folder):
    """The exit status of the tool."""
    output = pathlib.Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    counts, seed, bad = collections.Counter(), options.seed, 0
    maker = workers.Worker([sys.executable, __file__, "--work"], 120)
    sources = Sources(options, maker, folder)
    end = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    while time.monotonic() < end and (not options.count or sum(counts.values()) < options.count):
        seed += 1
        chooser = random.Random(seed)
        source = sources.draw(seed, chooser)
        data = damaged(*source, chooser) if source else None
        if data is None:
            continue
        outcome, bug = in_child(source[0], data, chooser, folder)
        counts[outcome] += 1
        if bug:
            bad += 1
            (output / f"{seed}.{source[0]}").write_bytes(data)
            print(f"{seed}: {source[0]}: {outcome}", flush=True)
    maker.close()
    print(f"{sum(counts.values())} mutants:", ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=".onnx files to damage instead of random graphs")
    parser.add_argument("--artefacts", action="store_true", help="damage what the compiler writes")
    parser.add_argument("--calls", action="store_true", help="damage calls of operators in Relay text")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long")
    parser.add_argument("--count", type=int, default=0, help="stop after so many mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", default=str(ROOT / "build" / "mutants"), help="folder for what is found")
    parser.add_argument("--replay", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        import bases

        return workers.answer_tasks(bases.make)
    import treadle  # noqa: F401 - once, for all children

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if options.replay:
            if options.replay.suffix == ".graph":  # needs the library that it is of
                workers.Worker([sys.executable, __file__, "--work"], 120).ask(artefacts=str(folder))
            outcome, bug = in_child(options.replay.suffix[1:], options.replay.read_bytes(), random.Random(1), folder)
            print(outcome)
            return 1 if bug else 0
        if not options.minutes and not options.count:
            parser.error("--minutes or --count is needed")
        return run(options, folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except workers.WorkerFailed as failure:
        sys.exit(f"mutate_models.py: {failure}")
