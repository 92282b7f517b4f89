# SPDX-License-Identifier: Apache-2.0
"""Where scripts look for LocalBuilder."""
from .runner import LocalBuilder  # noqa: F401
