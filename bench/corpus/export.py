#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports the corpus with PyTorch's exporters, one process per export.

    export.py OUT [--exporter dynamo script] [--shapes static dynamic] [NAME..]

Writes OUT/NAME.EXPORTER.SHAPES.onnx and beside it one .INDEX.npz of inputs for each size to try. Needs torch,
torchvision, timm, transformers, onnxscript, in an environment of its own (docs/development.md)."""
import argparse
import logging
import multiprocessing
import os
import pathlib
import time
import warnings

import numpy as np
import torch

import architectures
import further
import latest
import uncommon

ENTRIES = {**architectures.ENTRIES, **uncommon.ENTRIES, **further.ENTRIES, **latest.ENTRIES}


def _seeded(name):
    torch.manual_seed(0)
    np.random.seed(0)
    entry = ENTRIES[name]()
    entry.module.eval()
    for part in entry.module.modules():  # statistics that do something
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.running_mean is not None:
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return entry


def _resized(entry, sizes):
    """The example inputs at other sizes of named dimensions."""
    inputs = {}
    for name, example in entry.inputs.items():
        shape = list(example.shape)
        for axis, dim in entry.dims.get(name, {}).items():
            shape[axis] = sizes.get(dim, shape[axis])
        if example.dtype.is_floating_point:
            inputs[name] = torch.randn(shape, dtype=example.dtype) if example.min() < 0 else torch.rand(shape, dtype=example.dtype)
        elif example.min() == example.max():
            inputs[name] = torch.full(shape, example.min().item(), dtype=example.dtype)
        else:
            inputs[name] = torch.randint(int(example.min()), int(example.max()), shape, dtype=example.dtype)
    return inputs


def export(name, exporter, shapes, path):
    entry = _seeded(name)
    names = list(entry.inputs)
    options = {"input_names": names, "verbose": False}
    dynamic = shapes == "dynamic"
    if exporter == "dynamo":
        options.update(dynamo=True, external_data=False)
        if dynamic:
            auto = torch.export.Dim.AUTO
            dims = tuple({axis: auto for axis in entry.dims.get(key, {})} for key in names)
            results = isinstance(entry.module, architectures.Results)
            cached = isinstance(entry.module, architectures.CachedDecoder)
            options["dynamic_shapes"] = (dims,) if results else (dims[0], dims[1], dims[2:]) if cached else dims
    else:
        options.update(dynamo=False, opset_version=17)
        if dynamic:
            options["dynamic_axes"] = entry.dims
    with torch.no_grad():
        torch.onnx.export(entry.module, tuple(entry.inputs.values()), str(path), **options)
    tries = [entry.inputs]
    if dynamic:
        tries += [_resized(entry, sizes) for sizes in entry.sizes]
    for index, inputs in enumerate(tries):
        np.savez(path.with_suffix(f".{index}.npz"), **{key: value.numpy() for key, value in inputs.items()})


def _child(name, exporter, shapes, path, answers):
    with open(os.devnull, "w") as nothing:  # exporters print whole graphs
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    try:
        export(name, exporter, shapes, path)
        answers.put("ok")
    except Exception as error:  # whatever an exporter can't do is a line of the report
        lines = str(error).strip().splitlines() or [""]
        answers.put(f"FAIL {type(error).__name__} {lines[0][:200]}")


def _in_process(seconds, *arguments):
    """One export in a process of its own, which shares what this one imported."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=_child, args=(*arguments, answers))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return "FAIL takes too long"
    return "FAIL ended" if answers.empty() else answers.get()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--exporter", choices=("dynamo", "script"), action="append")
    parser.add_argument("--shapes", choices=("static", "dynamic"), action="append")
    parser.add_argument("--again", action="store_true", help="those that exist, too")
    parser.add_argument("--seconds", type=float, default=400, help="for one export")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for name in options.names or ENTRIES:
        for exporter in options.exporter or ("dynamo", "script"):
            for shapes in options.shapes or ("static", "dynamic"):
                path = options.out / f"{name}.{exporter}.{shapes}.onnx"
                if path.exists() and not options.again:
                    continue
                start = time.time()
                answer = _in_process(options.seconds, name, exporter, shapes, path)
                if answer != "ok":
                    path.unlink(missing_ok=True)
                print(path.stem, answer, f"{time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    main()
