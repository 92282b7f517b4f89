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


def test_errors_show_the_place():
    with pytest.raises(treadle.Error, match=r"unknown variable %y\n --> from_string:1:21"):
        relay.parse("def @main(%x) { add(%y) }")


def test_json_round_trips():
    module = relay.parse(TEXT)
    assert treadle.ir.structural_equal(treadle.ir.load_json(treadle.ir.save_json(module)), module)
