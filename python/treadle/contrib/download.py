# SPDX-License-Identifier: Apache-2.0
"""Files from the network, kept for the next time."""
import os
import pathlib
import shutil
import tempfile
import urllib.error
import urllib.request
from typing import Any

from ..error import Error


def download(url: str, path: str | os.PathLike[str], overwrite: bool = False, size_compare: bool = False, retries: int = 3) -> None:
    """Fetches `url` (http, https or file) to `path`, unless it is there. size_compare: fetches it again where the size
    differs from what the server says."""
    path = pathlib.Path(path)
    if path.is_file() and not overwrite and not (size_compare and path.stat().st_size != _size(url)):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    reason = None
    for _ in range(max(1, retries)):
        part = None
        try:
            with urllib.request.urlopen(url) as source, tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                part = file.name
                shutil.copyfileobj(source, file)
            os.replace(part, path)
            return
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = error
            if part is not None and os.path.exists(part):
                os.unlink(part)
    raise Error(f"can't download {url} to {path}: {reason}")


def _size(url):
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request) as answer:
            return int(answer.headers.get("Content-Length", -1))
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Error(f"can't ask for the size of {url}: {error}") from None


def download_testdata(url: str, relpath: Any, module: Any = None, overwrite: bool = False) -> str:
    """Fetches `url` to `relpath` (with `module`: in a folder of that name) below the folder of test data, unless it is
    there, and returns its path. The folder is that of the environment variable TEST_DATA_ROOT_PATH, or
    ~/.treadle_test_data."""
    root = pathlib.Path(os.environ.get("TEST_DATA_ROOT_PATH", pathlib.Path.home() / ".treadle_test_data"))
    path = root / (module or "") / relpath
    download(url, path, overwrite=overwrite)
    return str(path)
