# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder show, as docs/rows.md: pytest tests/rows --rows docs/rows.md."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "python")]

import pytest  # noqa: E402

HEAD = """# The systems, row by row

Each row is a system that this project takes from the articles it was begun with. What it says was shown by the test of
that row (`tests/rows`), which wrote this page: `pytest tests/rows --rows docs/rows.md`.
"""
_rows = {}


def pytest_addoption(parser):
    parser.addoption("--rows", help="write what the rows show to this file, where all of them pass")


class Row:
    """Collects what a test has shown."""

    def __init__(self, title):
        self.title, self.lines = title, []

    def works(self, text):
        self.lines.append(("Works", text))

    def better(self, text):
        self.lines.append(("Better than the original", text))


@pytest.fixture
def row(request):
    """The row of a test called test_row_NN_what: its title is the first line of the docstring."""
    number = int(request.node.name.split("_")[2])
    made = Row(request.node.function.__doc__.splitlines()[0].rstrip("."))
    yield made
    if getattr(request.node, "failed_call", False):
        return
    if {kind for kind, _ in made.lines} != {"Works", "Better than the original"}:
        pytest.fail("a row shows what works and what is better")
    _rows[number] = made


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == "call":
        item.failed_call = outcome.get_result().failed


def pytest_sessionfinish(session, exitstatus):
    path = session.config.getoption("--rows")
    if not path:
        return
    if exitstatus != 0 or sorted(_rows) != list(range(1, 31)):
        raise pytest.UsageError(f"rows are missing or fail; {path} stays: {sorted(set(range(1, 31)) - set(_rows))}")
    text = HEAD
    for number, made in sorted(_rows.items()):
        text += f"\n## {number}. {made.title}\n\n"
        text += "".join(f"- {kind}: {line}.\n" for kind, line in made.lines)
    pathlib.Path(path).write_text(text, encoding="utf-8")
