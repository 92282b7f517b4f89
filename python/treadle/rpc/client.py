# SPDX-License-Identifier: Apache-2.0
"""The client's side: sessions with functions, modules and tensors of a server."""
from __future__ import annotations

import difflib
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import error as errors
from .. import nd
from .._dtype import DataType, of_numpy, to_numpy
from ..contrib.graph_executor import BenchmarkResult
from . import _values, _wire


_GRACE = 1.0  # seconds beyond a session's time after which the client doesn't wait for the server's word
_SOON = 10.0  # seconds until a client that waits for a key without servers gets a message


class _Remote:
    """What lives in the server until this is collected."""

    def __init__(self, session, number):
        self.rpc_session, self._id = session, number

    def rpc_value(self, _blobs):
        return {"t": "ref", "id": self._id}

    def __del__(self):
        self.rpc_session._forget(self._id)  # pylint: disable=protected-access


class RemoteArray(_Remote):
    """A tensor of the server."""

    def __init__(self, session: Any, number: int, shape: Any, dtype: str, device: Any) -> None:
        super().__init__(session, number)
        self.shape, self.dtype = tuple(shape), DataType(dtype)
        self.device = RemoteDevice(session, *device)

    def numpy(self) -> Any:
        """A copy of the elements, here."""
        return self.rpc_session._ask({"op": "read", "id": self._id}).numpy()

    asnumpy = numpy

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def copyfrom(self, source: Any) -> RemoteArray:
        """Replaces the elements by those of an array of the same shape and type."""
        if not isinstance(source, nd.NDArray):
            source = nd.array(np.asarray(source, dtype=to_numpy(self.dtype)))
        blobs: list[Any] = []
        packed = _values.pack_tensor(source, blobs)
        self.rpc_session._ask({"op": "write", "id": self._id, "tensor": packed}, blobs)
        return self

    def copyto(self, target: Any) -> Any:
        """Copies to a tensor here, to one of the session, or to a device of it."""
        if isinstance(target, RemoteDevice):
            return self.rpc_session._ask({"op": "copy", "id": self._id, "device": target.pair})
        if isinstance(target, nd.Device):
            return nd.array(self.numpy(), target)
        return target.copyfrom(self.numpy())

    def __repr__(self):
        return f"<RemoteArray shape={self.shape}, {self.dtype}, {self.device}>"


class RemoteFunction(_Remote):
    """A function of the server."""

    def __call__(self, *args: Any) -> Any:
        for i, arg in enumerate(args):
            if isinstance(arg, (nd.NDArray, np.ndarray)):
                raise errors.Error(f"argument {i} is a tensor of this process, which the function can't write to; "
                                   "nd.array(value, session.cpu()) makes one of the session's")
        blobs: list[Any] = []
        packed = [_values.pack(arg, blobs) for arg in args]
        return self.rpc_session._ask({"op": "call", "id": self._id, "args": packed}, blobs)


class RemoteModule(_Remote):
    """A module of the server."""

    entry_name = "__tvm_main__"
    type_key = "rpc"

    def get_function(self, name: str, query_imports: bool = False) -> RemoteFunction:
        return self.rpc_session._ask({"op": "function", "id": self._id, "name": name, "imports": query_imports})

    __getitem__ = get_function

    def __call__(self, *args: Any) -> Any:
        return self.get_function(self.entry_name)(*args)

    @property
    def entry_func(self) -> RemoteFunction:
        return self.get_function(self.entry_name)

    def get_source(self, fmt: str = "") -> str:
        return self.rpc_session._ask({"op": "source", "id": self._id, "format": fmt})

    def import_module(self, module: RemoteModule) -> None:
        self.rpc_session._ask({"op": "import", "id": self._id, "other": module._id})

    def time_evaluator(self, func_name: str, dev: RemoteDevice | None = None, number: int = 10, repeat: int = 1,
                       min_repeat_ms: float = 0, **_: Any) -> Callable[..., BenchmarkResult]:
        """A function that runs `func_name` in the server and returns its times there, in seconds."""
        pair = dev.pair if isinstance(dev, RemoteDevice) else [1, 0]

        def evaluate(*args):
            blobs = []
            packed = [_values.pack(arg, blobs) for arg in args]
            times = self.rpc_session._ask({"op": "time", "id": self._id, "name": func_name, "device": pair,
                                           "number": number, "repeat": repeat, "min_repeat_ms": min_repeat_ms,
                                           "args": packed}, blobs)
            return BenchmarkResult(times)

        return evaluate


class RemoteDevice:
    """A device of the server."""

    def __init__(self, session: RPCSession, device_type: int, device_id: int = 0) -> None:
        self.rpc_session, self.pair = session, [int(device_type), int(device_id)]

    device_type = property(lambda self: self.pair[0])
    device_id = property(lambda self: self.pair[1])

    @property
    def exist(self) -> bool:
        return self.rpc_session._ask({"op": "device_exists", "device": self.pair})

    def rpc_value(self, _blobs: Any) -> dict[Any, Any]:
        return {"t": "device", "v": self.pair}

    def __eq__(self, other):
        return isinstance(other, RemoteDevice) and (self.rpc_session, self.pair) == (other.rpc_session, other.pair)

    def __hash__(self):
        return hash((id(self.rpc_session), *self.pair))

    def __repr__(self):
        return f"remote {nd.Device(*self.pair)}"


class RPCSession:
    """A session with a server. Threads take turns."""

    def __init__(self, link: Any, session_timeout: float = 0) -> None:
        self._link, self._timeout = link, session_timeout
        self._lock = threading.RLock()
        self._freed: list[Any] = []
        self._ended: str | None = None
        # The server ends the session at its time; one that is stopped, or gone without a word, doesn't.
        if session_timeout:
            link.end_after(session_timeout + _GRACE)
        self._ask_raw({"op": "hello", "timeout": int(session_timeout)}, [])

    def _ask_raw(self, header, blobs):
        with self._lock:
            if self._ended:
                raise _wire.RPCError(self._ended)
            try:
                self._link.send(header, blobs)
                return self._link.receive()
            except (EOFError, OSError) as error:
                after = f", or the session lasted {self._timeout} s, its limit" if self._timeout else ""
                self._ended = (f"the session with {self._link.peer} ended at request '{header['op']}': the server was "
                               f"stopped, or what it ran failed{after} ({error or 'no more data'})")
                raise _wire.RPCError(self._ended) from None

    def _ask(self, header, blobs=()):
        with self._lock:
            if self._freed:
                freed, self._freed = self._freed, []
                self._ask_raw({"op": "free", "ids": freed}, [])
            answer, out = self._ask_raw(header, list(blobs))
        if "error" in answer:
            kind = getattr(errors, str(answer.get("kind")), None)
            kind = kind if isinstance(kind, type) and issubclass(kind, Exception) else errors.Error
            if answer.get("kind") == "AttributeError":
                kind = AttributeError
            raise kind(f"{self._link.peer}: {answer['error']}")
        return _values.unpack(answer["ok"], out, self._resolve)

    def _resolve(self, value):
        if value["kind"] == "tensor":
            return RemoteArray(self, value["id"], value["shape"], value["dtype"], value["device"])
        return (RemoteModule if value["kind"] == "module" else RemoteFunction)(self, value["id"])

    def _forget(self, number):
        self._freed.append(number)

    def upload(self, data: Any, target: str | None = None) -> None:
        """Puts a file (its path, or bytes with the name `target`) into the session's folder."""
        if isinstance(data, (bytes, bytearray)):
            if not target:
                raise ValueError("bytes need the name of the file that they become: upload(data, target)")
        else:
            target = target or os.path.basename(os.fspath(data))
            with open(data, "rb") as file:
                data = file.read()
        self._ask({"op": "upload", "name": target}, [bytes(data)])

    def download(self, path: str) -> bytes:
        """The bytes of a file of the session."""
        return self._ask({"op": "download", "name": path})

    def remove(self, path: str) -> None:
        self._ask({"op": "remove", "name": path})

    def load_module(self, path: str) -> RemoteModule:
        """Loads an uploaded library, or objects (.o, .tar), which are linked there."""
        return self._ask({"op": "load_module", "name": path})

    def get_function(self, name: str) -> RemoteFunction:
        """A function registered in the server."""
        return self._ask({"op": "global", "name": name})

    def device(self, dev_type: Any, dev_id: int = 0) -> RemoteDevice:
        kind = nd.device(dev_type) if isinstance(dev_type, str) else nd.Device(int(dev_type), 0)
        return RemoteDevice(self, kind.device_type, dev_id)

    context = device

    def cpu(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("cpu", dev_id)

    def cl(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("opencl", dev_id)

    opencl = cl

    def cuda(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("cuda", dev_id)

    gpu = cuda

    def rocm(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("rocm", dev_id)

    def metal(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("metal", dev_id)

    def vulkan(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("vulkan", dev_id)

    def hexagon(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("hexagon", dev_id)

    def webgpu(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("webgpu", dev_id)

    def ext_dev(self, dev_id: int = 0) -> RemoteDevice:
        return self.device("ext_dev", dev_id)

    def empty(self, shape: Sequence[int], dtype: Any, device: RemoteDevice) -> RemoteArray:
        """A tensor of the session (nd.empty with one of its devices)."""
        name = str(dtype) if isinstance(dtype, (str, DataType)) else of_numpy(np.dtype(dtype))
        return self._ask({"op": "empty", "shape": [int(d) for d in shape], "dtype": name, "device": device.pair})

    def array(self, value: Any, device: RemoteDevice | None = None, dtype: Any = None) -> RemoteArray:
        """A tensor of the session with a copy of `value` (nd.array with one of its devices)."""
        local = value if isinstance(value, nd.NDArray) else nd.array(value, dtype=dtype)
        return self.empty(local.shape, local.dtype, device or self.cpu()).copyfrom(local)

    def close(self) -> None:
        """Ends the session; what came from it can't be used any more."""
        with self._lock:
            self._ended = self._ended or "the session was closed"
            self._link.close()


class LocalSession(RPCSession):
    """A session with this process itself."""

    def __init__(self):  # pylint: disable=super-init-not-called
        import tempfile

        from .session import Session

        self._folder = tempfile.TemporaryDirectory(prefix="treadle-rpc-")
        self._session = Session(self._folder.name)
        self._lock, self._freed = threading.RLock(), []
        self._link = type("Here", (), {"peer": "this process", "close": lambda self: None})()

    def _ask_raw(self, header, blobs):
        try:
            result, out = self._session.handle(header, blobs)
            return {"ok": result}, out
        except Exception as error:  # pylint: disable=broad-except
            return {"error": str(error), "kind": type(error).__name__}, []


class _NoneFree(_wire.RPCError):
    """No server was free in the time that there was: another try would wait as long again."""


class TrackerSession:
    """A connection to a tracker."""

    def __init__(self, host: str, port: int, token: str | None = None) -> None:
        self._token = _wire.find_token(token)
        _wire.Link.call(host, port, self._token).close()
        self._address = (host, int(port))

    def _link(self):
        return _wire.Link.call(*self._address, self._token)

    def summary(self) -> dict[str, Any]:
        """Servers, and per key how many are free and how many requests wait: a dict."""
        link = self._link()
        try:
            link.limit(_wire.HANDSHAKE_SECONDS)
            link.send({"op": "summary"})
            return link.receive()[0]
        finally:
            link.close()

    def close(self) -> None:
        """Nothing is to be done: each question to the tracker has a connection of its own."""

    def text_summary(self) -> str:
        data = self.summary()
        lines = ["Server List", "-" * 44] + [f"{s['addr'][0]}:{s['addr'][1]}  {s['key']}" for s in data["server_info"]]
        lines += ["-" * 44, "", "Queue Status", "-" * 44, f"{'key':24s}{'free':>8s}{'pending':>10s}", "-" * 44]
        lines += [f"{key:24s}{q['free']:8d}{q['pending']:10d}" for key, q in data["queue_info"].items()]
        return "\n".join(lines + ["-" * 44]) + "\n"

    def request(self, key: str, priority: int = 1, session_timeout: float = 0, max_retry: int = 5) -> RPCSession:
        """A session with a free server of that key; waits for one. Higher priorities come first. session_timeout: after
        how many seconds the server ends the session, and for how many seconds one is waited for (0: without a limit).
        RPCError: none was free in that time."""
        problem = None
        end = time.monotonic() + session_timeout if session_timeout else None
        for _ in range(max(1, max_retry)):
            link = self._link()
            try:
                link.send({"op": "request", "key": key, "priority": int(priority)})
                self._wait(link, key, end, session_timeout)
                host, port = link.receive()[0]["addr"]
                return RPCSession(_wire.Link.call(host, port, self._token), session_timeout)
            except _NoneFree:
                raise
            except (_wire.RPCError, EOFError, OSError) as error:
                problem = error
                time.sleep(0.2)
            finally:
                link.close()
        raise _wire.RPCError(f"no server for '{key}' could be had in {max_retry} tries: {problem}")

    def _wait(self, link, key, end, limit):
        """Until the tracker answers. _NoneFree: it hasn't until `end`."""
        soon = time.monotonic() + _SOON
        if link.waits(max(min(soon, end or soon) - time.monotonic(), 0)):
            return
        if end is not None and end <= soon:
            raise _NoneFree(f"no server for '{key}' was free within {limit} s: {self._about(key)}")
        if not self._servers(key):
            warnings.warn(f"waiting for a server for '{key}': {self._about(key)}", stacklevel=4)
        if not link.waits(None if end is None else max(end - time.monotonic(), 0)):
            raise _NoneFree(f"no server for '{key}' was free within {limit} s: {self._about(key)}")

    def _servers(self, key):
        """How many servers of that key the tracker knows."""
        return sum(server["key"] == f"server:{key}" for server in self.summary()["server_info"])

    def _about(self, key):
        """What the tracker knows of a key's servers, in words."""
        number = self._servers(key)
        if number:
            return f"the tracker knows {number} of that key, with which others have sessions"
        keys = sorted({server["key"].removeprefix("server:") for server in self.summary()["server_info"]})
        near = difflib.get_close_matches(key, keys, n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        return f"the tracker knows none of that key{hint}; there are servers for: {', '.join(keys) or 'no key'}"

    def request_and_run(self, key: str, func: Callable[[RPCSession], Any], priority: int = 1,
                        session_timeout: float = 0, max_retry: int = 2) -> Any:
        """func(session), with another server where one fails."""
        attempts = max(1, max_retry)
        for attempt in range(attempts):
            try:
                session = self.request(key, priority, session_timeout)
                try:
                    return func(session)
                finally:
                    session.close()
            except _NoneFree:
                raise
            except _wire.RPCError:
                if attempt + 1 == attempts:
                    raise


def connect(url: str, port: int, key: str = "", session_timeout: float = 0, session_constructor_args: Any = None,
            token: str | None = None) -> RPCSession:
    """A session with the server at a host and port. session_timeout: after how many seconds the server ends it."""
    if session_constructor_args:
        raise ValueError("session_constructor_args isn't supported: sessions reach no further servers")
    return RPCSession(_wire.Link.call(url, port, _wire.find_token(token)), session_timeout)


def connect_tracker(url: str, port: int, token: str | None = None) -> TrackerSession:
    """A connection to the tracker at a host and port."""
    return TrackerSession(url, port, token)
