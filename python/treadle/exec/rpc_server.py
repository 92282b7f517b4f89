# SPDX-License-Identifier: Apache-2.0
"""python -m treadle.exec.rpc_server: runs what clients send (docs/rpc.md)."""
import argparse
import sys

from .._command_line import Parser
from ..rpc import _wire
from ..rpc.server import run


def _address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main() -> None:
    """Serves until it is ended: python -m treadle.exec.rpc_server."""
    parser = Parser("python -m treadle.exec.rpc_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 also accepts other machines (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=9090)
    parser.add_argument("--port-end", type=int, default=9199)
    parser.add_argument("--key", default="", help="key under which the tracker offers this server")
    parser.add_argument("--tracker", type=_address, help="host:port of the tracker to register with")
    parser.add_argument("--custom-addr", help="host name that the tracker gives to clients")
    parser.add_argument("--load-library", action="append", default=[], help="plug-in to load at start; repeatable")
    parser.add_argument("--announce", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--silent", action="store_true")
    options = parser.parse_args()
    from .. import load_plugin

    for library in options.load_library:
        load_plugin(library)
    sock = _wire.listen(options.host, options.port, options.port_end)
    if options.announce:
        print("port", sock.getsockname()[1], flush=True)
    elif not options.silent:
        print(f"listening at {options.host}:{sock.getsockname()[1]}", file=sys.stderr)
    try:
        run(sock, options.key, options.tracker, options.custom_addr)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
