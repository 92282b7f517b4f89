#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source file names its licence in its first lines. Exit status 1 when one doesn't."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".h", ".cc", ".c", ".py", ".pyi", ".sh", ".cmake"}
NAMES = {"CMakeLists.txt", "Makefile", "run"}


def main():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:  # an unpacked archive: no git to ask
        print("check_spdx: skipped, not a git checkout")
        return 0
    missing = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (path.suffix in SUFFIXES or path.name in NAMES) and path.is_file():
            head = path.read_text(encoding="utf-8", errors="replace").splitlines()[:3]
            if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head):
                missing.append(name)
    for name in missing:
        print(f"{name}: no 'SPDX-License-Identifier: Apache-2.0' in the first three lines", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
