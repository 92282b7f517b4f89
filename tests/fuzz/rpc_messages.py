# SPDX-License-Identifier: Apache-2.0
"""The server's side of an RPC session, fed from bytes: what a client sends after the handshake. No socket is needed.

A session ends, or answers each request with a result or an error; InternalError, or anything but RPCError that leaves the
loop, is a bug."""
import json
import multiprocessing.connection
import os
import struct
import tempfile

from treadle.rpc import _wire, session

BUGS = ("InternalError", "SystemError", "AssertionError")
# What ends or stops a process on purpose, or reaches beyond the session's folder, isn't called.
REFUSED = ("exit", "File", "Plugin", "Path", "Save", "Load", "Export", "Compile", "Tune", "sleep", "config")


class _Recorded:
    """A connection whose other end has sent everything already; answers are looked at and dropped."""

    def __init__(self, data):
        self._file = os.memfd_create("messages")
        os.write(self._file, data)
        os.lseek(self._file, 0, os.SEEK_SET)
        self._reader = multiprocessing.connection.Connection(self._file, writable=False)

    def recv_bytes(self, maxlength=None):
        return self._reader.recv_bytes(maxlength)

    def send_bytes(self, data):
        if data[:9] == b'{"error":':
            kind = json.loads(data)["kind"]
            assert kind not in BUGS, data
        return len(data)

    def close(self):
        self._reader.close()


class _Sandbox(session.Session):
    def do_global(self, header, blobs):
        if any(word in str(header["name"]) for word in REFUSED):
            raise _wire.RPCError("not in this test")
        return super().do_global(header, blobs)


def link_of(data):
    """A link whose client sent `data`."""
    link = _wire.Link.__new__(_wire.Link)
    link.peer, link._conn = "fuzzer", _Recorded(data)
    return link


def run(data):
    """A session in a folder of its own, until the messages end."""
    link = link_of(data)
    try:
        with tempfile.TemporaryDirectory(prefix="treadle-rpc-") as folder:
            session.answer(_Sandbox(folder), link)
    except (EOFError, OSError, _wire.RPCError):
        pass
    finally:
        link.close()


def joined(parts):
    """Parts as frames of multiprocessing.connection: a length of four bytes before each."""
    return b"".join(struct.pack("!i", len(part)) + part for part in parts)


def split(data):
    """The parts of frames, as far as their lengths are right."""
    parts = []
    while len(data) >= 4 and 0 <= (length := struct.unpack("!i", data[:4])[0]) <= len(data) - 4:
        parts.append(data[4:4 + length])
        data = data[4 + length:]
    return parts


def frames(header, *blobs):
    """A message as it is sent."""
    return joined([json.dumps(dict(header, blobs=len(blobs))).encode(), *blobs])


def seeds():
    """(name, bytes): sessions with each kind of request."""
    cpu, tensor = [1, 0], {"t": "tensor", "shape": [2, 3], "dtype": "float32", "blob": 0}
    empty = frames({"op": "empty", "shape": [2, 3], "dtype": "float32", "device": cpu})
    yield "files", frames({"op": "upload", "name": "a.bin"}, b"content") + frames({"op": "download", "name": "a.bin"}) + \
        frames({"op": "remove", "name": "a.bin"}) + frames({"op": "load_module", "name": "none.so"})
    yield "tensors", empty + frames({"op": "write", "id": 1, "tensor": tensor}, bytes(24)) + \
        frames({"op": "read", "id": 1}) + frames({"op": "copy", "id": 1, "device": cpu}) + frames({"op": "free", "ids": [1, 2]})
    arguments = [{"t": "plain", "v": "int32"}, {"t": "plain", "v": 3}, {"t": "plain", "v": None}]
    yield "calls", frames({"op": "global", "name": "ir.IntImm"}) + frames({"op": "call", "id": 1, "args": arguments}) + \
        frames({"op": "call", "id": 1, "args": [{"t": "list", "v": arguments}, {"t": "bytes", "blob": 0},
                                               {"t": "device", "v": cpu}, {"t": "ref", "id": 1}, tensor]}, bytes(24))
    yield "modules", frames({"op": "function", "id": 1, "name": "main", "imports": True}) + \
        frames({"op": "import", "id": 1, "other": 2}) + frames({"op": "source", "id": 1, "format": "ll"}) + \
        frames({"op": "device_exists", "device": cpu}) + \
        frames({"op": "time", "id": 1, "name": "f", "device": cpu, "number": 1, "repeat": 1, "min_repeat_ms": 0, "args": []})
