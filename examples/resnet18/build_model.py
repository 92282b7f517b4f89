#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ResNet-18 (He et al. 2015: standard topology for ImageNet, batch normalisation, 1000 classes) as an ONNX
file with weights drawn from a seed."""
import argparse
import pathlib
import sys

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import zoo


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    onnx.save(zoo.resnet18(args.seed), args.output)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
