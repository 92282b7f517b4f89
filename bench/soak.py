# SPDX-License-Identifier: Apache-2.0
"""A server's loop: runs of one model with varying shapes, for as long as is asked, in memory that must not grow.

    PYTHONPATH=build/python .venv/bin/python bench/soak.py --runs 1000000

Prints the resident memory every tenth of the way. The first tenth is for caches and pools to fill; from then on growth
beyond --growth bytes is a failure (exit status 1).
"""
import argparse
import sys
import threading

import numpy as np


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def dynamic_model():
    """A small network with a symbolic number of rows, as ONNX bytes, and what it computes."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.random.default_rng(0).standard_normal((16, 8)).astype("float32") / 4
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    value = lambda name, size: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])  # noqa: E731
    graph = helper.make_graph(nodes, "soak", [value("x", 16)], [value("y", 8)], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString(), lambda x: np.tanh(x @ weight)


def soak(runs, threads=1, rows=97, report=lambda done, bytes_: None):
    """Runs the model `runs` times in all; the memory after a tenth of them and at the end."""
    import treadle

    data, expected = dynamic_model()
    model = treadle.compile(data)
    inputs = [np.random.default_rng(n).standard_normal((n + 1, 16)).astype("float32") for n in range(rows)]
    wanted = [expected(x) for x in inputs]
    failures = []
    marks = []
    tenth = max(1, runs // threads // 10)

    def loop(index):
        try:
            for i in range(runs // threads):
                k = (i * 31 + index) % rows
                y = model.run(None, {"x": inputs[k]})[0]
                if i % 997 == 0:
                    np.testing.assert_allclose(y, wanted[k], rtol=1e-4, atol=1e-5)
                if index == 0 and (i + 1) % tenth == 0:
                    marks.append(resident())
                    report((i + 1) * threads, marks[-1])
        except Exception as error:  # pylint: disable=broad-except
            failures.append(error)

    workers = [threading.Thread(target=loop, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return marks[0], marks[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000000)
    parser.add_argument("--threads", type=int, default=2, help="callers at once")
    parser.add_argument("--growth", type=int, default=4 << 20, help="bytes that the memory may grow by")
    flags = parser.parse_args()
    first, last = soak(flags.runs, flags.threads,
                       report=lambda done, bytes_: print(f"{done:>9} runs: {bytes_ >> 10} KiB", flush=True))
    if last - first > flags.growth:
        sys.exit(f"the memory grew by {last - first} bytes")


if __name__ == "__main__":
    main()
