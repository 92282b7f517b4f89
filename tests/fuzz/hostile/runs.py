# SPDX-License-Identifier: Apache-2.0
"""What only a run shows: labels of Einsum, broadcasts, bodies of loops and branches, parameters of quantised operators,
dimensions without elements."""
import numpy as np
from onnx import TensorProto

from .base import FLOAT, Case, f32, graph, i64, info, model, node, one

HUGE = 1 << 62


def both(name, op, feeds, want, **more):
    yield one(f"{name}_static", op, feeds, want, **more)
    yield one(f"{name}_dynamic", op, feeds, want, dynamic=True, **more)


def einsum_cases():
    for name, equation, shapes in (
            ("inner", "ij,jk->ik", [(2, 3), (4, 5)]), ("inner_empty", "ij,jk->ik", [(2, 0), (3, 5)]), ("diagonal", "ii->i", [(2, 3)]),
            ("diagonal_empty", "ii->i", [(0, 3)]), ("trace_one", "ii", [(1, 3)]), ("batches", "...ij,...jk->...ik", [(2, 2, 3), (3, 3, 4)]),
            ("three", "ij,jk,kl->il", [(2, 3), (3, 4), (5, 2)]), ("label_thrice", "iii->i", [(2, 2, 3)]), ("outer_and_diagonal", "ij,jj->i", [(2, 3), (3, 2)]),
            ("beside_ellipsis", "b...,b...->b", [(2, 3), (3, 3)]), ("rank", "ijk->i", [(2, 3)]), ("rank_below", "i->i", [(2, 3)]),
            ("ellipsis_for_less_than_none", "ij...k->i", [(2, 3)])):
        feeds = {f"x{i}": f32(*shape) for i, shape in enumerate(shapes)}
        yield from both(f"run_einsum_{name}", "Einsum", feeds, "error", equation=equation)
    for name, equation, shapes in (("sum_of_none", "ij->j", [(0, 3)]), ("inner_of_none", "ij,jk->ik", [(2, 0), (0, 3)]), ("one_broadcasts_not", "ij,ij->ij", [(2, 3), (2, 3)])):
        feeds = {f"x{i}": f32(*shape) for i, shape in enumerate(shapes)}
        yield from both(f"run_einsum_{name}", "Einsum", feeds, "ok", equation=equation)


def broadcast_cases():
    for name, a, b in (("2_3", (2, 3), (3, 3)), ("0_2", (0, 3), (2, 3)), ("2_0", (2, 3), (2, 0)), ("rank", (4, 1, 3), (2, 3, 2))):
        feeds = {"a": f32(*a), "b": f32(*b)}
        for op in ("Add", "Max", "PRelu", "Pow"):
            yield one(f"run_broadcast_{op.lower()}_{name}", op, feeds, "error", dynamic=True)
        made = model([node("Shape", ["b"], ["s"]), node("Expand", ["a", "s"], ["y"])],
                     [info("a", FLOAT, [f"a{i}" for i in range(len(a))]), info("b", FLOAT, [f"b{i}" for i in range(len(b))])], ["y"])
        yield Case(f"run_expand_to_shape_of_{name}", made.SerializeToString(), "error", feeds)
        yield one(f"run_where_{name}", "Where", {"c": np.ones(a, bool), **feeds}, "error", dynamic=True)
    for name, indices in (("beyond", i64([[9]])), ("min", i64([[-(1 << 63)]])), ("deep", np.zeros((1, 3), "int64"))):
        yield one(f"run_gathernd_{name}", "GatherND", {"x": f32(2, 3), "i": indices}, "error", dynamic={"x": ["n", "m"], "i": ["k", indices.shape[1]]})


def loop(name, state, body, want, trips=3, declared=None, extra=None):
    """A Loop whose body makes `out` and the scanned `row` of state `v`."""
    inner = graph([node("Identity", ["c"], ["d"]), *body],
                  [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, []), info("v", FLOAT, declared)],
                  [info("d", TensorProto.BOOL, []), info("out", FLOAT, None), info("row", FLOAT, None)], name="body")
    feeds = {"v0": state, "n": np.int64(trips), "t": np.bool_(True), **(extra or {})}
    for form in ("static", "dynamic"):
        inputs = [info(key, value.dtype, [f"{key}{i}" for i in range(value.ndim)] if form == "dynamic" else value.shape)
                  for key, value in feeds.items()]
        made = model([node("Loop", ["n", "t", "v0"], ["y", "z"], body=inner)], inputs, ["y", "z"])
        # ONNX's reference evaluator joins the rows of a loop instead of stacking them.
        yield Case(f"run_loop_{name}_{form}", made.SerializeToString(), want, feeds, [])


def loop_cases():
    rows = [node("Identity", ["out"], ["row"])]
    yield from loop("good", f32(2, 3), [node("Relu", ["v"], ["out"]), *rows], "ok")
    yield from loop("no_trips", f32(2, 3), [node("Relu", ["v"], ["out"]), *rows], "either", trips=0)
    yield from loop("trips_min", f32(2, 3), [node("Relu", ["v"], ["out"]), *rows], "either", trips=-(1 << 63))
    yield from loop("grows", f32(2, 3), [node("Concat", ["v", "v"], ["out"], axis=0), *rows], "error")
    yield from loop("rank_grows", f32(2, 3), [node("Flatten", ["v"], ["w"]), node("Concat", ["w", "w"], ["out"], axis=1), *rows], "error")
    yield from loop("grows_without_rows", f32(1, 3), [node("Concat", ["v", "v"], ["out"], axis=0), node("ReduceSum", ["v"], ["row"], keepdims=0)],
                    "either")
    yield from loop("grows_for_ever", f32(1, 3), [node("Concat", ["v", "v"], ["out"], axis=0), node("ReduceSum", ["v"], ["row"], keepdims=0)],
                    "error", trips=60)
    yield from loop("declared_other", f32(2, 3), [node("Relu", ["v"], ["out"]), *rows], "either", declared=[2, 7])
    yield from loop("declared_other_rank", f32(2, 3), [node("Relu", ["v"], ["out"]), *rows], "either", declared=[2, 3, 1])
    yield from loop("gathers_beyond", f32(2, 3), [node("Gather", ["v", "i"], ["w"], axis=0), node("Add", ["w", "v"], ["out"]), *rows], "error")
    yield from loop("adds_other", f32(2, 3), [node("Add", ["v", "e"], ["out"]), *rows], "error", extra={"e": f32(2, 2)})
    yield from loop("adds_broader", f32(1, 3), [node("Add", ["v", "e"], ["out"]), node("ReduceSum", ["v"], ["row"], keepdims=0)], "either", extra={"e": f32(2, 3)})


def scan_cases():
    def scan(name, state, row, body, want, **attributes):
        inner = graph(body, [info("s", FLOAT, None), info("r", FLOAT, None)], [info("t", FLOAT, None), info("o", FLOAT, None)], name="body")
        feeds = {"a": state, "x": row}
        for form in ("static", "dynamic"):
            inputs = [info(key, FLOAT, [f"{key}{i}" for i in range(value.ndim)] if form == "dynamic" else value.shape) for key, value in feeds.items()]
            made = model([node("Scan", ["a", "x"], ["y", "z"], body=inner, num_scan_inputs=1, **attributes)], inputs, ["y", "z"])
            yield Case(f"run_scan_{name}_{form}", made.SerializeToString(), want, feeds, [] if want == "either" else None)

    add, keep = node("Add", ["s", "r"], ["t"]), node("Identity", ["t"], ["o"])
    yield from scan("good", f32(3), f32(4, 3), [add, keep], "ok")
    yield from scan("other_rows", f32(3), f32(4, 2), [add, keep], "error")
    yield from scan("broader_rows", f32(1), f32(4, 3), [add, keep], "error")
    yield from scan("rows_of_none", f32(3), f32(4, 0), [add, keep], "error")
    yield from scan("no_rows", f32(3), f32(0, 3), [add, keep], "either")
    yield from scan("axis_beyond", f32(3), f32(4, 3), [add, keep], "error", scan_input_axes=[5])
    yield from scan("axis_min", f32(3), f32(4, 3), [add, keep], "error", scan_input_axes=[-(1 << 63)])
    yield from scan("direction", f32(3), f32(4, 3), [add, keep], "error", scan_input_directions=[7])
    yield from scan("output_axis", f32(3), f32(4, 3), [add, keep], "error", scan_output_axes=[9])


def branch_cases():
    def branch(name, then, other, want, after=(), condition=True):
        graphs = {key: graph([made], [], [info("r", FLOAT, None)], name=key) for key, made in (("then_branch", then), ("else_branch", other))}
        feeds = {"c": np.bool_(condition), "x": f32(2, 3)}
        inputs = [info("c", TensorProto.BOOL, []), info("x", FLOAT, ["n", "m"])]
        made = model([node("If", ["c"], ["r"], **graphs), *after], inputs, ["y" if after else "r"])
        yield Case(f"run_if_{name}", made.SerializeToString(), want, feeds, [] if want == "either" else None)

    keep = node("Identity", ["x"], ["r"])
    summed, doubled = node("ReduceSum", ["x"], ["r"], keepdims=0), node("Concat", ["x", "x"], ["r"], axis=0)
    for taken in (True, False):
        yield from branch(f"ranks_{taken}", keep, summed, "either", condition=taken)
        yield from branch(f"sizes_{taken}", keep, doubled, "either", condition=taken)
        yield from branch(f"sizes_added_{taken}", keep, doubled, "ok" if taken else "error", [node("Add", ["r", "x"], ["y"])], taken)
        yield from branch(f"gathered_{taken}", node("Gather", ["x", "k"], ["r"]), keep, "error", condition=taken)


def quantised_cases():
    x, w = np.full((3, 5), 7, "uint8"), np.full((5, 4), 9, "uint8")
    good = {"x": x, "xs": np.float32([0.5]), "xz": np.uint8([3]), "w": w, "ws": np.float32([0.5]), "wz": np.uint8([3]), "ys": np.float32([2]), "yz": np.uint8([3])}
    open_sizes = {key: ["n" + key] for key in ("xs", "xz", "ws", "wz", "ys", "yz")}
    for name, change in {"rows_2": {"xs": np.ones(2, "float32"), "xz": np.ones(2, "uint8")}, "columns_3": {"ws": np.ones(3, "float32"), "wz": np.ones(3, "uint8")},
                         "zero_4": {"wz": np.ones(4, "uint8")}, "scale_4": {"ws": np.ones(4, "float32")}, "result_2": {"ys": np.ones(2, "float32"), "yz": np.ones(2, "uint8")},
                         "scale_0": {"xs": np.ones(0, "float32"), "xz": np.ones(0, "uint8")}}.items():
        yield one(f"run_qlinearmatmul_{name}", "QLinearMatMul", {**good, **change}, "error", dynamic=open_sizes)
        image = {**good, "x": np.full((1, 5, 2, 2), 7, "uint8"), "w": np.full((4, 5, 1, 1), 9, "uint8")}
        yield one(f"run_qlinearconv_{name}", "QLinearConv", {**image, **change}, "error", dynamic=open_sizes)
    yield one("run_qlinearmatmul_inner", "QLinearMatMul", {**good, "w": np.full((4, 4), 9, "uint8")}, "error", dynamic=True)
    yield one("run_qlinearmatmul_good", "QLinearMatMul", good, "ok", dynamic=open_sizes)
    yield one("run_qlinearmatmul_infinite", "QLinearMatMul", {**good, "ys": np.float32([0])}, "either", dynamic=True, expected=[])


def empty_cases():
    for name, shape in (("rows", (1, 2, 0, 3)), ("columns", (1, 2, 3, 0))):
        for mode in ("edge", "reflect", "wrap"):
            yield from both(f"run_pad_{mode}_of_no_{name}", "Pad", {"x": f32(*shape), "p": i64(0, 0, 1, 1, 0, 0, 1, 1)}, "error", mode=mode)
        for mode in ("nearest", "linear", "cubic"):
            yield from both(f"run_resize_{mode}_of_no_{name}", "Resize", {"x": f32(*shape), "r": None, "k": None, "s": i64(1, 2, 3, 3)}, "error", mode=mode)
        for mode in ("zeros", "border", "reflection"):
            yield from both(f"run_gridsample_{mode}_of_no_{name}", "GridSample", {"x": f32(*shape), "g": f32(1, 2, 2, 2)}, "error", padding_mode=mode)
        yield from both(f"run_roialign_of_no_{name}", "RoiAlign", {"x": f32(*shape), "r": f32(1, 4), "b": i64([0])}, "either", expected=[np.zeros((1, 2, 1, 1), "float32")])
    for kind in ("ArgMax", "ReduceMax"):
        yield from both(f"run_{kind.lower()}_of_none", kind, {"x": f32(2, 0)}, "either", expected=[])
    yield from both("run_afe_of_none", "ArrayFeatureExtractor", {"x": f32(2, 0), "i": i64([0])}, "error", domain="ai.onnx.ml", opset=21)
    yield from both("run_afe_beyond", "ArrayFeatureExtractor", {"x": f32(2, 3), "i": i64([HUGE])}, "error", domain="ai.onnx.ml", opset=21)
    for op, attributes in (("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0]}), ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 2.0, 3.0]}),
                           ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0]}),
                           ("LinearClassifier", {"coefficients": [1.0] * 6, "intercepts": [0.0, 0.0], "classlabels_ints": [0, 1]})):
        count = 2 if op == "LinearClassifier" else 1
        yield from both(f"run_{op.lower()}_narrow", op, {"x": f32(4, 2)}, "error", domain="ai.onnx.ml", outputs=count, **attributes)
        yield from both(f"run_{op.lower()}_wide", op, {"x": f32(4, 5)}, "error", domain="ai.onnx.ml", outputs=count, **attributes)


def huge_cases():
    for batch in (HUGE, (1 << 63) - 1, 1 << 40):
        yield one(f"run_conv_batch_{batch}", "Conv", {"x": f32(1, 8, 12, 12), "w": f32(8, 8, 3, 3)}, "error", constants=("w",), dynamic={"x": [batch, 8, "m", 12]})


def run_cases():
    for family in (einsum_cases, broadcast_cases, loop_cases, scan_cases, branch_cases, quantised_cases, empty_cases, huge_cases):
        yield from family()
