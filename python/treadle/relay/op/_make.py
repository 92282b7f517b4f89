# SPDX-License-Identifier: Apache-2.0
"""Functions that make calls of operators, from the operators' own declarations."""
import functools
import inspect

import numpy as np

from ..._arguments import suggest
from ...error import Error
from ...ir import Op, RelayExpr, make_attrs
from ...ir.base import _api
from ..expr import Call, Constant, Expr, Function, Tuple, TupleWrapper, as_expr

_SPATIAL = ("strides", "kernel_size", "dilation", "pool_size", "output_padding")


def _normalise(name, values):
    """Short forms of attributes: one number for all spatial dimensions."""
    rank = next((rank for rank in (1, 2, 3) if f"{rank}d" in name), None)
    if rank is None:
        return values
    for key in (*_SPATIAL, "size", "output_size"):
        if isinstance(values.get(key), int):
            values[key] = [values[key]] * rank
    padding = values.get("padding")
    if isinstance(padding, int):
        values["padding"] = [padding] * (2 * rank)
    elif isinstance(padding, (list, tuple)):
        if len(padding) == 1:
            values["padding"] = list(padding) * (2 * rank)
        elif len(padding) == rank:
            values["padding"] = list(padding) * 2
    return values


class OpInfo:
    """What an operator declares of itself."""

    def __init__(self, name):
        inputs, attrs_type, arguments, attributes, argument_docs, attribute_docs, defaults, required = _api.OpInfo(name)
        self.name, self.inputs, self.attrs_type = name, int(inputs), attrs_type
        self.arguments, self.attributes = list(arguments), list(attributes)
        self.argument_docs, self.attribute_docs = list(argument_docs), list(attribute_docs)
        self.required = set(required)
        self.defaults = defaults

    def default(self, attribute):
        """The value that an attribute has when it isn't given."""
        if self.defaults is None or attribute in self.required:
            return inspect.Parameter.empty
        value = getattr(self.defaults, attribute)
        return value if isinstance(value, (int, float, str, bool, type(None), tuple)) else _Shown(value)

    def signature(self):
        parameters = [inspect.Parameter(_identifier(name), inspect.Parameter.POSITIONAL_OR_KEYWORD)
                      for name in self.arguments]
        taken = {parameter.name for parameter in parameters}
        for name in self.attributes:
            if name not in taken:
                parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                    default=self.default(name)))
        # Attributes without a default may follow those with one; keywords they are then.
        seen_default = False
        for i, parameter in enumerate(parameters):
            seen_default = seen_default or parameter.default is not inspect.Parameter.empty
            if seen_default and parameter.default is inspect.Parameter.empty:
                parameters[i] = parameter.replace(default=None)
        return inspect.Signature(parameters)

    def doc(self):
        lines = [Op.get(self.name).description or f"Calls {self.name}.", ""]
        for name, text in zip(self.arguments, self.argument_docs):
            lines.append(f"{name}: {text}".rstrip(": "))
        shown = set(self.arguments)
        lines += [f"{name}: {text}".rstrip(": ") for name, text in zip(self.attributes, self.attribute_docs)
                  if name not in shown]
        return "\n".join(lines).rstrip()


class _Shown:
    """A default that isn't a Python literal."""

    def __init__(self, value):
        self._text = str(value)

    def __repr__(self):
        return self._text


def _identifier(name):
    return name if name.isidentifier() else "operand"


def operand(value):
    """An expression: numbers and arrays become constants, sequences tuples."""
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (list, tuple)):
        return Tuple([operand(item) for item in value])
    return as_expr(value)


def call_op(name, tensors, attrs=None):
    """A call of an operator with operands and attributes by name; several results are indexable."""
    attrs = _normalise(name, dict(attrs or {}))
    info = op_info(name)
    if name.startswith("dyn."):  # what the operands say isn't an attribute
        for attribute in info.required:
            attrs.setdefault(attribute, getattr(info.defaults, attribute))
    # None stands for the default, where that isn't None itself; "" for the type that follows from the operands.
    attrs = {key: value for key, value in attrs.items()
             if value is not None or key in info.required or getattr(info.defaults, key, None) is None}
    attrs = {key: value for key, value in attrs.items() if value != "" or str(getattr(info.defaults, key, "")) != "void"}
    op, attrs = Op.get(name), make_attrs(info.attrs_type, attrs, name)
    result = Call(op, [operand(tensor) for tensor in tensors], attrs)
    size = _api.OpNumResults(op, attrs)
    return TupleWrapper(result, size) if size else result


@functools.lru_cache(maxsize=None)
def op_info(name):
    return OpInfo(name)


@functools.lru_cache(maxsize=None)
def make(name):
    """The function that makes calls of the operator `name`: tensors first, then attributes by position or name."""
    info = op_info(name)

    def call(*args, **kwargs):
        values, tensors = list(args), []
        if info.inputs < 0:
            while values and isinstance(values[0], (RelayExpr, TupleWrapper)):
                tensors.append(values.pop(0))
        else:
            for i in range(info.inputs):
                if values:
                    tensors.append(values.pop(0))
                elif i < len(info.arguments) and info.arguments[i] in kwargs:
                    tensors.append(kwargs.pop(info.arguments[i]))
                else:
                    raise Error(f"{name} takes {info.inputs} operands ({', '.join(info.arguments)}), got {len(tensors)}")
        if len(values) > len(info.attributes):
            raise Error(f"{name} has {len(info.attributes)} attributes, got {len(values)} values")
        named = dict(zip(info.attributes, values))
        for key, value in kwargs.items():
            if key in named:
                raise Error(f"{name} got the attribute '{key}' twice")
            named[key] = value
        return call_op(name, tensors, named)

    call.__name__ = call.__qualname__ = name.rsplit(".", 1)[-1]
    call.__doc__ = info.doc()
    call.__signature__ = info.signature()
    return call


def known(value):
    """A constant's elements as Python numbers where `value` is a Constant; the list of a sequence; else `value`."""
    if isinstance(value, Constant):
        return value.data.numpy().tolist()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def is_dynamic(value):
    """Whether a value is computed by the graph."""
    return isinstance(value, (Expr, TupleWrapper)) and not isinstance(value, (Constant, Function))


class OpNamespace:
    """The operators whose names start with a prefix, as functions: OpNamespace("nn.").relu."""

    def __init__(self, prefix, functions=None):
        self._prefix, self._functions = prefix, dict(functions or {})
        self.__doc__ = f"Operators {prefix}*."
        self.__name__ = prefix.rstrip(".")

    def __getattr__(self, name):
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]
        if name.startswith("__") or not _api.HasOp(self._prefix + name):
            known = () if name.startswith("__") else (self._prefix + each for each in dir(self))
            raise AttributeError(f"no operator '{self._prefix}{name}'" + suggest(self._prefix + name, known))
        return make(self._prefix + name)

    def __dir__(self):
        names = {name[len(self._prefix):] for name in Op.list_op_names()
                 if name.startswith(self._prefix) and not name.startswith("tir.")}
        return sorted(name for name in {*names, *self._functions} if "." not in name)
