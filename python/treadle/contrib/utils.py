# SPDX-License-Identifier: Apache-2.0
"""Directories for files that tests and tutorials make."""
from __future__ import annotations

import os
import shutil
import tempfile


class TempDirectory:
    """A directory that goes away with this object."""

    def __init__(self, custom_path: str | None = None) -> None:
        if custom_path is not None:
            os.makedirs(custom_path, exist_ok=True)
        self.temp_dir: str = custom_path or tempfile.mkdtemp()
        self._owned = custom_path is None

    def remove(self) -> None:
        """Removes it now."""
        if self._owned and self.temp_dir:
            shutil.rmtree(self.temp_dir, ignore_errors=True)
            self.temp_dir = ""

    def __del__(self):
        self.remove()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()

    @property
    def path(self) -> str:
        return self.temp_dir

    def relpath(self, name: str) -> str:
        """The path of the file of that name in it."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        return os.listdir(self.temp_dir)


def tempdir(custom_path: str | None = None) -> TempDirectory:
    """A directory for temporary files."""
    return TempDirectory(custom_path)


class FileLock:
    """A file that only one process holds at a time; waits for it. With `with`, or until `release`."""

    def __init__(self, path: str) -> None:
        import fcntl

        self._file = open(path, "w", encoding="ascii")  # pylint: disable=consider-using-with
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Lets others have it."""
        self._file.close()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def filelock(path: str) -> FileLock:
    """A lock on the file, which is made where it isn't there."""
    return FileLock(path)


def which(exec_name: str) -> str | None:
    """Where a program is, None where there is none of that name."""
    return shutil.which(exec_name)
