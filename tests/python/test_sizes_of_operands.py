# SPDX-License-Identifier: Apache-2.0
"""Sizes of operands that don't fit each other are refused when types are inferred: kernels read as far as one says."""
import pytest

import treadle
from treadle import relay
from treadle.ir import IRModule
from treadle.relay.op._make import call_op

MISFITS = {
    "image.grid_sample": ([(4, 2, 5, 5), (1, 2, 3, 3)], {}),
    "take": ([(4, 3), (1, 2)], {"axis": 1, "batch_dims": 1, "mode": "clip"}),
    "sequence_mask": ([(3, 2), (1,)], {}),
    "searchsorted": ([(1, 5), (3, 2)], {}),
    "matrix_set_diag": ([(2, 3, 3), (1, 3)], {}),
    "sparse_to_dense": ([(3,), (2,), ()], {"output_shape": [4]}),
    "variance": ([(2, 3), (1, 1)], {"axis": [1]}),
    "check_values": ([(3,), (1,)], {"rule": "at_most", "where": "", "what": ""}),
    "nn.packed_dense": ([(2, 8), (1, 8, 16)], {"units": 32}),
    "nn.contrib_conv2d_NCHWc": ([(1, 4, 5, 5), (4, 4, 3, 3)], {"data_layout": "NCHW", "kernel_layout": "OIHW"}),
}
INTEGERS = {("take", 1), ("sparse_to_dense", 0), ("sequence_mask", 1), ("check_values", 0), ("check_values", 1)}


@pytest.mark.parametrize("name", MISFITS)
def test_operands_that_do_not_fit_are_refused(name):
    """Each read beyond its operand before."""
    shapes, attrs = MISFITS[name]
    operands = [relay.var(f"v{i}", shape=shape, dtype="int64" if (name, i) in INTEGERS else "float32")
                for i, shape in enumerate(shapes)]
    module = IRModule.from_expr(relay.Function(operands, call_op(name, operands, attrs)))
    with pytest.raises(treadle.Error, match=f"{name}: (dimension|the layouts of data)"):
        relay.build(module, target="stackvm")
