# SPDX-License-Identifier: Apache-2.0
"""Calls the C compiler of the machine."""
import os
import shutil
import subprocess

from ..error import Error


def get_cc():
    """The path of the compiler: $CXX, $CC, or what is installed; None where there is none."""
    candidates = [os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang", "c++", "cc"]
    return next((path for path in map(shutil.which, filter(None, candidates)) if path), None)


def run(command, what):
    """Runs a command; an Error with its output when it fails or isn't there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Error(f"{what}: can't run {command[0]}: {error}") from error
    if done.returncode:
        raise Error(f"{what} failed: {' '.join(command)}\n{done.stdout}{done.stderr}")


def _compiler(cc):
    cc = cc or get_cc()
    if cc is None:
        raise Error("no C compiler found: install one, or set CC")
    return cc


def create_shared(output, objects, options=None, cc=None):
    """Links objects (or compiles sources) to the shared library `output`."""
    objects = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    run([_compiler(cc), "-shared", "-fPIC", "-o", str(output), *map(str, objects), *(options or [])],
        f"linking {output}")


def create_executable(output, objects, options=None, cc=None):
    """Links objects (or compiles sources) to a program."""
    objects = [objects] if isinstance(objects, (str, os.PathLike)) else list(objects)
    run([_compiler(cc), "-o", str(output), *map(str, objects), *(options or [])], f"linking {output}")


def cross_compiler(compile_func, options=None, output_format="so", get_target_triple=None, add_files=None):
    """create_shared with another compiler, such as "aarch64-linux-gnu-gcc"."""

    def link(output, objects, more=None):
        objects = ([objects] if isinstance(objects, str) else list(objects)) + list(add_files or [])
        if callable(compile_func):
            compile_func(output, objects, options=(options or []) + (more or []))
        else:
            create_shared(output, objects, (options or []) + (more or []), cc=compile_func)

    link.output_format = output_format
    return link
