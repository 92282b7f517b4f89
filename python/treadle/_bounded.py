# SPDX-License-Identifier: Apache-2.0
"""Compiling in a child process that may take so much time and memory: whatever ends it is an error here."""
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from typing import Any

from . import error
from .error import Error


def compile_in_child(task: dict, seconds: float, memory: int) -> tuple[Any, str]:
    """Compiles; (a folder that goes with the object, the path of the library in it)."""
    if not sys.executable:
        raise Error("there is no Python to start: max_seconds and max_memory compile in a child process")
    folder = tempfile.TemporaryDirectory(prefix="treadle-")
    path = os.path.join(folder.name, "model.so")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    search = os.pathsep.join([package, *([os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else [])])
    try:
        child = subprocess.Popen([sys.executable, "-m", "treadle.exec.compile_child"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": search})
    except OSError as problem:
        raise error.RuntimeError(f"can't start a child process: {problem}") from None
    try:
        answer, _ = child.communicate(pickle.dumps({**task, "path": path, "memory": memory}), seconds or None)
    except subprocess.TimeoutExpired:
        raise error.RunTimeout(f"compiling took more than {seconds:g} seconds (max_seconds)") from None
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()
    if not answer:
        cause = f"was ended by signal {signal.Signals(-child.returncode).name}" if child.returncode < 0 else \
            f"ended with {child.returncode}"
        bound = f"; it may use {memory} bytes of memory (max_memory)" if memory else ""
        raise error.RuntimeError(f"compiling {cause}{bound}")
    kind, message = pickle.loads(answer)
    if kind is not None:
        raise getattr(error, kind, Error)(message)
    return folder, path
