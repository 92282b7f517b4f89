#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that only src/targets knows what distinguishes targets: everything else asks their specs
(treadle/targets/target_spec.h). Exit status 1 where other code compares with the name of a target kind or asks for
the keys of a target.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = re.compile(r'\bkind\.name = "(\w+)";')
OWNERS = ("src/targets/", "include/treadle/targets/")
# Where keys are what the code is about: parsing them.
KEYS_ALLOWED = ("src/ir/target.cc", "include/treadle/ir/target.h")
# Words that mean other things too (a language, a node of a graph): compared with what is called a kind or target only.
AMBIGUOUS = {"c", "null"}


def kinds():
    """Names of the kinds that specs in src/targets give themselves."""
    found = set()
    for path in (ROOT / "src/targets").rglob("*.cc"):
        found.update(NAME.findall(path.read_text(encoding="utf-8")))
    return found


def check_file(path, text, names):
    """Yields one message per comparison."""
    def comparison(words):
        literal = f'"(?:{"|".join(sorted(words))})"'
        return rf'[!=]=\s*(?:std::string\()?{literal}|{literal}\)?\s*[!=]='

    compared = re.compile(rf'{comparison(names - AMBIGUOUS)}|(?:kind|target|module_type)\S*\s*(?:{comparison(names)})')
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//", 1)[0]
        if compared.search(code):
            yield f"{path}:{number}: compares with the name of a target kind; ask its TargetSpec: {code.strip()}"
        if "HasKey(" in code and path not in KEYS_ALLOWED:
            yield f"{path}:{number}: asks for a key of a target; ask its TargetSpec: {code.strip()}"


def main():
    names = kinds()
    errors, count = [], 0
    if not names:
        errors.append('no kind.name = "..." in src/targets: the check knows no kinds')
    for top in ("include", "src"):
        for path in sorted((ROOT / top).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".h", ".cc") and not name.startswith(OWNERS):
                count += 1
                errors += check_file(name, path.read_text(encoding="utf-8"), names)
    for error in errors:
        print(error, file=sys.stderr)
    print(f"check_targets: {count} files, {len(names)} kinds, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
