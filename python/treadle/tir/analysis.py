# SPDX-License-Identifier: Apache-2.0
"""Questions about loop-level functions, under the original's names."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._dtype import DataType
from .._ffi import Array
from ..ir import Node, structural_equal
from .expr import Var
from .function import Buffer, PrimFunc
from .stmt import Allocate, AttrStmt, Block, For, LetStmt, Stmt
from .stmt_functor import post_order_visit

if TYPE_CHECKING:
    from ..ir import Node, PrimExpr
    from .expr import Var
    from .function import Buffer, PrimFunc


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are equal, their free variables being the same ones."""
    return structural_equal(lhs, rhs, tolerance=0)


def _bindings(body):
    """The variables that a body binds, once for each time."""
    bound = []

    def visit(node):
        if isinstance(node, For):
            bound.append(node.loop_var)
        elif isinstance(node, LetStmt) or node._type_key() == "tir.Let":
            bound.append(node.var)
        elif isinstance(node, Allocate):
            bound.append(node.buffer.data)
        elif isinstance(node, AttrStmt) and node.node is not None and "var" in getattr(node.node, "_field_names", list)():
            bound.append(node.node.var)

    post_order_visit(body, visit)
    return bound


def verify_ssa(func: PrimFunc) -> bool:
    """Whether each variable of a function is bound once."""
    body = func.body if isinstance(func, PrimFunc) else func
    bound = _bindings(body)
    return len(set(bound)) == len(bound)


def undefined_vars(node: Node, defs: Iterable[Var] = ()) -> list[Var]:
    """The variables that a statement or expression uses without binding them, except those of `defs`."""
    bound, found = [*_bindings(node), *defs], []

    def visit(inner):
        if isinstance(inner, Var) and not any(inner.same_as(known) for known in (*bound, *found)):
            found.append(inner)

    post_order_visit(node, visit)
    return found


def _threads(func):
    """Extents of thread axes by tag."""
    extents = {}

    def visit(node):
        if isinstance(node, For) and getattr(node, "thread_binding", None) is not None:
            extents.setdefault(str(node.thread_binding.thread_tag), []).append(node.extent)
        if isinstance(node, AttrStmt) and str(node.attr_key) == "thread_extent":
            extents.setdefault(str(node.node.thread_tag), []).append(node.value)

    post_order_visit(func.body, visit)
    return extents


def verify_memory(func: PrimFunc) -> bool:
    """Whether the host touches no memory of a device: a function for one ("target" opencl) binds thread axes."""
    attrs = func.attrs
    target = str(attrs["target"]) if attrs is not None and "target" in attrs else ""
    return not target.startswith("opencl") or bool(_threads(func))


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether a function keeps to limits of a GPU: "max_threads_per_block", "max_thread_x", "_y", "_z"."""
    limits = {str(key): int(value) for key, value in constraints.items()}
    unknown = set(limits) - {"max_threads_per_block", "max_thread_x", "max_thread_y", "max_thread_z"}
    if unknown:
        raise ValueError(f"verify_gpu_code knows no limit '{unknown.pop()}'")
    total = 1
    for tag, extents in _threads(func).items():
        if not tag.startswith("threadIdx."):
            continue
        if len({int(extent) for extent in extents}) != 1:
            return False
        total *= int(extents[0])
        if int(extents[0]) > limits.get(f"max_thread_{tag[-1]}", 1 << 62):
            return False
    return total <= limits.get("max_threads_per_block", 1 << 62)


__all__ = ["calculate_workspace_bytes", "expr_deep_equal", "undefined_vars", "verify_gpu_code", "verify_memory",
           "verify_ssa"]


def get_block_read_write_region(block: Node, buffer_var_map: Mapping[Var, Buffer] | None = None) -> list[list[Any]]:
    """The parts of buffers that a block's body reads and those that it writes, whatever the block itself says."""
    del buffer_var_map  # loads name their buffers
    found = Block(block.iter_vars, None, None, block.name_hint, block.body, block.init, block.alloc_buffers,
                  block.match_buffers, {})
    return [found.reads, found.writes]


def get_block_access_region(block: Node, buffer_var_map: Mapping[Var, Buffer] | None = None) -> list[list[Any]]:
    """What get_block_read_write_region gives, and the parts that are reached by address: none, loads name buffers."""
    return [*get_block_read_write_region(block, buffer_var_map), []]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Any]:
    """For each buffer of a function the innermost block or loop that holds all accesses of it; None: the function."""
    paths = {}

    def walk(node, path):
        if isinstance(node, (Block, For)):
            path = (*path, node)
        if getattr(node, "_type_key", str)() in ("tir.BufferLoad", "tir.BufferStore"):
            known = paths.setdefault(node.buffer, path)
            same = [a for a, b in zip(known, path) if a.same_as(b)]
            paths[node.buffer] = tuple(same)
        for name in node._field_names():
            value = getattr(node, name)
            for each in value if isinstance(value, Array) else [value]:
                if isinstance(each, Node) and not isinstance(each, Buffer):
                    walk(each, path)

    walk(func.body, ())
    return {buffer: path[-1] if path else None for buffer, path in paths.items()}


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """The most bytes that buffers allocated within a function take at once; each takes a multiple of the alignment."""
    def size(buffer):
        bits = DataType(str(buffer.dtype)).bits * DataType(str(buffer.dtype)).lanes
        count = 1
        for dim in buffer.shape:
            count *= int(dim)
        return -(-(-(-count * bits // 8)) // workspace_byte_alignment) * workspace_byte_alignment

    def most(node):
        own = size(node.buffer) if node._type_key() == "tir.Allocate" else 0
        own += sum(size(b) for b in node.alloc_buffers) if isinstance(node, Block) else 0
        inner = [0]
        for name in node._field_names():
            value = getattr(node, name)
            inner += [most(each) for each in (value if isinstance(value, Array) else [value]) if isinstance(each, Stmt)]
        return own + max(inner)

    return most(func.body)
