# SPDX-License-Identifier: Apache-2.0
"""What `treadle quantize` runs."""
import argparse
import json
import sys
from typing import Any

from .. import _outputs
from .._command_line import Parser
from ..error import Error
from . import quantize


_MEANT = {"--mode": "--dynamic", "--bits": "--weight-only", "--calibrate": "--calibration-data", "--symmetric": "--symmetric-activations",
          "--int4": "--weight-only", "--exclude": "--keep-float", "--nodes-to-exclude": "--keep-float"}


def _arguments(arguments):
    parser = Parser("treadle quantize", _MEANT, description="Convert a float model to 8 or 4 bits.")
    add = parser.add_argument
    add("model", help="an .onnx file")
    add("-o", "--output", required=True, help="the .onnx file to write")
    add("--calibration-data", metavar="DIR", help="a folder of .npz files, each with the inputs of one run, or a single .npz file")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--dynamic", action="store_true", help="quantise activations at run time, without calibration data")
    kind.add_argument("--weight-only", type=int, choices=(4, 8), help="quantise only weights, to this many bits")
    add("--method", choices=("minmax", "percentile", "mse"), help="how to choose the ranges of activations (default: mse)")
    add("--percentile", type=float, default=99.99, help="with --method percentile: percentage of values within the range (default: 99.99)")
    add("--weight-method", choices=("max", "mse"), default="mse", help="how to choose the ranges of weights (default: mse)")
    add("--per-channel", action=argparse.BooleanOptionalAction, default=True, help="one scale per output channel of the weights (default: yes)")
    add("--symmetric-activations", action="store_true", help="fix the zero points of activations to the middle of the range")
    add("--activation-type", choices=("uint8", "int8"), default="uint8", help="data type of activations (default: uint8)")
    add("--reduce-range", action="store_true", help="use 7 bits for weights, for CPUs whose 8-bit products saturate (x86 before VNNI)")
    add("--bias-correction", action=argparse.BooleanOptionalAction, default=True,
        help="compensate in the bias for the mean rounding error of weights (default: yes)")
    add("--block-size", type=int, default=32, help="with --weight-only: number of weights per scale (default: 32)")
    add("--asymmetric-weights", action="store_true", help="with --weight-only: use a zero point per block")
    add("--accuracy-level", type=int, default=4, help="accuracy_level of MatMulNBits: 4 allows 8-bit activations, 1 requires float32 (default: 4)")
    add("--smooth-quant", type=float, metavar="ALPHA", help="migrate outliers of activations to weights (SmoothQuant); 0.5 is usual")
    add("--awq", action="store_true", help="with --weight-only: scale weights by activation statistics first (AWQ)")
    add("--keep-float", action="append", default=[], metavar="PATTERN", help="keep layers in float by name pattern or operator type; repeatable")
    add("--keep-float-budget", type=float, metavar="DB", help="keep the layers with the largest error in float until the outputs reach this signal-to-noise ratio")
    add("--max-samples", type=int, default=128, help="maximum number of calibration samples (default: 128)")
    add("--report", metavar="FILE", help="write the report as JSON")
    return parser.parse_args(arguments)


def main(arguments: Any = None) -> None:
    a = _arguments(arguments)
    if a.report:
        _outputs.check(a.report, [a.model, a.output])
    mode = "dynamic" if a.dynamic else "weight_only" if a.weight_only else "static"
    result = quantize(a.model, a.output, a.calibration_data, mode=mode, method=a.method, percentile=a.percentile,
                      weight_method=a.weight_method, per_channel=a.per_channel,
                      symmetric_activations=a.symmetric_activations, activation_type=a.activation_type,
                      reduce_range=a.reduce_range, bias_correction=a.bias_correction, bits=a.weight_only or 4,
                      block_size=a.block_size, symmetric_weights=not a.asymmetric_weights,
                      accuracy_level=a.accuracy_level, smooth_quant=a.smooth_quant, awq=a.awq,
                      keep_float=a.keep_float, keep_float_budget=a.keep_float_budget, max_samples=a.max_samples)
    if a.report:
        text = json.dumps(result.json(), indent=1) + "\n"
        _outputs.write(a.report, lambda file: file.write_text(text, encoding="utf-8"))
    print(result.text())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
