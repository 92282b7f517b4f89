# SPDX-License-Identifier: Apache-2.0
"""Visiting and rewriting statements."""
from .._ffi import Api

_api = Api("tir")


def post_order_visit(node, visit):
    """Calls `visit` once with each statement and expression below `node`, children first."""
    _api.PostOrderVisit(node, visit)


def ir_transform(stmt, preorder=None, postorder=None, only_enable=None):
    """The statement rewritten: `preorder(node)` is called before the children of each node and replaces it where it
    gives something, `postorder(node)` after them. `only_enable` lists kinds of nodes, such as "tir.For"."""
    return _api.IRTransform(stmt, preorder, postorder, [str(kind) for kind in only_enable or []])


def substitute(node, vmap):
    """The statement or expression with variables replaced."""
    return _api.Substitute(node, vmap)
