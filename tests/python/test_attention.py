# SPDX-License-Identifier: Apache-2.0
"""Attention as exporters write it: recognised, and equal to its definition."""
import json

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle


def attention_model(batch, heads, queries, keys, size, values, mask=None, transposed=True, scale=("Div", 3.0)):
    """softmax(Q K^T / 3 + mask) V of inputs q, k, v."""
    nodes, initializers = [], []

    def constant(name, value):
        initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, list(inputs), [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    k = add("Transpose", "k", perm=[0, 1, 3, 2]) if transposed else "k"
    x = add("MatMul", "q", k)
    if scale:
        x = add(scale[0], x, constant("scale", np.float32(scale[1])))
    shapes = {"q": (batch, heads, queries, size), "k": (batch, heads, keys, size) if transposed else
              (batch, heads, size, keys), "v": (batch, heads, keys, values)}
    if mask is not None:
        shapes["mask"] = mask
        x = add("Add", "mask", x)
    y = add("MatMul", add("Softmax", x, axis=-1), "v")
    graph = helper.make_graph(
        nodes, "attention", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, (batch, heads, queries, values))], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), shapes


def definition(x, transposed, scale):
    q, k, v = (x[name].astype(np.float64) for name in "qkv")
    scores = q @ (np.swapaxes(k, -1, -2) if transposed else k)
    if scale:
        scores = scores / scale[1] if scale[0] == "Div" else scores * scale[1]
    if "mask" in x:
        scores = scores + x["mask"]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


CASES = [
    dict(batch=1, heads=2, queries=128, keys=128, size=64, values=64, mask=(1, 1, 1, 128)),
    dict(batch=2, heads=3, queries=197, keys=197, size=64, values=64),
    dict(batch=2, heads=2, queries=7, keys=9, size=15, values=5, mask=(2, 1, 7, 9)),
    dict(batch=1, heads=1, queries=4, keys=16, size=8, values=16, mask=(4, 16), transposed=False),
    dict(batch=1, heads=2, queries=33, keys=40, size=12, values=20, mask=(1, 2, 33, 40), scale=("Mul", 0.25)),
    dict(batch=1, heads=12, queries=1, keys=256, size=64, values=64),
    dict(batch=2, heads=2, queries=1, keys=19, size=8, values=24, mask=(2, 1, 1, 19), scale=None),
    dict(batch=1, heads=2, queries=3, keys=1, size=16, values=8),
    dict(batch=1, heads=2, queries=600, keys=600, size=32, values=32),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_equals_its_definition(case, threads):
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, threads=threads)
    assert "attention" in compiled.graph_json
    rng = np.random.default_rng(1)
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    expected = definition(x, case.get("transposed", True), case.get("scale", ("Div", 3.0)))
    np.testing.assert_allclose(compiled.run(None, x)[0], expected, rtol=2e-5, atol=1e-5)


DYNAMIC = [
    dict(batch="b", heads=2, queries="m", keys="n", size=24, values=32, mask=("b", 1, "m", "n")),
    dict(batch="b", heads=2, queries="m", keys="m", size=16, values=16),
    dict(batch="b", heads=3, queries=20, keys=37, size=64, values=64, mask=(1, 1, 20, 37)),
    dict(batch=2, heads=2, queries=6, keys="n", size=20, values=48, mask=("n",), transposed=False),
    dict(batch="b", heads=2, queries=1, keys="n", size=24, values=32, mask=("b", 1, 1, "n")),
    dict(batch=1, heads=3, queries=2, keys="n", size=16, values=16),
]


@pytest.mark.parametrize("case", DYNAMIC)
def test_sizes_that_the_run_decides(case, tmp_path):
    model, shapes = attention_model(**case)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    compiled = treadle.compile(path, threads=2)
    assert "attention.packing" in compiled.explain()
    rng = np.random.default_rng(2)
    for b, m, n in ((1, 1, 1), (2, 3, 16), (1, 14, 17), (3, 15, 31), (1, 128, 300), (1, 301, 5), (2, 130, 33)):
        sizes = {"b": b, "m": m, "n": n}
        x = {name: rng.standard_normal([sizes.get(d, d) for d in shape]).astype(np.float32) for name, shape in shapes.items()}
        expected = definition(x, case.get("transposed", True), ("Div", 3.0))
        np.testing.assert_allclose(list(compiled(**x).values())[0], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("total", ["total", "past + new"])
def test_masks_of_unrelated_dimensions(total, tmp_path):
    """A causal mask plus the one of an input, whose dimension is another than the number of keys for all that is declared."""
    runtime = pytest.importorskip("onnxruntime")
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        step (float[b, 2, new, 16] q, float[b, 2, new, 16] k, float[b, 2, past, 16] cache, float[b, total] seen) => (float[b, 2, new, 16] y)
        <int64 two = {2}, int64 zero = {0}, int64 step = {1}, int64[1] row_axis = {1}, int64[2] head_axes = {1, 2},
         float four = {4.0}, float least = {-1e9}, float none = {0.0}, float one = {1.0}> {
            keys = Concat <axis = 2> (cache, k)
            sizes = Shape (keys)
            n = Gather (sizes, two)
            q_sizes = Shape (q)
            m = Gather (q_sizes, two)
            p = Sub (n, m)
            columns = Range (zero, n, step)
            rows = Range (p, n, step)
            row = Unsqueeze (rows, row_axis)
            later = Greater (columns, row)
            causal = Where (later, least, none)
            unseen = Sub (one, seen)
            hidden = Mul (unseen, least)
            of_heads = Unsqueeze (hidden, head_axes)
            mask = Add (of_heads, causal)
            turned = Transpose <perm = [0, 1, 3, 2]> (keys)
            product = MatMul (q, turned)
            scaled = Div (product, four)
            scores = Add (scaled, mask)
            weights = Softmax <axis = -1> (scores)
            y = MatMul (weights, keys)
        }""")
    source.graph.input[3].type.tensor_type.shape.dim[1].dim_param = total
    path = tmp_path / "m.onnx"
    onnx.save(source, path)
    compiled = treadle.compile(path, threads=1)
    assert "attention.packing" in compiled.explain()
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(6)

    def feed(b, new, past, total):
        shapes = {"q": (b, 2, new, 16), "k": (b, 2, new, 16), "cache": (b, 2, past, 16)}
        x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        return {**x, "seen": (rng.random((b, total)) < 0.8).astype(np.float32)}

    for sizes in ((2, 3, 9, 12), (1, 1, 20, 21), (3, 1, 0, 1), (2, 5, 0, 5), (1, 40, 300, 340), (2, 3, 9, 1)):
        x = feed(*sizes)
        np.testing.assert_allclose(compiled(**x)["y"], session.run(None, x)[0], rtol=2e-5, atol=1e-5)
    for sizes in ((2, 3, 9, 5), (2, 1, 0, 4), (2, 3, 9, 13)):
        with pytest.raises(treadle.error.ShapeError, match="have to be equal"):
            compiled(**feed(*sizes))


@pytest.mark.parametrize("queries", [1, 5, "m"])
@pytest.mark.parametrize("keys", [0, "n"])
def test_no_keys_give_zero(queries, keys):
    """As products over no elements are: sums of no exponentials divided by each other were NaN, or didn't compile."""
    model, shapes = attention_model(1, 2, queries, keys, 16, 8)
    x = {name: np.ones([{"m": 5, "n": 0}.get(d, d) for d in shape], np.float32) for name, shape in shapes.items()}
    np.testing.assert_array_equal(treadle.compile(model).run(None, x)[0], 0)


def test_masked_keys_have_no_weight():
    model, shapes = attention_model(1, 2, 10, 21, 16, 16, mask=(1, 1, 10, 21))
    rng = np.random.default_rng(1)
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x["mask"] = np.where(np.arange(21) <= np.arange(10)[:, None], 0, -np.inf).astype(np.float32)[None, None]
    compiled = treadle.compile(model)
    y = compiled.run(None, x)[0]
    np.testing.assert_allclose(y, definition(x, True, ("Div", 3.0)), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(y[:, :, 0], x["v"][:, :, 0], rtol=1e-6)


@pytest.mark.parametrize("case", [
    dict(batch=2, heads=2, queries=10, keys=21, size=16, values=16, mask=(2, 1, 10, 21)),
    dict(batch=1, heads=2, queries=1, keys=32, size=16, values=16, mask=(1, 1, 1, 32)),
    dict(batch=1, heads=2, queries=5, keys=7, size=6, values=5, mask=(1, 1, 5, 7)),
    dict(batch="b", heads=2, queries="m", keys="n", size=16, values=16, mask=("b", 1, "m", "n")),
])
def test_queries_that_see_no_key_give_zero_where_the_model_says_so(case):
    """As PyTorch exports scaled_dot_product_attention: where(isnan(p), 0, p)."""
    model, shapes = attention_model(**case)
    product = model.graph.node[-1]
    nodes = [helper.make_node("IsNaN", [product.input[0]], ["test"]),
             helper.make_node("Where", ["test", "zero", product.input[0]], ["cleared"])]
    for node in nodes:
        model.graph.node.insert(len(model.graph.node) - 1, node)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    product.input[0] = "cleared"
    compiled = treadle.compile(model)
    assert "nn.attention" in compiled.explain() or "attention" in compiled.graph_json
    rng = np.random.default_rng(3)
    sizes = {"b": 2, "m": 6, "n": 19}
    x = {name: rng.standard_normal([sizes.get(d, d) for d in shape]).astype(np.float32) for name, shape in shapes.items()}
    hidden = np.arange(x["mask"].shape[-2]) % 3 == 0
    x["mask"][:, :, hidden] = -np.inf
    expected = definition({**x, "mask": np.where(np.isneginf(x["mask"]), 0, x["mask"])}, True, ("Div", 3.0))
    expected[:, :, hidden] = 0
    np.testing.assert_allclose(list(compiled(**x).values())[0], expected, rtol=2e-5, atol=1e-5)


def test_scores_that_are_used_elsewhere_stay():
    model, _ = attention_model(1, 2, 16, 16, 16, 16)
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    model.graph.output.append(helper.make_tensor_value_info(softmax.output[0], TensorProto.FLOAT, (1, 2, 16, 16)))
    assert "attention" not in treadle.compile(model).graph_json


@pytest.mark.parametrize("past", [33, "past"])
def test_steps_of_decoders_move_no_keys(past):
    """Heads that share keys are rows of one product: nothing as large as the cache is made but the longer cache."""
    runtime = pytest.importorskip("onnxruntime")
    rng, outputs = np.random.default_rng(2), ["y", "keys", "values"]
    shapes = {"q": (2, 6, 1, 16), "k": (2, 3, 1, 16), "v": (2, 3, 1, 16), "pk": (2, 3, past, 16), "pv": (2, 3, past, 16)}
    graph = helper.make_graph(
        [helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], outputs, is_causal=1)], "step",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    module, _ = treadle.relay.frontend.from_onnx(model)
    text = module.astext(show_meta_data=False)
    assert "repeat(" not in text and "transpose(" not in text
    feed = {n: rng.standard_normal([33 if d == past else d for d in s]).astype(np.float32) for n, s in shapes.items()}
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for result, wanted in zip(treadle.compile(model).run(None, feed), session.run(None, feed)):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


def shared_heads_model(queries, keys, masked, mask_heads, repeated, key_scale=None):
    """Keys and values of 2 heads for 8 heads of queries, as exporters repeat them; the mask has a size of its own."""
    nodes, initializers = [], []

    def add(op, *inputs, **attributes):
        nodes.append(helper.make_node(op, list(inputs), [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def numbers(*values):
        initializers.append(numpy_helper.from_array(np.array(values, np.int64), f"c{len(initializers)}"))
        return initializers[-1].name

    def repeat(x):
        x = add("Unsqueeze", x, numbers(2))
        if repeated == "tile":
            x = add("Tile", x, numbers(1, 1, 4, 1, 1))
        elif repeated == "expand":
            x = add("Expand", x, numbers(1, 1, 4, 1, 1))
        else:
            length = add("Gather", add("Shape", x), numbers(3))
            x = add("Expand", x, add("Concat", numbers(3), numbers(2), numbers(4), length, numbers(16), axis=0))
        return add("Reshape", x, numbers(0, 8, -1, 16))

    transposed = add("Transpose", repeat("k"), perm=[0, 1, 3, 2])
    if key_scale:
        initializers.append(numpy_helper.from_array(np.float32(key_scale), "key_scale"))
        transposed = add("Mul", transposed, "key_scale")
    scores = add("MatMul", "q", transposed)
    weights = add("Softmax", add("Add", scores, "mask"), axis=-1)
    add("MatMul", weights, repeat("v"))
    shapes = {"q": (3, 8, queries, 16), "k": (3, 2, keys, 16), "v": (3, 2, keys, 16),
              "mask": (3, mask_heads, queries, masked)}
    graph = helper.make_graph(
        nodes, "shared", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), shapes


@pytest.mark.parametrize("queries, mask_heads, grouped", [(1, 1, True), (1, 8, False), (5, 1, False)])
@pytest.mark.parametrize("keys, masked, repeated", [(21, 21, "expand"), (21, 21, "tile"), ("keys", "masked", "expand"),
                                                    ("keys", "keys", "shape")])
def test_groups_of_queries_share_heads(queries, mask_heads, grouped, keys, masked, repeated):
    """One query per head: those of a group are rows of one product, whose keys and values aren't repeated."""
    model, shapes = shared_heads_model(queries, keys, masked, mask_heads, repeated)
    rng = np.random.default_rng(3)
    feed = {n: rng.standard_normal([21 if isinstance(d, str) else d for d in s]).astype(np.float32) for n, s in shapes.items()}
    whole = {**feed, "k": np.repeat(feed["k"], 4, 1), "v": np.repeat(feed["v"], 4, 1)}
    compiled = treadle.compile(model)
    (y,) = compiled.run(None, feed)
    np.testing.assert_allclose(y, definition(whole, True, None), rtol=1e-5, atol=1e-5)
    kernels = " ".join(time.kernel for time in compiled.profile(feed))
    assert ("attention" in kernels and not any(word in kernels for word in ("broadcast", "tile", "repeat"))) == grouped
    if masked == "masked":
        (y,) = compiled.run(None, {**feed, "mask": feed["mask"][..., :1]})
        np.testing.assert_allclose(y, definition({**whole, "mask": feed["mask"][..., :1]}, True, None), rtol=1e-5, atol=1e-5)
        with pytest.raises(treadle.Error, match="20 and 21"):
            compiled.run(None, {**feed, "mask": feed["mask"][..., :20]})


def test_groups_share_heads_of_scaled_keys():
    """PyTorch's newer exporter multiplies queries and keys by the root of the scale."""
    model, shapes = shared_heads_model(1, 21, 21, 1, "expand", key_scale=0.25)
    rng = np.random.default_rng(4)
    feed = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    compiled = treadle.compile(model)
    (y,) = compiled.run(None, feed)
    whole = {**feed, "k": np.repeat(feed["k"], 4, 1), "v": np.repeat(feed["v"], 4, 1)}
    np.testing.assert_allclose(y, definition(whole, True, ("Mul", 0.25)), rtol=1e-5, atol=1e-5)
    assert not any("broadcast" in time.kernel for time in compiled.profile(feed))


def test_repeated_parts_that_are_not_samples_and_heads():
    """Four heads repeated twice, as 2 x 2: no groups of queries' heads share them as samples and heads."""
    def node(op, inputs, output, **attributes):
        return helper.make_node(op, inputs, [output], **attributes)
    nodes = [node("Expand", ["k", "two"], "k5"), node("Reshape", ["k5", "joined"], "k4"),
             node("Transpose", ["k4"], "kt", perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], "s"),
             node("Softmax", ["s"], "p", axis=-1), node("Expand", ["v", "two"], "v5"),
             node("Reshape", ["v5", "joined"], "v4"), node("MatMul", ["p", "v4"], "y")]
    constants = [numpy_helper.from_array(np.array([1, 1, 2, 1, 1], np.int64), "two"),
                 numpy_helper.from_array(np.array([1, 8, -1, 16], np.int64), "joined")]
    shapes = {"q": (1, 8, 1, 16), "k": (2, 2, 1, 9, 16), "v": (2, 2, 1, 9, 16)}
    graph = helper.make_graph(nodes, "parts", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(5)
    feed = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    whole = {n: np.repeat(feed[n], 2, 2).reshape(1, 8, 9, 16) for n in "kv"}
    np.testing.assert_allclose(treadle.compile(model).run(None, feed)[0], definition({**feed, **whole}, True, None),
                               rtol=1e-5, atol=1e-5)


def with_plan(case, tile_m, m_block, key_block, kernel="attention.packed", dtype="float32", tile_n=1):
    """Records of that plan: for the model's operands, which it pads, and for the packed ones."""
    def whole(size, part):
        return -(-size // part) * part
    plan = {"type": "schedule.AttentionPlan", "tile_m": tile_m, "tile_n": tile_n, "m_block": m_block, "key_block": key_block}
    problem = {"type": "schedule.AttentionProblem", "batch": case["batch"] * case["heads"], "m": case["queries"],
               "n": case["keys"], "s": case["size"], "d": case["values"], "dtype": dtype, "n_block": 0, "key_block": 0}
    packed = {**problem, "m": whole(problem["m"], m_block), "n": whole(problem["n"], key_block or 16),
              "d": whole(problem["d"], 16), "n_block": 16, "key_block": key_block}
    return "\n".join(json.dumps({"problem": p, "kernel": kernel, "plan": plan}) for p in (problem, packed))


KEY_BLOCKS = [
    (dict(batch=1, heads=2, queries=24, keys=128, size=16, values=16), (6, 12, 64)),
    (dict(batch=2, heads=1, queries=25, keys=131, size=24, values=40, mask=(2, 1, 25, 131)), (4, 8, 48)),
    (dict(batch=1, heads=2, queries=7, keys=100, size=8, values=5, mask=(100,)), (2, 4, 16)),
    (dict(batch=1, heads=1, queries=13, keys=300, size=64, values=64, mask=(1, 1, 1, 300)), (5, 15, 112)),
]


@pytest.mark.parametrize("tile_n", [1, 2])
@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v2"])
@pytest.mark.parametrize("case, plan", KEY_BLOCKS)
def test_keys_in_blocks(case, plan, target, tile_n):
    model, shapes = attention_model(**case)
    records = with_plan(case, *plan, tile_n=tile_n)
    compiled = treadle.compile(model, target=target, pass_config={"schedule.plans": records})
    assert f'"tile_n":{tile_n},"key_block":{plan[2]}' in compiled.explain()
    assert "(made by passes): nn.contrib_packed_attention" not in compiled.explain()  # it is the model's
    rng = np.random.default_rng(5)
    x = {name: (2 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    np.testing.assert_allclose(compiled.run(None, x)[0], definition(x, True, ("Div", 3.0)), rtol=0, atol=2e-5)


@pytest.mark.parametrize("tile_n", [2, 3, 4])
@pytest.mark.parametrize("keys, size, values", [(96, 16, 64), (80, 24, 48), (192, 64, 32), (33, 8, 130)])
def test_panels_of_a_tile(keys, size, values, tile_n):
    """Products whose panels are no whole tiles have tiles of one panel."""
    case = dict(batch=1, heads=2, queries=14, keys=keys, size=size, values=values)
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, pass_config={"schedule.plans": with_plan(case, 7, 14, 0, tile_n=tile_n)})
    assert f'"tile_n":{tile_n},"key_block":0' in compiled.explain()
    rng = np.random.default_rng(5)
    x = {name: (2 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    np.testing.assert_allclose(compiled.run(None, x)[0], definition(x, True, ("Div", 3.0)), rtol=0, atol=2e-5)


def test_masks_of_whole_blocks_of_keys():
    """A block of which a query sees no key counts nothing; a query that sees none at all gives NaN."""
    case = dict(batch=1, heads=1, queries=10, keys=96, size=16, values=16, mask=(1, 1, 10, 96))
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, pass_config={"schedule.plans": with_plan(case, 2, 4, 32)})
    rng = np.random.default_rng(6)
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    seen = np.ones((10, 96), bool)
    seen[0, :32] = seen[1, 32:64] = seen[2, 32:] = seen[3, :64] = False
    seen[4], seen[5] = np.arange(96) == 95, np.arange(96) == 0
    x["mask"] = np.where(seen, 0, -np.inf).astype(np.float32)[None, None]
    np.testing.assert_allclose(compiled.run(None, x)[0], definition(x, True, ("Div", 3.0)), rtol=0, atol=2e-5)
    x["mask"][0, 0, 7] = -np.inf
    x["mask"][0, 0, 8, 40] = np.nan
    x["mask"][0, 0, 9, 70] = np.inf
    y = compiled.run(None, x)[0]
    assert np.isnan(y[0, 0, 7:]).all() and not np.isnan(y[0, 0, :7]).any()


def test_scores_of_any_size_in_blocks_of_keys():
    """Maxima of blocks that are far apart: what is far below the row's counts nothing, and nothing overflows."""
    case = dict(batch=1, heads=1, queries=6, keys=64, size=16, values=16, mask=(1, 1, 6, 64))
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, pass_config={"schedule.plans": with_plan(case, 2, 2, 16)})
    rng = np.random.default_rng(7)
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x["mask"] = np.repeat([[-1e4, 1e30, 3e38, -3e38], [0, 80, 160, 240], [-90, -180, 0, 0], [50, 0, 0, 50],
                           [-3e38] * 4, [100, 101, 102, 103]], 16, axis=1).astype(np.float32)[None, None]
    np.testing.assert_allclose(compiled.run(None, x)[0], definition(x, True, ("Div", 3.0)), rtol=0, atol=1e-4)


def test_bfloat16_in_blocks_of_keys():
    case = dict(batch=1, heads=2, queries=12, keys=100, size=16, values=32)
    model, shapes = attention_model(**case)
    rng = np.random.default_rng(8)
    x = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    records = with_plan(case, 4, 12, 48, "attention.pairs", "bfloat16")
    compiled = treadle.compile(model, target="llvm -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-int8,+amx-bf16 -emulate-intrinsics=1",
                               pass_config={"relay.precision": "bf16", "schedule.plans": records})
    assert '"key_block":48' in compiled.explain()
    np.testing.assert_allclose(compiled.run(None, x)[0], definition(x, True, ("Div", 3.0)), rtol=0, atol=0.03)


@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
@pytest.mark.parametrize("wide_softmax", [False, True])
@pytest.mark.parametrize("target", ["llvm -mcpu=native", "llvm -mcpu=x86-64-v3", "llvm -mcpu=x86-64-v3 -emulate-intrinsics=1"])
@pytest.mark.parametrize("case", [
    dict(batch=1, heads=2, queries=20, keys=37, size=16, values=32, mask=(1, 1, 20, 37)),
    dict(batch="b", heads=2, queries="m", keys="n", size=24, values=32, mask=("b", 1, "m", "n")),
])
def test_models_of_16_bits(dtype, wide_softmax, target, case):
    """Softmax as the model states it, or, as PyTorch's do, in float32."""
    model, shapes = attention_model(**case)
    graph = model.graph
    for value in [*graph.input, *graph.output]:
        value.type.tensor_type.elem_type = getattr(TensorProto, dtype)
    numbers = np.dtype("float16" if dtype == "FLOAT16" else ml_dtypes.bfloat16)
    graph.initializer[0].CopyFrom(numpy_helper.from_array(np.asarray(3, numbers), "scale"))
    if wide_softmax:
        index, softmax = next((i, node) for i, node in enumerate(graph.node) if node.op_type == "Softmax")
        before = helper.make_node("Cast", [softmax.input[0]], ["wide"], to=TensorProto.FLOAT)
        after = helper.make_node("Cast", ["weights"], [softmax.output[0]], to=getattr(TensorProto, dtype))
        softmax.input[0], softmax.output[0] = "wide", "weights"
        graph.node.insert(index, before)
        graph.node.insert(index + 2, after)
    compiled = treadle.compile(model, target=target, threads=1)
    assert "attention" in compiled.explain()
    rng = np.random.default_rng(3)
    for b, m, n in ((2, 3, 16), (1, 15, 31)):
        sizes = {"b": b, "m": m, "n": n}
        x = {name: rng.standard_normal([sizes.get(d, d) for d in shape]).astype(numbers) for name, shape in shapes.items()}
        result = compiled.run(None, x)[0]
        assert result.dtype == numbers
        expected = definition({name: value.astype(np.float64) for name, value in x.items()}, True, ("Div", 3.0))
        np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0, atol=2e-3 if dtype == "FLOAT16" else 2e-2)


def test_single_queries_of_16_bits_widen_no_keys():
    """Of an unknown number, that takes longer than attention saves."""
    for queries, found in ((1, False), (4, True)):
        model, _ = attention_model(batch=1, heads=2, queries=queries, keys="n", size=64, values=64, scale=None)
        for value in [*model.graph.input, *model.graph.output]:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
        assert ("nn.attention" in treadle.compile(model, threads=1).explain()) == found


def masked(op, batch, mask, fixed):
    """A model of com.microsoft's attention, 4 steps of 8 numbers in 2 heads, and operands with a mask of this shape."""
    shapes = {name: (batch, 4, 8) for name in ("qkv" if op == "MultiHeadAttention" else "q")}
    sizes = {name: list(shape) if fixed else ["b", 4, 8] for name, shape in shapes.items()}
    sizes["mask"] = list(mask) if fixed else [f"m{i}" for i in range(len(mask))]
    rng = np.random.default_rng(9)
    weights = [] if op == "MultiHeadAttention" else [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (8, 24)), ("bias", (24,)))]
    operands = [*shapes, *(weight.name for weight in weights)]
    node = helper.make_node(op, [*operands, *([""] if not weights else []), "mask"], ["y"], domain="com.microsoft", num_heads=2)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT32 if name == "mask" else TensorProto.FLOAT, dims)
              for name, dims in sizes.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    values = np.array([3, 4, 1, 0])[:mask[0]] if len(mask) == 1 else rng.integers(0, 2, mask)
    if mask[-1] == 1:
        values[:] = 1
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {**feeds, "mask": values.astype(np.int32)}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("batch, mask, of", [
    *((batch, mask, "both") for batch, mask in ((2, (2,)), (2, (2, 4)), (1, (1, 4)), (2, (2, 4, 4)))),
    *((batch, mask, "Attention") for batch, mask in ((2, (4,)), (1, (2,)), (2, (1, 1)), (2, (2, 1)))),
    *((batch, mask, "none") for batch, mask in (
        (2, (1,)), (2, (3,)), (2, (1, 4)), (1, (2, 4)), (2, (2, 3)), (1, (2, 4, 4)), (2, (1, 4, 4)), (2, (2, 1, 4)), (2, (2, 4, 1)))),
])
@pytest.mark.parametrize("op", ["MultiHeadAttention", "Attention"])
def test_masks_have_the_sizes_of_their_operands(op, batch, mask, of, fixed):
    """Other sizes were broadcast, or made a larger batch; ONNX Runtime refuses them."""
    model, feeds = masked(op, batch, mask, fixed)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    if of in (op, "both"):
        expected = session.run(None, feeds)[0]
        np.testing.assert_allclose(treadle.compile(model).run(None, feeds)[0], expected, rtol=0, atol=1e-5)
        return
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument):
        session.run(None, feeds)
    with pytest.raises(treadle.Error, match=rf"'{op}#0' \(.*{op}.*\): (sizes of the operand and of the mask|masks of)"):
        treadle.compile(model).run(None, feeds)
