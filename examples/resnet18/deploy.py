#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deploys ResNet-18 step by step: import from ONNX, compile at opt_level 3, export the library, the parameters and
the graph as three files, load them again, classify the picture of a cat.

The weights are random unless --model names a trained file (input "data" or the model's own, 1 x 3 x 224 x 224), so
without it the five classes mean nothing; the output is compared with ONNX Runtime's either way.
"""
import argparse
import pathlib
import sys

import numpy as np
import onnx
from PIL import Image

import treadle
from treadle import relay
from treadle.contrib import graph_executor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))


def cat():
    """The cat of scikit-image as the network's input: 224 x 224, normalised as for ImageNet, NCHW."""
    from skimage import data

    picture = Image.fromarray(data.chelsea()).resize((224, 224), Image.BILINEAR)
    chw = np.asarray(picture, np.float32).transpose(2, 0, 1) / 255
    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
    deviation = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
    return ((chw - mean) / deviation)[None]


def load_model(path):
    if path is not None:
        return onnx.load(path)
    import zoo

    return zoo.resnet18()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, help="a trained ResNet-18 (or another ImageNet classifier)")
    parser.add_argument("--labels", type=pathlib.Path, help="a text file with one class name per line")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/resnet18")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    # Import.
    onnx_model = load_model(args.model)
    constants = {tensor.name for tensor in onnx_model.graph.initializer}
    input_name = next(value.name for value in onnx_model.graph.input if value.name not in constants)
    data = cat()
    mod, params = relay.frontend.from_onnx(onnx_model, {input_name: data.shape})

    # Compile.
    with treadle.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=args.target, params=params)

    # Export: code, parameters, graph.
    lib.get_lib().export_library(args.out / "mod.so")
    (args.out / "mod.params").write_bytes(relay.save_param_dict(lib.get_params()))
    (args.out / "mod.json").write_text(lib.get_graph_json())

    # Load again and run.
    loaded = treadle.runtime.load_module(args.out / "mod.so")
    module = graph_executor.create((args.out / "mod.json").read_text(), loaded, treadle.cpu(0))
    module.load_params((args.out / "mod.params").read_bytes())
    module.set_input(input_name, data)
    module.run()
    output = module.get_output(0).numpy()

    # The best five.
    scores = np.exp(output[0] - output[0].max())
    scores /= scores.sum()
    labels = args.labels.read_text().splitlines() if args.labels else [f"class {i}" for i in range(scores.size)]
    for rank, index in enumerate(np.argsort(-scores)[:5], 1):
        print(f"{rank}. {labels[index]} ({index}): {scores[index]:.4f}")

    import onnxruntime

    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    reference = session.run(None, {input_name: data})[0]
    difference = float(np.abs(output - reference).max() / np.ptp(reference))
    print(f"largest difference from ONNX Runtime: {difference:.1e} of the output's range")
    return 0 if difference < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
