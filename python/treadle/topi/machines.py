# SPDX-License-Identifier: Apache-2.0
"""Computes that the original names by machine or library, beside their schedules: topi.x86.dense_cblas."""
from typing import Any

from ..contrib import cblas
from ..error import UnsupportedOpError
from . import nn
from ._operators import operator_of


def _with_bias(product, bias):
    return product if bias is None else operator_of("nn.bias_add")(product, bias, axis=-1)


def _same_dtype(name, tensor, out_dtype):
    if out_dtype and str(out_dtype) != str(tensor.dtype):
        raise UnsupportedOpError(f"topi: {name} gives the dtype of its operands, {tensor.dtype}, not {out_dtype}")


def dense(data: Any, weight: Any, bias: Any = None, out_dtype: str | None = None) -> Any:
    """nn.dense; the schedule chooses whether weights are packed."""
    return nn.dense(data, weight, bias, out_dtype)


def dense_cblas(data: Any, weight: Any, bias: Any = None, out_dtype: str | None = None) -> Any:
    """nn.dense by the library of contrib.cblas."""
    _same_dtype("dense_cblas", data, out_dtype)
    return _with_bias(cblas.matmul(data, weight, False, True), bias)


def batch_matmul(tensor_x: Any, tensor_y: Any, out_shape: Any = None, out_dtype: str | None = None, transpose_a: bool = False,
                 transpose_b: bool = True) -> Any:
    """nn.batch_matmul."""
    return nn.batch_matmul(tensor_x, tensor_y, out_shape, out_dtype, transpose_a, transpose_b)


def batch_matmul_cblas(tensor_x: Any, tensor_y: Any, out_shape: Any = None, out_dtype: str | None = None, trans_a: bool = False,
                       trans_b: bool = True) -> Any:
    """nn.batch_matmul by the library of contrib.cblas."""
    del out_shape  # follows from the operands
    _same_dtype("batch_matmul_cblas", tensor_x, out_dtype)
    return cblas.batch_matmul(tensor_x, tensor_y, trans_a, trans_b)


def _refused(name, library):
    def compute(*_args, **_kwargs):
        raise UnsupportedOpError(f"there is no topi compute {name}: {library} isn't called from tensor expressions; "
                                 f"{name.rsplit('_', 1)[0]}_cblas is there, and external code generators for models")

    return compute


COMPUTES = {"dense_nopack": dense, "dense_pack": dense, "dense_small_batch": dense, "dense_large_batch": dense,
            "dense_cblas": dense_cblas, "batch_matmul": batch_matmul, "batch_matmul_cblas": batch_matmul_cblas}
for _product in ("dense", "batch_matmul"):
    for _library, _name in (("mkl", "MKL"), ("mkldnn", "oneDNN"), ("cublas", "cuBLAS"), ("cublaslt", "cuBLAS"),
                            ("rocblas", "rocBLAS"), ("tensorcore", "CUDA")):
        COMPUTES[f"{_product}_{_library}"] = _refused(f"{_product}_{_library}", _name)
