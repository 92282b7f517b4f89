# SPDX-License-Identifier: Apache-2.0
"""Sequences, optionals, loops that capture values, and dimensions that contradict each other when a model runs."""
import numpy as np
from onnx import TensorProto, helper

from .base import Case, f32, graph, i64, info, model, node, one, tensor
from .graphs import call, function, relu

X = {"x": f32(2, 2)}
HUGE = 1 << 62


def made(name, want, nodes, feeds=None, outputs=("y",), initializers=(), dynamic=(), expected=None, inputs=(), **more):
    feeds = X if feeds is None else feeds
    declared = [info(key, np.asarray(value).dtype, [f"{key}{d}" for d in range(np.ndim(value))] if key in dynamic
                     else np.shape(value)) for key, value in feeds.items()]
    data = model(nodes, [*declared, *inputs], list(outputs), initializers, **more).SerializeToString()
    return Case("value_" + name, data, want, feeds, expected)


def sequence_cases():
    at = {**X, "i": i64(0).reshape(())}
    for index in (0, 1, -2, 2, -3, HUGE, -(1 << 63)):
        want = "ok" if -2 <= index < 2 else "error"
        given = {**X, "i": np.array(index)}
        build = node("SequenceConstruct", ["x", "x"], ["s"])
        yield made(f"sequence_at_{index}", want, [build, node("SequenceAt", ["s", "i"], ["y"])], given)
        yield made(f"sequence_erase_{index}", want, [build, node("SequenceErase", ["s", "i"], ["t"]),
                                                     node("SequenceLength", ["t"], ["y"])], given)
        yield made(f"sequence_insert_{index}", "ok" if -2 <= index <= 2 else "error", [
            build, node("SequenceInsert", ["s", "x", "i"], ["t"]), node("SequenceLength", ["t"], ["y"])], given)
    empty = node("SequenceEmpty", [], ["s"], dtype=1)
    yield made("sequence_at_of_none", "error", [empty, node("SequenceAt", ["s", "i"], ["y"])], at)
    yield made("sequence_erase_of_none", "error", [empty, node("SequenceErase", ["s"], ["t"]), node("SequenceLength", ["t"], ["y"])])
    yield made("sequence_concat_of_none", "error", [empty, node("ConcatFromSequence", ["s"], ["y"], axis=0)])
    yield made("sequence_of_nothing", "error", [node("SequenceConstruct", [], ["s"]), node("SequenceLength", ["s"], ["y"])])
    yield made("sequence_empty_type", "error", [node("SequenceEmpty", [], ["s"], dtype=999), node("SequenceLength", ["s"], ["y"])])
    yield made("sequence_mixed", "error", [node("Cast", ["x"], ["k"], to=7), node("SequenceConstruct", ["x", "k"], ["s"]),
                                           node("SequenceLength", ["s"], ["y"])])
    yield made("sequence_insert_other", "error", [node("Cast", ["x"], ["k"], to=7), node("SequenceConstruct", ["x"], ["s"]),
                                                  node("SequenceInsert", ["s", "k"], ["t"]), node("SequenceLength", ["t"], ["y"])])
    yield made("sequence_length_of_tensor", "error", [node("SequenceLength", ["x"], ["y"])])
    yield made("sequence_at_of_tensor", "error", [node("SequenceAt", ["x", "i"], ["y"])], at)
    yield made("sequence_added", "error", [node("SequenceConstruct", ["x"], ["s"]), node("Add", ["s", "x"], ["y"])])
    yield made("sequence_of_sequences", "error", [node("SequenceConstruct", ["x"], ["s"]), node("SequenceConstruct", ["s"], ["t"]),
                                                  node("SequenceLength", ["t"], ["y"])])
    for axis in (3, -4, HUGE):
        yield made(f"sequence_concat_axis_{axis}", "error", [node("SequenceConstruct", ["x", "x"], ["s"]),
                                                             node("ConcatFromSequence", ["s"], ["y"], axis=axis)])
        yield made(f"sequence_stack_axis_{axis}", "error", [node("SequenceConstruct", ["x", "x"], ["s"]),
                                                            node("ConcatFromSequence", ["s"], ["y"], axis=axis, new_axis=1)])
    yield made("sequence_concat_shapes", "error", [node("SequenceConstruct", ["x", "z"], ["s"]),
                                                   node("ConcatFromSequence", ["s"], ["y"], axis=0)], {**X, "z": f32(2, 3)})
    for name, split in (("zero", np.array(0)), ("negative", np.array(-2)), ("huge", np.array(HUGE)), ("sums", i64(1, 2)),
                        ("wraps", i64(HUGE, HUGE)), ("minus", i64(3, -1)), ("matrix", np.ones((1, 2), "int64"))):
        yield made(f"sequence_split_{name}", "either" if name == "huge" else "error", [
            node("SplitToSequence", ["x", "n"], ["s"]), node("SequenceLength", ["s"], ["y"])], {**X, "n": split})
    for name, nodes in {"no_input": [node("Optional", [], ["o"]), node("OptionalGetElement", ["o"], ["y"])],
                        "get_of_empty": [helper.make_node("Optional", [], ["o"], type=helper.make_optional_type_proto(
                            helper.make_tensor_type_proto(1, [2, 2]))), node("OptionalGetElement", ["o"], ["y"])],
                        "wrong_type": [helper.make_node("Optional", ["x"], ["o"], type=helper.make_tensor_type_proto(7, [2, 2])),
                                       node("OptionalGetElement", ["o"], ["y"])],
                        "added": [node("Optional", ["x"], ["o"]), node("Add", ["o", "x"], ["y"])]}.items():
        yield made("optional_" + name, "either" if name == "added" else "error", nodes)


def capture_cases():
    c = {**X, "c": np.array(True), "n": np.array(3)}

    def branch(*nodes, result="r"):
        return graph(nodes, [], [result])

    other = branch(node("Abs", ["x"], ["r"]))

    def choose(name, want, then, extra=(), **more):
        return made("capture_" + name, want, [node("If", ["c"], ["y"], then_branch=then, else_branch=other), *extra], c, **more)

    yield choose("own_result", "error", branch(relu("y", "r")))
    yield choose("later", "error", branch(relu("z", "r")), [relu("y", "z")])
    yield choose("other_branch", "error", branch(relu("q", "r")), expected=None)
    yield choose("within_itself", "error", branch(node("Add", ["x", "r"], ["r"])))
    yield choose("cycle_within", "error", branch(relu("b", "a"), relu("a", "b"), node("Add", ["a", "b"], ["r"])))
    yield choose("shadow", "either", branch(node("Neg", ["x"], ["x"]), result="x"))
    yield choose("result_is_outer", "either", branch(result="x"))
    yield choose("result_nowhere", "error", branch(result="nowhere"))
    declared = [info("i", "int64", []), info("k", "bool", []), info("v", "float32", [2, 2])]

    def loop(name, want, nodes, results=("ko", "vo"), inputs=declared, operands=("n", "c", "x"), outputs=("y",), **more):
        body = graph(nodes, list(inputs), list(results))
        return made("capture_loop_" + name, want, [node("Loop", list(operands), list(outputs), body=body)], c, outputs, **more)

    keep = node("Identity", ["k"], ["ko"])
    yield loop("good", "ok", [keep, relu("v", "vo")])
    yield loop("own_result", "error", [keep, relu("y", "vo")])
    yield loop("self", "error", [keep, node("Add", ["v", "vo"], ["vo"])])
    yield loop("condition_float", "error", [node("Identity", ["v"], ["ko"]), relu("v", "vo")])
    yield loop("state_changes_type", "error", [keep, node("Cast", ["v"], ["vo"], to=7)])
    yield loop("state_grows", "either", [keep, node("Concat", ["v", "v"], ["vo"], axis=0)])
    yield loop("no_condition_result", "error", [relu("v", "vo")], ["vo"])
    yield loop("count_negative", "either", [keep, relu("v", "vo")], operands=("m", "c", "x"), initializers=[tensor(np.array(-5), "m")])
    yield loop("count_float", "error", [keep, relu("v", "vo")], operands=("x", "c", "x"))
    yield loop("condition_matrix", "error", [keep, relu("v", "vo")], operands=("n", "x", "x"))
    yield loop("too_many_states", "error", [keep, relu("v", "vo")], operands=("n", "c", "x", "x"))
    yield loop("outputs_missing", "error", [keep, relu("v", "vo")], outputs=("y", "z", "w"))
    yield loop("scan_shapes_differ", "error", [keep, relu("v", "vo"), node("Range", ["o", "i", "l"], ["so"])], ("ko", "vo", "so"),
               outputs=("y", "z"), initializers=[tensor(np.array(0), "o"), tensor(np.array(1), "l")])
    yield loop("inner_of_inner", "ok", [keep, node("If", ["k"], ["vo"], then_branch=branch(
        node("If", ["c"], ["r"], then_branch=graph([node("Add", ["v", "x"], ["q"])], [], ["q"]),
             else_branch=graph([node("Neg", ["x"], ["q"])], [], ["q"]))), else_branch=branch(relu("v", "r")))])
    scan = graph([node("Add", ["s", "e"], ["so"]), relu("e", "eo")], [info("s", "float32", [2]), info("e", "float32", [2])], ["so", "eo"])
    for count in (0, -1, 3, HUGE):
        yield made(f"scan_inputs_{count}", "error", [node("Scan", ["z", "x"], ["y", "w"], body=scan, num_scan_inputs=count)],
                   {**X, "z": f32(2)}, ("y", "w"))
    for key in ("scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"):
        for value in ([9], [-9], [1, 1], [HUGE]):
            yield made(f"{key}_{'_'.join(map(str, value))}", "error", [
                node("Scan", ["z", "x"], ["y", "w"], body=scan, num_scan_inputs=1, **{key: value})], {**X, "z": f32(2)}, ("y", "w"))
    yield made("scan_lengths_differ", "error", [node("Scan", ["z", "x", "u"], ["y", "w"], num_scan_inputs=2, body=graph(
        [node("Add", ["s", "e"], ["so"]), node("Add", ["e", "f"], ["eo"])],
        [info("s", "float32", [2]), info("e", "float32", [2]), info("f", "float32", [2])], ["so", "eo"]))],
        {**X, "z": f32(2), "u": f32(3, 2)}, ("y", "w"))
    own = {"": 21, "own": 1}
    inner = node("If", ["k"], ["b"], then_branch=graph([call("F", "a", "r")], [], ["r"]), else_branch=graph([relu("a", "r")], [], ["r"]))
    yield made("function_recursive_in_branch", "error", [helper.make_node("F", ["x", "c"], ["y"], domain="own")], c, opsets=own,
               functions=[function("F", [inner], ("a", "k"))])
    yield made("function_captures", "error", [call("F", "x", "y")], c, opsets=own, functions=[function("F", [
        node("If", ["c"], ["b"], then_branch=graph([relu("a", "r")], [], ["r"]), else_branch=graph([relu("a", "r")], [], ["r"]))])])
    three = [function("F", [call("G", "a", "b")]), function("G", [call("H", "a", "b")]), function("H", [call("F", "a", "b")])]
    yield made("function_ring_of_three", "error", [call("F", "x", "y")], opsets=own, functions=three)
    chain = [function(f"F{i}", [call(f"F{i + 1}", "a", "b")]) for i in range(200)] + [function("F200", [relu("a", "b")])]
    yield made("function_200_deep", "error", [call("F0", "x", "y")], opsets=own, functions=chain)


def size_of_run_cases():
    """Sizes that a run computes: beyond what can be, or not what other dimensions say."""
    def sized(name, op, sizes, want="error", operands=("x", "n"), **attributes):
        return made(f"run_{name}", want, [node(op, list(operands), ["y"], **attributes)], {**X, "n": sizes}, dynamic=("x",))

    for name, sizes in (("product", i64(1 << 32, 1 << 32)), ("largest", i64((1 << 63) - 1, 1)), ("negative", i64(-7, 1)),
                        ("wraps_to_0", i64(1 << 33, 1 << 31)), ("wraps_to_4", i64((1 << 62) + 1, 4))):
        yield sized(f"expand_{name}", "Expand", sizes)
        yield sized(f"tile_{name}", "Tile", sizes)
        yield made(f"run_constantofshape_{name}", "error", [node("ConstantOfShape", ["n"], ["y"])], {"n": sizes})
        yield made(f"run_reshape_{name}", "error", [node("Reshape", ["x", "n"], ["y"])], {**X, "n": sizes}, dynamic=("x",))
    for name, pads in (("wraps", i64(HUGE, 0, HUGE, 0)), ("largest", i64((1 << 63) - 1, 0, 1, 0)), ("eats_all", i64(-9, 0, -9, 0))):
        yield sized(f"pad_{name}", "Pad", pads)
    for name, bounds in (("count", (0, 1 << 62, 1)), ("step_0", (0, 5, 0)), ("wraps", (-(1 << 62), 1 << 62, 1))):
        given = {key: np.array(value, "int64") for key, value in zip("abn", bounds)}
        yield made(f"run_range_{name}", "error", [node("Range", ["a", "b", "n"], ["y"])], given)
    for name, depth in (("negative", -3), ("huge", 1 << 62), ("zero", 0)):
        yield made(f"run_onehot_{name}", "either" if depth == 0 else "error", [node("OneHot", ["i", "d", "v"], ["y"])],
                   {"i": i64(0, 1), "d": np.array(depth), "v": f32(2)}, dynamic=("i",))
    for name, shape in (("add", (3, 2)), ("rows", (2, 3))):
        yield made(f"run_same_symbol_{name}", "error", [node("Add", ["x", "z"], ["y"])], {**X, "z": f32(*shape)}, dynamic=("x", "z"))
    square = [info("x", "float32", ["n", "n"])]
    yield Case("value_run_symbol_twice", model([relu("x", "y")], square, ["y"]).SerializeToString(), "error", {"x": f32(2, 3)})
    two = [info("x", "float32", ["n", 2]), info("z", "float32", ["n", 2])]
    yield Case("value_run_symbol_of_two_inputs", model([node("Concat", ["x", "z"], ["y"], axis=0)], two, ["y"]).SerializeToString(),
               "error", {"x": f32(2, 2), "z": f32(3, 2)})
    declared = [info("y", "float32", ["n", 3])]
    yield Case("value_run_symbol_of_output", model([relu("x", "y")], [info("x", "float32", ["n", "m"])], declared).SerializeToString(),
               "either", {"x": f32(2, 2)})
    for name, k in (("beyond", 9), ("negative", -1), ("huge", HUGE)):
        yield made(f"run_topk_{name}", "error", [node("TopK", ["x", "k"], ["y", "z"])], {**X, "k": i64(k).reshape(1)}, ("y", "z"), dynamic=("x",))
    yield one("value_run_matmul_inner", "MatMul", {"a": f32(2, 3), "b": f32(4, 5)}, "error", dynamic=True)
    yield one("value_run_gemm_bias", "Gemm", {"a": f32(2, 3), "b": f32(3, 5), "c": f32(4)}, "error", dynamic=True)
    yield one("value_run_concat_sizes", "Concat", {"a": f32(2, 3), "b": f32(2, 4)}, "error", dynamic=True, axis=0)
    yield one("value_run_where_sizes", "Where", {"c": np.ones((2, 3), bool), "a": f32(2, 3), "b": f32(2, 4)}, "error", dynamic=True)
    yield one("value_run_conv_channels", "Conv", {"x": f32(1, 3, 5, 5), "w": f32(2, 4, 3, 3)}, "error", dynamic={"x": ["n", "c", "h", "w"]},
              constants=("w",))


def huge_cases():
    """Attributes of a great many entries, and text that isn't any."""
    many = list(range(200000))
    yield made("attribute_axes_200000", "error", [node("Transpose", ["x"], ["y"], perm=many)])
    yield made("attribute_pads_200000", "error", [node("MaxPool", ["x"], ["y"], kernel_shape=[1] * 200000)], {"x": f32(1, 1, 2, 2)})
    yield made("attribute_floats_1000000", "either", [node("Constant", [], ["k"], value_floats=[0.5] * 1000000), node("ReduceSum", ["k"], ["y"])])
    yield made("attribute_strings_100000", "either", [node("Constant", [], ["k"], value_strings=["ab"] * 100000), node("Shape", ["k"], ["y"])])
    yield made("attribute_text_1000000", "error", [node("Einsum", ["x"], ["y"], equation="i" * 1000000)])
    for name, equation in (("empty", ""), ("arrow", "->"), ("letters", "ijk->ijk"), ("twice", "ij->ii"), ("unknown", "ij->ijz"),
                           ("dots", "i..j->ij"), ("operands", "ij,jk->ik"), ("digits", "12->21"), ("only_dots", "...->ij")):
        yield made("einsum_" + name, "error", [node("Einsum", ["x"], ["y"], equation=equation)])
    wrong = node("Relu", ["x"], ["y"])
    wrong.attribute.extend([helper.make_attribute("alpha", 1.0)] * 3)
    yield made("attribute_three_times", "error", [wrong])
    both = node("Flatten", ["x"], ["y"], axis=1)
    both.attribute[0].type = 1  # a float, says the type
    yield made("attribute_type_of_other", "error", [both])
    hostile = TensorProto(data_type=1, dims=[1 << 31, 1 << 31])
    yield made("attribute_tensor_sizes", "error", [node("Constant", [], ["k"], value=hostile), node("Add", ["x", "k"], ["y"])])


def value_cases():
    """All of them."""
    yield from sequence_cases()
    yield from capture_cases()
    yield from size_of_run_cases()
    yield from huge_cases()
