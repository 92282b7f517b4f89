# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch as Relay, by way of ONNX. treadle.from_torch compiles them in one step."""
import importlib
import io
import warnings
from typing import Any

from ..._ffi import get_global_func
from ...error import DTypeError, Error, ShapeError, UnsupportedOpError


def _named_inputs(input_infos, default_dtype):
    """(name, shape, dtype) of each input, from (name, shape) or (name, (shape, dtype))."""
    found = []
    for info in input_infos:
        if not isinstance(info, (tuple, list)) or len(info) != 2 or not isinstance(info[0], str):
            raise ShapeError(f"from_pytorch: expected (name, shape) or (name, (shape, dtype)) for each input, not {info!r}")
        name, shape = info
        dtype = default_dtype
        if len(shape) == 2 and isinstance(shape[1], str):
            shape, dtype = shape
        try:
            found.append((name, tuple(int(dim) for dim in shape), dtype))
        except (TypeError, ValueError):
            raise ShapeError(f"from_pytorch: input '{name}' has the shape {shape!r}; expected integers (inputs that are lists "
                             f"or tuples aren't supported)") from None
    return found


def from_pytorch(script_module: Any, input_infos: Any, custom_convert_map: Any = None, default_dtype: str = "float32",
                 use_parser_friendly_name: bool = False) -> tuple[Any, Any]:
    """(module, parameters) of a torch.jit.ScriptModule or torch.nn.Module in inference mode.

    input_infos: for each input, in order, (name, shape) or (name, (shape, dtype)); they needn't be the module's own names.
    default_dtype: of inputs without one. PyTorch's exporter writes the module as ONNX, which is imported: errors of
    operators that it doesn't know are its own."""
    if custom_convert_map:
        raise UnsupportedOpError("from_pytorch: custom_convert_map isn't supported: register operators with "
                                 "torch.onnx.register_custom_op_symbolic, which PyTorch's exporter asks")
    if use_parser_friendly_name:
        raise UnsupportedOpError("from_pytorch: use_parser_friendly_name isn't needed: names with dots parse")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Error("from_pytorch needs PyTorch: pip install torch") from None
    if not isinstance(script_module, torch.nn.Module):
        raise DTypeError(f"from_pytorch: expected a torch.jit.ScriptModule or torch.nn.Module, not "
                         f"{type(script_module).__name__}")
    inputs = _named_inputs(input_infos, default_dtype)
    examples = []
    for name, shape, dtype in inputs:
        if not isinstance(getattr(torch, dtype, None), torch.dtype):
            raise DTypeError(f"from_pytorch: input '{name}': PyTorch has no data type {dtype!r}")
        examples.append(torch.zeros(shape, dtype=getattr(torch, dtype)))
    file = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(script_module, tuple(examples), file, input_names=[name for name, _, _ in inputs],
                              dynamo=False)
        except Exception as failure:  # noqa: BLE001 - the exporter raises errors of many kinds
            raise UnsupportedOpError(f"PyTorch can't write the module as ONNX: {str(failure).splitlines()[0]}") from failure
    module, params = get_global_func("relay.frontend.FromONNX")(file.getvalue(), {}, "", False)
    return module, dict(params.items())
