# SPDX-License-Identifier: Apache-2.0
"""Importers."""
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from ..._ffi import get_global_func
from ..._nd import NDArray
from ...error import DTypeError, UnsupportedOpError
from ...ir import IntImm, IRModule, PrimExpr
from .pytorch import from_pytorch  # noqa: F401


def _with_opset(data, opset):
    import onnx

    proto = onnx.load_model_from_string(data)
    for imported in proto.opset_import:
        if imported.domain in ("", "ai.onnx"):
            imported.version = int(opset)
    return proto.SerializeToString()


def _write_renamed(data, path):
    """Writes the model with nodes named <operator>_<number in the graph>; into a folder, as <graph>_renamed.onnx."""
    import onnx

    proto = onnx.load_model_from_string(data)
    for number, node in enumerate(proto.graph.node):
        node.name = f"{node.op_type}_{number}"
    path = pathlib.Path(path)
    name = "".join(c if c.isalnum() or c in "-._" else "_" for c in proto.graph.name) or "model"
    onnx.save(proto, path / f"{name}_renamed.onnx" if path.is_dir() else path)


def _check_dtype(dtype, inputs):
    """Element types come from the model; what a caller says of them has to agree."""
    from ..._dtype import DataType, to_numpy
    from ...error import DTypeError, Error

    names = {name: var.type_annotation for name, var in inputs.items()}
    if isinstance(dtype, dict):
        for name, wanted in dtype.items():
            if name not in names:
                raise Error(f"dtype: the model has no input '{name}'; its inputs are: {', '.join(names)}")
            if str(names[name].dtype) != str(DataType(wanted)):
                raise DTypeError(f"dtype: input '{name}' is {names[name].dtype} in the model, not {wanted}")
        return
    given = DataType(dtype)
    to_numpy(given)  # refuses what is no type
    held = sorted({str(type_.dtype) for type_ in names.values() if hasattr(type_, "dtype")})
    if given != "float32" and held and given not in held:
        raise DTypeError(f"dtype: no input of the model is {given}; there are inputs of {', '.join(held)}")


def _dimension(value):
    """A dimension as the importer takes it."""
    unknown = value is None or (isinstance(value, PrimExpr) and not isinstance(value, IntImm))
    if not unknown and not hasattr(value, "__index__") and not isinstance(value, IntImm):
        raise DTypeError(f"{value!r} can't be a dimension; expected a whole number, relay.Any() or None")
    return -2 if unknown else int(value)


def from_onnx(model: Any, shape: Mapping[str, Iterable[int]] | None = None, dtype: str | Mapping[str, str] = "float32",
              opset: int | None = None, freeze_params: bool = True, convert_config: Mapping[str, Any] | None = None,
              export_node_renamed_model_path: "str | os.PathLike[str] | None" = None) -> tuple[IRModule, dict[str, NDArray]]:
    """(module, params) of an ONNX model: onnx.ModelProto, bytes, or the path of a file.

    shape: dict from input names to shapes; relay.Any() or None is a dimension that isn't known, -1 leaves the model's. dtype: of inputs; a dict has to agree with the model. opset: version of the
    operators, instead of the one that the model imports. Without freeze_params the initialisers are parameters of main.
    export_node_renamed_model_path: where the model is written with each node named by its operator and number.
    convert_config has no options; a dict with any is an Error.
    """
    from ... import _arguments
    from ...error import Error
    from ...model import located, serialised

    if convert_config:
        raise Error(f"convert_config: unknown option '{next(iter(convert_config))}'; there are none")
    _arguments.mapping("shape", shape or {}, "{'x': (1, 3, 224, 224)}")
    for name, dims in (shape or {}).items():
        if isinstance(dims, str) or not hasattr(dims, "__iter__"):
            raise Error(f"shape['{name}'] is {dims!r}; expected a tuple such as (1, 3, 224, 224)")
    shapes = {name: list(map(_dimension, dims)) for name, dims in (shape or {}).items()}
    source, directory = located(model)
    if opset is not None or export_node_renamed_model_path is not None:
        data, directory = serialised(model)
        if opset is not None:
            _arguments.whole("opset", opset, 1)
            data = _with_opset(data, opset)
        if export_node_renamed_model_path is not None:
            _write_renamed(data, export_node_renamed_model_path)
        source = data
    if isinstance(source, pathlib.Path):
        module, params = get_global_func("relay.frontend.FromONNXFile")(str(source), shapes, bool(freeze_params))
    else:
        module, params = get_global_func("relay.frontend.FromONNX")(source, shapes, directory, bool(freeze_params))
    _check_dtype(dtype, {var.name_hint: var for var in module["main"].params})
    return module, dict(params.items())


# Importers of the original for other formats: what writes such models as ONNX.
_TO_ONNX = {"from_caffe": "a converter of Caffe's", "from_caffe2": "caffe2.python.onnx", "from_coreml": "onnxmltools",
            "from_darknet": "PyTorch, or a converter of Darknet's", "from_keras": "tf2onnx", "from_mxnet": "mxnet.onnx",
            "from_oneflow": "oneflow_onnx", "from_paddle": "paddle2onnx", "from_tensorflow": "tf2onnx",
            "from_tflite": "tf2onnx"}


def _absent(name, converter):
    def importer(*_args, **_kwargs):
        raise UnsupportedOpError(f"there is no relay.frontend.{name}: {converter} writes such models as ONNX, which "
                                 "relay.frontend.from_onnx reads")

    importer.__name__ = importer.__qualname__ = name
    importer.__doc__ = f"Refused: {converter} writes such models as ONNX."
    return importer


globals().update({name: _absent(name, converter) for name, converter in _TO_ONNX.items()})
