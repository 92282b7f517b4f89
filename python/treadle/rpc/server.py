# SPDX-License-Identifier: Apache-2.0
"""A server: runs what clients send. Each session is a process of its own, which a crash ends and nothing else."""
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from .._arguments import whole
from ..error import DTypeError, Error
from . import _wire


class _Registration:
    """What the tracker knows of a server: that it is there, and when it is free."""

    def __init__(self, address, key, port, custom_addr, token):
        self._address, self._token = address, token
        self._hello = {"op": "register", "key": key, "port": port, "host": custom_addr}
        self._link, self._next_try = None, 0.0

    def renew(self):
        """Registers where that isn't so; tells that the server is free."""
        if time.monotonic() < self._next_try:
            return
        try:
            if self._link is None:
                self._link = _wire.Link.call(*self._address, self._token)
                self._link.send(self._hello)
            self._link.send({"op": "free"})
        except (_wire.RPCError, OSError):
            self._link = None
            self._next_try = time.monotonic() + 1

    def lost(self):
        return self._link is None

    def check(self):
        """Notices a tracker that went away."""
        if self._link is not None and self._link.waits(0):
            self._link.close()
            self._link = None


def run(sock: Any, key: str = "", tracker_addr: Any = None, custom_addr: str | None = None, token: Any = None) -> None:
    """Serves at a listening socket until the process is ended."""
    secret = _wire.find_token(token)
    registration = None
    if tracker_addr:
        registration = _Registration(tracker_addr, key, sock.getsockname()[1], custom_addr, secret)
        registration.renew()
    children: set[Any] = set()
    while True:
        ready, _, _ = select.select([sock], [], [], 0.2)
        while children:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            children.discard(pid)
            if registration is not None and not children:
                registration.renew()
        if registration is not None:
            registration.check()
            if registration.lost() and not children:
                registration.renew()
        if not ready:
            continue
        accepted, address = sock.accept()
        pid = os.fork()
        if pid:
            accepted.close()
            children.add(pid)
            continue
        try:
            sock.close()
            _serve_one(accepted, address, secret)
        finally:
            os._exit(0)


def _serve_one(accepted, address, secret):
    from .session import serve

    signal.alarm(2 * _wire.HANDSHAKE_SECONDS)  # who doesn't know the token doesn't hold a process
    try:
        link = _wire.Link(accepted, secret, True, f"{address[0]}:{address[1]}")
    except _wire.RPCError as error:
        print(f"rpc server: refused: {error}", file=sys.stderr)
        return
    signal.alarm(0)
    try:
        serve(link)
    except _wire.RPCError as error:
        print(f"rpc server: ended: {error}", file=sys.stderr)


def start_process(module: str, arguments: Sequence[str], what: str) -> tuple[Any, int]:
    """A process `python -m module`, which says its port on its first line of output; (process, port)."""
    environment = dict(os.environ)
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment["PYTHONPATH"] = os.pathsep.join(p for p in (root, environment.get("PYTHONPATH")) if p)
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True,
                               env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("port "):
        process.kill()
        process.wait()
        raise Error(f"the {what} didn't start: {line.strip() or 'see its messages'}")
    return process, int(line.split()[1])


def stop_process(process: Any) -> None:
    """Ends a process that start_process began, and what it started."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


class Service:
    """A process that start_process began, as `proc`; it ends with this object."""

    proc = None

    def terminate(self) -> None:
        """Ends the process."""
        stop_process(self.proc)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.terminate()

    def __del__(self):
        self.terminate()


def check_host(what: str, host: Any) -> None:
    """A host is given as text."""
    if not isinstance(host, str):
        raise DTypeError(f"{what}: the host is {host!r}; expected a name or an address")


class Server(Service):
    """A server in a process of its own; sessions that run go on when it ends, until their clients end. host, port, port_end: where it listens (default: only this machine, any free
    port). tracker_addr: (host, port) of a tracker, which gives it to those who ask for `key`. custom_addr: the host that
    the tracker tells clients. token: the secret that clients must know; see docs/rpc.md."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, port_end: Any = None, key: str = "", tracker_addr: Any = None,
                 custom_addr: str | None = None, load_library: Any = None, silent: bool = False, token: Any = None) -> None:
        check_host("rpc.Server", host)
        whole("rpc.Server: port", port, 0, 65535)
        arguments = ["--host", host, "--port", str(port), "--port-end", str(port_end or 0), "--announce"]
        if key:
            arguments += ["--key", key]
        if tracker_addr:
            arguments += ["--tracker", f"{tracker_addr[0]}:{tracker_addr[1]}"]
        if custom_addr:
            arguments += ["--custom-addr", custom_addr]
        for library in [load_library] if isinstance(load_library, str) else load_library or []:
            arguments += ["--load-library", library]
        if silent:
            arguments += ["--silent"]
        previous = os.environ.get("TREADLE_RPC_TOKEN")
        if token:
            os.environ["TREADLE_RPC_TOKEN"] = token
        try:
            self.proc, self.port = start_process("treadle.exec.rpc_server", arguments, "server")
        finally:
            if token and previous is None:
                del os.environ["TREADLE_RPC_TOKEN"]
            elif token and previous is not None:
                os.environ["TREADLE_RPC_TOKEN"] = previous
        self.host = host
