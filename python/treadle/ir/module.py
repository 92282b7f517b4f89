# SPDX-License-Identifier: Apache-2.0
"""Modules: functions by name, and definitions of types."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._ffi import Map, convert, get_global_func, register_object
from ..error import Error
from .base import Node, _api
from .expr import BaseFunc, Constructor, GlobalVar, RelayExpr
from .type import GlobalTypeVar

if TYPE_CHECKING:
    import os

    from .type import TypeData


@register_object("IRModule")
class IRModule(Node):
    """Functions by name, and definitions of types."""

    functions: Map
    type_definitions: Map

    def __init__(self, functions: Mapping[Any, BaseFunc] | None = None,
                 type_definitions: Mapping[GlobalTypeVar, TypeData] | None = None) -> None:
        functions = {GlobalVar(key) if isinstance(key, str) else key: value for key, value in (functions or {}).items()}
        super().__init__(_api.IRModule(functions, dict(type_definitions or {})))

    @staticmethod
    def from_expr(expr: RelayExpr, functions: Mapping[Any, BaseFunc] | None = None,
                  type_defs: Mapping[GlobalTypeVar, TypeData] | None = None) -> IRModule:
        """A module whose `main` is the expression."""
        module = _api.Module_FromExpr(expr)
        if functions:
            module.update(IRModule(functions, type_defs))
        return module

    def get_global_var(self, name: str) -> GlobalVar:
        return _api.Module_GetGlobalVar(self, name)

    def get_global_vars(self) -> list[GlobalVar]:
        return self.functions.keys()

    def get_global_type_var(self, name: str) -> GlobalTypeVar:
        """The name of a data type."""
        for var in self.type_definitions.keys():
            if var.name_hint == name:
                return var
        raise Error(f"the module has no type {name}; it has: "
                    f"{', '.join(sorted(v.name_hint for v in self.type_definitions.keys())) or 'none'}")

    def get_global_type_vars(self) -> list[GlobalTypeVar]:
        """The names of all data types."""
        return list(self.type_definitions.keys())

    def get_type(self, name: str) -> tuple[Any, ...]:
        """A data type's name and its constructors, in a tuple."""
        var = self.get_global_type_var(name)
        return (var, *self.type_definitions[var].constructors)

    def get_constructor(self, name: str, constructor: str) -> Constructor:
        """The constructor of that name of the data type `name`."""
        known = self.get_type(name)[1:]
        for each in known:
            if each.name_hint == constructor:
                return each
        raise Error(f"type {name} has no constructor {constructor}; it has: {', '.join(c.name_hint for c in known)}")

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """Pairs of name and function, sorted by name."""
        return sorted(self.functions.items(), key=lambda item: str(item[0].name_hint))

    def __getitem__(self, key: GlobalVar | GlobalTypeVar | str) -> Any:
        if isinstance(key, GlobalTypeVar):
            return self.type_definitions[key]
        return _api.Module_Lookup_str(self, key) if isinstance(key, str) else _api.Module_Lookup(self, key)

    def __setitem__(self, key: GlobalVar | GlobalTypeVar | str, function: Any) -> None:
        if isinstance(key, GlobalTypeVar):
            return self.update(IRModule({}, {key: function}))
        if isinstance(key, str):
            key = self.get_global_var(key) if _api.Module_ContainGlobalVar(self, key) else GlobalVar(key)
        if isinstance(function, RelayExpr) and not isinstance(function, BaseFunc):
            function = IRModule.from_expr(function)["main"]  # a function of its free variables
        self._reference(_api.Module_WithFunction(self, key, function))

    def update_func(self, var: GlobalVar, func: BaseFunc) -> None:
        """Replaces the function of a global variable of the module."""
        if var not in self:
            raise Error(f"the module has no function '{getattr(var, 'name_hint', var)}'")
        self[var] = func

    def with_attr(self, attr_key: str, attr_value: Any) -> IRModule:
        """A copy of the module with an attribute."""
        return _api.Module_WithAttr(self, attr_key, convert(attr_value))

    def get_attr(self, attr_key: str) -> Any:
        """An attribute of the module, or None."""
        return _api.Module_GetAttr(self, attr_key)

    def shallow_copy(self) -> IRModule:
        """A module of its own with the same functions."""
        return IRModule(dict(self.functions.items()), dict(self.type_definitions.items()))

    def import_from_std(self, file_to_import: str) -> None:
        """Adds the definitions of "prelude.rly": lists, options and trees."""
        if str(file_to_import) not in ("prelude.rly", "prelude"):
            raise Error(f"there is no standard file '{file_to_import}'; there is prelude.rly")
        self.update(get_global_func("relay.Prelude")())

    @staticmethod
    def from_import(file_to_import: str | os.PathLike) -> IRModule:
        """A module of the functions and types of a file in text form, or of "prelude.rly"."""
        module = IRModule()
        if str(file_to_import) in ("prelude.rly", "prelude"):
            module.import_from_std(str(file_to_import))
        else:
            module.import_(file_to_import)
        return module

    def import_(self, file_to_import: str | os.PathLike) -> None:
        """Adds the functions and types of a file in text form."""
        with open(file_to_import, encoding="utf-8") as file:
            self.update(get_global_func("relay.parser.ParseModule")(str(file_to_import), file.read()))

    def __contains__(self, key: GlobalVar | str) -> bool:
        return bool(_api.Module_ContainGlobalVar(self, key if isinstance(key, str) else key.name_hint))

    def update(self, other: IRModule | Mapping[Any, BaseFunc]) -> None:
        """Takes over the functions of another module (or dict of functions)."""
        other = other if isinstance(other, IRModule) else IRModule(other)
        self._reference(_api.Module_Update(self, other))
