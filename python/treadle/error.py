# SPDX-License-Identifier: Apache-2.0
"""Errors that Treadle raises. Each has `exit_code`: what the command line exits with for it."""
import builtins
import errno
from collections.abc import Sequence

from . import _core


class Error(builtins.RuntimeError):
    """Base of all of Treadle's errors; raised itself for plain mistakes of use. A RuntimeError, as TVM's are."""

    exit_code = 2


class UnsupportedOpError(Error):
    """A valid model uses what Treadle doesn't implement. `nodes` has one line for each node at fault."""

    exit_code = 3
    nodes: Sequence[str] = ()


class ShapeError(Error, ValueError):
    """Shapes that don't fit."""


class DTypeError(Error, TypeError):
    """Element types that don't fit."""


class ModelFormatError(Error, ValueError):
    """A file or text that can't be read."""

    exit_code = 4


class FileNotFoundError(Error, builtins.FileNotFoundError):  # noqa: A001 - as Python's own, by which it is caught, too
    """A file that isn't there."""

    errno = errno.ENOENT


class TargetError(Error, ValueError):
    """An unknown or impossible target."""


class VerifyError(Error):
    """A comparison failed."""

    exit_code = 1


class RuntimeError(Error, builtins.RuntimeError):  # noqa: A001 - the name of the C++ class
    """A compiled model or a device failed while running."""

    exit_code = 5


class RunCancelled(RuntimeError):
    """A run that a CancelToken ended."""


class RunTimeout(RuntimeError, builtins.TimeoutError):
    """A run that took longer than its `timeout`."""


class RPCError(Error):
    """A session with a server that can't be had, or that ended."""


class InternalError(Error):
    """A bug in Treadle."""

    exit_code = 70


def cannot_open(path: object, problem: OSError) -> Error:
    """The error for a file that the system doesn't open."""
    cls = FileNotFoundError if isinstance(problem, (builtins.FileNotFoundError, NotADirectoryError)) else Error
    return cls(f"can't open {path}: {problem.strerror}")


TreadleError = Error
TVMError = builtins.RuntimeError  # which also what Python's own functions raise is caught by
# The original's names.
OpError = OpNotImplemented = OpAttributeUnImplemented = UnsupportedOpError
OpAttributeRequired = OpAttributeInvalid = ModelFormatError
DiagnosticError = Error

for _cls in (Error, UnsupportedOpError, ShapeError, DTypeError, ModelFormatError, FileNotFoundError, TargetError,
             VerifyError, RuntimeError, RunCancelled, RunTimeout, InternalError):
    _core.register_error(_cls.__name__, _cls)
