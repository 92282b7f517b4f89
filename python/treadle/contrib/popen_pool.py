# SPDX-License-Identifier: Apache-2.0
"""Functions in processes of their own, which may time out or crash without harm to this one."""
import concurrent.futures
import enum
import multiprocessing
import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


class StatusKind(enum.IntEnum):
    """How a call ended."""

    RUNNING, COMPLETE, EXCEPTION, TIMEOUT = range(4)


class MapResult:
    """The status of one call and its value: a result or an exception."""

    def __init__(self, status: Any, value: Any) -> None:
        self.status, self.value = status, value


def _serve(pipe, initializer, initargs):
    if initializer is not None:
        initializer(*initargs)
    while True:
        try:
            function, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - goes to the caller
            answer = False, error
        try:
            pipe.send(answer)
        except Exception as error:  # noqa: BLE001 - results that can't be pickled
            pipe.send((False, RuntimeError(f"the result can't be sent back: {error}")))


class PopenWorker:
    """One process: send a call, then receive its result. Functions and arguments are pickled."""

    def __init__(self, initializer: Callable[..., Any] | None = None, initargs: Sequence[Any] = ()) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable, not {initializer!r}")
        self._initializer, self._initargs = initializer, tuple(initargs)
        self._process: Any = None
        self._pipe: Any = None
        self._timeout: float | None = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._initializer, self._initargs), daemon=True)
        self._process.start()
        other.close()

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def kill(self) -> None:
        """Ends the process; the next call starts another."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
        self._process = None

    def join(self, timeout: float | None = None) -> None:
        if self._process is not None:
            self._process.join(timeout)

    def send(self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
             timeout: float | None = None) -> None:
        """Begins a call; `timeout` in seconds holds for recv."""
        if not self.is_alive():
            self.kill()
            self._start()
        self._timeout = timeout
        self._pipe.send((fn, args, kwargs or {}))

    def recv(self) -> Any:
        """The result of the call. Raises what it raised, TimeoutError, or ChildProcessError where the process died."""
        if self._process is None:
            raise RuntimeError("recv: no call was sent")
        try:
            if not self._pipe.poll(self._timeout):
                self.kill()
                raise TimeoutError(f"the call took longer than {self._timeout} seconds")
            good, value = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self.kill()
            raise ChildProcessError("the process ended during the call") from error
        if not good:
            raise value
        return value

    def __del__(self):
        self.kill()


class PopenPoolExecutor:
    """Calls on up to `max_workers` processes at once, each ended after `timeout` seconds."""

    def __init__(self, max_workers: Any = None, timeout: float | None = None, initializer: Callable[..., Any] | None = None,
                 initargs: Sequence[Any] = ()) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable, not {initializer!r}")
        count = max_workers or multiprocessing.cpu_count()
        self._timeout = timeout
        self._idle: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        for _ in range(count):
            self._idle.put(PopenWorker(initializer, initargs))
        self._threads = concurrent.futures.ThreadPoolExecutor(count)

    def _call(self, fn, args, kwargs):
        worker = self._idle.get()
        try:
            worker.send(fn, args, kwargs, self._timeout)
            return worker.recv()
        finally:
            self._idle.put(worker)

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> "concurrent.futures.Future[Any]":
        """A future of the call's result."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def map_with_error_catching(self, fn: Callable[[Any], Any], iterator: Iterable[Any]) -> Any:
        """MapResults of the calls with each value, in order."""
        for future in [self.submit(fn, value) for value in iterator]:
            try:
                yield MapResult(StatusKind.COMPLETE, future.result())
            except TimeoutError as error:
                yield MapResult(StatusKind.TIMEOUT, error)
            except Exception as error:  # noqa: BLE001 - is the result
                yield MapResult(StatusKind.EXCEPTION, error)

    def __del__(self):
        self._threads.shutdown(wait=False)
