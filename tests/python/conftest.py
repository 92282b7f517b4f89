# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
