# SPDX-License-Identifier: Apache-2.0
"""Functions that make calls of operators, from the operators' own declarations."""
import functools

from ..error import Error
from ..ir import Op, RelayExpr, _api, make_attrs
from .expr import Call, Tuple, TupleGetItem, as_expr

# Attributes of two spatial dimensions that may be given as one number.
_PAIRS = ("strides", "kernel_size", "dilation", "pool_size", "output_padding")
_RESULTS = {"split": None, "nn.batch_norm": 3, "nn.dropout": 2, "topk": None}


class TupleResult:
    """The result of an operator that returns several values: indexable, iterable, and usable as the tuple."""

    def __init__(self, call, size):
        self.call, self.size = call, size

    def astuple(self):
        return self.call

    astext = property(lambda self: self.call.astext)

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if not -self.size <= index < self.size:
            raise IndexError(f"result {index} of {self.size}")
        return TupleGetItem(self.call, index % self.size)

    def __iter__(self):
        return (self[i] for i in range(self.size))


def _normalise(name, values):
    """Short forms of attributes: one number for both spatial dimensions."""
    if "2d" in name:
        for key in _PAIRS:
            if isinstance(values.get(key), int):
                values[key] = [values[key]] * 2
        padding = values.get("padding")
        if isinstance(padding, int):
            values["padding"] = [padding] * 4
        elif isinstance(padding, (list, tuple)) and len(padding) == 2:
            values["padding"] = [padding[0], padding[1], padding[0], padding[1]]
    return values


def _result_size(name, attrs):
    if name == "split":
        sections = attrs.get("indices_or_sections")
        return sections if isinstance(sections, int) else len(sections) + 1
    if name == "topk":
        return 2 if attrs.get("ret_type", "both") == "both" else None
    return _RESULTS.get(name)


@functools.lru_cache(maxsize=None)
def make(name):
    """The function that makes calls of the operator `name`: tensors first, then attributes by position or name."""
    inputs, attrs_type, arguments, attributes = _api.OpInfo(name)
    inputs, arguments, attributes = int(inputs), list(arguments), list(attributes)

    def call(*args, **kwargs):
        values = list(args)
        tensors = []
        if inputs < 0:
            while values and isinstance(values[0], (RelayExpr, TupleResult)):
                tensors.append(values.pop(0))
        else:
            for i in range(inputs):
                if values:
                    tensors.append(values.pop(0))
                elif i < len(arguments) and arguments[i] in kwargs:
                    tensors.append(kwargs.pop(arguments[i]))
                else:
                    raise Error(f"{name} takes {inputs} operands ({', '.join(arguments)}), got {len(tensors)}")
        if len(values) > len(attributes):
            raise Error(f"{name} has {len(attributes)} attributes, got {len(values)} values")
        named = dict(zip(attributes, values))
        for key, value in kwargs.items():
            if key in named:
                raise Error(f"{name} got the attribute '{key}' twice")
            named[key] = value
        named = _normalise(name, named)
        size = _result_size(name, named)
        result = Call(Op.get(name), [_operand(tensor) for tensor in tensors], make_attrs(attrs_type, named, name))
        return result if size is None else TupleResult(result, size)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Calls {name}({', '.join(arguments)}); attributes: {', '.join(attributes) or 'none'}."
    return call


def _operand(value):
    if isinstance(value, TupleResult):
        return value.call
    if isinstance(value, (list, tuple)):
        return Tuple([_operand(item) for item in value])
    return as_expr(value)


class OpNamespace:
    """The operators whose names start with a prefix, as functions: OpNamespace("nn.").relu."""

    def __init__(self, prefix):
        self._prefix = prefix

    def __getattr__(self, name):
        if name.startswith("__") or not _api.HasOp(self._prefix + name):
            raise AttributeError(f"no operator '{self._prefix}{name}'")
        return make(self._prefix + name)

    def __dir__(self):
        return sorted(name[len(self._prefix):] for name in Op.list_op_names() if name.startswith(self._prefix))
