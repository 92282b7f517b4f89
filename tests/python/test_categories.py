# SPDX-License-Identifier: Apache-2.0
"""Tokens and categories, as converters of text and table pipelines write them, against ONNX Runtime."""
import struct

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
import treadle.onnxruntime

ort = pytest.importorskip("onnxruntime")
TEXTS = ["the quick-brown fox", "", "a", "naïve café, no?  yes", "foofoobar barfoo", "x,y;;z ,"]


def model_of(nodes, x_type, x_shape, y_type, y_rank):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", x_type, x_shape)],
                              [helper.make_tensor_value_info("y", y_type, [None] * y_rank)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def check(model, x):
    expected, = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    actual, = treadle.onnxruntime.InferenceSession(model).run(None, {"x": x})
    assert actual.shape == expected.shape
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("how", [
    {"tokenexp": "[a-zA-Z0-9_]+"}, {"tokenexp": "."}, {"tokenexp": "foo|foobar|[a-z]", "mincharnum": 2},
    {"tokenexp": "o*x?"}, {"tokenexp": r"\b\w\w+\b"}, {"tokenexp": "^the|fox$"}, {"tokenexp": "none of it"},
    {"separators": [""]}, {"separators": [" "]}, {"separators": [" ", "[,;]", "foo"]}, {"separators": ["[ ,]+"], "mincharnum": 3}])
def test_tokenizer(how, mark):
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft",
                            **{"mark": mark, "pad_value": "#", "mincharnum": 1, **how})
    check(model_of([node], TensorProto.STRING, ["n"], TensorProto.STRING, 2), np.array(TEXTS, object))
    table = np.array(TEXTS, object).reshape(2, 3)
    check(model_of([node], TensorProto.STRING, ["n", 3], TensorProto.STRING, 3), table)


@pytest.mark.parametrize("x_type, values, categories", [
    (TensorProto.STRING, np.array([["a"], ["c"], ["b"]], object), {"cats_strings": ["c", "a", "b"]}),
    (TensorProto.INT64, np.array([[3], [1]]), {"cats_int64s": [1, 2, 3]}),
    (TensorProto.FLOAT, np.array([[3], [1]], np.float32), {"cats_int64s": [1, 2, 3]})])
def test_one_hot_of_known_categories(x_type, values, categories):
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", zeros=0, **categories)
    model = model_of([node], x_type, ["n", 1], TensorProto.FLOAT, 3)
    check(model, values)
    unknown = np.array([["d"]], object) if x_type == TensorProto.STRING else values[:1] + 1
    with pytest.raises(treadle.Error, match="number of categories that an element is of"):
        treadle.onnxruntime.InferenceSession(model).run(None, {"x": unknown})


def test_refusal_of_a_model_of_strings_comes_with_the_session():
    node = helper.make_node("NoSuchOperator", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(treadle.Error, match="NoSuchOperator"):
        treadle.onnxruntime.InferenceSession(model_of([node], TensorProto.STRING, ["n"], TensorProto.FLOAT, 1))


@pytest.mark.parametrize("rows", [0, 1, 2, 50])
@pytest.mark.parametrize("labels", [{"classlabels_strings": ["no", "yes", "ä"]}, {"classlabels_int64s": [4, -1, 7]}])
def test_maps_of_rows(rows, labels):
    graph = helper.make_graph([helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **labels)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(
                                  TensorProto.STRING if "classlabels_strings" in labels else TensorProto.INT64,
                                  helper.make_tensor_type_proto(TensorProto.FLOAT, []))))])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) / 8
    actual, = treadle.onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    keys = next(iter(labels.values()))
    assert actual == [dict(zip(keys, row)) for row in x.tolist()]


@pytest.mark.parametrize("values", [["a", "b", "a", "é", ""], ["1", 1, 1.0, True], [b"a", "a"], []])
def test_strings_pass_as_they_are(values):
    expected = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
    model = model_of([helper.make_node("Identity", ["x"], ["y"])], TensorProto.STRING, ["n"], TensorProto.STRING, 1)
    actual, = treadle.onnxruntime.InferenceSession(model).run(None, {"x": np.array(values, object)})
    assert actual.tolist() == expected


def test_strings_pass_as_they_are():
    """Texts of any kind, as objects, as arrays of NumPy's strings, as bytes; what isn't UTF-8 comes back as it was."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])], [onnx.ValueInfoProto(name="y")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    texts = ["", "a", "añ\U0001f600", "x\0y", "a", b"\xff\xfe".decode(errors="surrogateescape"), 'long ' * 1000]
    assert model.run(None, {"x": np.array(texts, object)})[0].tolist() == texts
    assert model.run(None, {"x": np.array(texts[:3])})[0].tolist() == texts[:3]
    assert model.run(None, {"x": np.array([b"a", b"bc"], object)})[0].tolist() == ["a", "bc"]
    assert model.run(None, {"x": np.array([1, 1.0, None], object)})[0].tolist() == ["1", "1.0", "None"]
    assert model.run(None, {"x": np.array([], object)})[0].tolist() == []
    lone = np.array(["\ud800"], object)
    with pytest.raises(UnicodeEncodeError):
        model.run(None, {"x": lone})
    for damaged, count in ((b"\x05" + bytes(7) + b"ab", 1), (b"\xff" * 8, 1), (b"\1", 1), (b"", 2)):
        with pytest.raises(treadle.ModelFormatError, match="truncated value"):
            treadle._core.read_strings(damaged, 0, count)


def test_maps_of_rows_as_bytes():
    """Damaged ones are refused, and of types that aren't usual left to other code."""
    header = lambda code, bits, *shape: bytes([1, code, bits]) + struct.pack(f"<I{len(shape)}q", len(shape), *shape)  # noqa: E731
    keys, values = header(0, 64, 2) + struct.pack("<2q", 7, -1), header(2, 32, 2, 2) + struct.pack("<4f", 1, 2, 3, 4)
    assert treadle._core.read_maps(b"\5" + keys + values, 1) == [{7: 1.0, -1: 2.0}, {7: 3.0, -1: 4.0}]
    assert treadle._core.read_maps(b"\5" + keys + header(2, 32, 0, 2), 1) == []
    assert treadle._core.read_maps(b"\5" + header(0, 32, 2) + bytes(8) + values, 1) is None
    assert treadle._core.read_maps(b"\5" + keys + header(0, 8, 1, 2) + bytes(2), 1) is None
    damaged = [(keys + values)[:-1], keys, b"", keys + header(2, 32, 2, 3) + bytes(24), header(0, 64, 1, 2) + bytes(16) + values,
               keys + header(2, 32, -1, 2), header(0, 64, 2**61), keys + header(2, 64, 2**40, 2), b"\2" + header(0, 0, 2**62, 4)[3:] + values]
    for data in damaged:
        with pytest.raises(treadle.Error, match="truncated|maps of|overflow"):
            treadle._core.read_maps(b"\5" + data, 1)
