# SPDX-License-Identifier: Apache-2.0
"""The examples run, and say what they should."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import zoo

import treadle

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(script, *args):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, ROOT / "examples" / script, *map(str, args)], capture_output=True, text=True,
                          timeout=600, env=environment)


def test_text_recognition_reads_what_was_drawn(tmp_path):
    result = run("ocr/demo.py", "--out", tmp_path, "--text", "Hello, World!")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads((tmp_path / "result.json").read_text())
    assert report["text"] == "Hello, World!"
    assert report["agrees_with_onnxruntime"]


def test_resnet18_is_deployed_in_three_files(tmp_path):
    result = run("resnet18/deploy.py", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"mod.so", "mod.params", "mod.json"}
    assert result.stdout.count("class ") == 5


def test_inference_from_c(tmp_path):
    program = ROOT / "build/bin/c_inference"
    if not program.exists():
        pytest.skip("c_inference isn't built")
    case = next(case for case in zoo.generated_models() if case.name == "mlp")
    model = treadle.compile(case.bytes())
    model.export_library(tmp_path / "m.so")
    value = case.inputs()["data"]
    value.tofile(tmp_path / "in.f32")
    result = subprocess.run([program, tmp_path / "m.so", tmp_path / "in.f32", tmp_path / "out.f32"], capture_output=True,
                            text=True)
    assert result.returncode == 0, result.stderr
    output = np.fromfile(tmp_path / "out.f32", np.float32).reshape(16, 1024)
    np.testing.assert_array_equal(output, model.run(None, {"data": value})[0])
    failed = subprocess.run([program, tmp_path / "in.f32"], capture_output=True, text=True)
    assert failed.returncode == 4
    assert "in.f32" in failed.stderr
