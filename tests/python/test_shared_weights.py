# SPDX-License-Identifier: Apache-2.0
"""Layers that share a weight, as the heads of detectors do at each level of their pyramid, share its packed form."""
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay

SIZES = (32, 16, 8)


def heads(channels, outputs, kernel):
    """One convolution of `channels` to `outputs`, and one of these to 20, on images of three sizes."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.standard_normal(shape) / 20).astype(np.float32), name)
               for name, shape in (("first", (outputs, channels, kernel, kernel)), ("second", (20, outputs, kernel, kernel)))]
    nodes, inputs, results = [], [], []
    for i, size in enumerate(SIZES):
        inputs.append(helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1, channels, size, size]))
        results.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, [1, 20, size, size]))
        pads = [kernel // 2] * 4
        nodes += [helper.make_node("Conv", [f"x{i}", "first"], [f"a{i}"], pads=pads),
                  helper.make_node("Relu", [f"a{i}"], [f"b{i}"]),
                  helper.make_node("Conv", [f"b{i}", "second"], [f"y{i}"], pads=pads)]
    graph = helper.make_graph(nodes, "g", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("channels, outputs, kernel", [(64, 64, 3), (64, 36, 3), (48, 36, 1)])
@pytest.mark.parametrize("options", ["", " -opt-level=1"])
def test_levels_of_a_pyramid_share_packed_weights(channels, outputs, kernel, options):
    model = heads(channels, outputs, kernel)
    compiled = treadle.compile(model, target="llvm -mcpu=x86-64-v3" + options)
    rng = np.random.default_rng(1)
    feeds = {f"x{i}": rng.standard_normal((1, channels, size, size)).astype(np.float32) for i, size in enumerate(SIZES)}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for expected, (name, given) in zip(session.run(None, feeds), sorted(compiled(feeds).items())):
        np.testing.assert_allclose(given, expected, rtol=1e-3, atol=1e-3, err_msg=name)
    module, params = relay.frontend.from_onnx(model)
    with treadle.transform.PassContext(opt_level=3):
        packed = relay.build(module, "llvm -mcpu=x86-64-v3" + options, params=params).get_params().values()
    # Large levels may take larger tiles than small ones, but no form of a weight is there twice.
    forms = [p.shape for p in packed if len(p.shape) == 6]
    assert len(set(forms)) == len(forms) <= 2 * len(model.graph.initializer)
