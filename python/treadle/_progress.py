# SPDX-License-Identifier: Apache-2.0
"""Compiling with a bar, and so that Ctrl-C ends it."""
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from .error import Error

_T = TypeVar("_T")


class Progress(NamedTuple):
    """How far compiling is: kernels with machine code, of them those that came from the cache on disk, and all."""

    done: int
    cached: int
    total: int


Watcher = Callable[[Progress], object]


@contextlib.contextmanager
def _tqdm() -> Iterator[Watcher]:
    from tqdm.auto import tqdm  # type: ignore[import-not-found,import-untyped,unused-ignore]

    with tqdm(desc="compiling", unit="kernel") as bar:
        def show(progress: Progress) -> None:
            bar.total = progress.total
            bar.update(progress.done - bar.n)

        yield show


@contextlib.contextmanager
def _rich() -> Iterator[Watcher]:
    from rich.progress import Progress as Bar  # type: ignore[import-not-found,unused-ignore]

    with Bar() as bar:
        task = bar.add_task("compiling", total=None)
        yield lambda progress: bar.update(task, completed=progress.done, total=progress.total)


@contextlib.contextmanager
def _plain() -> Iterator[Watcher]:
    """A line on standard error that is written over."""
    shown = False

    def show(progress: Progress) -> None:
        nonlocal shown
        shown = True
        print(f"\rcompiling: {progress.done}/{progress.total} kernels", end="", file=sys.stderr, flush=True)

    yield show
    if shown:
        print(file=sys.stderr)


@contextlib.contextmanager
def watcher(progress: Any) -> Iterator[Watcher | None]:
    """What is called for progress=: nothing for None and False, a function itself, True: a bar of tqdm or of rich,
    whichever is installed, else a line on standard error."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        for bar in (_tqdm, _rich, _plain):
            with contextlib.ExitStack() as stack:
                try:
                    show = stack.enter_context(bar())
                except ImportError:
                    continue
                yield show
                return
    elif callable(progress):
        yield progress
    else:
        raise Error(f"progress is {progress!r}; expected True, or a function of a treadle.Progress")


PATIENCE = 1.0  # seconds of compiling that nobody is told of


@contextlib.contextmanager
def on_terminals(name: str) -> Iterator[Watcher | None]:
    """Says how far the compilation of a model is that somebody waits for unasked: a line on standard error where that is a
    terminal, after a second, which goes when the model is there."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    start, shown = time.monotonic(), False

    def show(progress: Progress) -> None:
        nonlocal shown
        spent = time.monotonic() - start
        if spent < PATIENCE or progress.done == 0:
            return
        shown = True
        left = spent / progress.done * (progress.total - progress.done)
        print(f"\rcompiling {name}: {progress.done}/{progress.total} kernels, {left:.0f} s left\x1b[K", end="",
              file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _Stopped(Exception):
    """Raised in the compiling thread after Ctrl-C."""


def interruptible(build: Callable[[Callable[[int, int, int], None]], _T], watch: Watcher | None) -> _T:
    """The result of build(callback), where callback(done, cached, total) is called after each kernel.

    In the main thread, which signals go to, another thread compiles: KeyboardInterrupt is raised at once here, and
    there compiling ends after the kernels that are being compiled."""
    stop = threading.Event()

    def callback(done: int, cached: int, total: int) -> None:
        if stop.is_set():
            raise _Stopped
        if watch is not None:
            watch(Progress(done, cached, total))

    if threading.current_thread() is not threading.main_thread():
        return build(callback)
    results: list[_T] = []
    errors: list[BaseException] = []
    finished = threading.Event()

    def work() -> None:
        try:
            results.append(build(callback))
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)
        finally:
            finished.set()

    # Not a daemon: a process that ends waits for the kernels that are being compiled.
    try:
        threading.Thread(target=work, name="treadle-compile").start()
    except RuntimeError:  # no more threads available, or the interpreter is shutting down
        return build(callback)
    try:
        finished.wait()
    except BaseException:
        stop.set()
        raise
    if errors:
        raise errors[0]
    return results[0]
