# SPDX-License-Identifier: Apache-2.0
"""Expressions of TVMScript: Python's syntax trees evaluated to expressions of loop-level code, and to plain values."""
import ast
import inspect
from typing import Any

from ..error import Error
from ..ir import IntImm, PrimExpr, Range
from ..tir import Buffer, StringImm, Var, const, decl_buffer
from ..tir.expr import EqualOp, _api, as_expr
from ..tir.stmt import _api as _stmts

_BUILTINS = {"range": range, "min": min, "max": max, "len": len, "int": int, "float": float, "abs": abs, "True": True,
             "False": False, "None": None}
_OPERATORS = {ast.Add: "_OpAdd", ast.Sub: "_OpSub", ast.Mult: "_OpMul", ast.Div: "_OpDiv", ast.FloorDiv: "_OpFloorDiv",
              ast.Mod: "_OpFloorMod", ast.Pow: "_OpPow", ast.LShift: "left_shift", ast.RShift: "right_shift",
              ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"}
_PLAIN = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
          ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b}
_COMPARISONS = {ast.Eq: "_OpEQ", ast.NotEq: "_OpNE", ast.Lt: "_OpLT", ast.LtE: "_OpLE", ast.Gt: "_OpGT",
                ast.GtE: "_OpGE"}
_MISTAKES = (Error, TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


class ScriptError(Error):
    """A mistake in a script: `line` and `column` (from 1) of `filename`."""

    def __init__(self, message: str, filename: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.filename, self.line, self.column = filename, line, column


class Source:
    """A text, and where it comes from."""

    def __init__(self, text: str, filename: str = "<script>", first_line: int = 1, indent: int = 0) -> None:
        self.filename, self.first_line, self.indent, self._lines = filename, first_line, indent, text.splitlines()

    def fail(self, node: Any, message: str, cause: Any = None) -> None:
        """Raises the error of a place, with its line."""
        self.fail_at(node.lineno, node.col_offset, message, cause)

    def fail_at(self, row: int, offset: int, message: str, cause: Any = None) -> None:
        """As `fail`, of a row (from 1) and column (from 0) of the text."""
        line, column = row + self.first_line - 1, offset + self.indent + 1
        shown = self._lines[row - 1] if 0 < row <= len(self._lines) else ""
        raise ScriptError(f"{self.filename}:{line}:{column}: {message}\n  {shown}\n  {' ' * offset}^", self.filename, line,
                          column) from cause


def is_number(value: Any) -> bool:
    """Whether a value is one of Python's numbers."""
    return isinstance(value, (bool, int, float))


def is_pointer(value: Any) -> bool:
    """Whether a value is the address of elements, such as the data of a buffer."""
    return isinstance(value, Var) and getattr(value.type_annotation, "element_type", None) is not None


class Expressions:
    """Evaluates expressions. `words` is the module that scripts call T; `names` are what the surroundings of the script
    call by name; `trusted`: it may call them."""

    def __init__(self, source: Any, words: Any, names: Any, trusted: bool) -> None:
        self.source, self._words, self._trusted = source, words, trusted
        self._names = names
        self._scopes: list[dict[str, Any]] = [{}]
        self._owners: dict[Any, Any] = {}
        self._flat: dict[Any, Any] = {}  # pointer: the buffer that it is the data of; the same as one dimension

    def fail(self, node: Any, message: str, cause: Any = None) -> None:
        self.source.fail(node, message, cause)

    # Buffers as the memory behind them: T.load, T.store and A.data[i]

    def owned(self, buffer: Any) -> Any:
        """The buffer, which is known as the owner of its data from now on."""
        self._owners.setdefault(buffer.data, buffer)
        return buffer

    def flat(self, node: Any, pointer: Any) -> Any:
        """The buffer of one dimension over a pointer."""
        if isinstance(pointer, Buffer):
            pointer = pointer.data
        owner: Any = self._owners.get(pointer) if isinstance(pointer, Var) else None
        if owner is None:
            self.fail(node, f"{pointer!r} isn't the data of a buffer of this function")
        if len(owner.strides) > 0:
            self.fail(node, f"buffer {owner.name} has strides: read it by its indices")
        if pointer not in self._flat:
            size = as_expr(1)
            for each in owner.shape:
                size = size * each
            one = len(owner.shape) == 1 and (owner.elem_offset is None or owner.elem_offset == 0)
            self._flat[pointer] = owner if one else decl_buffer((size,), str(owner.dtype), owner.name, data=pointer,
                                                                elem_offset=owner.elem_offset)
        return self._flat[pointer]

    def mask(self, node: Any, predicate: Any) -> Any:
        """The condition of a load or store; None where it always holds."""
        predicate = as_expr(True if predicate is None else predicate)
        predicate = getattr(predicate, "value", predicate) if predicate._type_key() == "tir.Broadcast" else predicate
        if isinstance(predicate, IntImm) and predicate.value:
            return None
        if "x" in str(predicate.dtype):
            self.fail(node, "masks of vectors must be the same for all elements")
        return predicate

    def _load(self, node):
        """T.load(dtype, pointer, index, predicate)."""
        args, named = self.arguments(node)
        if not 3 <= len(args) <= 4 or not isinstance(args[0], str) or not set(named) <= {"predicate"}:
            self.fail(node, "expected T.load(dtype, pointer, index, predicate)")
        buffer = self.flat(node, args[1])
        load = _stmts.BufferLoad(buffer, [as_expr(args[2])])
        if str(load.dtype) != args[0]:
            self.fail(node, f"the element is {load.dtype}, not {args[0]}: buffer {buffer.name} holds {buffer.dtype}")
        predicate = self.mask(node, (args[3:] or [named.get("predicate")])[0])
        return load if predicate is None else self._words.if_then_else(predicate, load, const(0, args[0]))

    # Names

    def define(self, name: str, value: Any) -> None:
        """Gives a name a value in the current suite."""
        self._scopes[-1][name] = value

    def assigned(self, name: str) -> Any:
        """The value that the script gave a name, or None."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def word(self, node: Any) -> str | None:
        """The name after `T.` of a word of the script, such as "axis.remap"; None of anything else."""
        path = []
        while isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        if path and isinstance(node, ast.Name) and self.assigned(node.id) is None and self._names.get(
                node.id) is self._words:
            return ".".join(reversed(path))
        return None

    # Values

    def eval(self, node: Any) -> Any:
        """The value of an expression; mistakes name its place."""
        return self.dispatch("_", node, "")

    def dispatch(self, prefix: str, node: Any, kind: Any) -> Any:
        """What the method named after the node's class makes of it; mistakes name its place."""
        method: Any = getattr(self, f"{prefix}{type(node).__name__}", None)
        if method is None:
            self.fail(node, f"TVMScript has no {kind}{type(node).__name__}")
        try:
            return method(node)
        except ScriptError:
            raise
        except _MISTAKES as error:
            self.fail(node, str(error), error)

    def expr(self, node: Any, dtype: Any = None) -> Any:
        """The expression that a value is, or makes as a number."""
        value = self.eval(node)
        value = value.as_expr() if isinstance(value, EqualOp) else value
        if not is_number(value) and not isinstance(value, PrimExpr):
            what = f"buffer {value.name}" if isinstance(value, Buffer) else repr(value)
            self.fail(node, f"expected a scalar expression, not {what}")
        return self.typed(value, dtype) if dtype else as_expr(value)

    def typed(self, value: Any, dtype: Any) -> Any:
        """A Python number in a dtype; expressions as they are."""
        if not is_number(value):
            return as_expr(value)
        if isinstance(value, float) and not str(dtype).startswith(("float", "bfloat")):
            return as_expr(value)
        return _api._const(as_expr(value), str(dtype))

    def _Constant(self, node):
        if isinstance(node.value, (bytes, complex)) or node.value is ...:
            self.fail(node, f"TVMScript has no constants such as {node.value!r}")
        return node.value

    def _Name(self, node):
        value = self.assigned(node.id)
        if value is not None:
            return value
        if node.id in self._names:
            return self._names[node.id]
        if node.id in _BUILTINS:
            return _BUILTINS[node.id]
        self.fail(node, f"there is no '{node.id}'")

    def _Attribute(self, node):
        word = self.word(node)
        if word is not None:
            value = getattr(self._words, word, None) if word in self._words.__all__ else None
            if value is None or word in self._words.STATEMENTS:
                self.fail(node, f"there is no expression T.{word}")
            return value
        value = self.eval(node.value)
        if node.attr.startswith("_") or not (self._trusted or isinstance(value, (Buffer, PrimExpr))):
            self.fail(node, f"'{node.attr}' can't be reached here")
        return getattr(value, node.attr)

    def _Tuple(self, node):
        return tuple(self.eval(e) for e in node.elts)

    def _List(self, node):
        return [self.eval(e) for e in node.elts]

    def _Dict(self, node):
        return {self.eval(k): self.eval(v) for k, v in zip(node.keys, node.values)}

    def _pair(self, node, a, b):
        """Operands as expressions: a Python number takes the other's dtype."""
        for each in (a, b):
            if not is_number(each) and not isinstance(each, (PrimExpr, EqualOp)):
                what = f"buffer {each.name}" if isinstance(each, Buffer) else repr(each)
                self.fail(node, f"an operand is {what}; expected scalar expressions")
        a, b = (e.as_expr() if isinstance(e, EqualOp) else e for e in (a, b))
        return (self.typed(a, b.dtype) if is_number(a) else a), (self.typed(b, a.dtype) if is_number(b) else b)

    def _BinOp(self, node):
        a, b, kind = self.eval(node.left), self.eval(node.right), type(node.op)
        if kind not in _OPERATORS:
            self.fail(node, f"TVMScript has no operator {kind.__name__}")
        if is_number(a) and is_number(b):
            if kind not in _PLAIN:
                self.fail(node, "of two numbers, TVMScript has + - * / // and %")
            return _PLAIN[kind](a, b)
        return getattr(_api, _OPERATORS[kind])(*self._pair(node, a, b))

    def _UnaryOp(self, node):
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            return not value if is_number(value) else _api._OpNot(as_expr(value))
        if isinstance(node.op, ast.UAdd):
            return value
        if isinstance(node.op, ast.Invert):
            return ~value
        return -value if is_number(value) else _api._OpNeg(as_expr(value))

    def _BoolOp(self, node):
        combine = _api._OpAnd if isinstance(node.op, ast.And) else _api._OpOr
        result = self.expr(node.values[0])
        for each in node.values[1:]:
            result = combine(result, self.expr(each))
        return result

    def _Compare(self, node):
        values = [self.eval(e) for e in (node.left, *node.comparators)]
        result = None
        for op, a, b in zip(node.ops, values, values[1:]):
            if type(op) not in _COMPARISONS:
                self.fail(node, f"TVMScript has no comparison {type(op).__name__}")
            if is_number(a) and is_number(b):
                a = as_expr(a)
            one = getattr(_api, _COMPARISONS[type(op)])(*self._pair(node, a, b))
            result = one if result is None else _api._OpAnd(result, one)
        return result

    def _IfExp(self, node):
        condition = self.eval(node.test)
        if is_number(condition):
            return self.eval(node.body if condition else node.orelse)
        then, otherwise = self._pair(node, self.eval(node.body), self.eval(node.orelse))
        return self._words.if_then_else(condition, as_expr(then), as_expr(otherwise))

    def indices(self, node: Any) -> Any:
        """What is within the brackets of a subscript."""
        inner = node.slice
        return list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]

    def _Subscript(self, node):
        value = self.eval(node.value)
        value = self.flat(node, value) if is_pointer(value) else value
        if isinstance(value, Buffer):
            for each in self.indices(node):
                if isinstance(each, ast.Slice):
                    self.fail(each, "an element needs an index; slices are for regions, as in T.reads")
            return _stmts.BufferLoad(value, [self.expr(i) for i in self.indices(node)])
        if isinstance(value, self._words._BufferWord):
            return value[self.eval(node.slice)]
        if isinstance(value, PrimExpr) or not self._trusted and not isinstance(value, (tuple, list)):
            self.fail(node, "only buffers, tuples and lists have elements")
        return value[self.eval(node.slice)]

    def region(self, node: Any) -> Any:
        """The box of elements that A, A[i] or A[i, 0:n] names."""
        if not isinstance(node, ast.Subscript):
            buffer = self.eval(node)
            ranges = [Range.from_min_extent(const(0, str(d.dtype)), d) for d in buffer.shape] if isinstance(
                buffer, Buffer) else []
        else:
            buffer = self.eval(node.value)
            ranges = [self._range(each, d) for each, d in zip(self.indices(node), getattr(buffer, "shape", ()))]
            if isinstance(buffer, Buffer) and len(self.indices(node)) != len(buffer.shape):
                self.fail(node, f"buffer {buffer.name} has {len(buffer.shape)} dimensions, the region "
                                f"{len(self.indices(node))}")
        if not isinstance(buffer, Buffer):
            self.fail(node, f"expected a region of a buffer, not {buffer!r}")
        return _stmts.BufferRegion(buffer, ranges)

    def _range(self, node, dimension):
        if not isinstance(node, ast.Slice):
            low = self.expr(node)
            return Range.from_min_extent(low, const(1, str(low.dtype)))
        if node.step is not None:
            self.fail(node, "regions have no steps")
        low = self.expr(node.lower) if node.lower else const(0, str(dimension.dtype))
        return Range.from_min_extent(low, extent_of(low, self.expr(node.upper) if node.upper else dimension))

    def arguments(self, node: Any) -> tuple[Any, Any]:
        """The positional and the named arguments of a call."""
        for each in node.args:
            if isinstance(each, ast.Starred):
                self.fail(each, "TVMScript has no starred arguments")
        for each in node.keywords:
            if each.arg is None:
                self.fail(each.value, "TVMScript has no starred arguments")
        return [self.eval(a) for a in node.args], {k.arg: self.eval(k.value) for k in node.keywords}

    def _Call(self, node):
        if self.word(node.func) in ("Let", "load"):
            return self._let(node) if node.func.attr == "Let" else self._load(node)
        function = self.eval(node.func)
        if not callable(function):
            self.fail(node, f"{function!r} can't be called")
        if isinstance(node.func, ast.Name) and function not in _BUILTINS.values() and not self._trusted:
            self.fail(node, f"'{node.func.id}' can't be called here")
        args, named = self.arguments(node)
        args = [a.as_expr() if isinstance(a, EqualOp) else a for a in args]
        if "dtype" in named and isinstance(node.func, ast.Attribute) and callable(function):
            return self._typed_call(node, function, args, named)
        return function(*args, **named)

    def _typed_call(self, node, function, args, named):
        """A call with dtype=, which intrinsics of older scripts end with: T.exp(x, dtype="float32")."""
        names = list(inspect.signature(function).parameters)
        if names[:1] == ["dtype"] and len(args) > 0:
            return function(named.pop("dtype"), *args, **named)
        if "dtype" in names:
            return function(*args, **named)
        dtype = str(named.pop("dtype"))
        result = function(*args, **named)
        if isinstance(result, PrimExpr) and str(result.dtype) != dtype:
            self.fail(node, f"dtype is {dtype}, but the result of {node.func.attr} is {result.dtype}")
        return result

    def _let(self, node):
        where = node.keywords[0].value if len(node.keywords) == 1 and node.keywords[0].arg == "where" else None
        if len(node.args) != 1 or not isinstance(where, ast.Dict) or len(where.keys) != 1 or not isinstance(
                where.keys[0], ast.Name):
            self.fail(node, "expected T.Let(body, where={name: value})")
        value = self.expr(where.values[0])
        variable = Var(where.keys[0].id, str(value.dtype))
        self._scopes.append({where.keys[0].id: variable})
        body = self.expr(node.args[0])
        self._scopes.pop()
        return _api.Let(variable, value, body)


def extent_of(low: float, high: float) -> Any:
    """How many integers lie in [low, high)."""
    difference = _api._OpSub(high, low)
    if isinstance(difference, IntImm):
        return difference
    from ..arith import Analyzer

    return Analyzer().simplify(difference)


def annotation(value: Any) -> Any:
    """What an annotation of a loop or block holds."""
    return _api.StringImm(value) if isinstance(value, StringImm) else value if isinstance(value, str) else as_expr(value)
