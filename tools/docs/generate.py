#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages that are made of the program itself into a folder: references of the command line, of Python, C and C++, and
of messages.
Usage: PYTHONPATH=build/python generate.py FOLDER"""
import importlib
import inspect
import os
import pathlib
import re
import subprocess
import sys

import messages
import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
MODULES = ["treadle", "treadle.model", "treadle.onnxruntime", "treadle.report", "treadle.pytorch", "treadle.quantization",
           "treadle.tuning", "treadle.fleet", "treadle.error", "treadle.runtime", "treadle.nd", "treadle.target",
           "treadle.rpc", "treadle.build_module"]


def help_of(*verb):
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable}  # for verbs that are Python's
    command = [PROGRAM, *verb, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def command_line():
    overview = help_of()
    verbs = re.findall(r"^  ([a-z]+) +\S", overview[overview.index("Verbs:"):], re.MULTILINE)
    pages = [f"# Command line\n\n```\n{overview}\n```\n"]
    pages += [f"## treadle {verb}\n\n```\n{help_of(verb)}\n```\n" for verb in verbs]
    return "\n".join(pages)


def signature(value):
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(..)"


# "name: what it is", "a, b (bytes): what they are" at the begin of a line.
ARGUMENT = re.compile(r"([a-z_]+(?:, [a-z_]+)*(?: \([^)]*\))?):(?= )")


def documented(value):
    text = inspect.getdoc(value) or ""
    # Examples stand in blocks of their own.
    parts, example, listed = [], [], False
    for line in [*text.splitlines(), None]:
        if line is not None and (line.startswith(">>>") or example and line.strip()):
            example.append(line)
            continue
        if example:
            parts += ["", "```python", *example, "```", ""]
            example = []
        argument = ARGUMENT.match(line or "")
        if argument:
            # A list begins after an empty line.
            parts += [*([] if listed else [""]), f"- **{argument[1]}**:{line[argument.end():]}"]
            listed = True
        elif line is not None:
            listed = listed and bool(line)
            parts.append(line)
    return "\n".join(parts)


def members(cls):
    for name, member in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if callable(function) and inspect.getdoc(function):
            yield name, member, function


def entry(name, value, level):
    mark = "#" * level
    if inspect.isclass(value):
        yield f"{mark} class {name}\n\n{documented(value)}\n"
        for member, raw, function in members(value):
            arguments = "" if isinstance(raw, property) else signature(function)
            yield f"{mark}# {name.rsplit('.', 1)[-1]}.{member}{arguments}\n\n{documented(function)}\n"
    elif callable(value):
        yield f"{mark} {name}{signature(value)}\n\n{documented(value)}\n"


def python():
    pages, seen = ["# Python\n"], set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        names = getattr(module, "__all__", None) or [n for n, v in vars(module).items() if not n.startswith("_")
                                                     and getattr(v, "__module__", "") == module_name]
        pages.append(f"## {module_name}\n\n{documented(module)}\n")
        for name in names:
            value = getattr(module, name)
            if inspect.ismodule(value) or id(value) in seen or not str(getattr(value, "__module__", "")).startswith("treadle"):
                continue
            seen.add(id(value))
            pages += entry(f"{module_name}.{name}", value, 3)
    return "\n".join(pages)


def c_interface():
    pages = ["# C\n\nThe headers of `libtreadle_runtime.so`; the text is theirs.\n"]
    for header in ("c_api.h", "c_types.h", "c_backend_api.h", "unpack_arguments.h"):
        text = (ROOT / "include/treadle/runtime" / header).read_text(encoding="utf-8")
        pages.append(f"## treadle/runtime/{header}\n\n```c\n{text}```\n")
    return "\n".join(pages)


def cpp_interface():
    pages = ["# C++\n\nThe headers for running and for compiling models; the text is theirs. Programs link "
             "`treadle::treadle_runtime`, those that compile `treadle::treadle` ([start](start.md#from-c)).\n"]
    for header in ("runtime/model.h", "runtime/ndarray.h", "runtime/manifest.h", "runtime/run_limits.h", "runtime/thread_pool.h",
                   "runtime/module.h", "runtime/packed_func.h", "runtime/registry.h", "base/error.h", "driver/compile.h"):
        text = (ROOT / "include/treadle" / header).read_text(encoding="utf-8")
        pages.append(f"## treadle/{header}\n\n```cpp\n{text}```\n")
    return "\n".join(pages)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("reference-cli.md", command_line), ("reference-python.md", python), ("reference-c.md", c_interface),
                       ("reference-cpp.md", cpp_interface), ("reference-messages.md", messages.page)):
        (folder / name).write_text(make(), encoding="utf-8")


main()
