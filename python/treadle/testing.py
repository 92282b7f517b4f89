# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of compiled functions."""


def assert_allclose(actual, desired, rtol=1e-7, atol=1e-7):
    """Raises AssertionError unless shapes are equal and values close."""
    import numpy as np

    actual, desired = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (actual, desired))
    np.testing.assert_equal(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)
