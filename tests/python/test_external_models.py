# SPDX-License-Identifier: Apache-2.0
"""Whole models with libraries in place of Treadle's kernels: the same answers, on one and two threads."""
import onnxruntime
import pytest
import zoo

import treadle
from treadle import relay

CODEGENS = [name for name in ("dnnl", "cblas") if name in relay.external.list_codegens()]
CASES = {case.name: zoo.seeded_light_model(case).SerializeToString() for case in zoo.light_models()
         if any(name in case.name for name in ("resnet50", "shufflenet", "inception_v1"))}
SHAPES = {case.name: (case.shapes, case.inputs()) for case in zoo.light_models()}
for ocr in zoo.ocr_models():
    CASES[ocr.name], SHAPES[ocr.name] = ocr.bytes(), (ocr.shapes, ocr.inputs())

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("codegen", CODEGENS)
def test_models(name, codegen):
    data, (shapes, inputs) = CASES[name], SHAPES[name]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    expected = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, inputs)
    model = treadle.compile(data, shapes=shapes, external=codegen)
    for threads in (1, 2):
        model.threads = threads
        for got, wanted in zip(model.run(None, inputs), expected):
            difference = zoo.compare(got, wanted)
            assert difference is None, f"on {threads} threads: {difference}"
