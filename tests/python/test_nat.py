# SPDX-License-Identifier: Apache-2.0
"""Natural numbers of relay.testing, and modules read from files."""
import pytest

import treadle as tvm
from treadle import relay
from treadle.relay.prelude import Prelude
from treadle.relay.testing import add_nat_definitions, count, make_nat_expr, make_nat_value


@pytest.fixture(name="prelude", scope="module")
def fixture_prelude():
    prelude = Prelude()
    add_nat_definitions(prelude)
    return prelude


def evaluate(prelude, expr):
    module = tvm.IRModule(dict(prelude.mod.functions.items()), dict(prelude.mod.type_definitions.items()))
    return relay.create_executor("debug", mod=module).evaluate(expr)


def test_functions_of_numbers(prelude):
    three, four = make_nat_expr(prelude, 3), make_nat_expr(prelude, 4)
    assert count(prelude, evaluate(prelude, three)) == 3
    assert count(prelude, evaluate(prelude, prelude.nat_double(three))) == 6
    assert count(prelude, evaluate(prelude, prelude.nat_add(three, four))) == 7
    assert count(prelude, evaluate(prelude, prelude.nat_iterate(prelude.nat_double, three)(four))) == 32


def test_values(prelude):
    assert count(prelude, make_nat_value(prelude, 1000)) == 1000
    for mistake in (lambda: make_nat_value(prelude, -1), lambda: count(prelude, 3)):
        with pytest.raises(tvm.Error, match="nat"):
            mistake()


def test_modules_of_files(tmp_path):
    assert "foldl" in tvm.IRModule.from_import("prelude.rly")
    path = tmp_path / "one.rly"
    path.write_text('#[version = "0.0.5"]\ndef @one(%x: int32) -> int32 { %x + 1 }\n')
    assert "one" in tvm.IRModule.from_import(str(path))
