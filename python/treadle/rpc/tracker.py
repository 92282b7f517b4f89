# SPDX-License-Identifier: Apache-2.0
"""A tracker: knows servers by key, and gives each free one to who asked first with the highest priority."""
import collections
import threading
from typing import Any

from .._arguments import whole
from . import _wire
from .server import Service, check_host, start_process


class _Book:
    """Servers and requests. Guarded by one condition."""

    def __init__(self):
        self.changed = threading.Condition()
        self.free = collections.defaultdict(collections.deque)  # key -> (host, port) of free servers
        self.servers = {}  # id -> (key, host, port)
        self.waiting = collections.defaultdict(list)  # key -> sorted (-priority, number)
        self.count = 0

    def add_free(self, number):
        with self.changed:
            key, host, port = self.servers[number]
            if (host, port) not in self.free[key]:
                self.free[key].append((host, port))
            self.changed.notify_all()

    def drop(self, number):
        with self.changed:
            key, host, port = self.servers.pop(number)
            if (host, port) in self.free[key]:
                self.free[key].remove((host, port))
            self.changed.notify_all()

    def take(self, key, priority, still_wanted):
        """The address of a free server, or None when it isn't wanted any more."""
        with self.changed:
            self.count += 1
            ticket = (-priority, self.count)
            self.waiting[key].append(ticket)
            self.waiting[key].sort()
            try:
                while not (self.free[key] and self.waiting[key][0] == ticket):
                    self.changed.wait(0.2)
                    if not still_wanted():
                        return None
                return self.free[key].popleft()
            finally:
                self.waiting[key].remove(ticket)
                self.changed.notify_all()

    def summary(self):
        with self.changed:
            keys = sorted({*self.free, *self.waiting, *(server[0] for server in self.servers.values())})
            return {"server_info": [{"key": f"server:{k}", "addr": [h, p]} for k, h, p in self.servers.values()],
                    "queue_info": {k: {"free": len(self.free[k]), "pending": len(self.waiting[k])} for k in keys}}


def _connection(book, accepted, address, secret):
    try:
        link = _wire.Link(accepted, secret, True, f"{address[0]}:{address[1]}")
    except _wire.RPCError:
        return
    number = None
    try:
        while True:
            header, _ = link.receive()
            if header["op"] == "register":
                with book.changed:
                    book.count += 1
                    number = book.count
                    book.servers[number] = (str(header["key"]), header.get("host") or address[0], int(header["port"]))
            elif header["op"] == "free" and number is not None:
                book.add_free(number)
            elif header["op"] == "request":
                found = book.take(str(header["key"]), int(header.get("priority", 1)), lambda: not link.waits(0))
                if found is None:
                    return
                link.send({"addr": list(found)})
            elif header["op"] == "summary":
                link.send(book.summary())
    except (EOFError, OSError, ValueError, KeyError, TypeError, _wire.RPCError):
        pass
    finally:
        link.close()
        if number is not None:
            book.drop(number)


def run(sock: Any, token: Any = None) -> None:
    """Tracks at a listening socket until the process is ended."""
    secret, book = _wire.find_token(token), _Book()
    while True:
        accepted, address = sock.accept()
        threading.Thread(target=_connection, args=(book, accepted, address, secret), daemon=True).start()


class Tracker(Service):
    """A tracker in a process of its own."""

    def __init__(self, host: str = "127.0.0.1", port: int = 9190, port_end: int = 9199, silent: bool = False) -> None:
        check_host("rpc.tracker.Tracker", host)
        whole("rpc.tracker.Tracker: port", port, 0, 65535)
        arguments = ["--host", host, "--port", str(port), "--port-end", str(port_end or 0), "--announce"]
        self.proc, self.port = start_process("treadle.exec.rpc_tracker", arguments + ["--silent"] * silent, "tracker")
        self.host = host
