# SPDX-License-Identifier: Apache-2.0
"""Annotations of the public API: complete, and what mypy makes of programs that use it."""
import ast
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC = ["treadle", "treadle.model", "treadle.nd", "treadle.onnxruntime", "treadle.runtime"]
RELAY = ["build", "build_config", "const", "create_executor", "optimize", "parse", "parse_expr", "var"]
needs_mypy = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy isn't installed")


def functions_of(thing, name):
    """Functions of a class or a function itself, with their names; those that other classes define don't count."""
    if inspect.isfunction(thing):
        yield name, thing
    if inspect.isclass(thing) and thing.__module__.startswith("treadle"):
        for key, value in vars(thing).items():
            value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if inspect.isfunction(value) and (not key.startswith("_") or key == "__init__") and value.__module__ == thing.__module__:
                yield f"{name}.{key}", value


def public_things():
    for module in PUBLIC:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            yield f"{module}.{name}", getattr(loaded, name)
    for name in RELAY:
        yield f"treadle.relay.{name}", getattr(treadle.relay, name)


def test_public_functions_are_annotated():
    missing = []
    for name, thing in public_things():
        if name in ("treadle.IRModule",):  # of treadle.ir
            continue
        for where, function in functions_of(thing, name):
            signature = inspect.signature(function)
            parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
            if any(p.annotation is p.empty for p in parameters) or (
                    signature.return_annotation is signature.empty and not where.endswith("__init__")):
                missing.append(where)
    assert not missing


def parts_of_public_modules():
    """Functions and methods of all public modules, read from their sources: (module, name, node)."""
    def of(body, prefix):
        for node in body:
            if isinstance(node, (ast.If, ast.Try)):
                yield from of(node.body, prefix)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield from of(node.body, f"{prefix}{node.name}.")
            if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name in ("__init__", "__call__")):
                yield prefix + node.name, node

    package = ROOT / "python/treadle"
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        if not any(part.startswith("_") and not part.startswith("__") for part in parts):
            for name, node in of(ast.parse(path.read_text(encoding="utf-8")).body, ""):
                yield "/".join(parts), name, node


def test_every_public_module_is_annotated():
    missing = []
    for module, name, node in parts_of_public_modules():
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        arguments = [each for each in arguments if each is not None and each.arg not in ("self", "cls")]
        if any(each.annotation is None for each in arguments) or (node.returns is None and (arguments or node.name != "__init__")):
            missing.append(f"{module}: {name}")
    assert not missing


@pytest.mark.parametrize("module", PUBLIC + ["treadle.relay"])
def test_public_names_exist_and_are_listed_once(module):
    loaded = importlib.import_module(module)
    assert len(set(loaded.__all__)) == len(loaded.__all__)
    assert [name for name in loaded.__all__ if not hasattr(loaded, name)] == []


ANNOTATED = ["_typing.py", "arith/__init__.py", "autotvm/callback.py", "contrib/graph_executor.py", "contrib/utils.py", "driver/tvmc.py", "ir", "relay/analysis.py", "relay/build_module.py",
             "relay/dataflow_pattern.py", "relay/expr.py", "relay/expr_functor.py", "relay/external.py", "relay/op/_functions.py", "relay/op/strategy.py",
             "relay/transform.py", "relay/type_functor.py", "relay/vm.py", "target.py", "te/operation.py", "te/schedule.py", "te/tag.py", "te/tensor.py", "tir/analysis.py",
             "tir/expr.py", "tir/function.py", "tir/ir_builder.py", "tir/schedule.py", "tir/stmt.py", "topi/nn.py"]


def functions_in(body, prefix=""):
    """(name, definition) of the public functions and methods of a module's syntax tree."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions_in(node.body, f"{node.name}.")
        if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            yield prefix + node.name, node


def test_functions_of_the_levels_are_annotated():
    folder = ROOT / "python/treadle"
    missing = []
    for file in [file for name in ANNOTATED for file in ([folder / name] if name.endswith(".py") else (folder / name).glob("*.py"))]:
        for name, node in functions_in(ast.parse(file.read_text()).body):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            wanted = [each for each in arguments if each is not None and each.arg not in ("self", "cls")]
            if node.returns is None or any(each.annotation is None for each in wanted):
                missing.append(f"{file.relative_to(folder)}: {name}")
    assert not missing


def test_stubs_of_operators_are_those_of_their_declarations(monkeypatch):
    """They are written by: PYTHONPATH=build/python .venv/bin/python tools/docs/op_stubs.py"""
    monkeypatch.syspath_prepend(ROOT / "tools/docs")
    import op_stubs

    for module in op_stubs.MODULES:
        assert (op_stubs.FOLDER / f"{module}.pyi").read_text(encoding="utf-8") == op_stubs.stub(module), module


def test_help_lists_what_there_is():
    assert {"compile", "load", "Model", "InferenceSession", "tune", "quantize"} <= set(treadle.__all__)
    assert (pathlib.Path(treadle.__file__).parent / "py.typed").exists()


def mypy(tmp_path_factory, *paths):
    cache = tmp_path_factory.getbasetemp() / "mypy"
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, "--config-file", ROOT / "pyproject.toml", *paths]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT,
                          env={**os.environ, "MYPYPATH": str(ROOT / "python")})


@needs_mypy
def test_the_package_and_a_program_that_uses_it_type_check(tmp_path_factory):
    result = mypy(tmp_path_factory, "python/treadle", "tests/typing/right.py")
    assert result.returncode == 0, result.stdout + result.stderr


@needs_mypy
def test_mistakes_are_found_where_they_are(tmp_path_factory):
    result = mypy(tmp_path_factory, "tests/typing/wrong.py")
    found = re.findall(r"^tests/typing/wrong.py:(\d+): error: .*\[([a-z-]+)\]$", result.stdout, re.M)
    lines = (ROOT / "tests/typing/wrong.py").read_text().splitlines()
    expected = [(str(i + 1), line.rpartition("# error: ")[2]) for i, line in enumerate(lines) if "# error: " in line]
    assert sorted(set(found)) == sorted(expected), result.stdout


def test_operators_take_what_may_be_left_out(monkeypatch):
    """As their stubs say: attributes that are None where they aren't given."""
    monkeypatch.syspath_prepend(ROOT / "tools/docs")
    import op_stubs
    from treadle import relay

    assert "def dense(data: ExprLike, weight: ExprLike, units: int | None = None," in op_stubs.stub("nn")
    a, w = relay.var("a", shape=(2, 3)), relay.var("w", shape=(4, 3))
    assert relay.testing.run_infer_type(relay.nn.dense(a, w)).checked_type.concrete_shape == (2, 4)
