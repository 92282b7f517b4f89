# SPDX-License-Identifier: Apache-2.0
"""A plug-in of pytest: `pytest_plugins = ["treadle.testing.plugin"]` in a conftest.py. A test that takes `target` runs for
each target that is enabled; `dev` is that target's device."""
from __future__ import annotations

from typing import Any

import pytest

from .. import nd
from ..target import Target
from . import enabled_targets

_MARKERS = ("gpu", "tensorcore", "cuda", "opencl", "rocm", "vulkan", "metal", "llvm", "hexagon")


def pytest_configure(config: Any) -> None:
    """Marks of tests that need something."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", f"{marker}: the test needs {marker}")


def pytest_generate_tests(metafunc: Any) -> None:
    """Tests that take `target`, and don't say which, run for each."""
    named = {name.strip() for mark in metafunc.definition.iter_markers("parametrize")
             for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])}
    own = metafunc.definition._fixtureinfo.name2fixturedefs.get("target")
    if "target" in metafunc.fixturenames and "target" not in named and not own:
        metafunc.parametrize("target", [kind for kind, _ in enabled_targets()])


@pytest.fixture
def dev(target: Any) -> Any:
    """The device of a test's target."""
    kind = target.kind.name if isinstance(target, Target) else str(target).split()[0]
    return {name: device for name, device in enabled_targets()}.get(kind, nd.cpu())
