# SPDX-License-Identifier: Apache-2.0
"""Elements of 8 and 16 bits that are read across, in tiles of 128 bits, with what tiles leave of rows and columns."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle

RNG = np.random.default_rng(0)
SHAPES = [((1, 0), (64, 64)), ((1, 0), (131, 70)), ((1, 0), (500, 300)), ((1, 0), (1000, 8)), ((1, 0), (8, 1000)), ((0, 2, 1), (2, 196, 100)),
          ((0, 2, 1), (1, 79, 1030)), ((0, 2, 3, 1), (1, 64, 9, 11)), ((0, 3, 1, 2), (2, 9, 11, 80)), ((0, 1, 3, 2), (1, 3, 197, 64)), ((2, 1, 0), (65, 3, 130))]


def model(nodes, dtype, shape, out):
    graph = helper.make_graph([helper.make_node(op, ins, [name], **attributes) for op, ins, name, attributes in nodes], "g",
                              [helper.make_tensor_value_info("x", dtype, shape)], [helper.make_tensor_value_info("y", out, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("perm, shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.float16])
def test_transposed(dtype, perm, shape, known):
    x = RNG.integers(-128, 128, shape).astype(dtype)
    sizes = list(shape) if known else [f"d{i}" for i in range(len(shape))]
    onnx_dtype = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    compiled = treadle.compile(model([("Transpose", ["x"], "y", {"perm": perm})], onnx_dtype, sizes, onnx_dtype))
    assert np.array_equal(compiled(x=x)["y"], x.transpose(perm))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(64, 64), (131, 70), (5, 200), (300, 33)])
def test_transposed_and_computed(shape, known):
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    nodes = [("Transpose", ["x"], "t", {"perm": [1, 0]}), ("Cast", ["t"], "f", {"to": TensorProto.FLOAT}), ("Sqrt", ["f"], "y", {})]
    y = treadle.compile(model(nodes, TensorProto.UINT8, list(shape) if known else ["h", "w"], TensorProto.FLOAT))(x=x)["y"]
    np.testing.assert_allclose(y, np.sqrt(x.T.astype(np.float32)), rtol=1e-6)
    nodes = [("Transpose", ["x"], "t", {"perm": [1, 0]}), ("BitwiseNot", ["t"], "y", {})]
    proto = model(nodes, TensorProto.UINT8, list(shape) if known else ["h", "w"], TensorProto.UINT8)
    proto.opset_import[0].version = 18
    assert np.array_equal(treadle.compile(proto)(x=x)["y"], ~x.T)


@pytest.mark.parametrize("target", ["c", "stackvm"])
def test_other_targets(target):
    x = RNG.integers(0, 256, (131, 70)).astype(np.uint8)
    proto = model([("Transpose", ["x"], "y", {"perm": [1, 0]})], TensorProto.UINT8, [131, 70], TensorProto.UINT8)
    assert np.array_equal(treadle.compile(proto, target=target)(x=x)["y"], x.T)


def test_rows_are_read_whole():
    """They were gathered byte by byte: 3 to 5 times as long."""
    proto = model([("Transpose", ["x"], "y", {"perm": [1, 0]})], TensorProto.UINT8, [64, 512], TensorProto.UINT8)
    module, params = treadle.relay.frontend.from_onnx(onnx.load_from_string(proto.SerializeToString()))
    with treadle.transform.PassContext(opt_level=3):
        text = treadle.relay.build(module, target="llvm -mcpu=x86-64-v3", params=params).get_lib().get_source("asm")
    assert len(re.findall("punpck[lh]bw", text)) >= 16 and "pinsrb" not in text
