# SPDX-License-Identifier: Apache-2.0
"""Archives of files."""
import os
import tarfile
from typing import Any

from .._toolchain import untar


def tar(output: Any, files: Any) -> None:
    """Writes files into an archive, without their directories."""
    with tarfile.open(output, "w") as archive:
        for path in [files] if isinstance(files, str) else files:
            archive.add(path, arcname=os.path.basename(path))


tar.output_format = "tar"  # type: ignore[attr-defined]
