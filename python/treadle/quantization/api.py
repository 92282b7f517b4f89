# SPDX-License-Identifier: Apache-2.0
"""treadle.quantize."""
import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _arguments, _outputs
from ..error import DTypeError, Error
from .calibrate import collect
from .graph import Graph, compile_model, matches, onnx_package, save
from .layers import find_layers
from .products import dynamic, weight_only
from .ranges import sqnr
from .report import as_json, as_text
from .samples import read_samples
from .smooth import awq, smooth_quant
from .static import StaticQuantizer

_METHODS = ("minmax", "percentile", "mse")


@dataclasses.dataclass
class _Options:
    mode: str
    method: str
    percentile: float
    weight_method: str
    per_channel: bool
    reduce_range: bool
    symmetric_activations: bool
    activation_dtype: type
    bias_correction: bool
    bits: int
    block: int
    symmetric_weights: bool
    accuracy_level: int


@dataclasses.dataclass
class Quantized:
    """A quantised model (onnx.ModelProto) with a report about each layer."""
    model: Any
    report: dict

    def save(self, path: "str | os.PathLike[str]") -> None:
        save(self.model, path)

    def text(self) -> str:
        return as_text(self.report)

    def json(self) -> Any:
        return as_json(self.report)


def _check(name, value, allowed):
    if value not in allowed:
        raise Error(f"{name} is {value!r}; expected {' or '.join(map(str, allowed))}")


def _check_patterns(patterns, nodes):
    """Each of keep_float's names is that of a layer, or a kind of operator, which need not be there."""
    onnx = onnx_package()
    for pattern in patterns:
        if onnx.defs.has(pattern) or any(matches(node, [pattern]) for node in nodes):
            continue
        names = sorted({node.name for node in nodes} | {node.op_type for node in nodes})
        raise Error(f"keep_float: no layer's name or kind is '{pattern}'" + _arguments.suggest(pattern, names))


def _rewrite(model, options, samples, keep_float, smooth, use_awq, extra):
    """One quantised model: (ModelProto, report, outputs of the float model)."""
    graph = Graph(model)
    layers = find_layers(graph)
    if options.mode != "static":
        layers = [layer for layer in layers if layer.is_product]
    _check_patterns(keep_float, [layer.node for layer in layers])
    kept = [{"name": l.name, "op": l.node.op_type, "macs": l.macs,
             "why": "asked for" if matches(l.node, keep_float) else "lost most"}
            for l in layers if matches(l.node, keep_float) or l.name in extra]
    skipped = {row["name"] for row in kept}
    layers = [layer for layer in layers if layer.name not in skipped]
    results, domain = [], None
    if options.mode == "static":
        quantizer = StaticQuantizer(graph, layers, options)
        statistics, results = collect(graph, quantizer.axes(), samples, options.method != "minmax")
        if smooth is not None and smooth_quant(graph, layers, statistics, smooth):
            # Divided values take the places of those that they were made of.
            quantizer = StaticQuantizer(graph, layers, options)
        rows = quantizer.rewrite(statistics)
    else:
        scales = {}
        if samples:
            wanted = {layer.data: -1 for layer in layers} if use_awq else {}
            statistics, results = collect(graph, wanted, samples, False)
            if use_awq:
                scales = awq(graph, layers, statistics, options)
        if options.mode == "dynamic":
            rows = dynamic(graph, layers, options)
        else:
            rows = weight_only(graph, layers, options, scales)
            domain = "com.microsoft"
    report = {"mode": options.mode, "method": options.method, "layers": rows, "kept_float": kept, "outputs": {}}
    return graph.finish(domain if rows else None), report, results


def _compare(model, samples, results, report):
    """Ratios of the outputs of the quantised model, by Treadle."""
    if not results:
        return
    quantised = compile_model(model)
    outputs = [quantised(**sample) for sample in samples[:len(results)]]
    for name in results[0]:
        kind = np.asarray(results[0][name]).dtype
        if not np.issubdtype(kind, np.floating):
            continue
        report["outputs"][name] = sqnr(np.concatenate([np.ravel(r[name]) for r in results]),
                                       np.concatenate([np.ravel(o[name]) for o in outputs]))


@_arguments.refuses_unknown
def quantize(model: Any, output: "str | os.PathLike[str] | None" = None, calibration_data: Any = None, mode: str = "static",
             method: str | None = None, percentile: float = 99.99, weight_method: str = "mse", per_channel: bool = True,
             symmetric_activations: bool = False, activation_type: str = "uint8", reduce_range: bool = False,
             bias_correction: bool = True, bits: int = 4, block_size: int = 32, symmetric_weights: bool = True,
             accuracy_level: int = 4, smooth_quant: float | None = None, awq: bool = False,
             keep_float: str | Iterable[str] = (), keep_float_budget: float | None = None,
             max_samples: int = 128) -> Quantized:
    """Quantises an ONNX model (path, bytes or ModelProto) after training. Returns a Quantized, which is also written to
    `output` if given.

    mode: "static" (QuantizeLinear and DequantizeLinear around products and convolutions; needs calibration_data),
    "dynamic" (activations of products are quantised per row at run time), "weight_only" (com.microsoft.MatMulNBits with
    `bits` 4 or 8 and one scale per `block_size` weights; with awq, channels are scaled by activation statistics first).
    calibration_data: a directory of .npz files, one such file, or dicts of arrays by input name.
    method: how activation ranges are chosen: "minmax", "percentile" or "mse" (default).
    smooth_quant: exponent (usually 0.5) with which outliers of activations are migrated to weights.
    keep_float: names or types of operators that stay float ("head/*", "Gemm"); keep_float_budget: signal-to-noise ratio
    in dB of each output, up to which the layers with the largest errors stay float."""
    _check("mode", mode, ("static", "dynamic", "weight_only"))
    _check("method", method or "mse", _METHODS)
    _check("weight_method", weight_method, ("max", "mse"))
    _check("activation_type", activation_type, ("uint8", "int8"))
    _check("bits", bits, (4, 8))
    _arguments.whole("block_size", block_size)
    _arguments.whole("max_samples", max_samples, 1)
    _arguments.number("percentile", percentile, "more than 50, at most 100", 50, 100)
    if smooth_quant is not None:
        _arguments.number("smooth_quant", smooth_quant, "an exponent from 0 to 1", -1e-300, 1)
    if not isinstance(model, (str, os.PathLike, bytes)) and not hasattr(model, "graph"):
        raise DTypeError(f"a model is given as a path, bytes or an onnx.ModelProto, not as {type(model).__name__}")
    if block_size < 16 or block_size & (block_size - 1):
        raise Error(f"block_size is {block_size}; expected a power of two of 16 or more")
    if isinstance(model, (str, os.PathLike)) and not os.path.exists(model):
        raise Error(f"can't open {model}: no such file")
    if output is not None:
        output = _arguments.path("output", output)
        _outputs.check(output, [model] if isinstance(model, (str, os.PathLike)) else [])
        if not os.fspath(output).endswith(".onnx"):
            raise Error(f"can't write '{os.fspath(output)}': a quantised model is called .onnx")
    if isinstance(model, (str, os.PathLike)) and os.fspath(model).endswith(".so"):
        raise Error(f"{os.fspath(model)} is compiled already: quantise the .onnx file")
    needs = "static quantisation" if mode == "static" else "awq" if awq else \
        "keep_float_budget" if keep_float_budget is not None else None
    if calibration_data is None and needs:
        raise Error(f"{needs} needs calibration data: a directory of .npz files, or dicts of arrays by input name\n"
                    "help: give it (calibration_data=, --calibration-data DIR); what needs none: --dynamic, --weight-only 4")
    keep_float = tuple(_arguments.strings("keep_float", keep_float))
    options = _Options(mode, method or "mse", percentile, weight_method, per_channel, reduce_range,
                       symmetric_activations, np.dtype(activation_type).type, bias_correction, bits, block_size,
                       symmetric_weights, accuracy_level)
    samples = read_samples(calibration_data, max_samples) if calibration_data is not None else []
    extra: set[str] = set()
    doubled = 1
    while True:
        result, report, results = _rewrite(model, options, samples, keep_float, smooth_quant, awq, extra)
        _compare(result, samples, results[:8], report)
        worst = min(report["outputs"].values(), default=np.inf)
        if keep_float_budget is None or worst >= keep_float_budget or not report["layers"]:
            break
        order = sorted(report["layers"], key=lambda r: min(r.get("input_sqnr", np.inf), r["weight_sqnr"]))
        extra |= {row["name"] for row in order[:doubled]}
        doubled *= 2
    quantised = Quantized(result, report)
    if output is not None:
        quantised.save(output)
    return quantised
