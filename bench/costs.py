# SPDX-License-Identifier: Apache-2.0
"""What an engine costs beside its run time, measured in a process of its own: `python costs.py ENGINE MODEL THREADS`
prints JSON with load_s (from a file to the first possible run), memory_mb (peak of the process above its start, after
three runs) and, for Treadle, compile_s, compile_memory_mb and artefact_mb."""
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def status_mb(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


class PeakMemory:
    """How far the process grew above its size at the start, in MiB. Resets the kernel's high-water mark."""

    def __init__(self):
        gc.collect()
        pathlib.Path("/proc/self/clear_refs").write_text("5")
        self.before = status_mb("VmRSS")

    def mb(self):
        return status_mb("VmHWM") - self.before


def find(model):
    import zoo

    return next(case for case in zoo.all_models() if case.name == model)


def in_another_process(*arguments):
    """Building a model takes memory that isn't the engine's."""
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def measure(engine, model, threads):
    import engines

    case = find(model)
    inputs = case.inputs()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.so" if engine == "treadle" else "model.onnx")
        result = in_another_process("--compile" if engine == "treadle" else "--write", model, threads, path)
        engines.ALL[engine].version()  # its libraries are loaded before the clock starts
        memory = PeakMemory()
        run, result["load_s"] = engines.timed(lambda: engines.ALL[engine].load(path, case, threads, inputs))
        for _ in range(3):
            run()
        result["memory_mb"] = memory.mb()
    return result


def write_model(model, threads, path):
    del threads
    pathlib.Path(path).write_bytes(find(model).bytes())
    return {}


def compile_model(model, threads, path):
    import engines
    import treadle

    case = find(model)
    data = case.bytes()
    memory = PeakMemory()
    compiled, seconds = engines.timed(lambda: treadle.compile(data, shapes=case.shapes, threads=threads))
    compiled.export_library(path)
    return {"compile_s": seconds, "compile_memory_mb": memory.mb(), "artefact_mb": os.path.getsize(path) / 2**20}


def costs_of(engine, model, threads):
    """`measure` in another process; an empty dictionary where it fails."""
    try:
        return in_another_process(engine, model, threads)
    except subprocess.CalledProcessError:
        return {}


if __name__ == "__main__":
    STEPS = {"--compile": compile_model, "--write": write_model}
    if sys.argv[1] in STEPS:
        print(json.dumps(STEPS[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])))
    else:
        print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
