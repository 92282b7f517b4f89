#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no modules of python/treadle import each other in a circle, imports inside functions included, and that
no two packages import each other. A package's __init__.py, which puts its parts together, doesn't count as one of its
modules there; modules directly in treadle/ are packages of their own. What type checkers alone import (if TYPE_CHECKING)
never runs and isn't counted. Exit status 1 when there are any."""
import ast
import collections
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "python"


def find_modules():
    """{dotted name: path} of all modules; a package goes by its __init__.py."""
    modules = {}
    for path in sorted((ROOT / "treadle").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(name, path, modules):
    """The modules that a module imports."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    for_checkers = {inner for node in nodes if isinstance(node, ast.If) and isinstance(node.test, (ast.Name, ast.Attribute))
                    and ast.unparse(node.test).endswith("TYPE_CHECKING") for part in node.body for inner in ast.walk(part)}
    for node in nodes:
        if node in for_checkers:
            continue
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            source = ".".join(base + ([node.module] if node.module else []))
            # `from . import x` is an import of x where x is a module, and _core is one that C++ defines.
            found = [f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules else source
                     for alias in node.names if alias.name != "_core"]
        else:
            continue
        yield from (module for module in found if module in modules and module != name)


def circles(graph):
    """The strongly connected components of more than one module (Tarjan, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(sorted(graph[target]))))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return [circle for circle in found if len(circle) > 1]


def main():
    modules = find_modules()
    graph = {name: set(imports_of(name, path, modules)) for name, path in modules.items()}
    errors = [f"modules import each other in a circle: {', '.join(circle)}" for circle in circles(graph)]

    def package_of(name):
        path = modules[name].relative_to(ROOT)
        return name if len(path.parts) == 2 else ".".join(path.parts[:-1])

    uses = collections.defaultdict(set)
    for name, targets in graph.items():
        if modules[name].name != "__init__.py":
            for target in targets:
                if package_of(name) != package_of(target):
                    uses[package_of(name), package_of(target)].add(f"{name} -> {target}")
    for (a, b), arrows in sorted(uses.items()):
        if a < b and (b, a) in uses:
            errors.append(f"packages {a} and {b} import each other: {', '.join(sorted(arrows | uses[b, a]))}")
    for error in errors:
        print(error, file=sys.stderr)
    print(f"check_imports: {len(modules)} modules, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
