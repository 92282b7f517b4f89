# SPDX-License-Identifier: Apache-2.0
"""Operators and their properties."""
from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from .._ffi import register_object
from .base import _api
from .expr import RelayExpr


@register_object("Op")
class Op(RelayExpr):
    """An operator."""

    @staticmethod
    def get(name: str) -> Op:
        """The operator called `name`."""
        return _api.GetOp(name)

    @staticmethod
    def list_op_names() -> list[str]:
        return list(_api.ListOpNames())

    @property
    def description(self) -> str:
        return _api.OpDescription(self)

    @property
    def num_inputs(self) -> int:
        """How many operands it takes; -1: any number."""
        return _api.OpNumInputs(self)

    @property
    def support_level(self) -> int:
        return _api.OpSupportLevel(self)

    def add_type_rel(self, rel_name: str, type_rel_func: Callable[[list, Any], Any] | None = None) -> None:
        """How the type of a result follows: type_rel_func(types of the operands, attrs) -> type, or None where it must
        know more. Without a function one of the relations that operators share: Identity, Broadcast, BroadcastComp."""
        if type_rel_func is None:
            if rel_name not in _SHARED_RELATIONS:
                raise ValueError(f"there is no type relation {rel_name!r}; without a function there are: "
                                 f"{', '.join(sorted(_SHARED_RELATIONS))}")
            _api.OpShareTypeRel(self, _SHARED_RELATIONS[rel_name])
            return
        if not callable(type_rel_func):
            raise TypeError(f"type relation {rel_name} of {self.name}: expected a function")
        _api.OpAddTypeRel(self, lambda types, attrs: type_rel_func(list(types), attrs))

    def add_argument(self, name: str, type: str, description: str) -> None:  # pylint: disable=redefined-builtin
        """Documents an operand."""
        _api.OpAddArgument(self, name, type, description)

    def set_num_inputs(self, n: int) -> None:
        """How many operands it takes; -1: any number."""
        _api.OpSetNumInputs(self, int(n))

    def set_support_level(self, level: int) -> None:
        _api.OpSetSupportLevel(self, int(level))

    def set_attrs_type_key(self, key: str) -> None:
        """The class of its attributes: only "DictAttrs", any, as calls state them."""
        if key != "DictAttrs":
            raise ValueError(f"operators that Python registers have attributes of class DictAttrs, not {key}")

    def has_attr(self, attr_name: str) -> bool:
        attr_name = _same_key(attr_name)
        if attr_name in attribute_keepers:
            return attribute_keepers[attr_name].get(self.name) is not None
        return (self.name, attr_name) in _own_attrs or bool(_api.OpHasAttr(self, attr_name))

    def get_attr(self, attr_name: str) -> Any:
        """A property that is a number (TOpPattern, ...), or a rule that Python set; None where there is none."""
        attr_name = _same_key(attr_name)
        if attr_name in attribute_keepers:
            return attribute_keepers[attr_name].get(self.name)
        rule = _op_rules.get((self.name, attr_name))
        if rule is not None:
            return rule
        if (self.name, attr_name) in _own_attrs:
            return _own_attrs[self.name, attr_name][0]
        value = _api.OpGetNumber(self, attr_name)
        return None if value is None else int(value)

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        """Sets a property or rule: see register_op_attr."""
        attr_name = _same_key(attr_name)
        if attr_name in attribute_keepers:
            attribute_keepers[attr_name].set(self.name, value, plevel)
        elif attr_name not in _KNOWN and not difflib.get_close_matches(attr_name, _KNOWN, 1, 0.7):
            known = _own_attrs.get((self.name, attr_name))
            if known is None or plevel >= known[1]:
                _own_attrs[self.name, attr_name] = (value, plevel)
        elif callable(value):
            rule = _layout_rule(value) if attr_name == "FTVMAlterOpLayout" else value
            _api.RegisterOpRule(self.name, attr_name, rule, plevel)
            _op_rules[self.name, attr_name] = value
        else:
            _api.RegisterOpNumber(self.name, attr_name, int(value), plevel)
            _op_rules.pop((self.name, attr_name), None)

    def reset_attr(self, attr_name: str) -> None:
        """Takes a property away."""
        attr_name = _same_key(attr_name)
        if attr_name in attribute_keepers:
            attribute_keepers[attr_name].reset(self.name)
            return
        _op_rules.pop((self.name, attr_name), None)
        if _own_attrs.pop((self.name, attr_name), None) is None:
            _api.OpResetAttr(self, attr_name)


def _same_key(name):
    """Legalize runs before the operators of qnn become plain ones: one rule does for both."""
    return "FTVMLegalize" if name == "FTVMQnnLegalize" else name


_SHARED_RELATIONS = {"Identity": "exp", "Broadcast": "add", "BroadcastComp": "less"}  # name -> an operator that has it


class AttributeKeeper:
    """Where an attribute of operators is kept, when not in the registry: get(op), set(op, value, level), reset(op)."""

    def __init__(self, get: Callable[[str], Any], set: Callable[[str, Any, int], Any], reset: Callable[[str], Any]) -> None:  # pylint: disable=redefined-builtin
        self.get, self.set, self.reset = get, set, reset


attribute_keepers: dict[str, AttributeKeeper] = {}
_op_rules: dict = {}
_own_attrs: dict = {}  # of keys that only users' own passes read: (operator, key) -> (value, level)
_KNOWN = ("FTVMLegalize", "FTVMAlterOpLayout", "FTVMMixedPrecisionConversionType", "FTVMQnnLegalize",
          "FTVMQnnCanonicalize", "FTVMFakeQuantizationToInteger", "FTVMStrategy", "FTVMCompute", "FTVMSchedule", "FShapeFunc",
          "FPrimalGradient", "FVirtualDevice", "TOpPattern", "TOpIsStateful", "TNonComputational", "TReshapeOp",
          "TShapeDataDependent", "TCallEffectKind")


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Sets a property of an operator; without a value a decorator.

    FTVMLegalize (also called FTVMQnnLegalize), FTVMAlterOpLayout: functions (attrs, args, types) -> expression or None, which rewrite its calls.
    target.<compiler>: whether an external code generator takes a call: a bool, or a function of the call (or of its
    attributes and operands) that returns a bool, or a text: the reason why not.
    TOpPattern, TOpIsStateful, TNonComputational, FTVMMixedPrecisionConversionType: numbers.
    TCallEffectKind of an intrinsic such as "tir.mylog": makes it known; 0 and 1 say that it is a function of its
    operands. What it computes a rule says (register_intrin_lowering).
    Other keys, which aren't near any of these: any value, for passes of one's own, which get_attr gives back; of several
    values the one of highest level holds.
    """

    def register(value):
        if str(op_name).startswith("tir."):
            _api.RegisterIntrinsic(op_name, attr_key == "TCallEffectKind" and value in (0, 1))
        elif attr_key.startswith("target."):
            _api.RegisterOpAttr(str(op_name), attr_key, _predicate(value))
        else:
            Op.get(op_name).set_attr(attr_key, value, level)
        return value

    return register if value is None else register(value)


def _layout_rule(value):
    """A rule (attrs, args, types) of one (attrs, inputs, tinfos, out_type), as TVM's hooks are."""
    import inspect

    if len(inspect.signature(value).parameters) != 4:
        return value
    return lambda attrs, args, types: value(attrs, args, list(types)[:-1], list(types)[-1])


def _predicate(value):
    """The predicate of an external code generator as a function of the call: 0, 1 or the reason of a refusal."""
    if not callable(value):
        return lambda call: int(bool(value))
    takes = value
    if len(inspect.signature(value).parameters) == 2:
        takes = lambda call: value(call.attrs, call.args)  # noqa: E731

    def answer(call):
        result = takes(call)
        return result if isinstance(result, str) else int(bool(result))

    return answer
