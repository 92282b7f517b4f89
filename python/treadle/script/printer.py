# SPDX-License-Identifier: Apache-2.0
"""TVMScript's text of loop-level functions: Python that `treadle.script` parses back."""
import keyword
import math
import re
from typing import Any

import numpy as np

from ..error import Error
from ..ir import FloatImm, IntImm, IRModule, Range, structural_equal
from ..tir import IterVar, PrimFunc, Var
from ..tir.stmt import AssertStmt, Allocate, AttrStmt, LetStmt, SeqStmt

# Binary operators: the symbol and how tightly it binds.
_BINARY = {"Or": ("or", 1), "And": ("and", 2), "EQ": ("==", 4), "NE": ("!=", 4), "LT": ("<", 4), "LE": ("<=", 4),
           "GT": (">", 4), "GE": (">=", 4), "Add": ("+", 6), "Sub": ("-", 6), "Mul": ("*", 7), "FloorDiv": ("//", 7),
           "FloorMod": ("%", 7)}
_COMPARISON, _ATOM = 4, 9
_FUNCTIONS = {"Min": "min", "Max": "max", "Div": "Div", "Mod": "truncmod"}
# Intrinsics whose dtype follows from their arguments: T.exp(x). Others are printed with it.
PLAIN_INTRINSICS = ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
                    "acos", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid", "floor", "ceil", "trunc", "round",
                    "nearbyint", "isnan", "likely", "if_then_else")
_LOOPS = ("serial", "parallel", "vectorized", "unroll")
_AXES = {0: ("S", "spatial"), 2: ("R", "reduce"), 3: (None, "scan"), 4: (None, "opaque")}
_INDENT = "    "


def _kind(node):
    return node._type_key().rsplit(".", 1)[-1]


class Printer:
    """Prints one function. Variables and buffers get names that are free in the whole function."""

    def __init__(self):
        self._names, self._used = {}, {"T", "I", "range", *keyword.kwlist}
        self._loops = {}  # variable of a loop from 0: its extent
        self._free = []  # (pointer or None, line): lines that declare what the signature doesn't

    def name(self, node: Any, hint: str) -> Any:
        """The name of a variable or buffer."""
        if node not in self._names:
            plain = re.sub(r"\W", "_", hint, flags=re.ASCII) or "v"
            plain = name = plain if not plain[0].isdigit() else f"v{plain}"
            count = 0
            while name in self._used:
                count += 1
                name = f"{plain}_{count}"
            self._used.add(name)
            self._names[node] = name
        return self._names[node]

    # Expressions

    def expr(self, e: Any, least: int = 0) -> Any:
        """The text of an expression; in parentheses when it binds less tightly than `least`."""
        kind = _kind(e)
        if kind in _BINARY:
            symbol, level = _BINARY[kind]
            left = level + 1 if level == _COMPARISON else level
            return _parens(f"{self.expr(e.a, left)} {symbol} {self.expr(e.b, level + 1)}", level < least)
        if kind == "Div" and not str(e.dtype).startswith(("int", "uint")):
            return _parens(f"{self.expr(e.a, 7)} / {self.expr(e.b, 8)}", least > 7)
        if kind in _FUNCTIONS:
            return f"T.{_FUNCTIONS[kind]}({self.exprs([e.a, e.b])})"
        if kind == "Not":
            return _parens(f"not {self.expr(e.a, 3)}", least > 3)
        return getattr(self, f"_{kind}", self._unknown)(e)

    def exprs(self, values: Any) -> str:
        """Expressions with commas between."""
        return ", ".join(self.expr(v) for v in values)

    def _unknown(self, e):
        raise Error(f"TVMScript has no form of {e._type_key()}: {e}")

    def _IntImm(self, e):
        if str(e.dtype) == "int32":
            return str(e.value)
        if str(e.dtype) == "bool":
            return str(bool(e.value))
        return f"T.{e.dtype}({e.value})"

    def _FloatImm(self, e):
        value = e.value
        if not math.isfinite(value):
            return f"T.{e.dtype}(\"{value}\")"
        shortest = str(np.float32(value)) if str(e.dtype) == "float32" else repr(value)
        return f"T.{e.dtype}({shortest})"

    def _StringImm(self, e):
        return _quoted(e.value)

    def _Var(self, e):
        if e not in self._names:  # a pointer or size that nothing declares
            name = self.name(e, e.name)
            kind = e.type_annotation
            words = [e.dtype] if kind is None or kind._type_key() != "PointerType" else [
                "handle", kind.element_type.dtype, kind.storage_scope]
            self._free.append((None, f"{name} = T.var({', '.join(_quoted(str(w)) for w in words)})"))
        return self._names[e]

    def _IterVar(self, e):
        return self._Var(e.var)

    def _Cast(self, e):
        return f"T.Cast(\"{e.dtype}\", {self.expr(e.value)})"

    def _Select(self, e):
        return f"T.Select({self.exprs([e.condition, e.true_value, e.false_value])})"

    def _Ramp(self, e):
        return f"T.Ramp({self.expr(e.base)}, {self.expr(e.stride)}, {e.lanes})"

    def _Broadcast(self, e):
        return f"T.Broadcast({self.expr(e.value)}, {e.lanes})"

    def _Shuffle(self, e):
        return f"T.Shuffle([{self.exprs(e.vectors)}], [{self.exprs(e.indices)}])"

    def _Let(self, e):
        value = self.expr(e.value)
        name = self.name(e.var, e.var.name)
        return f"T.Let({self.expr(e.body)}, where={{{name}: {value}}})"

    def _BufferLoad(self, e):
        return f"{self.buffer(e.buffer)}[{self.exprs(e.indices) or '()'}]"

    def _Call(self, e):
        name = getattr(e.op, "name", None) or e.op.name_hint
        short = name.removeprefix("tir.")
        if short in PLAIN_INTRINSICS:
            return f"T.{short}({self.exprs(e.args)})"
        if short == "address_of" and len(e.args) == 1:
            return f"T.address_of({self.expr(e.args[0])})"
        return f"T.call_intrin(\"{e.dtype}\", {', '.join([_quoted(name), *[self.expr(a) for a in e.args]])})"

    # Buffers

    def buffer(self, buffer: Any) -> Any:
        """The name of a buffer; one that nothing declares is declared at the top."""
        if buffer not in self._names:
            data = self.expr(buffer.data) if buffer.data not in self._owners else f"{self._owners[buffer.data]}.data"
            name = self.name(buffer, buffer.name)
            self._free.append((buffer.data, f"{name} = T.Buffer({self._layout(buffer)}, data={data})"))
        return self._names[buffer]

    def _layout(self, buffer, scope=False):
        """The arguments that give a buffer's type and layout."""
        shape = self.exprs(buffer.shape) + ("," if len(buffer.shape) == 1 else "")
        parts = [f"({shape})", f"\"{buffer.dtype}\""]
        if len(buffer.strides) > 0:
            parts.append(f"strides=[{self.exprs(buffer.strides)}]")
        if buffer.elem_offset is not None and buffer.elem_offset != 0:
            parts.append(f"elem_offset={self.expr(buffer.elem_offset)}")
        if scope and buffer.scope() != "global":
            parts.append(f"scope=\"{buffer.scope()}\"")
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor != 0:
            parts.append(f"offset_factor={buffer.offset_factor}")
        return ", ".join(parts)

    def _declare(self, buffer):
        name = self.name(buffer, buffer.name)
        self._owners[buffer.data] = name
        return name

    def _views(self, buffers):
        """The lines that declare other buffers over the data of these, which come after theirs."""
        owned = [any(data is not None and data.same_as(b.data) for b in buffers) for data, _ in self._free]
        lines = [line for (_, line), mine in zip(self._free, owned) if mine]
        self._free = [each for each, mine in zip(self._free, owned) if not mine]
        return lines

    def region(self, region: Any) -> str:
        """A box of elements: A[i, 0:n]."""
        parts = []
        for each in region.region:
            low = self.expr(each.min)
            if isinstance(each.extent, IntImm) and each.extent.value == 1:
                parts.append(low)
            else:
                parts.append(f"{low}:{self.expr(_sum(each.min, each.extent))}")
        return f"{self.buffer(region.buffer)}[{', '.join(parts) or '()'}]"

    # Statements

    def body(self, stmt: Any) -> Any:
        """The lines of the statements of a suite."""
        return self.stmt(stmt, True) or ["T.evaluate(0)"]

    def stmt(self, stmt: Any, last: Any) -> Any:
        """The lines of a statement; `last`: nothing follows it in its suite."""
        if isinstance(stmt, SeqStmt):
            lines = []
            for i, each in enumerate(stmt.seq):
                lines += self.stmt(each, last and i + 1 == len(stmt.seq))
            return lines
        if isinstance(stmt, (LetStmt, Allocate, AssertStmt, AttrStmt)):
            return self._scoped(stmt, last)
        return getattr(self, f"_stmt_{_kind(stmt)}", self._unknown)(stmt)

    def _scoped(self, stmt, last):
        """Statements that hold for what follows them: written before it, or around it by `with`."""
        if isinstance(stmt, LetStmt):
            value = self.expr(stmt.value)
            name = self.name(stmt.var, stmt.var.name)
            annotation = "" if "x" in str(stmt.var.dtype) else f": T.{stmt.var.dtype}"  # there are no words for vectors
            plain, block = f"{name}{annotation} = {value}", f"with T.LetStmt({value}) as {name}:"
        elif isinstance(stmt, Allocate):
            shape = self.exprs(stmt.buffer.shape)
            name = self._declare(stmt.buffer)
            call = f"T.allocate([{shape}], \"{stmt.buffer.dtype}\", \"{stmt.buffer.scope()}\"{self._annotations(stmt)})"
            plain, block = f"{name} = {call}", f"with {call} as {name}:"
            body = self.body(stmt.body)
            body = [*self._views([stmt.buffer]), *body]
            return [plain, *body] if last else [block, *_indented(body)]
        elif isinstance(stmt, AssertStmt):
            condition, message = self.expr(stmt.condition), self.expr(stmt.message)
            plain, block = f"assert {condition}, {message}", f"with T.Assert({condition}, {message}):"
        else:
            plain, block = None, self._attr(stmt)
        if last and plain is not None:
            return [plain, *self.body(stmt.body)]
        return [block, *_indented(self.body(stmt.body))]

    def _attr(self, stmt):
        node, value = stmt.node, self.expr(stmt.value)
        if isinstance(node, IterVar) and stmt.attr_key in ("thread_extent", "virtual_thread"):
            name = self.name(node.var, node.var.name)
            return f"with T.launch_thread(\"{node.thread_tag}\", {value}) as {name}:"
        if node is None:
            text = "None"
        else:
            text = self.expr(node) if hasattr(node, "dtype") and isinstance(node, Var) else self.buffer(node)
        return f"with T.attr({text}, {_quoted(stmt.attr_key)}, {value}):"

    def _stmt_Evaluate(self, stmt):
        return [f"T.evaluate({self.expr(stmt.value)})"]

    def _stmt_BufferStore(self, stmt):
        return [f"{self.buffer(stmt.buffer)}[{self.exprs(stmt.indices) or '()'}] = {self.expr(stmt.value)}"]

    def _stmt_IfThenElse(self, stmt):
        lines = [f"if {self.expr(stmt.condition)}:", *_indented(self.body(stmt.then_case))]
        if stmt.else_case is not None:
            lines += ["else:", *_indented(self.body(stmt.else_case))]
        return lines

    def _stmt_While(self, stmt):
        return [f"while {self.expr(stmt.condition)}:", *_indented(self.body(stmt.body))]

    def _annotations(self, node, word="annotations"):
        text = self._mapping(node.annotations)
        return f", {word}={text}" if text else ""

    def _mapping(self, values):
        items = [f"{_quoted(str(k))}: {self._value(v)}" for k, v in sorted(values.items(), key=lambda kv: str(kv[0]))]
        return "{" + ", ".join(items) + "}" if items else ""

    def _value(self, value):
        if isinstance(value, str):
            return _quoted(value)
        if isinstance(value, (bool, int, float)):
            return repr(value)
        if isinstance(value, (IntImm, FloatImm)) or hasattr(value, "dtype"):
            return self.expr(value)
        if hasattr(value, "__len__") and not hasattr(value, "items"):
            return f"[{', '.join(self._value(v) for v in value)}]"
        return self._unknown(value)

    def _stmt_For(self, stmt):
        nest = [stmt]
        while _plain(nest[-1]) and _kind(nest[-1].body) == "For" and _plain(nest[-1].body):
            if any(_uses(nest[-1].body.extent, outer.loop_var) for outer in nest):
                break
            nest.append(nest[-1].body)
        bounds = [(self.expr(each.extent), self.expr(each.min)) for each in nest]
        names = [self.name(each.loop_var, each.loop_var.name) for each in nest]
        for each in nest:
            if each.min == 0:
                self._loops[each.loop_var] = each.extent
        if len(nest) > 1:
            head = f"for {', '.join(names)} in T.grid({', '.join(extent for extent, _ in bounds)}):"
        else:
            head = f"for {names[0]} in {self._iterations(stmt, *bounds[0])}:"
        return [head, *_indented(self.body(nest[-1].body))]

    def _iterations(self, stmt, extent, low):
        begin = "" if stmt.min == 0 else f"{low}, "
        end = extent if stmt.min == 0 else self.expr(_sum(stmt.min, stmt.extent))
        if stmt.kind == 4:
            return (f"T.thread_binding({begin or '0, '}{end}, thread=\"{stmt.thread_binding.thread_tag}\""
                    f"{self._annotations(stmt)})")
        if stmt.kind == 0 and len(stmt.annotations) == 0:
            return f"range({begin}{end})"
        return f"T.{_LOOPS[stmt.kind]}({begin}{end}{self._annotations(stmt)})"

    def _stmt_BlockRealize(self, stmt):
        head = f"with T.block({_quoted(stmt.block.name_hint)}):"
        return [head, *_indented(self._block(stmt))]

    def _block(self, realize, root=False):
        """What is within a block; `root`: the block around a function, which isn't written."""
        block, lines = realize.block, self._axes(realize)
        if not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
            lines.append(f"T.where({self.expr(realize.predicate)})")
        matched = [(self.region(m.source), m.buffer) for m in block.match_buffers]
        for buffer in block.alloc_buffers:
            layout = self._layout(buffer, scope=True)
            lines.append(f"{self._declare(buffer)} = T.alloc_buffer({layout})")
        for source, buffer in matched:
            lines += self._match(buffer, source)
        if not root:
            for word, regions in (("reads", block.reads), ("writes", block.writes)):
                lines.append(f"T.{word}({', '.join(self.region(r) for r in regions)})")
        if len(block.annotations) > 0:
            lines.append(f"T.block_attr({self._mapping(block.annotations)})")
        init = [] if block.init is None else ["with T.init():", *_indented(self.body(block.init))]
        body = self.body(block.body)
        return [*lines, *self._views(block.alloc_buffers), *init, *body]

    def _axes(self, realize):
        """The block's axes: T.axis.remap for those that are a whole loop each."""
        axes = list(zip(realize.block.iter_vars, realize.iter_values))
        lines, run = [], []

        def finish():
            if len(run) == 1:
                lines.append(self._axis(*run[0]))
            elif run:
                names = ", ".join(self.name(a.var, a.var.name) for a, _ in run)
                kinds = "".join(_AXES[a.iter_type][0] for a, _ in run)
                lines.append(f"{names} = T.axis.remap(\"{kinds}\", [{self.exprs(v for _, v in run)}])")
            run.clear()

        for axis, value in axes:
            if axis.iter_type not in _AXES:
                self._unknown(axis)
            whole = (isinstance(value, Var) and value in self._loops and axis.dom.min == 0 and
                     structural_equal(axis.dom.extent, self._loops[value], tolerance=0))
            if whole and _AXES[axis.iter_type][0]:
                run.append((axis, value))
            else:
                finish()
                lines.append(self._axis(axis, value))
        finish()
        return lines

    def _axis(self, axis, value):
        domain, bound = self.expr(axis.dom.extent), self.expr(value)
        if axis.dom.min != 0:
            domain = f"({self.expr(axis.dom.min)}, {self.expr(_sum(axis.dom.min, axis.dom.extent))})"
        name = self.name(axis.var, axis.var.name)
        return f"{name} = T.axis.{_AXES[axis.iter_type][1]}({domain}, {bound})"

    def _match(self, buffer, source):
        """A view's declaration, after those of the sizes that it brings."""
        lines = []
        for part in (*buffer.shape, *buffer.strides, *([] if buffer.elem_offset is None else [buffer.elem_offset])):
            if isinstance(part, Var) and part not in self._names:
                lines.append(f"{self.name(part, part.name)} = T.var(\"{part.dtype}\")")
        layout = self._layout(buffer, scope=True)
        return [*lines, f"{self._declare(buffer)} = T.match_buffer({source}, {layout})"]

    # Functions

    def func(self, func: Any, name: str | None = None) -> list[Any]:
        """The lines of a function."""
        attrs = dict(func.attrs.dict.items()) if func.attrs is not None else {}
        self._owners: dict[Any, Any] = {}
        symbol = attrs.pop("global_symbol", None)
        name = _identifier(str(symbol or name or "main"))
        params, top, matched = [], [], []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                params.append(f"{self.name(param, param.name)}: T.{param.dtype}")
            elif all(isinstance(d, IntImm) for d in buffer.shape) and len(buffer.strides) == 0 and not isinstance(
                    buffer.elem_offset, Var) and buffer.scope() == "global":
                params.append(f"{self._declare(buffer)}: T.Buffer({self._layout(buffer)})")
            else:
                handle = self.name(param, f"{buffer.name.lower()}_handle")
                params.append(f"{handle}: T.handle")
                matched.append((buffer, handle))
        for buffer, handle in matched:  # sizes may be later parameters
            top += self._match(buffer, handle)
        if attrs:
            top.insert(0, f"T.func_attr({self._mapping(attrs)})")
        if symbol is not None and str(symbol) != name:
            top.insert(0, f"T.func_attr({{\"global_symbol\": {_quoted(str(symbol))}}})")
        body = self._function_body(func.body)
        decorator = "@T.prim_func" if symbol is not None else "@T.prim_func(private=True)"
        return [decorator, f"def {name}({', '.join(params)}):", *_indented([*top, *(line for _, line in self._free), *body])]

    def _function_body(self, body):
        if _kind(body) == "BlockRealize" and _is_root(body):
            return self._block(body, root=True)
        return self.body(body)


def _is_root(realize):
    """Whether a block is what the parser puts around a function that has blocks."""
    block = realize.block
    trivial = (len(block.iter_vars) == len(block.reads) == len(block.writes) == len(block.annotations) == 0 and
               len(block.match_buffers) == 0 and block.init is None and block.name_hint == "root" and
               isinstance(realize.predicate, IntImm))
    return trivial and (len(block.alloc_buffers) > 0 or holds_block(block.body))


def holds_block(stmt: Any) -> Any:
    """Whether a statement holds a block (and isn't just one block without axes named root)."""
    kind = _kind(stmt)
    if kind == "BlockRealize":
        return not (len(stmt.iter_values) == 0 and stmt.block.name_hint == "root")
    if kind == "SeqStmt":
        return any(_kind(each) == "BlockRealize" or holds_block(each) for each in stmt.seq)
    if kind == "IfThenElse":
        return holds_block(stmt.then_case) or (stmt.else_case is not None and holds_block(stmt.else_case))
    return "body" in stmt._field_names() and holds_block(stmt.body)


def _plain(loop):
    return loop.kind == 0 and loop.min == 0 and len(loop.annotations) == 0


def _uses(e, var):
    from ..tir.stmt_functor import post_order_visit

    found = []
    post_order_visit(e, lambda node: found.append(node) if isinstance(node, Var) and node.same_as(var) else None)
    return bool(found)


def _sum(low, extent):
    return low + extent


def _parens(text, needed):
    return f"({text})" if needed else text


def _quoted(text):
    escaped = text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n").replace("\r", "\\r")
    return f"\"{escaped}\""


def _identifier(name):
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "main"
    return f"{plain}_" if keyword.iskeyword(plain) else plain if not plain[0].isdigit() else f"f{plain}"


def _indented(lines):
    return [_INDENT + line for line in lines]


def script(node: Any) -> Any:
    """The text of a function, or of a module of loop-level functions."""
    try:
        if isinstance(node, PrimFunc):
            return "\n".join(["# from treadle.script import tir as T", "", *Printer().func(node)]) + "\n"
        if isinstance(node, IRModule) and all(isinstance(f, PrimFunc) for f in node.functions.values()):
            return "\n".join(_module(node)) + "\n"
    except RecursionError:
        raise Error("the function is nested too deep for TVMScript; print() shows it") from None
    raise Error(f"TVMScript is of loop-level functions, not {node._type_key()}")


def _module(module):
    lines = ["# from treadle.script import ir as I", "# from treadle.script import tir as T", "", "@I.ir_module",
             "class Module:"]
    functions = module.functions_items()
    for i, (var, func) in enumerate(functions):
        lines += _indented(Printer().func(func, var.name_hint)) + ([""] if i + 1 < len(functions) else [])
    return lines if functions else [*lines, _INDENT + "pass"]
