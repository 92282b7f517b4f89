# SPDX-License-Identifier: Apache-2.0
"""Operators of the graph IR as functions: relay.op.nn.conv2d, relay.op.add, ... Each takes its operands, then its
attributes; help() of a function shows what the operator declares."""
from __future__ import annotations

import sys
import typing as _typing

from ...ir import Op, RelayExpr, register_op_attr
from ..expr import Call, as_expr
from . import _composites, _detection, _functions, _qnn_transform, _random, _refused, _sparse, contrib
from ._make import OpNamespace, call_op, make
from .strategy import (OpImplementation, OpSpecialization, OpStrategy, register_broadcast_schedule, register_compute,
                       register_injective_schedule, register_reduce_schedule, register_schedule, register_strategy,
                       remove_strategy)

if _typing.TYPE_CHECKING:  # of each there is a stub, which tools/docs/op_stubs.py writes
    from . import annotation, dyn, image, memory, nn, qnn, random, tensor, vision, vm
    from .tensor import *  # noqa: F403

    tensor = transform = reduce = algorithm = root = tensor
else:
    nn = OpNamespace("nn.", {**_functions.NN, **_composites.NN, **_sparse.NN, **_refused.NN})
    image = OpNamespace("image.", {**_functions.IMAGE, **_composites.IMAGE})
    vision = OpNamespace("vision.", {**_detection.VISION, **_refused.VISION})
    annotation = OpNamespace("annotation.", _functions.ANNOTATION)
    qnn = OpNamespace("qnn.", {**_composites.QNN, "transform": _qnn_transform})
    qnn.op = qnn  # both relay.qnn.op.conv2d and relay.op.qnn.conv2d
    memory = OpNamespace("memory.", _refused.MEMORY)
    random = OpNamespace("random.", _random.FUNCTIONS)
    dyn = OpNamespace("dyn.")
    vm = OpNamespace("vm.")
    # The original's modules of operators without a prefix.
    tensor = transform = reduce = algorithm = root = OpNamespace("", {
        **_functions.ROOT, **_composites.ROOT, **_sparse.ROOT, **_refused.ROOT})


# `from treadle.relay.op.nn import conv2d` and `import treadle.relay.op.annotation` find them.
for _name in ("nn", "image", "vision", "annotation", "memory", "random", "dyn", "vm", "tensor", "transform", "reduce",
              "algorithm"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name]


class _ExprOperators:
    """What arithmetic of expressions (ir.RelayExpr) stands for."""

    @staticmethod
    def call(name, args):
        return getattr(root, name)(*(as_expr(arg) for arg in args))

    @staticmethod
    def cast(expr, dtype):
        return root.cast(expr, dtype)

    @staticmethod
    def apply(function, args):
        return Call(function, args)


RelayExpr._operators = _ExprOperators


class OpPattern:
    """How an operator may be fused."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


def get(op_name: str) -> Op:
    """The operator of that name."""
    return Op.get(op_name)


def _register(key):
    def register(op_name, value=None, level=10):
        return register_op_attr(op_name, key, value, level)

    register.__doc__ = f"Sets the operator's {key}; without a value a decorator."
    return register


register_legalize = _register("FTVMLegalize")
register_alter_op_layout = _register("FTVMAlterOpLayout")
register_pattern = _register("TOpPattern")
register_stateful = _register("TOpIsStateful")
def register(op_name: str, describe: str = "") -> Op:
    """A new operator. Op.get(op_name) takes its type relation, operands and so on."""
    from ...ir.base import _api

    _api.RegisterOp(op_name, describe)
    return Op.get(op_name)


register_mixed_precision_conversion = _register("FTVMMixedPrecisionConversionType")


def __getattr__(name: str) -> _typing.Any:
    return getattr(root, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(root)})
