# SPDX-License-Identifier: Apache-2.0
"""Files that the package writes itself: checked before the work begins, whole or not at all."""
import os
import pathlib
import tempfile
import typing

from .error import Error, RuntimeError as _RuntimeError

Path = typing.Union[str, "os.PathLike[str]"]


def check(path: Path, inputs: typing.Sequence[Path] = ()) -> None:
    """Error for a path that can't be written, or that is one of the inputs."""
    file = pathlib.Path(path)
    folder = file.parent
    reason = None
    if not str(path):
        reason = "the path is empty"
    elif file.is_dir():
        reason = "it is a directory"
    elif file.exists() and not file.is_file():
        reason = "it is a device, pipe or socket, not a regular file"
    elif not folder.is_dir():
        reason = f"there is no folder '{folder}'"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = f"can't create files in the folder '{folder}': Permission denied"
    else:
        same = [other for other in inputs if file.exists() and os.path.exists(other) and os.path.samefile(file, other)]
        reason = f"it is the input '{os.fspath(same[0])}'" if same else None
    if reason:
        raise Error(f"can't write '{os.fspath(path)}': {reason}")


def write(path: Path, make: typing.Callable[[pathlib.Path], object]) -> None:
    """Calls `make` with a path of the same name in a folder of its own, then moves all files that it made to `path` and
    beside it. RuntimeError where that fails; then nothing is left."""
    file = pathlib.Path(path)
    try:
        with tempfile.TemporaryDirectory(prefix=".treadle-tmp-", dir=file.parent) as folder:
            make(pathlib.Path(folder) / file.name)
            made = sorted(pathlib.Path(folder).iterdir(), key=lambda each: each.name == file.name)  # the file itself last
            for each in made:
                os.replace(each, file.parent / each.name)
    except OSError as error:
        raise _RuntimeError(f"can't write '{os.fspath(path)}': {os.strerror(error.errno) if error.errno else error}") from None
