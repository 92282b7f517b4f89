# SPDX-License-Identifier: Apache-2.0
"""Models and operands that somebody made to do harm, or that are wrong in one place, each with what has to come of it.

`all_cases()` lists them; `run_case` runs one in this process, `run_all` each in a child of its own.
"""
from .attributes import attribute_cases
from .base import Case
from .contrib import contrib_cases
from .declared import declared_cases
from .external import external_cases
from .graphs import graph_cases
from .indices import index_cases
from .learning import learning_cases
from .newer import newer_cases
from .older import older_cases
from .quantised import quantised_cases
from .runner import in_child, run_all, run_case
from .runs import run_cases
from .sizes import empty_cases, size_cases
from .tensors import tensor_cases
from .text import text_cases
from .values import value_cases
from .wire import wire_cases

__all__ = ["Case", "all_cases", "in_child", "run_all", "run_case"]


def all_cases():
    """Every case, names unique."""
    cases = [case for family in (wire_cases, graph_cases, declared_cases, tensor_cases, external_cases, attribute_cases,
                                 index_cases, size_cases, empty_cases, quantised_cases, contrib_cases,
                                 value_cases, learning_cases, text_cases, newer_cases, older_cases, run_cases) for case in family()]
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return cases
