#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors of Treadle, ONNX Runtime and OpenVINO, all in float32, against the same models computed in float64 by Treadle's
WidenFloats. An error is the largest difference of an output over its range, the worst of all outputs; the last column is
Treadle's as a multiple of the better peer's. Inputs: those of MODEL.npz beside MODEL.onnx, else random ones."""
import argparse
import pathlib

import engines
import numpy as np

import treadle


class Case:
    """A model file as the engines take it."""

    def __init__(self, path, inputs):
        self.name, self.path, self.inputs = path.stem, path, inputs
        self.shapes = {name: value.shape for name, value in inputs.items()}

    def bytes(self):
        return self.path.read_bytes()


def random_inputs(path, size, seed):
    """Normal floats, integers from 0 to 9, of the declared shapes; dimensions that aren't fixed are `size`, but the first
    ones, which are 1."""
    rng, inputs = np.random.default_rng(seed), {}
    for name, dtype, shape in declared(path):
        fixed = [dim if dim > 0 else 1 if i == 0 else size for i, dim in enumerate(shape)]
        inputs[name] = (rng.standard_normal(fixed) if np.issubdtype(dtype, np.floating)
                        else rng.integers(0, 2 if dtype == np.bool_ else 10, fixed)).astype(dtype)
    return inputs


def declared(path):
    """(name, dtype, shape) of each input that has no initial value; 0 for dimensions that aren't fixed."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    given = {weight.name for weight in graph.initializer}
    for value in graph.input:
        if value.name not in given:
            tensor = value.type.tensor_type
            yield (value.name, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type),
                   [dim.dim_value for dim in tensor.shape.dim])


def error(actual, exact):
    """Largest difference over the range of what is exact."""
    actual, exact = np.asarray(actual, np.float64), np.asarray(exact, np.float64)
    if exact.size == 0:
        return 0.0
    span = np.ptp(exact) or np.abs(exact).max() or 1.0
    return float(np.abs(actual - exact).max() / span)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=64, help="of dimensions that aren't fixed")
    parser.add_argument("--accuracy", nargs="*", default=["default"], help="levels to compile Treadle's model with")
    parser.add_argument("--engines", nargs="*", default=["onnxruntime", "openvino"])
    parser.add_argument("--seeds", type=int, default=1, help="random inputs to take the worst of")
    args = parser.parse_args()
    names = [f"treadle {level}" for level in args.accuracy] + args.engines
    print("| model | " + " | ".join(names) + " | ratio |\n|" + "---|" * (len(names) + 2))
    for path in args.models:
        worst = {}
        for seed in range(args.seeds):
            stored = path.with_suffix(".npz")
            inputs = dict(np.load(stored)) if stored.exists() else random_inputs(path, args.size, seed)
            case = Case(path, inputs)
            exact = list(treadle.compile(path, shapes=case.shapes, pass_config={"relay.WidenFloats": "true"})
                         .run(None, inputs))
            for name in names:
                try:
                    if name.startswith("treadle"):
                        model = treadle.compile(path, shapes=case.shapes, accuracy=name.split()[1])
                        outputs = model.run(None, inputs)
                    else:
                        outputs = engines.ALL[name].prepare(case, 0, inputs)()
                    found = max(error(a, b) for a, b in zip(outputs, exact, strict=True)
                                if np.issubdtype(np.asarray(b).dtype, np.floating))
                except Exception as problem:  # noqa: BLE001 - a peer may refuse a model
                    found = float("nan")
                    print(f"# {path.stem}: {name}: {str(problem).splitlines()[0]}")
                worst[name] = max(worst.get(name, 0.0), found)
        peers = [worst[name] for name in args.engines if worst[name] == worst[name]]
        ratio = worst[names[0]] / min(peers) if peers and min(peers) > 0 else float("nan")
        print(f"| {path.stem} | " + " | ".join(f"{worst[name]:.1e}" for name in names) + f" | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
