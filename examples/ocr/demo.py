#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a line of text in a picture with the PP-OCRv4 recogniser, compiled to native code.

Draws the picture, compiles the model of the wheel rapidocr-onnxruntime for its size, recognises the text, and checks
the network's output against ONNX Runtime's. Writes the picture, the compiled model and a JSON report to build/demo.
"""
import argparse
import importlib.util
import json
import pathlib
import sys
import time

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEIGHT = 48  # what the recogniser was trained on


def model_path():
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None:
        sys.exit("the package rapidocr-onnxruntime isn't installed: run tools/setup.sh")
    return pathlib.Path(package.origin).parent / "models/ch_PP-OCRv4_rec_infer.onnx"


def draw(text, height=64, margin=16):
    """A picture of the text, dark on light."""
    font = ImageFont.load_default(size=height * 0.6)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (right - left + 2 * margin, height), (250, 248, 240))
    ImageDraw.Draw(picture).text((margin - left, (height - bottom - top) / 2), text, fill=(30, 30, 60), font=font)
    return picture


def preprocess(picture):
    """The network's input: 48 pixels high, BGR, values from -1 to 1, width a multiple of 8."""
    width = max(1, round(picture.width * HEIGHT / picture.height))
    resized = np.asarray(picture.convert("RGB").resize((width, HEIGHT), Image.BILINEAR), np.float32)
    chw = (resized[:, :, ::-1].transpose(2, 0, 1) / 255 - 0.5) / 0.5
    padded = np.zeros((1, 3, HEIGHT, -(-width // 8) * 8), np.float32)
    padded[0, :, :, :width] = chw
    return padded


def characters(model):
    """The network's classes: blank, those in the model's metadata, space."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    return ["", *metadata["character"].splitlines(), " "]


def decode(probabilities, classes):
    """Greedy CTC decoding: the best class of each step, repetitions merged, blanks dropped. Text and mean score."""
    best = probabilities.argmax(axis=1)
    keep = (best != 0) & (best != np.concatenate([[-1], best[:-1]]))
    text = "".join(classes[i] for i in best[keep]).strip()
    return text, float(probabilities.max(axis=1)[keep].mean()) if keep.any() else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="Treadle reads this line of text")
    parser.add_argument("--picture", type=pathlib.Path, help="a picture of one line of text, instead of drawing one")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/demo")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    picture = Image.open(args.picture) if args.picture else draw(args.text)
    picture.save(args.out / "picture.png")
    data = preprocess(picture)
    path = model_path()
    classes = characters(onnx.load(path))

    start = time.perf_counter()
    model = treadle.compile(path, shapes={"x": data.shape}, threads=args.threads)
    compile_s = time.perf_counter() - start
    model.export_library(args.out / "recogniser.so")
    model = treadle.load(args.out / "recogniser.so", threads=args.threads)

    times = []
    for _ in range(10):
        start = time.perf_counter()
        output = next(iter(model(x=data).values()))
        times.append(time.perf_counter() - start)
    text, score = decode(output[0], classes)

    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    reference = session.run(None, {"x": data})[0]
    difference = float(np.abs(output - reference).max())
    tolerance = 1e-3 * float(np.abs(reference).max())
    agrees = output.shape == reference.shape and difference <= tolerance and decode(reference[0], classes)[0] == text

    print(f"picture    {args.out / 'picture.png'} ({picture.width} x {picture.height})")
    print(f"compiled   {path.name} for input {data.shape} in {compile_s:.1f} s -> {args.out / 'recogniser.so'}")
    print(f"text       {text!r} (score {score:.3f})")
    print(f"time       {min(times) * 1e3:.1f} ms on {args.threads} threads (best of {len(times)})")
    print(f"ONNX Runtime's output {'agrees' if agrees else 'DIFFERS'}: largest difference {difference:.2e}")
    report = {"text": text, "score": score, "expected": None if args.picture else args.text, "compile_s": compile_s,
              "run_ms": min(times) * 1e3, "threads": args.threads, "agrees_with_onnxruntime": agrees,
              "largest_difference": difference}
    (args.out / "result.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
