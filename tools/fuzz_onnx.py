#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs in Treadle against ONNX Runtime.

    tools/fuzz_onnx.py --minutes 10 --seed 1000     try graphs from this seed on; failures go to build/fuzz
    tools/fuzz_onnx.py --replay build/fuzz/1160     try a saved one again
    tools/fuzz_onnx.py --show 1160                  the graph of a seed
    tools/fuzz_onnx.py --mixed --minutes 10         at a level and for a target that the seed draws
    tools/fuzz_onnx.py --operators --count 1000     single operators with odd operands, on every target and level
    tools/fuzz_onnx.py --sizes --count 1000         compiled before sizes are known, run in sizes most of which don't fit

Graphs are tried in processes of their own, so that a crash or a hang is a finding like any other. Each failure is made
small and saved as .onnx with .npz operands; failures that look alike are saved once. Where the two differ, ONNX's
reference evaluator decides. Ends with 1 where something differed, crashed or hung."""
import argparse
import collections
import os
import pathlib
import random
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
sys.path.append(str(ROOT / "build" / "python"))  # PYTHONPATH comes first
import workers  # noqa: E402

FAILURES = ("differ", "crash", "hang")


def work():
    """Answers tasks {seed} or {path} by {kind, text, signature, ops}."""
    import treadle  # noqa: F401  what every task needs
    from differential import edges, engines, graphs, shrink, sizes

    def answer(task):
        try:
            if "path" in task:
                case = shrink.load(task["path"])
            else:
                case = (sizes if task["sizes"] else edges if task["operators"] else graphs).generate(task["seed"])
            if "values" in task:
                try:
                    shrink.save_intermediates(case, task["path"])
                except Exception as error:  # noqa: BLE001 - what the peer refuses can't be made smaller
                    return {"kind": "invalid", "text": str(error)}
                return {"kind": "saved"}
            if "save" in task:
                shrink.save(case, task["save"])
                verdict = engines.Verdict("saved")
            elif task["sizes"] and "alone" in task:
                verdict = sizes.run_alone(case, task["opt_level"], task["target"])
            elif task["sizes"]:
                verdict = sizes.compare(case, task["opt_level"], task["target"])
            elif task["operators"]:
                verdict = edges.compare(case)
            elif "alone" in task:
                verdict = engines.run_alone(case, task["opt_level"], task["target"])
            else:
                verdict = engines.compare(case, task["opt_level"], task["target"])
            return {"kind": verdict.kind, "text": verdict.text, "signature": list(verdict.signature),
                    "ops": sorted({node.op_type for node in case.model.graph.node})}
        except graphs.Refused:
            return {"kind": "invalid", "text": "", "signature": ["invalid", ""], "ops": []}

    workers.answer_tasks(answer)


def worker_of(options):
    return workers.Worker([sys.executable, __file__, "--work"], options.seconds, operators=options.operators,
                          sizes=options.sizes)


MIXED = ["llvm -mcpu=native", "llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2", "c"]


def way_of(options, seed):
    """Level and target."""
    if not options.mixed:
        return {"opt_level": options.opt_level, "target": options.target}
    chooser = random.Random(seed * 31 + 7)
    return {"opt_level": chooser.choice([0, 1, 1, 2, 3, 3]), "target": chooser.choice(MIXED)}


def forget(path):
    """Removes what was saved under this name."""
    for ending in (".onnx", ".npz", ".values.npz"):
        pathlib.Path(f"{path}{ending}").unlink(missing_ok=True)


def make_small(worker, case, kinds, folder, way):
    """A smaller case whose verdict is of one of these kinds."""
    from differential import shrink

    path = str(folder / f".{os.getpid()}-{threading.get_ident()}")

    def fails(form):
        shrink.save(form, path)
        answer = worker.ask(path=path, **way)
        return answer["signature"] in kinds or answer["kind"] in kinds

    def evaluate(form):
        shrink.save(form, path)
        if worker.ask(path=path, values=True)["kind"] != "saved":
            raise ValueError("ONNX Runtime can't say")
        return shrink.load_intermediates(path)

    try:
        return shrink.shrink(case, fails, evaluate=evaluate)
    finally:
        forget(path)


def is_peers(worker, case, folder, way):
    """Whether what is left of a difference, of single operators, is one where the reference agrees with us."""
    from differential import shrink

    small = make_small(worker, case, ["differ", "peer"], folder, way)
    path = folder / f".{os.getpid()}-{threading.get_ident()}"
    shrink.save(small, path)
    answer = worker.ask(path=str(path), **way)
    forget(path)
    return len(small.model.graph.node) == 1 and answer["kind"] == "peer"


def report(case, answer, folder, name, way):
    from differential import shrink

    shrink.save(case, folder / name)
    ops = ", ".join(node.op_type for node in case.model.graph.node)
    how = f"{way['target']}, level {way['opt_level']}"
    print(f"{name}: {answer['kind']} ({how}) [{ops}] {answer['text'][:300]}", flush=True)


def run(options):
    from differential import shrink

    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    seeds = iter(range(options.seed, options.seed + (options.count or 10**9)))
    end = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    lock, counts, seen, ops = threading.Lock(), collections.Counter(), collections.Counter(), collections.Counter()
    broken = []

    def work_through(worker):
        while not broken and time.monotonic() < end:
            with lock:
                seed = next(seeds, None)
            if seed is None:
                break
            way = way_of(options, seed)
            answer = worker.ask(seed=seed, **way)
            with lock:
                counts[answer["kind"]] += 1
                ops.update(answer["ops"])
                key = tuple(answer["signature"]) if answer["kind"] != "differ" else ("differ", seed)
                seen[key] += 1
                wanted = answer["kind"] in FAILURES or (answer["kind"] == "refused" and seen[key] == 1)
            if not wanted:
                continue
            place = folder / f".seed-{os.getpid()}-{threading.get_ident()}"
            # ONNX Runtime takes part in making graphs: where it crashes or hangs there, the finding isn't ours.
            if worker.ask(seed=seed, save=str(place), **way)["kind"] != "saved":
                with lock:
                    counts[answer["kind"]] -= 1
                    counts["no graph"] += 1
                continue
            case = shrink.load(place)
            # It may crash or hang when the graph runs, too.
            single = options.operators or options.sizes
            alone = answer["kind"] in ("crash", "hang") and not options.operators
            if alone and worker.ask(path=str(place), alone=True, **way)["kind"] not in ("crash", "hang"):
                with lock:
                    counts[answer["kind"]] -= 1
                    counts["peer crashed"] += 1
                forget(place)
                continue
            forget(place)
            if not options.no_shrink and not single:
                case = make_small(worker, case, [answer["signature"]], folder, way)
                # The reference may know the operators that differ, and not the others of the graph.
                if answer["kind"] == "differ" and is_peers(worker, case, folder, way):
                    with lock:
                        counts["differ"] -= 1
                        counts["peer"] += 1
                    continue
            with lock:
                report(case, answer, folder, str(seed), way)

    def loop():
        worker = worker_of(options)
        try:
            work_through(worker)
        except workers.WorkerFailed as error:
            broken.append(str(error))
        finally:
            worker.close()

    threads = [threading.Thread(target=loop) for _ in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise workers.WorkerFailed(broken[0])
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())), f"; {len(ops)} operators")
    return 1 if any(counts[kind] for kind in FAILURES) else 0


def replay(options):
    answer = worker_of(options).ask(path=options.replay, **way_of(options, 0))
    print(answer["kind"], answer["text"])
    return 1 if answer["kind"] in FAILURES + ("refused",) else 0


def show(options):
    import onnx
    from differential import edges, graphs, sizes

    case = (sizes if options.sizes else edges if options.operators else graphs).generate(options.show)
    print(onnx.printer.to_text(case.model))
    print({name: array.shape for name, array in case.feeds[0].items()})
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long")
    parser.add_argument("--count", type=int, default=0, help="stop after so many graphs")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=120, help="what takes longer hangs")
    parser.add_argument("--opt-level", type=int, default=3)
    parser.add_argument("--target", default="llvm -mcpu=native")
    parser.add_argument("--mixed", action="store_true", help="levels and targets that the seeds draw")
    parser.add_argument("--output", default=str(ROOT / "build" / "fuzz"), help="folder for failures")
    parser.add_argument("--no-shrink", action="store_true", help="save failures as they are")
    parser.add_argument("--replay", metavar="PATH", help="a saved failure, without its ending")
    parser.add_argument("--operators", action="store_true", help="one operator each, with operands at the edges")
    parser.add_argument("--sizes", action="store_true", help="graphs of few nodes whose sizes are known when they run")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work()
    if options.show is not None:
        return show(options)
    if options.replay:
        return replay(options)
    if not options.minutes and not options.count:
        parser.error("--minutes or --count is needed")
    return run(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except workers.WorkerFailed as failure:
        sys.exit(f"fuzz_onnx.py: {failure}")
