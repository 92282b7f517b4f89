# SPDX-License-Identifier: Apache-2.0
"""Weights in files: outside of the model's folder, too short, not files at all."""
import os

from onnx import TensorProto

from .base import Case, f32, graph, info, model, node

X = {"x": f32(2, 3)}
BYTES = f32(2, 3).tobytes()


def proto(name="w", **entries):
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        made.external_data.add(key=key, value=str(value))
    return made


def plain(folder):
    """w.bin beside the model, a sub-folder with the same, and a file outside."""
    os.mkdir(os.path.join(folder, "sub"))
    for path in ("w.bin", "sub/w.bin", "../secret.bin", "w..bin", "ü.bin"):
        with open(os.path.join(folder, path), "wb") as file:
            file.write(BYTES)


def linked(target, symbolic=True):
    def make(folder):
        plain(folder)
        link = os.path.join(folder, "link.bin")
        if symbolic:
            os.symlink(target, link)
        else:
            os.link(os.path.join(folder, target), link)
    return make


def linked_folder(folder):
    plain(folder)
    os.symlink("..", os.path.join(folder, "up"))


def piped(folder):
    os.mkfifo(os.path.join(folder, "pipe.bin"))


def forbidden(folder):
    plain(folder)
    os.truncate(os.path.join(folder, "w.bin"), 0)


def case(name, want, files=plain, where="initializer", **entries):
    weight = proto(**entries)
    nodes, initializers = [node("Add", ["x", "w"], ["y"])], [weight]
    if where == "constant":
        weight.name = ""
        nodes, initializers = [node("Constant", [], ["w"], value=weight), *nodes], []
    elif where == "branch":
        inner = graph([node("Add", ["x", "w"], ["r"])], [], ["r"], [weight])
        nodes = [node("If", ["c"], ["y"], then_branch=inner, else_branch=graph([node("Abs", ["x"], ["r"])], [], ["r"]))]
        initializers = [TensorProto(name="c", data_type=TensorProto.BOOL, raw_data=b"\1")]
    made = model(nodes, [info("x", "float32", [2, 3])], ["y"], initializers)
    return Case("external_" + name, made.SerializeToString(), want, X,
                [X["x"] + f32(2, 3)] if want == "ok" else None, files)


def external_cases():
    yield case("beside", "ok", location="w.bin")
    yield case("below", "ok", location="sub/w.bin")
    yield case("dot", "ok", location="./w.bin")
    yield case("dots_in_name", "ok", location="w..bin")
    yield case("unicode", "ok", location="ü.bin")
    yield case("link_within", "ok", linked("sub/w.bin"), location="link.bin")
    yield case("offset_0", "ok", location="w.bin", offset=0, length=24)
    yield case("unknown_key", "ok", location="w.bin", checksum="?", dims="9", __class__="x")
    yield case("up_within", "either", location="sub/../w.bin")
    for where in ("initializer", "constant", "branch"):
        yield case(f"parent_{where}", "error", where=where, location="../secret.bin")
        yield case(f"absolute_{where}", "error", where=where, location="/etc/passwd")
    for name, location in {
            "up_through": "sub/../../secret.bin", "up_many": "../" * 40 + "etc/passwd", "dots": "..", "here": ".",
            "folder": "sub", "slash": "/", "missing": "no.bin", "empty": "", "backslash": "..\\secret.bin",
            "url": "file:///etc/passwd", "http": "http://localhost/w.bin", "device": "/dev/zero", "proc": "/proc/self/mem",
            "home": "~/w.bin", "variable": "$HOME/w.bin", "nul": "w.bin\0.txt", "long": "a" * 100000,
            "below_a_file": "w.bin/x", "trailing_slash": "w.bin/", "newline": "w.bin\n", "itself_twice": "*/*/w.bin",
            "memory_address": "*/_ORT_MEM_ADDR_/*"}.items():
        yield case("location_" + name, "error", location=location)
    yield case("no_location", "error", offset=0)
    yield case("link_out", "error", linked("../secret.bin"), location="link.bin")
    yield case("link_absolute", "error", linked("/etc/passwd"), location="link.bin")
    yield case("link_to_device", "error", linked("/dev/zero"), location="link.bin")
    yield case("link_loop", "error", linked("link.bin"), location="link.bin")
    yield case("link_dangling", "error", linked("none.bin"), location="link.bin")
    yield case("hard_link_out", "either", linked("../secret.bin", symbolic=False), location="link.bin")
    yield case("folder_link_out", "error", linked_folder, location="up/secret.bin")
    yield case("pipe", "error", piped, location="pipe.bin")
    yield case("empty_file", "error", forbidden, location="w.bin")
    for name, entries in {
            "offset_past_end": {"offset": 25}, "offset_into": {"offset": 4}, "offset_negative": {"offset": -4},
            "offset_huge": {"offset": 1 << 63}, "offset_wraps": {"offset": (1 << 64) - 8, "length": 24},
            "offset_beyond_64": {"offset": 1 << 70}, "offset_text": {"offset": "four"}, "offset_hex": {"offset": "0x0"},
            "offset_float": {"offset": "0.0"}, "offset_spaces": {"offset": " 0 "}, "offset_empty": {"offset": ""},
            "length_short": {"length": 20}, "length_long": {"length": 28}, "length_negative": {"length": -1},
            "length_zero": {"length": 0}, "length_huge": {"length": 1 << 62}, "length_text": {"length": "all"}}.items():
        yield case(name, "error", location="w.bin", **entries)
