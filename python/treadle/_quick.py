# SPDX-License-Identifier: Apache-2.0
"""Models that are compiled with few of LLVM's passes first, and again with all of them while they run."""
from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from . import _progress, error


def target_of(target: str) -> str:
    """The target for the first form. Targets other than LLVM's have no such passes: their first form is the last one."""
    if "-opt-level" in target:
        raise error.Error(f"quick sets -opt-level, which '{target}' does, too")
    return target + " -opt-level=1"


class Background:
    """Compiles in a thread of its own; what comes out goes to `adopt`.

    compile: takes a function that it calls after each kernel. It ends early where the process ends; where it raises
    treadle.Error, nothing is adopted.
    """

    def __init__(self, compile: Callable[[Any], Any], adopt: Callable[[Any], None]) -> None:
        self._compile, self._adopt = compile, adopt
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="treadle-quick", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def settle(self) -> None:
        """Waits until it is done."""
        self._thread.join()

    def _run(self):
        try:
            self._adopt(_progress.interruptible(self._compile, self._watch))
        except error.Error:
            pass
        finally:
            atexit.unregister(self._end)

    def _watch(self, progress):
        if self._ends.is_set():
            raise error.Error("the process ends")

    def _end(self):
        self._ends.set()
        self._thread.join()
