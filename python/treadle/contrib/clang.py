# SPDX-License-Identifier: Apache-2.0
"""C and C++ source to LLVM IR, for the pragma import_llvm."""
import os
import pathlib
import shutil
import tempfile
from typing import Any

from .._ffi import get_global_func
from ..error import Error
from .cc import run


def find_clang(required: bool = True) -> list[str]:
    """Paths of clang, those first that write the IR of the LLVM that Treadle is built with."""
    version = str(get_global_func("target.llvm_version_major")())
    found = [path for path in map(shutil.which, (f"clang-{version}", "clang")) if path]
    if required and not found:
        raise Error(f"clang isn't installed; clang-{version} is needed to compile C to LLVM IR. With target \"c\" the "
                    "pragma import_c takes C source as it is")
    return found


def create_llvm(inputs: Any, output: Any = None, options: Any = None, cc: str | None = None) -> str:
    """The LLVM IR, as text, of one C or C++ source or file (alone or in a list); also written to the file `output`."""
    inputs = [inputs] if isinstance(inputs, str) else list(inputs)
    if len(inputs) != 1:
        raise Error(f"create_llvm: expected one source, got {len(inputs)}")
    cc = cc or find_clang()[0]
    with tempfile.TemporaryDirectory() as directory:
        source, result = inputs[0], pathlib.Path(directory, "result.ll")
        if not os.path.exists(source):
            source = pathlib.Path(directory, "input.cc")
            source.write_text(inputs[0], encoding="utf-8")
        run([cc, "-O2", "-S", "-emit-llvm", *(options or []), "-o", str(result), str(source)], "compiling C to LLVM IR")
        text = result.read_text(encoding="utf-8")
    if output is not None:
        pathlib.Path(output).write_text(text, encoding="utf-8")
    return text
