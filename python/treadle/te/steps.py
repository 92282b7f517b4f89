# SPDX-License-Identifier: Apache-2.0
"""Steps of lowering a schedule for scripts that take them one by one, and the graph of a schedule's operations."""
from collections.abc import Mapping, Sequence
from typing import Any

from ..error import Error
from ..ir import IRModule
from ..tir import Buffer, BufferLoad, BufferStore, PrimFunc, Var, decl_buffer
from ..tir.checks import ScheduleError
from ..tir.stmt import Block
from ..tir.stmt_functor import post_order_visit
from .parameters import parameters
from .schedule import Schedule, _operation
from .tensor import Operation, Tensor


def _nodes(stmt, kinds):
    found = []
    post_order_visit(stmt, lambda node: found.append(node) if isinstance(node, kinds) else None)
    return found


def VerifyCompactBuffer(stmt: Any) -> bool:  # pylint: disable=invalid-name
    """Whether blocks of the statement bind parts of buffers, as tensorized ones do."""
    return any(len(block.match_buffers) for block in _nodes(stmt, Block))


def SchedulePostProcToPrimFunc(arg_list: Sequence[Any], body: Any,  # pylint: disable=invalid-name
                               extern_buffer: Mapping[Tensor, Buffer] | None = None) -> PrimFunc:
    """The function of a statement that ScheduleOps made. Parameters are tensors, buffers that `extern_buffer` gives
    tensors, and variables."""
    params, bound = parameters(arg_list, extern_buffer)
    buffers = {node.buffer.name: node.buffer for node in _nodes(body, (BufferLoad, BufferStore))}
    made, buffer_map = [], {}
    for tensor, buffer in zip(params, bound):
        if isinstance(tensor, Var):
            made.append(tensor)
            continue
        inside = buffers.get(tensor.op.name if tensor.op.num_outputs == 1 else f"{tensor.op.name}.v{tensor.value_index}")
        if buffer is not None and (len(buffer.strides) or not _is_zero(buffer.elem_offset)):
            raise Error(f"SchedulePostProcToPrimFunc: buffer {buffer.name} has strides or an offset; "
                        "tvm.lower(schedule, args, binds=) takes such buffers")
        if inside is None:
            inside = buffer if buffer is not None else decl_buffer(list(tensor.shape), str(tensor.dtype), tensor.op.name)
        made.append(Var((buffer.name if buffer is not None else tensor.op.name), "handle"))
        buffer_map[made[-1]] = inside
    function = PrimFunc(made, body, buffer_map=buffer_map)
    return IRModule.from_expr(function.with_attr({"global_symbol": "main", "tir.noalias": True}))["main"]


def _is_zero(offset):
    return offset is None or getattr(offset, "value", None) == 0


def CreateReadGraph(ops: Sequence[Any]) -> dict[Operation, list[Tensor]]:  # pylint: disable=invalid-name
    """The tensors that each operation reads, for `ops` and all that these depend on."""
    found: dict[Operation, list[Tensor]] = {}
    stack = [_operation("CreateReadGraph", op) for op in ops]
    while stack:
        op = stack.pop()
        if op not in found:
            found[op] = list(op.input_tensors)
            stack += [tensor.op for tensor in found[op]]
    return found


def PostDFSOrder(roots: Sequence[Any], graph: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:  # pylint: disable=invalid-name
    """The operations of a read graph that `roots` depend on, each after those that it reads."""
    if not isinstance(graph, Mapping):
        raise ScheduleError(f"PostDFSOrder: expected a graph, as CreateReadGraph makes it, not {graph!r}")
    order: list[Operation] = []
    seen: set[Operation] = set()
    stack = [(op, False) for op in reversed([_operation("PostDFSOrder", root) for root in roots])]
    while stack:
        op, done = stack.pop()
        if done:
            order.append(op)
        elif op not in seen and op in graph:
            seen.add(op)
            stack.append((op, True))
            stack += [(tensor.op, False) for tensor in reversed(list(graph[op]))]
    return order


def CreateAttachPath(schedule: Schedule) -> dict[Operation, list[Any]]:  # pylint: disable=invalid-name
    """For the operation of each stage the axes that it is computed within, from the innermost on."""
    if not isinstance(schedule, Schedule):
        raise ScheduleError(f"CreateAttachPath: expected a schedule, not {schedule!r}")
    found = {}
    for stage in schedule.stages:
        path, at = [], stage
        while at is not None and at.attach_type == at.SCOPE and at.attach_stage is not None:
            leaves = list(at.attach_stage.leaf_iter_vars)
            path += reversed(leaves[:leaves.index(at.attach_ivar) + 1])
            at = at.attach_stage
        found[stage.op] = path
    return found


NAMES = (VerifyCompactBuffer, SchedulePostProcToPrimFunc, CreateReadGraph, PostDFSOrder, CreateAttachPath)
