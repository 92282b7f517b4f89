#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives a wheel the platform tag of what its libraries ask for, manylinux_2_NN, and refuses one that asks for more than
glibc, libstdc++ and its own libraries, or looks for them elsewhere than beside itself. Usage: tag_wheel.py PYTHON WHEEL FOLDER (PYTHON has the package wheel)"""
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# What every system has that manylinux wheels run on.
SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux[-a-z0-9_]*)\.so\.[0-9]+$")


def needs(path):
    """(libraries, newest GLIBC version, where libraries are looked for) of an ELF file."""
    text = subprocess.run(["readelf", "-dV", "-W", path], capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", text)]
    places = [place for found in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", text) for place in found.split(":")]
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), max(versions, default=(2, 17)), places


def main():
    python, wheel, target = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        files = [f for f in pathlib.Path(folder).rglob("*") if f.is_file() and f.open("rb").read(4) == b"\x7fELF"]
        own = {file.name for file in files}
        newest = (2, 17)
        for file in files:
            libraries, version, places = needs(file)
            newest = max(newest, version)
            foreign = [name for name in libraries if not SYSTEM.match(name) and name not in own]
            if foreign:
                raise SystemExit(f"{wheel.name}: {file.name} needs {', '.join(foreign)}, which not every system has")
            strange = [place for place in places if not re.match(r"\$ORIGIN(/|$)", place)]
            if strange:  # an empty entry is the current directory
                raise SystemExit(f"{wheel.name}: {file.name} looks for libraries in '{strange[0]}'")
    tag = f"manylinux_{newest[0]}_{newest[1]}_{platform.machine()}"
    subprocess.run([python, "-m", "wheel", "tags", "--remove", "--platform-tag", tag, wheel], check=True, capture_output=True)
    for made in wheel.parent.glob("*.whl"):
        shutil.move(made, target / made.name)
        print(target / made.name)


main()
