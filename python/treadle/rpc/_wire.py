# SPDX-License-Identifier: Apache-2.0
"""What goes over a connection: frames of multiprocessing.connection, whose two ends prove by HMAC that they know the same
token. A message is a JSON object and some blobs; nothing that is received is executed or unpickled."""
import contextlib
import json
import os
import pathlib
import secrets
import socket
import struct
import tempfile
import threading
import weakref
from multiprocessing import AuthenticationError
from multiprocessing import connection as mp

from .._arguments import whole
from ..error import DTypeError, RPCError

MAX_HEADER = 1 << 24
MAX_BLOB = 1 << 34
MAX_BLOBS = 4096  # of one message
HANDSHAKE_SECONDS = 10


def find_token(token=None):
    """The secret that both ends know, as bytes: `token`, $TREADLE_RPC_TOKEN, or a file of this user's, which is made
    when it isn't there: processes of one user on one machine find each other without more."""
    token = token or os.environ.get("TREADLE_RPC_TOKEN")
    if token:
        return token.encode() if isinstance(token, str) else bytes(token)
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "treadle"
    path = folder / "rpc_token"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        # Linked when it is whole: another process finds all of it, or nothing.
        handle, whole = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(secrets.token_hex(32))
            os.link(whole, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(whole)
    state = path.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise RPCError(f"{path} can be read by others than this user; remove it, or set TREADLE_RPC_TOKEN")
    return path.read_bytes()


def listen(host, port, port_end=None):
    """A listening socket at the first free port from `port` up to `port_end` (excluded)."""
    for candidate in range(port, max(port_end or 0, port + 1)):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, candidate))
            sock.listen(64)
            return sock
        except OSError as error:
            sock.close()
            problem = error
    raise RPCError(f"can't listen at {host}:{port}{f' to {port_end - 1}' if port_end else ''}: {problem}")


def _keep_alive(sock):
    """Lets the end of a connection be noticed whose other machine is gone without a word, after about a minute."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Link:
    """One end of a connection whose other end knows the token."""

    _limit = 0.0  # seconds, see limit
    _timer = None  # of end_after
    _closing = threading.Lock()  # of all: what end_after ends must not be closed, and its number another's, meanwhile

    def __init__(self, sock, token, accepts, peer):
        """accepts: whether this is the end that was called."""
        self.peer = peer
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        self._conn = mp.Connection(sock.detach())
        try:
            self.limit(HANDSHAKE_SECONDS)
            steps = (mp.deliver_challenge, mp.answer_challenge)
            for step in steps if accepts else reversed(steps):
                if step is mp.answer_challenge and not self._conn.poll(HANDSHAKE_SECONDS):
                    raise RPCError(f"{peer} doesn't answer")
                step(self._conn, token)
            self.limit(0)
        except BlockingIOError:
            self.close()
            raise RPCError(f"{peer} doesn't answer") from None
        except (AuthenticationError, AssertionError) as error:
            self.close()
            raise RPCError(f"{peer} has another token (TREADLE_RPC_TOKEN): {error}") from None
        except (EOFError, OSError) as error:
            self.close()
            raise RPCError(f"{peer} ended the connection before it began (another token?): {error}") from None

    @classmethod
    def call(cls, host, port, token, timeout=HANDSHAKE_SECONDS):
        if not isinstance(host, str):
            raise DTypeError(f"the host is {host!r}; expected a name or an address")
        port = whole("the port", int(port) if str(port).isdecimal() else port, 1, 65535)
        try:
            sock = socket.create_connection((host, port), timeout=timeout)
        except OSError as error:
            raise RPCError(f"nothing answers at {host}:{port}: {error}") from None
        return cls(sock, token, False, f"{host}:{port}")

    def limit(self, seconds):
        """From now on what the other end leaves waiting for that long ends in a TimeoutError (0: nothing does)."""
        self._limit = seconds
        whole = int(seconds)
        value = struct.pack("@ll", whole, int((seconds - whole) * 1e6))
        sock = socket.socket(fileno=self._conn.fileno())
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
        finally:
            sock.detach()

    def end_after(self, seconds):
        """Ends the connection then, in the middle of a message, too; what waits for it gets an EOFError or OSError."""
        def end(link):
            link = link()
            if link is not None:
                with link._closing:  # pylint: disable=protected-access
                    link._shut_down()  # pylint: disable=protected-access

        self._timer = threading.Timer(seconds, end, [weakref.ref(self)])
        self._timer.daemon = True
        self._timer.start()

    def _shut_down(self):
        """Both directions; who waits in another thread wakes up."""
        if not self._conn.closed:
            sock = socket.socket(fileno=self._conn.fileno())
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.detach()

    def _silent(self):
        return TimeoutError(f"{self.peer} has been silent for {self._limit:.3g} s")

    def send(self, header, blobs=()):
        header = dict(header, blobs=len(blobs))
        try:
            self._conn.send_bytes(json.dumps(header).encode())
            for blob in blobs:
                self._conn.send_bytes(blob)
        except BlockingIOError:
            raise self._silent() from None

    def receive(self):
        """(header, blobs); EOFError when the other end is gone, RPCError for what isn't a message."""
        try:
            return self._receive()
        except BlockingIOError:
            raise self._silent() from None

    def _receive(self):
        try:
            header = json.loads(self._conn.recv_bytes(MAX_HEADER))
        except (ValueError, RecursionError) as error:
            raise RPCError(f"{self.peer} sent something that isn't a message: {error}") from None
        blobs = header.get("blobs", 0) if isinstance(header, dict) else None
        if not isinstance(blobs, int) or not 0 <= blobs <= MAX_BLOBS:
            raise RPCError(f"{self.peer} sent something that isn't a message")
        return header, [self._conn.recv_bytes(MAX_BLOB) for _ in range(blobs)]

    def waits(self, seconds):
        """Whether something (or the end) can be received within some seconds."""
        return self._conn.poll(seconds)

    def fileno(self):
        return self._conn.fileno()

    def close(self):
        if self._timer is not None:
            self._timer.cancel()
        with self._closing:
            self._conn.close()
