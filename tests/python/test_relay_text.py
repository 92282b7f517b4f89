# SPDX-License-Identifier: Apache-2.0
"""The text form of graph IR."""
import pytest

import treadle
from treadle import relay

TEXT = '''#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32] /* ty=Tensor[(2, 3), float32] */) -> Tensor[(2, 3), float32] {
  %0 = add(%x, 1f /* ty=float32 */) /* ty=Tensor[(2, 3), float32] */;
  nn.relu(%0) /* ty=Tensor[(2, 3), float32] */
}
'''


def test_text_round_trips():
    module = relay.parse(TEXT)
    assert module.astext() == TEXT
    assert treadle.ir.structural_equal(relay.parse(module.astext()), module)


@pytest.mark.parametrize("network", ["lstm", "dcgan", "mlp"])
def test_attributes_from_python_are_those_from_text(network):
    module = {"lstm": lambda: relay.testing.lstm.get_workload(2, 4), "dcgan": lambda: relay.testing.dcgan.get_workload(1),
              "mlp": lambda: relay.testing.mlp.get_workload(1)}[network]()[0]
    read = relay.parse(module.astext())
    assert treadle.ir.structural_difference(read, module) == ""
    assert str(relay.zeros((4, 8), "float32").attrs.shape[0].dtype) == "int64"


def test_errors_show_the_place():
    with pytest.raises(treadle.Error, match=r"unknown variable %y\n --> from_string:1:21"):
        relay.parse("def @main(%x) { add(%y) }")


def test_json_round_trips():
    module = relay.parse(TEXT)
    assert treadle.ir.structural_equal(treadle.ir.load_json(treadle.ir.save_json(module)), module)


def test_strings_are_text_or_refused():
    with pytest.raises(treadle.Error, match="unexpected byte 0"):
        relay.parse("def @main() { 1 }\0")
    with pytest.raises(treadle.DTypeError, match="surrogates"):
        relay.parse('def @main(s="\ud800") { 1 }')
    module = relay.parse('def @main(s="\\xff") { 1 }')
    assert 's="\\xff"' in module.astext()


def test_operators_as_values_survive_json():
    module = relay.parse("def @main(%x: float32) { let %f = add; %f(%x, %x) }")
    again = treadle.ir.load_json(treadle.ir.save_json(module))
    assert treadle.ir.structural_equal(again, module)
    assert relay.transform.InferType()(again).astext() == module.astext()


def test_operators_as_values_are_evaluated_with_default_attributes():
    module = relay.parse("def @main(%x: Tensor[(2), float32]) { let %f = nn.softmax; %f(%x) }")
    result = relay.create_executor("debug", mod=module).evaluate()(treadle.nd.array([1.0, 1.0]).numpy().astype("float32"))
    assert result.numpy().tolist() == [0.5, 0.5]


def test_meta_table():
    text = "def @main() { meta[relay.Constant][0] }"
    module = treadle.parser.parse(text, init_meta_table={"relay.Constant": [relay.const([1, 2])]})
    assert module["main"].body.data.numpy().tolist() == [1, 2]
    with pytest.raises(treadle.ModelFormatError, match="of its own"):
        relay.parse(module.astext(), init_meta_table={"relay.Constant": [relay.const([1, 2])]})
