# SPDX-License-Identifier: Apache-2.0
"""Modules."""
from .base import IRModule

__all__ = ["IRModule"]
