# SPDX-License-Identifier: Apache-2.0
"""Passes over operators on quantised tensors: relay.qnn.transform."""
from __future__ import annotations

from typing import Any


def CanonicalizeOps() -> Any:  # pylint: disable=invalid-name
    """Writes operators of qnn as plain ones on integers."""
    from .. import transform

    passes: Any = transform
    return passes.QnnCanonicalize()


def Legalize() -> Any:  # pylint: disable=invalid-name
    """Asks the rules FTVMQnnLegalize of operators."""
    from .. import transform

    passes: Any = transform
    return passes.Legalize()
