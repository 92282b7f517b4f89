# SPDX-License-Identifier: Apache-2.0
"""Results of functions kept in files from one run of a script to the next, for references that take long to compute."""
import atexit
import functools
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from ..error import ModelFormatError

_F = TypeVar("_F", bound=Callable[..., Any])


def _folder():
    return pathlib.Path(os.environ.get("TREADLE_MEMOIZE_DIR") or pathlib.Path.cwd() / ".pkl_memoize")


class Cache:
    """Results by arguments, in the file `key`.pkl of $TREADLE_MEMOIZE_DIR (default: .pkl_memoize in the working folder).
    Only this user's files are read: reading a pickle runs what is in it."""

    cache_by_key: dict[str, "Cache"] = {}

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self._path, self.cache, self.dirty = _folder() / f"{key}.pkl", {}, False
        if self._path.exists():
            if self._path.stat().st_uid != os.getuid():
                raise ModelFormatError(f"{self._path} belongs to another user: pickles of others aren't read")
            try:
                self.cache = pickle.loads(self._path.read_bytes())
            except Exception as error:
                raise ModelFormatError(f"{self._path} can't be read, remove it: {error}") from error
        if save_at_exit:
            atexit.register(self.save)
        Cache.cache_by_key[key] = self

    def save(self) -> None:
        """Writes the file, if results were added."""
        if self.dirty:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole = self._path.with_suffix(f".{os.getpid()}")
            whole.write_bytes(pickle.dumps(self.cache))
            os.replace(whole, self._path)
            self.dirty = False


def memoize(key: str, save_at_exit: bool = False) -> Callable[[_F], _F]:
    """Decorator: calls with arguments (which must be hashable) that were there before give what they gave. `key` names
    the file; values that the function reads from its closure or module are not part of the key, as in functools.cache."""

    def decorate(function):
        name = f"{function.__module__}.{function.__qualname__}.{key}".replace("<", "").replace(">", "")

        @functools.wraps(function)
        def called(*args):
            cache = Cache.cache_by_key.get(name) or Cache(name, save_at_exit)
            if args not in cache.cache:
                cache.cache[args] = function(*args)
                cache.dirty = True
            return cache.cache[args]

        return called

    return decorate
