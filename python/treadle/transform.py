# SPDX-License-Identifier: Apache-2.0
"""Passes over modules and the context they run in."""
from .instrument import PrintAfterAll, PrintBeforeAll, pass_instrument  # noqa: F401
from .ir.transform import *  # noqa: F403
from .ir.transform import _api, make_pass_decorator  # noqa: F401
