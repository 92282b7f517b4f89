# SPDX-License-Identifier: Apache-2.0
"""python -m treadle.exec.rpc_tracker: gives servers to those who ask for them by key (docs/rpc.md)."""
import argparse
import sys

from .._command_line import Parser
from ..rpc import _wire
from ..rpc.tracker import run


def main() -> None:
    """Serves until it is ended: python -m treadle.exec.rpc_tracker."""
    parser = Parser("python -m treadle.exec.rpc_tracker", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0 also accepts other machines (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=9190)
    parser.add_argument("--port-end", type=int, default=9199)
    parser.add_argument("--announce", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--silent", action="store_true")
    options = parser.parse_args()
    sock = _wire.listen(options.host, options.port, options.port_end)
    if options.announce:
        print("port", sock.getsockname()[1], flush=True)
    elif not options.silent:
        print(f"listening at {options.host}:{sock.getsockname()[1]}", file=sys.stderr)
    try:
        run(sock)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
