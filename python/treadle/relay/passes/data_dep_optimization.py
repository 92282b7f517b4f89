# SPDX-License-Identifier: Apache-2.0
"""Passes that look at the values of parameters: bsr_dense.convert, simplify_fc_transpose.convert."""
from types import SimpleNamespace

import numpy as np

from ... import nd
from ...ir import IRModule
from .analyses import process_params, search_fc_transpose
from .rewrites import DenseToSparse, SimplifyFCTranspose


def _function(func):
    return func["main"] if isinstance(func, IRModule) else func


def _run(func, made):
    return made(IRModule.from_expr(func))["main"]


def _sparse(func, params, blocksize, sparsity_threshold):
    """(function, params): dense layers whose weights have at least that part of zeros read them in blocks."""
    func, params = _function(func), dict(params)
    found = process_params(func, params, blocksize, sparsity_threshold)
    return _run(func, DenseToSparse(found.weight_name, found.weight_shape)), params


def _turned(func, params):
    """(function, params): weights that are transposed before dense layers are stored so."""
    func, params = _function(func), dict(params)
    names = search_fc_transpose(func)
    func = _run(func, SimplifyFCTranspose(names))
    used = {param.name_hint for param in func.params}
    for name in names:
        value = params[name].numpy() if hasattr(params[name], "numpy") else np.asarray(params[name])
        params[f"{name}.T"] = nd.array(np.ascontiguousarray(value.T))
        if name not in used:
            del params[name]
    return func, params


bsr_dense = SimpleNamespace(convert=_sparse)
simplify_fc_transpose = SimpleNamespace(convert=_turned)
