# SPDX-License-Identifier: Apache-2.0
"""What the pages of docs/ show works as printed."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", ["start", "dynamic-shapes", "from-onnxruntime"])
def test_every_block_of_a_page_runs(page, tmp_path):
    """In the order of the page, in one folder: shell by bash, Python in one process for all of its blocks."""
    if page == "start":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("vl_convert", reason="the build has no libraries of report pages")
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    program = pathlib.Path(treadle.__file__).parent / "bin"
    package = os.path.dirname(os.path.dirname(os.path.abspath(treadle.__file__)))
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable, "PYTHONPATH": package,
                   "PATH": os.pathsep.join([str(program), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])}
    done = ""
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            done += block
        command = ["bash", "-euo", "pipefail", "-c", block] if language == "sh" else [sys.executable, "-c", done]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, f"{block}\n{result.stdout}{result.stderr}"


def test_links_lead_to_pages():
    generated = {"reference-cli.md", "reference-python.md", "reference-c.md"}
    names = {page.name for page in PAGES} | generated
    for page in PAGES:
        for target in re.findall(r"\]\(([a-z0-9-]+\.md)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert target in names, f"{page.name}: {target}"


def test_every_page_is_in_the_site():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert f": {page.name}\n" in site, page.name


def test_references_are_generated(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/docs/generate.py", tmp_path], check=True, timeout=300)
    command_line = (tmp_path / "reference-cli.md").read_text(encoding="utf-8")
    assert all(f"## treadle {verb}\n" in command_line for verb in ("compile", "verify", "bench", "report", "doctor"))
    python = (tmp_path / "reference-python.md").read_text(encoding="utf-8")
    assert "### treadle.compile(" in python or "### treadle.model.compile(" in python
    assert "Model.benchmark(" in python and "Errors:" in python
    assert "TreadleModelLoad" in (tmp_path / "reference-c.md").read_text(encoding="utf-8")
