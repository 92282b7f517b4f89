# SPDX-License-Identifier: Apache-2.0
"""Errors of a run tell the node and its operator, also those of sizes and sequences that no kernel computes."""
import numpy as np
import onnx.parser
import pytest

import treadle

HUGE = 2**62

CASES = {
    "sequence_at": ("(float[n] x, int64 p) => (float[m] y) { s = SplitToSequence(x) y = SequenceAt(s, p) }",
                    np.int64(7), r"node 'SequenceAt#1' \(SequenceAt\): position 7 is out of range for a sequence of 4"),
    "parts": ("(float[n] x, int64[k] p) => (float[m] y) { s = SplitToSequence(x, p) y = ConcatFromSequence<axis = 0>(s) }",
              np.int64([3, 2]), r"node 'SplitToSequence#0' \(SplitToSequence\): part 1 has 2 elements, of 1 .* left of 4"),
    "sum_of_parts": ("(float[n] x, int64[k] p) => (float[m] y) { s = SplitToSequence(x, p) y = ConcatFromSequence<axis = 0>(s) }",
                     np.int64([1, 1]), r"node 'SplitToSequence#0' \(SplitToSequence\): the parts' sizes are 2 in sum"),
    # The product of the sizes wraps around to 4.
    "reshape": ("(float[n] x, int64[2] p) => (float[a, b] y) { r = Relu(x) y = Reshape(r, p) }",
                np.int64([HUGE + 1, 4]), r"node 'Reshape#1' \(Reshape\): number of elements overflows"),
    "constant": ("(float[n] x, int64[k] p) => (float[a, b] y) { y = ConstantOfShape(p) }",
                 np.int64([HUGE, HUGE]), r"node 'ConstantOfShape#0' \(ConstantOfShape\): number of elements overflows"),
    "divided": ("""(float[n] x, float[k] p) => (float[a] y) {
                    s = Shape(x) r = Shape(p) t = Div(s, r) y = ConstantOfShape(t) }""",
                np.zeros(0, np.float32), r"node 'ConstantOfShape#3' \(ConstantOfShape\): a size is divided by zero"),
}


@pytest.mark.parametrize("case", CASES)
def test_nodes_are_told(case):
    text, operand, message = CASES[case]
    model = treadle.compile(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g ' + text))
    with pytest.raises(treadle.Error, match=message):
        model.run(None, {"x": np.ones(4, np.float32), "p": operand})
