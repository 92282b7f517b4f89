# SPDX-License-Identifier: Apache-2.0
"""treadle.compile inside `with PassContext(...)`, and what a caller can't change or ask for."""
import numpy as np
import onnx.parser
import pytest

import treadle
from treadle.instrument import PassTimingInstrument
from treadle.transform import PassContext

MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y) {
    a = Relu(x)
    b = Exp(a)
    y = Neg(b)
}""")


def calls(**options):
    return len(treadle.compile(MODEL, **options).profile({"x": np.ones((2, 3), "float32")}))


def test_the_enclosing_context_says_what_is_not_given():
    assert calls() == 1
    with PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 1}):
        assert calls() == 3
        assert calls(pass_config={"relay.FuseOps.max_depth": 8}) == 1
        with PassContext(opt_level=3):
            assert calls() == 1
    with PassContext(opt_level=0):
        assert calls() == 3
        assert calls(opt_level=3) == 1
    assert calls() == 1


def test_passes_of_the_context_are_added():
    with PassContext(opt_level=3, disabled_pass=["FuseOps"]), pytest.raises(treadle.Error, match="operators should be fused"):
        treadle.compile(MODEL)


def test_what_a_context_has_that_compile_cannot_do_is_refused():
    for context, name in ((PassContext(instruments=[PassTimingInstrument()]), "the PassContext has instruments"),
                          (PassContext(config={"tir.add_lower_pass": []}), "option 'tir.add_lower_pass' isn't a number or text")):
        with context, pytest.raises(treadle.Error, match=name) as error:
            treadle.compile(MODEL)
        assert "help: relay.frontend.from_onnx and relay.build" in str(error.value)


def test_lists_of_inputs_and_outputs_are_the_callers():
    model = treadle.compile(MODEL)
    model.inputs.clear()
    model.outputs.append(None)
    assert [info.name for info in model.inputs + model.outputs] == ["x", "y"]
    assert model.run(None, {"x": np.zeros((2, 3), "float32")})[0].tolist() == [[-1] * 3] * 2


@pytest.mark.parametrize("make", [lambda: treadle.cpu(-1), lambda: treadle.device("cuda", -2), lambda: treadle.device("cpu:-1")])
def test_devices_are_numbered_from_0(make):
    with pytest.raises(treadle.Error, match="numbered from 0|expected NAME or NAME:NUMBER"):
        make()


@pytest.mark.parametrize("index", ["a", 1.5])
def test_numbers_of_devices_are_integers(index):
    with pytest.raises(treadle.DTypeError, match=f"^devices are numbered from 0: expected an int, got {index!r}$"):
        treadle.cpu(index)
