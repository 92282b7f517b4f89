# SPDX-License-Identifier: Apache-2.0
"""Every line of README.md runs as printed, in one folder, and prints what it shows."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")

# Stands for pip, without a network: the wheel is the package under test, other packages are those installed here.
PIP = """#!/usr/bin/env python3
import importlib.util, pathlib, re, sys
if sys.argv[1:] == ["install", "dist/treadle-*.whl", "onnxruntime"]:
    sys.exit()
target, package = re.fullmatch(r"install --no-deps --target (\\S+) (\\S+)==\\S+", " ".join(sys.argv[1:])).groups()
name = package.replace("-", "_")
pathlib.Path(target).mkdir()
pathlib.Path(target, name).symlink_to(pathlib.Path(importlib.util.find_spec(name).origin).parent)
"""


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    (folder / "bin").mkdir()
    pip = folder / "bin/pip"
    pip.write_text(PIP.replace("/usr/bin/env python3", sys.executable), encoding="utf-8")
    pip.chmod(0o755)
    return folder


def run(command, folder):
    package = pathlib.Path(treadle.__file__).parent
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": str(package.parent),
                   "PATH": os.pathsep.join([str(folder / "bin"), str(package / "bin"), os.environ["PATH"]])}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_numbers(text):
    text = re.sub(r"[0-9]+([.,][0-9]+)*(e[-+]?[0-9]+)?", "#", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_commands_print_what_is_shown(folder):
    pytest.importorskip("onnxruntime")
    (commands,), (shown,) = blocks("sh"), blocks("text")
    assert without_numbers(run(["bash", "-euo", "pipefail", "-c", commands], folder)) == without_numbers(shown)
    (program,) = blocks("python")
    run([sys.executable, "-c", program], folder)
    assert (folder / "model.so").stat().st_size > 0


def test_links_lead_to_files():
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (ROOT / target).exists(), target


def test_make_has_the_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z]+)`", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_table_is_of_the_page_of_benchmarks():
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"<!-- benchmarks: .*?-->\n(.*?)<!-- end -->", TEXT, re.DOTALL)
    rows = table.splitlines()
    assert len(rows) > 5
    assert all(row in page.splitlines() for row in rows)
