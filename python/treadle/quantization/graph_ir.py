# SPDX-License-Identifier: Apache-2.0
"""relay.quantize: quantisation of graph IR under TVM's names. qconfig and quantize put scales around products and
convolutions; building makes integers of what lies between (FakeQuantizationToInteger). treadle.quantize is for ONNX
and has more methods."""
import dataclasses
import threading
from typing import Any

import numpy as np

from .._arguments import mapping, number, suggest
from ..error import DTypeError, Error
from ..ir import IRModule
from ..relay import transform
from ..relay.build_module import bind_params_by_name
from ..relay.expr import Call, Constant, Function, Tuple, const
from ..relay.expr_functor import ExprMutator
from ..relay.interpreter import create_executor
from ..relay.op import qnn
from ..transform import Sequential
from .ranges import Magnitudes

_STATE = threading.local()


@dataclasses.dataclass
class QConfig:
    """Options; those that stand for steps which aren't taken apart here must keep their defaults."""
    nbit_input: int = 8
    nbit_weight: int = 8
    nbit_activation: int = 32
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    weight_scale: str = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: tuple = (0,)
    percentile: float = 99.99
    do_simulation: bool = False
    round_for_shift: bool = True
    debug_enabled_ops: object = None
    rounding: str = "UPWARD"
    calibrate_chunk_by: int = -1
    partition_conversions: str = "disabled"

    def __post_init__(self):
        for name, value in (("nbit_input", 8), ("nbit_weight", 8), ("nbit_activation", 32), ("dtype_input", "int8"),
                            ("dtype_weight", "int8"), ("dtype_activation", "int32"), ("do_simulation", False),
                            ("debug_enabled_ops", None), ("partition_conversions", "disabled")):
            if getattr(self, name) != value:
                raise Error(f"qconfig: {name} is {getattr(self, name)!r}; only {value!r} is implemented")
        for name, allowed in (("calibrate_mode", ("global_scale", "kl_divergence", "percentile", "minmax")),
                              ("weight_scale", ("power2", "max"))):
            if getattr(self, name) not in allowed:
                raise Error(f"qconfig: {name} is {getattr(self, name)!r}; expected {' or '.join(allowed)}")
        number("qconfig: global_scale", self.global_scale, "a number above 0")
        number("qconfig: percentile", self.percentile, "a number above 0 and up to 100", 0, 100)

    def __enter__(self):
        self._outer = current_qconfig()
        _STATE.current = self
        return self

    def __exit__(self, *_):
        _STATE.current = self._outer


def current_qconfig() -> Any:
    """The innermost qconfig that this thread is in."""
    return getattr(_STATE, "current", None) or QConfig()


def qconfig(**options: Any) -> "QConfig":
    """Options as a context: with qconfig(global_scale=4.0): quantize(mod)."""
    known = [field.name for field in dataclasses.fields(QConfig)]
    for name in options:
        if name not in known:
            raise Error(f"qconfig has no option '{name}'{suggest(name, known)}; it has: {', '.join(known)}")
    return QConfig(**options)


def _layers(main, config):
    """The calls that are quantised: products and convolutions of float32 with constant weights, in order."""
    found, convolutions = [], 0

    class Finder(ExprMutator):
        def visit_call(self, call):
            nonlocal convolutions
            super().visit_call(call)
            name = getattr(call.op, "name", "")
            if name not in ("nn.conv2d", "nn.dense") or not isinstance(call.args[1], Constant):
                return call
            if name == "nn.conv2d":
                convolutions += 1
                if convolutions - 1 in tuple(config.skip_conv_layers or ()):
                    return call
            elif config.skip_dense_layer:
                return call
            if call.args[0].checked_type.dtype == "float32":
                found.append(call)
            return call

    Finder().visit(main)
    return found


def _scales(main, layers, config, dataset):
    """Of the inputs of layers."""
    most = 2.0**(config.nbit_input - 1)
    if config.calibrate_mode == "global_scale":
        return [config.global_scale / most] * len(layers)
    if dataset is None:
        raise Error(f"calibrate_mode '{config.calibrate_mode}' needs a dataset: dicts of inputs by name")
    exposed = IRModule.from_expr(Function(main.params, Tuple([call.args[0] for call in layers])))
    run = create_executor("graph", mod=exposed, target="llvm -mcpu=native").evaluate()
    percentile = config.percentile if config.calibrate_mode == "percentile" else 100
    largest = np.zeros(len(layers))
    histograms = [Magnitudes() for _ in layers]
    for sample in dataset:
        missing = [var.name_hint for var in main.params if var.name_hint not in sample]
        if missing:
            raise Error(f"a sample of the dataset has no input '{missing[0]}'; it has: {', '.join(sample)}")
        values = run(*(sample[var.name_hint] for var in main.params))
        for i in range(len(layers)):
            if config.calibrate_mode == "kl_divergence":
                histograms[i].add(values[i].numpy())
                continue
            largest[i] = max(largest[i], np.percentile(np.abs(values[i].numpy()), percentile))
    if config.calibrate_mode == "kl_divergence":
        largest = np.array([histogram.least_divergent(int(most)) for histogram in histograms])
    return list(np.maximum(largest, 1e-8) / (most - 1))


def _round_trip(x, scale, dtype="int8"):
    zero = const(0, "int32")
    return qnn.dequantize(qnn.quantize(x, const(float(scale), "float32"), zero, out_dtype=dtype),
                          const(float(scale), "float32"), zero)


def _weight(constant, config):
    """A constant weight in 8 bits, with one scale."""
    values = constant.data.numpy()
    largest = float(np.abs(values).max()) or 1.0
    most = 2.0**(config.nbit_weight - 1)
    scale = 2.0**np.ceil(np.log2(largest)) / most if config.weight_scale == "power2" else largest / (most - 1)
    codes = np.clip(np.rint(values / scale), -(most - 1), most - 1).astype(np.int8)
    return qnn.dequantize(const(codes), const(float(scale), "float32"), const(0, "int32"))


def quantize(mod: IRModule, params: Any = None, dataset: Any = None) -> Any:
    """The module with scales around products and convolutions, as the current qconfig says. `params` are bound;
    `dataset` (dicts of inputs by name) is for the calibrate_modes "kl_divergence", "percentile" and "minmax"."""
    config = current_qconfig()
    if not isinstance(mod, IRModule):
        raise DTypeError(f"quantize: expected an IRModule, got {type(mod).__name__}")
    main = mod["main"]
    params = mapping("params", params, "{'weight': array}")
    if params:
        main = bind_params_by_name(main, params)
    mod = Sequential([transform.InferType(), transform.SimplifyInference(), transform.FoldConstant(),
                      transform.FoldScaleAxis(), transform.CanonicalizeOps(), transform.FoldConstant(),
                      transform.InferType()])(IRModule.from_expr(main))
    main = mod["main"]
    layers = _layers(main, config)
    scale_of = dict(zip(layers, _scales(main, layers, config, dataset))) if layers else {}

    class Annotator(ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            if call not in scale_of:
                return new
            return Call(new.op, [_round_trip(new.args[0], scale_of[call]), _weight(call.args[1], config)], new.attrs,
                        list(new.type_args), new.span)

    return transform.InferType()(IRModule.from_expr(Annotator().visit(main)))
