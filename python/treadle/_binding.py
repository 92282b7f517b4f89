# SPDX-License-Identifier: Apache-2.0
"""Runs of a model whose outputs go where the caller says."""
import threading
from collections.abc import Mapping
from typing import Any

from .error import Error


class Binding:
    """A context that the runs of a model share, in turns, while outputs of the model are bound."""

    def __init__(self, context: Any, inputs: Mapping[str, Any]):
        self._context, self._inputs, self._names = context, inputs, set[str]()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._names)

    def bind(self, name: str, array: Any) -> None:
        with self._lock:
            self._context.bind_output(name, array)
            self._names.add(name) if array is not None else self._names.discard(name)

    def run(self, inputs: Mapping[str, Any], timeout: float | None, cancel: Any) -> dict[str, Any]:
        """As Context.run; every input has to be given, whatever an earlier run was given."""
        for name, info in self._inputs.items():
            if isinstance(inputs, Mapping) and name not in inputs:
                raise Error(f'input "{name}" is missing: expected {info.dtype} ({", ".join(map(str, info.shape))})')
        with self._lock:
            return self._context.run(inputs, timeout=timeout, cancel=cancel)
