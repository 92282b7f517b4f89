# SPDX-License-Identifier: Apache-2.0
"""The graph executor by its old name."""
from .graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
