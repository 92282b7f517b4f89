# SPDX-License-Identifier: Apache-2.0
"""Parameters by name as bytes."""
from .. import nd
from .._ffi import get_global_func


def save_param_dict(params):
    """Bytes that hold the tensors of a dict."""
    tensors = {name: value if isinstance(value, nd.NDArray) else nd.array(value) for name, value in params.items()}
    return get_global_func("runtime.SaveParams")(tensors)


def load_param_dict(param_bytes):
    """The tensors that save_param_dict wrote."""
    return dict(get_global_func("runtime.LoadParams")(bytes(param_bytes)).items())
