# SPDX-License-Identifier: Apache-2.0
"""Type stubs of the graph IR's operators (python/treadle/relay/op/*.pyi), whose functions are made from their declarations:
PYTHONPATH=build/python .venv/bin/python tools/docs/op_stubs.py"""
import inspect
import keyword
import pathlib
import textwrap
import typing

from treadle import relay
from treadle._dtype import DataType
from treadle.ir import Op
from treadle.ir.base import _api
from treadle.relay.op import _make

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python/treadle/relay/op"
MODULES = ("annotation", "dyn", "image", "memory", "nn", "qnn", "random", "tensor", "vision", "vm")
HEAD = '''# SPDX-License-Identifier: Apache-2.0
# Written by tools/docs/op_stubs.py.
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from treadle._typing import DTypeLike, ExprLike
from treadle.relay.expr import Expr, TupleWrapper

Sizes = int | Expr | Sequence[int | Expr]

'''
# Functions written in Python without an annotation of what they give, which isn't one value.
RESULTS = {"get_valid_counts": "TupleWrapper", "all_class_non_max_suppression": "TupleWrapper",
           "non_max_suppression": "Expr | TupleWrapper", "sparse_reshape": "TupleWrapper"}
# Of attributes that are None when they aren't given.
OF_NONE = {"channels": "int | None", "units": "int | None", "num_segments": "int | None", "kernel_size": "Sizes | None",
           "axis": "int | Sequence[int] | None", "axes": "Sequence[int] | None"}


def of_default(default):
    """What an argument takes, by what it is when it isn't given."""
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, DataType):
        return "DTypeLike"
    if isinstance(default, int):
        return "int"
    if isinstance(default, float):
        return "float"
    if isinstance(default, str):
        return "str"
    if isinstance(default, tuple) and all(isinstance(item, (int, relay.Expr)) for item in default):
        return "Sizes"
    return "Any"


def shown(default):
    """Literals as they are; what else there is stands in the documentation."""
    simple = isinstance(default, (bool, int, str, type(None))) or (
        isinstance(default, tuple) and all(type(item) is int for item in default))
    return repr(default) if simple else "..."


def annotation_of(parameter, operands, defaults):
    if parameter.annotation is not parameter.empty:
        given = parameter.annotation
        return given if isinstance(given, str) else getattr(given, "__name__", "Any")
    if parameter.default is None and parameter.name.endswith("dtype"):
        return "DTypeLike | None"
    if parameter.name in operands:
        return "ExprLike"
    default = getattr(defaults, parameter.name, None) if parameter.default is parameter.empty else parameter.default
    return OF_NONE.get(parameter.name, "Any") if default is None else of_default(default)


def parameters_of(signature, operands, defaults=None):
    for parameter in signature.parameters.values():
        name = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "") + parameter.name
        text = f"{name}: {annotation_of(parameter, operands, defaults)}"
        if parameter.default is not parameter.empty:
            text += f" = {shown(parameter.default)}"
        elif (defaults is not None and parameter.name in OF_NONE and parameter.name not in operands
              and getattr(defaults, parameter.name, 0) is None):
            text += " = None"  # not required: TVM's nn.dense(data, weight)
        yield text


def result_of(name):
    """Several results are a TupleWrapper; how many there are may be for the attributes to say."""
    info = _make.op_info(name)
    if info.required:
        return "Expr" if not name.endswith("split") else "TupleWrapper"
    return "TupleWrapper" if _api.OpNumResults(Op.get(name), info.defaults) else "Expr"


def function(prefix, name, value, own):
    """The stub of one function. own: it is written in Python, not made from an operator's declaration."""
    signature, defaults = inspect.signature(value), None
    if own:
        # Those that aren't annotated pass what they don't name to an operator.
        operands = {p.name for p in signature.parameters.values() if p.default is p.empty and p.annotation is p.empty
                    and p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in ("dtype", "shape", "indices_or_sections")}
        result = RESULTS.get(name, "NoReturn" if value.__module__.endswith("_refused") else "Expr")
        if signature.return_annotation is not signature.empty:
            result = signature.return_annotation
    else:
        info = _make.op_info(prefix + name)
        operands, defaults, result = {*info.arguments, "operand"}, info.defaults, result_of(prefix + name)
    lines = [f"def {name}("]
    for item in (*parameters_of(signature, operands, defaults), None):
        lines[-1] += "" if item is None or lines[-1].endswith("(") else ","
        text = f") -> {result}:" if item is None else item if lines[-1].endswith("(") else " " + item
        if len(lines[-1] + text) < 120:
            lines[-1] += text
        else:
            lines.append(" " * 8 + text.strip())
    doc = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\\", "\\\\").replace('"""', "'''")
    doc = " ".join(doc.split())
    lines += textwrap.wrap(f'"""{doc}{" " if doc.endswith(chr(34)) else ""}"""', 112, initial_indent="    ",
                           subsequent_indent="    ") if doc else ["    ..."]
    return "\n".join(lines) + "\n"


def stub(module):
    namespace = getattr(relay.op, module)
    functions = typing.cast(dict, namespace._functions)
    texts = []
    for name in dir(namespace):
        value = getattr(namespace, name)
        if keyword.iskeyword(name) or name.startswith("_"):
            continue
        if not callable(value):
            texts.append(f"{name}: ModuleType\n")
            continue
        texts.append(function(namespace._prefix, name, value, name in functions))
    if module == "qnn":
        texts.append("from treadle.relay.op import qnn as op  # noqa: E402, F401 - relay.qnn.op.conv2d\n")
    return HEAD + "\n" + "\n".join(texts)


def main():
    for module in MODULES:
        (FOLDER / f"{module}.pyi").write_text(stub(module), encoding="utf-8")


if __name__ == "__main__":
    main()
