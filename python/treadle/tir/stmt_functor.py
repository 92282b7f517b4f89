# SPDX-License-Identifier: Apache-2.0
"""Visiting and rewriting statements."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._ffi import Api

if TYPE_CHECKING:
    from ..ir import Node
    from .expr import Var
    from .stmt import Stmt

_api = Api("tir")


def post_order_visit(node: Node, visit: Callable[[Any], Any]) -> None:
    """Calls `visit` once with each statement and expression below `node`, children first."""
    _api.PostOrderVisit(node, visit)


def ir_transform(stmt: Stmt, preorder: Callable[[Any], Any] | None = None,
                 postorder: Callable[[Any], Any] | None = None, only_enable: Sequence[str] | None = None) -> Stmt:
    """The statement rewritten: `preorder(node)` is called before the children of each node and replaces it where it
    gives something, `postorder(node)` after them. `only_enable` lists kinds of nodes, such as "tir.For"."""
    return _api.IRTransform(stmt, preorder, postorder, [str(kind) for kind in only_enable or []])


def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """The statement or expression with variables replaced."""
    return _api.Substitute(node, vmap)
