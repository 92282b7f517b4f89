# SPDX-License-Identifier: Apache-2.0
"""Initializers whose bytes, sizes and types don't fit."""
import numpy as np
from onnx import TensorProto, helper

from .base import Case, f32, info, model, node, tensor

X = {"x": f32(2, 3)}
DIMS = [2, 3]


def proto(dims=DIMS, data_type=TensorProto.FLOAT, raw=None, name="w", **data):
    made = TensorProto(name=name, data_type=data_type, dims=dims)
    if raw is not None:
        made.raw_data = raw
    for key, values in data.items():
        getattr(made, key).extend(values)
    return made


def case(name, want, initializer, nodes=None, sparse=(), expected=None):
    made = model(nodes or [node("Add", ["x", "w"], ["y"])], [info("x", "float32", DIMS)], ["y"],
                 [] if initializer is None else [initializer])
    made.graph.sparse_initializer.extend(sparse)
    return Case("tensor_" + name, made.SerializeToString(), want, X, expected)


def sparse(values, indices, dims=DIMS, name="w"):
    made = helper.make_sparse_tensor(tensor(np.array(values, "float32"), name), tensor(np.array(indices, "int64"), ""),
                                     [1])
    del made.dims[:]
    made.dims.extend(dims)
    return made


def dense_cases():
    raw = f32(2, 3).tobytes()
    yield case("raw", "ok", proto(raw=raw))
    yield case("typed", "ok", proto(float_data=[1, 2, 3, 4, 5, 6]))
    for name, length in {"nothing": 0, "short": 20, "long": 28, "odd": 23, "one": 1, "twice": 48}.items():
        yield case(f"raw_{name}", "error", proto(raw=(raw * 2)[:length]))
    for count in (0, 5, 7):
        yield case(f"typed_{count}", "error", proto(float_data=[1] * count))
    yield case("raw_and_typed", "error", proto(raw=raw, float_data=[1] * 6))
    yield case("wrong_field", "error", proto(int64_data=[1] * 6))
    yield case("two_fields", "error", proto(float_data=[1] * 6, double_data=[1] * 6))
    yield case("nameless_constant", "ok", None, [node("Constant", [], ["w"], value=tensor(f32(2, 3), "")),
                                                 node("Add", ["x", "w"], ["y"])])
    for name, dims in {"negative": [-2, -3], "minus_one": [-1, 3], "smallest": [-(1 << 63), 3], "huge": [1 << 40, 3],
                       "wraps_to_6": [(1 << 63) + 3 - (1 << 64), 2], "wraps": [1 << 32, 1 << 32],
                       "wraps_bytes": [1 << 62, 1], "zero_and_huge": [0, 1 << 62], "rank_65": [1] * 65,
                       "rank_5000": [1] * 5000}.items():
        yield case(f"dims_{name}", "error", proto(dims, raw=raw))
    yield case("zero_and_huge_empty", "error", proto([0, 1 << 62], raw=b""))
    for number in (0, 29, 99, -1, 1 << 30):
        yield case(f"type_{number}", "error", proto(data_type=number, raw=raw))
    yield case("string", "error", proto(data_type=TensorProto.STRING, string_data=[b"a"] * 6))
    yield case("complex", "error", proto(data_type=TensorProto.COMPLEX64, raw=raw * 2))
    yield case("undefined_unused", "either", proto(data_type=0, raw=raw), [node("Relu", ["x"], ["y"])])
    segment = proto(raw=raw)
    segment.segment.begin, segment.segment.end = 0, 3
    yield case("segment", "either", segment)
    cast = [node("Cast", ["w"], ["v"], to=1), node("Add", ["x", "v"], ["y"])]
    yield case("int32_data_out_of_int8", "either", proto(data_type=TensorProto.INT8, int32_data=[300] * 6), cast)
    yield case("bool_of_7", "either", proto(data_type=TensorProto.BOOL, raw=b"\x07" * 6), cast)
    yield case("bfloat16_short", "error", proto(data_type=TensorProto.BFLOAT16, raw=b"\0" * 11), cast)
    yield case("int4_odd", "either", proto([5], TensorProto.INT4, raw=b"\x12\x34\x56"),
               [node("Cast", ["w"], ["y"], to=1)])
    yield case("int4_short", "error", proto([5], TensorProto.INT4, raw=b"\x12\x34"),
               [node("Cast", ["w"], ["y"], to=1)])
    yield case("nan", "ok", proto(raw=np.full(6, np.nan, "float32").tobytes()))


def sparse_cases():
    sums = [X["x"] + np.array([[1, 0, 0], [0, 0, 2]], "float32")]
    yield case("sparse", "ok", None, sparse=[sparse([1, 2], [0, 5])], expected=sums)
    yield case("sparse_coordinates", "ok", None, sparse=[sparse([1, 2], [[0, 0], [1, 2]])], expected=sums)
    for name, indices in {"beyond": [0, 6], "negative": [-1, 5], "huge": [0, 1 << 62], "unsorted": [5, 0],
                          "twice": [3, 3], "too_many": [0, 1, 2], "too_few": [0]}.items():
        yield case(f"sparse_{name}", "error", None, sparse=[sparse([1, 2], indices)])
    for name, indices in {"beyond": [[0, 0], [1, 3]], "negative": [[0, 0], [-1, 2]], "of_rank_3": [[0, 0, 0], [1, 2, 0]],
                          "wraps": [[0, 0], [1 << 62, 1 << 62]]}.items():
        yield case(f"sparse_coordinates_{name}", "error", None, sparse=[sparse([1, 2], indices)])
    yield case("sparse_dims_negative", "error", None, sparse=[sparse([1, 2], [0, 5], [-2, -3])])
    yield case("sparse_dims_huge", "error", None, sparse=[sparse([1, 2], [0, 5], [1 << 31, 1 << 31])])
    yield case("sparse_dims_4_tib", "error", None, sparse=[sparse([1, 2], [0, 5], [1 << 20, 1 << 20])])
    yield case("sparse_no_dims", "error", None, sparse=[sparse([1, 2], [0, 5], [])])
    bad = sparse([1, 2], [0, 5])
    bad.indices.CopyFrom(tensor(np.array([0.0, 5.0], "float32"), ""))
    yield case("sparse_float_indices", "error", None, sparse=[bad])
    bad = sparse([1, 2], [0, 5])
    bad.ClearField("indices")
    yield case("sparse_no_indices", "error", None, sparse=[bad])
    bad = sparse([1, 2], [0, 5])
    bad.values.raw_data = b"1"
    yield case("sparse_short_values", "error", None, sparse=[bad])
    yield case("sparse_and_dense", "error", tensor(f32(2, 3), "w"), sparse=[sparse([1, 2], [0, 5])])


def tensor_cases():
    yield from dense_cases()
    yield from sparse_cases()
