# SPDX-License-Identifier: Apache-2.0
"""The server's side of one session: does what the client asks, in a process and a folder of its own."""
import itertools
import os
import pathlib
import signal
import tempfile
from collections.abc import Mapping
from typing import Any

from .. import _toolchain, nd
from .._ffi import PackedFunc, get_global_func
from ..error import Error
from ..runtime import Module, load_module
from . import _values, _wire


class Session:
    """Objects by number, files by name."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        self._objects: dict[Any, Any] = {}
        self._numbers = itertools.count(1)

    def _refer(self, value):
        number = next(self._numbers)
        self._objects[number] = value
        made = {"t": "ref", "id": number}
        if isinstance(value, nd.NDArray):
            device = value.device
            return dict(made, kind="tensor", shape=list(value.shape), dtype=str(value.dtype),
                        device=[device.device_type, device.device_id])
        return dict(made, kind="module" if isinstance(value, Module) else "function")

    def _object(self, number):
        if number not in self._objects:
            raise Error(f"the session has no object {number}: it was freed, or belongs to another session")
        return self._objects[number]

    def _path(self, name):
        name = str(name)
        if not name or name != os.path.basename(name) or name in (".", ".."):
            raise Error(f"'{name}' isn't the name of a file of the session: names without folders")
        return self.folder / name

    def handle(self, header: Mapping[str, Any], blobs: Any) -> tuple[Any, Any]:
        """(result, blobs) of one request."""
        out: list[Any] = []
        method = getattr(self, f"do_{header['op']}", None)
        if method is None:
            raise Error(f"this server doesn't know the request '{header['op']}'")
        return _values.pack(method(header, blobs), out, self._refer), out

    def _arguments(self, header, blobs):
        return [_values.unpack(v, blobs, lambda r: self._object(r["id"])) for v in header["args"]]

    def do_upload(self, header: Mapping[str, Any], blobs: Any) -> None:
        self._path(header["name"]).write_bytes(blobs[0])

    def do_download(self, header: Mapping[str, Any], _: Any) -> Any:
        path = self._path(header["name"])
        if not path.is_file():
            raise Error(f"the session has no file '{header['name']}'")
        return path.read_bytes()

    def do_remove(self, header: Mapping[str, Any], _: Any) -> None:
        self._path(header["name"]).unlink(missing_ok=True)

    def do_load_module(self, header: Mapping[str, Any], _: Any) -> Any:
        path = self._path(header["name"])
        if not path.exists():
            raise Error(f"the session has no file '{header['name']}'; upload it first")
        if path.suffix in (".tar", ".o"):  # objects, which this machine's linker makes a library of
            objects = [path]
            if path.suffix == ".tar":
                unpacked = path.with_suffix(".objects")
                unpacked.mkdir(exist_ok=True)
                _toolchain.untar(path, unpacked)
                objects = sorted(p for p in unpacked.iterdir() if p.suffix == ".o")
            path = path.with_suffix(".so")
            _toolchain.create_shared(path, objects)
        return load_module(path)

    def do_global(self, header: Mapping[str, Any], _: Any) -> Any:
        return get_global_func(header["name"])

    def do_function(self, header: Mapping[str, Any], _: Any) -> Any:
        return self._object(header["id"]).get_function(header["name"], bool(header.get("imports")))

    def do_call(self, header: Mapping[str, Any], blobs: Any) -> Any:
        return self._object(header["id"])(*self._arguments(header, blobs))

    def do_import(self, header: Mapping[str, Any], _: Any) -> None:
        self._object(header["id"]).import_module(self._object(header["other"]))

    def do_source(self, header: Mapping[str, Any], _: Any) -> Any:
        return self._object(header["id"]).get_source(header.get("format", ""))

    def do_empty(self, header: Mapping[str, Any], _: Any) -> Any:
        return nd.empty([int(d) for d in header["shape"]], header["dtype"], nd.Device(*map(int, header["device"])))

    def do_write(self, header: Mapping[str, Any], blobs: Any) -> None:
        tensor = self._object(header["id"])
        tensor.copyfrom(_values.unpack_tensor(header["tensor"], blobs))

    def do_read(self, header: Mapping[str, Any], blobs: Any) -> "_Bytes":
        return _Bytes(self._object(header["id"]))

    def do_copy(self, header: Mapping[str, Any], _: Any) -> Any:
        return self._object(header["id"]).copyto(nd.Device(*map(int, header["device"])))

    def do_free(self, header: Mapping[str, Any], _: Any) -> None:
        for number in header["ids"]:
            self._objects.pop(number, None)

    def do_device_exists(self, header: Mapping[str, Any], _: Any) -> bool:
        return bool(nd.Device(*map(int, header["device"])).exist)

    def do_time(self, header: Mapping[str, Any], blobs: Any) -> list[Any]:
        module = self._object(header["id"])
        device = nd.Device(*map(int, header["device"]))
        if isinstance(module, PackedFunc):
            raise Error("times are taken of a module's functions")
        evaluate = module.time_evaluator(header["name"], device, number=int(header["number"]),
                                         repeat=int(header["repeat"]), min_repeat_ms=int(header["min_repeat_ms"]))
        return [float(seconds) for seconds in evaluate(*self._arguments(header, blobs)).results]


class _Bytes:
    """A tensor that goes to the client as it is."""

    def __init__(self, tensor):
        self._tensor = tensor

    def rpc_value(self, blobs):
        return _values.pack_tensor(self._tensor, blobs)


def answer(session: Any, link: Any) -> None:
    """Answers requests until the client ends: EOFError, OSError. RPCError: it sent something else."""
    while True:
        header, blobs = link.receive()
        try:
            result, out = session.handle(header, blobs)
            link.send({"ok": result}, out)
        except Exception as error:  # pylint: disable=broad-except
            link.send({"error": str(error), "kind": type(error).__name__})


def serve(link: Any) -> None:
    """Answers until the client ends; for a process that does nothing else. RPCError: what it sent isn't a session."""
    try:
        limit = link.receive()[0].get("timeout") or 0
        if not isinstance(limit, int) or not 0 <= limit < 1 << 31:
            raise _wire.RPCError(f"{link.peer} asked for a session of {limit!r} s")
        if limit > 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, wherever it is
            signal.alarm(limit)
        with tempfile.TemporaryDirectory(prefix="treadle-rpc-") as folder:
            link.send({"ok": {"t": "plain", "v": None}})
            answer(Session(folder), link)
    except (EOFError, OSError):
        return
