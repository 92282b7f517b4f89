# SPDX-License-Identifier: Apache-2.0
"""Evaluating programs: the interpreter of the whole language, and graphs compiled on the spot."""
from collections.abc import Mapping
from typing import Any

from .. import nd, runtime
from .._ffi import Api, register_object
from .._core import Object
from ..ir import BaseFunc, GlobalVar, IRModule, RelayExpr, TupleType
from ..tir import datatype
from .._values import Closure, ConstructorValue, RefValue, TupleValue, to_value
from .expr import Function

_api = Api("relay.interpreter")


@register_object("relay.Interpreter")
class _Interpreter(Object):
    pass


class Executor:
    """Evaluates expressions of a module."""

    _evaluate: Any

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod if mod is not None else IRModule()

    def evaluate(self, expr: Any = None, binds: Mapping[Any, Any] | None = None) -> Any:
        """The value of an expression (of "main" by default). Functions become Python functions.

        `binds` gives values to free variables."""
        if binds:
            names: list[Any] = list(binds)
            return self.evaluate(Function(names, expr))(*[binds[name] for name in names])
        if expr is None:
            expr = self.mod.get_global_var("main")
        return self._evaluate(expr)

    def _arguments(self, function, args, kwargs):
        names = [param.name_hint for param in function.params]
        if len(args) + len(kwargs) != len(names):
            raise TypeError(f"the function takes {len(names)} arguments ({', '.join(names)}), got {len(args) + len(kwargs)}")
        unknown = [name for name in kwargs if name not in names[len(args):]]
        if unknown:
            raise TypeError(f"the function has no further parameter {unknown[0]!r}; its parameters are {', '.join(names)}")
        return [to_value(arg) for arg in args] + [to_value(kwargs[name]) for name in names[len(args):]]


class Interpreter(Executor):
    """The semantic reference: control flow, data types, references and recursion, operator by operator. What computes
    with element types of users (target.datatype) is in libraries, which code calls: such programs are compiled."""

    def __init__(self, mod: IRModule | None = None, max_steps: int = 0, max_depth: int = 0, target: str = "llvm") -> None:
        super().__init__(mod)
        self._target = target
        self._interpreter = _api.Create(self.mod, max_steps, max_depth)

    def _evaluate(self, expr):
        if datatype.occurs_in(self.mod) or (isinstance(expr, RelayExpr) and datatype.occurs_in(expr)):
            return VMExecutor(self.mod, target=self._target).evaluate(expr)
        value = _api.Evaluate(self._interpreter, expr)
        if not isinstance(value, Closure):
            return value
        function = self.mod[expr] if isinstance(expr, GlobalVar) else expr

        def call(*args, **kwargs):
            arguments = (self._arguments(function, args, kwargs)
                         if isinstance(function, BaseFunc) else [to_value(arg) for arg in args])
            result = _api.Invoke(self._interpreter, value, arguments)
            return self.wrap(result)

        call.closure = value
        return call

    def wrap(self, value: Any) -> Any:
        """Closures as Python functions; other values as they are."""
        if not isinstance(value, Closure):
            return value
        return lambda *args: self.wrap(_api.Invoke(self._interpreter, value, [to_value(arg) for arg in args]))


def _nested(outputs, result_type):
    """The tensors that a graph gives in the tuples of main's result."""
    if isinstance(result_type, TupleType):
        return [_nested(outputs, field) for field in result_type.fields]
    return next(outputs)


class GraphExecutor(Executor):
    """Compiles functions of data flow."""

    def __init__(self, mod: IRModule | None = None, device: Any = None, target: str = "llvm",
                 params: Mapping[str, Any] | None = None) -> None:
        super().__init__(mod)
        self._device, self._target, self._params = device, target, params

    def _evaluate(self, expr):
        from .. import runtime
        from ..contrib import graph_executor
        from . import transform
        from .build_module import bind_params_by_name, build
        if isinstance(expr, GlobalVar):
            module = self.mod
            if expr.name_hint != "main":
                module = IRModule.from_expr(self.mod[expr])
        else:
            module = IRModule.from_expr(expr)
        if self._params:
            module = IRModule(dict(module.functions.items()), dict(module.type_definitions.items()))
            module["main"] = bind_params_by_name(module["main"], self._params)
        function = module["main"]
        result_type = transform.InferType()(module)["main"].ret_type
        executor = graph_executor.GraphModule(
            build(module, self._target)["default"](self._device or runtime.cpu()))

        def call(*args, **kwargs):
            for param, value in zip(function.params, self._arguments(function, args, kwargs)):
                executor.set_input(param.name_hint, value)
            executor.run()
            return _nested(iter([executor.get_output(i) for i in range(executor.get_num_outputs())]), result_type)

        return call if isinstance(expr, (BaseFunc, GlobalVar)) else call()


class VMExecutor(Executor):
    """Compiles the whole language for the virtual machine."""

    def __init__(self, mod: IRModule | None = None, device: Any = None, target: str = "llvm",
                 params: Mapping[str, Any] | None = None) -> None:
        super().__init__(mod)
        self._target, self._params = target, params

    def _evaluate(self, expr):
        from .._vm import VirtualMachine
        from .vm import compile as compile_vm
        if isinstance(expr, GlobalVar):
            module, name = self.mod, expr.name_hint
        else:
            function = expr if isinstance(expr, BaseFunc) else Function([], expr)
            module, name = IRModule(dict(self.mod.functions.items()), dict(self.mod.type_definitions.items())), "main"
            module[name] = function
        machine = VirtualMachine(compile_vm(module, self._target, params=self._params))

        def call(*args, **kwargs):
            return machine.invoke(name, *args, **kwargs)

        return call if isinstance(expr, (BaseFunc, GlobalVar)) else call()


def create_executor(kind: str = "debug", mod: IRModule | None = None, device: Any = None, target: Any = "llvm",
                    params: Mapping[str, Any] | None = None) -> Executor:
    """`kind`: "debug", the interpreter of the whole language; "vm", which compiles it; "graph", which compiles data
    flow."""
    if mod is not None and not isinstance(mod, IRModule):
        raise TypeError(f"create_executor: expected an IRModule, got {type(mod).__name__}; IRModule.from_expr makes one")
    if isinstance(device, str):
        device = nd.device(device)
    if kind == "debug":
        if params:
            raise ValueError('params are bound by the kind "graph"; pass them as arguments')
        return Interpreter(mod, target=target)
    if kind == "graph":
        return GraphExecutor(mod, device, target, params)
    if kind == "vm":
        return VMExecutor(mod, device, target, params)
    raise ValueError(f'no executor of kind "{kind}"; there are "debug", "graph" and "vm"')
