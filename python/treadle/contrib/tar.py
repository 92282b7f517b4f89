# SPDX-License-Identifier: Apache-2.0
"""Archives of files."""
import os
import tarfile


def tar(output, files):
    """Writes files into an archive, without their directories."""
    with tarfile.open(output, "w") as archive:
        for path in [files] if isinstance(files, str) else files:
            archive.add(path, arcname=os.path.basename(path))


def untar(tar_file, directory):
    """Unpacks an archive."""
    with tarfile.open(tar_file) as archive:
        archive.extractall(directory, filter="data")


tar.output_format = "tar"
