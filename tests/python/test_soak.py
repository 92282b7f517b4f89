# SPDX-License-Identifier: Apache-2.0
"""Short form of bench/soak.py."""
from soak import soak


def test_memory_stays_flat_over_runs_of_varying_shapes():
    first, last = soak(6000, threads=2)
    assert last - first < 4 << 20
