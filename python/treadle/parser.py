# SPDX-License-Identifier: Apache-2.0
"""The text form of graph IR, under TVM's name."""
from .relay.parser import fromtext, parse, parse_expr

__all__ = ["fromtext", "parse", "parse_expr"]
