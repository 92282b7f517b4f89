# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of public functions, so that errors name what the caller passed."""
import difflib
import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ._core import CancelToken
from ._dtype import to_numpy
from .error import DTypeError, Error, ShapeError

_F = TypeVar("_F", bound=Callable[..., Any])


class SupportsSerialize(Protocol):
    """What onnx.ModelProto is asked for."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


def suggest(name: object, known: Any) -> str:
    """"; did you mean 'x'?" with the nearest of the known names, or nothing."""
    names = [str(k) for k in known]
    begun = [k for k in names if k.startswith(str(name))]
    found = begun if len(begun) == 1 and len(str(name)) > 2 else difflib.get_close_matches(str(name), names, 1)
    return f"; did you mean '{found[0]}'?" if found else ""


# What people look for among the arguments of treadle.compile and treadle.quantize, and where it is.
_ELSEWHERE: dict[str, dict[str, str]] = {"compile": {
    "device": "target='llvm -mcpu=native' says what code is for", "output": "Model.save writes what was compiled",
    "output_path": "Model.save writes what was compiled", "records": "pass_config={'schedule.records': path} takes records",
    "cache_dir": "the environment variable TREADLE_CACHE_DIR says where kernels are kept",
    "input_shapes": "shapes={'x': (1, 3, 224, 224)} gives them", "num_threads": "it is called threads",
    "providers": "code runs on the CPU; treadle.InferenceSession takes providers", "dtype": "precision='bf16' says it",
    "batch_size": "dims={'batch': 1} gives sizes by name",
}, "quantize": {
    "weight_only": "mode='weight_only', bits=4 quantises weights only", "dynamic": "mode='dynamic' says it",
    "static": "mode='static' says it", "report": "the result's text() and json() are the report",
    "asymmetric_weights": "symmetric_weights=False says it",
}}


def refuses_unknown(function: _F) -> _F:
    """Decorator: unknown keyword arguments are a TypeError that says which was meant, or lists all."""
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.POSITIONAL_ONLY]

    @functools.wraps(function)
    def checked(*args, **keywords):
        for name in keywords:
            if name not in known:
                elsewhere = _ELSEWHERE.get(function.__name__, {}).get(name)
                listed = f"; it has: {', '.join(k for k in known if k != 'self')}"
                raise TypeError(f"{function.__name__}() has no argument '{name}'"
                                + (f"; {elsewhere}" if elsewhere else suggest(name, known) or listed))
        return function(*args, **keywords)

    return checked  # type: ignore[return-value]


def mapping(what: str, value: Any, example: str) -> dict:
    """A dict by name; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DTypeError(f"{what}: expected a dict such as {example}, got {type(value).__name__} {_short(value)}")
    wrong = [name for name in value if not isinstance(name, str)]
    if wrong:
        raise DTypeError(f"{what}: names are strings, got {_short(wrong[0])}; a dict such as {example} is expected")
    return dict(value)


def texts(config: Mapping | None) -> dict[str, str]:
    """Options of passes as the command line writes them: truth values are true and false."""
    return {str(key): str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)
            for key, value in (config or {}).items()}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _whole(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))


MOST = 2**63 - 1  # of int64


def whole(what: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number within limits."""
    if not _whole(value) or value < least or value > (MOST if most is None else most):
        if _whole(value):
            limits = f"{least} or more" if most is None else f"{least} to {most}"
        else:
            limits = f"a whole number {f'of {least} or more' if most is None else f'from {least} to {most}'}"
        raise Error(f"{what} is {_short(value)}; expected {limits}")
    return int(value)


def shapes(value: Any) -> dict[str, list[int]]:
    """Shapes of inputs by name."""
    result = {}
    for name, shape in mapping("shapes", value, "{'x': (1, 3, 224, 224)}").items():
        if isinstance(shape, (str, bytes, Mapping)) or not hasattr(shape, "__iter__"):
            raise ShapeError(f"shapes['{name}']: expected a tuple of whole numbers, got {_short(shape)}")
        shape = list(shape)
        for i, dim in enumerate(shape):
            if _whole(dim) and 0 <= dim <= MOST:
                continue
            help_text = "expected a whole number" + (" below 2**63" if _whole(dim) and dim > MOST else "")
            if dim is None or isinstance(dim, str) or dim == -1:
                help_text += "; to fix only some dimensions and leave the others open, give those by name: dims={'batch': 1}"
            raise ShapeError(f"shapes['{name}'][{i}] is {_short(dim)}; {help_text}")
        result[name] = [int(dim) for dim in shape]
    return result


def dims(value: Any) -> dict[str, int | str]:
    """Sizes of symbolic dimensions by name, or ranges ("1..8")."""
    result: dict[str, int | str] = {}
    for name, size in mapping("dims", value, "{'batch': 1}").items():
        if isinstance(size, str):
            result[name] = size
            continue
        if not _whole(size) or not 0 <= size <= MOST:
            raise ShapeError(f"dims['{name}'] is {_short(size)}; expected a whole number, or a range as text: '1..8' (names "
                             "that aren't given stay open)")
        result[name] = int(size)
    return result


def strings(what: str, value: Any) -> list[str]:
    """A list of names; one string is a list of one."""
    if isinstance(value, str):
        return [value]
    if value is None:
        return []
    try:
        names = list(value)
    except TypeError:
        names = [None]
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise DTypeError(f"{what}: expected a list of names, got {_short(value)}")
    return names


def number(what: str, value: Any, expected: str, low: float = 0, high: float = math.inf) -> float:
    """A finite number above `low` and of at most `high`; `expected` says so."""
    real = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not real or not math.isfinite(value) or not low < float(value) <= high:
        raise Error(f"{what} is {_short(value)}; expected {expected}")
    return float(value)


def repetitions(what: str, timeout: Any, count: Any, repeat: Any, min_repeat_ms: Any) -> None:
    """Checks how long and how often something is measured."""
    number(f"{what}: the time limit", timeout, "seconds above 0")
    whole(f"{what}: number", count, 1)
    whole(f"{what}: repeat", repeat, 1)
    number(f"{what}: min_repeat_ms", min_repeat_ms, "milliseconds, 0 or more", -1e-300)


def sequence(what: str, value: Any, kind: type, expected: str) -> list:
    """A list of values of one kind."""
    listed = None if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__") else list(value)
    if listed is None or not all(isinstance(item, kind) for item in listed):
        raise DTypeError(f"{what}: expected {expected}, got {_short(value)}")
    return listed


def listed(what: str, value: Any, expected: str) -> list:
    """A list of values of any kind."""
    return sequence(what, value, object, expected)


def function(what: str, value: Any, expected: str = "a function") -> Any:
    """Something that can be called."""
    if not callable(value):
        raise DTypeError(f"{what}: expected {expected}, got {_short(value)}")
    return value


def chosen(what: str, value: Any, known: Sequence[str]) -> str:
    """One of some names."""
    if value not in known:
        raise Error(f"{what} is {_short(value)}; expected {' or '.join(map(repr, known))}{suggest(value, known)}")
    return value


def paths(what: str, value: Any) -> list[str]:
    """A list of paths; one path is a list of one."""
    listed = [value] if isinstance(value, (str, os.PathLike)) else value
    if not hasattr(listed, "__iter__"):
        raise DTypeError(f"{what}: expected a list of paths, got {_short(value)}")
    return [path(what, item) for item in listed]


def path(what: str, value: Any) -> str:
    """A path that isn't empty."""
    if not isinstance(value, (str, os.PathLike)):
        raise DTypeError(f"{what}: expected a path, got {_short(value)}")
    text = os.fspath(value)
    if not isinstance(text, str) or not text:
        raise Error(f"{what}: the path is empty" if not text else f"{what}: a path of text is expected, not {_short(text)}")
    return text


def is_array(value: Any) -> bool:
    """Whether a value has an element type of its own: NumPy and DLPack arrays, tensors, not lists nor numbers."""
    return any(hasattr(value, name) for name in ("dtype", "__dlpack__", "__array__", "__array_interface__"))


def converted(name: str, value: Any, dtype: Any) -> np.ndarray:
    """A list or number as an array of an input's type (`dtype`: of NumPy, or a name), where that keeps its values:
    fractions don't become integers, nor large integers small ones. Floats are rounded to the type."""
    wanted = to_numpy(dtype) if isinstance(dtype, str) else np.dtype(dtype)
    if value is None:
        raise DTypeError(f'input "{name}" is None; expected an array of {wanted}')
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f'input "{name}": the rows of the list differ in length') from None
    if array.dtype.kind not in "biuf" and not array.dtype.isbuiltin == 2:  # 2: types such as bfloat16
        raise DTypeError(f'input "{name}": expected numbers for {wanted}, got {_short(value)}')
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(wanted)
    if wanted.kind in "biu" and array.size and not np.array_equal(result.astype(array.dtype), array):
        raise DTypeError(f'input "{name}": not all values of {_short(value)} are of type {wanted}')
    return result


def threads(value: Any) -> int:
    """0 (all), or a number of threads that isn't beyond reason."""
    return whole("threads", value, 0, max(64, 8 * (os.cpu_count() or 1)))


def seconds(timeout: Any, name: str = "timeout") -> float:
    """A time limit; None is none."""
    if timeout is None:
        return 0.0
    return number(name, timeout, "seconds above 0, or None for no limit")


def cancel_token(token: Any) -> CancelToken | None:
    if token is None or isinstance(token, CancelToken):
        return token
    raise DTypeError(f"cancel: expected a treadle.CancelToken, got {type(token).__name__}")
