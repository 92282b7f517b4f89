# SPDX-License-Identifier: Apache-2.0
"""How models would scale over more cores than this machine has: each is compiled for so many, its parallel loops are run
task by task on one core and dealt out as the thread pool would (bench/simulate_threads.cc).

    python bench/thread_scaling.py model.onnx [...] --threads 4 16 64 [--calls]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import treadle

ROOT = pathlib.Path(__file__).parent.parent


def simulator(build):
    """The program, built where it isn't there or is older than its source."""
    source, program = ROOT / "bench/simulate_threads.cc", build / "bench/simulate_threads"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(exist_ok=True)
        subprocess.run(["clang++-19", "-O2", "-std=c++20", "-rdynamic", "-I", ROOT / "include", source, "-L", build / "lib",
                        "-ltreadle_runtime", f"-Wl,-rpath,{build}/lib", "-o", program], check=True)
    return program


def simulate(program, model, threads, calls):
    """What the program prints: its first line as data, and the rows of calls as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.so"
        treadle.compile(model, target=f"llvm -mcpu=native -num-cores={threads}").export_library(path)
        command = [program, str(threads), path] + (["calls"] if calls else [])
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, _, rest = text.partition("\n")
    return json.loads(first), rest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--threads", nargs="+", type=int, default=[4, 16, 64])
    parser.add_argument("--calls", action="store_true", help="a row for each call, by what it loses")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    program = simulator(options.build.resolve())
    print("model", *(f"{threads} threads" for threads in options.threads), sep=" | ")
    for model in options.models:
        results = [simulate(program, model, threads, options.calls) for threads in options.threads]
        print(pathlib.Path(model).stem, *(f"{r['speedup']:.1f} ({r['ms']:.2f} ms)" for r, _ in results), sep=" | ", flush=True)
        for _, rows in results:
            print(rows, end="")


if __name__ == "__main__":
    main()
