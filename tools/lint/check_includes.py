#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that #include directives follow the dependency table src/dependencies.txt, that no two folders include each
other, nor several in a circle, those within others too, and reports long files and functions. Exit status 1 when an
arrow goes against the table, folders include each other or a file has more than MAX_FILE_LINES lines.

A folder may include what its row names and, through those, what their rows name. Headers in include/treadle/X belong to
folder X.
"""
import argparse
import collections
import pathlib
import re
import sys

from check_imports import circles

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_table():
    """{folder: [folders that it names]} of src/dependencies.txt."""
    table = {}
    for line in (ROOT / "src/dependencies.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            folder, _, names = line.partition(":")
            table[folder] = names.split()
    return table


ALLOWED = read_table()
# A target's run time must not pull compiler code into a process that only runs models; so must the command line's
# own program, which loads the part in cli/compiler when a verb compiles.
RUNTIME_ONLY = [re.compile(r"^src/targets/[^/]+/runtime/"), re.compile(r"^src/cli/[^/]+$")]

# Where TREADLE_NODE may stand in a public header: a class with a destructor of its own.
OWN_DESTRUCTORS = {"include/treadle/runtime/module.h"}

SOFT_FILE_LINES, MAX_FILE_LINES = 800, 1000
SOFT_FUNCTION_LINES = 80

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def closure(folder):
    seen, todo = set(), [folder]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += ALLOWED[name]
    return seen


def folder_of(path):
    """The folder of the table that a repository path or an include path belongs to, or None."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[:2] == ("include", "treadle"):
        parts = parts[2:]
    elif parts[0] in ("src", "treadle"):
        parts = parts[1:]
    return parts[0] if len(parts) > 1 and parts[0] in ALLOWED else None


def check_file(path, text):
    """Yields one message per include of the file that goes against the table."""
    own = folder_of(path)
    if own is None:
        return
    reachable = closure(own)
    if any(pattern.match(path) for pattern in RUNTIME_ONLY):
        reachable = closure("runtime") | {own}
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        target = folder_of(included)
        if path.startswith("include/") and not included.startswith("treadle/"):
            yield f'{path}:{number}: a public header includes the private "{included}"'
        elif target is not None and target not in reachable:
            yield f'{path}:{number}: {own} may not include {target} ("{included}"); it may: {", ".join(sorted(reachable))}'


def room_of(path):
    """The folder below src that a repository path or an include path belongs to."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    for prefix in (("include", "treadle"), ("src",), ("treadle",)):
        if parts[:len(prefix)] == prefix:
            return "/".join(parts[len(prefix):])
    return "/".join(parts)


def mutual_rooms(includes):
    """One message per pair, and longer circle, of folders that include each other; `includes`: {(folder, folder): [arrow]}."""
    for (a, b), arrows in sorted(includes.items()):
        if a < b and (b, a) in includes:
            yield f"folders {a} and {b} include each other: {'; '.join(arrows + includes[b, a])}"
    graph = {room: set() for pair in includes for room in pair}
    for a, b in includes:
        graph[a].add(b)
    for circle in circles(graph):
        if len(circle) > 2:
            yield f"folders include each other in a circle: {', '.join(circle)}"


def long_functions(text):
    """(line, length) of functions whose body closes at column 0: those at namespace level."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("namespace", "#", "//", "}  //", "};", "extern")):
            start = None
        elif line and not line[0].isspace() and not line.startswith("}"):
            if start is None:
                start = number
            if line.endswith((";", "}")):
                start = None
        elif line == "}" and start is not None:
            if number - start + 1 > SOFT_FUNCTION_LINES:
                yield start, number - start + 1
            start = None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="also list long files and functions")
    args = parser.parse_args()

    errors, notes, count = [], [], 0
    includes = collections.defaultdict(list)
    for top in ("include", "src"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in (".h", ".cc", ".c"):
                continue
            count += 1
            name = path.relative_to(ROOT).as_posix()
            text = path.read_text(encoding="utf-8")
            errors += check_file(name, text)
            for match in INCLUDE.finditer(text):
                own, other = room_of(name), room_of(match.group(1))
                if other and own != other:
                    includes[own, other].append(f"{name} -> {match.group(1)}")
            if top == "include" and re.search(r"^ +TREADLE_NODE\(", text, re.MULTILINE) and name not in OWN_DESTRUCTORS:
                errors.append(f"{name}: a node class of a public header says TREADLE_DECLARE_NODE(..); and one .cc file "
                              "TREADLE_DEFINE_NODE(..); else every file that includes it compiles the class anew")
            lines = text.count("\n")
            if lines > MAX_FILE_LINES:
                errors.append(f"{name}: {lines} lines (at most {MAX_FILE_LINES}): split it")
            elif lines > SOFT_FILE_LINES:
                notes.append(f"{name}: {lines} lines (aim for {SOFT_FILE_LINES})")
            notes += [f"{name}:{line}: function of {length} lines (aim for {SOFT_FUNCTION_LINES})"
                      for line, length in long_functions(text)]
    errors += mutual_rooms(includes)
    if args.sizes:
        print("\n".join(notes))
    for error in errors:
        print(error, file=sys.stderr)
    print(f"check_includes: {count} files, {len(errors)} errors, {len(notes)} size notes (--sizes lists them)")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
