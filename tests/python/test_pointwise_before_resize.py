# SPDX-License-Identifier: Apache-2.0
"""Convolutions of single pixels come before their image is enlarged (pass PointwiseBeforeResize): the order of the
operators, and the values, against ONNX Runtime."""
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import relay

SMALL, LARGE = (2, 16, 5, 6), (2, 24, 10, 12)


def model(parts, outputs=8, kernel=1, group=1, constant=True, kept=False, bias=True, **resize):
    """Conv(Concat(parts)): "small" is enlarged to the size of "large", "tiny" as well."""
    rng = np.random.default_rng(5)
    shapes = {"small": SMALL, "large": LARGE, "tiny": (2, 8, 3, 4)}
    resize = {"mode": "linear", "coordinate_transformation_mode": "half_pixel", **resize}
    weights = [numpy_helper.from_array(np.array([2, shapes[name][1], 10, 12], "i8"), f"{name}_size") for name in shapes]
    nodes, images = [], []
    for number, name in enumerate(parts):
        images.append(name)
        if name != "large":
            images[-1] = f"{name}_{number}"
            nodes.append(helper.make_node("Resize", [name, "", "", f"{name}_size"], [images[-1]], **resize))
    if len(images) > 1:
        nodes.append(helper.make_node("Concat", images, ["joined"], axis=1))
    data = "joined" if len(images) > 1 else images[0]
    channels = sum(shapes[name][1] for name in parts)
    weight = (rng.standard_normal((outputs, channels // group, kernel, kernel)) / channels**0.5).astype("f4")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in dict.fromkeys(parts)]
    if constant:
        weights.append(numpy_helper.from_array(weight, "w"))
    else:
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, weight.shape))
    if bias:
        weights.append(numpy_helper.from_array(rng.standard_normal(outputs).astype("f4"), "b"))
    nodes.append(helper.make_node("Conv", [data, "w"] + ["b"] * bias, ["c"], group=group))
    nodes.append(helper.make_node("Relu", ["c"], ["y"]))
    results = ["y"] + [data] * kept
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results],
                              weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def moved(onnx_model):
    """The module after the pass: its calls in order."""
    module, params = relay.frontend.from_onnx(onnx_model)
    module["main"] = relay.build_module.bind_params_by_name(module["main"], params)
    for name in ("InferType", "CanonicalizeOps", "FoldConstant", "PointwiseBeforeResize", "FoldConstant", "InferType"):
        module = getattr(relay.transform, name)()(module)
    return module.astext(show_meta_data=False)


# Parts, and the convolutions of the result; none: nothing is moved.
CASES = {
    "alone": (dict(parts=["small"]), 1),
    "head": (dict(parts=["small", "tiny", "large"]), 3),
    "neck": (dict(parts=["small", "large"], mode="nearest", coordinate_transformation_mode="asymmetric"), 2),
    "between": (dict(parts=["large", "small", "large", "large"], outputs=6), 2),
    "cubic": (dict(parts=["large", "small"], mode="cubic"), 2),
    "aligned": (dict(parts=["small", "large"], coordinate_transformation_mode="align_corners"), 2),
    "without_bias": (dict(parts=["small"], bias=False), 1),
    "not_enlarged": (dict(parts=["large", "large"]), 0),
    "window": (dict(parts=["small"], kernel=3), 0),
    "groups": (dict(parts=["small"], group=2), 0),
    "operand": (dict(parts=["small"], constant=False), 0),
    "used_otherwise": (dict(parts=["small", "large"], kept=True), 0),
    # Interpolating many results takes more than is saved.
    "many_outputs": (dict(parts=["tiny"], outputs=64), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_enlarged_images(case):
    what, convs = CASES[case]
    onnx_model = model(**what)
    text = moved(onnx_model)
    resized = [at for at, line in enumerate(text.splitlines()) if "image.resize2d" in line]
    convolved = [at for at, line in enumerate(text.splitlines()) if "nn.conv2d" in line]
    if convs:
        assert len(convolved) == convs and min(convolved) < min(resized)
        assert ("concatenate" in text) == (case == "between")
    else:
        assert len(convolved) == 1 and all(at < convolved[0] for at in resized)
    rng = np.random.default_rng(3)
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {value.name: rng.standard_normal(value.shape).astype("f4") for value in session.get_inputs()}
    expected = session.run(None, feed)
    actual = treadle.compile(onnx_model.SerializeToString()).run(None, feed)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_values_outside_the_image_are_not_convolved():
    onnx_model = model(["small"], coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=3.0)
    resize = next(node for node in onnx_model.graph.node if node.op_type == "Resize")
    resize.input[1] = "roi"
    onnx_model.graph.initializer.append(numpy_helper.from_array(np.array([0, 0, -0.5, -0.5, 1, 1, 1.5, 1.5], "f4"), "roi"))
    lines = moved(onnx_model).splitlines()
    assert [name for line in lines for name in ("image.resize2d", "nn.conv2d") if name in line] == ["image.resize2d", "nn.conv2d"]


def test_images_of_a_size_each_are_not_added():
    """A sum would broadcast what a concatenation refuses."""
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["r"], mode="linear"),
             helper.make_node("Concat", ["r", "z"], ["j"], axis=1), helper.make_node("Conv", ["j", "w"], ["y"])]
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(np.array([1, 1, 2, 3], "f4"), "scales"),
               numpy_helper.from_array(rng.standard_normal((8, 40, 1, 1)).astype("f4"), "w")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 4, 5]),
              helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 8, "h", "w"])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    text = moved(onnx_model)
    assert text.count("nn.conv2d") == 1 and text.index("image.resize2d") < text.index("nn.conv2d")
    compiled = treadle.compile(onnx_model.SerializeToString())
    with pytest.raises(treadle.Error):
        compiled.run(None, {"x": np.zeros((1, 32, 4, 5), "f4"), "z": np.zeros((1, 8, 1, 1), "f4")})


def test_images_of_sizes_of_a_run():
    """The size of another image, which is computed, is known by the names of its dimensions."""
    onnx_model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 19]> g (float[n, 24, h, w] x) => (y)
        <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}> {
          p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
          a = Shape (x)  b = Shape (p)  front = Slice (b, zero, two)  back = Slice (a, two, four)
          sizes = Concat <axis = 0> (front, back)
          r = Resize <mode = "linear"> (p, , , sizes)
          j = Concat <axis = 1> (r, x)
          c = Conv (j, weight)
          y = Relu (c)
        }""")
    rng = np.random.default_rng(2)
    onnx_model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((6, 48, 1, 1)).astype("f4"), "weight"))
    names = [name for line in moved(onnx_model).splitlines() for name in ("image.resize2d", "nn.conv2d") if name in line]
    assert names.count("nn.conv2d") == 2 and names.count("image.resize2d") == 1 and names[-1] == "image.resize2d"
    session = onnxruntime.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(onnx_model)
    for shape in ((1, 24, 12, 16), (2, 24, 11, 7), (1, 24, 2, 3)):
        x = rng.standard_normal(shape).astype("f4")
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(treadle.Error):
        compiled.run(None, {"x": np.zeros((1, 24, 1, 4), "f4")})
