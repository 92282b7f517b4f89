# SPDX-License-Identifier: Apache-2.0
"""Convolutions of one input that are added become one where a window contains the others (pass MergeSummedConvs): how
many are left, and the values, against ONNX's reference."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from treadle import relay

CHANNELS = 8


class Sum:
    """A model that adds branches of one input: convolutions, normalisations, the input itself."""

    def __init__(self, size=(9, 11), batch=2):
        self.rng = np.random.default_rng(7)
        self.shape = (batch, CHANNELS, *size)
        self.nodes, self.weights, self.terms = [], [], []

    def _weight(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def _add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n{len(self.nodes)}", **attributes))
        return name

    def norm(self, of="x", term=True):
        draw = self.rng.uniform
        parameters = [draw(0.5, 1.5, CHANNELS), draw(-1, 1, CHANNELS), draw(-1, 1, CHANNELS), draw(0.5, 1.5, CHANNELS)]
        value = self._add("BatchNormalization", [of, *(self._weight(p) for p in parameters)])
        if term:
            self.terms.append(value)
        return self if term else value

    def conv(self, kernel, pads, group=1, norm=False, of="x", bias=True, **attributes):
        weight = self.rng.standard_normal((CHANNELS, CHANNELS // group, *kernel)) / np.prod(kernel)
        inputs = [of, self._weight(weight)] + ([self._weight(self.rng.standard_normal(CHANNELS))] if bias else [])
        value = self._add("Conv", inputs, group=group, pads=pads, kernel_shape=kernel, **attributes)
        self.terms.append(self.norm(value, term=False) if norm else value)
        return self

    def plain(self, name="x"):
        self.terms.append(name)
        return self

    def model(self, after=()):
        value = self.terms[0]
        for term in self.terms[1:]:
            value = self._add("Add", [value, term])
        for op in after:
            value = self.norm(value, term=False) if op == "norm" else self._add(op, [value])
        outputs = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        graph = helper.make_graph(self.nodes, "sum", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def convolutions_left(model):
    module, params = relay.frontend.from_onnx(model)
    module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
    transform = relay.transform
    passes = [transform.InferType(), transform.SimplifyInference(), transform.CanonicalizeOps(), transform.FoldConstant(),
              transform.BackwardFoldScaleAxis(), transform.FoldConstant(), transform.MergeSummedConvs()]
    for step in passes:
        module = step(module)
    return module.astext().count("nn.conv")


POINT = ((1, 1), (0, 0, 0, 0))
SQUARE = ((3, 3), (1, 1, 1, 1))
CASES = {
    "repvgg": (lambda: Sum().conv(*SQUARE, norm=True, bias=False).conv(*POINT, norm=True, bias=False).norm()
               .model(["Relu"]), 1),
    "strided": (lambda: Sum().conv(*SQUARE, norm=True, strides=(2, 2)).conv(*POINT, norm=True, strides=(2, 2))
                .model(["Relu"]), 1),
    "depthwise": (lambda: Sum().conv(*SQUARE, group=CHANNELS).conv(*POINT, group=CHANNELS).plain().model(["norm"]), 1),
    "groups": (lambda: Sum().conv(*SQUARE, group=2).norm().conv(*POINT, group=2).model(), 1),
    "smaller_windows_in_a_larger_one": (lambda: Sum().conv(*SQUARE).conv((5, 7), (2, 3, 2, 3)).conv((1, 7), (0, 3, 0, 3))
                                        .model(), 1),
    "dilated": (lambda: Sum().conv((3, 3), (2, 2, 2, 2), dilations=(2, 2)).conv(*POINT)
                .conv((1, 3), (0, 2, 0, 2), dilations=(2, 2)).model(), 1),
    "lopsided_padding": (lambda: Sum().conv((4, 2), (2, 0, 1, 1)).conv((2, 1), (1, 0, 0, 0)).model(), 1),
    "one_dimension": (lambda: Sum((12,)).conv((5,), (2, 2)).conv((1,), (0, 0)).norm().model(), 1),
    "three_dimensions": (lambda: Sum((4, 5, 6), 1).conv((3, 3, 3), (1,) * 6).conv((1, 1, 1), (0,) * 6).plain().model(), 1),
    # The first has another use, and the last another input.
    "other_terms_stay": (lambda: Sum().conv(*SQUARE).plain().conv(*POINT).conv(*SQUARE, of="v0").model(), 3),
    # Neither window contains the other, which together would have more taps than both.
    "crossing_windows": (lambda: Sum().conv((3, 1), (1, 0, 1, 0)).conv((1, 3), (0, 1, 0, 1)).model(), 2),
    "taps_between_those_of_a_dilated_window": (lambda: Sum().conv((3, 3), (2, 2, 2, 2), dilations=(2, 2))
                                               .conv(*SQUARE).model(), 2),
    "other_groups": (lambda: Sum().conv(*SQUARE, group=2).conv(*POINT, group=4).model(), 2),
    "moved_windows": (lambda: Sum().conv((2, 2), (1, 1, 0, 0)).conv((2, 2), (0, 0, 1, 1)).model(), 2),
    "strided_input": (lambda: Sum((1, 1)).conv(*SQUARE, strides=(2, 2)).plain().model(), 1),
    "input_of_another_size": (lambda: Sum((1, 9)).conv((3, 3), (0, 1, 2, 1)).plain().model(), 1),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_of_convolutions(case):
    make, left = CASES[case]
    model = make()
    assert convolutions_left(model) == left
    x = np.random.default_rng(1).standard_normal([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim])
    x = x.astype(np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    actual = treadle.compile(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_used_values_stay():
    """A convolution whose result is also used elsewhere is computed as it was."""
    model = Sum().conv(*SQUARE).conv(*POINT).model()
    model.graph.output.append(helper.make_tensor_value_info("v1", TensorProto.FLOAT, None))
    assert convolutions_left(model) == 2


def test_open_sizes():
    """The sizes of the input don't matter."""
    source = Sum().conv(*SQUARE, norm=True).conv(*POINT, norm=True).norm()
    model = source.model(["Relu"])
    for i, name in ((0, "batch"), (2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[i].dim_param = name
    del model.graph.value_info[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert convolutions_left(model) == 1
    compiled = treadle.compile(model.SerializeToString())
    for shape in ((1, CHANNELS, 1, 1), (3, CHANNELS, 7, 30)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)
