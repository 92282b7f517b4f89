# SPDX-License-Identifier: Apache-2.0
"""Average pools of convolutions of single pixels pool first (pass PoolBeforePointwise): the order of the operators, and
the values, against ONNX's reference."""
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from treadle import relay


def model(outputs=6, kernel=1, group=1, bias=True, between=None, pool="AveragePool", dynamic=False, **pooling):
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((outputs, 8 // group, kernel, kernel)).astype(np.float32)
    weights = [numpy_helper.from_array(weight, "w")]
    if bias:
        weights.append(numpy_helper.from_array(rng.standard_normal(outputs).astype(np.float32), "b"))
    nodes = [helper.make_node("Conv", ["x", "w"] + ["b"] * bias, ["c"], name="conv", group=group)]
    if between:
        nodes.append(helper.make_node(between, ["c"], ["d"], name="between"))
    nodes.append(helper.make_node(pool, ["d" if between else "c"], ["y"], name="pool", **pooling))
    sizes = ["n", 8, "h", "w"] if dynamic else [2, 8, 11, 9]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def pools_first(onnx_model):
    module, params = relay.frontend.from_onnx(onnx_model)
    module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
    for name in ("InferType", "CanonicalizeOps", "FoldConstant", "PoolBeforePointwise"):
        module = getattr(relay.transform, name)()(module)
    text = module.astext()
    return text.index("avg_pool2d") < text.index("nn.conv2d")


TWO = {"kernel_shape": (2, 2), "strides": (2, 2)}
CASES = {
    "densenet": (model(bias=False, **TWO), True),
    "bias": (model(**TWO), True),
    "border_out_of_the_divisor": (model(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), True),
    "rounded_up": (model(ceil_mode=1, **TWO), True),
    "groups": (model(group=2, **TWO), True),
    "global": (model(pool="GlobalAveragePool"), True),
    "open_sizes": (model(dynamic=True, **TWO), True),
    # The bias would count for fewer pixels than the divisor does.
    "border_in_the_divisor": (model(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), count_include_pad=1), False),
    "as_many_pixels": (model(kernel_shape=(2, 2)), False),
    "window": (model(kernel=3, **TWO), False),
    "activation": (model(between="Relu", **TWO), False),
    "few_outputs": (model(outputs=1, **TWO), False),
}


@pytest.mark.parametrize("case", CASES)
def test_average_pools(case):
    onnx_model, first = CASES[case]
    assert pools_first(onnx_model) == first
    x = np.random.default_rng(3).standard_normal((2, 8, 11, 9)).astype(np.float32)
    expected = ReferenceEvaluator(onnx_model).run(None, {"x": x})[0]
    actual = treadle.compile(onnx_model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
