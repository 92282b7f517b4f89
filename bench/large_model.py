#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a generated model of many gigabytes and prints what memory that took: weights are read from their file, packed, and
written to the library one after another. Needs three times the size on the disk of --folder; $TMPDIR should be on one, too.

    large_model.py --gigabytes 20              # on a machine of 24 GiB
    large_model.py --gigabytes 8 --limit 3     # or less of both
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, save

import treadle

WIDTH = 8192
LAYER_BYTES = 4 * WIDTH * WIDTH


def layer(index):
    """A weight of which few rows are distinct: quick to make, and unlike that of other layers."""
    rows = np.random.default_rng(index).standard_normal((64, WIDTH), dtype=np.float32) / np.float32(np.sqrt(WIDTH))
    return np.tile(rows, (WIDTH // len(rows), 1))


def write_model(folder, layers):
    """Products with weights that are external data of one file, transposed and not in turns."""
    tensors, nodes = [], []
    with open(folder / "weights.bin", "wb") as file:
        for i in range(layers):
            file.write(layer(i).data)
            tensor = TensorProto(name=f"weight{i}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH],
                                 data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "weights.bin"), ("offset", i * LAYER_BYTES), ("length", LAYER_BYTES)):
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            nodes.append(helper.make_node("Gemm", [f"x{i}", tensor.name], [f"x{i + 1}"], transB=i % 2))
    graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, WIDTH])],
                              [helper.make_tensor_value_info(f"x{layers}", TensorProto.FLOAT, [1, WIDTH])], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "large.onnx")


def expected(x, layers):
    for i in range(layers):
        x = x @ (layer(i).T if i % 2 else layer(i))
    return x


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--folder", help="where the model goes, and is removed from (that of temporary files)")
    parser.add_argument("--limit", type=float, metavar="GB", help="memory of its own that compiling may take (ulimit -d)")
    args = parser.parse_args()
    layers = max(1, round(args.gigabytes * 1e9 / LAYER_BYTES))
    program = pathlib.Path(treadle.__file__).parent / "bin/treadle"
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        write_model(folder, layers)
        start = time.monotonic()
        limit = resource.RLIM_INFINITY if args.limit is None else int(args.limit * 1e9)
        subprocess.run([program, "compile", folder / "large.onnx", "-q", "--no-cache", "-o", folder / "large.so"],
                       check=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
                       env={**os.environ, "TMPDIR": os.environ.get("TMPDIR", name)})
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        (folder / "weights.bin").unlink()
        x = np.random.default_rng(1).standard_normal((1, WIDTH), dtype=np.float32)
        given, wanted = treadle.load(folder / "large.so")(x0=x)[f"x{layers}"], expected(x, layers)
        error = np.abs(given - wanted).max() / np.abs(wanted).max()
        print(f"{layers * LAYER_BYTES / 1e9:.2f} GB of weights: compiled in {seconds:.0f} s, at most {peak / 1e9:.2f} GB resident, "
              f"largest error {error:.1e} of the range")
    if error > 1e-3:
        sys.exit(1)


if __name__ == "__main__":
    main()
