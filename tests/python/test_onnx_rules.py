# SPDX-License-Identifier: Apache-2.0
"""Import rules that are longer than a call, by numbers: against ONNX's reference implementation."""
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle.onnx_backend

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(node, inputs, opset, outputs=1):
    """Runs a model of one node both ways. `inputs`: arrays by name, in the node's order."""
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in inputs.items()]

    def model_with(results):
        graph = helper.make_graph([node], "g", infos, results)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])

    names = node.output[:outputs]
    expected = ReferenceEvaluator(model_with([onnx.ValueInfoProto(name=name) for name in names])).run(None, inputs)
    model = model_with([helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype),
                                                      np.asarray(value).shape) for name, value in zip(names, expected)])
    actual = treadle.onnx_backend.prepare(model).run(list(inputs.values()))
    for want, got in zip(expected, actual):
        want, got = np.asarray(want), np.asarray(got)
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent(op, gates, direction):
    directions, hidden, size = (2 if direction == "bidirectional" else 1), 5, 3
    attributes = {"linear_before_reset": 1} if op == "GRU" else {}
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y", "h"], hidden_size=hidden, direction=direction, **attributes)
    if op != "LSTM" and direction == "bidirectional":
        pytest.skip("not in the reference")
    check(node, {"x": floats(4, 2, size), "w": floats(directions, gates * hidden, size),
                 "r": floats(directions, gates * hidden, hidden), "b": floats(directions, 2 * gates * hidden)}, 14, 2)


@pytest.mark.parametrize("equation, shapes", [("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("ij,kj->ik", [(3, 4), (5, 4)]),
                                              ("ij->ji", [(2, 3)]), ("...ij,jk", [(2, 2, 3), (3, 4)]),
                                              ("bij,jk,bkl->bil", [(2, 3, 4), (4, 5), (2, 5, 3)]), ("i,j,ij->", [(3,), (4,), (3, 4)]),
                                              ("ab,bc,cd,de", [(2, 3), (3, 4), (4, 5), (5, 2)]), ("i,j,k->kij", [(2,), (3,), (4,)]),
                                              ("ij,kk,jl->l", [(2, 3), (4, 4), (3, 5)]),
                                              ("ij,kl,jk->il", [(2, 3), (4, 5), (3, 4)]), ("a,b,cd,ad->bc", [(2,), (3,), (4, 5), (2, 5)]), ("ij,ij,ij->i", [(2, 3), (1, 3), (2, 3)])])
def test_einsum(equation, shapes):
    names = ["a", "b", "c", "d"][:len(shapes)]
    check(helper.make_node("Einsum", names, ["y"], equation=equation),
          {name: floats(*shape) for name, shape in zip(names, shapes)}, 13)


@pytest.mark.parametrize("sizes", [(2, 3, 4, 5, 6), "bijkl"])
def test_einsum_of_three_operands_is_products(sizes):
    b, i, j, k, m = sizes
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", (b, i, j)), ("y", (j, k)), ("z", (b, k, m)))]
    node = helper.make_node("Einsum", ["x", "y", "z"], ["r"], equation="bij,jk,bkl->bil")
    model = helper.make_model(helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)]),
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert treadle.relay.frontend.from_onnx(model)[0].astext(show_meta_data=False).count("nn.batch_matmul") == 2
    feed = {"x": floats(2, 3, 4), "y": floats(4, 5), "z": floats(2, 5, 6)}
    np.testing.assert_allclose(treadle.compile(model)(**feed)["r"], feed["x"] @ feed["y"] @ feed["z"], rtol=1e-5, atol=1e-5)


def test_einsum_multiplies_operands_that_share_labels_first():
    """From the left to the right, the first product would have 600^4 elements."""
    a, b, c = (floats(600, 600) for _ in range(3))
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (600, 600)) for name in "abc"]
    node = helper.make_node("Einsum", list("abc"), ["y"], equation="ij,kl,jk->il")
    model = helper.make_model(helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]),
                              opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    np.testing.assert_allclose(treadle.compile(model)(a=a, b=b, c=c)["y"], a @ c @ b, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"softcap": 2.0, "scale": 0.3}])
def test_grouped_attention(attributes):
    check(helper.make_node("Attention", ["q", "k", "v"], ["y"], **attributes),
          {"q": floats(2, 4, 3, 8), "k": floats(2, 2, 5, 8), "v": floats(2, 2, 5, 6)}, 23)


def test_quantised_convolution():
    x = RNG.integers(0, 256, (1, 2, 5, 5), dtype=np.uint8)
    w = RNG.integers(0, 256, (3, 2, 3, 3), dtype=np.uint8)
    check(helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"], pads=[1, 1, 1, 1]),
          {"x": x, "w": w, "xz": np.array(7, np.uint8)}, 13)


def test_quantise_per_channel():
    check(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1),
          {"x": floats(2, 3, 4) * 50, "s": np.array([0.5, 1, 2], np.float32),
           "z": np.array([3, 128, 250], np.uint8)}, 13)


def test_fourier_transform_one_sided():
    check(helper.make_node("DFT", ["x", "", "a"], ["y"], onesided=1),
          {"x": floats(2, 10, 1), "a": np.array(1, np.int64)}, 20)


def test_scatter_with_reduction():
    check(helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add"),
          {"x": floats(4, 3), "i": np.array([[1], [-1], [1]], np.int64), "u": floats(3, 3)}, 18)


def test_loss_ignores_a_class():
    check(helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t", "w"], ["y", "p"], ignore_index=1),
          {"x": floats(4, 3), "t": np.array([0, 1, 2, 1], np.int64), "w": np.array([1, 2, 3], np.float32)}, 13, 2)


def test_loop_of_known_trips():
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["out"]), helper.make_node("Identity", ["c"], ["cond"]),
         helper.make_node("Identity", ["out"], ["scan"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
         helper.make_tensor_value_info("out", TensorProto.FLOAT, [2]),
         helper.make_tensor_value_info("scan", TensorProto.FLOAT, [2])])
    check(helper.make_node("Loop", ["m", "c0", "v0"], ["y", "s"], body=body),
          {"m": np.array(3, np.int64), "c0": np.array(True), "v0": floats(2)}, 13, 2)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_grid_sample(mode, padding_mode, align_corners):
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding_mode,
                            align_corners=align_corners)
    check(node, {"x": floats(2, 3, 5, 7), "grid": RNG.uniform(-1.3, 1.3, (2, 4, 6, 2)).astype(np.float32)}, 20)


def test_grid_sample_of_volumes():
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear", align_corners=1)
    check(node, {"x": floats(1, 2, 3, 4, 5), "grid": RNG.uniform(-1, 1, (1, 2, 3, 4, 3)).astype(np.float32)}, 20)


@pytest.mark.parametrize("aligned", ["half_pixel", "output_half_pixel"])
def test_roi_align(aligned):
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], output_height=3, output_width=2,
                            sampling_ratio=2, spatial_scale=0.5, coordinate_transformation_mode=aligned)
    rois = np.float32([[0, 0, 9, 7], [2, 3, 12, 11]])
    check(node, {"x": floats(2, 3, 8, 9), "rois": rois, "batch": np.int64([1, 0])}, 16)


@pytest.mark.parametrize("op, last", [("ArgMax", 0), ("ArgMax", 1), ("ArgMin", 0)])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8, np.int16, np.uint32, np.int64])
def test_arg_reductions_of_vectors(op, last, axis, dtype):
    values = RNG.integers(0, 9, (3, 40, 67)).astype(dtype)
    check(helper.make_node(op, ["x"], ["y"], axis=axis, keepdims=0, select_last_index=last), {"x": values}, 13)


@pytest.mark.parametrize("exponent", [3.0, -1.0, -0.5])
def test_powers_that_are_products(exponent):
    x = np.abs(floats(3, 4)) + 0.5
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Pow", ["x", "e"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [onnx.numpy_helper.from_array(np.float32(exponent), "e")]), opset_imports=[helper.make_opsetid("", 13)])
    np.testing.assert_allclose(treadle.onnx_backend.prepare(model).run([x])[0], x ** exponent, rtol=1e-5)
