# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings give what they say."""
import doctest
import importlib

import numpy as np
import onnx.parser
import pytest

import treadle


@pytest.fixture(scope="module")
def names():
    """What the examples of treadle.Model's methods use; the class's own docstring makes it."""
    relu = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    return {"model": treadle.compile(relu), "np": np, "treadle": treadle}


@pytest.mark.parametrize("module, least", [
    ("treadle.model", 10), ("treadle._nd", 5), ("treadle.runtime", 2), ("treadle.onnxruntime._session", 5),
    ("treadle.onnxruntime._values", 6)])
def test_examples_of_docstrings(names, module, least):
    found = doctest.testmod(importlib.import_module(module), extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0 and found.attempted >= least
