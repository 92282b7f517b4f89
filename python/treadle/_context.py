# SPDX-License-Identifier: Apache-2.0
"""What treadle.compile takes from the PassContext that it is called in."""
from typing import Any

from . import transform
from .error import Error
from .ir.transform import _enclosing


def merged(opt_level: int | None, disabled: list[str], required: list[str],
           config: dict[str, Any]) -> tuple[int, list[str], list[str], dict[str, Any]]:
    """Level, passes and options of a compilation: those given, then the context's, then the defaults."""
    context = _enclosing()
    if transform.PassContext.current().instruments:
        raise Error("the PassContext has instruments, which treadle.compile doesn't run: it compiles in a thread of its own.\n"
                    "help: relay.frontend.from_onnx and relay.build run them; Model.explain says what the compiler decided")
    if context is None:
        return 3 if opt_level is None else opt_level, disabled, required, config
    kinds = {key: info["type"] for key, info in transform.PassContext.list_configs().items()}
    inherited: dict[str, Any] = {}
    for key, value in context.config.items():
        if key in config:
            continue
        if kinds[key] not in ("bool", "int", "string"):
            raise Error(f"the PassContext's option '{key}' isn't a number or text, and treadle.compile takes no others.\n"
                        "help: relay.frontend.from_onnx and relay.build take it")
        inherited[key] = bool(value) if kinds[key] == "bool" else str(value)
    level = int(context.opt_level) if opt_level is None else opt_level
    return (level, disabled + [name for name in context.disabled_pass if name not in disabled],
            required + [name for name in context.required_pass if name not in required], {**inherited, **config})
