# SPDX-License-Identifier: Apache-2.0
"""C and C++ source to LLVM IR, for the pragma import_llvm."""
import os
import shutil
import tempfile

from .._ffi import get_global_func
from ..error import Error
from .cc import run


def find_clang(required=True):
    """Paths of clang, those first that write the IR of the LLVM that Treadle is built with."""
    version = str(get_global_func("target.llvm_version_major")())
    found = [path for path in map(shutil.which, (f"clang-{version}", "clang")) if path]
    if required and not found:
        raise Error(f"clang isn't installed; clang-{version} is needed to compile C to LLVM IR. With target \"c\" the "
                    "pragma import_c takes C source as it is")
    return found


def create_llvm(inputs, output=None, options=None, cc=None):
    """The LLVM IR, as text, of C source, files, or a list of them."""
    inputs = [inputs] if isinstance(inputs, str) else list(inputs)
    cc = cc or find_clang()[0]
    with tempfile.TemporaryDirectory() as directory:
        texts = []
        for i, text in enumerate(inputs):
            source = text
            if not os.path.exists(text):
                source = os.path.join(directory, f"input{i}.cc")
                with open(source, "w", encoding="utf-8") as file:
                    file.write(text)
            path = os.path.join(directory, f"input{i}.ll")
            run([cc, "-O2", "-S", "-emit-llvm", *(options or []), "-o", path, source], "compiling C to LLVM IR")
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
        if len(texts) != 1:
            raise Error(f"create_llvm: expected one source, got {len(texts)}")
        if output is not None:
            with open(output, "w", encoding="utf-8") as file:
                file.write(texts[0])
        return texts[0]
