# SPDX-License-Identifier: Apache-2.0
"""Folders and files that the user may not write or read: said at once, before anything is compiled. Root may do all, so
that as root the program runs as another user."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import onnx
import onnx.parser
import pytest

import treadle

PROGRAM = (pathlib.Path(treadle.__file__).parent / "bin/treadle").resolve()
ROOT = os.geteuid() == 0
AS = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if ROOT else []


def run(folder, *args, home=None):
    environment = {**os.environ, **({"HOME": str(home)} if home else {})}
    environment.pop("TREADLE_CACHE_DIR", None)
    environment.pop("XDG_CACHE_HOME", None)
    return subprocess.run([*AS, PROGRAM, *map(str, args)], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=120, check=False)


@pytest.fixture(scope="module")
def folder():
    """m.onnx, m.so; read-only: ro/, unread.onnx, unread.so; sticky/ with another user's m.so; records.jsonl, not to write."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="treadle-permissions-"))
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'),
              path / "m.onnx")
    treadle.compile(path / "m.onnx").save(path / "m.so")
    for name in ("ro", "sticky", "mine", "home"):
        (path / name).mkdir()
    shutil.copy(path / "m.so", path / "sticky/m.so")
    for name in ("m.onnx", "m.so"):
        shutil.copy(path / name, path / f"unread{pathlib.Path(name).suffix}")
        (path / f"unread{pathlib.Path(name).suffix}").chmod(0o600 if ROOT else 0)
    (path / "records.jsonl").touch()
    for name, mode in (("ro", 0o555), ("home", 0o555), ("sticky", 0o1777), ("mine", 0o777), ("records.jsonl", 0o444), ("m.onnx", 0o644),
                       ("m.so", 0o755), ("sticky/m.so", 0o755), (".", 0o777)):
        (path / name).chmod(mode)
    try:
        done = run(path, "--version")
        works = done.returncode == 0
    except FileNotFoundError:
        works = False
    if not works:
        shutil.rmtree(path)
        pytest.skip("no other user can run the program here")
    yield path
    for name in ("ro", "home"):
        (path / name).chmod(0o755)
    shutil.rmtree(path)


IN_RO = "can't create files in the folder 'ro': Permission denied"


@pytest.mark.parametrize("arguments, text", [
    (("compile", "m.onnx", "-o", "ro/a.so"), f"can't write 'ro/a.so': {IN_RO}"),
    (("compile", "m.onnx", "--target", "c", "-o", "ro/c/"),
     "can't write to 'ro/c/': can't create files in the folder 'ro': Permission denied"),
    (("compile", "m.onnx", "-o", "mine/a.so", "--dump", "tir", "--dump-dir", "ro"), "can't write to 'ro': Permission denied"),
    (("run", "m.so", "-i", "random", "-o", "ro/y.npz"), f"can't write 'ro/y.npz': {IN_RO}"),
    (("profile", "m.so", "--trace", "ro/t.json"), f"can't write 'ro/t.json': {IN_RO}"),
    (("bench", "m.so", "--json", "ro/b.json"), f"can't write 'ro/b.json': {IN_RO}"),
    (("report", "m.so", "-o", "ro/r.html"), f"can't write 'ro/r.html': {IN_RO}"),
    (("tune", "m.onnx", "-o", "ro/r.jsonl", "--time", "1s"), f"can't write 'ro/r.jsonl': {IN_RO}"),
    (("tune", "m.onnx", "-o", "records.jsonl", "--time", "1s"), "can't write 'records.jsonl': Permission denied"),
    (("verify", "m.onnx", "--reduce", "ro/case"),
     "can't write to 'ro/case': can't create files in the folder 'ro': Permission denied"),
    (("compile", "unread.onnx", "-o", "mine/a.so"), "can't read unread.onnx: Permission denied"),
    (("run", "unread.so", "-i", "random"), "can't read unread.so: Permission denied"),
    (("inspect", "unread.so"), "can't read unread.so: Permission denied"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_what_is_said(folder, arguments, text):
    done = run(folder, *arguments)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: " + text)
    assert not any((folder / "ro").iterdir()) and not any((folder / "mine").iterdir())


@pytest.mark.skipif(not ROOT, reason="needs files of two users")
def test_files_of_others_in_shared_folders_stay(folder):
    before = (folder / "sticky/m.so").stat()
    done = run(folder, "compile", "m.onnx", "-o", "sticky/m.so")
    assert (done.returncode, done.stderr) == (
        2, "error: can't write 'sticky/m.so': the file is another user's, and in the folder 'sticky' only owners may replace files\n")
    assert (folder / "sticky/m.so").stat().st_ino == before.st_ino


def test_a_home_without_room_for_a_cache_does_no_harm(folder):
    done = run(folder, "compile", "m.onnx", "-o", "mine/b.so", home=folder / "home")
    assert done.returncode == 0 and done.stderr == ""
    (folder / "mine/b.so").unlink()
    assert "not used" in run(folder, "cache", "show", home=folder / "home").stdout
    limited = run(folder, "cache", "limit", "5MiB", home=folder / "home")
    assert limited.returncode == 2 and limited.stderr.startswith("error: can't write the limit of the kernel cache to ")
