# SPDX-License-Identifier: Apache-2.0
"""Models that take and give strings, sequences, optionals and maps."""
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle

STRING, FLOAT, INT64 = TensorProto.STRING, TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def run(nodes, inputs, outputs, feeds, initializers=()):
    return treadle.compile(model(nodes, inputs, outputs, initializers)).run(None, feeds)


def texts(*values):
    return np.array(values, object)


def test_strings_move_and_compare():
    nodes = [helper.make_node("Gather", ["x", "i"], ["g"]), helper.make_node("Concat", ["g", "w"], ["c"], axis=0),
             helper.make_node("Equal", ["c", "w"], ["e"])]
    weight = helper.make_tensor("w", STRING, [1], [b"b"])
    values, equal = run(nodes, [tensor("x", STRING, ["n"]), tensor("i", INT64, ["m"])],
                        [tensor("c", STRING, None), tensor("e", TensorProto.BOOL, None)],
                        {"x": texts("a", "b", "é"), "i": np.array([2, 1, 1])}, [weight])
    assert values.tolist() == ["é", "b", "b", "b"] and equal.tolist() == [False, True, True, True]


def test_strings_are_refused_where_numbers_are_computed():
    with pytest.raises(treadle.UnsupportedOpError, match="has strings"):
        run([helper.make_node("Add", ["x", "x"], ["y"])], [tensor("x", STRING, [1])], [tensor("y", STRING, [1])], {})


@pytest.mark.parametrize("number", [0.1, 1e16, -2.5, 1e-5, 123456.0, float("inf"), 3.4028235e38])
def test_floats_become_strings_as_numpy_writes_them(number):
    x = np.array([number], np.float32)
    text, = run([helper.make_node("Cast", ["x"], ["y"], to=STRING)], [tensor("x", FLOAT, [1])], [tensor("y", STRING, [1])],
                {"x": x})
    assert text.tolist() == [str(x[0])]


def test_strings_become_numbers():
    feeds = {"x": texts(" 12 ", "-3", "+7")}
    y, = run([helper.make_node("Cast", ["x"], ["y"], to=INT64)], [tensor("x", STRING, [3])], [tensor("y", INT64, [3])], feeds)
    assert y.tolist() == [12, -3, 7]
    with pytest.raises(treadle.Error, match="isn't a number"):
        run([helper.make_node("Cast", ["x"], ["y"], to=FLOAT)], [tensor("x", STRING, [1])], [tensor("y", FLOAT, [1])],
            {"x": texts("x1")})


PATTERNS = [r"a*", r"(ab|c)+d?", r"[^\d\s]{2,3}", r"\w+@\w+\.(com|org)", r".*", r"^x$|y", r"(?i)Hello", r"a{2}b{0,1}", r"\bw\b",
            r"(a|b)*abb", r"[\-\]x]+", r"\x41\.", "é+", r"(a?){5}a{5}"]
TEXTS = ["", "a", "aaaa", "ababcd", "cd", "xy", "xyz", "a1", "me@x.com", "me@x.net", "x", "y", "hELLo", "aab", "aabb", "w", "abb",
         "babb", "-]x", "A.", "éé", "a\nb", "aaaaa"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regular_expressions_agree_with_python(pattern):
    y, = run([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], [tensor("x", STRING, ["n"])],
             [tensor("y", TensorProto.BOOL, ["n"])], {"x": texts(*TEXTS)})
    expected = [re.fullmatch(pattern, text) is not None for text in TEXTS]
    assert y.tolist() == expected


@pytest.mark.parametrize("pattern", ["(", "a**", "[b-a]", r"\1", "(?=a)", "a{2000}", "[", r"\p{L}"])
def test_other_patterns_are_refused(pattern):
    with pytest.raises(treadle.UnsupportedOpError, match="regular expression"):
        run([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)], [tensor("x", STRING, ["n"])],
            [tensor("y", TensorProto.BOOL, ["n"])], {})


def test_patterns_that_backtracking_would_never_end():
    y, = run([helper.make_node("RegexFullMatch", ["x"], ["y"], pattern="(a*)*b")], [tensor("x", STRING, ["n"])],
             [tensor("y", TensorProto.BOOL, ["n"])], {"x": texts("a" * 20000, "a" * 20000 + "b")})
    assert y.tolist() == [False, True]


def test_sequences_of_a_length_that_the_run_tells():
    """A loop that collects what it sees; positions and splits at run time."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["k"]))
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Cast", ["t"], ["f"], to=FLOAT),
         helper.make_node("Reshape", ["f", "one"], ["row"]), helper.make_node("SequenceInsert", ["s", "row"], ["t_s"])],
        "body", [tensor("t", INT64, []), tensor("go", TensorProto.BOOL, []), helper.make_value_info("s", sequence)],
        [tensor("again", TensorProto.BOOL, []), helper.make_value_info("t_s", sequence)],
        [helper.make_tensor("one", INT64, [1], [1])])
    nodes = [helper.make_node("SequenceEmpty", [], ["empty"]), helper.make_node("Loop", ["n", "", "empty"], ["all"], body=body),
             helper.make_node("SequenceAt", ["all", "at"], ["one"]), helper.make_node("SequenceLength", ["all"], ["length"]),
             helper.make_node("ConcatFromSequence", ["all"], ["joined"], axis=0)]
    compiled = treadle.compile(model(nodes, [tensor("n", INT64, []), tensor("at", INT64, [])],
                                     [helper.make_value_info("all", sequence), tensor("one", FLOAT, None),
                                      tensor("length", INT64, None), tensor("joined", FLOAT, None)]))
    for n in (1, 5):
        every, one, length, joined = compiled.run(None, {"n": np.array(n), "at": np.array(-1)})
        assert [x.tolist() for x in every] == [[k] for k in range(n)]
        assert one.tolist() == [n - 1] and length == n and joined.tolist() == list(range(n))
    with pytest.raises(treadle.Error, match="out of range"):
        compiled.run(None, {"n": np.array(2), "at": np.array(2)})


def test_elements_of_another_rank_are_refused():
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["k"]))
    compiled = treadle.compile(model([helper.make_node("SequenceAt", ["s", "i"], ["y"])],
                                     [helper.make_value_info("s", sequence), tensor("i", INT64, [])], [tensor("y", FLOAT, None)]))
    assert compiled.inputs[0].type == "seq(tensor(float))"
    assert compiled.run(None, {"s": [np.ones(3, np.float32)], "i": np.array(0)})[0].tolist() == [1, 1, 1]
    with pytest.raises(treadle.ShapeError, match="rank 1"):
        compiled.run(None, {"s": [np.ones((3, 1), np.float32)], "i": np.array(0)})
    with pytest.raises(treadle.DTypeError, match="float64"):
        compiled.run(None, {"s": [np.ones(3)], "i": np.array(0)})
    with pytest.raises(treadle.Error):
        compiled.run(None, {"s": np.ones(3, np.float32), "i": np.array(0)})


def test_optionals():
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2]))
    get = helper.make_graph([helper.make_node("OptionalGetElement", ["x"], ["v"])], "get", [], [tensor("v", FLOAT, [2])])
    zero = helper.make_graph([helper.make_node("Constant", [], ["z"], value_floats=[0.0, 0.0])], "zero", [],
                             [tensor("z", FLOAT, [2])])
    compiled = treadle.compile(model(
        [helper.make_node("OptionalHasElement", ["x"], ["has"]), helper.make_node("If", ["has"], ["y"], then_branch=get, else_branch=zero)],
        [helper.make_value_info("x", optional)], [tensor("y", FLOAT, [2])]))
    assert compiled.run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [1, 2]
    assert compiled.run(None, {"x": None})[0].tolist() == [0, 0]


def test_labels_and_maps():
    nodes = [helper.make_node("LabelEncoder", ["x"], ["i"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[1, 2],
                              default_int64=-1),
             helper.make_node("OneHotEncoder", ["x"], ["h"], domain="ai.onnx.ml", cats_strings=["a", "b", "c"]),
             helper.make_node("ZipMap", ["h"], ["m"], domain="ai.onnx.ml", classlabels_strings=["A", "B", "C"])]
    maps = onnx.TypeProto()
    maps.sequence_type.elem_type.map_type.key_type = STRING
    maps.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = FLOAT
    labels, zipped = run(nodes, [tensor("x", STRING, ["n"])],
                         [tensor("i", INT64, ["n"]), onnx.ValueInfoProto(name="m", type=maps)], {"x": texts("b", "?")})
    assert labels.tolist() == [2, -1]
    assert zipped == [{"A": 0.0, "B": 1.0, "C": 0.0}, {"A": 0.0, "B": 0.0, "C": 0.0}]


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("keys", [{"classlabels_int64s": [7, -1]}, {"classlabels_strings": ["a", ""]}])
def test_maps_with_the_same_keys(rows, keys):
    maps = onnx.TypeProto()
    maps.sequence_type.elem_type.map_type.key_type = INT64 if "classlabels_int64s" in keys else STRING
    maps.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = FLOAT
    nodes = [helper.make_node("ZipMap", ["x"], ["m"], domain="ai.onnx.ml", **keys), helper.make_node("SequenceLength", ["m"], ["n"]),
             helper.make_node("SequenceErase", ["m"], ["rest"])][:2 if rows == 0 else 3]
    outputs = [onnx.ValueInfoProto(name="m", type=maps), tensor("n", INT64, []), onnx.ValueInfoProto(name="rest", type=maps)]
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    results = run(nodes, [tensor("x", FLOAT, ["r", 2])], outputs[:len(nodes)], {"x": x})
    expected = [dict(zip(next(iter(keys.values())), row)) for row in x.tolist()]
    assert results[0] == expected and results[1] == rows
    assert rows == 0 or results[2] == expected[:-1]


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x07", b"\x05", b"\x05\0\0", b"\x05" + 2 * (b"\x01\0\x40" + b"\0" * 4 + b"\0" * 8), b"\x03" + b"\xff" * 8, b"\x02\x01\0\0\0" + b"\xff" * 8, b"\x03\x01" + b"\0" * 7 + b"\x03"])
def test_malformed_bytes_are_refused(data):
    compiled = treadle.compile(model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", STRING, ["n"])],
                                     [tensor("y", STRING, ["n"])]))
    with pytest.raises(treadle.Error):
        compiled._model.run({"x": treadle.nd.array(np.frombuffer(data, np.uint8).copy())}, 1)


@pytest.mark.parametrize("data", [b"", b"P6 1 1 255\n", b"P6 99999 99999 255\n", b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"\xff\xd8\xff\xe0" + b"\0" * 20])
def test_bytes_that_are_no_image_are_refused(data):
    compiled = treadle.compile(model([helper.make_node("ImageDecoder", ["x"], ["y"])], [tensor("x", TensorProto.UINT8, ["n"])],
                                     [tensor("y", TensorProto.UINT8, ["h", "w", "c"])]))
    image, = compiled.run(None, {"x": np.frombuffer(b"P6 2 1 255\n\x01\x02\x03\x04\x05\x06", np.uint8).copy()})
    assert image.tolist() == [[[1, 2, 3], [4, 5, 6]]]
    with pytest.raises(treadle.Error, match="image"):
        compiled.run(None, {"x": np.frombuffer(data, np.uint8).copy()})


def map_of(name, kind):
    proto = onnx.TypeProto()
    proto.map_type.key_type = INT64
    proto.map_type.value_type.tensor_type.elem_type = kind
    return onnx.ValueInfoProto(name=name, type=proto)


@pytest.mark.parametrize("attrs,kind,given,expected", [
    (dict(), FLOAT, {7: 1.5, -2: float("nan"), 3: -0.25}, [float("nan"), -0.25, 1.5]),
    (dict(cast_to="TO_INT64"), FLOAT, {7: 1.5, -2: -3.0}, [-3, 1]),
    (dict(map_form="SPARSE", max_map=4), FLOAT, {2: float("inf"), 0: 1.0}, [1, 0, float("inf"), 0]),
    (dict(cast_to="TO_STRING"), FLOAT, {1: 0.5}, ["0.5"]),
    (dict(cast_to="TO_STRING", map_form="SPARSE", max_map=3), STRING, {1: "b"}, ["", "b", ""]),
    (dict(cast_to="TO_INT64"), STRING, {5: "12", 4: "-1"}, [-1, 12]),
])
def test_maps_become_tensors(attrs, kind, given, expected):
    output = {"TO_INT64": INT64, "TO_STRING": STRING}.get(attrs.get("cast_to"), FLOAT)
    y, = run([helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", **attrs)], [map_of("m", kind)],
             [tensor("y", output, None)], {"m": given})
    assert y.shape == (1, len(expected))
    np.testing.assert_array_equal(y[0], np.array(expected, object if output == STRING else y.dtype))


def test_keys_of_a_map_have_to_fit():
    node = helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml", map_form="SPARSE", max_map=2)
    with pytest.raises(treadle.Error, match="key of the map"):
        run([node], [map_of("m", FLOAT)], [tensor("y", FLOAT, None)], {"m": {5: 1.0}})


def test_elements_of_maps_are_checked():
    node = helper.make_node("CastMap", ["m"], ["y"], domain="ai.onnx.ml")
    compiled = treadle.compile(model([node], [map_of("m", FLOAT)], [tensor("y", FLOAT, None)]))
    assert compiled.run(None, {"m": {}})[0].shape == (1, 0)
    for wrong in ({"a": 1.0}, {1: "x"}, {1.5: 1.0}, {1: [1.0, 2.0]}):
        with pytest.raises(treadle.error.DTypeError, match='input "m": a map has elements'):
            compiled.run(None, {"m": wrong})


def test_values_that_a_vocabulary_does_not_ask_for_may_be_nan():
    node = helper.make_node("DictVectorizer", ["m"], ["y"], domain="ai.onnx.ml", int64_vocabulary=[4, 9])
    y, = run([node], [map_of("m", FLOAT)], [tensor("y", FLOAT, None)], {"m": {4: 2.0, 5: float("nan")}})
    assert y.tolist() == [[2, 0]]
