# SPDX-License-Identifier: Apache-2.0
"""What tuners call after each round."""
from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from . import record
from .._arguments import path as _path, whole
from ..error import Error


def log_to_file(file_out: Any, protocol: str = "json") -> Callable[..., None]:
    """Appends each measurement to a file."""
    if not hasattr(file_out, "write"):
        file_out = _path("log_to_file", file_out)

    def callback(_tuner, inputs, results):
        lines = "".join(record.encode(i, r) + "\n" for i, r in zip(inputs, results))
        if hasattr(file_out, "write"):
            file_out.write(lines)
            return
        with open(file_out, "a", encoding="utf-8") as file:
            file.write(lines)

    return callback


def log_to_database(db: Any) -> Callable[..., None]:
    """Saves each measurement in a database (autotvm.database): anything with `save(input, result)`."""
    if not callable(getattr(db, "save", None)):
        raise Error(f"log_to_database: expected a database (autotvm.database.DummyDatabase), not {db!r}")

    def callback(_tuner, inputs, results):
        for measure_input, result in zip(inputs, results):
            db.save(measure_input, result)

    return callback


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> Callable[..., None]:
    """Writes how far the tuner is to stderr."""
    whole("progress_bar: total", total, 0)
    state = {"count": 0, "best": 0.0}

    def callback(tuner, inputs, results):
        state["count"] += len(results)
        for result in results:
            if result.error_no == 0 and tuner.task.flop:
                state["best"] = max(state["best"], tuner.task.flop / min(result.costs) / 1e9)
        sys.stderr.write(f"\r{prefix} {state['count']}/{total}, best {state['best']:.2f} GFLOPS")
        if state["count"] >= total:
            sys.stderr.write("\n")

    return callback


class Monitor:
    """Keeps what each trial reached, in operations a second (0 for an error), and when it was measured."""

    def __init__(self) -> None:
        self.reset()

    def __call__(self, tuner: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        for result in results:
            failed = result.error_no != 0
            self._scores.append(0.0 if failed else tuner.task.flop * len(result.costs) / sum(result.costs))
            self._times.append(time.time())

    def reset(self) -> None:
        self._scores: list[float] = []
        self._times: list[float] = []

    def trial_scores(self) -> list[float]:
        return list(self._scores)

    def trial_timestamps(self) -> list[float]:
        return list(self._times)


def log_to_redis(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Isn't there: an Error names what is."""
    raise Error("log_to_redis isn't there; use log_to_file, whose files merge by concatenation")


logger = logging.getLogger("autotvm")
