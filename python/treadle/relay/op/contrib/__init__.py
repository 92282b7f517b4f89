# SPDX-License-Identifier: Apache-2.0
"""Operators of the namespace contrib, and what external code generators take: pattern tables."""
from .._make import OpNamespace
from .register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register_pattern_table"]

_operators = OpNamespace("contrib.")


def __getattr__(name):
    return getattr(_operators, name)
