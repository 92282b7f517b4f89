# SPDX-License-Identifier: Apache-2.0
"""The compile engine under its newer name."""
from .compile_engine import CCacheKey, CCacheValue, CompileEngine, get

TECompiler = CompileEngine

__all__ = ["CCacheKey", "CCacheValue", "TECompiler", "get"]
