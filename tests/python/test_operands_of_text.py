# SPDX-License-Identifier: Apache-2.0
"""Operands that a Relay text gives to internal operators: passes make sure of what these need, a text doesn't."""
import pathlib
import sys

import pytest

import treadle

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))
import calls

BYTES = ("Tensor[(1, 2, 6, 6, 16), uint8]", "Tensor[(2, 2, 3, 3, 4, 16), int32]", "uint8")
CHANNELS = ("Tensor[(1, 2, 6, 6, 16), uint8]", "Tensor[(2, 1, 3, 1, 16), int32]", "uint8")
PAIRS = ("Tensor[(1, 2, 6, 6, 16), bfloat16]", "Tensor[(2, 2, 3, 3, 8, 16), int32]")
SHORTS = ("Tensor[(1, 2, 6, 6, 16), int16]", "Tensor[(6, 6, 2, 2, 8, 16), int32]", "int16")
BOXES = ("Tensor[(1, 6, 4), float32]", "Tensor[(1, 2, 6), float32]", "Tensor[(), int64]", "float32", "float32")
WINDOW = 'channels=32, kernel_size=[3, 3], padding=[1, 1, 1, 1], data_layout="NCHW16c", out_layout="NCHW16c"'
#: Operator, what it takes, attributes.
VALID = {"slice": ("dyn.strided_slice", ["Tensor[(?, 4), float32]", *3 * ["Tensor[(1), int64]"]],
                   "begin=[0], end=[1], strides=[1], axes=[1]"),
         "direct": ("qnn.contrib_conv2d_NCHWc", BYTES, WINDOW),
         "depthwise": ("qnn.contrib_depthwise_conv2d_NCHWc", CHANNELS, WINDOW + ", groups=32"),
         "pairs": ("nn.contrib_conv2d_NCHWc_pairs", PAIRS, WINDOW),
         "winograd": ("qnn.contrib_conv2d_winograd_NCHWc", SHORTS, WINDOW),
         "boxes": ("nms_padded", BOXES, "")}
#: What is changed: which operand and its type, or attributes; what the error says.
REFUSED = [
    ("slice", {2: "Tensor[(0), int64]"}, "end has 0 entries"), ("slice", {3: "Tensor[(2), int64]"}, "strides has 2 entries"),
    ("slice", {"axes=[1]": "axes=[]"}, "axes has 0 entries"),
    ("direct", {1: "uint8"}, "weight must be int32 of"), ("direct", {1: "Tensor[(1, 1, 1, 1, 1, 1), int32]"}, "weight must be int32 of"),
    ("direct", {1: "Tensor[(2, 2, 3, 3, 4, 16), float32]"}, "weight must be int32 of"), ("direct", {2: "int8"}, "int8"),
    ("direct", {2: "Tensor[(1), uint8]"}, "pad_value"), ("direct", {"kernel_size=[3, 3]": "kernel_size=[5, 5]"}, "weight must be int32 of"),
    ("direct", {"channels": "groups=4, channels"}, "whole blocks"), ("direct", {"channels": 'out_dtype="float32", channels'}, "out_dtype must be int32"),
    ("depthwise", {1: "Tensor[(2, 1, 3, 2, 16), int32]"}, "weight must be int32 of"), ("depthwise", {1: "Tensor[(2, 2, 9, 3, 16), int32]"}, "weight must be int32 of"),
    ("depthwise", {1: "Tensor[(2, 1, 2, 3, 16), int32]"}, "weight must be int32 of"),  # windows begin in odd rows, too
    ("depthwise", {1: "int32"}, "weight must have 5 dimensions"), ("depthwise", {"groups=32": "groups=16"}, "one in each group"),
    ("pairs", {1: "Tensor[(2, 2, 3, 3, 16, 16), int32]"}, "weight must be int32 of"), ("pairs", {"channels": 'out_dtype="bfloat16", channels'}, "out_dtype"),
    ("winograd", {1: "Tensor[(6, 6, 2, 2, 8, 16), int16]"}, "int32"), ("winograd", {2: "uint8"}, "uint8"),
    ("boxes", {3: "Tensor[(1), float32]"}, "iou_threshold"), ("boxes", {4: "float64"}, "float64"), ("boxes", {2: "Tensor[(1), int64]"}, "most")]


def typed(name, changes):
    op, operands, attributes = VALID[name]
    operands = [changes.get(i, operand) for i, operand in enumerate(operands)]
    for old, new in ((o, n) for o, n in changes.items() if isinstance(o, str)):
        attributes = attributes.replace(old, new, 1)
    parameters = ", ".join(f"%a{i}: {operand}" for i, operand in enumerate(operands))
    given = ", ".join([*(f"%a{i}" for i in range(len(operands))), *([attributes] if attributes else [])])
    return treadle.relay.transform.InferType()(treadle.parser.parse(calls.text(f"({parameters}) {{ {op}({given}) }}")))


@pytest.mark.parametrize("name", VALID)
def test_what_fits_is_typed(name):
    assert typed(name, {})["main"].ret_type is not None


@pytest.mark.parametrize("name, changes, message", REFUSED)
def test_what_does_not_fit_is_refused(name, changes, message):
    """Weights of other sizes were read beyond their end."""
    with pytest.raises(treadle.Error, match=message) as raised:
        typed(name, changes)
    assert not isinstance(raised.value, treadle.InternalError)


def test_calls_that_are_damaged_are_valid():
    for name, texts in calls.of_operators().items():
        for call in texts:
            assert treadle.relay.transform.InferType()(treadle.parser.parse(calls.text(call))), name
