# SPDX-License-Identifier: Apache-2.0
"""Databases of measurements, which `callback.log_to_database` saves in."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from .._refused import refused
from .record import decode, encode, measure_str_key


class Database(ABC):
    """Base: what saves measurements and gives them back."""

    @abstractmethod
    def load(self, inp: Any, get_all: bool = False) -> Any:
        """The latest result of an input, or a list of all; None without any."""

    @abstractmethod
    def save(self, inp: Any, res: Any, extend: bool = False) -> None:
        """The result of an input, in the place of earlier ones unless `extend`."""


class DummyDatabase(Database):
    """Kept in memory, as lines of a log."""

    def __init__(self) -> None:
        self.db: dict[str, list[str]] = {}

    def load(self, inp: Any, get_all: bool = False) -> Any:
        found = [pair[1] for line in self.db.get(measure_str_key(inp), []) if (pair := decode(line)) is not None]
        return None if not found else found if get_all else found[-1]

    def save(self, inp: Any, res: Any, extend: bool = False) -> None:
        key = measure_str_key(inp)
        self.db[key] = [*(self.db.get(key, []) if extend else []), encode(inp, res)]

    def filter(self, func: Callable[[Any, list[Any]], bool]) -> list[tuple[Any, list[Any]]]:
        """The inputs with their results for which func(input, results) holds."""
        return [pair for pair in self._pairs() if func(*pair)]

    def flush(self) -> None:
        """Forgets everything."""
        self.db.clear()

    def _pairs(self) -> Iterator[tuple[Any, list[Any]]]:
        for lines in self.db.values():
            pairs = [pair for pair in map(decode, lines) if pair is not None]
            if pairs:
                yield pairs[0][0], [result for _, result in pairs]


RedisDatabase = refused("autotvm.database.RedisDatabase", "callback.log_to_file writes files that merge by concatenation; "
                        "DummyDatabase is kept in memory")
