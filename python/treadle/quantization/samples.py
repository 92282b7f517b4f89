# SPDX-License-Identifier: Apache-2.0
"""Calibration data: dicts of arrays by input name, in memory or as .npz files."""
import os
import pathlib
from typing import Any

import numpy as np

from ..error import Error


def read_samples(source: Any, most: int | None = None) -> list[dict[str, np.ndarray]]:
    """A list of {input name: array} from a directory of .npz files, one such file, or dicts."""
    if isinstance(source, (str, os.PathLike)):
        path = pathlib.Path(source)
        if not path.exists():
            raise Error(f"can't open {path}: no such file or directory")
        files = sorted(path.glob("*.npz")) if path.is_dir() else [path]
        if not files:
            raise Error(f"{path} has no .npz files; each holds the inputs of one run by their names")
        samples = []
        for file in files[:most]:
            try:
                with np.load(file) as archive:
                    samples.append({name: archive[name] for name in archive.files})
            except (OSError, ValueError) as error:
                raise Error(f"can't read {file}: {error}") from None
        return samples
    if not hasattr(source, "__iter__"):
        raise Error("calibration data: expected a directory of .npz files, one such file, or dicts of arrays by input name, "
                    f"not {source!r}")
    samples = list(source)[:most]
    if not samples or not all(isinstance(sample, dict) for sample in samples):
        raise Error("calibration data must be dicts of arrays by input name, at least one")
    return samples
