# SPDX-License-Identifier: Apache-2.0
"""What relay.build returns."""
from ..build_module import GraphExecutorFactoryModule

ExecutorFactoryModule = GraphExecutorFactoryModule

__all__ = ["ExecutorFactoryModule", "GraphExecutorFactoryModule"]
