# SPDX-License-Identifier: Apache-2.0
"""Operators of the original that aren't there, by name, with what takes their place."""
from ...error import UnsupportedOpError


def _refused(names, why):
    def make(name):
        def refuse(*args, **kwargs):
            raise UnsupportedOpError(f"there is no operator {name}: {why}")

        refuse.__name__ = refuse.__qualname__ = name.rsplit(".", 1)[-1]
        refuse.__doc__ = f"Refused: {why}."
        return refuse

    return {name.rsplit(".", 1)[-1]: make(name) for name in names}


_WINOGRAD = "kernels transform weights themselves, where that pays; call nn.conv2d or nn.conv3d"
_BITS = "products of few bits aren't computed bit by bit; qnn.dense and qnn.conv2d compute with bytes"

NN = {
    **_refused(["nn.contrib_conv2d_winograd_without_weight_transform", "nn.contrib_conv2d_winograd_weight_transform",
                "nn.contrib_conv2d_winograd_nnpack_weight_transform", "nn.contrib_conv2d_gemm_without_weight_transform",
                "nn.contrib_conv2d_gemm_weight_transform", "nn.contrib_conv3d_winograd_without_weight_transform",
                "nn.contrib_conv3d_winograd_weight_transform"], _WINOGRAD),
    **_refused(["nn.bitpack", "nn.bitserial_conv2d", "nn.bitserial_dense"], _BITS),
}
VISION = _refused(["vision.proposal"], "vision.multibox_transform_loc decodes boxes, vision.non_max_suppression chooses them")
MEMORY = _refused(["memory.alloc_tensor", "memory.alloc_storage", "memory.flatten_tuple_type", "memory.from_tuple_type",
                   "memory.to_tuple_type"], "graphs don't say where values are stored; compilers of executors plan that")
ROOT = _refused(["sparse_fill_empty_rows"], "how many rows it gives is only known when it runs; "
                "sparse_reshape, segment_sum and sparse_to_dense work on rows that are there")
