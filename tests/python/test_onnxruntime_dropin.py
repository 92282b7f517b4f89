# SPDX-License-Identifier: Apache-2.0
"""treadle.onnxruntime: what programs use of the package onnxruntime, with its names, conversions and exceptions."""
import os
import re
import subprocess
import sys
import threading
import types

import numpy as np
import onnx
import onnxruntime as reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
import treadle.onnxruntime as ort


def affine(shape=("batch", 4), folder=None):
    """y = x @ w + 1 with x of any batch; w in a file of its own where there is a folder."""
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.standard_normal((4, 300), dtype=np.float32), "w")
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [shape[0], 300])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "one"], ["y"])]
    graph = helper.make_graph(nodes, "affine", [x], [y], [w, one], doc_string="of the graph")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests",
                              domain="org.example", model_version=7, doc_string="of the model")
    helper.set_model_props(model, {"names": "a,b"})
    if folder is not None:
        onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=16)
    return model


@pytest.fixture(scope="module")
def data():
    return affine().SerializeToString()


@pytest.fixture(scope="module")
def session(data):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def peer(data):
    return reference.InferenceSession(data, providers=["CPUExecutionProvider"])


def test_describes_the_model_as_onnxruntime_does(session, peer):
    for own, other in zip(session.get_inputs() + session.get_outputs(), peer.get_inputs() + peer.get_outputs()):
        assert (own.name, own.type, own.shape) == (other.name, other.type, other.shape)
    for field in ("custom_metadata_map", "description", "domain", "graph_description", "graph_name", "producer_name",
                  "version"):
        assert getattr(session.get_modelmeta(), field) == getattr(peer.get_modelmeta(), field), field
    assert session.get_providers() == peer.get_providers()


@pytest.mark.parametrize("batch", [1, 3, 17])
def test_one_session_runs_all_shapes(session, peer, batch):
    feed = {"x": np.random.default_rng(batch).standard_normal((batch, 4), dtype=np.float32)}
    for names in (None, [], ["y"]):
        np.testing.assert_allclose(session.run(names, feed)[0], peer.run(names, feed)[0], rtol=1e-5, atol=1e-5)


def test_the_first_second_of_a_session_is_without_compilation(data):
    session = ort.InferenceSession(data)
    feed = {"x": np.ones((5, 4), np.float32)}
    for _ in range(5):
        session.run(None, feed)
    assert not session._models._forms._forms
    session._models._forms._begins -= 1
    session.run(None, feed)
    assert len(session._models._forms._forms) == 1


def test_shapes_seen_often_are_compiled_in_the_background(data, peer, monkeypatch):
    monkeypatch.setattr(ort._session, "QUIET_SECONDS", 0)
    session = ort.InferenceSession(data)
    feed = {"x": np.ones((5, 4), np.float32)}
    for _ in range(3):
        session.run(None, feed)
    session._models.settle()
    model = session._models.find(feed)
    assert model is not session._models._general and model.inputs[0].shape == (5, 4)
    np.testing.assert_allclose(session.run(None, feed)[0], peer.run(None, feed)[0], rtol=1e-5, atol=1e-5)
    for batch in range(1, 30):
        session.run(None, {"x": np.ones((batch, 4), np.float32)})
        session.run(None, {"x": np.ones((batch, 4), np.float32)})
    session._models.settle()
    assert len(session._models._forms._forms) <= 8


def test_a_model_compiles_once_for_all_processes(tmp_path, monkeypatch, peer):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    text = affine().SerializeToString()
    feed = {"x": np.ones((2, 4), np.float32)}
    ort.InferenceSession(text)
    monkeypatch.setattr(treadle.model, "_export_serialised", None)  # what compiles
    np.testing.assert_allclose(ort.InferenceSession(text).run(None, feed)[0], peer.run(None, feed)[0], rtol=1e-5, atol=1e-5)
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    for other in ({"path_or_bytes": text, "sess_options": options},
                  {"path_or_bytes": text.replace(b"of the graph", b"of a graph..")}):
        with pytest.raises(TypeError):  # compiles: another model, or other options
            ort.InferenceSession(**other)
    (entry,) = (tmp_path / "kernels").glob("*.so")
    changed = entry.read_bytes().replace(b"treadle_blob", b"treadle_blog")
    entry.unlink()  # sessions may have it mapped
    entry.write_bytes(changed)
    with pytest.raises(TypeError):  # what somebody changed isn't taken
        ort.InferenceSession(text)
    assert not entry.exists()


def test_a_cache_from_which_nothing_may_be_executed_serves_copies(tmp_path, monkeypatch, peer):
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    text = affine().SerializeToString()
    ort.InferenceSession(text)
    load, loaded = treadle.model._core.Model.load, []

    def refusing(path):
        loaded.append(path)
        if path.startswith(str(tmp_path)):
            raise treadle.ModelFormatError("failed to map segment from shared object")
        return load(path)

    monkeypatch.setattr(treadle.model, "_export_serialised", None)
    monkeypatch.setattr(treadle.model, "_core", types.SimpleNamespace(Model=types.SimpleNamespace(load=refusing)))
    feed = {"x": np.ones((2, 4), np.float32)}
    np.testing.assert_allclose(ort.InferenceSession(text).run(None, feed)[0], peer.run(None, feed)[0], rtol=1e-5, atol=1e-5)
    assert len(loaded) == 2


def test_models_of_a_quarter_of_the_cache_are_kept(tmp_path, monkeypatch):
    """Of an eighth, once: a recogniser of speakers of 12 MB, whose steps are unrolled, was compiled in each process."""
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    weights = np.random.default_rng(0).standard_normal((512, 1024), dtype=np.float32)  # 2 MiB
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 512])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1024])],
                              [onnx.numpy_helper.from_array(weights, "w")])
    text = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    set_limit = treadle.get_global_func("driver.KernelCacheSetLimit")
    export = treadle.model._export_serialised
    for limit, kept in ((10 << 20, True), (7 << 20, False)):
        treadle.get_global_func("driver.KernelCacheClear")()
        set_limit(limit)
        monkeypatch.setattr(treadle.model, "_export_serialised", export)
        first = ort.InferenceSession(text)
        monkeypatch.setattr(treadle.model, "_export_serialised", None)
        if not kept:
            with pytest.raises(TypeError):
                ort.InferenceSession(text)
            continue
        x = np.ones((2, 512), np.float32)
        np.testing.assert_array_equal(ort.InferenceSession(text).run(None, {"x": x})[0], first.run(None, {"x": x})[0])


def test_declared_axes_of_another_rank_are_hints():
    """As PyTorch's exporter writes dynamic axes of outputs."""
    model = affine()
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "more"
    feed = {"x": np.ones((2, 4), np.float32)}
    results = [engine.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed)
               for engine in (ort, reference)]
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)


def test_lists_take_the_declared_type(session, peer):
    feed = {"x": [[1, 2, 3, 4]]}
    np.testing.assert_allclose(session.run(None, feed)[0], peer.run(None, feed)[0], rtol=1e-5, atol=1e-5)


def test_external_data_beside_the_file(tmp_path):
    affine(folder=tmp_path)
    feed = {"x": np.ones((2, 4), np.float32)}
    own = ort.InferenceSession(tmp_path / "m.onnx").run(None, feed)
    np.testing.assert_allclose(own[0], reference.InferenceSession(tmp_path / "m.onnx").run(None, feed)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("feed, names, kind", [
    ({"x": np.ones((2, 4))}, None, "InvalidArgument"),
    ({"x": np.ones((2, 5), np.float32)}, None, "InvalidArgument"),
    ({"x": np.ones(4, np.float32)}, None, "InvalidArgument"),
    ({"z": np.ones((2, 4), np.float32)}, None, "ValueError"),
    ({"x": np.ones((2, 4), np.float32), "z": np.ones(1)}, None, "InvalidArgument"),
    ({"x": np.ones((2, 4), np.float32)}, ["z"], "InvalidArgument"),
])
def test_refuses_what_onnxruntime_refuses(session, peer, feed, names, kind):
    with pytest.raises(Exception) as other:
        peer.run(names, feed)
    with pytest.raises(Exception) as own:
        session.run(names, feed)
    assert type(own.value).__name__ == kind
    assert type(other.value).__name__ in (kind, "ValueError")


def test_exceptions_have_the_names_that_programs_catch(tmp_path):
    from treadle.onnxruntime.capi import onnxruntime_pybind11_state as state

    with pytest.raises(state.NoSuchFile):
        ort.InferenceSession(tmp_path / "none.onnx")
    with pytest.raises(state.InvalidProtobuf):
        ort.InferenceSession(b"not a model")
    with pytest.raises(state.InvalidArgument, match="unknown execution provider 'FooExecutionProvider'"):
        ort.InferenceSession(affine().SerializeToString(), providers=["FooExecutionProvider"])
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' isn't available"):
        ort.InferenceSession(affine((1, 4)).SerializeToString(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(TypeError, match="no argument 'foo'"):
        ort.InferenceSession(affine().SerializeToString(), foo=1)
    with pytest.raises(AttributeError, match="no field 'intra_op_threads'"):
        ort.SessionOptions().intra_op_threads = 1


def test_models_that_cannot_be_compiled_are_named(tmp_path):
    for name, operator, shapes, kind in (("typo", "Addd", ((2, 3), (2, 3)), ort.capi.onnxruntime_pybind11_state.NotImplemented),
                                         ("sizes", "MatMul", ((2, 3), (4, 5)), ort.capi.onnxruntime_pybind11_state.Fail)):
        inputs = [helper.make_tensor_value_info(which, TensorProto.FLOAT, shape) for which, shape in zip("ab", shapes)]
        graph = helper.make_graph([helper.make_node(operator, ["a", "b"], ["y"])], "g", inputs,
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        with pytest.raises(kind, match=f"{name}.onnx"):
            ort.InferenceSession(str(path))


def test_options_take_values_of_their_kinds():
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = 1  # ORT_PARALLEL
    for field in ("graph_optimization_level", "execution_mode"):
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match=f"{field} is 42; expected one of ORT_"):
            setattr(options, field, 42)


def test_bindings_and_values(session, peer):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = peer.run(None, {"x": x})[0]
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.device_name(), value.is_tensor()) == ([2, 4], "tensor(float)", "cpu", True)
    np.testing.assert_allclose(session.run_with_ort_values(["y"], {"x": value})[0].numpy(), expected, rtol=1e-5, atol=1e-5)
    binding = session.io_binding()
    out = np.zeros((2, 300), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    binding.clear_binding_outputs()
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.copy_outputs_to_cpu()[0], expected, rtol=1e-5, atol=1e-5)


def test_bound_outputs_of_any_shape_are_written(data, peer):
    session = ort.InferenceSession(data)
    binding = session.io_binding()
    for batch in (2, 2, 2, 5, 5, 2):
        x = np.random.default_rng(batch).standard_normal((batch, 4), dtype=np.float32)
        out = ort.OrtValue.ortvalue_from_shape_and_type((batch, 300), np.float32)
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x))
        binding.bind_ortvalue_output("y", out)
        session.run_with_iobinding(binding)
        np.testing.assert_allclose(out.numpy(), peer.run(None, {"x": x})[0], rtol=1e-5, atol=1e-5)
        assert np.shares_memory(binding.get_outputs()[0].numpy(), out.numpy())
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="bound to a"):
        binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type((3, 300), np.float32))
        session.run_with_iobinding(binding)
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="the model has no 'yy'; it has: y"):
        binding.bind_output("yy")


def test_names_are_those_of_the_package():
    """Each public name of the installed onnxruntime is here, or refused with a reason when it is used."""
    refused = ort._refused.REASONS
    known = {"onnxruntime_validation", "contextlib"}  # its own helpers
    assert [name for name in dir(reference) if not name.startswith("_") and not hasattr(ort, name) and name not in known] == []
    for name in refused:
        with pytest.raises(treadle.Error, match=f"onnxruntime.{name} isn't there: "):
            getattr(ort, name)()
    for kind in ("InferenceSession", "SessionOptions", "RunOptions", "IOBinding", "OrtValue", "OrtDevice", "ModelMetadata",
                 "NodeArg"):
        own, other = getattr(ort, kind), getattr(reference, kind)
        made = own() if kind == "SessionOptions" else own
        assert [name for name in dir(other) if not name.startswith("_") and not hasattr(made, name)
                and name not in getattr(own, "__annotations__", {}) and name not in vars(ort.RunOptions())] == [], kind
    with pytest.raises(AttributeError, match="has no 'InferenceSesion'; did you mean 'InferenceSession'?"):
        ort.InferenceSesion


def test_values_of_other_types():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    np.testing.assert_array_equal(value.numpy().astype(np.float32), [1, 2])
    assert value.element_type() == TensorProto.BFLOAT16
    copy = ort.OrtValue.ortvalue_from_shape_and_type((2,), TensorProto.BFLOAT16)
    ort.copy_tensors([value], [copy])
    np.testing.assert_array_equal(copy.numpy(), value.numpy())
    for wrong in (lambda: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.FLOAT),
                  lambda: ort.OrtValue.ortvalue_from_shape_and_type((2,), 99), lambda: ort.copy_tensors([value], [])):
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument):
            wrong()


def test_threads_of_all_sessions(data, monkeypatch):
    monkeypatch.setitem(ort._options._threads, "intra", 0)
    ort.set_global_thread_pool_sizes(1, 1)
    assert ort.InferenceSession(data)._models._general.threads == 1


def test_run_async_calls_back(session):
    done = threading.Event()
    got = []
    session.run_async(["y"], {"x": np.ones((1, 4), np.float32)}, lambda *args: (got.append(args), done.set()), "mine")
    assert done.wait(60)
    results, user_data, message = got[0]
    assert results[0].shape == (1, 300) and user_data == "mine" and message == ""


def test_dimensions_can_be_fixed(data):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    session = ort.InferenceSession(data, options)
    assert session._models._general.inputs[0].shape == (2, 4)


def test_profiles_are_traces(data, tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.add_free_dimension_override_by_name("batch", 2)
    session = ort.InferenceSession(data, options)
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    events = json.loads((tmp_path / session.end_profiling()).read_text())
    assert events and all(event["ph"] == "X" and event["cat"] == "Node" for event in events)


def test_install_stands_in_for_the_package():
    script = """
import treadle.onnxruntime
treadle.onnxruntime.install()
import onnxruntime
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
assert onnxruntime.InferenceSession is treadle.onnxruntime.InferenceSession
assert onnxruntime.get_device() == "CPU" and onnxruntime.get_available_providers() == ["CPUExecutionProvider"]
assert C.get_available_providers() == ["CPUExecutionProvider"]
from onnxruntime.quantization import QuantFormat, quantize_dynamic
assert "treadle" not in QuantFormat.__module__ and treadle.onnxruntime.capi is onnxruntime.capi
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_overridden_dimensions_are_shown_and_checked(data):
    options, theirs = ort.SessionOptions(), reference.SessionOptions()
    for each in (options, theirs):
        each.add_free_dimension_override_by_name("batch", 3)
    session, peer = ort.InferenceSession(data, options), reference.InferenceSession(data, theirs)
    assert [value.shape for value in session.get_inputs()] == [value.shape for value in peer.get_inputs()] == [[3, 4]]
    assert session.get_outputs()[0].shape == [3, 300]
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="Got: 2 Expected: 3"):
        session.run(None, {"x": np.ones((2, 4), np.float32)})
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batsh", 3)  # ONNX Runtime ignores it
    with pytest.warns(UserWarning, match="'batsh' has no effect.*did you mean 'batch'"):
        session = ort.InferenceSession(data, options)
    assert session.run(None, {"x": np.ones((2, 4), np.float32)})[0].shape == (2, 300)


def test_enumerations_print_their_names(data):
    options, theirs = ort.SessionOptions(), reference.SessionOptions()
    for field in ("graph_optimization_level", "execution_mode", "execution_order"):
        assert str(getattr(options, field)) == str(getattr(theirs, field))
    options.graph_optimization_level = 1
    assert options.graph_optimization_level.name == "ORT_ENABLE_BASIC"


def test_a_model_without_version_has_onnxruntimes_largest(data):
    model = onnx.load_from_string(data)
    model.ClearField("model_version")
    data = model.SerializeToString()
    assert ort.InferenceSession(data).get_modelmeta().version == reference.InferenceSession(data).get_modelmeta().version


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "notes.onnx").write_text("not a model")
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidProtobuf, match=r"Load model from .*notes\.onnx failed: the file"):
        ort.InferenceSession(tmp_path / "notes.onnx")
    with pytest.raises(TypeError, match="seed: expected a whole number, got str"):
        ort.set_seed("one")


def test_all_exceptions_of_onnxruntime_exist():
    theirs, own = (each.capi.onnxruntime_pybind11_state for each in (reference, ort))
    names = [name for name, value in vars(theirs).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert names and not [name for name in names if not issubclass(getattr(own, name, object), RuntimeError)]


@pytest.mark.parametrize("off", [{}, {"TREADLE_PROGRESS": "0"}])
def test_terminals_are_told_what_is_compiled(tmp_path, off):
    """By sessions that have to compile; the line goes when the model is there."""
    import pty

    onnx.save(affine(), tmp_path / "affine.onnx")
    program = ("import treadle._progress; treadle._progress.PATIENCE = 0\n"
               "import treadle.onnxruntime as ort; ort.InferenceSession('affine.onnx')\nprint('done')")
    outer, inner = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TREADLE_CACHE_DIR": str(tmp_path / "cache"), **off}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=inner,
                          text=True, timeout=300, check=True)
    os.close(inner)
    shown = ""
    try:
        while part := os.read(outer, 1 << 16).decode():
            shown += part
    except OSError:  # the end: nobody has the other side open
        pass
    os.close(outer)
    assert done.stdout == "done\n"
    if off:
        assert shown == ""
    else:
        assert re.search(r"compiling affine.onnx: (\d+)/\1 kernels, 0 s left", shown) and shown.endswith("\r\x1b[K")
