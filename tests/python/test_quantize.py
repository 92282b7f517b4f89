# SPDX-License-Identifier: Apache-2.0
"""treadle.quantize: what it writes runs in ONNX Runtime and Treadle alike, near the float model."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))

from differential.low_precision import PEER_SATURATES  # noqa: E402

peer_is_exact = pytest.mark.skipif(PEER_SATURATES, reason="ONNX Runtime's sums of bytes saturate on this processor")

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"


def snr(reference, actual):
    reference, actual = np.asarray(reference, np.float64), np.asarray(actual, np.float64)
    return 10 * np.log10(np.sum(reference**2) / max(np.sum((reference - actual)**2), 1e-300))


class Builder:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(1)

    def weight(self, *shape, scale=1.0, value=None):
        array = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale) if value is None else value
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, op, inputs, **attributes):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out

    def model(self, shape, out, opset=17):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def convolutions(opset=17):
    b = Builder()

    def conv(x, i, o, k, **attributes):
        return b.add("Conv", [x, b.weight(o, i // attributes.get("group", 1), k, k, scale=(i * k * k)**-0.5),
                              b.weight(o, scale=0.1)], pads=[k // 2] * 4, kernel_shape=[k, k], **attributes)

    x = b.add("Relu", [conv("x", 3, 16, 3, strides=[2, 2])])
    x = b.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    y = b.add("Relu", [conv(x, 16, 16, 3)])
    x = b.add("Relu", [b.add("Add", [conv(y, 16, 16, 1), x])])
    x = b.add("Relu", [conv(x, 16, 16, 3, group=16)])
    x = b.add("Flatten", [b.add("GlobalAveragePool", [x])])
    x = b.add("Gemm", [x, b.weight(10, 16, scale=0.25), b.weight(10)], transB=1)
    return b.model([2, 3, 32, 32], x, opset)


def layers(outlier=1.0, width=64):
    """Normalised rows through two products, a channel of them larger than others."""
    b = Builder()
    gamma = np.ones(width, np.float32)
    gamma[3] = outlier
    x = b.add("LayerNormalization", ["x", b.weight(value=gamma), b.weight(width, scale=0.1)], axis=-1)
    x = b.add("Add", [b.add("MatMul", [x, b.weight(width, 96, scale=width**-0.5)]), b.weight(96)])
    x = b.add("Relu", [x])
    return b.model([2, 10, width], b.add("MatMul", [x, b.weight(96, width, scale=0.1)]))


def data(model, count=6):
    rng = np.random.default_rng(7)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return [{"x": rng.standard_normal(shape, dtype=np.float32)} for _ in range(count)]


def outputs(model, samples):
    """Of the float model, of ONNX Runtime without fusion and with it, of Treadle: all samples together."""
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # else it saturates without VNNI
    options.log_severity_level = 3
    fused = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled = treadle.compile(model)
    return [np.concatenate([run(sample) for sample in samples]) for run in
            (lambda s: plain.run(None, s)[0], lambda s: fused.run(None, s)[0], lambda s: compiled.run(None, s)[0])]


def check(model, quantised, samples, least, beside_peer=1.0, exact=None):
    """`exact`: results without rounded rows; ours may be nearer to those than the peer's are, in place of alike."""
    expected = np.concatenate([treadle.compile(model).run(None, s)[0] for s in samples])
    onnx.checker.check_model(quantised.model)
    plain, fused, ours = outputs(quantised.model, samples)
    assert snr(expected, plain) > least, quantised.text()
    assert snr(expected, ours) > least - 1
    alike = snr(plain, ours) > min(snr(plain, fused) - beside_peer, 55)
    assert alike or (exact is not None and snr(exact, ours) > snr(exact, plain))
    assert next(iter(quantised.report["outputs"].values())) > least - 3


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
@pytest.mark.parametrize("build, least", [(convolutions, 27), (layers, 33)])
def test_static(build, least, method):
    model = build()
    samples = data(model)
    quantised = treadle.quantize(model, calibration_data=samples, method=method)
    check(model, quantised, samples, least)
    kinds = [node.op_type for node in quantised.model.graph.node]
    assert kinds.count("QuantizeLinear") >= len(quantised.report["layers"])


@pytest.mark.parametrize("arguments", [{"activation_type": "int8"}, {"symmetric_activations": True},
                                       {"per_channel": False}, {"bias_correction": False}, {"reduce_range": True}])
def test_static_options(arguments):
    model = convolutions()
    samples = data(model)
    check(model, treadle.quantize(model, calibration_data=samples, **arguments), samples, 20)


def test_between_convolutions_everything_is_bytes():
    """An Add of two convolutions is surrounded by scales; what a Relu clips isn't rounded before."""
    model = convolutions()
    graph = treadle.quantize(model, calibration_data=data(model)).model.graph
    maker = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        if node.op_type in ("Conv", "Add", "Gemm", "MaxPool"):
            assert all(maker[name].op_type == "DequantizeLinear" for name in node.input[:2]
                       if name in maker), node.name
        if node.op_type == "Relu":
            assert maker[node.input[0]].op_type in ("Conv", "Add")


@peer_is_exact
@pytest.mark.parametrize("per_channel", [True, False])
def test_dynamic(per_channel):
    model = layers()
    samples = data(model)
    check(model, treadle.quantize(model, mode="dynamic", calibration_data=samples, per_channel=per_channel), samples,
          30)


@pytest.mark.parametrize("bits, block, symmetric, level, least", [
    (4, 32, True, 1, 18), (4, 16, False, 1, 19), (4, 64, False, 4, 17), (8, 32, True, 1, 40)])
def test_weights_only(bits, block, symmetric, level, least):
    model = layers()
    samples = data(model)
    quantised = treadle.quantize(model, mode="weight_only", bits=bits, block_size=block, symmetric_weights=symmetric,
                                 accuracy_level=level, calibration_data=samples)
    unrounded = onnx.ModelProto.FromString(quantised.model.SerializeToString())
    for node in unrounded.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    # Rows of level 4 may be rounded to 8 bits, as the peer does, or less (bfloat16).
    check(model, quantised, samples, least, beside_peer=3.0, exact=outputs(unrounded, samples)[0])


def test_smooth_quant_helps_against_outliers():
    model = layers(outlier=60.0)
    samples = data(model)
    plain = treadle.quantize(model, calibration_data=samples, method="minmax")
    smooth = treadle.quantize(model, calibration_data=samples, method="minmax", smooth_quant=0.5)
    assert smooth.report["outputs"] != plain.report["outputs"]
    assert next(iter(smooth.report["outputs"].values())) > next(iter(plain.report["outputs"].values())) + 3
    check(model, smooth, samples, 25)


def test_awq_is_no_worse():
    model = layers(outlier=30.0)
    samples = data(model)
    both = [treadle.quantize(model, mode="weight_only", accuracy_level=1, calibration_data=samples, awq=on)
            for on in (False, True)]
    plain, scaled = (next(iter(q.report["outputs"].values())) for q in both)
    assert scaled > plain + 1
    check(model, both[1], samples, scaled - 1, beside_peer=3.0)


def test_bias_correction_restores_means():
    model = convolutions()
    samples = data(model, 12)
    expected = np.concatenate([treadle.compile(model).run(None, s)[0] for s in samples]).mean(0)
    errors = []
    for on in (False, True):
        quantised = treadle.quantize(model, calibration_data=samples, per_channel=False, reduce_range=True,
                                     weight_method="max", bias_correction=on)
        means = outputs(quantised.model, samples)[0].mean(0)
        errors.append(float(np.abs(means - expected).mean()))
    assert errors[1] < errors[0]


def test_layers_stay_float_by_name_kind_and_budget():
    model = convolutions()
    samples = data(model)
    by_name = treadle.quantize(model, calibration_data=samples, keep_float=["Conv_0", "Gemm"])
    assert {row["name"] for row in by_name.report["kept_float"]} == {"Conv_0", "Gemm_12"}
    loose = treadle.quantize(model, calibration_data=samples)
    worst = next(iter(loose.report["outputs"].values()))
    tight = treadle.quantize(model, calibration_data=samples, keep_float_budget=worst + 3)
    assert tight.report["kept_float"] and min(tight.report["outputs"].values()) >= worst + 3


def test_old_opsets_are_converted():
    model = convolutions(opset=11)
    samples = data(model)
    quantised = treadle.quantize(model, calibration_data=samples)
    assert quantised.model.opset_import[0].version >= 13
    check(model, quantised, samples, 27)


@pytest.mark.parametrize("arguments, message", [
    ({}, "static quantisation needs calibration data"),
    ({"mode": "int3"}, "mode is 'int3'; expected static or dynamic"),
    ({"mode": "weight_only", "bits": 5}, "bits is 5; expected 4 or 8"),
    ({"mode": "weight_only", "block_size": 24}, "block_size is 24"),
    ({"calibration_data": []}, "must be dicts of arrays by input name"),
    ({"calibration_data": [{"x": np.zeros((1, 2), np.float32)}]}, "sample doesn't fit"),
    ({"calibration_data": [{"x": np.full((2, 10, 64), np.nan, np.float32)}]}, "isn't finite"),
])
def test_what_is_wrong_is_said(arguments, message):
    with pytest.raises(treadle.Error, match=message):
        treadle.quantize(layers(), **arguments)


def test_command_line(tmp_path, monkeypatch):
    model = layers()
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    for i, sample in enumerate(data(model)):
        np.savez(tmp_path / "data" / f"{i}.npz", **sample)
    monkeypatch.setenv("TREADLE_PYTHON", sys.executable)
    command = [PROGRAM, "quantize", "m.onnx", "-o", "q.onnx", "--calibration-data", "data", "--report", "r.json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "MatMul_1" in result.stdout and "dB beside the float model" in result.stdout
    assert len(json.loads((tmp_path / "r.json").read_text())["layers"]) == 2
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(tmp_path / "q.onnx").graph.node)
    for arguments, message in ((["m.onnx", "-o", "m.onnx"], "can't write 'm.onnx': it is the input 'm.onnx'"),
                               (["no.onnx", "-o", "q.onnx"], "can't open"),
                               (["m.onnx", "-o", "q.onnx"], "needs calibration data")):
        result = subprocess.run([PROGRAM, "quantize", *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 2 and message in result.stderr


def test_files_are_written_whole_or_not_at_all(tmp_path):
    import errno

    from treadle import _outputs

    def fail(file):
        file.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(treadle.error.RuntimeError, match="can't write '.*q.onnx': No space left on device"):
        _outputs.write(tmp_path / "q.onnx", fail)
    assert list(tmp_path.iterdir()) == []
    _outputs.write(tmp_path / "q.onnx", lambda file: file.write_bytes(b"all"))
    assert [file.name for file in tmp_path.iterdir()] == ["q.onnx"]


@pytest.mark.parametrize("output, text", [
    ("m.onnx", "can't write '.*m.onnx': it is the input"), ("nodir/q.onnx", "there is no folder"), ("folder", "it is a directory"),
    ("m.so", "a quantised model is called .onnx"), ("", "the path is empty"),
])
def test_outputs_are_checked_before_anything_is_computed(tmp_path, output, text):
    onnx.save(layers(), tmp_path / "m.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(treadle.Error, match=text):
        treadle.quantize(tmp_path / "m.onnx", f"{tmp_path}/{output}" if output else "", mode="dynamic")


@pytest.mark.parametrize("name, content, exit_code, text", [
    ("none.onnx", None, 2, "can't open none.onnx"), ("empty.onnx", b"", 4, "empty.onnx: the file is empty"),
    ("text.onnx", b"hello", 4, "text.onnx: the file is text, not an ONNX model"),
    ("folder", None, 4, "can't read folder: it is a directory"),
])
def test_inputs_that_are_no_models_are_named(tmp_path, name, content, exit_code, text):
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = subprocess.run([sys.executable, "-m", "treadle.quantization", name, "-o", "q.onnx", "--dynamic"], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == exit_code and done.stderr.startswith(f"error: {text}"), done.stderr


def test_models_without_layers_to_quantise_are_reported(tmp_path):
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in "xy")
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert treadle.quantize(model, mode="dynamic").text() == "nothing was quantised: the model has no product with constant weights"
