# SPDX-License-Identifier: Apache-2.0
"""Importers."""
from .._ffi import get_global_func


def from_onnx(model, shape=None, dtype="float32", opset=None, freeze_params=True, convert_config=None,
              export_node_renamed_model_path=None):
    """(module, params) of an ONNX model: onnx.ModelProto, bytes, or the path of a file.

    shape: dict from input names to shapes. Without freeze_params the initialisers are parameters of main.
    """
    shapes = {name: list(map(int, dims)) for name, dims in (shape or {}).items()}
    directory = ""
    if hasattr(model, "SerializeToString"):
        data = model.SerializeToString()
    elif isinstance(model, (bytes, bytearray)):
        data = bytes(model)
    else:
        import pathlib

        path = pathlib.Path(model)
        data, directory = path.read_bytes(), str(path.parent)
    module, params = get_global_func("relay.frontend.FromONNX")(data, shapes, {}, directory, bool(freeze_params))
    return module, dict(params.items())
