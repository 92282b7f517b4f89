# SPDX-License-Identifier: Apache-2.0
"""Bytes that aren't a model."""
import io
import random
import zipfile
import zlib

import numpy as np

from .base import Case, info, model, node, tensor


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while True:
        low = value & 0x7F
        value >>= 7
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def field(number, data):
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field_number, value):
    return varint(field_number << 3) + varint(value)


def good():
    weight = np.arange(6, dtype="float32").reshape(2, 3)
    return model([node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])], [info("x", "float32", [2, 2])],
                 [info("y", "float32", [2, 3])], [tensor(weight, "w")]).SerializeToString()


def zipped(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m.onnx", data)
    return out.getvalue()


def nested(depth, ending=b""):
    """Graphs in attributes of nodes in graphs."""
    data = ending
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, data) + number(20, 5)
        data = field(1, field(4, b"If") + field(5, attribute))
    return field(7, data) + number(1, 10)


def wire_cases():
    data = good()
    x = {"x": np.ones((2, 2), "float32")}
    cases = {
        "empty": b"", "zero_byte": b"\0", "text": b"this is not a model\n", "json": b'{"graph": {}}',
        "spaces": b" " * 1000, "zeros": bytes(4096), "ones": b"\xff" * 4096, "png": b"\x89PNG\r\n\x1a\n" + bytes(64),
        "zip": zipped(data), "gzip": b"\x1f\x8b\x08" + zlib.compress(data), "zip_bomb": zipped(bytes(50 << 20)),
        "unending_varint": b"\x08" + b"\xff" * 11, "group": b"\x3b" * 10000, "end_group": b"\x3c",
        "group_nested": b"\x3b" * 200 + b"\x3c" * 200, "field_zero": b"\x02\x00" + data,
        "wire_type_6": b"\x3e" + data, "wire_type_7": b"\x3f" + data, "graph_as_varint": number(7, 5),
        "length_beyond_end": field(7, b"")[:1] + varint(1 << 40), "length_wraps": b"\x3a" + varint((1 << 64) - 1),
        "length_2_gib": b"\x3a" + varint(1 << 31), "length_half": b"\x3a" + varint(1 << 63),
        "only_ir_version": number(1, 10), "nested_100": nested(100), "nested_5000": nested(5000),
        "nested_30_unfinished": nested(30, b"\x0a\xff"),
        "node_count": number(1, 10) + field(7, field(1, field(4, b"Relu")) * 1000),
        "name_2_mib": data.replace(b"y", b"y") + field(7, field(2, b"n" * (2 << 20))),
    }
    for name, content in cases.items():
        yield Case("wire_" + name, content, "error", x)
    # A field nobody knows is skipped, as protobuf wants.
    yield Case("wire_unknown_field", data + field(1000, b"?" * 100), "ok", x)
    # The last of two numbers counts, two messages are merged.
    yield Case("wire_split_graph", data[:0] + data, "either", x)
    for fraction in range(1, 20):
        yield Case(f"wire_cut_{fraction}", data[:len(data) * fraction // 20], "either", x)
    rng = random.Random(7)
    for index in range(40):
        mutant = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(mutant))
            mutant[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, mutant[at] ^ 1 << rng.randrange(8)))
        yield Case(f"wire_mutant_{index}", bytes(mutant), "either", x, expected=None)
