# SPDX-License-Identifier: Apache-2.0
"""Types that a model declares and doesn't keep, and operands that aren't what it declares."""
import numpy as np
from onnx import TensorProto, helper

from .base import Case, f32, graph, info, model, node, tensor, untyped

X = {"x": f32(2, 3)}


def case(name, want, declared=(), output="y", middle="float32", feeds=None, inputs=None, nodes=None, initializers=(),
         **more):
    """x [2, 3] -> Relu -> h [2, 3] -> Cast to `middle` -> y; `declared` are types of values within."""
    nodes = nodes or [node("Relu", ["x"], ["h"]), node("Cast", ["h"], ["y"], to=int(
        helper.np_dtype_to_tensor_dtype(np.dtype(middle))))]
    inputs = [info("x", "float32", [2, 3])] if inputs is None else inputs
    made = model(nodes, inputs, [output], initializers, value_info=list(declared), **more)
    return Case("declared_" + name, made.SerializeToString(), want, X if feeds is None else feeds)


def value_cases():
    yield case("value_right", "ok", [info("h", "float32", [2, 3])])
    yield case("value_symbols", "ok", [info("h", "float32", ["a", "b"])])
    yield case("value_without_shape", "ok", [info("h", "float32", None)])
    yield case("value_without_type", "ok", [untyped("h")])
    yield case("value_of_nothing", "either", [info("nowhere", "float32", [7])])
    yield case("value_twice", "either", [info("h", "float32", [2, 3])] * 2)
    yield case("value_nameless", "either", [info("", "float32", [2, 3])])
    for dtype in ("float16", "float64", "int64", "int8", "bool", "uint8"):
        yield case(f"value_as_{dtype}", "error", [info("h", dtype, [2, 3])])
    yield case("value_as_string", "error", [info("h", TensorProto.STRING, [2, 3])])
    yield case("value_as_type_99", "error", [info("h", 99, [2, 3])])
    for name, shape in {"transposed": [3, 2], "rank_1": [6], "rank_3": [1, 2, 3], "larger": [2, 4],
                        "smaller": [1, 3], "zero": [0, 3], "huge": [1 << 62, 1 << 62]}.items():
        yield case(f"value_{name}", "error", [info("h", "float32", shape)])
    yield case("value_as_sequence", "error", [helper.make_tensor_sequence_value_info("h", TensorProto.FLOAT, [2, 3])])
    yield case("value_of_initializer", "error", [info("w", "float32", [9, 9])], nodes=[
        node("Add", ["x", "w"], ["y"])], initializers=[tensor(f32(2, 3), "w")])
    yield case("value_of_input", "error", [info("x", "float32", [9, 9])])
    inner = graph([node("Neg", ["x"], ["r"])], [], [info("r", "float32", [7, 7])])
    other = graph([node("Abs", ["x"], ["r"])], [], [info("r", "float32", [2, 3])])
    yield case("value_of_branch_output", "error", nodes=[node("If", ["c"], ["y"], then_branch=inner, else_branch=other)],
               initializers=[tensor(np.array(True), "c")])


def output_cases():
    yield case("output_right", "ok", output=info("y", "float32", [2, 3]))
    yield case("output_symbols", "ok", output=info("y", "float32", ["n", "m"]))
    for dtype in ("float16", "float64", "int32", "int64", "uint8", "bool"):
        yield case(f"output_as_{dtype}", "error", output=info("y", dtype, [2, 3]))
    yield case("output_as_string", "error", output=info("y", TensorProto.STRING, [2, 3]))
    yield case("output_as_int4", "error", output=info("y", TensorProto.INT4, [2, 3]))
    yield case("output_as_float8", "error", output=info("y", TensorProto.FLOAT8E4M3FN, [2, 3]))
    yield case("output_as_type_99", "error", output=info("y", 99, [2, 3]))
    for name, shape in {"transposed": [3, 2], "rank_1": [6], "rank_3": [1, 2, 3], "larger": [2, 4],
                        "zero": [2, 0], "negative": [2, -3]}.items():
        yield case(f"output_{name}", "error", output=info("y", "float32", shape))
    yield case("output_symbol_of_another_rank", "ok", output=info("y", "float32", [2, "n", "m"]))
    yield case("output_symbol_beside_another_size", "ok", output=info("y", "float32", ["n", 7]))
    yield case("output_as_sequence", "error", output=helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))
    yield case("output_one_symbol_two_sizes", "either", output=info("y", "float32", ["n", "n"]),
               inputs=[info("x", "float32", ["n", 3])])


def input_cases():
    w = tensor(f32(2, 3), "w")
    add = [node("Add", ["x", "w"], ["y"])]
    for name, declared in {"shape": info("w", "float32", [3, 2]), "rank": info("w", "float32", [6]),
                           "dtype": info("w", "int32", [2, 3]), "sequence": helper.make_tensor_sequence_value_info(
                               "w", TensorProto.FLOAT, None)}.items():
        yield case("initializer_input_" + name, "error", nodes=add, initializers=[w],
                   inputs=[info("x", "float32", [2, 3]), declared])
    yield case("initializer_input_right", "ok", nodes=add, initializers=[w],
               inputs=[info("x", "float32", [2, 3]), info("w", "float32", [2, "k"])])
    yield case("input_untyped", "error", inputs=[untyped("x")])
    yield case("input_type_0", "error", inputs=[info("x", 0, [2, 3])])
    yield case("input_type_99", "error", inputs=[info("x", 99, [2, 3])])
    yield case("input_negative_dim", "either", inputs=[info("x", "float32", [-2, 3])])
    yield case("input_huge", "error", inputs=[info("x", "float32", [1 << 40, 1 << 40])])
    yield case("input_wraps", "error", inputs=[info("x", "float32", [1 << 32, 1 << 32])])
    yield case("input_rank_65", "error", inputs=[info("x", "float32", [1] * 65)], feeds={"x": f32(2, 3)})
    yield case("input_as_string", "error", inputs=[info("x", TensorProto.STRING, [2, 3])])
    yield case("operands_do_not_broadcast", "error", nodes=[node("Add", ["x", "w"], ["y"])],
               initializers=[tensor(f32(4, 3), "w")])
    yield case("operands_of_two_types", "error", nodes=[node("Add", ["x", "w"], ["y"])],
               initializers=[tensor(np.ones((2, 3), "int64"), "w")])
    yield case("wrong_type_for_op", "error", nodes=[node("BitwiseNot", ["x"], ["y"])])
    yield case("matmul_sizes", "error", nodes=[node("MatMul", ["x", "x"], ["y"])])


def feed_cases():
    """Operands that don't fit what is declared."""
    for name, feeds in {
            "missing": {}, "shape": {"x": f32(3, 2)}, "rank": {"x": f32(6)}, "dtype": {"x": np.ones((2, 3), "int64")},
            "double": {"x": np.ones((2, 3))}, "empty": {"x": f32(0, 3)}, "scalar": {"x": np.float32(1)},
            "none": {"x": None}, "strings": {"x": np.array([["a"] * 3] * 2)}, "objects": {"x": np.array([[None] * 3] * 2)},
            "complex": {"x": np.ones((2, 3), "complex64")}, "extra": {"x": f32(2, 3), "z": f32(1)},
            "wrong_name": {"X": f32(2, 3)}, "list": {"x": "text"}}.items():
        yield case("feed_" + name, "error", feeds=feeds)
    yield case("feed_strided", "ok", feeds={"x": f32(4, 6)[::2, ::2]})
    yield case("feed_negative_strides", "ok", feeds={"x": f32(2, 3)[::-1, ::-1]})
    yield case("feed_fortran", "ok", feeds={"x": np.asfortranarray(f32(2, 3))})
    yield case("feed_big_endian", "either", feeds={"x": f32(2, 3).astype(">f4")})
    yield case("feed_nan", "ok", feeds={"x": np.full((2, 3), np.nan, "float32")})
    yield case("feed_infinite", "ok", feeds={"x": np.full((2, 3), -np.inf, "float32")})
    two = [info("x", "float32", ["n", 3]), info("z", "float32", ["n", 3])]
    yield case("feed_symbol_of_two_sizes", "error", inputs=two, nodes=[node("Concat", ["x", "z"], ["y"], axis=0)],
               feeds={"x": f32(2, 3), "z": f32(4, 3)})
    yield case("feed_of_unbroadcastable_sizes", "error", nodes=[node("Add", ["x", "z"], ["y"])],
               inputs=[info("x", "float32", ["n", 3]), info("z", "float32", ["m", 3])],
               feeds={"x": f32(2, 3), "z": f32(4, 3)})
    yield case("feed_matmul_sizes", "error", nodes=[node("MatMul", ["x", "z"], ["y"])],
               inputs=[info("x", "float32", ["n", "k"]), info("z", "float32", ["l", "m"])],
               feeds={"x": f32(2, 3), "z": f32(4, 3)})
    yield case("feed_concat_sizes", "error", nodes=[node("Concat", ["x", "z"], ["y"], axis=0)],
               inputs=[info("x", "float32", ["n", "k"]), info("z", "float32", ["l", "m"])],
               feeds={"x": f32(2, 3), "z": f32(4, 4)})


def declared_cases():
    yield from value_cases()
    yield from output_cases()
    yield from input_cases()
    yield from feed_cases()
