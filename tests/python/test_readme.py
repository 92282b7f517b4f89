# SPDX-License-Identifier: Apache-2.0
"""The tour of README.md runs as printed."""
import os
import pathlib
import re
import subprocess
import sys

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_tour_runs(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = re.search(r"## A tour.*?```sh\n(.*?)```", text, re.DOTALL).group(1)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    program = pathlib.Path(treadle.__file__).parent / "bin"
    environment = {**os.environ, "TREADLE_PYTHON": sys.executable}
    script = "set -euo pipefail\n" + tour.replace("$PWD/.venv/bin", str(program))
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agrees" in done.stdout and "treadle takes" in done.stdout
    for file in ("cls.so", "out.npz", "stages/relay.relay", "stages/relay-opt.relay"):
        assert (tmp_path / file).stat().st_size > 0, file
