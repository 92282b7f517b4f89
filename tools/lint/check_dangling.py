#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no pointer outlives the constant that it points into: AsConstInt of an expression that only this call holds
gives one, as of what Simplify makes. Exit status 1 where there is one."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKERS = "Simplify|Substitute|SubstituteDims|floordiv|floormod|cast|neg"
# `const int64_t* x = AsConstInt(..Simplify(..` keeps the pointer; `AsConstInt(..) != nullptr` doesn't.
KEPT = re.compile(rf"\*\s*\w+\s*=[^;]*\bAsConstInt\(\s*(?:[\w.>-]*(?:\.|->|::))?(?:{MAKERS})\(")


def main():
    found = 0
    for folder in ("src", "include", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            text = path.read_text(encoding="utf-8")
            for match in KEPT.finditer(text):
                line = text.count("\n", 0, match.end()) + 1
                print(f"{path.relative_to(ROOT)}:{line}: the pointer outlives the expression; name the expression", file=sys.stderr)
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
