# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of compiled functions."""


def assert_allclose(actual, desired, rtol=1e-7, atol=1e-7):
    """Raises AssertionError unless shapes are equal and values close."""
    import numpy as np

    actual, desired = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (actual, desired))
    np.testing.assert_equal(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def enabled_targets():
    """Pairs of target and device that this machine can build for and run."""
    from . import nd
    from .runtime import enabled

    candidates = (("llvm", nd.cpu()), ("c", nd.cpu()), ("opencl", nd.opencl()))
    return [(name, device) for name, device in candidates if enabled(name) and device.exist]


def device_enabled(target):
    """Whether this machine runs what is built for a target."""
    return str(target).split()[0] in [name for name, _ in enabled_targets()]


def parametrize_targets(*args):
    """Decorator: the test runs for each target of `args` (default: all) that is enabled, with parameters target, dev."""
    import pytest

    def decorate(function, names=None):
        chosen = [(name, dev) for name, dev in enabled_targets() if not names or name in names]
        return pytest.mark.parametrize("target, dev", chosen, ids=[name for name, _ in chosen])(function)

    if len(args) == 1 and callable(args[0]):
        return decorate(args[0])
    return lambda function: decorate(function, args)


def requires_llvm(function):
    """Decorator: the test needs target llvm."""
    import pytest

    from .runtime import enabled

    return pytest.mark.skipif(not enabled("llvm"), reason="this build has no target llvm")(function)
