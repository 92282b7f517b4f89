# SPDX-License-Identifier: Apache-2.0
"""Schedules of operators under the original's names: schedule_injective(outs), schedule_conv2d_nchw(outs), ... They are
doors to one schedule: what is injective is computed where it is read, results are parallel and vectorised, or bound to
threads where the current target has them. Models compiled by relay.build don't use these but Treadle's own kernels."""
from collections.abc import Sequence
from typing import Any

from .. import te
from ..ir import IntImm
from ..target import Target

_LANES = 16
_THREADS = 64
_KINDS = ("adaptive_pool", "argwhere", "batch_matmul", "batch_matmul_cblas", "binarize_pack", "bitserial_conv2d_nchw", "bitserial_conv2d_nhwc",
          "bitserial_dense", "broadcast", "concatenate", "conv1d_ncw", "conv1d_nwc", "conv1d_transpose_ncw",
          "binary_dense", "bitpack", "conv2d_NCHWc", "conv2d_NCHWc_int8", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc", "conv2d_transpose_nchw", "conv3d_ncdhw",
          "conv3d_ndhwc", "conv3d_transpose_ncdhw", "correlation_nchw", "cumsum", "deformable_conv2d_nchw",
          "deformable_conv2d_nhwc", "dense", "dense_cblas", "dense_nopack", "dense_pack", "dense_small_batch", "depthwise_conv2d_NCHWc",
          "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc", "dilation2d_nchw", "dilation2d_nhwc", "einsum", "elemwise", "extern", "fast_softmax", "gather", "global_pool",
          "get_valid_counts", "group_conv2d_nchw", "group_conv2d_nhwc", "group_conv2d_transpose_nchw", "injective", "lrn", "lstm", "matmul", "multibox_prior", "multibox_transform_loc", "nms", "pool", "pool_grad", "proposal", "reduce", "reorg",
          "roi_align", "roi_pool", "scatter", "scatter_add", "softmax", "sort", "argsort",
          "sparse_dense", "sparse_transpose", "topk", "transpose", "unique")


def _is_injective(op):
    return type(op).__name__ == "ComputeOp" and not list(op.reduce_axis)


def schedule(outs: Sequence[Any]) -> Any:
    """The schedule of some outputs, for the current target."""
    outs = [outs] if isinstance(outs, te.Tensor) else list(outs)
    made = te.create_schedule([out.op for out in outs])
    target = Target.current()
    threads = target is not None and "gpu" in [str(key) for key in target.keys]
    outputs = [out.op for out in outs]
    readers = {}
    for stage in made.stages:
        for tensor in getattr(stage.op, "input_tensors", []):
            readers.setdefault(hash(tensor.op), []).append(stage)
    for stage in made.stages:
        op = stage.op
        if type(op).__name__ != "ComputeOp":
            continue
        is_output = any(op.same_as(out) for out in outputs)
        if not is_output and _is_injective(op):
            made[op].compute_inline()
        elif threads:
            _bind(made, op)
        elif len(list(op.axis)) > 0:
            _vectorize(made[op], list(op.axis), _is_injective(op))
    return made


def _bind(made, op):
    """Elements of the result go to threads; the terms of a single one do, each thread summing some of them first."""
    stage, axes, terms = made[op], list(op.axis), list(op.reduce_axis)
    if axes:
        fused = stage.fuse(*axes) if len(axes) > 1 else axes[0]
        outer, inner = stage.split(fused, factor=_THREADS)
        stage.bind(outer, te.thread_axis("blockIdx.x"))
        stage.bind(inner, te.thread_axis("threadIdx.x"))
    elif terms and op.num_outputs == 1:
        fused = stage.fuse(*terms) if len(terms) > 1 else terms[0]
        _, inner = stage.split(fused, factor=_THREADS)
        thread = te.thread_axis("threadIdx.x")
        partial = made.rfactor(op.output(0), inner)
        last = stage.op.reduce_axis[0]
        stage.bind(last, thread)
        made[partial].compute_at(stage, last)
        stage.set_store_predicate(thread.var.equal(0))


def _vectorize(stage, axes, injective):
    last = axes[-1]
    if injective and isinstance(last.dom.extent, IntImm) and int(last.dom.extent) % _LANES == 0:
        _, inner = stage.split(last, factor=_LANES)
        stage.vectorize(inner)
    if len(axes) > 1:
        stage.parallel(axes[0])


def _door(kind):
    def door(*args):
        outs = args[-1] if kind == "extern" or isinstance(args[-1], (list, tuple, te.Tensor)) else args[0]
        return schedule(outs)

    door.__name__ = door.__qualname__ = f"schedule_{kind}"
    door.__doc__ = f"The schedule of outputs of kind {kind}."
    return door


for _kind in _KINDS:
    globals()[f"schedule_{_kind}"] = _door(_kind)


def default_schedule(outs: Sequence[Any], auto_inline: bool = True) -> Any:
    """schedule(outs); without auto_inline the plain loops."""
    return schedule(outs) if auto_inline else te.create_schedule([o.op for o in (
        [outs] if isinstance(outs, te.Tensor) else outs)])


__all__ = ["default_schedule", "schedule", *(f"schedule_{kind}" for kind in _KINDS)]


def __getattr__(name):
    """Computes stand beside the schedules in the original's modules: topi.x86.conv2d_nchw."""
    if name.startswith("_"):
        raise AttributeError(name)
    from . import machines, nn

    return machines.COMPUTES[name] if name in machines.COMPUTES else getattr(nn, name)
