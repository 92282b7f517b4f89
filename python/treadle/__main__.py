# SPDX-License-Identifier: Apache-2.0
"""`python -m treadle` is the program that the package carries, where `treadle` isn't on the PATH."""
import os
import pathlib
import sys


def main() -> None:
    """Replaces this process by the program, which gets this interpreter for what it does in Python."""
    program = pathlib.Path(__file__).parent / "bin/treadle"
    if not program.exists():
        sys.exit(f"error: there is no {program}: the package was built without the program")
    os.environ.setdefault("TREADLE_PYTHON", sys.executable)
    os.execv(program, ["treadle", *sys.argv[1:]])


if __name__ == "__main__":
    main()
