# SPDX-License-Identifier: Apache-2.0
"""What `treadle quantize` runs."""
import argparse
import json
import sys

from .. import _outputs
from ..error import Error, RuntimeError  # noqa: A004 - the name of the C++ class
from . import quantize


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        """As the other verbs say it."""
        self.exit(2, f"error: {message}\nhelp: treadle quantize --help lists the options\n")


def _arguments(arguments):
    parser = _Parser(prog="treadle quantize", description="8- and 4-bit models from float ones")
    add = parser.add_argument
    add("model", help="an .onnx file")
    add("-o", "--output", required=True, help="the .onnx file to write")
    add("--calibration-data", metavar="DIR", help="directory of .npz files, each with one run's inputs; or one")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--dynamic", action="store_true", help="quantise what products read at run time")
    kind.add_argument("--weight-only", type=int, choices=(4, 8), help="bits of weights; activations stay float")
    add("--method", choices=("minmax", "percentile", "mse"), help="of activations' ranges (mse)")
    add("--percentile", type=float, default=99.99, help="share of values within the range (99.99)")
    add("--weight-method", choices=("max", "mse"), default="mse", help="of weights' ranges (mse)")
    add("--per-channel", action=argparse.BooleanOptionalAction, default=True, help="scales of weights (yes)")
    add("--symmetric-activations", action="store_true", help="zero points of activations in the middle")
    add("--activation-type", choices=("uint8", "int8"), default="uint8", help="(uint8)")
    add("--reduce-range", action="store_true", help="7 bits for weights, for machines whose sums of bytes saturate")
    add("--bias-correction", action=argparse.BooleanOptionalAction, default=True,
        help="add what rounding weights takes from means (yes)")
    add("--block-size", type=int, default=32, help="weights that share a scale, with --weight-only (32)")
    add("--asymmetric-weights", action="store_true", help="zero points for blocks, with --weight-only")
    add("--accuracy-level", type=int, default=4, help="of MatMulNBits: 4 for rows of bytes, 1 for floats (4)")
    add("--smooth-quant", type=float, metavar="ALPHA", help="move outliers of products' inputs to weights, by 0.5")
    add("--awq", action="store_true", help="scale weights by their activations first, with --weight-only")
    add("--keep-float", action="append", default=[], metavar="PATTERN", help="names or kinds that stay float")
    add("--keep-float-budget", type=float, metavar="DB", help="keep the worst layers float until outputs have it")
    add("--max-samples", type=int, default=128, help="calibration runs at most (128)")
    add("--report", metavar="FILE", help="write the report as JSON")
    return parser.parse_args(arguments)


def main(arguments=None):
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
        sys.exit(5 if isinstance(error, RuntimeError) else 2)
