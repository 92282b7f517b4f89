# SPDX-License-Identifier: Apache-2.0
"""Archives of files."""
import os
import tarfile

from ..error import Error


def tar(output, files):
    """Writes files into an archive, without their directories."""
    with tarfile.open(output, "w") as archive:
        for path in [files] if isinstance(files, str) else files:
            archive.add(path, arcname=os.path.basename(path))


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


tar.output_format = "tar"
