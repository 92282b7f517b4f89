# SPDX-License-Identifier: Apache-2.0
"""Files that scripts fetch."""
import pytest

import treadle as tvm
from treadle.contrib.download import download, download_testdata


def test_files_are_fetched_once(tmp_path, monkeypatch):
    source = tmp_path / "source.txt"
    source.write_text("first")
    target = tmp_path / "folder" / "copy.txt"
    download(source.as_uri(), target)
    source.write_text("second")
    download(source.as_uri(), target)
    assert target.read_text() == "first"
    download(source.as_uri(), target, overwrite=True)
    assert target.read_text() == "second"
    monkeypatch.setenv("TEST_DATA_ROOT_PATH", str(tmp_path / "data"))
    path = download_testdata(source.as_uri(), "s.txt", module="texts")
    assert path == str(tmp_path / "data" / "texts" / "s.txt") and open(path).read() == "second"


def test_what_is_not_there_is_an_error_and_leaves_nothing(tmp_path):
    with pytest.raises(tvm.Error, match="can't download file:///nowhere to "):
        download("file:///nowhere", tmp_path / "x", retries=1)
    assert not list(tmp_path.iterdir())
