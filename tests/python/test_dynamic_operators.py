# SPDX-License-Identifier: Apache-2.0
"""Operators whose operands' dimensions are all symbols, several shapes each, against ONNX Runtime."""
import numpy as np
import onnx
import onnx.parser
import onnx.reference
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

ort = pytest.importorskip("onnxruntime")
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def check(nodes, inputs, outputs, feeds, initializers=(), opset=18, rtol=2e-4, declared=True):
    """`inputs`: name -> (type, shape); `feeds`: one dict for each run; `declared`: with the shapes that ONNX infers."""
    values = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    weights = [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()]
    model = helper.make_model(helper.make_graph(nodes, "g", values, results, weights),
                              opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model) if declared else model
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    for feed in feeds:
        for expected, actual in zip(session.run(None, feed), compiled.run(None, feed)):
            assert actual.shape == expected.shape and actual.dtype == expected.dtype
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=2e-5)


@pytest.mark.parametrize("shape_a, shape_b, feeds", [
    (["p", "m", "k"], ["q", "k", "n"], [((3, 4, 5), (1, 5, 6)), ((1, 4, 5), (2, 5, 6)), ((2, 4, 5), (2, 5, 6))]),
    (["p", "m", "k"], ["c", "q", "k", "n"], [((3, 4, 5), (2, 3, 5, 6)), ((1, 4, 5), (2, 3, 5, 6))]),
    (["b", "h", "m", "k"], ["b", "h", "k", "n"], [((2, 3, 4, 5), (2, 3, 5, 6))]),
    (["b", "h", "m", "k"], ["k", "n"], [((2, 3, 4, 5), (5, 6))]),
    (["k"], ["c", "k", "n"], [((5,), (2, 5, 6))])])
def test_matmul(shape_a, shape_b, feeds):
    check([helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": (FLOAT, shape_a), "b": (FLOAT, shape_b)}, ["y"],
          [{"a": floats(*a), "b": floats(*b)} for a, b in feeds])


@pytest.mark.parametrize("shape, feeds", [
    (["b", 7, 6, 5], [(2, 7, 6, 5), (0, 7, 6, 5)]),
    (["b", "h", "w", 5], [(2, 3, 4, 5), (1, 0, 4, 5)]),
    (["b", 3, "w", "c", 5], [(2, 3, 4, 2, 5)]),
    ([1, "h", 6, 5], [(1, 3, 6, 5)]),
    (["b", 0, 6, 5], [(2, 0, 6, 5)])])
def test_rows_of_all_batches_are_those_of_one_matrix(shape, feeds):
    nodes = [helper.make_node("MatMul", ["a", "w"], ["p"]), helper.make_node("Add", ["p", "bias"], ["s"]),
             helper.make_node("Relu", ["s"], ["y"])]
    check(nodes, {"a": (FLOAT, shape)}, ["y"], [{"a": floats(*each)} for each in feeds],
          {"w": floats(5, 9), "bias": floats(9)})
    model = helper.make_model(helper.make_graph(nodes, "g", [helper.make_tensor_value_info("a", FLOAT, shape)],
                                                [onnx.ValueInfoProto(name="y")],
                                                [numpy_helper.from_array(floats(5, 9), "w"),
                                                 numpy_helper.from_array(floats(9), "bias")]), ir_version=9)
    text = str(treadle.relay.frontend.from_onnx(model)[0])
    assert ("reshape" in text) == (0 not in shape)


def test_batches_that_do_not_broadcast_are_refused_when_it_runs():
    values = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in (("a", ["p", 2, 3]), ("b", ["q", 3, 2]))]
    model = helper.make_model(helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "g", values,
                                                [onnx.ValueInfoProto(name="y")]), ir_version=9)
    compiled = treadle.compile(onnx.shape_inference.infer_shapes(model))
    with pytest.raises(treadle.Error):
        compiled.run(None, {"a": floats(2, 2, 3), "b": floats(3, 3, 2)})


@pytest.mark.parametrize("op, attributes", [
    ("AveragePool", dict(pads=[1, 0, 1, 2], count_include_pad=1)), ("AveragePool", dict(pads=[1, 0, 1, 2])), ("MaxPool", {}),
    ("LpPool", dict(pads=[0, 1, 1, 0]))])
def test_pools_with_partial_windows(op, attributes):
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[3, 4], strides=[2, 3], ceil_mode=1, **attributes)
    check([node], {"x": (FLOAT, ["n", "c", "h", "w"])}, ["y"], [{"x": floats(2, 3, h, w)} for h, w in ((6, 7), (7, 9), (10, 8))],
          opset=19)


def test_resize_by_lists_of_a_length_that_is_not_declared():
    check([helper.make_node("Resize", ["x", "", "s"], ["y"])], {"x": (FLOAT, ["n", "c", "h", "w"]), "s": (FLOAT, ["k"])}, ["y"],
          [{"x": floats(1, 2, 4, 4), "s": np.array(s, np.float32)} for s in ([1, 1, 2, 2], [1, 1, 0.5, 3])])


def test_pad_by_a_list_of_a_length_that_is_not_declared():
    check([helper.make_node("Pad", ["x", "p"], ["y"])], {"x": (FLOAT, ["a", "b"]), "p": (INT64, ["k"])}, ["y"],
          [{"x": floats(2, 3), "p": np.array([1, 0, 2, 3])}])


def test_pads_of_a_run_by_borders_of_any_sign():
    borders = ([0] * 8, [0, 0, 1, 2, 0, 0, 3, 4], [1, 2, 0, 0, 2, 1, 5, 0], [0, 1, -2, 9, 0, -1, 3, -4], [0, 0, -5, -3, 0, 0, 6, 7],
               [0, 0, 70, 0, 0, 0, -4, 0])
    check([helper.make_node("Pad", ["x", "p", "v"], ["y"])], {"x": (FLOAT, ["n", 3, "h", "w"]), "p": (INT64, [8]), "v": (FLOAT, [])}, ["y"],
          [{"x": floats(2, 3, 6, 21), "p": np.array(p), "v": np.array(7, np.float32)} for p in borders])


def test_grid_whose_coordinates_are_not_declared():
    check([helper.make_node("GridSample", ["x", "g"], ["y"])],
          {"x": (FLOAT, ["n", "c", "h", "w"]), "g": (FLOAT, ["n", "p", "q", "two"])}, ["y"],
          [{"x": floats(1, 2, 4, 4), "g": floats(1, 3, 3, 2)}], opset=16)


def test_squeeze_of_one_dimension_that_may_be_one():
    nodes = [helper.make_node("Squeeze", ["x"], ["s"]), helper.make_node("Shape", ["s"], ["y"])]
    feeds = [{"x": floats(n, 1, 4)} for n in (3, 1, 2)]
    model = helper.make_model(helper.make_graph(
        [nodes[0], helper.make_node("ReduceSum", ["s"], ["y"], keepdims=0)], "g",
        [helper.make_tensor_value_info("x", FLOAT, ["n", 1, 4])], [helper.make_tensor_value_info("y", FLOAT, [])]),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    compiled = treadle.compile(model)
    for feed in feeds:
        np.testing.assert_allclose(compiled.run(None, feed)[0], feed["x"].sum(), rtol=1e-5)


def test_nonzero_of_a_scalar():
    check([helper.make_node("NonZero", ["x"], ["y"])], {"x": (FLOAT, [])}, ["y"],
          [{"x": np.array(v, np.float32)} for v in (2, 0)], declared=False)  # ONNX infers (0, n), its runtime gives (1, n)


def test_branch_that_does_not_fit_the_shapes():
    """Fixed shapes suit one branch; the other stops the run where it is taken."""
    def branch(name, weight):
        return helper.make_graph([helper.make_node("MatMul", ["x", weight], [name])], name, [],
                                 [helper.make_tensor_value_info(name, FLOAT, None)])

    values = [helper.make_tensor_value_info("x", FLOAT, ["n", "k"]), helper.make_tensor_value_info("c", BOOL, [])]
    weights = [numpy_helper.from_array(floats(4, 3), "w4"), numpy_helper.from_array(floats(5, 3), "w5")]
    model = helper.make_model(helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch("t", "w4"), else_branch=branch("e", "w5"))], "g", values,
        [helper.make_tensor_value_info("y", FLOAT, None)], weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    compiled = treadle.compile(model, shapes={"x": [2, 4]})
    x = floats(2, 4)
    np.testing.assert_allclose(compiled.run(None, {"x": x, "c": np.array(True)})[0],
                               x @ numpy_helper.to_array(weights[0]), rtol=1e-4, atol=1e-5)
    with pytest.raises(treadle.Error, match="this branch can't be run"):
        compiled.run(None, {"x": x, "c": np.array(False)})


@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_attention_of_symbols_only(heads):
    """Heads, their sizes and lengths: nothing is known when compiling."""
    q_heads, kv_heads = heads
    values = [helper.make_tensor_value_info(name, FLOAT, [f"{name}{d}" for d in range(4)]) for name in "QKV"]
    model = helper.make_model(helper.make_graph([helper.make_node("Attention", ["Q", "K", "V"], ["Y"], is_causal=1)], "g", values,
                                                [onnx.ValueInfoProto(name="Y")]),
                              opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    compiled = treadle.compile(onnx.shape_inference.infer_shapes(model))
    evaluator = onnx.reference.ReferenceEvaluator(model)
    for batch, length in ((1, 3), (2, 5)):
        feed = {"Q": floats(batch, q_heads, length, 8), "K": floats(batch, kv_heads, length, 8),
                "V": floats(batch, kv_heads, length, 6)}
        np.testing.assert_allclose(compiled.run(None, feed)[0], evaluator.run(None, feed)[0], rtol=1e-4, atol=1e-5)


def test_scatter_of_indices_whose_length_is_not_declared():
    check([helper.make_node("ScatterND", ["x", "i", "u"], ["y"])],
          {"x": (FLOAT, ["a", "b"]), "i": (INT64, ["n", "k"]), "u": (FLOAT, ["n", "b"])}, ["y"],
          [{"x": floats(4, 3), "i": np.array([[1], [3]]), "u": floats(2, 3)}])


def test_scales_of_a_length_that_is_not_declared():
    check([helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
           helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1)],
          {"x": (FLOAT, ["a", "b"]), "s": (FLOAT, ["k"]), "z": (TensorProto.UINT8, ["k"])}, ["y"],
          [{"x": floats(4, 3), "s": np.full(k, 0.1, np.float32), "z": np.full(k, 7, np.uint8)} for k in (3,)])


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_a_dynamic_number_of_columns(transposed):
    inputs = {"a": (FLOAT, ["b", 2, "m", 24]), "c": (FLOAT, ["b", 2, "n", 24] if transposed else ["b", 2, 24, "n"]),
              "mask": (FLOAT, ["b", 1, 1, "n"])}
    nodes = [helper.make_node("Transpose", ["c"], ["d"], perm=[0, 1, 3, 2])] if transposed else []
    nodes += [helper.make_node("MatMul", ["a", "d" if transposed else "c"], ["s"]), helper.make_node("Add", ["s", "mask"], ["y"])]
    feeds = [{"a": floats(b, 2, m, 24), "c": floats(*((b, 2, n, 24) if transposed else (b, 2, 24, n))),
              "mask": floats(b, 1, 1, n)} for b, m, n in [(1, 1, 1), (2, 3, 5), (1, 20, 16), (3, 14, 17), (1, 33, 64)]]
    check(nodes, inputs, ["y"], feeds)


def embedding(table_rows):
    """Positions as exporters write them: the beginning of a table, as long as the sequence, widened to the batch."""
    constants = {"table": floats(table_rows, 8), "words": floats(50, 8), "zero": np.array([0], np.int64),
                 "positions": np.arange(table_rows, dtype=np.int64)[None], "one": np.array([1], np.int64)}
    nodes = [helper.make_node("Shape", ["ids"], ["shape"]),
             helper.make_node("Slice", ["shape", "one", "two", "zero"], ["length"]),
             helper.make_node("Slice", ["positions", "zero", "length", "one"], ["used"]),
             helper.make_node("Expand", ["used", "shape"], ["each"]),
             helper.make_node("Gather", ["words", "ids"], ["w"]), helper.make_node("Gather", ["table", "each"], ["p"]),
             helper.make_node("Gather", ["table", "used"], ["q"]),
             helper.make_node("Add", ["w", "p"], ["wp"]), helper.make_node("Add", ["wp", "q"], ["y"])]
    constants["two"] = np.array([2], np.int64)
    return nodes, constants


def embedding_model(table_rows):
    nodes, constants = embedding(table_rows)
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    ids = helper.make_tensor_value_info("ids", INT64, ["batch", "sequence"])
    return helper.make_model(helper.make_graph(nodes, "g", [ids], [onnx.ValueInfoProto(name="y")], weights),
                             opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_sizes_computed_from_symbols_are_symbols():
    nodes, constants = embedding(32)
    module, _ = treadle.relay.frontend.from_onnx(embedding_model(32))
    typed = treadle.relay.transform.InferType()(module)
    assert "Tensor[(batch, sequence, 8), float32]" in str(typed["main"].checked_type.ret_type)
    feeds = [{"ids": RNG.integers(0, 50, (b, s))} for b, s in [(1, 1), (2, 7), (1, 32), (3, 1)]]
    check(nodes, {"ids": (INT64, ["batch", "sequence"])}, ["y"], feeds, constants, declared=False)


def test_positions_beyond_a_table_are_refused():
    with pytest.raises(treadle.Error):
        treadle.compile(embedding_model(4)).run(None, {"ids": RNG.integers(0, 50, (2, 5))})


@pytest.mark.parametrize("opt_level", [0, 3])
def test_vectors_and_tables_of_dynamic_tensors(opt_level):
    """What runs along the channels, or is read at values, needn't be as long as the last dimension."""
    weight, bias = np.ones((4, 2, 3), np.float32), np.arange(4, dtype=np.float32)
    scale, zero = np.array(0.05, np.float32), np.array(3, np.uint8)
    fixed = {"w": weight, "b": bias, "s": scale, "z": zero}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
         helper.make_node("Mish", ["d"], ["m"]), helper.make_node("Tanh", ["m"], ["t"]),
         helper.make_node("QuantizeLinear", ["t", "s", "z"], ["r"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, "m"]),
         helper.make_tensor_value_info("q", TensorProto.UINT8, ["n"])],
        [helper.make_empty_tensor_value_info(name) for name in "yr"],
        [numpy_helper.from_array(array, name) for name, array in fixed.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    y, r = treadle.compile(model, opt_level=opt_level).run(None, {"x": np.ones((5, 2, 9), np.float32),
                                                                  "q": np.arange(5, dtype=np.uint8)})
    np.testing.assert_array_equal(y, np.broadcast_to(6 + bias.reshape(-1, 1), (5, 4, 7)))
    d = (np.arange(5) - 3.0) * 0.05
    expected = np.rint(np.tanh(d * np.tanh(np.log1p(np.exp(d)))) / 0.05) + 3
    np.testing.assert_array_equal(r, expected)


@pytest.mark.parametrize("channels, group", [(2, 1), (2, 2), (16, 1), (16, 16)])
@pytest.mark.parametrize("kernel, stride, rank", [(3, 1, 1), (5, 2, 1), (3, 1, 2), (3, 2, 2), (5, 2, 2), (4, 3, 2)])
def test_a_window_that_does_not_fit_is_refused_when_it_runs(kernel, stride, rank, channels, group):
    """Also one that is less than a stride too large: there is no result without elements, as of static sizes."""
    w = np.ones((channels, channels // group) + (kernel,) * rank, np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[stride] * rank, group=group)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, *"hw"[:rank]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [onnx.numpy_helper.from_array(w, "w")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    for size in range(kernel - stride - 1, kernel + 2):
        x = np.ones((1, channels) + (size,) * rank, np.float32)
        if size < kernel:
            with pytest.raises(treadle.Error, match="window|dimension"):
                model.run(None, {"x": x})
        else:
            y = model.run(None, {"x": x})[0]
            assert y.shape[2:] == ((size - kernel) // stride + 1,) * rank
            np.testing.assert_array_equal(y, channels // group * kernel ** rank)


def test_short_time_transform_of_a_real_signal_without_parts():
    """As PyTorch exports it: (batch, length), where the standard has a last dimension of 1."""
    nodes = [helper.make_node("STFT", ["x", "step", "w"], ["y"])]
    check(nodes, {"x": (FLOAT, ["b", "n"])}, ["y"], [{"x": floats(2, 40)}, {"x": floats(1, 57)}],
          {"step": np.array(5), "w": np.hanning(16).astype(np.float32)}, declared=False)


def test_a_mask_that_is_expanded_by_one_stays_a_mask_of_attention():
    text = """#[version = "0.0.5"]
    def @main(%m: Tensor[(b, 1, s, s), float32], %n: Tensor[(4), int64]) {
      dyn.broadcast_to(%m, %n, shape=[b, 1, s, s], dtype="float32")
    }"""
    result = treadle.relay.transform.InferType()(treadle.parser.parse(text))["main"].body.checked_type
    assert str(result) == "Tensor[(b, 1, s, s), float32]"


def test_eye_of_a_size_that_data_decides():
    """Its rows are known, its columns aren't."""
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("EyeLike", ["i"], ["y"], k=1)]
    check(nodes, {"x": (FLOAT, [2, 3])}, ["y"], [{"x": np.ones((2, 3), np.float32)}, {"x": np.eye(2, 3, dtype=np.float32)}])


def test_compress_along_a_size_that_the_run_knows():
    nodes = [helper.make_node("Compress", ["x", "c"], ["y"], axis=1)]
    x = {"x": (FLOAT, [2, "n"])}
    constants = {"c": np.array([True, False, True])}
    check(nodes, x, ["y"], [{"x": floats(2, 3)}, {"x": floats(2, 7)}], constants)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [2, "n"])],
                              [helper.make_tensor_value_info("y", FLOAT, None)], [onnx.numpy_helper.from_array(constants["c"], "c")])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    with pytest.raises(treadle.Error, match="index 2 is out of range for 2"):
        model.run(None, {"x": floats(2, 2)})


@pytest.mark.parametrize("factor", [2, 3])
def test_sizes_computed_in_int32(factor):
    source = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[n, 3, h, w] x) => (float[a, b, c, d] y)
        <int64[1] two = {{2}}, int64[1] four = {{4}}, int64[1] zero = {{0}}, float[0] none = {{}}, int32 factor = {{{factor}}}> {{
            shape = Shape(x)
            front = Slice(shape, zero, two, zero)
            narrow = Cast <to: int = 6> (shape)
            sizes = Slice(narrow, two, four, zero)
            scaled = Mul(sizes, factor)
            wide = Cast <to: int = 7> (scaled)
            wanted = Concat <axis: int = 0> (front, wide)
            y = Resize <mode: string = "linear"> (x, none, none, wanted)
        }}""")
    model = treadle.compile(source)
    for shape in ((1, 3, 4, 5), (2, 3, 7, 1)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        session = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(model.run(None, {"x": x})[0], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("branch", [False, True])
def test_weights_of_subgraphs_in_a_loop_of_dynamic_length(branch):
    """As PyTorch's exporter writes EmbeddingBag: the branch gives a weight of its own."""
    weight = helper.make_tensor("k", FLOAT, [1, 4], [1, 2, 3, 4])
    row = [helper.make_node("Gather", ["x", "at"], ["row"], axis=0)]
    if branch:
        own = helper.make_graph([], "own", [], [helper.make_tensor_value_info("k", FLOAT, [1, 4])], [weight])
        other = helper.make_graph([helper.make_node("Neg", ["row"], ["r"])], "other", [], [helper.make_tensor_value_info("r", FLOAT, None)])
        last = [helper.make_node("Equal", ["i", "one"], ["odd"]),
                helper.make_node("If", ["odd"], ["result"], then_branch=own, else_branch=other)]
    else:
        last = [helper.make_node("Add", ["row", "k"], ["result"])]
    body = helper.make_graph(
        [helper.make_node("Unsqueeze", ["i", "axis"], ["at"]), *row, *last, helper.make_node("Identity", ["c"], ["go_on"])], "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("c", BOOL, [])],
        [helper.make_tensor_value_info("go_on", BOOL, []), helper.make_tensor_value_info("result", FLOAT, None)],
        [] if branch else [weight])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", ""], ["rows"], body=body), helper.make_node("Squeeze", ["rows", "second"], ["y"])], "g",
        [helper.make_tensor_value_info("x", FLOAT, ["m", 4]), helper.make_tensor_value_info("n", INT64, [])],
        [helper.make_tensor_value_info("y", FLOAT, ["trips", 4])],
        [helper.make_tensor("one", INT64, [], [1]), helper.make_tensor("axis", INT64, [1], [0]), helper.make_tensor("second", INT64, [1], [1])])
    model = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    x = floats(5, 4)
    k = np.array([[1, 2, 3, 4]], np.float32)
    for trips in (1, 3, 5):
        expected = x[:trips] + k if not branch else np.concatenate([k if i == 1 else -x[i:i + 1] for i in range(trips)])
        np.testing.assert_allclose(model.run(None, {"x": x, "n": np.array(trips)})[0], expected, rtol=1e-6)


def test_reshape_infers_what_names_leave():
    """-1 beside sizes that the run tells, all but numbers of which the operand has too."""
    nodes = [helper.make_node("Shape", ["x"], ["size"], start=2, end=3),
             helper.make_node("Concat", ["minus", "size", "width"], ["sizes"], axis=0),
             helper.make_node("Reshape", ["x", "sizes"], ["y"])]
    constants = [numpy_helper.from_array(np.array([value], np.int64), name) for name, value in (("minus", -1), ("width", 4))]
    graph = helper.make_graph(nodes, "heads", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, "n", 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    module, _ = treadle.relay.frontend.from_onnx(model)
    assert "Tensor[(12, n, 4), float32]" in treadle.relay.transform.InferType()(module).astext(show_meta_data=False)
    x = np.arange(2 * 3 * 5 * 8, dtype=np.float32).reshape(2, 3, 5, 8)
    np.testing.assert_array_equal(treadle.compile(model).run(None, {"x": x})[0], x.reshape(12, 5, 4))


@pytest.mark.parametrize("shape, known", [(["b", 6, "h", "w"], "(h * w)"), (["b", "h", 12], "(h * 2)"), (["b", 6], "1")])
def test_what_is_left_of_sizes_is_known(shape, known, tmp_path):
    """Reshape to [b, -1, 6], as exporters write it: of the tokens of an image nobody knew the number, nor that queries and keys have as many."""
    nodes = [helper.make_node("Shape", ["x"], ["s"], start=0, end=1), helper.make_node("Concat", ["s", "rest"], ["t"], axis=0),
             helper.make_node("Reshape", ["x", "t"], ["y"], allowzero=1)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                   [onnx.ValueInfoProto(name="y")], [numpy_helper.from_array(np.array([-1, 6]), "rest")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    module, _ = treadle.relay.frontend.from_onnx(model)
    text = treadle.relay.transform.InferType()(module).astext()
    assert f"(b, {known}, 6)" in text
    compiled = treadle.compile(model)
    for sizes in ({"b": 2, "h": 3, "w": 5}, {"b": 1, "h": 1, "w": 1}):
        x = np.arange(np.prod([sizes.get(d, d) for d in shape]), dtype="f4").reshape([sizes.get(d, d) for d in shape])
        np.testing.assert_array_equal(compiled(x=x)["y"], x.reshape(len(x), -1, 6))
    empty = np.zeros([{"h": 0}.get(d, 2 if isinstance(d, str) else d) for d in shape], "f4")
    assert compiled(x=empty)["y"].shape == empty.reshape(2, -1, 6).shape


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_borders_of_one_dimension_whose_widths_the_run_knows(mode):
    """As PyTorch's older exporter pads sequences: the widths of other dimensions are zeros of the same list."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 19]>
        g (float[b, 3, n] x, int64[1] left, int64[1] right) => (float[b, 3, m] y) <int64[2] none = {{0, 0}}> {{
            pads = Concat <axis = 0> (none, left, none, right)
            y = Pad <mode = "{mode}"> (x, pads)
        }}""")
    compiled = treadle.compile(model)
    # What stays is copied, not gathered by positions.
    assert "dyn.nn.pad" in compiled.explain()
    assert compiled.outputs[0].shape[1] == 3
    rng = np.random.default_rng(5)
    for batch, size, left, right in ((2, 7, 3, 2), (1, 20, 0, 4), (3, 5, 4, 0), (1, 1, 0, 0), (2, 300, 40, 17)):
        x = rng.standard_normal((batch, 3, size)).astype(np.float32)
        y = compiled(x=x, left=np.array([left]), right=np.array([right]))["y"]
        np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (0, 0), (left, right)), mode=mode))
    with pytest.raises(treadle.Error, match="size of a padded dimension"):
        compiled(x=np.zeros((1, 3, 0), np.float32), left=np.array([1]), right=np.array([0]))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("policy", ["stretch", "not_larger"])
def test_antialiased_images_of_any_size(mode, policy):
    """Sizes of batch and channels, read from the image, leave those dimensions as they are."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 19]>
        g (float[n, 3, h, w] x, int64[2] size) => (float[n, 3, p, q] y) {{
            shape = Shape <end = 2> (x)
            sizes = Concat <axis = 0> (shape, size)
            y = Resize <mode = "{mode}", antialias = 1, exclude_outside = 1, axes = [0, 1, 2, 3]> (x, , , sizes)
        }}""")
    if policy != "stretch":
        del model.graph.node[:2]
        resize = model.graph.node[0]
        resize.input[3] = "size"
        next(a for a in resize.attribute if a.name == "axes").CopyFrom(helper.make_attribute("axes", [2, 3]))
        resize.attribute.append(helper.make_attribute("keep_aspect_ratio_policy", policy))
    compiled = treadle.compile(model)
    assert compiled.outputs[0].shape[:2] == ("n", 3)
    if policy == "stretch":
        text = treadle.relay.frontend.from_onnx(model)[0].astext(show_meta_data=False)
        assert text.count("dyn.resize_axis") == 2
    reference = onnx.reference.ReferenceEvaluator(model)
    rng = np.random.default_rng(7)
    for n, h, w, size in ((1, 12, 9, (5, 4)), (2, 4, 30, (9, 7)), (1, 31, 17, (1, 17)), (1, 64, 3, (63, 11)), (2, 2, 20, (3, 20))):
        feed = {"x": rng.random((n, 3, h, w)).astype(np.float32), "size": np.array(size)}
        np.testing.assert_allclose(compiled(**feed)["y"], reference.run(None, feed)[0], rtol=0, atol=2e-5)
