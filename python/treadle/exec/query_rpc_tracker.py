# SPDX-License-Identifier: Apache-2.0
"""python -m treadle.exec.query_rpc_tracker: prints servers and queues of a tracker."""

from .._command_line import Parser
from ..rpc import connect_tracker


def main() -> None:
    """Prints which servers a tracker knows, and who waits for them."""
    parser = Parser("python -m treadle.exec.query_rpc_tracker", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9190)
    options = parser.parse_args()
    print(connect_tracker(options.host, options.port).text_summary(), end="")


if __name__ == "__main__":
    main()
