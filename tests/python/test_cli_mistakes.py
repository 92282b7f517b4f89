# SPDX-License-Identifier: Apache-2.0
"""Mistakes on the command line: the first line of each message, word for word, and the exit status."""
import os
import re
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def relu(shape, dtype=TensorProto.FLOAT):
    infos = [helper.make_tensor_value_info(name, dtype, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="my_relu")], "small", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def bad_models(path):
    """An operator that isn't ONNX's, one of others, a value that nothing defines, no output, an opset to come, half a file."""
    for name, operator, reads, opset in (("typo", "Addd", "x", 17), ("undefined", "Relu", "nope", 17), ("newer", "Relu", "x", 99)):
        model = relu([2, 3])
        model.graph.node[0].op_type, model.graph.node[0].input[0], model.graph.node[0].name = operator, reads, ""
        model.opset_import[0].version = opset
        onnx.save(model, path / f"{name}.onnx")
    model.opset_import[0].version = 17
    del model.graph.output[:]
    onnx.save(model, path / "nothing.onnx")
    foreign = relu([2, 3])
    foreign.graph.node[0].op_type, foreign.graph.node[0].domain, foreign.graph.node[0].name = "Foo", "my.ops", ""
    foreign.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(foreign, path / "foreign.onnx")
    kernel = numpy_helper.from_array(np.ones((2, 3, 3, 3), "float32"), "k")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "k"], ["y"], name="my_conv")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [kernel])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path / "conv.onnx")
    (path / "cut.onnx").write_bytes((path / "conv.onnx").read_bytes()[:100])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """m.onnx and m.so (x: 2 x 3), d.onnx (sizes open), and files that are something else."""
    path = tmp_path_factory.mktemp("mistakes")
    onnx.save(relu([2, 3]), path / "m.onnx")
    onnx.save(relu(["batch", "height"]), path / "d.onnx")
    onnx.save(relu([2, 3], TensorProto.INT8), path / "i8.onnx")
    (path / "c.toml").write_text("threads = 1")
    (path / "list.toml").write_text("a = [1,\n")
    bad_models(path)
    for name, data in (("text.onnx", b"hello\n"), ("empty.onnx", b""), ("zip.onnx", b"PK\3\4" + bytes(60)),
                       ("text.so", b"hello\n"), ("notes.txt", b"hello\n")):
        (path / name).write_bytes(data)
    np.save(path / "i.npy", np.ones((2, 3), "int64"))
    np.save(path / "strings.npy", np.array(["a", "b"]))
    (path / "cut.npy").write_bytes((path / "i.npy").read_bytes()[:100])
    np.save(path / "big.npy", np.ones((4, 3), "float32"))
    np.savez(path / "other.npz", z=np.ones((2, 3), "float32"))
    np.savez(path / "golden.npz", q=np.ones((2, 3), "float32"))
    onnx.save(relu(["batch", "seq"], TensorProto.INT64), path / "tokens.onnx")
    (path / "white.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(30))
    (path / "folder").mkdir()
    (path / "loop").symlink_to("loop")
    for name in "md":
        subprocess.run([PROGRAM, "compile", f"{name}.onnx", "-o", f"{name}.so"], cwd=path, check=True, capture_output=True)
    return path


def of_compile(*arguments):
    return ("compile", "m.onnx", "-o", "out.so", *arguments)


def of_run(*arguments):
    return ("run", "m.so", "-i", "x=ones", *arguments)


SHAPES = "; expected name:[dim,dim,...], such as \"x:[1,3,224,224]\""
CODEGENS = "c, cblas, ccompiler, dnnl, examplejsoncompiler, json"
KINDS = "; known are: llvm, c, opencl, stackvm, null"


@pytest.mark.parametrize("arguments, status, text", [
    # Verbs and flags.
    (("compil",), 2, "unknown verb 'compil'; did you mean 'compile'?"),
    (("traget",), 2, "unknown verb 'traget'; did you mean 'targets'?"),
    (("man", "bnch"), 2, "unknown verb 'bnch'; did you mean 'bench'?"),
    (("help", "bnch"), 2, "unknown verb 'bnch'; did you mean 'bench'?"),
    (("--verson",), 2, "treadle has no option '--verson'; did you mean '--version'?"),
    (("-x",), 2, "treadle has no option '-x'"),
    ((), 2, "a verb is required"),
    (("--config", "c.toml", "bnch"), 2, "unknown verb 'bnch'; did you mean 'bench'?"),
    (("--colour", "always"), 2, "treadle has no option '--colour'; did you mean '--color'?"),
    (("run", "m.so", "--color", "blue"), 2, "--color: expected one of auto, always, never, got 'blue'"),
    (("run", "m.so", "--config", "none.toml"), 2, "--config: can't read 'none.toml': there is no such file"),
    (("run", "m.so", "--config", "folder"), 2, "--config: can't read 'folder': it isn't a file"),
    (("ops", "--opset", "0"), 2, "--opset: expected a number of 1 or more, got '0'"),
    (("ops", "--opset", "999"), 2, "--opset: 999 isn't known; the newest with an operator of its own is 28"),
    (("ops", "--json", "--markdown"), 2, "--json and --markdown contradict each other"),
    (("ops", "--model", "m.onnx", "--opset", "17"), 2, "ops --model lists one model: without --opset, --markdown"),
    (("compile",), 2, "model is required"),
    (("compile", "m.onnx"), 2, "--output is required"),
    (("profile",), 2, "model is required"),
    (("records",), 2, "action is required"),
    (("completion",), 2, "shell is required"),
    (("completion", "csh"), 2, "no completion for the shell 'csh'"),
    (of_compile("--traget", "llvm"), 2, "compile has no option '--traget'; did you mean '--target'?"),
    (("m.onnx",), 2, "'m.onnx' is a file, but a verb is expected first"),
    (of_compile("-O3"), 2, "compile has no option '-O3'; did you mean '--opt-level'?"),
    (("run", "d.onnx", "-i", "random", "--dim", "hight=4"), 2,
     "no input has a dimension called 'hight'; there are: 'batch', 'height'; did you mean 'height'?"),
    (("bench", "d.onnx", "--dim", "height=4.5"), 2,
     "dimension 'height': '4.5' isn't understood; expected a size (4), a range (1..8, 16.., ..640), multiples (32k), or both (64..640:32k)"),
    (("verify", "d.onnx", "--dim", "height=8..4"), 2,
     "dimension 'height': '8..4' holds no size; expected a size (4), a range (1..8, 16.., ..640), multiples (32k), or both (64..640:32k)"),
    (of_compile("--dim", "batch=2"), 2, "no input has a dimension called 'batch'; none has a name"),
    (of_compile("extra"), 2, "unexpected argument 'extra' for compile"),
    (("compile", "d.onnx", "-o", "a.so", "--dim", "batch=1", "height=3"), 2, "unexpected argument 'height=3' for compile"),
    (of_compile("-q", "-v"), 2, "--quiet and --verbose contradict each other"),
    (of_compile("--opt-level", "9"), 2, "--opt-level: expected a whole number from 0 to 4, got '9'"),
    (of_compile("--opt-level", "x"), 2, "--opt-level: expected a whole number from 0 to 4, got 'x'"),
    (of_compile("--precision", "f8"), 2, "--precision: expected one of f32, bf16, f16, mixed, auto, got 'f8'"),
    (of_compile("--max-model-memory", "2XB"), 2, "--max-model-memory: expected a size such as 512MiB, 2GiB or 0, got '2XB'"),
    (of_compile("--max-tensor-bytes", "-1"), 2, "--max-tensor-bytes: expected a size such as 512MiB, 2GiB or 0, got '-1'"),
    (of_compile("--max-compile-memory", "2gigs"), 2, "--max-compile-memory: expected a size such as 512MiB, 2GiB or 0, got '2gigs'"),
    (of_compile("--huge-pages", "yes"), 2, "--huge-pages: expected one of auto, on, off, got 'yes'"),
    (of_compile("--disabled-pass", ""), 2, "--disabled-pass: expected a value, got ''"),
    (("bench", "m.onnx", "--compare", ""), 2, "--compare: expected a value, got ''"),
    (("compile", "--helpp"), 2, "compile has no option '--helpp'; did you mean '--help'?"),
    (("run", "--seed", "3", "--hepl"), 2, "run has no option '--hepl'; did you mean '--help'?"),
    (("cache", "cler"), 2, "action: expected one of show, clear, limit, got 'cler'; did you mean 'clear'?"),
    (("cache", "limit"), 2, "cache limit: say how much, such as 512MiB"),
    (("cache", "limit", "2XB"), 2, "cache limit: expected a size such as 512MiB, 2GiB or 0, got '2XB'"),
    (("profile", "m.so", "--by", "kernl"), 2,
     "--by: expected one of call, kernel, compiler, got 'kernl'; did you mean 'kernel'?"),
    (("bench", "m.so", "--repeat", "0"), 2, "--repeat: expected a number of 1 or more, got '0'"),
    (("bench", "m.so", "--requests", "0"), 2, "--requests: expected a whole number from 1 to 1024, got '0'"),
    (("bench", "m.so", "-t", "0"), 2, "--time: expected a number above 0, got '0'"),
    (("bench", "m.so", "--warm-up", "-1"), 2, "--warm-up: expected a number of 0 or more, got '-1'"),
    (("verify", "m.onnx", "--rtol", "-1"), 2, "--rtol: expected a number of 0 or more, got '-1'"),
    (("verify", "m.onnx", "--snr", "x"), 2, "--snr: expected a number of 0 or more, got 'x'"),
    (of_run("--top-k", "0"), 2, "--top-k: expected a number of 1 or more, got '0'"),
    (("tune", "m.so", "-o", "r.jsonl"), 2, "m.so is compiled already: tune the .onnx file"),
    (("tune", "m.onnx"), 2, "tune: say where records go: -o records.jsonl"),
    # Files.
    (("compile", "none.onnx", "-o", "a.so"), 2, "can't open none.onnx: no such file"),
    (("compile", "folder", "-o", "a.so"), 4, "can't read folder: it is a directory"),
    (("compile", "text.onnx", "-o", "a.so"), 4, "text.onnx: the file is text, not an ONNX model"),
    (("compile", "empty.onnx", "-o", "a.so"), 4, "empty.onnx: the file is empty"),
    (("compile", "zip.onnx", "-o", "a.so"), 4, "zip.onnx: the file is a ZIP archive, not an ONNX model"),
    (("compile", "m.so", "-o", "a.so"), 4, "m.so: the file is an ELF binary (a compiled model?), not an ONNX model"),
    (("explain", "m.so"), 4, "m.so: the file is an ELF binary (a compiled model?), not an ONNX model"),
    (("compile", "m.onnx", "-o", "m.onnx"), 2, "can't write 'm.onnx': it is the input 'm.onnx'"),
    (("compile", "m.onnx", "-o", "notes.txt"), 2,
     "can't write 'notes.txt': there is a file that isn't a shared library; remove it first, or choose another name"),
    (("compile", "m.onnx", "-o", "nodir/a.so"), 2, "can't write 'nodir/a.so': there is no folder 'nodir'"),
    (("compile", "m.onnx", "-o", "folder"), 2, "can't write 'folder': it is a directory"),
    (("run", "none.so"), 2, "can't open none.so: no such file"),
    (("run", "text.so"), 4, "text.so: not a compiled model (the file isn't a shared library)"),
    (("inspect", "none.so"), 2, "can't open none.so: no such file"),
    (("ops", "--model", "none.onnx"), 2, "can't open none.onnx: No such file or directory"),
    (("ops", "--model", "folder"), 4, "can't read folder: it is a directory"),
    (("records", "list"), 2, "files are required"),
    (("report", "m.onnx", "-o", "m.onnx"), 2, "can't write 'm.onnx': it is the input 'm.onnx'"),
    (("report", "m.onnx", "-o", "nodir/r.html"), 2, "can't write 'nodir/r.html': there is no folder 'nodir'"),
    (("profile", "m.so", "--csv", "nodir/p.csv"), 2, "can't write 'nodir/p.csv': there is no folder 'nodir'"),
    (of_run("-o", "nodir/o.npz"), 2, "can't write 'nodir/o.npz': there is no folder 'nodir'"),
    (of_run("-o", "m.so"), 2, "can't write 'm.so': it is the input 'm.so'"),
    (of_run("--labels", "none.txt", "--top-k", "1"), 2, "can't open none.txt: No such file or directory"),
    (of_compile("--plugin", "none.so"), 2,
     "can't load plug-in none.so: ./none.so: cannot open shared object file: No such file or directory"),
    (of_compile("--records", "none.jsonl"), 2, "can't open none.jsonl: no such file"),
    # Targets, passes, stages.
    (of_compile("--target", "lvm"), 2, "unknown target kind \"lvm\"" + KINDS + "; did you mean 'llvm'?"),
    (of_compile("--target", "cuda"), 2, "unknown target kind \"cuda\"" + KINDS),
    (of_compile("--target", ""), 2, "the target string is empty; an example: \"llvm -mcpu=native\""),
    (of_compile("--disabled-pass", "FuseOpps"), 2, "disabled pass 'FuseOpps' doesn't exist; did you mean 'FuseOps'?"),
    (of_compile("--required-pass", "FuseOpps"), 2, "required pass 'FuseOpps' doesn't exist; did you mean 'FuseOps'?"),
    (of_compile("--pass-config", "a"), 2, "--pass-config: expected name=value, got 'a'"),
    (of_compile("--check-passes", "tpyes"), 2, "unknown check of passes 'tpyes'; there are: types, numbers"),
    (of_compile("--dump", "tirr"), 2, "can't dump 'tirr'; stages are: asm, c, explain, fusion, graph, kernels, ll, partition, relay, "
     "relay-opt, tir, vm; did you mean 'tir'?"),
    # Shapes and sizes.
    (of_compile("--input-shapes", "x"), 2, "--input-shapes: can't read 'x'" + SHAPES),
    (of_compile("--input-shapes", "x:[1,"), 2, "--input-shapes: can't read 'x:[1,'" + SHAPES),
    (of_compile("--input-shapes", "x:[1,a]"), 2, "--input-shapes: input 'x': dimension 'a' isn't an integer"),
    (of_compile("--input-shapes", "z:[2,3]"), 2, "the model has no input 'z'; its inputs are: 'x'"),
    (of_compile("--input-shapes", "x:[2,3,4]"), 2, "input 'x' has rank 2, the given shape has rank 3"),
    (of_compile("--input-shapes", "x:[2,3]", "--input-shapes", "x:[2,3]"), 2, "--input-shapes: input 'x' is given twice"),
    (of_compile("--dim", "batch"), 2, "--dim: expected name=value, got 'batch'"),
    (of_compile("--dim", "batch=0"), 2, "--dim: batch=0 must be positive"),
    (("compile", "d.onnx", "-o", "a.so", "--dim", "bacth=1"), 2,
     "no input has a dimension called 'bacth'; there are: 'batch', 'height'; did you mean 'batch'?"),
    # Inputs and references.
    (("run", "m.so"), 2, "no value for input x float32 (2, 3)"),
    (("run", "m.so", "-i", "z=ones"), 2, "the model has no input 'z'; its inputs are: x"),
    (("run", "m.so", "-i", "x=ons"), 2, "can't tell the format of ons by its name; expected .npy, .npz, .pb or a picture, or "
     "random, ones, zeros, a number; did you mean 'ones'?"),
    (("run", "m.so", "-i", "x=i.npy"), 2, "input \"x\": expected float32 (2, 3) but got int64 (2, 3)"),
    (("run", "m.so", "-i", "x=big.npy"), 2, "input \"x\": expected float32 (2, 3) but got float32 (4, 3)"),
    (("run", "m.so", "-i", "x=none.npy"), 2, "can't open none.npy: No such file or directory"),
    (("run", "m.so", "-i", "x=notes.txt"), 2, "can't tell the format of notes.txt by its name; expected .npy, .npz, .pb or a "
     "picture, or random, ones, zeros, a number"),
    (("run", "m.so", "-i", "x=random:5..1"), 2, "random:5..1: the range ends before it begins"),
    (("run", "m.so", "-i", "x=random:5"), 2, "random:5: expected a range such as random:0..255"),
    (("run", "m.so", "-i", "x=random:a..b"), 2, "random:a..b: expected a range such as random:0..255"),
    (("run", "i8.onnx", "-i", "x=300"), 2, "input 'x' is of type int8, which has no 300"),
    (("run", "i8.onnx", "-i", "x=1.5"), 2, "input 'x' is of type int8, which has no 1.5"),
    (("run", "i8.onnx", "-i", "x=random:0..300"), 2, "input 'x' is of type int8, which has no 300"),
    (("run", "m.so", "-i", "other.npz"), 2, "the model has no input 'z'; its inputs are: x"),
    (of_run("-i", "x=zeros"), 2, "input 'x' is given twice"),
    (of_run("--dim", "batch=1"), 2, "the compiled model has no dynamic dimension 'batch'"),
    (of_run("--precision", "bf16"), 2, "--precision says how to compile, but m.so is compiled already"),
    (("inspect", "m.so", "--dim", "batch=1"), 2, "--dim says how to compile, but m.so is compiled already"),
    (("run", "d.so", "-i", "random", "--dim", "bacth=1"), 2,
     "the compiled model has no dynamic dimension 'bacth'; did you mean 'batch'?"),
    (("run", "d.so", "-i", "random", "--dim", "batch=1..8"), 2,
     "--dim: d.so is compiled already: a size is expected, not the range '1..8'"),
    (("run", "d.so", "-i", "random", "--input-shapes", "x:[2]"), 2, "input 'x' has rank 2, the given shape has rank 1"),
    (("run", "d.so", "-i", "random", "--input-shapes", "y:[2]"), 2, "the model has no input 'y'; its inputs are: x"),
    (of_run("--device", "cpu:3"), 2, "device cpu:3 isn't available; this build runs on: cpu"),
    (of_run("--labels", "notes.txt"), 2, "--labels has no effect without --top-k"),
    (of_run("--labels", "folder", "--top-k", "1"), 2, "can't read folder: it is a directory"),
    (of_run("--mean", "1"), 2, "--mean and --scale are for pictures, and no input is one"),
    (of_run("--repeat", "1e99"), 2, "--repeat: expected a whole number of at most 2147483647, got '1e99'"),
    (of_run("--timeout", "nan"), 2, "--timeout: expected a number above 0, got 'nan'"),
    (of_run("--profile", "m.so"), 2, "can't write 'm.so': it is the input 'm.so'"),
    (of_run("--profile", "d.so"), 2,
     "can't write 'd.so': there is a file that isn't text; remove it first, or choose another name"),
    (("run", "m.so", "-i"), 2, "--input needs a value"),
    (("run", "m.so", "-i", "x="), 2, "the name of an input's file is empty"),
    (("run", "m.so", "-i", "=i.npy"), 2, "-i =i.npy: the name of the input is empty"),
    (("run", "m.so", "-i", "x=other.npz"), 2, "other.npz holds 'z', not 'x'"),
    (("run", "m.onnx", "-i", "x=other.npz"), 2, "other.npz holds 'z', not 'x'"),
    (("bench", "m.so", "-t", "inf"), 2, "--time: expected a number above 0, got 'inf'"),
    (("bench", "m.so", "-t", "1", "--repeat", "3"), 2, "--repeat and --time contradict each other"),
    (("bench", "m.so", "--json", "m.so"), 2, "can't write 'm.so': it is the input 'm.so'"),
    (("bench", "m.so", "--json", "nodir/b.json"), 2, "can't write 'nodir/b.json': there is no folder 'nodir'"),
    (("bench", "m.so", "--report", "m.so"), 2, "can't write 'm.so': it is the input 'm.so'"),
    (("inspect", "m.so", "--html", "m.so"), 2, "can't write 'm.so': it is the input 'm.so'"),
    (("profile", "m.so", "--csv", "p", "--trace", "./p"), 2, "two outputs go to './p'"),
    (("profile", "m.so", "--csv", "m.onnx"), 2,
     "can't write 'm.onnx': there is a file that isn't text; remove it first, or choose another name"),
    (("tune", "m.onnx", "-o", "m.onnx"), 2, "can't write 'm.onnx': it is the input 'm.onnx'"),
    (("tune", "m.onnx", "-o", "m.so"), 2,
     "can't write 'm.so': there is a file that isn't text; remove it first, or choose another name"),
    (("tune", "m.onnx", "-o", "r.jsonl", "--time", "banana"), 2, "--time: expected a time such as 90s, 10m or 1h, not 'banana'"),
    (("records", "merge", "notes.txt", "-o", "m.so"), 2,
     "can't write 'm.so': there is a file that isn't text; remove it first, or choose another name"),
    (("records", "list", "notes.txt"), 4, "notes.txt isn't a file of records: line 1: its checksum is missing or wrong"),
    (("records", "merge", "notes.txt", "-o", "all.jsonl"), 4,
     "notes.txt isn't a file of records: line 1: its checksum is missing or wrong"),
    (of_compile("--records", "notes.txt"), 4, "notes.txt isn't a file of records: line 1: its checksum is missing or wrong"),
    (("compile", "m.onnx", "-o", "new.onnx"), 2, "can't write 'new.onnx': a library isn't called .onnx or .relay"),
    (("compile", "m.onnx", "-o", "a.dll"), 2, "can't write 'a.dll': unknown extension '.dll'"),
    (("compile", "m.onnx", "-o", "model.v2"), 2, "can't write 'model.v2': unknown extension '.v2'"),
    (("compile", "", "-o", "a.so"), 2, "the model's path is empty"),
    (("compile", "m.onnx", "-o", ""), 2, "can't write '': the path is empty"),
    (("compile", "m.onnx", "-o", "/dev/null"), 2, "can't write '/dev/null': it is a device, pipe or socket, not a regular file"),
    (("compile", "loop", "-o", "a.so"), 2, "can't open loop: Too many levels of symbolic links"),
    (of_compile("--target", "llvm -mcpu=skylak"), 2,
     "-mcpu=skylak isn't a processor that LLVM knows for x86_64-pc-linux-gnu; did you mean 'skylake'?"),
    (of_compile("--target", "llvm -mtriple=foo-bar"), 2,
     "-mtriple=foo-bar: unsupported architecture; supported are x86_64 and aarch64"),
    (of_compile("--target", "llvm -mtriple="), 2, "-mtriple=: unsupported architecture; supported are x86_64 and aarch64"),
    (of_compile("--target", "llvm -mtriple=x86_64-pc-windows-msvc"), 2,
     "-mtriple=x86_64-pc-windows-msvc: unsupported object format; supported is ELF, as on Linux"),
    (of_compile("--target", "llvm -mtriple=aarch64-apple-darwin"), 2,
     "-mtriple=aarch64-apple-darwin: unsupported object format; supported is ELF, as on Linux"),
    (of_compile("--target", '{"kind":"llvm"'), 2, "a target given as JSON can't be read: parse error at line 1, column 15: syntax error "
     "while parsing object - unexpected end of input; expected '}'"),
    (of_compile("--target", '{"mcpu":"native"}'), 2, 'target {"mcpu":"native"}: a target given as JSON needs "kind", a text'),
    (of_compile("--target", '{"kind":"llvm","keys":[1]}'), 2,
     'target {"kind":"llvm","keys":[1]}: keys: expected a list of texts'),
    (of_compile("--target", '{"kind":"llvm","mcpuu":"native"}'), 2,
     "target \"{\"kind\":\"llvm\",\"mcpuu\":\"native\"}\": llvm has no option -mcpuu; did you mean 'mcpu'?"),
    (of_compile("--target", "llvm -mattr=+avx3"), 2,
     "-mattr=+avx3: LLVM knows no such feature of x86_64-pc-linux-gnu; did you mean 'avx'?"),
    (of_compile("--target", "llvm -mcpu"), 2, 'target "llvm -mcpu": -mcpu needs a value, as in -mcpu=..; expected a text'),
    (of_compile("--seed", "3"), 2, "compile has no option '--seed'"),
    (("verify", "m.onnx", "--atol", "-3"), 2, "--atol: expected a number of 0 or more, got '-3'"),
    (("verify", "m.onnx", "--reduce", "notes.txt"), 2, "can't write to 'notes.txt': it isn't a folder"),
    (("cache", "show", "extra"), 2, "cache show takes no 'extra'"),
    (("quantize",), 2, "model is required"),
    (("quantize", "m.onnx"), 2, "--output is required"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--mode", "int8"), 2, "quantize has no option '--mode'; did you mean '--dynamic'?"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--blok-size", "4"), 2, "quantize has no option '--blok-size'; did you mean '--block-size'?"),
    (("quantize", "m.onnx", "more", "-o", "q.onnx"), 2, "unexpected argument 'more' for quantize"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--method", "minmaxx"), 2,
     "--method: expected one of minmax, percentile, mse, got 'minmaxx'; did you mean 'minmax'?"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--weight-only", "5"), 2, "--weight-only: expected one of 4, 8, got '5'"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--percentile", "most"), 2, "--percentile: expected a number, got 'most'"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--block-size", "x"), 2, "--block-size: expected a whole number, got 'x'"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--method"), 2, "--method needs a value"),
    (("quantize", "m.onnx", "-o", "q.onnx", "--dynamic", "--weight-only", "4"), 2, "--weight-only and --dynamic contradict each other"),
    (of_run("--top-k", "1", "--labels", "m.so"), 2, "--labels: m.so isn't a text; expected a label on each line"),
    (("quantize", "none.onnx", "-o", "q.onnx"), 2, "can't open none.onnx: no such file"),
    (("bench", "m.so", "--compare", "onnxrutime"), 2,
     "--compare: unknown engine 'onnxrutime'; known: onnxruntime, openvino; did you mean 'onnxruntime'?"),
    (("bench", "m.so", "--compare", "onnxruntime"), 2, "m.so: --compare needs the .onnx file, not the compiled one"),
    (("verify", "m.so"), 2, "m.so: onnxruntime needs the .onnx file, not the compiled one"),
    (("verify", "m.onnx", "--reference", "tensorflow"), 2,
     "there is no reference 'tensorflow'; expected onnxruntime, interp, or a file of outputs"),
    (("verify", "m.so", "--layers"), 2, "--layers needs an .onnx model and --reference onnxruntime"),
    (("verify", "m.so", "-i", "x=ones", "--reference", "golden.npz"), 2, "the reference has no value for output 'y'; it has: q"),
    (("verify", "m.onnx", "--reference", "m.so"), 2, "a file of outputs is .npz, .npy or .pb, not 'm.so'"),
    (of_compile("-o", "b.so"), 2, "--output is given twice"),
    (of_compile("--max-error", "0.1"), 2, "--max-error has no effect without --precision auto"),
    (of_compile("--precision", "auto", "--max-error", "2"), 2, "--max-error: expected a relative error between 0 and 1, got 2.000"),
    (of_compile("--dump-dir", "folder"), 2, "--dump-dir has no effect without --dump"),
    (of_compile("--input-shapes", "x:[2,3]", "--input-shapes", "y:[2]"), 2, "the model has no input 'y'; its inputs are: 'x'"),
    (("compile", "conv.onnx", "-o", "a.so", "--input-shapes", "x:[1,4,8,8]"), 2,
     "node 'my_conv' (Conv): the operand has 4 channels, the weights want 3 in each of 1 groups"),
    (("report", "m.so", "-o", "page.pdf"), 2, "can't write 'page.pdf': a page is HTML"),
    (("doctor", "--calibrate", "--forget-calibration"), 2, "--calibrate and --forget-calibration contradict each other"),
    (("help", "compile", "run"), 2, "unexpected argument 'run' for help"),
    (("cache", "limit", "5"), 2, "cache limit: 5 bytes hold no kernel; expected 1MiB or more, such as 512MiB, or 0"),
    (("quantize", "m.so", "-o", "q.onnx"), 2, "m.so is compiled already: quantise the .onnx file"),
    (of_run("--device", "gpux"), 2, 'unknown device "gpux"; expected such as cpu, cpu:0 or opencl'),
    (("compile", "typo.onnx", "-o", "a.so"), 3, "typo.onnx: can't import 'Addd#0' (Addd, opset 17): ONNX has no such operator"),
    (("compile", "undefined.onnx", "-o", "a.so"), 4, "undefined.onnx: node 'Relu#0' (Relu) reads 'nope', which nothing defines"),
    (("compile", "nothing.onnx", "-o", "a.so"), 4, "nothing.onnx: the graph has no output"),
    (("compile", "newer.onnx", "-o", "a.so"), 3, "newer.onnx: the model uses opset 99 of ai.onnx; the newest that is known is 28"),
    (("compile", "foreign.onnx", "-o", "a.so"), 3,
     "foreign.onnx: can't import 'Foo#0' (my.ops.Foo, opset 1): no such operator of my.ops is known"),
    (("compile", "cut.onnx", "-o", "a.so"), 4,
     "cut.onnx: the data ends in the middle of a field: the file is truncated or corrupt"),
    (of_compile("--target", "null"), 2, "target null is a skeleton for new targets and compiles nothing; see docs/add-a-target.md"),
    (of_compile("--target", "llvm -mcpu=native -mcpu=native"), 2,
     'target "llvm -mcpu=native -mcpu=native": -mcpu is given twice'),
    (of_compile("--target", "llvm -opt-level=9"), 2,
     'target "llvm -opt-level=9": -opt-level is "9", expected an integer from 0 to 3'),
    (("compile", "d.onnx", "-o", "a.so", "--dim", "batch=8..1"), 2,
     "dimension 'batch': '8..1' holds no size; expected a size (4), a range (1..8, 16.., ..640), multiples (32k), or both (64..640:32k)"),
    (("compile", "d.onnx", "-o", "a.so", "--dim", "batch=1", "--dim", "batch=2"), 2, "--dim: 'batch' is given twice"),
    (("compile", "d.onnx", "-o", "a.so", "--dim", "batch=1", "--input-shapes", "x:[2,3]"), 2,
     "input 'x': dimension 'batch' is 2 here and 1 elsewhere"),
    (("run", "d.so", "-i", "random", "--dim", "height=0"), 2, "--dim: height=0 must be positive"),
    (of_run("-o", "y.txt"), 2, "can't tell the format of y.txt by its name; expected .npz or .npy"),
    (of_run("--repeat", "1.5"), 2, "--repeat: expected a whole number of at most 2147483647, got '1.5'"),
    (("inspect", "other.npz"), 4, "other.npz: not a compiled model (the file isn't a shared library)"),
    (("records", "foo", "notes.txt"), 2, "action: expected one of list, best, check, merge, prune, got 'foo'"),
    (("tune", "m.onnx", "-o", "r.jsonl", "--trials", "-1"), 2, "--trials: expected a number of 0 or more, got '-1'"),
    (("--config", "list.toml", "bench", "m.onnx"), 2, "list.toml: no verb has an option 'a'"),
    # Words of other programs, and habits.
    (("version",), 2, "unknown verb 'version'; did you mean '--version'?"),
    (("RUN", "m.so"), 2, "unknown verb 'RUN'; did you mean 'run'?"),
    (("benchmark", "m.so"), 2, "unknown verb 'benchmark'; did you mean 'bench'?"),
    (("infer", "m.so"), 2, "unknown verb 'infer'; did you mean 'run'?"),
    (("build", "m.onnx"), 2, "unknown verb 'build'; did you mean 'compile'?"),
    (of_compile("--shapes", "x:[2,3]"), 2, "compile has no option '--shapes'; did you mean '--input-shapes'?"),
    (of_compile("-shape", "x:[2,3]"), 2, "compile has no option '-shape'; did you mean '--input-shapes'?"),
    (of_compile("--input_shapes", "x:[2,3]"), 2, "compile has no option '--input_shapes'; did you mean '--input-shapes'?"),
    (of_compile("--opt", "3"), 2, "compile has no option '--opt'; did you mean '--opt-level'?"),
    (of_compile("--fp16"), 2, "compile has no option '--fp16'; did you mean '--precision'?"),
    (of_compile("--mcpu=native"), 2, "compile has no option '--mcpu'; did you mean '--target'?"),
    (("bench", "m.so", "-n", "100"), 2, "bench has no option '-n'; did you mean '--repeat'?"),
    (("bench", "m.so", "--iterations", "100"), 2, "bench has no option '--iterations'; did you mean '--repeat'?"),
    (("bench", "m.so", "--nireq", "2"), 2, "bench has no option '--nireq'; did you mean '--requests'?"),
    (("verify", "m.onnx", "--tolerance", "1e-3"), 2, "verify has no option '--tolerance'; did you mean '--rtol'?"),
    (of_compile("--target", "cpu"), 2, "unknown target kind \"cpu\"" + KINDS + "; did you mean 'host'?"),
    (of_compile("--target", "x86"), 2, "unknown target kind \"x86\"" + KINDS + "; did you mean 'host'?"),
    (of_compile("--target", "arm64"), 2, "unknown target kind \"arm64\"" + KINDS + "; did you mean 'aarch64'?"),
    (of_compile("--input-shapes", "[2,3]"), 2, "--input-shapes: [2,3] names no input" + SHAPES),
    (("compile", "-", "-o", "a.so"), 2, "can't open -: no such file"),
    (("compile", "m.onnx", "-o", "-"), 2, "can't write '-': results go to files, not to standard output"),
    (("compile", "https://example.com/m.onnx", "-o", "a.so"), 2, "can't open https://example.com/m.onnx: no such file"),
    (("run", "~/m.so"), 2, "can't open ~/m.so: no such file"),
    (("run", "m.so", "-i", "x:i.npy"), 2, "can't open x:i.npy: No such file or directory"),
    (("run", "m.so", "-i", "x=i.npy,z=i.npy"), 2, "can't open i.npy,z=i.npy: No such file or directory"),
    (("run", "m.so", "-i", "x=folder"), 2,
     "can't read folder: it is a directory; expected a file of values: .npy, .npz, .pb or a picture"),
    (of_compile("--input-shapes x:[2,3]"), 2, "'--input-shapes x:[2,3]' is one argument"),
    (("run", "m.so", "-i", "x=strings.npy"), 2,
     "strings.npy: NumPy type '<U1' isn't supported; expected bool, (u)int8 to 64 or float16 to 64"),
    (("run", "m.so", "-i", "x=cut.npy"), 4, "cut.npy: not a readable .npy array: truncated header"),
    (of_compile("--target", "llvm -mtriple=aarch64-linux-gnu -mcpu=native"), 2,
     "-mcpu=native doesn't go with -mtriple=aarch64-linux-gnu, another machine"),
    (of_compile("--target", "llvm mcpu=native"), 2,
     'target "llvm mcpu=native": expected an option -key=value, got "mcpu=native"'),
    (of_compile("--dump", "ll", "--dump-dir", "m.onnx"), 2, "can't write to 'm.onnx': it isn't a folder"),
    (("verify", "m.onnx", "d.onnx"), 2, "unexpected argument 'd.onnx' for verify"),
    (("bench", "m.so", "--threads", "two"), 2, "--threads: expected a whole number from 0 to 64, got 'two'"),
    (("bench", "m.so", "-t", "1s"), 2, "--time: expected a number above 0, got '1s'"),
    (("tune", "m.onnx", "-o", "r.jsonl", "--time", "0"), 2, "--time: expected a time such as 90s, 10m or 1h, not '0'"),
    (("records", "merge", "none.jsonl", "-o", "all.jsonl"), 2, "can't open none.jsonl: no such file"),
    (("tune", "m.onnx", "-o", "notes.txt"), 2,
     "can't append to 'notes.txt': it isn't a file of tuning records; choose another name"),
    (("verify", "m.onnx", "--reference", "none.npz"), 2, "can't open none.npz: No such file or directory"),
    (("run", "m.so", "-i", "x"), 2, "input 'x' has no value"),
    (("run", "D.so", "-i", "random"), 2, "can't open D.so: no such file; did you mean 'd.so'?"),
    (("inspect", "./typoo.onnx"), 2, "can't open ./typoo.onnx: no such file; did you mean './typo.onnx'?"),
    (("compile", "newer", "-o", "a.so"), 2, "can't open newer: no such file; did you mean 'newer.onnx'?"),
    (("compile", "white.png", "-o", "a.so"), 4, "white.png: the file is a PNG picture, not an ONNX model"),
    (("run", "tokens.onnx", "-i", "x=white.png"), 2,
     "input 'x' (batch, seq) can't be a picture: expected NCHW or NHWC with 1, 3 or 4 channels"),
    (of_compile("--external", "onednn"), 2, "unknown external code generator 'onednn'; there are: " + CODEGENS +
     "; did you mean 'dnnl'?"),
    (of_compile("--pass-config", "relay.FuseOps.max_depth=few"), 2,
     "option 'relay.FuseOps.max_depth' of the pass context must be of type int, got the string 'few'"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_what_is_said(folder, arguments, status, text):
    result = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                            env={**os.environ, "TREADLE_PYTHON": sys.executable})
    lines = result.stderr.splitlines()
    assert (result.returncode, lines[0]) == (status, "error: " + text)
    assert all(line.startswith("help: ") for line in lines[1:])


def test_sizes_that_a_compiled_model_leaves_open(folder):
    """Are asked for, and may be given where inputs are filled."""
    def run(*arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    for verb in (("run", "d.so", "-i", "random"), ("bench", "d.so"), ("profile", "d.so")):
        result = run(*verb)
        assert result.returncode == 2
        assert result.stderr.splitlines()[:2] == [
            "note: input 'x': batch = 1 (assumed)",
            "error: sizes aren't known: dimension 1 (height) of input x float32 (batch, height)"]
        assert run(*verb, "--dim", "height=5").returncode == 0
    assert "y: float32 (3, 5)," in run("run", "d.so", "-i", "x=2", "--input-shapes", "x:[3,5]").stdout


def test_pictures_say_the_sizes_that_models_leave_open(folder):
    """Compiled or not; flags come first."""
    from PIL import Image

    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "h", "w"]),
             helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3, "h", "w"])]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "picture.onnx")
    Image.new("RGB", (6, 4), "white").save(folder / "white.png")

    def run(*arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    run("compile", "picture.onnx", "-o", "picture.so")
    for model in ("picture.onnx", "picture.so"):
        assert "y: float32 (1, 3, 4, 6), min 1, max 1" in run("run", model, "-i", "x=white.png")
        assert "y: float32 (1, 3, 8, 2), min 1" in run("run", model, "-i", "white.png", "--input-shapes", "x:[1,3,8,2]")
        assert "y: float32 (1, 3, 9, 6), min 1" in run("run", model, "-i", "x=white.png", "--dim", "h=9")


def test_short_times_have_digits(folder):
    printed = subprocess.run([PROGRAM, "bench", "m.so", "--repeat", "30"], cwd=folder, capture_output=True, text=True, timeout=120,
                             check=True).stdout
    assert re.search(r"time 0\.0*[1-9][0-9]{2} ms, median of 30 runs", printed), printed


def test_sizes_that_are_not_known_are_asked_for(folder):
    result = subprocess.run([PROGRAM, "bench", "d.onnx"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "note: input 'x': batch = 1 (assumed)",
        "error: d.onnx: sizes aren't known: dimension 1 (height) of input x:[batch,height]",
        "help: give values (-i x=file.npy), sizes by name (--dim height=480), or shapes (--input-shapes \"x:[1,480]\")"]


def test_flags_for_sizes_without_names(folder):
    """Can be typed as they are printed, compiled or not."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 3, None, None]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "unnamed.onnx")
    subprocess.run([PROGRAM, "compile", "unnamed.onnx", "-o", "unnamed.so"], cwd=folder, check=True, capture_output=True)
    for model in ("unnamed.onnx", "unnamed.so"):
        command = [PROGRAM, "run", model, "-i", "random"]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert result.stderr.splitlines()[-1] == (
            "help: give values (-i x=file.npy) or shapes (--input-shapes \"x:[1,3,480,640]\")")
        command += ["--input-shapes", "x:[1,3,480,640]"]
        assert "y: float32 (1, 3, 480, 640)" in subprocess.run(command, cwd=folder, capture_output=True, text=True,
                                                              timeout=120, check=True).stdout
    shown = subprocess.run([PROGRAM, "inspect", "unnamed.so"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "input        x float32 [?,3,?,?]" in shown


def test_another_shape_than_the_models_is_named(folder):
    result = subprocess.run([PROGRAM, "compile", "conv.onnx", "-o", "a.so", "--input-shapes", "x:[1,4,8,8]"], cwd=folder,
                            capture_output=True, text=True, timeout=120, check=False)
    assert result.stderr.splitlines()[1] == "help: the model says x:[batch,3,8,8], another shape was given"


@pytest.mark.parametrize("arguments, line", [
    (("compile",), "help: treadle compile --help lists its arguments"),
    (("ops", "Conv"), "help: treadle ops --help lists its arguments"),
    (("ops", "m.onnx"), "help: --model m.onnx lists what a model needs"),
    (("compile", "m.onnx"), "help: name the file to write: -o NAME"),
    (("m.onnx",), "help: such as treadle run m.onnx; treadle --help lists the verbs"),
    (of_compile("--dim", "batch=2"), "help: shapes by input (--input-shapes, `shapes` in Python) say other sizes"),
    (("compile", "-", "-o", "a.so"), "help: models are read from files, not from standard input"),
    (("compile", "m.onnx", "-o", "-"), "help: ./- is a file of that name"),
    (("compile", "m.onnx", "-o", "a.dll"), "help: .so is a shared library, .tar an archive of objects, DIR/ a folder of C "
                                           "sources (target c)"),
    (("run", "https://a.b/m.onnx"), "help: this is a URL; download the model first"),
    (("run", "~/m.so"), "help: shells do not expand ~ in quotes; use $HOME"),
    (("run", "m.so", "-i", "x:i.npy"), "help: write the name of the input before '=': x=i.npy"),
    (of_compile("--input-shapes x:[2,3]"), "help: an option and its value are two, or --input-shapes=VALUE; zsh doesn't split "
                                           "what a variable holds"),
    (("run", "m.so", "-i", "x=i.npy,z=i.npy"), "help: each input has its own -i: -i a=1.npy -i b=2.npy"),
])
def test_what_helps_is_said(folder, arguments, line):
    result = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2 and result.stderr.splitlines()[1:] == [line]


def test_labels_of_another_number_of_classes_are_noted(folder):
    def run(labels):
        (folder / "labels.txt").write_text(labels)
        command = [PROGRAM, "run", "m.so", "-i", "x=ones", "--top-k", "1", "--labels", "labels.txt"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True).stderr

    assert run("cat\ndog\n") == (
        "note: labels.txt has 2 lines, output 'y' 3 classes: the names may be those of another model\n")
    assert run("cat\ndog\nbird\n") == ""
