# SPDX-License-Identifier: Apache-2.0
"""The debug executor by its old name."""
from .debug_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
