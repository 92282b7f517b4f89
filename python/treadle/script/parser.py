# SPDX-License-Identifier: Apache-2.0
"""TVMScript read: functions written in Python's syntax, as loop-level functions."""
import ast
import inspect
import textwrap
from typing import Any

from ..error import Error
from ..ir import IntImm, IRModule, PrimExpr, Range
from ..tir import Buffer, PrimFunc, Var, const, decl_buffer
from ..tir.expr import _api, as_expr
from ..tir.stmt import (Allocate, AssertStmt, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, SeqStmt, Stmt, While,
                        _api as _stmts)
from .expressions import Expressions, ScriptError, Source, annotation, extent_of, is_number, is_pointer
from .printer import holds_block

_KINDS = {"serial": 0, "parallel": 1, "vectorized": 2, "unroll": 3, "thread_binding": 4}
_AXES = {"spatial": 0, "S": 0, "reduce": 2, "R": 2, "scan": 3, "opaque": 4}


class Block:
    """What a block says about itself before its statements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.axes: list[Any] = []
        self.values: list[Any] = []
        self.reads: Any = None
        self.writes: Any = None
        self.init: Any = None
        self.predicate = const(True, "bool")
        self.annotations: dict[Any, Any] = {}
        self.allocated: list[Any] = []
        self.matched: list[Any] = []

    def realize(self, body: Any) -> Any:
        """The block around its statements."""
        block = _stmts.Block(self.axes, self.reads, self.writes, self.name, body, self.init, self.allocated, self.matched,
                             self.annotations)
        return _stmts.BlockRealize(self.values, self.predicate, block)


class Statements(Expressions):
    """Reads statements. Each method gives a statement, a function from what follows to a statement, or None."""

    def __init__(self, source: Any, words: Any, names: Any, trusted: bool) -> None:
        super().__init__(source, words, names, trusted)
        self._blocks = [Block("root")]
        self.attrs: dict[Any, Any] = {}
        self._handles: dict[Any, Any] = {}
        self._extents: dict[Any, Any] = {}  # variable of a loop: the range it takes
        self._threads: dict[Any, Any] = {}  # variable of T.env_thread: its axis

    def suite(self, nodes: Any, names: Any = None) -> Any:
        """The statements of a suite as one; `names` are defined in it."""
        self._scopes.append(dict(names or {}))
        items = [item for item in (self.statement(node) for node in nodes) if item is not None]
        self._scopes.pop()
        result = None
        for item in reversed(items):
            if isinstance(item, Stmt):
                result = item if result is None else SeqStmt([item, result])
            else:
                result = item(result if result is not None else Evaluate(0))
        return result if result is not None else Evaluate(0)

    def statement(self, node: Any) -> Any:
        """One statement."""
        return self.dispatch("_do_", node, "statement ")

    def _do_Pass(self, node):
        return None

    def _do_Return(self, node):
        if node.value is not None:
            self.fail(node, "a loop-level function returns nothing: it writes to its buffers")
        return None

    def _do_If(self, node):
        condition = self.eval(node.test)
        if isinstance(condition, bool):
            return self.suite(node.body if condition else node.orelse)
        otherwise = self.suite(node.orelse) if node.orelse else None
        return IfThenElse(self.expr(node.test), self.suite(node.body), otherwise)

    def _do_While(self, node):
        return While(self.expr(node.test), self.suite(node.body))

    def _do_Assert(self, node):
        condition, message = self.expr(node.test), "" if node.msg is None else self.eval(node.msg)
        return lambda body: AssertStmt(condition, message, body)

    # Loops

    def _do_For(self, node):
        if node.orelse or not isinstance(node.iter, ast.Call):
            self.fail(node, "a loop runs over range(..), T.grid(..), T.serial(..) and the like, and has no else")
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for each in targets:
            if not isinstance(each, ast.Name):
                self.fail(each, "a loop's variable must be a name")
        word = self.word(node.iter.func)
        if word == "grid":
            return self._grid(node, targets)
        is_range = isinstance(node.iter.func, ast.Name) and node.iter.func.id == "range"
        if not is_range and word not in _KINDS:
            self.fail(node.iter, f"there is no loop over {ast.unparse(node.iter.func)}; expected range, T.grid, "
                                 f"{', '.join(f'T.{k}' for k in _KINDS)}")
        if len(targets) != 1:
            self.fail(node.target, "only T.grid has several variables")
        low, extent, named = self._bounds(node.iter)
        variable = Var(targets[0].id, str(extent.dtype))
        thread = None
        if word == "thread_binding":
            thread = self._thread("thread_binding", named.pop("thread", None), str(extent.dtype))
        notes = {k: annotation(v) for k, v in (named.pop("annotations", None) or {}).items()}
        if named:
            self.fail(node.iter, f"there is no argument '{next(iter(named))}'")
        self._extents[variable] = Range.from_min_extent(low, extent)
        body = self.suite(node.body, {targets[0].id: variable})
        return _stmts.AnnotatedFor(variable, low, extent, _KINDS[word or "serial"], body, thread, notes)

    def _bounds(self, call):
        """The first value, the number of values and the named arguments of what a loop runs over."""
        args, named = self.arguments(call)
        if not 1 <= len(args) <= 2:
            self.fail(call, f"expected one or two bounds, not {len(args)}")
        high = as_expr(args[-1])
        low = self.typed(args[0], high.dtype) if len(args) == 2 else const(0, str(high.dtype))
        if len(args) == 2 and is_number(args[1]):
            high = self.typed(args[1], low.dtype)
        return low, (extent_of(low, high) if len(args) == 2 else high), named

    def _thread(self, word, tag, dtype, name=""):
        from ..tir.checks import check_thread

        check_thread(word, tag)
        return _api.IterVar(None, Var(name or tag, dtype), 1, tag)

    def _grid(self, node, targets):
        extents = [as_expr(e) for e in self.arguments(node.iter)[0]]
        if len(extents) != len(targets):
            self.fail(node.target, f"T.grid has {len(extents)} loops; expected as many variables, not {len(targets)}")
        variables = [Var(t.id, str(e.dtype)) for t, e in zip(targets, extents)]
        self._extents.update({v: Range.from_min_extent(const(0, str(e.dtype)), e) for v, e in zip(variables, extents)})
        body = self.suite(node.body, {v.name: v for v in variables})
        for variable, extent in zip(reversed(variables), reversed(extents)):
            body = _stmts.AnnotatedFor(variable, const(0, str(extent.dtype)), extent, 0, body, None, {})
        return body

    # Blocks and what holds for a suite

    def _do_With(self, node):
        if len(node.items) != 1 or not isinstance(node.items[0].context_expr, ast.Call):
            self.fail(node, "expected one T.block(..), T.init() or another word of TVMScript after with")
        call, target = node.items[0].context_expr, node.items[0].optional_vars
        word = self.word(call.func)
        method = getattr(self, f"_with_{word}", None) if word else None
        if method is None:
            self.fail(call, f"there is no with {ast.unparse(call.func)}")
        if target is not None and not isinstance(target, ast.Name):
            self.fail(target, "expected a name after as")
        return method(node, call, target.id if target else "")

    def _with_block(self, node, call, name):
        args, _ = self.arguments(call)
        title = args[0] if args else ""
        if not isinstance(title, str) or len(args) > 1:
            self.fail(call, "expected T.block(\"name\")")
        self._blocks.append(Block(title))
        body = self.suite(node.body)
        return self._blocks.pop().realize(body)

    def _with_init(self, node, call, name):
        if self._blocks[-1].init is not None:
            self.fail(call, "the block has an init already")
        self._blocks[-1].init = self.suite(node.body)

    def _with_attr(self, node, call, name):
        if len(call.args) != 3:
            self.fail(call, "expected T.attr(node, key, value)")
        target, key, value = self.eval(call.args[0]), self.eval(call.args[1]), self.expr(call.args[2])
        return AttrStmt(target, key, value, self.suite(node.body))

    def _with_launch_thread(self, node, call, name):
        variable, around = self._launched(call, name)
        return around(self.suite(node.body, {name: variable}))

    def _say_launch_thread(self, call):
        return self._launched(call)[1]

    def _make_launch_thread(self, call, name):
        variable, around = self._launched(call, name)
        self.define(name, variable)
        return around

    def _launched(self, call, name=""):
        """The variable of T.launch_thread(axis of T.env_thread or its name, extent), and what it puts around statements."""
        args, _ = self.arguments(call)
        if len(args) != 2:
            self.fail(call, "expected T.launch_thread(\"threadIdx.x\", extent)")
        axis = self._threads.get(args[0]) if isinstance(args[0], Var) else None
        extent = as_expr(args[1]) if axis is None else self.typed(args[1], axis.var.dtype)
        if axis is None:
            axis = self._thread("launch_thread", args[0], str(extent.dtype), name)
        key = "virtual_thread" if axis.thread_tag.startswith("vthread") else "thread_extent"
        return axis.var, lambda body: AttrStmt(axis, key, extent, body)

    def _make_env_thread(self, call, name):
        args, _ = self.arguments(call)
        if len(args) != 1:
            self.fail(call, "expected T.env_thread(\"threadIdx.x\")")
        axis = self._thread("env_thread", args[0], "int32", name)
        self._threads[axis.var] = axis
        return axis.var

    def _with_LetStmt(self, node, call, name):
        value = self.expr(call.args[0])
        variable = Var(name, str(value.dtype))
        return LetStmt(variable, value, self.suite(node.body, {name: variable}))

    def _with_Assert(self, node, call, name):
        condition, message = self.expr(call.args[0]), self.eval(call.args[1])
        return AssertStmt(condition, message, self.suite(node.body))

    def _with_allocate(self, node, call, name):
        buffer = self._allocated(call, name)
        return Allocate(buffer, self.suite(node.body, {name: buffer}))

    def _with_decl_buffer(self, node, call, name):
        if not any(k.arg == "data" for k in call.keywords):
            return self._with_allocate(node, call, name)
        return self.suite(node.body, {name: self._make_Buffer(call, name)})

    # Calls as statements

    def _do_Expr(self, node):
        call = node.value
        if isinstance(call, ast.Constant) and isinstance(call.value, str):
            return None
        word = self.word(call.func) if isinstance(call, ast.Call) else None
        method = getattr(self, f"_say_{word}", None) if word else None
        if method is not None:
            return method(call)
        return Evaluate(self.expr(call))

    def _say_evaluate(self, call):
        if len(call.args) != 1:
            self.fail(call, "T.evaluate takes one expression")
        return Evaluate(self.expr(call.args[0]))

    def _say_store(self, call):
        args, named = self.arguments(call)
        if not 3 <= len(args) <= 4 or not set(named) <= {"predicate"}:
            self.fail(call, "expected T.store(pointer, index, value, predicate)")
        buffer, index, value = self.flat(call, args[0]), as_expr(args[1]), as_expr(self.typed(args[2], args[0].dtype))
        predicate = self.mask(call, (args[3:] or [named.get("predicate")])[0])
        store = BufferStore(buffer, self.typed(value, buffer.dtype), [index])
        return store if predicate is None else IfThenElse(predicate, store, None)

    def _say_reads(self, call):
        self._regions(call, "reads")

    def _say_writes(self, call):
        self._regions(call, "writes")

    def _regions(self, call, word):
        nodes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.List, ast.Tuple)) else call.args
        setattr(self._blocks[-1], word, [self.region(n) for n in nodes])

    def _say_where(self, call):
        self._blocks[-1].predicate = self.expr(call.args[0])

    def _say_block_attr(self, call):
        self._blocks[-1].annotations.update({k: annotation(v) for k, v in self.eval(call.args[0]).items()})

    def _say_func_attr(self, call):
        self.attrs.update({k: annotation(v) for k, v in self.eval(call.args[0]).items()})

    # Assignments

    def _do_Assign(self, node):
        if len(node.targets) != 1:
            self.fail(node, "expected one target")
        return self._assign(node, node.targets[0], node.value)

    def _do_AnnAssign(self, node):
        if node.value is None or not isinstance(node.target, ast.Name):
            self.fail(node, "expected name: T.dtype = value")
        declared = getattr(self.eval(node.annotation), "dtype", None)
        if declared is None:
            self.fail(node.annotation, "expected a dtype such as T.int32")
        return self._bind(node.target.id, self.expr(node.value, declared), declared)

    def _do_AugAssign(self, node):
        load = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        return self._assign(node, node.target, load)

    def _assign(self, node, target, value):
        if isinstance(target, ast.Subscript):
            return self._store(target, value)
        word = self.word(value.func) if isinstance(value, ast.Call) else None
        if word and word.startswith("axis."):
            return self._axes(target, value, word[5:])
        if not isinstance(target, ast.Name):
            self.fail(target, "only elements of buffers and names can be assigned")
        method = getattr(self, f"_make_{word}", None) if word else None
        if method is not None:
            made = method(value, target.id)
            if callable(made):
                return made
            self.define(target.id, made)
            return None
        if word in self._words.__all__ and isinstance(value, ast.Call) and not value.args and isinstance(
                getattr(self._words, word, None), self._words.DTypeWord):
            self.define(target.id, Var(target.id, word))
            return None
        result = self.eval(value)
        if not isinstance(result, PrimExpr) or isinstance(result, IntImm):
            self.define(target.id, result)
            return None
        return self._bind(target.id, as_expr(result), str(result.dtype))

    def _bind(self, name, value, dtype):
        variable = Var(name, dtype)
        self.define(name, variable)
        return lambda body: LetStmt(variable, value, body)

    def _store(self, target, value):
        buffer = self.eval(target.value)
        buffer = self.flat(target, buffer) if is_pointer(buffer) else buffer
        if not isinstance(buffer, Buffer):
            self.fail(target, f"only elements of buffers can be assigned, not of {buffer!r}")
        stored = self.expr(value, str(buffer.dtype))
        if str(stored.dtype).split("x")[0] != str(buffer.dtype).split("x")[0]:
            self.fail(value, f"buffer {buffer.name} holds {buffer.dtype}, not {stored.dtype}: use T.Cast")
        for each in self.indices(target):
            if isinstance(each, ast.Slice):
                self.fail(each, "an element needs an index, not a slice")
        return BufferStore(buffer, stored, [self.expr(i) for i in self.indices(target)])

    def _axes(self, target, call, kind):
        names = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(n, ast.Name) for n in names):
            self.fail(target, "an axis must be a name")
        args, _ = self.arguments(call)
        if kind != "remap":
            if kind not in _AXES or len(args) != 2 or len(names) != 1:
                self.fail(call, f"expected T.axis.remap, or name = T.axis.spatial(extent, value), .reduce, .scan or "
                                f".opaque; not T.axis.{kind}")
            return self._axis(names[0], args[0], as_expr(args[1]), _AXES[kind])
        if len(args) != 2 or not isinstance(args[0], str) or not len(args[0]) == len(args[1]) == len(names):
            self.fail(call, "expected as many names as letters and as loop variables: vi, vj = T.axis.remap(\"SR\", [i, j])")
        for letter, value, name in zip(args[0], args[1], names):
            loop = self._extents.get(value) if isinstance(value, Var) else None
            if letter not in _AXES or loop is None:
                self.fail(call, f"T.axis.remap: '{name.id}' is to be S or R of a loop variable, not {letter} of {value!r}")
            self._axis(name, loop, value, _AXES[letter])

    def _axis(self, name, domain, value, kind):
        low, extent = const(0, str(value.dtype)), domain
        if isinstance(domain, Range):
            low, extent = domain.min, domain.extent
        elif isinstance(domain, tuple):
            low = self.typed(domain[0], value.dtype)
            extent = extent_of(low, self.typed(domain[1], value.dtype))
        variable = Var(name.id, str(value.dtype))
        domain = Range.from_min_extent(low, self.typed(extent, value.dtype))
        self._blocks[-1].axes.append(_api.IterVar(domain, variable, kind, ""))
        self._blocks[-1].values.append(value)
        self.define(name.id, variable)

    # Names made by words

    def _make_var(self, call, name):
        args, _ = self.arguments(call)
        if len(args) > 1:  # "handle", what it points to, and the scope
            return _stmts.PointerVar(name, args[1], args[2] if len(args) > 2 else "global")
        return Var(name, args[0] if args else "int32")

    def _make_alloc_buffer(self, call, name):
        buffer = self._buffer(call, name, *self.arguments(call))
        self._blocks[-1].allocated.append(buffer)
        return buffer

    def _make_allocate(self, call, name):
        buffer = self._allocated(call, name)
        self.define(name, buffer)
        return lambda body: Allocate(buffer, body)

    def _make_decl_buffer(self, call, name):
        if any(k.arg == "data" for k in call.keywords):
            return self._make_Buffer(call, name)
        return self._make_allocate(call, name)

    def _allocated(self, call, name):
        args, named = self.arguments(call)
        if len(args) == 3:
            named["scope"] = args.pop()
        if named.pop("annotations", None):
            self.fail(call, "T.allocate has no annotations here")
        return self._buffer(call, name, args, named)

    def _make_Buffer(self, call, name):
        return self._buffer(call, name, *self.arguments(call))

    _make_buffer_decl = _make_Buffer

    def _make_match_buffer(self, call, name):
        if not call.args:
            self.fail(call, "expected T.match_buffer(handle or region, shape, dtype)")
        args, named = self.arguments(ast.copy_location(ast.Call(call.func, call.args[1:], call.keywords), call))
        source = call.args[0]
        if isinstance(source, ast.Name) and isinstance(self.assigned(source.id), Var):
            handle = self.assigned(source.id)
            if str(handle.dtype) != "handle" or handle in self._handles:
                self.fail(source, f"'{source.id}' isn't a parameter T.handle that has no buffer yet")
            self._handles[handle] = self._buffer(call, name, args, named)
            return self._handles[handle]
        region = self.region(source)
        buffer = self._buffer(call, name, args, {"dtype": str(region.buffer.dtype), **named} if len(args) < 2 else named)
        self._blocks[-1].matched.append(_stmts.MatchBufferRegion(buffer, region))
        return buffer

    def _buffer(self, node, name, args, named):
        """The buffer of the arguments (shape, dtype, layout by name)."""
        return self.owned(declare(self._words.Buffer(*args, **named), name))


def declare(spec: Any, name: str) -> Any:
    """The buffer that T.Buffer(..) describes."""
    layout = dict(spec.layout)
    data, align = layout.pop("data", None), layout.pop("align", -1)
    shape = spec.shape if isinstance(spec.shape, (tuple, list)) else (spec.shape,)
    if data is None:
        return decl_buffer(shape, spec.dtype, name, data_alignment=align, **layout)
    return decl_buffer(shape, spec.dtype, name, data=data, data_alignment=align, **layout)


class Functions(Statements):
    """Reads one function."""

    def function(self, node: Any, annotations: Any = None, private: bool = False) -> Any:
        """The loop-level function of a Python function's tree; `annotations`: values of those of its parameters."""
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults or arguments.posonlyargs:
            self.fail(node, "parameters are plain: name: T.Buffer(..), T.handle or a dtype")
        parameters: list[Any] = []
        for each in arguments.args:
            if each.annotation is None:
                self.fail(each, f"parameter '{each.arg}' needs T.Buffer(..), T.handle or a dtype after a colon")
            spec = (annotations or {}).get(each.arg)
            spec = self.eval(each.annotation) if spec is None or isinstance(spec, str) else spec
            parameters.append(self._parameter(each, spec))
        body = self.suite(node.body)
        root = self._blocks[0]
        if root.axes or root.init is not None:
            self.fail(node, "axes and T.init() belong in a block: with T.block(..)")
        single = body._type_key() == "tir.BlockRealize" and not holds_block(body)
        said = root.reads is not None or root.writes is not None or root.annotations or not (
            isinstance(root.predicate, IntImm) and root.predicate.value)
        if root.allocated or root.matched or said or (not single and (holds_block(body) or body._type_key() == "tir.BlockRealize")):
            root.reads, root.writes = root.reads or [], root.writes or []
            body = root.realize(body)
        if not private:
            self.attrs.setdefault("global_symbol", node.name)
        return PrimFunc(parameters, body, self._handles, self.attrs)

    def _parameter(self, node, spec):
        spec = spec() if isinstance(spec, self._words._BufferWord) else spec
        if isinstance(spec, self._words.BufferSpec):
            buffer = self.owned(declare(spec, node.arg))
            handle = Var(f"{node.arg}_handle", "handle")
            self._handles[handle] = buffer
            self.define(node.arg, buffer)
            return handle
        if not isinstance(spec, self._words.DTypeWord):
            self.fail(node, f"parameter '{node.arg}' has type {spec!r}; expected T.Buffer(..), T.handle or a dtype")
        variable = Var(node.arg, spec.dtype)
        self.define(node.arg, variable)
        return variable


def _parse(source, text):
    try:
        return ast.parse(text)
    except SyntaxError as error:
        source.fail_at(error.lineno or 1, max((error.offset or 1) - 1, 0), f"syntax error: {error.msg}", error)
    except (ValueError, RecursionError, MemoryError) as error:
        raise ScriptError(f"{source.filename}: the text can't be parsed: {error}", source.filename) from error


def _read(source, words, node, names, trusted, annotations=None, private=False):
    try:
        return Functions(source, words, names, trusted).function(node, annotations, private)
    except RecursionError:
        source.fail(node, "the function is nested too deep")


def parse_decorated(function: Any, private: bool, words: Any) -> Any:
    """The loop-level function of a Python function; `words` is the module that it calls T."""
    if not inspect.isfunction(function):
        raise Error(f"T.prim_func decorates a function, not {function!r}")
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ScriptError(f"the source of '{function.__name__}' can't be found: write it in a file, or give its text to "
                          "treadle.script.from_source") from error
    text = "".join(lines)
    plain = textwrap.dedent(text)
    indent = len(lines[0]) - len(lines[0].lstrip())
    source = Source(plain, inspect.getsourcefile(function) or "<script>", first, indent)
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names = {**function.__globals__}
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            pass
    return _read(source, words, _parse(source, plain).body[0], names, True, function.__annotations__, private)


def parse_text(text: str, name: str, words: Any) -> Any:
    """The function, or module of the class, that a text defines."""
    source = Source(text, name)
    names = {"T": words, "tir": words}
    found = [n for n in _parse(source, text).body if not isinstance(n, (ast.Import, ast.ImportFrom))]
    if len(found) != 1 or not isinstance(found[0], (ast.FunctionDef, ast.ClassDef)):
        raise ScriptError(f"{name}: expected one function or one class, not {len(found)} statements", name)
    if isinstance(found[0], ast.FunctionDef):
        return _defined(source, words, found[0], names)
    functions = {}
    for node in found[0].body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = _defined(source, words, node, names)
        elif not isinstance(node, ast.Pass) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            source.fail(node, "a module holds functions")
    return IRModule(functions)


def _defined(source, words, node, names):
    private = False
    if len(node.decorator_list) != 1:
        source.fail(node, f"function '{node.name}' needs the decorator T.prim_func")
    decorator = node.decorator_list[0]
    if isinstance(decorator, ast.Call):
        private = any(k.arg == "private" and isinstance(k.value, ast.Constant) and k.value.value is True
                      for k in decorator.keywords)
        decorator = decorator.func
    if not isinstance(decorator, ast.Attribute) or decorator.attr != "prim_func":
        source.fail(node, f"function '{node.name}' needs the decorator T.prim_func")
    return _read(source, words, node, names, False, None, private)
