# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices of random values."""
from __future__ import annotations

from typing import Any


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:
    """A SciPy matrix (m, n) of blocks (bs_r, bs_c), so many of which hold values that the density is reached."""
    import numpy as np
    import scipy.sparse

    if m % bs_r or n % bs_c:
        raise ValueError(f"random_bsr_matrix: a matrix ({m}, {n}) doesn't divide into blocks ({bs_r}, {bs_c})")
    rows, columns = m // bs_r, n // bs_c
    count = int(density * m * n / (bs_r * bs_c)) + 1
    chosen = np.sort(np.random.choice(rows * columns, size=min(count, rows * columns), replace=False))
    dense = np.zeros((rows, columns, bs_r, bs_c), dtype)
    dense.reshape(-1, bs_r, bs_c)[chosen] = np.random.randn(len(chosen), bs_r, bs_c)
    matrix = scipy.sparse.bsr_matrix(dense.transpose(0, 2, 1, 3).reshape(m, n), blocksize=(bs_r, bs_c))
    matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")
    return matrix
