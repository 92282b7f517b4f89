# SPDX-License-Identifier: Apache-2.0
"""Sizes that only a run knows and that an operator can't take are refused, also where it is fused with others: a kernel
would read what isn't there."""
import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle as tvm
from treadle import relay, te
from treadle.runtime.vm import VirtualMachine


def floats(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def fused(op, shape, constants=(), opset=17, **attributes):
    """A model of `op` on x of `shape` (names: sizes of a run), then Relu."""
    names = [f"c{i}" for i in range(len(constants))]
    nodes = [helper.make_node(op, ["x", *names], ["a"], **attributes), helper.make_node("Relu", ["a"], ["y"])]
    if op == "Split":
        nodes[0].output.append("b")
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.asarray(value), name) for value, name in zip(constants, names)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


CASES = [
    (fused("Reshape", ["n", 4], [[2, 4]]), (2, 4), (1, 4), r"node 'Reshape#0' \(Reshape\): a reshape keeps the number of elements: size of a dimension, and what is expected: 1 and 2"),
    (fused("Reshape", ["n", 4], [[2, 4]]), (2, 4), (3, 4), "a reshape keeps the number of elements: size of a dimension, and what is expected: 3 and 2"),
    (fused("Reshape", ["n", 4], [[-1, 8]]), (4, 4), (3, 4), "a reshape keeps the number of elements: 12 and 8"),
    (fused("Squeeze", ["n", 4], [[0]]), (1, 4), (2, 4), r"'Squeeze#0' \(Squeeze\): a dimension that has to be 1 isn't: its size, and what is expected: 2 and 1"),
    (fused("Expand", ["n", 4], [[2, 4]]), (1, 4), (3, 4), "equal: 3 and 2"),
    (fused("Expand", ["n", "m", 4], [[2, 1, 4]]), (1, 3, 4), (3, 3, 4), "size 2; expected 1 or 3"),
    (fused("AffineGrid", ["n", "m", "k"], [[2, 3, 4, 5]], opset=20), (2, 2, 3), (2, 2, 6), r"\(AffineGrid\): size of theta 6; expected 3"),
    (fused("Split", ["n", 4], opset=13), (6, 4), (3, 4), "isn't a multiple"),
    (fused("Conv", [1, "c", 4, 4], [floats(4, 2, 1, 1)], group=2), (1, 4, 4, 4), (1, 5, 4, 4), "size of a dimension, and what is expected: 5 and 4"),
    (fused("DepthToSpace", [1, "c", 2, 2], blocksize=2), (1, 8, 2, 2), (1, 6, 2, 2), "elements|multiple|shape"),
    (fused("SpaceToDepth", [1, 1, "h", 4], blocksize=2), (1, 1, 4, 4), (1, 1, 3, 4), "elements|multiple|shape"),
]


@pytest.mark.parametrize("model, right, wrong, message", CASES, ids=range(len(CASES)))
def test_models(model, right, wrong, message):
    compiled = tvm.compile(model)
    expected = tvm.compile(model, shapes={"x": right}).run(None, {"x": floats(*right)})[0]
    np.testing.assert_allclose(compiled.run(None, {"x": floats(*right)})[0], expected, rtol=1e-6)
    with pytest.raises(tvm.Error, match=message):
        compiled.run(None, {"x": floats(*wrong)})


def parsed(text):
    return onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 18]> g ' + text)


#: Models, sizes that fit and sizes that don't, by input, and the operator at fault: passes write it by others, which would
#: broadcast or read fewer elements.
REWRITTEN = [
    (parsed("(float[n, c, h] x, float[a] scale, float[b] bias) => (y) { y = InstanceNormalization(x, scale, bias) }"),
     {"x": (2, 3, 4), "scale": (3,), "bias": (3,)}, {"x": (2, 3, 4), "scale": (1,), "bias": (3,)}, "InstanceNormalization#0"),
    (parsed("""(float[n, k] x) => (y)
        <float s = {0.5}, uint8 z = {0}, int8[3, 2] w = {1, 2, 3, 4, 5, 6}, int8 v = {0}> {
        q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  b = DequantizeLinear(w, s, v)
        m = MatMul(a, b)  r = QuantizeLinear(m, s, z)  y = DequantizeLinear(r, s, z)
    }"""), {"x": (5, 3)}, {"x": (5, 4)}, "MatMul#3"),
    (parsed("""(float[?, ?] x) => (y)
        <float s = {0.5}, uint8 z = {0}, int8[3, 2] w = {1, 2, 3, 4, 5, 6}, int8 v = {0}> {
        q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  b = DequantizeLinear(w, s, v)
        m = MatMul(a, b)  r = QuantizeLinear(m, s, z)  y = DequantizeLinear(r, s, z)
    }"""), {"x": (5, 3)}, {"x": (5, 2)}, "MatMul#3"),
]


@pytest.mark.parametrize("model, right, wrong, node", REWRITTEN, ids=range(len(REWRITTEN)))
def test_operators_that_passes_write_by_others(model, right, wrong, node):
    compiled = tvm.compile(model)
    feeds = {name: floats(*shape) for name, shape in right.items()}
    expected = tvm.compile(model, shapes=right).run(None, feeds)[0]
    np.testing.assert_allclose(compiled.run(None, feeds)[0], expected, rtol=1e-5)
    with pytest.raises(tvm.Error, match=rf"node '{node}' \(\w+\): dimensions of operands have to be equal"):
        compiled.run(None, {name: floats(*shape) for name, shape in wrong.items()})


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [((2, 3), (3, 4)), ((2, 1), (3, 4)), ((2, 3), (1, 4))]),
    ("bij,bjk->bik", [((2, 2, 3), (2, 3, 4)), ((1, 2, 1), (5, 3, 4)), ((5, 2, 3), (1, 1, 4))]),
    ("...i,...i->...", [((2, 3), (2, 3)), ((1, 3), (4, 3)), ((4, 3), (1, 1))]),
    ("ij,j->", [((2, 3), (3,)), ((2, 3), (1,)), ((2, 1), (3,))]),
])
def test_einsum_broadcasts_sizes_of_a_run(equation, shapes):
    """Labels that two operands have were taken to be of one size."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(len(shape))])
              for name, shape in zip("ab", shapes[0])]
    graph = helper.make_graph([helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)], "g", values,
                              [onnx.ValueInfoProto(name="y")])
    compiled = tvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    for left, right in shapes:
        a, b = floats(*left), floats(*right)
        np.testing.assert_allclose(compiled.run(None, {"a": a, "b": b})[0], np.einsum(equation, a, b), rtol=1e-5)
    (rows, *inner), right = shapes[0]
    for wrong in ((rows, *inner[:-1], inner[-1] + 4), (rows, *inner[:-1], 2)):
        with pytest.raises(tvm.Error, match="Einsum#0"):
            compiled.run(None, {"a": floats(*wrong), "b": floats(*right)})


def test_einsum_refuses_sizes_beside_known_ones():
    """They were cut to the size that is known."""
    compiled = tvm.compile(parsed("""(float[a, b, c] x) => (y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> {
        y = Einsum <equation = "abc,cz->abz"> (x, w)
    }"""))
    w = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    for shape in ((4, 2, 2), (4, 1, 1)):
        x = floats(*shape) + 1
        np.testing.assert_allclose(compiled.run(None, {"x": x})[0], np.einsum("abc,cz->abz", x, w), rtol=1e-6)
    for wrong in ((4, 1, 3), (4, 2, 4)):
        with pytest.raises(tvm.Error, match="Einsum#0"):
            compiled.run(None, {"x": floats(*wrong)})


def test_diagonals_are_of_squares():
    """They were as long as the shorter side."""
    model = '<ir_version: 9, opset_import: ["": 18]> g (float[%s] x) => (y) { y = Einsum <equation = "ii->i"> (x) }'
    with pytest.raises(tvm.Error, match="Einsum#0.*dimensions with the same label are 2 and 3"):
        tvm.compile(onnx.parser.parse_model(model % "2, 3"))
    compiled = tvm.compile(onnx.parser.parse_model(model % "n, m"))
    np.testing.assert_array_equal(compiled.run(None, {"x": floats(3, 3)})[0], [0, 4, 8])
    for wrong in ((2, 3), (3, 2), (1, 2)):
        with pytest.raises(tvm.Error, match=f"^node 'Einsum#0' .Einsum.: .*label of another {wrong[1]}; expected {wrong[0]}"):
            compiled.run(None, {"x": floats(*wrong)})


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize("scale, zero, right, wrong", [
    ("n", "m", [(1, 1), (4, 4)], [(1, 4), (4, 1), (3, 3)]),
    ("n", "1", [(1, 1)], [(4, 1)]),
    ("1", "m", [(1, 1)], [(1, 4)]),
    ("4", "m", [(4, 4)], [(4, 1)]),
    ("n", "4", [(4, 4)], [(1, 4)]),
])
def test_scales_and_zero_points_are_as_many(op, scale, zero, right, wrong):
    """Sizes that only a run knows broadcast."""
    kind, back = ("float", "uint8") if op == "QuantizeLinear" else ("uint8", "float")
    compiled = tvm.compile(parsed(f"({kind}[p, q] x, float[{scale}] s, uint8[{zero}] z) => ({back}[p, q] y) {{ y = {op}(x, s, z) }}"))
    x = np.full((2, 4), 9, np.float32 if kind == "float" else np.uint8)

    def run(sizes):
        s, z = np.full(sizes[0], 2, np.float32), np.arange(sizes[1], dtype=np.uint8)
        return compiled.run(None, {"x": x, "s": s, "z": z})[0], z

    for sizes in right:
        got, z = run(sizes)
        np.testing.assert_array_equal(got, np.broadcast_to(z + 4 if back == "uint8" else (9.0 - z) * 2, (2, 4)))
    for sizes in wrong:
        with pytest.raises(tvm.Error, match=f"{op}#0"):
            run(sizes)


@pytest.mark.parametrize("op, x, w, counts", [("QLinearMatMul", (3, 5), (5, 4), [1, 4, 1]),
                                              ("QLinearConv", (1, 5, 2, 2), (4, 5, 1, 1), [1, 4, 1])])
@pytest.mark.parametrize("known", ["all sizes of a run", "weights' sizes of a run"])
def test_scales_of_quantised_products_are_as_many_as_their_zero_points(op, x, w, counts, known):
    parameters = "".join(f", float[{n}] {i}s, uint8[{m}] {i}z" for i, n, m in
                         (("x", "a", "b"), ("w", "c", "d"), ("y", "e", "f")))
    if known.startswith("weights'"):
        for size in "abef":
            parameters = parameters.replace(f"[{size}]", "[1]")
    kinds = f"uint8{list(x)} x, uint8{list(w)} w{parameters}"
    compiled = tvm.compile(parsed(f"({kinds}) => (uint8[] y) {{ y = {op}(x, xs, xz, w, ws, wz, ys, yz) }}".replace("uint8[] y", "y")))

    def run(sizes):
        feeds = {"x": np.full(x, 5, np.uint8), "w": np.full(w, 4, np.uint8)}
        for name, (n, m) in zip("xwy", sizes):
            feeds[f"{name}s"], feeds[f"{name}z"] = np.full(n, 2, np.float32), np.full(m, 3, np.uint8)
        return compiled.run(None, feeds)[0]

    for count in ([1, 1, 1], counts):
        assert (run([(n, n) for n in count]) == 3 + 5 * 2 * 1 * 2).all()
    for wrong in ([(1, 1), (4, 1), (1, 1)], [(1, 1), (1, 4), (1, 1)], [(1, 1), (3, 3), (1, 1)]):
        with pytest.raises(tvm.Error, match=f"{op}#0"):
            run(wrong)


def scan(state, row, declared=None, step="Add"):
    """Sums of rows over a state of these sizes, which are declared in the body where `declared` says so."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node(step, ["s", "r"], ["t"]), helper.make_node("Neg", ["t"], ["o"])], "body",
        [info(name, TensorProto.FLOAT, declared) for name in ("s", "r")],
        [info(name, TensorProto.FLOAT, None) for name in ("t", "o")])
    graph = helper.make_graph([helper.make_node("Scan", ["a", "x"], ["y", "z"], body=body, num_scan_inputs=1)], "g",
                              [info("a", TensorProto.FLOAT, state), info("x", TensorProto.FLOAT, row)],
                              [info(name, TensorProto.FLOAT, None) for name in ("y", "z")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("length", ["t", 2])
def test_states_of_a_scan_keep_their_shapes(length):
    """They broadcast to the rows."""
    with pytest.raises(tvm.Error, match="dimension 0 of state 0 is 4 after a trip, and 1 before"):
        tvm.compile(scan([1], [length, 4]))
    with pytest.raises(tvm.Error, match="state 0 has rank 2 after a trip, and 1 before"):
        tvm.compile(scan(["n"], [length, 2, "m"]))
    compiled = tvm.compile(scan(["n", "k"], [length, "m", "l"]))
    last, rows = compiled.run(None, {"a": floats(3, 4), "x": floats(2, 1, 4)})
    np.testing.assert_array_equal(last, floats(3, 4) + floats(2, 1, 4).sum(0))
    assert rows.shape == (2, 3, 4)
    for wrong in ((1, 4), (3, 1)):
        with pytest.raises(tvm.Error, match="^node 'Scan#0' .Scan.: size of a state after a trip"):
            compiled.run(None, {"a": floats(*wrong), "x": floats(2, 3, 4)})


def test_bodies_of_scans_have_the_sizes_that_they_declare():
    compiled = tvm.compile(scan(["n"], ["t", "m"], [3]))
    np.testing.assert_array_equal(compiled.run(None, {"a": floats(3), "x": floats(2, 3)})[0], floats(3) + floats(2, 3).sum(0))
    np.testing.assert_array_equal(compiled.run(None, {"a": floats(3), "x": floats(2, 1)})[0], floats(3) + 1)  # broadcasts
    for wrong in (4, 1):
        with pytest.raises(tvm.Error, match="a reshape keeps the number of elements"):
            compiled.run(None, {"a": floats(wrong), "x": floats(2, wrong)})


def test_sequences_of_a_scan_have_one_length():
    names = [("a", "e"), ("b", "f"), ("c", "g")]
    info = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("Sum", ["e", "f", "g"], ["s"])], "body",
                             [info(row, TensorProto.FLOAT, [2]) for _, row in names], [info("s", TensorProto.FLOAT, [2])])
    node = helper.make_node("Scan", ["a", "b", "c"], ["y"], name="walk", num_scan_inputs=3, body=body)
    graph = helper.make_graph([node], "g", [info(name, TensorProto.FLOAT, [length, 2]) for (name, _), length in
                                            zip(names, ("n", "n", "m"))], [info("y", TensorProto.FLOAT, None)])
    compiled = tvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    run = lambda *lengths: compiled.run(None, {n: floats(k, 2) for (n, _), k in zip(names, lengths)})  # noqa: E731
    np.testing.assert_array_equal(run(4, 4, 4)[0], 3 * floats(4, 2))
    for lengths in ((3, 3, 4), (3, 3, 2), (0, 0, 1)):
        with pytest.raises(tvm.Error, match="walk.*length of the first sequence"):
            run(*lengths)


INDICES = relay.const(np.zeros((2, 3), np.int64))
#: Operators, shapes that they take, and shapes that they don't.
PROGRAMS = {
    "reshape": (lambda x: relay.reshape(x, (2, 4)), (2, 4), (3, 4)),
    "broadcast_to": (lambda x: relay.broadcast_to(x, (3, 4)), (1, 4), (2, 4)),
    "split": (lambda x: relay.split(x, 3)[1], (6, 4), (5, 4)),
    "cuts": (lambda x: relay.split(x, (2, 3))[2], (3, 4), (2, 4)),
    "gather": (lambda x: relay.gather(x, 0, INDICES), (1, 3), (4, 2)),
    "scatter_add": (lambda x: relay.scatter_add(x, INDICES, relay.const(floats(2, 3)), 1), (2, 1), (1, 3)),
    "slice_like": (lambda x: relay.slice_like(x, relay.const(floats(3, 3))), (3, 4), (4, 2)),
    "mirror_pad": (lambda x: relay.nn.mirror_pad(x, ((2, 0), (0, 0)), "REFLECT"), (3, 2), (2, 2)),
    "einsum": (lambda x: relay.einsum([x, relay.const(floats(3, 2))], "ij,jk->ik"), (4, 3), (4, 2)),
    "diagonal": (lambda x: relay.einsum([x], "ii->i"), (3, 3), (3, 2)),
    "topk": (lambda x: relay.topk(x, 3, axis=1, ret_type="values"), (2, 3), (2, 2)),
    "tile": (lambda x: relay.tile(x, (2, 3)), (2, 3), None),
    "repeat": (lambda x: relay.repeat(x, 2, 1), (2, 3), None),
    "space_to_batch": (lambda x: relay.nn.space_to_batch_nd(x, [2, 1], [[0, 0], [0, 0]]), (1, 4, 2), (1, 3, 2)),
    "batch_to_space": (lambda x: relay.nn.batch_to_space_nd(x, [2, 1], [[0, 0], [0, 0]]), (4, 2, 2), (5, 2, 2)),
    "layout": (lambda x: relay.layout_transform(x, "NCHW", "NCHW4c"), (1, 8, 2, 1), (1, 6, 2, 1)),
    "blocks": (lambda x: relay.layout_transform(x, "NCHW4c", "NCHW"), (1, 2, 2, 1, 4), (1, 2, 2, 1, 3)),
    "collapse": (lambda x: relay.collapse_sum_like(x, relay.const(floats(1, 3))), (4, 3), (4, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    make, right, wrong = PROGRAMS[name]

    def machine(shape):
        x = relay.var("x", shape=shape)
        module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(make(x))))
        return VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())

    dynamic = machine(tuple(te.size_var(f"n{i}", "int64") for i in range(len(right))))
    np.testing.assert_allclose(dynamic.run(floats(*right)).numpy(), machine(right).run(floats(*right)).numpy())
    if wrong is not None:
        with pytest.raises(tvm.Error):
            machine(wrong)
        with pytest.raises(tvm.Error):
            dynamic.run(floats(*wrong))


@pytest.mark.parametrize("dim", [relay.Any(), te.size_var("n")], ids=["any", "int32"])
def test_dimensions_however_written(dim):
    x = relay.var("x", shape=(dim, 4))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.reshape(x, (2, 4)))))
    machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    with pytest.raises(tvm.Error, match="a reshape keeps the number of elements: size of a dimension, and what is expected: 3 and 2"):
        machine.run(floats(3, 4))


def test_sums_over_dimensions_that_a_run_shows_to_be_broadcast():
    x, like = (relay.var(name, shape=(te.size_var(f"{name}0", "int64"), te.size_var(f"{name}1", "int64"))) for name in "xl")
    module = tvm.IRModule.from_expr(relay.Function([x, like], relay.collapse_sum_like(x, like)))
    machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    data = floats(4, 3)
    for shape, axes in (((4, 3), ()), ((1, 3), (0,)), ((4, 1), (1,)), ((1, 1), (0, 1))):
        np.testing.assert_allclose(machine.run(data, floats(*shape)).numpy(), data.sum(axes, keepdims=True) if axes else data)
    with pytest.raises(tvm.Error):
        machine.run(data, floats(3, 3))


def test_dimensions_of_32_bits_in_a_network():
    n, h, w = te.size_var("n"), te.size_var("h"), te.size_var("w")
    x = relay.var("x", shape=(n, 3, h, w))
    y = relay.nn.conv2d(x, relay.const(floats(4, 3, 3, 3) / 50), strides=(2, 1), padding=(0, 2, 2, 2))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.nn.pad(relay.nn.relu(y), ((0, 1), (0, 0), (0, 0), (1, 0)))))
    machine = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu())
    for shape in ((1, 3, 5, 4), (2, 3, 6, 7)):
        assert machine.run(floats(*shape)).shape == (shape[0] + 1, 4, (shape[2] + 2 - 3) // 2 + 1, shape[3] + 3)


def test_dimensions_of_32_bits_that_an_operator_makes_known():
    n, h, w = te.size_var("n"), te.size_var("h"), te.size_var("w")
    x = relay.var("x", shape=(n, h, w, 3))
    y = relay.cast(relay.nn.bias_add(x, relay.const(floats(4)), axis=1), "float16")  # h is 4
    for pads in ((1, 1, 0, 0), (2, 0, 1, 0)):
        y = relay.nn.conv2d(y, relay.const((floats(1, 3, 3, 3) / 30).astype("float16")), strides=(1, 2), padding=pads,
                            data_layout="NHWC", kernel_layout="HWIO")
    module = tvm.IRModule.from_expr(relay.Function([x], y))
    result = VirtualMachine(relay.vm.compile(module, "llvm"), tvm.cpu()).run(floats(2, 4, 11, 3))
    assert tuple(result.shape) == (2, 8, 2, 3)


QUANTISED_MATMUL = """
    wd = DequantizeLinear (w, ws, wz)
    vq = QuantizeLinear (v, s, z)
    vd = DequantizeLinear (vq, s, z)
    y = MatMul (vd, wd)
"""
DYNAMIC_MATMUL = """
    vq, vs, vz = DynamicQuantizeLinear (v)
    p = MatMulInteger (vq, w, vz, wz)
    y = Cast <to: int = 1> (p)
"""


@pytest.mark.parametrize("product", [QUANTISED_MATMUL, DYNAMIC_MATMUL])
@pytest.mark.parametrize("source", ["v = Compress <axis = 1> (x, keep)", """
    n = ReduceSum <keepdims = 0> (x)
    g = Greater (n, zero)
    v = If (g) <then_branch: graph = a () => (float p) { p = Compress <axis = 1> (x, keep) },
                else_branch: graph = b () => (float q) { q0 = Compress <axis = 1> (x, keep) q = Neg (q0) }>
"""])
def test_packed_products_of_bytes_check_an_inner_size_that_only_a_run_knows(product, source):
    """Weights are packed in words of 2 or 4 elements of the inner dimension: they fit more sizes than are right."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 19]>
        f (float[a, b] x, bool[c] keep) => (float[?, ?] y)
        <float s = {{0.5}}, int8 z = {{3}}, float ws = {{0.0625}}, int8 wz = {{0}}, float zero = {{0.0}},
         int8[3, 8] w = {{{", ".join(str(i) for i in range(24))}}}> {{ {source} {product} }}""")
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                attribute.g.output[0].type.tensor_type.ClearField("shape")
    compiled = tvm.compile(model)
    x = np.arange(1, 19, dtype="f4").reshape(2, 9) / 4
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for kept in (1, 2, 3, 4, 7):
        feeds = {"x": x, "keep": np.arange(9) < kept}
        if kept == 3:
            np.testing.assert_allclose(compiled.run(None, feeds)[0], reference.run(None, feeds)[0], atol=1e-4)
            continue
        with pytest.raises(tvm.Error, match=r"'\w*MatMul\w*#\d+'.*(dimensions of operands have to be equal|keeps the number of elements)"):
            compiled.run(None, feeds)


def both_forms(model, feeds):
    """Results, or the text of the refusal, compiled for any sizes and for those of the operands."""
    found = []
    for shapes in ({}, {name: array.shape for name, array in feeds.items()}):
        try:
            found.append([r.shape for r in tvm.compile(model, shapes=shapes).run(None, feeds)])
        except tvm.Error as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("shape, codes, refused", [
    ((0, 3), (0, 2, -1), True), ((3, 0), (-1, 0, 2), True), ((0, 3), (0, 3, -1), False), ((0, 3), (2, -1), False),
    ((0, 0), (0, 2, -1), False), ((3, 0), (0, 2, -1), False),
])
@pytest.mark.parametrize("known", [True, False], ids=["constant", "operand"])
def test_reshapes_of_no_elements(shape, codes, refused, known):
    """What -1 stands for has to be a whole number, which the number of elements doesn't tell where there are none."""
    new = f"<int64[{len(codes)}] s = {{{', '.join(map(str, codes))}}}>" if known else ""
    model = parsed(f"(float[n, m] x{'' if known else f', int64[{len(codes)}] s'}) => (y) {new} {{ [it] y = Reshape(x, s) }}")
    feeds = {"x": floats(*shape), **({} if known else {"s": np.array(codes)})}
    run, fixed = both_forms(model, feeds)
    if refused:
        assert "node 'it' (Reshape): " in run and "'it' (Reshape)" in fixed
    else:
        assert run == fixed == [tuple(d if c == -1 and 0 not in codes else d for c, d in zip(codes, run[0]))]
        assert np.prod(run[0]) == 0


@pytest.mark.parametrize("pads, mode, size", [
    ((-5, 0, 3, 0), "constant", 1), ((3, 0, -5, 0), "constant", 1), ((-2, 0, -1, 0), "constant", 0),
    ((-5, 0, 1, 0), "constant", None), ((-5, 0, 3, 0), "edge", None), ((-3, 0, 1, 0), "reflect", None),
    ((1, 0, -3, 0), "edge", None), ((-1, 0, 1, 0), "reflect", 3),
])
def test_padding_that_cuts_all_there_is(pads, mode, size):
    """What is added then is the constant; other modes have nothing to repeat."""
    model = parsed(f"""(float[n, m] x) => (y) <int64[4] p = {{{', '.join(map(str, pads))}}}> {{
        [it] y = Pad<mode="{mode}">(x, p)
    }}""")
    feeds = {"x": floats(3, 2)}
    run, fixed = both_forms(model, feeds)
    if size is None:
        assert "it" in run and "(Pad)" in run and "(Pad)" in fixed
        with pytest.raises(Exception):
            onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
        return
    assert run == fixed == [(size, 2)]
    for shapes in ({}, {"x": (3, 2)}):
        expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
        np.testing.assert_array_equal(tvm.compile(model, shapes=shapes).run(None, feeds)[0], expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("level", [0, 3])
def test_transposed_convolutions_whose_padding_cuts_more_than_there_is(rank, level):
    """Convolutions of the phases of the stride were cut as slices are, which are empty where too little is left."""
    window, names = "3, " * (rank - 1) + "3", ", ".join("hwd"[:rank])
    model = parsed(f"""(float[1, 1, {names}] x, int64[1] from, int64[1] to) => (y) <int64[1] axis = {{2}}> {{
        part = Slice(x, from, to, axis)
        [it] y = ConvTranspose<strides=[{', '.join('2' * rank)}], pads=[{', '.join('1' * 2 * rank)}]>(part, w)
    }}""")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 2, *map(int, window.split(", "))), "float32"), "w"))
    compiled = tvm.compile(model, opt_level=level)
    feeds = {"x": floats(1, 1, *[5] * rank), "from": np.array([4]), "to": np.array([9])}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_allclose(compiled.run(None, feeds)[0], expected, rtol=1e-6)
    with pytest.raises(tvm.ShapeError, match=r"node 'it' \(ConvTranspose\): .*: -1 and 0"):
        compiled.run(None, {**feeds, "from": np.array([5])})


#: Models, and sizes of which the last operand's don't fit: what doesn't broadcast isn't broadcast in a run either.
NOT_BROADCAST = [
    ('''<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[b, s, 32] q, float[c, t, 32] k, float[d, u, 32] v, int32[r] less, int32 total) => (y, pk, pv) {
        [it] y, pk, pv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=4>(q, k, v, , , less, total)
    }''', {"q": (2, 3, 32), "k": (2, 3, 32), "v": (2, 3, 32)}, {"k": (1, 3, 32), "v": (1, 3, 32)},
     {"less": np.full(2, 2, np.int32), "total": np.array(3, np.int32)}),
    ('''<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[b, s, h] q, float[c, t, h] k, float[d, u, h] v) => (y) {
        [it] y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v)
    }''', {"q": (2, 3, 8), "k": (2, 4, 8), "v": (2, 4, 8)}, {"k": (1, 4, 8), "v": (1, 4, 8)}, {}),
    ('''<ir_version: 10, opset_import: ["": 23]>
    g (float[b, h, s, e] q, float[c, i, t, f] k, float[d, j, u, w] v) => (y) { [it] y = Attention(q, k, v) }''',
     {"q": (2, 2, 3, 8), "k": (2, 2, 4, 8), "v": (2, 2, 4, 8)}, {"k": (1, 2, 4, 8), "v": (1, 2, 4, 8)}, {}),
    ('''<ir_version: 10, opset_import: ["": 26, "ai.onnx.preview": 1]>
    g (float[b, h, s, e] q, float[c, i, t, f] k, float[d, j, u, w] v) => (y) { [it] y = ai.onnx.preview.FlexAttention(q, k, v) }''',
     {"q": (2, 2, 3, 8), "k": (2, 2, 4, 8), "v": (2, 2, 4, 8)}, {"k": (1, 2, 4, 8), "v": (1, 2, 4, 8)}, {}),
    ('''<ir_version: 10, opset_import: ["": 21]>
    g (float[a, b, c] boxes, float[d, e, f] scores) => (y) { [it] y = NonMaxSuppression(boxes, scores) }''',
     {"boxes": (2, 3, 4), "scores": (2, 1, 3)}, {"boxes": (2, 0, 8), "scores": (2, 1, 0)}, {}),
    ('''<ir_version: 10, opset_import: ["": 28]> g (float[a, b] x, float[c, d] w) => (y) { [it] y = SwiGLU(x, w) }''',
     {"x": (2, 3), "w": (2, 3)}, {"w": (3, 2)}, {}),
    ('''<ir_version: 10, opset_import: ["": 27]>
    g (float[a, b, c] x, float[d, e, f] w) => (y, s) { [it] y, s = CausalConvWithState(x, w) }''',
     {"x": (2, 3, 5), "w": (3, 1, 2)}, {"w": (1, 1, 2)}, {}),
    ('''<ir_version: 10, opset_import: ["": 27]>
    g (float[a, b, c] q, float[d, e, f] k, float[g, h, i] v) => (y, s) {
        [it] y, s = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">(q, k, v)
    }''', {"q": (2, 3, 8), "k": (2, 3, 8), "v": (2, 3, 8)}, {"k": (1, 3, 8)}, {}),
    ('''<ir_version: 10, opset_import: ["": 24]>
    g (float[a, b, c] past, float[d, e, f] x) => (y) { [it] y = TensorScatter<axis=1>(past, x) }''',
     {"past": (2, 4, 3), "x": (2, 3, 3)}, {"x": (2, 5, 3)}, {}),
    ('''<ir_version: 10, opset_import: ["": 24]>
    g (float[a, b, c] past, float[d, e, f] x) => (y) { [it] y = TensorScatter<axis=1, mode="circular">(past, x) }''',
     {"past": (2, 4, 3), "x": (2, 3, 3)}, {"x": (2, 5, 3)}, {}),
    ('''<ir_version: 10, opset_import: ["": 22]>
    g (float[t, n, i] x, float[d, e, f] w, float[g, h, 3] r, float[j, k] b, int32[m] lengths) => (y) {
        [it] y = GRU<hidden_size=3>(x, w, r, b, lengths)
    }''', {"x": (4, 2, 5), "w": (1, 9, 5), "r": (1, 9, 3), "b": (1, 18)}, {"x": (4, 3, 5)}, {"lengths": np.array([2, 4], np.int32)}),
    ('''<ir_version: 10, opset_import: ["": 21]> g (float[a, b, c] x, float[d, e, f] w) => (y) { [it] y = MatMul(x, w) }''',
     {"x": (3, 1, 4), "w": (1, 4, 2)}, {"x": (3, 1, 0), "w": (2, 0, 2)}, {}),
    ('''<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[a, b, c] x, float[d, e, f] w) => (y) { [it] y = com.microsoft.FusedMatMul<transA=1>(x, w) }''',
     {"x": (3, 4, 1), "w": (3, 4, 2)}, {"x": (3, 0, 1), "w": (2, 0, 2)}, {}),
    ('''<ir_version: 10, opset_import: ["": 27]>
    g (float[a, b, c] q, float[d, e, f] k, float[g, h, i] v, float[j, k, l] t) => (y, s) {
        [it] y, s = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="delta">(q, k, v, , , t)
    }''', {"q": (2, 3, 8), "k": (2, 3, 8), "v": (2, 3, 8), "t": (2, 3, 2)},
     {"q": (2, 0, 8), "k": (2, 0, 8), "v": (2, 0, 8), "t": (2, 0, 3)}, {}),
    ('''<ir_version: 10, opset_import: ["": 27]>
    g (float[a, b, c] q, float[d, e, f] k, float[g, h, i] v) => (y, s) {
        [it] y, s = LinearAttention<q_num_heads=2, kv_num_heads=2, update_rule="linear">(q, k, v)
    }''', {"q": (2, 3, 8), "k": (2, 3, 8), "v": (2, 3, 0)}, {"q": (2, 3, 4)}, {}),
    ('''<ir_version: 10, opset_import: ["": 21]>
    g (float[a, b] x, float[c] scale) => (y) { [it] y = QuantizeLinear<axis=0>(x, scale) }''',
     {"x": (3, 2), "scale": (3,)}, {"x": (1, 2), "scale": (0,)}, {}),
    ('''<ir_version: 10, opset_import: ["": 21]>
    g (int8[a, b] x, float[c] scale) => (y) <int8[2] zero = {1, 2}> { [it] y = DequantizeLinear<axis=0>(x, scale, zero) }''',
     {"scale": (2,)}, {"scale": (1,)}, {"x": np.zeros((2, 0), np.int8)}),
    ('''<ir_version: 10, opset_import: ["": 22]>
    g (float[a, b, c] x, float[d, e, f] w, float[g] bias) => (y) { [it] y = Conv(x, w, bias) }''',
     {"x": (2, 1, 3), "w": (2, 1, 3), "bias": (2,)}, {"bias": (1,)}, {}),
    ('''<ir_version: 10, opset_import: ["": 22]>
    g (float[a, b, c] x, float[d, e, f] w, float[g] bias) => (y) { [it] y = ConvTranspose(x, w, bias) }''',
     {"x": (2, 1, 3), "w": (1, 2, 3), "bias": (2,)}, {"bias": (3,)}, {}),
    ('''<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[b, s, 32] q, float[c, t, 32] k, float[d, u, 32] v, float[e, 4, 5, 8] past, int32[r] less, int32 total) => (y, pk, pv) {
        [it] y, pk, pv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=4>(q, k, v, past, past, less, total)
    }''', {"q": (2, 1, 32), "k": (2, 1, 32), "v": (2, 1, 32), "past": (2, 4, 5, 8)},
     {"q": (1, 1, 32), "k": (1, 1, 32), "v": (1, 1, 32), "past": (1, 4, 5, 8)},
     {"less": np.full(2, 3, np.int32), "total": np.array(4, np.int32)}),
]


@pytest.mark.parametrize("text, right, wrong, more", NOT_BROADCAST, ids=[t.split("[it]")[1].split("=")[1].split("(")[0] for t, *_ in NOT_BROADCAST])
def test_operands_that_are_not_broadcast(text, right, wrong, more):
    model = onnx.parser.parse_model(text)
    feeds = {**{name: floats(*shape) / 100 for name, shape in right.items()}, **more}
    run, fixed = both_forms(model, feeds)
    assert run == fixed and not isinstance(run, str)
    run, fixed = both_forms(model, {**feeds, **{name: floats(*shape) / 100 for name, shape in wrong.items()}})
    assert isinstance(run, str) and "it" in run
    assert isinstance(fixed, str) and "node 'it'" in fixed


def test_rows_in_use_of_batches_that_only_a_run_knows():
    """The sizes of caches are known, those of what is beside them aren't."""
    past = helper.make_tensor("past", TensorProto.FLOAT, (1, 1, 4, 8), [0.5] * 32)
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[b, s, 8] q, int32[r] less) => (y, pk, pv) <int32 total = {5}> {
        [it] y, pk, pv = com.microsoft.GroupQueryAttention<num_heads=1, kv_num_heads=1>(q, q, q, past, past, less, total)
    }""")
    model.graph.initializer.append(past)
    feeds = {"q": floats(1, 1, 8), "less": np.array([4], np.int32)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    compiled = tvm.compile(model)
    for ours, theirs in zip(compiled.run(None, feeds), expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    with pytest.raises(tvm.Error, match=r"node 'it' \(GroupQueryAttention\): batches of query and seqlens_k"):
        compiled.run(None, {**feeds, "less": np.array([4, 4], np.int32)})


@pytest.mark.parametrize("length", ["2", "k"])
@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze", "ReduceSum<keepdims=0>", "ReduceMax<keepdims=0>"])
def test_axes_that_are_given_twice(op, length):
    """The number of axes tells the rank of the result."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[a, b, c] x, int64[{length}] axes) => (y) {{ [it] y = {op}(x, axes) }}""")
    compiled = tvm.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for axes in ([1, 2], [-1, 1]):
        feeds = {"x": floats(2, 1, 1), "axes": np.array(axes)}
        np.testing.assert_array_equal(compiled.run(None, feeds)[0], session.run(None, feeds)[0])
    for axes in ([1, 1], [2, -1] if op != "Unsqueeze" else [4, -1]):
        with pytest.raises(tvm.Error, match=r"node 'it' \(.*\): number of different axes 1; expected 2"):
            compiled.run(None, {"x": floats(2, 1, 1), "axes": np.array(axes)})


def test_batches_of_a_scan_beside_a_known_one():
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 8]>
    g (float[b, n] state, float[2, 5, 1] x) => (y, z) {
        [it] y, z = Scan <num_scan_inputs = 1, body = step (float[m] s, float[k] v) => (float[m] t, float[m] u) {
            t = Add(s, v) u = Neg(t)
        }> ("", state, x)
    }""")
    compiled = tvm.compile(model)
    x = floats(2, 5, 1)
    y, z = compiled.run(None, {"state": floats(2, 3), "x": x})
    np.testing.assert_allclose(y, floats(2, 3) + x.sum(1))
    assert z.shape == (2, 5, 3)
    with pytest.raises(tvm.Error, match=r"node 'it' \(Scan\): size of a batch beside another's 3; expected 2"):
        compiled.run(None, {"state": floats(3, 3), "x": x})


def test_positions_that_the_model_knows_are_one_for_each_step():
    """Constant integers of known sizes lost what compares these with those of the run, and one position was that of all steps."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 23]>
    g (float[b, h, s, 4] x) => (y) <float[3, 2] c = {1, 2, 3, 4, 5, 6}, float[3, 2] d = {6, 5, 4, 3, 2, 1}, int64[2, 1] p = {2, 0}> {
        [it] y = RotaryEmbedding(x, c, d, p)
    }""")
    compiled = tvm.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": floats(2, 3, 1, 4)}
    np.testing.assert_allclose(compiled.run(None, feeds)[0], session.run(None, feeds)[0], rtol=1e-5, atol=1e-5)
    for steps in (0, 5):
        with pytest.raises(tvm.Error, match=rf"node 'it' \(RotaryEmbedding\): .* positions 1; expected {steps}"):
            compiled.run(None, {"x": floats(2, 3, steps, 4)})


def test_attention_without_heads_is_refused():
    """As where the sizes are known before."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 26, "ai.onnx.preview": 1]>
    g (float[b, h, s, e] q, float[c, i, t, f] k, float[d, j, u, w] v) => (y) { [it] y = ai.onnx.preview.FlexAttention(q, k, v) }""")
    compiled = tvm.compile(model)
    assert compiled.run(None, {name: floats(1, 2, 3, 4) for name in "qkv"})[0].shape == (1, 2, 3, 4)
    with pytest.raises(tvm.Error, match=r"node 'it' \(FlexAttention\): number of heads of keys 0 is out of range; expected at least 1"):
        compiled.run(None, {name: floats(1, 0, 3, 4) for name in "qkv"})


def test_a_scale_whose_size_a_run_knows():
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (int8[m, k] x, float[s] scale) => (y) <int8[2, 3] w = {1, 2, 3, 4, 5, 6}, float t = {0.5}> {
        [it] y = com.microsoft.MatMulIntegerToFloat(x, w, scale, t)
    }""")
    compiled = tvm.compile(model)
    x, scale = np.array([[1, -2], [3, 4]], np.int8), np.array([0.25], np.float32)
    w = np.arange(1, 7).reshape(2, 3)
    np.testing.assert_allclose(compiled.run(None, {"x": x, "scale": scale})[0], x.astype(np.float32) @ w / 8)
    with pytest.raises(tvm.Error, match=r"'it' \(MatMulIntegerToFloat\): .*: 2 and 1"):
        compiled.run(None, {"x": x, "scale": np.ones(2, np.float32)})


@pytest.mark.parametrize("steps", [3, "s"])
@pytest.mark.parametrize("op, gates, operand, shape", [
    *((op, gates, "state", lambda b: (1, b, 5)) for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))),
    ("LSTM", 4, "cell", lambda b: (1, b, 5)), ("GRU", 3, "lengths", lambda b: (b,))])
def test_states_of_recurrent_layers_are_one_for_each_sequence(op, gates, operand, shape, steps):
    """Where only the run knew the sizes, one was broadcast, or made the batch larger."""
    places = {"lengths": 4, "state": 5, "cell": 6}
    kind = "int32" if operand == "lengths" else "float32"
    operands = ["x", "w", "r", *[""] * (places[operand] - 3), "s"]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, "b", 4]),
              helper.make_tensor_value_info("s", helper.np_dtype_to_tensor_dtype(np.dtype(kind)),
                                            [f"c{i}" if d == 7 else d for i, d in enumerate(shape(7))])]
    weights = [numpy_helper.from_array(np.full((1, gates * 5, size), 0.125, np.float32), name) for name, size in (("w", 4), ("r", 5))]
    graph = helper.make_graph([helper.make_node(op, operands, ["y"], hidden_size=5)], "g", inputs, [onnx.ValueInfoProto(name="y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = tvm.compile(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": floats(3, 2, 4), "s": np.ones(shape(2), kind)}
    np.testing.assert_allclose(compiled.run(None, feeds)[0], session.run(None, feeds)[0], rtol=1e-5, atol=1e-6)
    for batch, other in ((2, 1), (1, 2), (2, 3)):
        with pytest.raises(tvm.Error, match=rf"'{op}#0' \({op}\): .* {other}; expected {batch}"):
            compiled.run(None, {"x": floats(3, batch, 4), "s": np.ones(shape(other), kind)})


@pytest.mark.parametrize("width, packed", [(0, False), (0, True), (100, True)])
def test_columns_that_heads_do_not_divide(width, packed):
    """Without columns the run was fine, with too many of them static sizes left the last ones out."""
    operands, given = ("q, , ", "") if packed else ("q, k, v", "float[b, s, w] k, float[b, s, w] v, ")
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (float[b, s, w] q, {given}int32[b] less, int32 total) => (y, pk, pv) {{
        [it] y, pk, pv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2>({operands}, , , less, total)
    }}""")
    feeds = {"q": floats(2, 3, width), "less": np.full(2, 2, np.int32), "total": np.array(3, np.int32)}
    run, fixed = both_forms(model, {**feeds, **({} if packed else {"k": feeds["q"], "v": feeds["q"]})})
    assert isinstance(run, str) and "(GroupQueryAttention): " in run and "column" in run
    assert isinstance(fixed, str) and "(GroupQueryAttention): " in fixed and "heads don't divide" in fixed


@pytest.mark.parametrize("target", ["llvm", "stackvm"])
@pytest.mark.parametrize("body, inputs, numbers", [
    ("y = Tile(x, r)", "int64[1] r", [2**62 + 1]),
    ('y = Pad<mode="edge">(x, r)', "int64[2] r", [2**63 - 1, 2**63 - 1]),
    ("y, z, w = Split(x, r)", "int64[3] r", [2**63 - 1, 2**63 - 1, 6]),
], ids=["Tile", "Pad", "Split"])
def test_sizes_that_overflow(body, inputs, numbers, target):
    """In 64 bits what is left of them would fit, and results were as small as that."""
    results = body.split(" = ")[0]
    model = parsed(f"(float[n] x, {inputs}) => ({results}) {{ [it] {body} }}")
    with pytest.raises(tvm.Error, match="'it'.*(too large|out of range)"):
        tvm.compile(model, target=target).run(None, {"x": floats(4), "r": np.array(numbers)})


@pytest.mark.parametrize("known", [True, False], ids=["constant", "operand"])
@pytest.mark.parametrize("bounds", [(-100, -100, -1), (-4, -2**63, -2), (-2**63, -1, -1), (-3, -100, -1), (-1, -100, -2), (9, -4, -3)])
def test_slices_that_begin_before_the_first_element(bounds, known):
    """Going backwards they begin at the first one: it was left out, as NumPy has it."""
    given = ", ".join(f"int64[1] {name}" + (f" = {{{value}}}" if known else "") for name, value in zip("bes", bounds))
    inputs, fixed = ("", f", {given}") if known else (f", {given}", "")
    model = parsed(f"(float[n, m] x{inputs}) => (y) <int64[1] a = {{1}}{fixed}> {{ [it] y = Slice(x, b, e, a, s) }}")
    numbers = {} if known else {name: np.array([value]) for name, value in zip("bes", bounds)}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for size in (3, 1, 0):
        feeds = {"x": floats(2, size), **numbers}
        for shapes in ({}, {name: array.shape for name, array in feeds.items()}):
            np.testing.assert_array_equal(tvm.compile(model, shapes=shapes).run(None, feeds)[0], session.run(None, feeds)[0])


#: Operators, operands that fit, and another size of one of them.
NOT_WIDENED = [
    ("Gemm(a, b, c)", {"a": (3, 5), "b": (5, 2), "c": (2,)}, {"b": (5, 1)}),
    ("RMSNormalization<axis=0>(x, s)", {"x": (1, 4), "s": (1, 4)}, {"s": (2, 4)}),
    ("LayerNormalization(x, s, b)", {"x": (2, 1), "s": (1,), "b": (1,)}, {"b": (3,)}),
    ("GroupNormalization<num_groups=1>(x, s, b)", {"x": (2, 1, 4), "s": (1,), "b": (1,)}, {"b": (3,)}),
    ("SimplifiedLayerNormalization<epsilon=0.1>(x, s)", {"x": (2, 1), "s": (1,)}, {"s": (3,)}),
    ("com.microsoft.BiasGelu(x, b)", {"x": (2, 1), "b": (1,)}, {"b": (3,)}),
    ("com.microsoft.SkipLayerNormalization(x, k, s, b)", {"x": (1, 2, 1), "k": (1, 2, 1), "s": (1,), "b": (1,)}, {"b": (3,)}),
    ('NegativeLogLikelihoodLoss<reduction="none">(x, i)', {"x": (2, 3, 4), "i": (2, 4)}, {"i": (2, 3)}),
    ('NegativeLogLikelihoodLoss<reduction="none">(x, i)', {"x": (2, 3, 4), "i": (2, 4)}, {"i": (1, 4)}),
    ("SoftmaxCrossEntropyLoss(x, i, w)", {"x": (2, 3), "i": (2,), "w": (3,)}, {"w": (4,)}),
]


@pytest.mark.parametrize("call, right, wrong", NOT_WIDENED)
def test_operands_that_widen_nothing(call, right, wrong):
    """Results were as large as what they were multiplied by or added to, or some of the scores counted."""
    dims = {n: ", ".join(f"{n}{d}" for d in range(len(s))) for n, s in right.items()}
    names = ", ".join(f"{'int64' if n == 'i' else 'float'}[{d}] {n}" for n, d in dims.items())
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]> g ({names}) => (y) {{ [it] y = {call} }}')
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for sizes, fits in ((right, True), ({**right, **wrong}, False)):
        feeds = {n: np.zeros(s, np.int64) if n == "i" else np.abs(floats(*s)) for n, s in sizes.items()}
        run, fixed = both_forms(model, feeds)
        if fits:
            assert run == fixed == [r.shape for r in session.run(None, feeds)]
            continue
        assert isinstance(run, str) and "'it'" in run and isinstance(fixed, str) and "'it'" in fixed


def test_transforms_of_another_batch():
    """The size's batch was ignored."""
    for known in (True, False):
        size = "int64[4] s = {2, 1, 3, 4}"
        model = onnx.parser.parse_model(
            f"""<ir_version: 10, opset_import: ["": 20]> g (float[n, 2, 3] x{"" if known else ", int64[4] s"}) => (y)
            {f"<{size}>" if known else ""} {{ [it] y = AffineGrid(x, s) }}""")
        for batch in (2, 1, 3):
            feeds = {"x": floats(batch, 2, 3), **({} if known else {"s": np.array([2, 1, 3, 4])})}
            for found in both_forms(model, feeds):
                assert found == [(2, 3, 4, 2)] if batch == 2 else "'it' (AffineGrid): " in found


@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64-v2"])
def test_packed_products_of_bytes_check_inner_sizes_of_empty_results(cpu):
    """Of a size that no type tells; an ordinary reshape of no elements is right whatever the sizes are."""
    model = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 19]>
        f (uint8[a, b] x) => (int32[?, ?] y)
        <int64[1] last = {{-1}}, int64[1] end = {{-100}}, int64[1] one = {{1}}, int64[1] back = {{-1}},
         int8[7, 3] w = {{{", ".join(str(i) for i in range(21))}}}> {{
          v = Slice (x, last, end, one, back)
          y = MatMulInteger (v, w)
        }}""")
    compiled = tvm.compile(model, target=f"llvm -mcpu={cpu}")
    assert compiled.run(None, {"x": np.ones((0, 7), np.uint8)})[0].shape == (0, 3)
    x = np.arange(14, dtype=np.uint8).reshape(2, 7)
    np.testing.assert_array_equal(compiled.run(None, {"x": x})[0], x[:, ::-1].astype(int) @ np.arange(21).reshape(7, 3))
    for rows in (0, 2):
        for size in (5, 8, 14):
            with pytest.raises(tvm.Error, match=f"{size} and 7"):
                compiled.run(None, {"x": np.ones((rows, size), np.uint8)})


@pytest.mark.parametrize("text, right, wrong", [
    ("""<ir_version: 10, opset_import: ["": 22]> g (float[a, b, c, d] x, float[e, f, h, i] w, float[j, k, l, m] o) => (y) {
        [it] y = DeformConv<kernel_shape = [2, 2]>(x, w, o)
    }""", {"x": (1, 2, 5, 7), "w": (6, 2, 2, 2), "o": (1, 8, 4, 6)}, {"x": (1, 0, 5, 7), "w": (6, 0, 0, 0)}),
    ("""<ir_version: 10, opset_import: ["": 23]> g (float[a, b, c] x, float[e, f, h] cos, float[e, f, h] sin) => (y) {
        [it] y = RotaryEmbedding<num_heads = 1>(x, cos, sin)
    }""", {"x": (1, 5, 8), "cos": (1, 5, 4), "sin": (1, 5, 4)}, {"x": (1, 5, 9)}),
], ids=["DeformConv", "RotaryEmbedding"])
def test_windows_and_pairs_that_do_not_fit(text, right, wrong):
    model = onnx.parser.parse_model(text)
    run, fixed = both_forms(model, {name: floats(*shape) / 100 for name, shape in right.items()})
    assert run == fixed and not isinstance(run, str)
    run, fixed = both_forms(model, {name: floats(*shape) / 100 for name, shape in {**right, **wrong}.items()})
    assert isinstance(run, str) and "it" in run
    assert isinstance(fixed, str) and "node 'it'" in fixed


@pytest.mark.parametrize("shape", [("Expand", [2**62, 1]), ("Expand", [2**40, 1]), ("DFT", 2**62), ("DFT", 2**61 - 1), ("STFT", 2**62)])
def test_known_sizes_beside_those_of_a_run_are_limited_when_compiling(shape):
    """Transforms of such lengths were divided into factors for minutes, or a matrix of them was stored."""
    op, number = shape
    inputs = ["x", "step", "", "c"] if op == "STFT" else ["x", "c"]
    graph = helper.make_graph([helper.make_node(op, inputs, ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m", 1])], [onnx.ValueInfoProto(name="y")],
                              [numpy_helper.from_array(np.array(number), "c"), numpy_helper.from_array(np.array(1), "step")])
    match = "takes .* bytes or more; the limit is" if op == "Expand" else "expected at most"
    with pytest.raises(tvm.error.Error, match=rf"node '{op}#0' \({op}\): .*{match}"):
        tvm.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
