# SPDX-License-Identifier: Apache-2.0
"""The C compiler of the machine, and archives: what libraries are linked with outside of Treadle."""
import os
import shutil
import subprocess
import tarfile

from ._arguments import paths
from .error import Error


def get_cc():
    """The path of the compiler: $CXX, $CC, or what is installed; None where there is none."""
    candidates = [os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang", "c++", "cc"]
    return next((path for path in map(shutil.which, filter(None, candidates)) if path), None)


def run(command, what):
    """Runs a command; an Error with its output when it fails or isn't there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Error(f"{what}: can't run {command[0]}: {error}") from error
    if done.returncode:
        raise Error(f"{what} failed: {' '.join(command)}\n{done.stdout}{done.stderr}")


def _compiler(cc):
    cc = cc or get_cc()
    if cc is None:
        raise Error("no C compiler found: install one, or set CC")
    return cc


def _with_language(path):
    """A file as an argument of a compiler: sources in C are C for a compiler of C++, too."""
    return ["-x", "c", path, "-x", "none"] if path.endswith(".c") else [path]


def _with_runtime():
    """What links with Treadle's runtime, where objects call it by name (sources in C, system libraries)."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    return [f"-L{folder}", "-Wl,--as-needed", "-ltreadle_runtime", f"-Wl,-rpath,{folder}"]


def create_shared(output, objects, options=None, cc=None):
    """Links objects (or compiles sources) to the shared library `output`. Without another compiler `cc`, for this
    machine: what they call of Treadle's runtime is linked with it."""
    objects = paths("create_shared", objects)
    files = [word for each in objects for word in _with_language(str(each))]
    run([_compiler(cc), "-shared", "-fPIC", "-o", str(output), *files, *(options or []),
         *([] if cc else _with_runtime())], f"linking {output}")


def untar(tar_file, directory):
    """Unpacks an archive."""
    with tarfile.open(tar_file) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(directory, filter="data")
            return
        # Python before 3.11.4 has no filters: refuse what would leave the directory.
        root = os.path.realpath(directory)
        for member in archive.getmembers():
            target = os.path.realpath(os.path.join(root, member.name))
            if os.path.commonpath([root, target]) != root or not (member.isfile() or member.isdir()):
                raise Error(f"{tar_file}: the archive has a member that is no plain file below it: {member.name}")
        archive.extractall(directory)
