# SPDX-License-Identifier: Apache-2.0
"""Whole models against ONNX Runtime: rtol 1e-3, atol 1e-5 of the output's range, on one and two threads."""
import numpy as np
import onnxruntime
import pytest
import zoo

import treadle

LIGHT = zoo.light_models()
OCR = zoo.ocr_models()
# Networks whose weights are all equal answer the same to everything; these have random ones in their place.
SEEDED = [case for case in LIGHT if any(name in case.name for name in ("resnet50", "squeezenet", "shufflenet",
                                                                        "inception_v1", "alexnet"))]


def reference(data, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def check(data, shapes, inputs):
    model = treadle.compile(data, shapes=shapes)
    expected = reference(data, inputs)
    for threads in (1, 2):
        context = model.create_context(threads=threads)
        actual = list(context(**inputs).values()) if all(name.isidentifier() for name in inputs) else model.run(None, inputs)
        assert len(actual) == len(expected)
        for output, got, wanted in zip(model.outputs, actual, expected):
            difference = zoo.compare(got, wanted)
            assert difference is None, f"output {output.name} on {threads} threads: {difference}"


@pytest.mark.parametrize("case", LIGHT, ids=lambda case: case.name)
def test_light_models(case):
    check(case.bytes(), case.shapes, case.inputs())


@pytest.mark.parametrize("case", SEEDED, ids=lambda case: case.name)
def test_light_models_with_random_weights(case):
    check(zoo.seeded_light_model(case).SerializeToString(), case.shapes, case.inputs())


@pytest.mark.parametrize("case", OCR, ids=lambda case: case.name)
def test_text_recognition_models(case):
    check(case.bytes(), case.shapes, case.inputs())


@pytest.mark.parametrize("case", zoo.generated_models(), ids=lambda case: case.name)
def test_generated_models(case):
    check(case.bytes(), case.shapes, case.inputs())


def test_older_processors_can_be_targeted():
    case = next(case for case in zoo.generated_models() if case.name == "mlp")
    model = treadle.compile(case.bytes(), target="llvm -mcpu=x86-64-v2")
    inputs = case.inputs()
    assert zoo.compare(model.run(None, inputs)[0], reference(case.bytes(), inputs)[0]) is None
    assert "avx2" not in model.manifest["cpu_features"]


def test_exported_models_give_equal_results(tmp_path):
    case = next(case for case in zoo.generated_models() if case.name == "mlp")
    inputs = case.inputs()
    model = treadle.compile(case.bytes())
    model.export_library(tmp_path / "m.so")
    loaded = treadle.load(tmp_path / "m.so", threads=1)
    np.testing.assert_array_equal(loaded(**inputs)[loaded.outputs[0].name], model(**inputs)[model.outputs[0].name])


def test_models_run_from_many_threads_at_once():
    import concurrent.futures

    case = next(case for case in zoo.generated_models() if case.name == "mlp")
    model = treadle.compile(case.bytes(), threads=1)
    inputs = [case.inputs(seed) for seed in range(8)]
    expected = [model.run(None, feed)[0] for feed in inputs]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for got, wanted in zip(pool.map(lambda feed: model.run(None, feed)[0], inputs), expected):
            np.testing.assert_array_equal(got, wanted)


def test_inference_session_is_a_drop_in():
    case = next(case for case in zoo.generated_models() if case.name == "mlp")
    session = treadle.InferenceSession(case.bytes())
    assert [(value.name, value.shape, value.type) for value in session.get_inputs()] == [
        ("data", [16, 1024], "tensor(float)")]
    result = session.run(None, case.inputs())
    assert zoo.compare(result[0], reference(case.bytes(), case.inputs())[0]) is None
