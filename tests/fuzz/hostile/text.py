# SPDX-License-Identifier: Apache-2.0
"""Strings: what isn't a number, patterns that explode, n-grams out of range, and operators that know no strings."""
import numpy as np
from onnx import TensorProto

from .base import Case, f32, graph, i64, info, model, node, one, tensor, untyped

HUGE = 1 << 62


def words(*values):
    return np.array(values, object)


def text(name, op, feeds, want, **more):
    yield one(f"text_{op.lower()}_{name}", op, feeds, want, **more)


def cast_cases():
    for name, value, dtype, expected in (
            ("number", "1.5", TensorProto.FLOAT, np.float32(1.5)), ("exponent", "-2e3", TensorProto.DOUBLE, np.float64(-2000)),
            ("infinity", "INF", TensorProto.FLOAT, np.float32(np.inf)), ("minus_infinity", "-inf", TensorProto.FLOAT, np.float32(-np.inf)),
            ("nan", "NaN", TensorProto.FLOAT, np.float32(np.nan)), ("integer", "-42", TensorProto.INT64, np.int64(-42)),
            ("least", str(-(1 << 63)), TensorProto.INT64, np.int64(-(1 << 63)))):
        yield from text(name, "Cast", {"x": words(value)}, "ok", to=dtype, expected=[np.array([expected])])
    for name, value, dtype in (("words", "three", TensorProto.FLOAT), ("empty", "", TensorProto.FLOAT), ("empty_integer", "", TensorProto.INT64),
                               ("tail", "1.5x", TensorProto.FLOAT), ("two", "1 2", TensorProto.INT32), ("fraction", "1.5", TensorProto.INT64),
                               ("beyond_int64", str(1 << 63), TensorProto.INT64), ("beyond_int8", "300", TensorProto.INT8),
                               ("negative", "-1", TensorProto.UINT8), ("nul", "1\0", TensorProto.FLOAT), ("long", "9" * 100000, TensorProto.FLOAT),
                               ("hexadecimal", "0x10", TensorProto.INT64), ("comma", "1,5", TensorProto.FLOAT), ("sign", "+-1", TensorProto.INT32)):
        want = "either" if name in ("long", "hexadecimal", "fraction", "beyond_int8", "negative", "nul") else "error"
        yield from text(name, "Cast", {"x": words(value)}, want, to=dtype, expected=[] if want == "either" else None)
        yield from text(name + "_constant", "Cast", {"x": words(value)}, want, to=dtype, constants=("x",), expected=[] if want == "either" else None)
    yield from text("to_string", "Cast", {"x": i64(1, -2)}, "ok", to=TensorProto.STRING, expected=[words("1", "-2")])
    yield from text("of_none", "Cast", {"x": np.zeros((0, 3), object)}, "ok", to=TensorProto.FLOAT, expected=[f32(0, 3)])


def operator_cases():
    x = words("a", "bc", "", "ü")
    for op, feeds in {"Add": (x, x), "Relu": (x,), "MatMul": (x, x), "ReduceSum": (x,), "Sort": (x,), "Softmax": (x,), "Abs": (x,), "IsNaN": (x,),
                      "Max": (x, x), "Greater": (x, x), "CumSum": (x, np.array(0)), "QuantizeLinear": (x, np.float32(1)), "Trilu": (x.reshape(2, 2),),
                      "Conv": (x.reshape(1, 1, 4), x.reshape(1, 1, 4)), "TopK": (x, i64(1).reshape(1)), "ArgMax": (x,)}.items():
        yield from text("of_strings", op, dict(zip("abc", feeds)), "error")
    for op, feeds, expected, more in (
            ("Identity", (x,), x, {}), ("Reshape", (x, i64(2, 2)), x.reshape(2, 2), {}), ("Gather", (x, i64(1, -1)), words("bc", "ü"), {}),
            ("Concat", (x, x), np.concatenate([x, x]), {"axis": 0}), ("Transpose", (x.reshape(2, 2),), x.reshape(2, 2).T, {}),
            ("Slice", (x, i64(1).reshape(1), i64(3).reshape(1)), x[1:3], {}), ("Expand", (x[:1], i64(3).reshape(1)), words("a", "a", "a"), {}),
            ("Tile", (x[:2], i64(2).reshape(1)), np.tile(x[:2], 2), {}), ("Equal", (x, words("a")), np.array([True, False, False, False]), {}),
            ("Squeeze", (x.reshape(1, 4),), x, {}), ("Shape", (x,), i64(4).reshape(1), {}), ("Size", (x,), i64(4), {}),
            ("Where", (np.array([True, False, True, False]), x, x[::-1]), words("a", "", "", "a"), {})):
        yield from text("of_strings", op, dict(zip("abc", feeds)), "either" if op in ("Expand", "Tile", "Where", "Slice") else "ok",
                        expected=[expected], **more)
    for index in (4, -5, HUGE):
        yield from text(f"strings_{index}", "Gather", {"x": x, "i": i64(index).reshape(1)}, "error")
    yield from text("numbers", "StringConcat", {"a": x, "b": i64(1, 2, 3, 4)}, "error", opset=20)
    yield from text("shapes", "StringConcat", {"a": x, "b": x[:3]}, "error", opset=20)
    yield from text("good", "StringConcat", {"a": x, "b": words("\0")}, "ok", opset=20, expected=[words("a\0", "bc\0", "\0", "ü\0")])
    yield from text("shapes_dynamic", "StringConcat", {"a": x, "b": x[:3]}, "error", opset=20, dynamic=True)
    one_string = TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], string_data=[b"a"])
    raw = TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], raw_data=b"ab")
    invalid = TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], string_data=[b"\xff\xfe", b"\xc3"])
    many = TensorProto(name="w", data_type=TensorProto.STRING, dims=[HUGE, 4], string_data=[b"a"])
    numbers = TensorProto(name="w", data_type=TensorProto.STRING, dims=[2], int64_data=[1, 2])
    for name, weight in (("too_few", one_string), ("raw", raw), ("invalid", invalid), ("wraps", many), ("numbers", numbers)):
        made = model([node("StringConcat", ["x", "w"], ["y"])], [info("x", TensorProto.STRING, [2])], ["y"], [weight])
        yield Case(f"text_initializer_{name}", made.SerializeToString(), "either" if name == "invalid" else "error", {"x": words("a", "b")}, [])


def pattern_cases():
    x = words("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "abc")
    for name, pattern, expected in (("explodes", "(a+)+$", [False, False]), ("explodes_more", "(a|aa)*(a|a?)*c", [False, False]),
                                    ("plain", "a*b.?", [True, True]), ("anchors", "^abc$", [False, True]), ("class", "[[:alpha:]]{3}", [False, True])):
        yield from text(name, "RegexFullMatch", {"x": x}, "ok", opset=20, pattern=pattern, expected=[np.array(expected)])
    for name, pattern in (("open", "(a"), ("star", "*a"), ("range", "[z-a]"), ("repeat", "a{3,1}"), ("repeat_huge", "a{1000000}"),
                          ("repeat_nested", "((((a{100}){100}){100}){100}){100}"), ("look_behind", "(?<=a)b"), ("back_reference", r"(a)\1"),
                          ("escape", "a\\"), ("deep", "(" * 20000 + "a" + ")" * 20000), ("class_open", "[a"), ("group_name", "(?P<>a)"), ("look_ahead", "a(?=b)")):
        yield from text(name, "RegexFullMatch", {"x": x}, "error", opset=20, pattern=pattern)
    yield from text("none", "RegexFullMatch", {"x": x}, "error", opset=20)
    yield from text("empty", "RegexFullMatch", {"x": words("", "a")}, "ok", opset=20, pattern="", expected=[np.array([True, False])])
    yield from text("of_numbers", "RegexFullMatch", {"x": i64(1, 2)}, "error", opset=20, pattern="1")
    yield from text("long", "RegexFullMatch", {"x": words("a" * 2000000)}, "ok", opset=20, pattern="(a|b)*", expected=[np.array([True])])
    yield from text("newline", "RegexFullMatch", {"x": words("a\nb", "axb")}, "ok", opset=20, pattern="a.b", expected=[np.array([False, True])])


def split_cases():
    x = words("a b  c", "", "d")
    yield from text("good", "StringSplit", {"x": x}, "ok", opset=20, outputs=2,
                    expected=[np.array([["a", "b", "c"], ["", "", ""], ["d", "", ""]], object), i64(3, 0, 1)])
    yield from text("maxsplit_0", "StringSplit", {"x": x}, "either", opset=20, outputs=2, maxsplit=0, expected=[])
    yield from text("maxsplit_negative", "StringSplit", {"x": x}, "either", opset=20, outputs=2, maxsplit=-3, expected=[])
    yield from text("maxsplit_huge", "StringSplit", {"x": x}, "ok", opset=20, outputs=2, maxsplit=HUGE,
                    expected=[np.array([["a", "b", "c"], ["", "", ""], ["d", "", ""]], object), i64(3, 0, 1)])
    yield from text("scalar", "StringSplit", {"x": np.array("a,b", object)}, "ok", opset=20, outputs=2, delimiter=",", expected=[words("a", "b"), i64(2)])
    yield from text("nothing", "StringSplit", {"x": np.zeros(0, object)}, "either", opset=20, outputs=2, expected=[])
    yield from text("of_numbers", "StringSplit", {"x": i64(1, 2)}, "error", opset=20, outputs=2)
    yield from text("long_delimiter", "StringSplit", {"x": x}, "ok", opset=20, outputs=2, delimiter="z" * 5000,
                    expected=[x.reshape(3, 1), i64(1, 1, 1)])
    yield from text("wide", "StringSplit", {"x": words(" a" * 5000, *["b"] * 300)}, "either", opset=20, outputs=2, expected=[])


def normalizer_cases():
    x = words("Monday", "tuesday", "Été")
    for name, change, want in (("action_unknown", {"case_change_action": "SWAP"}, "error"), ("locale_unknown", {"case_change_action": "LOWER", "locale": "xx_YY"}, "either"),
                               ("locale_long", {"case_change_action": "LOWER", "locale": "x" * 100000}, "either"),
                               ("locale_path", {"case_change_action": "LOWER", "locale": "../../etc"}, "either")):
        yield from text(name, "StringNormalizer", {"x": x}, want, expected=[] if want == "either" else None, **change)
    yield from text("all_stop", "StringNormalizer", {"x": words("a", "b")}, "ok", stopwords=["a", "b"], is_case_sensitive=1, expected=[words("")])
    yield from text("rank_2", "StringNormalizer", {"x": x.reshape(1, 3)}, "ok", expected=[x.reshape(1, 3)])
    yield from text("two_rows", "StringNormalizer", {"x": np.array([["a"], ["b"]], object)}, "error")
    yield from text("rank_3", "StringNormalizer", {"x": x.reshape(1, 1, 3)}, "error")
    yield from text("scalar", "StringNormalizer", {"x": np.array("a", object)}, "error")
    yield from text("of_numbers", "StringNormalizer", {"x": i64(1, 2)}, "error")
    yield from text("nothing", "StringNormalizer", {"x": np.zeros(0, object)}, "either", expected=[])


def gram_cases():
    x = {"x": i64(1, 2, 3, 1, 2)}
    good = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2],
            "pool_int64s": [1, 2, 1, 2]}

    def grams(name, want, feeds=x, **change):
        yield from text(name, "TfIdfVectorizer", feeds, want, **{**good, **change})

    yield from grams("good", "ok", expected=[np.float32([2, 2, 2])])
    for name, change in {"min_above_max": {"min_gram_length": 3}, "min_0": {"min_gram_length": 0}, "min_negative": {"min_gram_length": -1},
                         "max_beyond": {"max_gram_length": 3}, "max_huge": {"max_gram_length": HUGE}, "skip_negative": {"max_skip_count": -1},
                         "counts_first": {"ngram_counts": [1, 2]}, "counts_falling": {"ngram_counts": [2, 0]}, "counts_beyond": {"ngram_counts": [0, 99]},
                         "counts_negative": {"ngram_counts": [0, -2]}, "counts_huge": {"ngram_counts": [0, HUGE]}, "counts_none": {"ngram_counts": []},
                         "counts_odd": {"ngram_counts": [0, 1]}, "indexes_negative": {"ngram_indexes": [0, -1, 2]},
                         "indexes_short": {"ngram_indexes": [0, 1]}, "indexes_long": {"ngram_indexes": [0, 1, 2, 3]}, "indexes_none": {"ngram_indexes": []},
                         "indexes_huge": {"ngram_indexes": [0, 1, HUGE]}, "indexes_4_gib": {"ngram_indexes": [0, 1, 1 << 30]},
                         "weights_short": {"weights": [1.0]}, "mode": {"mode": "XYZ"}, "no_pool": {"pool_int64s": []}, "both_pools": {"pool_strings": ["a"] * 4},
                         "strings": {"pool_int64s": [], "pool_strings": ["a"] * 4}}.items():
        yield from grams(name, "error", **change)
    yield from grams("skip_huge", "either", max_skip_count=HUGE, expected=[])
    yield from grams("indexes_twice", "either", ngram_indexes=[0, 0, 1], expected=[])
    yield from grams("rank_3", "error", feeds={"x": np.ones((1, 1, 3), "int64")})
    yield from grams("scalar", "error", feeds={"x": i64(1)})
    yield from grams("floats", "error", feeds={"x": f32(4)})
    yield from grams("nothing", "either", feeds={"x": np.zeros(0, "int64")}, expected=[np.zeros(3, "float32")])
    yield from grams("no_rows", "either", feeds={"x": np.zeros((0, 4), "int64")}, expected=[np.zeros((0, 3), "float32")])


def flow_cases():
    """Strings through control flow and sequences."""
    c = {"x": words("a", "b"), "c": np.array(True)}
    inputs = [info("x", TensorProto.STRING, [2]), info("c", "bool", [])]
    other = graph([node("Cast", ["c"], ["q"], to=1)], [], ["q"])
    same = graph([node("Identity", ["x"], ["q"])], [], ["q"])
    yield Case("text_if_of_two_types", model([node("If", ["c"], ["y"], then_branch=same, else_branch=other)], inputs, ["y"]).SerializeToString(), "error", c)
    joined = graph([node("StringConcat", ["x", "x"], ["q"])], [], ["q"])
    yield Case("text_if", model([node("If", ["c"], ["y"], then_branch=joined, else_branch=same)], inputs, ["y"]).SerializeToString(), "ok", c,
               [words("aa", "bb")])
    numbers = i64(7, 8)
    for name, op, feeds, more in (("concat", "Concat", (c["x"], numbers), {"axis": 0}), ("concat_second", "Concat", (numbers, c["x"]), {"axis": 0}),
                                  ("where", "Where", (np.array([True, False]), c["x"], numbers), {}), ("equal", "Equal", (c["x"], numbers), {}),
                                  ("where_second", "Where", (np.array([True, False]), numbers, c["x"]), {}),
                                  ("gather_index", "Gather", (f32(9), c["x"]), {}), ("reshape_sizes", "Reshape", (f32(2), c["x"]), {}),
                                  ("slice_bounds", "Slice", (f32(9), c["x"][:1], c["x"][1:]), {}), ("tile_counts", "Tile", (f32(2, 2), c["x"]), {}),
                                  ("expand_sizes", "Expand", (f32(1), c["x"]), {}), ("compress", "Compress", (f32(2), c["x"]), {"axis": 0}),
                                  ("scatter", "ScatterElements", (numbers, i64(0, 1), c["x"]), {}),
                                  ("scatter_text", "ScatterElements", (c["x"], i64(0, 1), numbers), {})):
        yield one("text_and_numbers_" + name, op, dict(zip("abd", feeds)), "error", **more)
        yield one("text_and_numbers_" + name + "_dynamic", op, dict(zip("abd", feeds)), "error", dynamic=True, **more)
    ints = [*inputs, info("n", "int64", [2])]
    given = {**c, "n": numbers}
    of_numbers = graph([node("Identity", ["n"], ["q"])], [], ["q"])
    yield Case("text_if_or_numbers", model([node("If", ["c"], ["y"], then_branch=same, else_branch=of_numbers)], ints, ["y"]).SerializeToString(),
               "error", given)
    made = [node("SequenceConstruct", ["x", "n"], ["s"]), node("SequenceLength", ["s"], ["y"])]
    yield Case("text_sequence_and_numbers", model(made, ints, ["y"]).SerializeToString(), "error", given)
    for name, want, carried, nodes in (
            ("good", "ok", info("v", TensorProto.STRING, [2]), [node("StringConcat", ["v", "x"], ["vo"])]),
            ("untyped", "ok", untyped("v"), [node("StringConcat", ["v", "x"], ["vo"])]),
            ("as_numbers", "error", info("v", "int64", [2]), [node("Add", ["v", "v"], ["vo"])]),
            ("becomes_numbers", "error", untyped("v"), [node("Identity", ["n"], ["vo"])])):
        body = graph([node("Identity", ["k"], ["ko"]), *nodes], [info("i", "int64", []), info("k", "bool", []), carried], ["ko", "vo"])
        for trips in (3, 50):
            last = words("a" * (trips + 1), "b" * (trips + 1))
            yield Case(f"text_loop_{name}_{trips}", model([node("Loop", ["t", "c", "x"], ["y"], body=body)], ints, ["y"],
                                                          [tensor(np.array(trips), "t")]).SerializeToString(), want, given, [last])
    for name, fed in (("longer", words("a", "b", "c")), ("rank", np.array([["a", "b"]], object)), ("numbers", numbers), ("none", np.zeros(0, object))):
        yield Case(f"text_fed_{name}", model([node("Identity", ["x"], ["y"])], inputs[:1], ["y"]).SerializeToString(), "error", {"x": fed})
    made = [node("SequenceConstruct", ["x", "c"], ["s"]), node("SequenceLength", ["s"], ["y"])]
    yield Case("text_sequence_of_two_types", model(made, inputs, ["y"]).SerializeToString(), "error", c)
    for name, change in {"no_separators": {"separators": None}, "minimum_0": {"mincharnum": 0}, "minimum_huge": {"mincharnum": HUGE},
                         "expression": {"separators": None, "tokenexp": "(a"}, "both": {"tokenexp": "a"}, "mark_7": {"mark": 7}}.items():
        attributes = {"mark": 0, "mincharnum": 1, "pad_value": "#", "separators": [" "], **change}
        attributes = {key: value for key, value in attributes.items() if value is not None}
        yield one(f"text_tokenizer_{name}", "Tokenizer", {"x": words("a b", "c")}, "either" if name in ("minimum_huge", "mark_7") else "error", expected=[],
                  domain="com.microsoft", **attributes)


def text_cases():
    """All of them."""
    yield from cast_cases()
    yield from operator_cases()
    yield from pattern_cases()
    yield from split_cases()
    yield from normalizer_cases()
    yield from gram_cases()
    yield from flow_cases()
