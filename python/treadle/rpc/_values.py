# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of remote calls: plain values and the bytes of tensors travel; modules, functions and tensors of
the server stay there and are known by numbers."""
import numpy as np

from .. import _core, nd
from .._ffi import PackedFunc
from ..error import Error
from ..runtime import Module


def pack_tensor(tensor, blobs):
    host = tensor if tensor.device.device_type == 1 else tensor.copyto(nd.cpu())
    blobs.append(_core.nd_bytes(host).tobytes() if host.size else b"")
    return {"t": "tensor", "shape": [int(d) for d in host.shape], "dtype": str(host.dtype), "blob": len(blobs) - 1}


def unpack_tensor(value, blobs):
    shape, dtype = [int(d) for d in value["shape"]], str(value["dtype"])
    data = np.frombuffer(blobs[value["blob"]], np.uint8).copy()
    tensor = nd.empty(shape, dtype)
    expected = len(_core.nd_bytes(tensor)) if tensor.size else 0
    if expected != len(data):
        raise Error(f"a tensor of shape {tuple(shape)} and type {dtype} has {expected} bytes, not {len(data)}")
    return _core.nd_from_bytes(data, tuple(shape), dtype, False, data) if expected else tensor


def pack(value, blobs, refer=None):
    """A value as JSON. refer: what objects of this side become (the server's: a number)."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"t": "plain", "v": value}
    if isinstance(value, (np.integer, np.floating)):
        return {"t": "plain", "v": value.item()}
    if isinstance(value, (bytes, bytearray)):
        blobs.append(bytes(value))
        return {"t": "bytes", "blob": len(blobs) - 1}
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Array":
        return {"t": "list", "v": [pack(item, blobs, refer) for item in value]}
    if isinstance(value, nd.Device):
        return {"t": "device", "v": [value.device_type, value.device_id]}
    packed = getattr(value, "rpc_value", None)
    if packed is not None:
        return packed(blobs)
    if refer is not None and isinstance(value, (nd.NDArray, Module, PackedFunc)):
        return refer(value)
    if isinstance(value, nd.NDArray):
        return pack_tensor(value, blobs)
    raise Error(f"a {type(value).__name__} can't go to another process; numbers, text, bytes, tensors, devices and what "
                "came from the session can")


def unpack(value, blobs, resolve):
    """The value that `pack` wrote; resolve: what a number (of class "ref") stands for."""
    kind = value["t"]
    if kind == "plain":
        return value["v"]
    if kind == "bytes":
        return bytes(blobs[value["blob"]])
    if kind == "list":
        return [unpack(item, blobs, resolve) for item in value["v"]]
    if kind == "device":
        return nd.Device(int(value["v"][0]), int(value["v"][1]))
    if kind == "tensor":
        return unpack_tensor(value, blobs)
    return resolve(value)
