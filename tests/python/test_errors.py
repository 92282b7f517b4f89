# SPDX-License-Identifier: Apache-2.0
"""What users do wrong, from Python and on the command line: one line that names the place, the right exit status."""
import os
import pathlib
import subprocess

import numpy as np
import onnx
import pytest
import zoo
from onnx import TensorProto, helper

import treadle

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def run(*args, **kwargs):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300, **kwargs)


def expect(result, status, *texts):
    assert result.returncode == status, result.stderr
    lines = result.stderr.strip().splitlines()
    assert lines[0].startswith("error: ") and all(line.startswith("help: ") for line in lines[1:]), result.stderr
    assert "Traceback" not in result.stderr
    for text in texts:
        assert text in lines[0], lines[0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model: its file, and it compiled."""
    folder = tmp_path_factory.mktemp("small")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="my_relu")], "small", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    result = run("compile", folder / "m.onnx", "-o", folder / "m.so")
    assert result.returncode == 0, result.stderr
    return folder


def test_compile_and_run_with_files(small, tmp_path):
    value = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    np.save(tmp_path / "x.npy", value)
    result = run("run", small / "m.so", "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out.npz")
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], np.maximum(value, 0))


RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(3), float32]) {
  %0 = add(%x, 1f);
  nn.relu(%0)
}
"""


def test_relay_text_is_compiled(tmp_path):
    (tmp_path / "m.relay").write_text(RELAY)
    np.save(tmp_path / "x.npy", np.array([-3, 0, 3], np.float32))
    result = run("compile", tmp_path / "m.relay", "-o", tmp_path / "m.so")
    assert result.returncode == 0, result.stderr
    result = run("run", tmp_path / "m.so", "-i", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "out.npz")
    assert result.returncode == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["output0"], [0, 1, 4])


def test_relay_text_states_its_shapes(tmp_path):
    (tmp_path / "m.relay").write_text(RELAY)
    expect(run("compile", tmp_path / "m.relay", "-o", tmp_path / "m.so", "--input-shapes", "x:[4]"), 2, "m.relay",
           "Relay text states the shapes")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_name_their_inputs(small, tmp_path, save):
    save(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    assert run("run", small / "m.so", "-i", tmp_path / "in.npz").returncode == 0


def test_serialised_tensors_are_inputs(small, tmp_path):
    tensor = onnx.numpy_helper.from_array(np.ones((2, 3), np.float32), "x")
    (tmp_path / "in.pb").write_bytes(tensor.SerializeToString())
    assert run("run", small / "m.so", "-i", tmp_path / "in.pb").returncode == 0


def test_the_compiled_model_runs_without_the_compiler(small, tmp_path):
    """Nothing but the program, the runtime and the model."""
    package = pathlib.Path(treadle.__file__).parent
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    for name in ("bin/treadle", "lib/libtreadle_runtime.so"):
        (tmp_path / name).write_bytes((package / name).resolve().read_bytes())
    (tmp_path / "bin/treadle").chmod(0o755)
    (tmp_path / "m.so").write_bytes((small / "m.so").read_bytes())
    result = subprocess.run([tmp_path / "bin/treadle", "run", "m.so", "-i", "x=ones"], cwd=tmp_path, text=True,
                            capture_output=True, env={"PATH": os.environ["PATH"]})
    assert result.returncode == 0, result.stderr
    result = subprocess.run([tmp_path / "bin/treadle", "targets"], capture_output=True, text=True)
    expect(result, 3, "this installation has no compiler")


def test_missing_file(tmp_path):
    expect(run("compile", tmp_path / "none.onnx", "-o", tmp_path / "m.so"), 2, "none.onnx", "no such file")
    expect(run("run", tmp_path / "none.so"), 2, "none.so", "no such file")
    with pytest.raises(treadle.Error, match="none.onnx"):
        treadle.compile(tmp_path / "none.onnx")


def test_text_file(tmp_path):
    (tmp_path / "text.onnx").write_text("This is not a model.\n" * 50)
    expect(run("compile", tmp_path / "text.onnx", "-o", tmp_path / "m.so"), 4, "text.onnx")
    (tmp_path / "text.so").write_text("This is not a model.\n" * 50)
    expect(run("run", tmp_path / "text.so"), 4, "text.so")
    with pytest.raises(treadle.ModelFormatError):
        treadle.compile(b"This is not a model.")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_model(tmp_path, part):
    data = zoo.mlp(width=64).SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(data[:int(len(data) * part)])
    expect(run("compile", tmp_path / "cut.onnx", "-o", tmp_path / "m.so"), 4, "cut.onnx")


@pytest.mark.parametrize("part", [0.01, 0.3, 0.7, 0.999])
def test_truncated_library(small, tmp_path, part):
    data = (small / "m.so").read_bytes()
    (tmp_path / "cut.so").write_bytes(data[:int(len(data) * part)])
    expect(run("run", tmp_path / "cut.so", "-i", "x=ones"), 4, "cut.so")


def test_unknown_operators_are_all_named(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Frobnicate", ["x"], ["a"], name="first"),
             helper.make_node("Relu", ["a"], ["b"], name="fine"),
             helper.make_node("Defenestrate", ["b"], ["y"], name="second")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "odd", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(treadle.UnsupportedOpError) as caught:
        treadle.compile(model)
    assert len(caught.value.nodes) == 2
    assert "first" in caught.value.nodes[0] and "Frobnicate" in caught.value.nodes[0]
    assert "second" in caught.value.nodes[1] and "Defenestrate" in caught.value.nodes[1]
    (tmp_path / "odd.onnx").write_bytes(model.SerializeToString())
    result = run("compile", tmp_path / "odd.onnx", "-o", tmp_path / "m.so")
    assert result.returncode == 3
    assert "Frobnicate" in result.stderr and "Defenestrate" in result.stderr


def test_wrong_input_name(small):
    expect(run("run", small / "m.so", "-i", "z=ones"), 2, "'z'", "x")
    with pytest.raises(treadle.Error, match="'?z'?.*x"):
        treadle.load(small / "m.so").run(None, {"z": np.ones((2, 3), np.float32)})


def test_missing_input(small):
    expect(run("run", small / "m.so"), 2, "x")


def test_wrong_input_shape(small, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    expect(run("run", small / "m.so", "-i", f"x={tmp_path / 'x.npy'}"), 2, "x", "(2, 4)", "(2, 3)")
    with pytest.raises(treadle.ShapeError, match=r"\(2, 3\)"):
        treadle.load(small / "m.so")(x=np.ones((2, 4), np.float32))


def test_wrong_input_type(small, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.int64))
    expect(run("run", small / "m.so", "-i", f"x={tmp_path / 'x.npy'}"), 2, "x", "int64", "float32")
    with pytest.raises(treadle.DTypeError, match="float32"):
        treadle.load(small / "m.so")(x=np.ones((2, 3)))


def test_wrong_shape_at_compile_time(small, tmp_path):
    expect(run("compile", small / "m.onnx", "-o", tmp_path / "m.so", "--input-shapes", "z:[1]"), 2, "z")
    expect(run("compile", small / "m.onnx", "-o", tmp_path / "m.so", "--input-shapes", "x:1,2"), 2, "--input-shapes")


def test_wrong_target(small, tmp_path):
    expect(run("compile", small / "m.onnx", "-o", tmp_path / "m.so", "--target", "lvm"), 2, "lvm")


def test_wrong_usage(small):
    expect(run("compile"), 2)
    expect(run("frobnicate"), 2, "frobnicate")
    expect(run("run", small / "m.so", "--repeat", "-3"), 2, "repeat")
    expect(run("run", small / "m.so", "-i", "x=ones", "--device", "cuda"), 2, "cuda")


def test_unreadable_input_file(small, tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nothing")
    expect(run("run", small / "m.so", "-i", f"x={tmp_path / 'x.npy'}"), 4, "x.npy")
    expect(run("run", small / "m.so", "-i", "x=none.npy"), 2, "none.npy")
    expect(run("run", small / "m.so", "-i", "x=file.txt"), 2, "file.txt")


def test_verify_tells_right_from_wrong(small, tmp_path):
    environment = {**os.environ, "TREADLE_PYTHON": os.sys.executable}
    assert run("verify", small / "m.onnx", env=environment).returncode == 0
    np.savez(tmp_path / "golden.npz", y=np.full((2, 3), 7, np.float32))
    result = run("verify", small / "m.so", "-i", "x=ones", "--reference", tmp_path / "golden.npz")
    assert result.returncode == 1
    assert "6 of 6 values differ" in result.stdout


def test_verify_layers(small):
    environment = {**os.environ, "TREADLE_PYTHON": os.sys.executable}
    result = run("verify", small / "m.onnx", "--layers", env=environment)
    assert result.returncode == 0, result.stderr
    assert "agree" in result.stdout


def test_json_output_is_json(small):
    import json

    for verb in (("run", small / "m.so", "-i", "x=ones"), ("inspect", small / "m.so"), ("targets",), ("ops",)):
        result = run(*verb, "--json")
        assert result.returncode == 0, result.stderr
        json.loads(result.stdout)


def test_every_stage_is_dumped(small, tmp_path):
    result = run("compile", small / "m.onnx", "-o", tmp_path / "m.so", "--dump", "relay,relay-opt,tir,ll,asm,graph",
                 "--dump-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    texts = {path.stem: path.read_text() for path in tmp_path.iterdir() if path.suffix != ".so"}
    assert set(texts) == {"relay", "relay-opt", "tir", "ll", "asm", "graph"}
    assert "nn.relu" in texts["relay"] and "nodes" in texts["graph"] and "define" in texts["ll"]
