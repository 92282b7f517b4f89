# SPDX-License-Identifier: Apache-2.0
"""Small files that ask for much, and dimensions of size 0."""
import numpy as np

from .base import Case, f32, forms, graph, i64, info, model, node, one, tensor

TIB = 1 << 40


def chain(name, want, nodes, outputs, initializers=(), inputs=(), feeds=None, **more):
    return Case("size_" + name, model(nodes, list(inputs), outputs, initializers, **more).SerializeToString(), want,
                feeds or {})


def size_cases():
    x = f32(1, 1)
    yield from forms("size_expand", "Expand", {"x": x, "s": i64([1 << 20, 1 << 20])}, "error", ("s",))
    yield from forms("size_tile", "Tile", {"x": x, "r": i64([1 << 20, 1 << 20])}, "error", ("r",))
    yield from forms("size_constantofshape", "ConstantOfShape", {"s": i64([TIB])}, "error", ("s",))
    yield from forms("size_range", "Range", {"b": np.int64(0), "e": np.int64(TIB), "d": np.int64(1)}, "error", tuple("bed"))
    yield from forms("size_pad", "Pad", {"x": x, "p": i64([0, 0, 1 << 20, 1 << 20])}, "error", ("p",))
    far = (1 << 63) - 1
    yield from forms("size_pad_wraps", "Pad", {"x": f32(4), "p": i64([far, far])}, "error", ("p",))
    yield from forms("size_onehot", "OneHot", {"i": i64([0]), "d": np.int64(TIB), "v": f32(2)}, "error", ("d", "v"))
    yield from forms("size_resize", "Resize", {"x": f32(1, 1, 2, 2), "r": None, "s": None, "z": i64([1, 1, 1 << 20, 1 << 20])},
                     "error", ("z",))
    yield one("size_convtranspose", "ConvTranspose", {"x": f32(1, 1, 2, 2), "w": f32(1, 1, 2, 2)}, "error",
              strides=[1 << 20, 1 << 20])
    yield one("size_randomnormal", "RandomNormal", {}, "error", shape=[1 << 20, 1 << 20])
    yield one("size_outer_product", "MatMul", {"a": f32(1 << 20, 1), "b": f32(1, 1 << 20)}, "error")
    yield one("size_outer_sum", "Add", {"a": f32(1 << 20, 1), "b": f32(1, 1 << 20)}, "error")
    # Each step is allowed, all of them are not.
    nodes = [node("Concat", [f"v{i}"] * 8, [f"v{i + 1}"], axis=0) for i in range(14)]
    yield chain("concat_bomb", "error", nodes, ["v14"], inputs=[info("v0", "float32", [1 << 10])], feeds={"v0": f32(1 << 10)})
    nodes = [node("ConstantOfShape", ["s"], ["c0"])] + [
        node("MatMul", [f"c{i}", f"c{i}"], [f"c{i + 1}"]) for i in range(40)] + [node("ReduceSum", ["c40"], ["y"])]
    yield chain("fold_products", "either", nodes, ["y"], [tensor(i64([700, 700]), "s")])
    nodes = [node("ConstantOfShape", ["s"], ["c"])] + [node("Add", ["c", f"k{i}"], [f"y{i}"]) for i in range(24)]
    yield chain("fold_many", "either", nodes + [node("Sum", [f"y{i}" for i in range(24)], ["z"]),
                                                node("ReduceSum", ["z"], ["y"])], ["y"],
                [tensor(i64([4 << 20]), "s"), *(tensor(np.float32(i), f"k{i}") for i in range(24))])
    nodes = [node("Expand", ["x", "s"], ["e"]), node("ReduceSum", ["e"], ["y"])]
    yield chain("expand_reduced", "error", nodes, ["y"], [tensor(np.float32([1]), "x"), tensor(i64([1 << 38]), "s")])
    body = graph([node("Identity", ["k"], ["ko"]), node("Concat", ["v", "v"], ["vo"], axis=0)],
                 [info("i", "int64", []), info("k", "bool", []), info("v", "float32", ["n"])], ["ko", "vo"])
    yield chain("loop_doubles", "error", [node("Loop", ["m", "", "x"], ["y"], body=body)], ["y"], [tensor(np.array(
        64, "int64"), "m")], [info("x", "float32", [16])], {"x": f32(16)})
    body = graph([node("Identity", ["k"], ["ko"]), node("Identity", ["v"], ["vo"]), node("Identity", ["v"], ["s"])],
                 [info("i", "int64", []), info("k", "bool", []), info("v", "float32", [1 << 20])], ["ko", "vo", "s"])
    yield chain("loop_collects", "error", [node("Loop", ["m", "", "x"], ["y", "z"], body=body)], ["z"], [tensor(np.array(
        1 << 40, "int64"), "m")], [info("x", "float32", [1 << 20])], {"x": f32(1 << 20)})
    yield chain("gather_repeats", "error", [node("Gather", ["x", "i"], ["y"])], ["y"], [], [
        info("x", "float32", [1, 1 << 20]), info("i", "int64", [1 << 20])],
        {"x": f32(1, 1 << 20), "i": np.zeros(1 << 20, "int64")})
    # Written out, the last value is of 2^40 operators. With sizes of dimensions "dynamic".
    links = [node(("Sub", "Max", "Mul", "Min")[i % 4], [f"v{i - 1}", f"v{i - 2}"], [f"v{i}"]) for i in range(2, 60)]
    sizes = [node("Shape", ["x"], [f"v{d}"], start=d, end=d + 1) for d in range(2)]
    clip = [node("Max", ["v59", "one"], ["low"]), node("Min", ["low", "four"], ["n"]), node("ConstantOfShape", ["n"], ["y"])]
    yield chain("fibonacci_dynamic", "ok", sizes + links + clip, ["y"], [tensor(i64([1]), "one"), tensor(i64([4]), "four")],
                [info("x", "float32", ["n", "m"])], {"x": f32(2, 3)})
    yield chain("fibonacci", "ok", links, ["v59"], [], [info(f"v{d}", "float32", [3]) for d in range(2)],
                {"v0": f32(3), "v1": -f32(3)})
    yield chain("many_initializers", "ok", [node("Relu", ["x"], ["y"])], ["y"], [
        tensor(np.float32(0), f"w{i}") for i in range(5000)], [info("x", "float32", [2])], {"x": f32(2)})
    yield chain("rank_17", "either", [node("Relu", ["x"], ["y"])], ["y"], [], [info("x", "float32", [1] * 17)],
                {"x": f32(*[1] * 17)})
    yield chain("rank_64_transposed", "either", [node("Transpose", ["x"], ["y"])], ["y"], [],
                [info("x", "float32", [1] * 64)], {"x": f32(*[1] * 64)})


EMPTY = f32(0, 3)


def empty_cases():
    def made(name, op, feeds, want="ok", **more):
        yield one("empty_" + name, op, feeds, want, **more)
        images = {"x": ["n", 4, "h", "w"]} if "conv" in name else True
        constants = ("w",) if "conv" in name else more.get("constants", ())
        if name in ("conv_channels", "conv_kernels", "gathernd", "scatternd", "roialign"):
            return  # what these are about can't be open
        yield one(f"empty_{name}_dynamic", op, feeds, want, **{**more, "dynamic": images, "constants": constants})

    for op in ("Relu", "Neg", "Sigmoid", "Identity", "Softmax", "Transpose", "Shape", "Size", "Not", "Cast"):
        x = EMPTY > 0 if op == "Not" else EMPTY
        yield from made(op.lower(), op, {"x": x}, **({"to": 7} if op == "Cast" else {}))
    yield from made("add", "Add", {"a": EMPTY, "b": f32(1, 3)})
    yield from made("add_no_broadcast", "Add", {"a": EMPTY, "b": f32(2, 3)}, "error")
    yield from made("matmul_rows", "MatMul", {"a": EMPTY, "b": f32(3, 4)})
    yield from made("matmul_sum", "MatMul", {"a": f32(2, 0), "b": f32(0, 4)})
    yield from made("matmul_columns", "MatMul", {"a": f32(2, 3), "b": f32(3, 0)})
    yield from made("gemm_sum", "Gemm", {"a": f32(2, 0), "b": f32(0, 4), "c": f32(4)})
    zero8 = np.zeros((2, 0), "uint8")
    yield from made("matmulinteger_sum", "MatMulInteger", {"a": zero8, "b": zero8.reshape(0, 2)})
    yield from made("matmulinteger_batches", "MatMulInteger", {"a": np.zeros((7, 4, 0, 9), "uint8"), "b": np.ones(
        (9, 3), "uint8")})
    yield from made("matmul_batches", "MatMul", {"a": f32(2, 3, 0, 5), "b": f32(2, 1, 5, 4)})
    yield from made("matmul_batched_sum", "MatMul", {"a": f32(2, 3, 0), "b": f32(0, 4)})
    yield from made("matmul_no_batches", "MatMul", {"a": f32(0, 2, 3, 5), "b": f32(0, 1, 5, 4)})
    yield from made("matmulinteger_rows", "MatMulInteger", {"a": zero8.reshape(0, 2), "b": np.ones((2, 3), "uint8")})
    for op, value in {"ReduceSum": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf, "ReduceL1": 0, "ReduceL2": 0,
                      "ReduceSumSquare": 0, "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf}.items():
        expected = [np.full((1, 3), value, "float32")]
        yield from made(op.lower(), op, {"x": EMPTY, "a": i64([0])}, constants=("a",), expected=expected)
    yield from made("reducemean", "ReduceMean", {"x": EMPTY, "a": i64([0])}, "either", constants=("a",))
    yield from made("argmax", "ArgMax", {"x": EMPTY}, "error")
    yield from made("argmax_other_axis", "ArgMax", {"x": EMPTY}, "ok", axis=1, expected=[np.zeros((0, 1), "int64")])
    yield from made("topk", "TopK", {"x": EMPTY, "k": i64([0])}, outputs=2, axis=0)
    yield from made("topk_1", "TopK", {"x": EMPTY, "k": i64([1])}, "error", outputs=2, axis=0)
    yield from made("concat", "Concat", {"a": EMPTY, "b": f32(2, 3)}, axis=0)
    yield from made("split", "Split", {"x": f32(3, 2), "s": i64([0, 3])}, constants=("s",), outputs=2)
    yield from made("slice", "Slice", {"x": f32(3, 2), "b": i64([2]), "e": i64([1])}, constants=("b", "e"))
    yield from made("pad", "Pad", {"x": EMPTY, "p": i64([1, 1, 1, 1])}, constants=("p",))
    yield from made("reshape", "Reshape", {"x": EMPTY, "s": i64([3, 0])}, constants=("s",), allowzero=1)
    yield from made("reshape_free", "Reshape", {"x": EMPTY, "s": i64([-1, 3])}, constants=("s",))
    yield from made("expand", "Expand", {"x": EMPTY, "s": i64([2, 0, 3])}, constants=("s",))
    yield from made("tile", "Tile", {"x": f32(2, 3), "r": i64([0, 2])}, constants=("r",))
    yield from made("gather", "Gather", {"x": f32(2, 3), "i": np.zeros((0, 2), "int64")})
    yield from made("gatherelements", "GatherElements", {"x": f32(2, 3), "i": np.zeros((0, 3), "int64")})
    yield from made("gathernd", "GatherND", {"x": f32(2, 3), "i": np.zeros((0, 1), "int64")})
    yield from made("scatterelements", "ScatterElements", {"x": f32(2, 3), "i": np.zeros((0, 3), "int64"), "u": EMPTY})
    yield from made("scatternd", "ScatterND", {"x": f32(2, 3), "i": np.zeros((0, 1), "int64"), "u": EMPTY})
    yield from made("where", "Where", {"c": EMPTY > 0, "a": EMPTY, "b": f32(1, 3)})
    yield from made("cumsum", "CumSum", {"x": EMPTY, "a": np.int64(0)}, constants=("a",))
    yield from made("nonzero", "NonZero", {"x": EMPTY})
    yield from made("nonzero_of_zeros", "NonZero", {"x": np.zeros((2, 3), "float32")})
    yield from made("compress", "Compress", {"x": f32(3, 2), "c": np.zeros(3, bool)}, axis=0)
    yield from made("unique", "Unique", {"x": f32(0)}, "either")
    yield from made("onehot", "OneHot", {"i": np.zeros(0, "int64"), "d": np.int64(3), "v": f32(2)}, constants=("d", "v"))
    yield from made("range", "Range", {"b": np.int64(5), "e": np.int64(1), "d": np.int64(1)}, constants=tuple("bed"))
    yield from made("constantofshape", "ConstantOfShape", {"s": i64([2, 0])}, constants=("s",))
    yield from made("einsum", "Einsum", {"a": f32(2, 0), "b": f32(0, 3)}, equation="ij,jk->ik")
    batch = f32(0, 4, 6, 6)
    yield from made("depthtospace", "DepthToSpace", {"x": batch}, blocksize=2)
    yield from made("spacetodepth", "SpaceToDepth", {"x": batch}, blocksize=2)
    yield from made("depthtospace_no_channels", "DepthToSpace", {"x": f32(1, 0, 4, 4)}, "either", blocksize=2)
    yield from made("conv_batch", "Conv", {"x": batch, "w": f32(4, 4, 3, 3)}, expected=[f32(0, 4, 4, 4)])
    yield from made("conv_channels", "Conv", {"x": f32(1, 0, 6, 6), "w": f32(4, 0, 3, 3)}, "either")
    yield from made("conv_kernels", "Conv", {"x": f32(1, 4, 6, 6), "w": f32(0, 4, 3, 3)}, "either")
    yield from made("conv_image", "Conv", {"x": f32(1, 4, 0, 6), "w": f32(4, 4, 3, 3)}, "error")
    yield from made("convtranspose_batch", "ConvTranspose", {"x": batch, "w": f32(4, 2, 3, 3)}, expected=[f32(0, 2, 8, 8)])
    for op in ("MaxPool", "AveragePool"):
        yield from made(op.lower() + "_batch", op, {"x": batch}, kernel_shape=[2, 2], expected=[f32(0, 4, 5, 5)])
        yield from made(op.lower() + "_image", op, {"x": f32(1, 4, 0, 6)}, "error", kernel_shape=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield from made(op.lower() + "_batch", op, {"x": batch}, expected=[f32(0, 4, 1, 1)])
        yield from made(op.lower() + "_image", op, {"x": f32(1, 4, 0, 6)}, "either")
    yield from made("resize", "Resize", {"x": batch, "r": None, "s": np.array([1, 1, 2, 2], "float32")},
                    constants=("s",), expected=[f32(0, 4, 12, 12)])
    yield from made("batchnorm", "BatchNormalization", {"x": batch, "s": f32(4), "b": f32(4), "m": f32(4), "v": f32(4) ** 2})
    yield from made("layernorm", "LayerNormalization", {"x": EMPTY, "s": f32(3)})
    yield from made("layernorm_rows", "LayerNormalization", {"x": f32(3, 0), "s": f32(0)}, "either")
    yield from made("lstm", "LSTM", {"x": f32(0, 2, 5), "w": f32(1, 16, 5), "r": f32(1, 16, 4)}, "either", hidden_size=4)
    yield from made("lstm_batch", "LSTM", {"x": f32(3, 0, 5), "w": f32(1, 16, 5), "r": f32(1, 16, 4)}, "either",
                    hidden_size=4)
    yield from made("quantize", "QuantizeLinear", {"x": EMPTY, "s": np.float32(1), "z": np.uint8(3)})
    yield from made("dynamicquantize", "DynamicQuantizeLinear", {"x": EMPTY}, "either", outputs=3)
    yield from made("nms", "NonMaxSuppression", {"b": f32(1, 0, 4), "s": f32(1, 1, 0), "m": np.int64(3)}, "either")
    yield from made("roialign", "RoiAlign", {"x": f32(1, 1, 6, 6), "r": f32(0, 4), "b": np.zeros(0, "int64")},
                    output_height=2, output_width=2, expected=[f32(0, 1, 2, 2)])
    yield from made("attention", "Attention", {"q": f32(1, 2, 0, 4), "k": f32(1, 2, 3, 4), "v": f32(1, 2, 3, 4)}, "either",
                    opset=23)
    yield from made("attention_keys", "Attention", {"q": f32(1, 2, 3, 4), "k": f32(1, 2, 0, 4), "v": f32(1, 2, 0, 4)},
                    "either", opset=23)
