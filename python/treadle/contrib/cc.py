# SPDX-License-Identifier: Apache-2.0
"""Calls the C compiler of the machine."""
import os
from typing import Any

from .._toolchain import _compiler, create_shared, get_cc, run


def create_executable(output: Any, objects: Any, options: Any = None, cc: str | None = None) -> None:
    """Links objects (or compiles sources) to a program."""
    objects = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    run([_compiler(cc), "-o", str(output), *map(str, objects), *(options or [])], f"linking {output}")


def cross_compiler(compile_func: Any, options: Any = None, output_format: str = "so", get_target_triple: Any = None,
                   add_files: Any = None) -> Any:
    """create_shared with another compiler, such as "aarch64-linux-gnu-gcc"."""

    def link(output, objects, more=None):
        objects = ([objects] if isinstance(objects, str) else list(objects)) + list(add_files or [])
        if callable(compile_func):
            compile_func(output, objects, options=(options or []) + (more or []))
        else:
            create_shared(output, objects, (options or []) + (more or []), cc=compile_func)

    link.output_format = output_format  # type: ignore[attr-defined]
    return link
