# SPDX-License-Identifier: Apache-2.0
"""Writes the licences of what packages of Treadle hold of others, libraries that are linked in and the JavaScript of report
pages: third_party_licences.py OUT. They are taken from where the libraries are; one that is missing is an error."""
import importlib.metadata
import pathlib
import sys

# Package of Debian (its copyright file), and what of it is used.
DEBIAN = {"llvm-19": "LLVM and LLD", "libfmt-dev": "fmt", "libprotozero-dev": "protozero", "nlohmann-json3-dev": "JSON for Modern C++",
          "libcli11-dev": "CLI11", "libstb-dev": "stb_image, stb_image_resize", "zlib1g-dev": "zlib", "libzstd-dev": "zstd"}
PYTHON = {"nanobind": "nanobind", "vl-convert-python": "vl-convert, whose bundle holds Vega, Vega-Lite and Vega-Embed (BSD-3-Clause, "
          "Copyright (c) 2015-2023, University of Washington Interactive Data Lab)"}
# netron's wheel has the file without its licence.
DAGRE = """Copyright (c) 2012-2014 Chris Pettitt

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,
ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def of_debian(package):
    return pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(encoding="utf-8")


def of_python(package):
    files = [file for file in importlib.metadata.files(package) or [] if file.name.startswith("LICENSE")]
    if not files:
        raise SystemExit(f"third_party_licences: {package} has no file LICENSE")
    return files[0].locate().read_text(encoding="utf-8")


def main():
    parts = [(what, of_debian(package)) for package, what in DEBIAN.items()]
    parts += [(what, of_python(package)) for package, what in PYTHON.items()]
    parts.append(("dagre, which report pages lay out graphs with", DAGRE))
    texts = [f"{'=' * 80}\n{what}\n{'=' * 80}\n{text.strip()}\n" for what, text in parts]
    pathlib.Path(sys.argv[1]).write_text("Treadle's packages hold parts of the following.\n\n" + "\n".join(texts), encoding="utf-8")


main()
