# SPDX-License-Identifier: Apache-2.0
"""Forms of one model for single combinations of input shapes, or of which inputs it has; the former are compiled in the
background while it runs."""
from __future__ import annotations

import collections
import concurrent.futures
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from . import _progress, error

# Names of inputs and their shapes, ordered by name.
Shapes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
_Key = TypeVar("_Key", bound=Hashable)

# A key that was seen this often is compiled for.
SEEN_OFTEN = 2
_MOST_COUNTED = 4096


class Forms(Generic[_Key]):
    """At most `most` forms; the least recently used goes. Any number of threads may ask.

    compile_for: compiles the model for a key (shapes, for example), in a thread of its own; where it raises
    treadle.Error, that key keeps to the general form. quiet: seconds in which nothing is compiled yet, so that a program's
    first answer has the machine to itself.
    """

    def __init__(self, compile_for: Callable[[_Key], Any], most: int, quiet: float = 0.0) -> None:
        self._compile_for, self._most = compile_for, most
        self._begins = time.monotonic() + quiet
        self._lock = threading.Lock()
        self._seen: collections.Counter[_Key] = collections.Counter()
        self._forms: collections.OrderedDict[_Key, concurrent.futures.Future[Any]] = collections.OrderedDict()
        self._worker: concurrent.futures.ThreadPoolExecutor | None = None

    def find(self, key: _Key) -> Any:
        """The form for this key; None: there is none, or none yet."""
        with self._lock:
            found = self._forms.get(key)
            if found is not None:
                self._forms.move_to_end(key)
                return found.result() if found.done() and not found.cancelled() else None
            if key in self._seen or len(self._seen) < _MOST_COUNTED:
                self._seen[key] += 1
            if self._seen[key] >= SEEN_OFTEN and time.monotonic() >= self._begins:
                if self._worker is None:
                    self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="treadle-specialise")
                self._keep(key, self._worker.submit(self._compiled, key))
            return None

    def find_or_compile(self, key: _Key) -> Any:
        """As find, of a model that has no general form: waits for the form. Raises what compiling raises."""
        with self._lock:
            found = self._forms.get(key)
            if found is None:
                found = concurrent.futures.Future()
                found.set_result(self._compile_for(key))
                self._keep(key, found)
            self._forms.move_to_end(key)
            return found.result()

    def settle(self) -> None:
        """Waits for what is compiled in the background; for measurements and tests."""
        concurrent.futures.wait(list(self._forms.values()))

    def _compiled(self, key):
        try:
            return self._compile_for(key)
        except error.Error:
            return None

    def _keep(self, key, form):
        self._forms[key] = form
        while len(self._forms) > self._most:
            oldest, dropped = self._forms.popitem(last=False)
            self._seen.pop(oldest, None)
            dropped.cancel()


def shapes_of(values: Iterable[tuple[str, Any]]) -> Shapes:
    """The shapes of named arrays."""
    return tuple(sorted((name, tuple(value.shape)) for name, value in values))


def forms_of(inputs: Iterable[Any], most: int, compile_again: Callable[..., Any]) -> Forms[Shapes] | None:
    """Where inputs have dynamic dimensions; compile_again: for shapes and dims."""
    if most == 0 or all(isinstance(dim, int) and dim >= 0 for info in inputs for dim in info.shape):
        return None
    return Forms(lambda shapes: _progress.interruptible(
        lambda callback: compile_again(shapes=dict(shapes), dims={}, progress=callback), None), most)
