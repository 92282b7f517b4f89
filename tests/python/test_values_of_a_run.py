# SPDX-License-Identifier: Apache-2.0
"""Values that only a run knows and that an operator can't take are refused with the node and its operator, as sizes are."""
import numpy as np
import pytest
from onnx import helper, numpy_helper

import treadle


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def integers(*values, dtype=np.int64):
    return np.array(values, dtype)


def compiled(op, operands, constants=(), domain="", opset=18, target="stackvm", **attributes):
    """The operator alone, all of whose operands but `constants` only a run knows; a function of the operands."""
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(operands)]
    values = {n: np.asarray(x) for i, (n, x) in enumerate(zip(names, operands)) if n and i not in constants}
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in values.items()]
    graph = helper.make_graph([helper.make_node(op, names, ["y"], name="it", domain=domain, **attributes)], "g", inputs,
                              [helper.make_empty_tensor_value_info("y")],
                              [numpy_helper.from_array(operands[i], names[i]) for i in constants])
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = treadle.compile(helper.make_model(graph, opset_imports=imports, ir_version=10), target=target)
    return lambda: np.asarray(model.run(None, values)[0])


X = floats(3, 4)
INDEX = "index 9 is out of range for {} elements; expected -{} to {}"
REFUSED = [
    ("Gather", [X, integers(9)], {}, INDEX.format(3, 3, 2)),
    ("GatherElements", [X, integers([9])], {}, INDEX.format(3, 3, 2)),
    ("GatherND", [X, integers([1, 9])], {}, INDEX.format(4, 4, 3)),
    ("ScatterElements", [X, integers([9]), floats(1, 1)], {}, INDEX.format(3, 3, 2)),
    ("ScatterElements", [X, integers([9]), floats(1, 1)], {"reduction": "add"}, INDEX.format(3, 3, 2)),
    ("ScatterND", [X, integers([9]), floats(1, 4)], {}, INDEX.format(3, 3, 2)),
    ("NegativeLogLikelihoodLoss", [X, integers(9, 1, 1)], {}, "index 9 is out of range"),
    ("TopK", [X, integers(9)], {}, "K 9 is out of range; expected 0 to 4"),
    ("CumSum", [X, integers(5)[0]], {}, "axis 5 is out of range for rank 2; expected -2 to 1"),
    ("ReduceSum", [X, integers(5)], {}, "axis 5 is out of range for rank 2"),
    ("Unsqueeze", [X, integers(-4)], {}, "axis -4 is out of range for rank 3"),
    ("Pad", [X, integers(1, 1), np.float32(0), integers(5)], {}, "axis 5 is out of range for rank 2"),
    ("Slice", [X, integers(0), integers(2), integers(0), integers(0)], {}, "step 0"),
    ("Reshape", [X, integers(5, 2)], {}, "reshape"),
    ("Reshape", [floats(0, 3), integers(0, 3, 0)], {}, "its index: the index, and the last that the operand has: 2 and 1"),
    ("Tile", [X, integers(2, -3)], {}, "repeat 1 is negative: it and the least that it may be: -3 and 0"),
    ("Tile", [floats(0, 3), integers(-1, 2)], {}, "repeat 0 is negative: it and the least that it may be: -1 and 0"),
]


@pytest.mark.parametrize("op, operands, attributes, message", REFUSED)
@pytest.mark.parametrize("target", ["stackvm", "llvm"])
def test_node_and_operator(op, operands, attributes, message, target):
    run = compiled(op, operands, target=target, **attributes)
    with pytest.raises(treadle.Error) as error:
        run()
    assert str(error.value).startswith(f"node 'it' ({op}): ") and message in str(error.value)


EMBEDDING = [None, floats(3, 4), floats(3, 4), None, np.ones(4, np.float32), np.zeros(4, np.float32)]


@pytest.mark.parametrize("index", [3, -1])
@pytest.mark.parametrize("op, operands, domain, attributes", [
    ("EmbedLayerNormalization", EMBEDDING, "com.microsoft", {}),
    ("ATen", [], "", {"operator": "embedding"}),
])
def test_rows_of_embeddings(op, operands, domain, attributes, index):
    """The nearest row was taken."""
    ids = integers([1, index], dtype=np.int32)
    operands = [ids, *operands] if operands else [floats(3, 4), ids]
    with pytest.raises(treadle.Error, match=rf"^node 'it' \({op}\): index of an embedding {index} is out of range; expected 0 to 2"):
        compiled(op, operands, domain=domain, **attributes)()


def test_rows_of_blocks_count_from_the_end():
    """Indices out of range give zeros; negative ones gave the first row."""
    data = np.arange(96, dtype=np.uint8).reshape(3, 32)
    scale = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    rows = (data.astype(np.float32) - 128) * np.repeat(scale, 16, 1)
    y = compiled("GatherBlockQuantized", [data, integers(-1, -3, 1, 3, -4), scale], constants=(0, 2), domain="com.microsoft",
                 block_size=16, gather_axis=0, quantize_axis=1, bits=8)()
    np.testing.assert_array_equal(y, [*rows[[2, 0, 1]], np.zeros(32), np.zeros(32)])


def attention(rows, positions=None, past=0, known=True):
    """Grouped attention of 3 steps, after `past`, with caches of cosines and sines of so many rows."""
    q, cache = floats(1, 3, 16) / 48, floats(rows, 8) / 8
    before = [floats(1, 1, past, 16) / 64] * 2 if past else [None, None]
    operands = [q, q, q, *before, integers(past + 2, dtype=np.int32), integers(past + 3, dtype=np.int32), cache, cache]
    operands += [integers(positions)] if positions else []
    return compiled("GroupQueryAttention", operands, constants=(7, 8) if known else (), domain="com.microsoft", num_heads=1,
                    kv_num_heads=1, do_rotary=1)


@pytest.mark.parametrize("known", [True, False])
def test_caches_of_cosines_have_a_row_for_each_position(known):
    """The last row was taken for those beyond."""
    for run in (attention(8, known=known), attention(8, past=5, known=known), attention(8, [0, 1, 7], known=known)):
        assert np.isfinite(run()).all()
    with pytest.raises(treadle.Error, match=r"node 'it' \(GroupQueryAttention\): number of positions 8 is out of range; expected 0 to 7"):
        attention(7, past=5, known=known)()
    with pytest.raises(treadle.Error, match=r"node 'it' \(GroupQueryAttention\): position 8 is out of range; expected 0 to 7"):
        attention(8, [0, 1, 8], known=known)()
    with pytest.raises(treadle.Error, match=r"'it' \(.*GroupQueryAttention.*3 positions, the caches of cosines and sines have 2 rows"):
        attention(2, known=known)


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_sizes_of_as_many_parts_as_a_sequence_has_elements(parts):
    """SequenceLength gives their number: Split has two results."""
    size = numpy_helper.from_array(integers(2))
    nodes = [helper.make_node("SplitToSequence", ["w"], ["of"], axis=0), helper.make_node("SequenceLength", ["of"], ["count"]),
             helper.make_node("Reshape", ["count", "one"], ["length"]), helper.make_node("ConstantOfShape", ["length"], ["sizes"], value=size),
             helper.make_node("Split", ["x", "sizes"], ["y", "z"], name="it")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("w", 1, ["n"]), helper.make_tensor_value_info("x", 1, [4])],
                              [helper.make_tensor_value_info(name, 1, [name]) for name in "yz"],
                              [numpy_helper.from_array(integers(1), "one")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), target="stackvm")
    y, z = model.run(None, {"w": floats(2), "x": floats(4)})
    np.testing.assert_array_equal([y, z], [[0, 1], [2, 3]])
    with pytest.raises(treadle.error.RuntimeError, match=rf"'it' \(Split\): number of parts {parts}; expected 2"):
        model.run(None, {"w": floats(parts), "x": floats(4)})
