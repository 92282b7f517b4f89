# SPDX-License-Identifier: Apache-2.0
"""Mistakes in Python: each is told in the caller's words, with what was expected."""
import io
import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle


def relu(shape=("batch", 4), dtype=TensorProto.FLOAT):
    infos = [helper.make_tensor_value_info(name, dtype, list(shape)) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product():
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="head")], "g", values[:1], values[1:],
                              [onnx.numpy_helper.from_array(np.eye(4, dtype="float32"), "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


BY_NAME = "; to fix only some dimensions and leave the others open, give those by name: dims={'batch': 1}"


@pytest.mark.parametrize("arguments, error, text", [
    ({"shapes": [1, 4]}, treadle.DTypeError, "shapes: expected a dict such as {'x': (1, 3, 224, 224)}, got list [1, 4]"),
    ({"shapes": {0: [1, 4]}}, treadle.DTypeError,
     "shapes: names are strings, got 0; a dict such as {'x': (1, 3, 224, 224)} is expected"),
    ({"shapes": {"x": [None, 4]}}, treadle.ShapeError, "shapes['x'][0] is None; expected a whole number" + BY_NAME),
    ({"shapes": {"x": ["batch", 4]}}, treadle.ShapeError, "shapes['x'][0] is 'batch'; expected a whole number" + BY_NAME),
    ({"shapes": {"x": [-1, 4]}}, treadle.ShapeError, "shapes['x'][0] is -1; expected a whole number" + BY_NAME),
    ({"shapes": {"x": [2.5, 4]}}, treadle.ShapeError, "shapes['x'][0] is 2.5; expected a whole number"),
    ({"shapes": {"x": 4}}, treadle.ShapeError, "shapes['x']: expected a tuple of whole numbers, got 4"),
    ({"shapes": {"x": "1,4"}}, treadle.ShapeError, "shapes['x']: expected a tuple of whole numbers, got '1,4'"),
    ({"dims": [2]}, treadle.DTypeError, "dims: expected a dict such as {'batch': 1}, got list [2]"),
    ({"dims": {"batch": None}}, treadle.ShapeError,
     "dims['batch'] is None; expected a whole number, or a range as text: '1..8' (names that aren't given stay open)"),
    ({"target": None}, treadle.TargetError, "a target is given as a string, a dict or a Target, not as NoneType"),
    ({"target": {"mcpu": "native"}}, treadle.TargetError, 'a target given as a dict needs "kind", such as "llvm"'),
    ({"opt_level": 9}, treadle.Error, "opt_level is 9; expected 0 to 4"),
    ({"opt_level": "3"}, treadle.Error, "opt_level is '3'; expected a whole number from 0 to 4"),
    ({"opt_levle": 3}, TypeError, "compile() has no argument 'opt_levle'; did you mean 'opt_level'?"),
    ({"pass_config": ["a"]}, treadle.DTypeError,
     "pass_config: expected a dict such as {'relay.FuseOps.max_depth': 10}, got list ['a']"),
    ({"disabled_pass": ["FuseOpps"]}, treadle.Error, "disabled pass 'FuseOpps' doesn't exist; did you mean 'FuseOps'?"),
    ({"disabled_pass": 3}, treadle.DTypeError, "disabled_pass: expected a list of names, got 3"),
    ({"external": [3]}, treadle.DTypeError, "external: expected a list of names, got [3]"),
    ({"constants": [1]}, treadle.DTypeError, "constants: expected a dict such as {'axes': [0, 1]}, got list [1]"),
    ({"shapes": {"x": [2**64, 4]}}, treadle.ShapeError,
     "shapes['x'][0] is 18446744073709551616; expected a whole number below 2**63"),
    ({"plugins": 3}, treadle.DTypeError, "plugins: expected a list of paths, got 3"),
    ({"plugins": ""}, treadle.Error, "plugins: the path is empty"),
    ({"precision": "auto", "samples": {"x": 1}}, treadle.DTypeError, "samples: expected a list of dicts of inputs, got dict"),
    ({"precision": "auto", "max_error": "a"}, treadle.Error, "max_error is 'a'; expected a relative error between 0 and 1"),
    ({"max_seconds": float("inf")}, treadle.Error, "max_seconds is inf; expected seconds above 0, or None for no limit"),
    ({"target": "llvm -mcpu=skylak"}, treadle.TargetError,
     "-mcpu=skylak isn't a processor that LLVM knows for x86_64-pc-linux-gnu; did you mean 'skylake'?\nhelp: x86-64, x86-64-v2, "
     "x86-64-v3 and x86-64-v4 stand for levels of x86 processors, native for this one"),
    ({"precision": "F32"}, treadle.Error, "precision is 'F32'; expected one of f32, bf16, f16, mixed, auto; did you mean 'f32'?"),
])
def test_arguments_of_compile(arguments, error, text):
    with pytest.raises(error) as caught:
        treadle.compile(relu(), **arguments)
    assert str(caught.value) == text


@pytest.mark.parametrize("threads", [-1, 100000, "all", 1.5, True])
def test_threads_are_a_number_within_reason(threads):
    with pytest.raises(treadle.Error, match=f"threads is {threads!r}; expected (a whole number from )?0 to"):
        treadle.compile(relu(), threads=threads)


@pytest.mark.parametrize("model", [3, None, ["m.onnx"]])
def test_models_of_other_types(model):
    with pytest.raises(treadle.DTypeError, match="a model is given as a path, bytes or an onnx.ModelProto, not as"):
        treadle.compile(model)
    with pytest.raises(treadle.DTypeError, match="a compiled model is loaded from a path, not from"):
        treadle.load(model)


def test_targets_and_names_in_forms_that_mean_one_thing():
    x = np.ones((1, 4), np.float32)
    for arguments in ({"target": {"kind": "llvm", "mcpu": "native"}}, {"disabled_pass": "FuseOps"}, {"shapes": {"x": np.array([1, 4])}}):
        np.testing.assert_array_equal(treadle.compile(relu(), **arguments)(x)["y"], x)


@pytest.fixture(scope="module")
def model():
    return treadle.compile(relu())


MASKED = np.ma.masked_array(np.ones((1, 4), np.float32), mask=[[1, 0, 0, 0]])


@pytest.mark.parametrize("value, error, text", [
    (None, treadle.DTypeError, 'input "x" is None; expected an array of float32'),
    ([[1, 2], [3]], treadle.ShapeError, 'input "x": the rows of the list differ in length'),
    ([["a", "b", "c", "d"]], treadle.DTypeError, 'input "x": expected numbers for float32, got [[\'a\', \'b\', \'c\', \'d\']]'),
    ([[1j, 2, 3, 4]], treadle.DTypeError, 'input "x": expected numbers for float32, got [[1j, 2, 3, 4]]'),
    (MASKED, treadle.Error, "a masked array with masked elements: give them values first, by filled(..)"),
    (np.ones((1, 4)), treadle.DTypeError, 'input "x": expected float32 (batch, 4) but got float64 (1, 4)'),
    (3.0, treadle.ShapeError, 'input "x": expected float32 (batch, 4) but got float32 ()'),
])
def test_inputs(model, value, error, text):
    for run in (model, lambda x: model.create_context()(x=x), lambda x: model.run_async(x).result(60)):
        with pytest.raises(error) as caught:
            run(value)
        assert str(caught.value) == text


def test_ways_to_give_inputs(model):
    x = np.ones((1, 4), np.float32)
    for call, text in ((lambda: model(xx=x), 'no input "xx"; the inputs are: x; did you mean \'x\'?'),
                       (lambda: model.run(None, [x]), "inputs are given as a dict by name, not as list; the inputs are: x"),
                       (lambda: model(x, x=x), 'input "x" is given by position and by name'),
                       (lambda: model.run(["yy"], {"x": x}), "the model has no output 'yy'; it has: y; did you mean 'y'?")):
        with pytest.raises(treadle.Error) as caught:
            call()
        assert str(caught.value) == text
    with pytest.raises(TypeError, match=r"benchmark\(\) has no argument 'repeats'; did you mean 'repeat'?"):
        model.benchmark({"x": x}, repeats=3)


@pytest.mark.parametrize("dtype, value, expected", [
    (TensorProto.FLOAT, [[1, 2.5, 3, 4]], [[1, 2.5, 3, 4]]), (TensorProto.FLOAT, [[True, False, 1, 2]], [[1, 0, 1, 2]]),
    (TensorProto.INT32, [[1, 2, 3, -4]], [[1, 2, 3, 0]]), (TensorProto.INT32, [[1.0, 2.0, 3.0, 4.0]], [[1, 2, 3, 4]]),
    (TensorProto.BFLOAT16, [[1, 2, 3, 0.5]], [[1, 2, 3, 0.5]]), (TensorProto.FLOAT16, [(1, 2, 3, 0.5)], [[1, 2, 3, 0.5]]),
])
def test_lists_become_arrays_of_the_declared_type(dtype, value, expected):
    model = treadle.compile(relu((1, 4), dtype))
    result = model(value)["y"]
    assert model.outputs[0].dtype == result.dtype.name
    np.testing.assert_array_equal(result.astype(np.float64), expected)


@pytest.mark.parametrize("value", [[[1.5, 2, 3, 4]], [[2**40, 0, 0, 0]], [[float("nan"), 0, 0, 0]]])
def test_errors_survive_pickling(value):
    import pickle

    with pytest.raises(treadle.Error) as caught:
        treadle.compile(relu((1, 4), TensorProto.INT32))(value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("call, error, text", [
    (lambda model: model.run(None, {"x": np.array([["a"] * 4])}), treadle.DTypeError,
     'input "x": arrays of NumPy type <U1 aren\'t supported; expected float32'),
    (lambda model: model.run(None, {}, cancel=3), treadle.DTypeError, "cancel: expected a treadle.CancelToken, got int"),
    (lambda model: model.benchmark({"x": [[1] * 4]}, seconds=float("inf")), treadle.Error,
     "seconds is inf; expected a number above 0"),
    (lambda model: model.benchmark({"x": [[1] * 4]}, seconds="a"), treadle.Error, "seconds is 'a'; expected a number above 0"),
    (lambda model: model.verify({"x": [[1] * 4]}, rtol="a"), treadle.Error, "rtol is 'a'; expected a number of 0 or more"),
    (lambda model: model.verify(reference="tensorflow"), treadle.Error,
     "reference: there is no file 'tensorflow'; expected an ONNX model, or a dict of outputs"),
    (lambda model: model.verify({"x": [[1] * 4]}, reference=3), treadle.DTypeError,
     "reference: expected a dict of outputs, or an ONNX model (path, bytes, onnx.ModelProto), got int"),
    (lambda model: model.create_context(state=3), treadle.DTypeError,
     "state: expected a dict such as {'past': 'present'}, got int 3"),
    (lambda model: model.save(3), treadle.DTypeError, "path: expected a path, got 3"),
    (pickle.dumps, TypeError,
     "a Model can't be pickled or copied; Model.save writes a file that treadle.load reads in another process"),
    (lambda _: treadle.compile(""), treadle.Error, "model: the path is empty"),
    (lambda model: model.save("new.onnx"), treadle.Error, "can't write 'new.onnx': a library isn't called .onnx; such as model.so"),
    (lambda model: model.report(1), treadle.DTypeError, "path: expected a path, got 1"),
    (lambda model: model.report("page.pdf"), treadle.Error, "can't write 'page.pdf': a page is HTML, such as page.html"),
    (lambda _: treadle.report.table("t", ["x"], [[1], [1, 2]]), treadle.Error,
     "table 't': row 1 has 2 cells, there are 1 columns"),
    (lambda _: treadle.report.chart("c", 3), treadle.DTypeError,
     "chart 'c': expected a dict (a specification of Vega-Lite), got int"),
    (lambda _: treadle.tune(relu(), "r.jsonl", tiem="1s"), TypeError, "tune() has no argument 'tiem'; did you mean 'time'?"),
    (lambda _: treadle.compile(relu(), dims={"batch": "1-8"}), treadle.Error,
     "dimension 'batch': '1-8' isn't understood; expected a size (4), a range (1..8, 16.., ..640), multiples (32k), or both "
     "(64..640:32k)"),
    (lambda _: treadle.compile(relu(), specialise=-1), treadle.Error, "specialise is -1; expected 0 to 1024"),
    (lambda _: treadle.compile(relu(), max_memory="2GiB"), treadle.Error, "max_memory is '2GiB'; expected a whole number of 0 or more"),
    (lambda _: treadle.quantize(relu(), mode="int4"), treadle.Error,
     "mode is 'int4'; expected static or dynamic or weight_only"),
    (lambda model: model.run(None, {"x": [[1] * 4]}, timeout="1s"), treadle.Error,
     "timeout is '1s'; expected seconds above 0, or None for no limit"),
    (lambda model: model.create_context()(), treadle.Error, 'input "x" is missing: expected float32 (batch, 4)'),
    (lambda _: treadle.device("gpuu"), treadle.TargetError, 'unknown device "gpuu"; expected such as cpu, cpu:0 or opencl'),
    (lambda _: treadle.load_plugin(3), treadle.DTypeError, "path: expected a path, got 3"),
    (lambda _: treadle.nd.empty("abc"), treadle.ShapeError, "a shape is a tuple of whole numbers below 2**63, not ('a', 'b', 'c')"),
    (lambda _: treadle.nd.array([1], dtype="foo"), treadle.DTypeError,
     "there is no element type 'foo'; such as float32, bfloat16, int8 and bool are known"),
    (lambda _: treadle.compile(relu().graph), treadle.DTypeError,
     "a model is given as a path, bytes or an onnx.ModelProto, not as GraphProto"),
    (lambda _: treadle.compile(io.BytesIO(b"")), treadle.DTypeError,
     "a model is given as a path, bytes or an onnx.ModelProto, not as BytesIO; an open file is given as its bytes: file.read()"),
    (lambda _: treadle.load("m.onnx"), treadle.ModelFormatError,
     "m.onnx isn't compiled: treadle.compile takes such files, treadle.load what Model.save and `treadle compile` write"),
    (lambda _: treadle.load("none.so"), FileNotFoundError, "can't read none.so: No such file or directory"),
    (lambda _: treadle.load("none.so"), treadle.Error, "can't read none.so: No such file or directory"),
    (lambda _: treadle.compile("none.onnx"), FileNotFoundError, "can't open none.onnx: No such file or directory"),
    (lambda _: treadle.compile(relu(), device="gpu"), TypeError,
     "compile() has no argument 'device'; target='llvm -mcpu=native' says what code is for"),
    (lambda _: treadle.compile(relu(), output="a.so"), TypeError,
     "compile() has no argument 'output'; Model.save writes what was compiled"),
    (lambda _: treadle.compile(relu(), records="r.jsonl"), TypeError,
     "compile() has no argument 'records'; pass_config={'schedule.records': path} takes records"),
    (lambda _: treadle.compile(relu(), target="cpu"), treadle.TargetError,
     "unknown target kind \"cpu\"; known are: llvm, c, opencl, stackvm, null; did you mean 'host'?"),
    (lambda model: model.bind_output("y", np.frombuffer(bytes(16), np.float32).reshape(1, 4)), treadle.DTypeError,
     "output 'y' is bound to a writable NumPy array of float32, not to a read-only one of float32"),
    (lambda model: model.bind_output("z", np.zeros((1, 4), "float32")), treadle.Error, "the model has no output 'z'; it has: y"),
    (lambda model: model.benchmark(np.ones((1, 4), "float32")), treadle.Error,
     "inputs are given as a dict by name, not as ndarray; the inputs are: x"),
    (lambda model: model.benchmark({"x": [[1] * 4]}, repeat=-1), treadle.Error, "repeat is -1; expected 1 or more"),
    (lambda _: treadle.relay.nn.conv2dd, AttributeError, "no operator 'nn.conv2dd'; did you mean 'nn.conv2d'?"),
    (lambda _: treadle.relay.var("x", shape="abc"), TypeError,
     "the shape of 'x' is 'abc'; expected a tuple such as (1, 3, 224, 224)"),
    (lambda _: treadle.relay.frontend.from_onnx(relu(), [1, 4]), treadle.DTypeError,
     "shape: expected a dict such as {'x': (1, 3, 224, 224)}, got list [1, 4]"),
    (lambda _: treadle.relay.frontend.from_onnx(3), treadle.DTypeError,
     "a model is given as a path, bytes or an onnx.ModelProto, not as int"),
    (lambda _: treadle.relay.build("m.onnx", target="llvm"), ValueError,
     "expected an IRModule or a relay.Function, got str"),
    (lambda _: treadle.compile(relu(), samples=[{"x": [[1] * 4]}]), treadle.Error,
     'samples are what precision="auto" measures errors on; without it they have no effect'),
    (lambda _: treadle.compile(relu(), precision="bf16", max_error=0.1), treadle.Error,
     'max_error is the limit of precision="auto"; without it it has no effect'),
    (lambda _: treadle.quantize(relu(), weight_only=4), TypeError,
     "quantize() has no argument 'weight_only'; mode='weight_only', bits=4 quantises weights only"),
    (lambda model: model.save("m.dll"), treadle.Error, "can't write 'm.dll': a library isn't called .dll; such as model.so"),
    (lambda _: treadle.quantize(relu(), calib=[]), TypeError,
     "quantize() has no argument 'calib'; did you mean 'calibration_data'?"),
    (lambda _: treadle.quantize(relu(), calibration_data=[{"z": [[1] * 4]}]), treadle.Error,
     "a calibration sample doesn't fit the model: no input \"z\"; the inputs are: x"),
    (lambda _: treadle.quantize(product(), mode="dynamic", keep_float="hed"), treadle.Error,
     "keep_float: no layer's name or kind is 'hed'; did you mean 'head'?"),
    (lambda _: treadle.compile(relu(), weights="none.safetensors"), treadle.Error,
     "weights: can't open none.safetensors: no such file"),
    (lambda _: treadle.quantize(relu(), calibration_data=5), treadle.Error,
     "calibration data: expected a directory of .npz files, one such file, or dicts of arrays by input name, not 5"),
    (lambda _: treadle.quantize(relu(), mode="weight_only", block_size="a"), treadle.Error,
     "block_size is 'a'; expected a whole number of 0 or more"),
    (lambda _: treadle.quantize(relu(), calibration_data=[], percentile="a"), treadle.Error,
     "percentile is 'a'; expected more than 50, at most 100"),
    (lambda _: treadle.quantize(relu(), calibration_data=[], smooth_quant=5), treadle.Error,
     "smooth_quant is 5; expected an exponent from 0 to 1"),
    (lambda _: treadle.quantize(relu(), mode="dynamic", keep_float=5), treadle.DTypeError, "keep_float: expected a list of names, got 5"),
    (lambda _: treadle.quantize(relu(), mode="dynamic", output=5), treadle.DTypeError, "output: expected a path, got 5"),
    (lambda _: treadle.quantize(5, mode="dynamic"), treadle.DTypeError,
     "a model is given as a path, bytes or an onnx.ModelProto, not as int"),
    (lambda _: treadle.get_global_func(5), TypeError, "get_global_func: expected the name of a function, not 5"),
    (lambda _: treadle.relay.frontend.from_onnx(relu(), {"x": "a"}), treadle.Error,
     "shape['x'] is 'a'; expected a tuple such as (1, 3, 224, 224)"),
    (lambda _: treadle.relay.frontend.from_onnx(relu(), {"x": (1, "a")}), treadle.DTypeError,
     "'a' can't be a dimension; expected a whole number, relay.Any() or None"),
    (lambda _: treadle.relay.frontend.from_onnx(relu(), opset="a"), treadle.Error,
     "opset is 'a'; expected a whole number of 1 or more"),
    (lambda _: treadle.compil, AttributeError, "module 'treadle' has no attribute 'compil'; did you mean 'compile'?"),
])
def test_other_calls(model, call, error, text):
    with pytest.raises(error) as caught:
        call(model)
    assert str(caught.value) == text


def test_models_and_libraries_are_not_overwritten(model, tmp_path):
    path, library = tmp_path / "m.onnx", tmp_path / "m.so"
    onnx.save(relu(), path)
    model.save(library)
    before = [file.read_bytes() for file in (path, library)]
    for call in (lambda: model.save(path), lambda: model.report(library, {"x": [[1] * 4]}, repeat=1),
                 lambda: treadle.tune(path, path, time="1s"), lambda: treadle.tune(path, library, time="1s")):
        with pytest.raises(treadle.Error, match="can't write|no libraries to draw"):
            call()
    assert [file.read_bytes() for file in (path, library)] == before


@pytest.mark.parametrize("value", [[[1.5, 2, 3, 4]], [[2**40, 0, 0, 0]], [[float("nan"), 0, 0, 0]]])
def test_lists_do_not_lose_values(value):
    with pytest.raises(treadle.DTypeError, match='input "x": not all values of .* are of type int32'):
        treadle.compile(relu((1, 4), TensorProto.INT32))(value)


def test_sessions():
    from treadle.onnxruntime.capi import onnxruntime_pybind11_state as state

    with pytest.raises(state.InvalidProtobuf, match="Load model failed: the file is text, not an ONNX model"):
        treadle.InferenceSession(b"bad")
    with pytest.raises(TypeError, match="no argument 'provider'; did you mean 'providers'?"):
        treadle.InferenceSession(relu().SerializeToString(), provider=["CPUExecutionProvider"])
    model = relu().SerializeToString()
    for arguments, kind, text in (
            ({"providers": "CPUExecutionProvider"}, state.InvalidArgument, "expected a list of names such as"),
            ({"providers": [3]}, state.InvalidArgument, "expected names such as 'CPUExecutionProvider', got 3"),
            ({"sess_options": 3}, TypeError, "expected SessionOptions, got int")):
        with pytest.raises(kind, match=text):
            treadle.InferenceSession(model, **arguments)
    for name, value in (("intra_op_num_threads", "a"), ("inter_op_num_threads", -1)):
        with pytest.raises(state.InvalidArgument, match=f"{name} is {value!r}; expected 0 \\(all\\) or more"):
            setattr(treadle.onnxruntime.SessionOptions(), name, value)
    session = treadle.InferenceSession(model)
    with pytest.raises(state.InvalidArgument, match="run_options: expected RunOptions, got int"):
        session.run(None, {"x": [[1, 2, 3, 4]]}, 3)
    with pytest.raises(TypeError, match="callback: expected a function, got int"):
        session.run_async(None, {"x": [[1, 2, 3, 4]]}, 3, None)
    with pytest.raises(state.InvalidArgument, match="a buffer at address 0"):
        session.io_binding().bind_output("y", "cpu", 0, np.float32, (1, 4), 0)
    with pytest.raises(TypeError, match="inputs are given as a dict by name, not as list"):
        session.run(None, [1])
    with pytest.raises(state.InvalidArgument, match="the rows of the list differ in length"):
        session.run(None, {"x": [[1, 2], [3]]})
    with pytest.raises(state.InvalidArgument, match="input 'x' is a masked array; fill its mask first"):
        session.run(None, {"x": MASKED})


def test_masked_arrays_as_tensors():
    with pytest.raises(treadle.Error, match="a masked array with masked elements"):
        treadle.nd.array(MASKED)
    unmasked = np.ma.masked_array(np.ones(2, np.float32), mask=[0, 0])
    np.testing.assert_array_equal(treadle.nd.array(unmasked).numpy(), [1, 1])


@pytest.mark.parametrize("value", [False, True, np.bool_(False), 0, "false"])
def test_options_of_passes_may_be_truth_values(value):
    treadle.compile(relu(), pass_config={"relay.PlanLayout.winograd": value})
