# SPDX-License-Identifier: Apache-2.0
"""Natural numbers as a data type: programs on them test recursion and matching."""
from typing import Any

from ...error import Error
from ..._values import ConstructorValue
from ..parser import parse

_DEFINITIONS = """#[version = "0.0.5"]
type nat {
  z,
  s(nat),
}

def @nat_double(%x: nat) -> nat {
  match (%x) {
    z => z,
    s(%y) => s(s(@nat_double(%y))),
  }
}

def @nat_add(%x: nat, %y: nat) -> nat {
  match (%x) {
    z => %y,
    s(%rest) => s(@nat_add(%rest, %y)),
  }
}

def @nat_iterate[A](%f: fn (A) -> A, %n: nat) -> fn (A) -> A {
  match (%n) {
    z => fn (%x: A) -> A { %x },
    s(%rest) => fn (%x: A) -> A { %f(@nat_iterate(%f, %rest)(%x)) },
  }
}
"""


def add_nat_definitions(prelude: Any) -> None:
    """Adds the type nat and nat_double, nat_add and nat_iterate to the prelude's module; all are its attributes."""
    if "nat_add" not in prelude.mod:
        prelude.mod.update(parse(_DEFINITIONS, "nat"))
    prelude.nat, prelude.z, prelude.s = prelude.mod.get_type("nat")


def _number(n):
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise Error(f"a natural number is an int from 0, not {n!r}")
    return n


def make_nat_value(prelude: Any, n: int) -> Any:
    """The value of type nat that stands for `n`."""
    value = ConstructorValue(prelude.z)
    for _ in range(_number(n)):
        value = ConstructorValue(prelude.s, value)
    return value


def make_nat_expr(prelude: Any, n: int) -> Any:
    """The expression of type nat that stands for `n`."""
    expr = prelude.z()
    for _ in range(_number(n)):
        expr = prelude.s(expr)
    return expr


def count(prelude: Any, n: Any) -> Any:
    """The int that a value of type nat stands for."""
    result = 0
    while True:
        if not isinstance(n, ConstructorValue):
            raise Error(f"count: expected a value of type nat, not {n!r}")
        if n.constructor.name_hint == prelude.z.name_hint and len(n.fields) == 0:
            return result
        if n.constructor.name_hint != prelude.s.name_hint:
            raise Error(f"count: expected a value of type nat, not one of {n.constructor.name_hint}")
        result, n = result + 1, n.fields[0]
