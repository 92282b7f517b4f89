# SPDX-License-Identifier: Apache-2.0
"""Lists, options and trees, and functions on them."""
from .._ffi import get_global_func
from ..ir import IRModule


class Prelude:
    """Adds the prelude's types and functions to a module, `mod`.

    Functions are attributes (`prelude.map`), constructors too, in lower case (`prelude.cons`); types are asked from
    the module: `List, cons, nil = prelude.mod.get_type("List")`.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        if "foldl" not in self.mod:
            self.mod.update(get_global_func("relay.Prelude")())
        for var in self.mod.get_global_type_vars():
            for constructor in self.mod.get_type(var.name_hint)[1:]:
                setattr(self, constructor.name_hint.lower(), constructor)

    def __getattr__(self, name):
        mod = self.__dict__.get("mod")
        if mod is None or name not in mod:
            raise AttributeError(f"the prelude has no function {name}")
        return mod.get_global_var(name)
