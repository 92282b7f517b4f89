# SPDX-License-Identifier: Apache-2.0
"""Executors that show what happens inside."""
from . import debug_executor, debug_runtime
