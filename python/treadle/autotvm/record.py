# SPDX-License-Identifier: Apache-2.0
"""Logs: one JSON object per line."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from .._arguments import path as _path
from ..error import Error
from .measure import MeasureInput, MeasureResult, _Named
from .space import ConfigEntity

AUTOTVM_LOG_VERSION = VERSION = 0.2


def _plain(value):
    return tuple(_plain(v) for v in value) if isinstance(value, list) else value


def encode(measure_input: Any, result: Any, protocol: str = "json") -> str:
    """The line of a measurement."""
    if not hasattr(measure_input, "task") or not hasattr(result, "costs"):
        raise Error(f"encode: expected a MeasureInput and a MeasureResult, not {measure_input!r} and {result!r}")
    task = measure_input.task
    if hasattr(task, "record_line"):
        return task.record_line(measure_input.config)
    return json.dumps({"input": [str(measure_input.target), task.name, list(task.args), {}],
                       "config": measure_input.config.to_json_dict(),
                       "result": [list(result.costs), result.error_no, result.all_cost, result.timestamp],
                       "error": result.error, "version": VERSION})


def decode(row: str, protocol: str = "json") -> Any:
    """The measurement of a line; None where it is none."""
    try:
        data = json.loads(row)
        target, name, args, _ = data["input"]
        config = ConfigEntity.from_json_dict(data["config"])
        costs, *rest = data["result"]
        result = MeasureResult(tuple(costs), *[*rest, data.get("error", "")])
    except (ValueError, KeyError, TypeError):
        return None
    return MeasureInput(target, _Named(name, _plain(args), target), config), result


def load_from_file(path: Any) -> Iterator[Any]:
    """Pairs of inputs and results of a log; lines that are torn or foreign are left out."""
    with open(_path("records", path), encoding="utf-8", errors="replace") as file:
        yield from load_from_buffer(file)


def load_from_buffer(file: Any) -> Iterator[Any]:
    """As load_from_file, of the lines of an open file."""
    for line in file:
        pair = decode(line) if line.strip() and not line.startswith("#") else None
        if pair is not None:
            yield pair


def measure_str_key(measure_input: Any, include_config: bool = True) -> str:
    """What names a measurement: target, template, arguments, and the number of its configuration."""
    task = measure_input.task
    config = [str(measure_input.config.index)] if include_config else []
    return "".join([str(measure_input.target), task.name, repr(tuple(task.args)), *config])


def pick_best(in_file: Any, out_file: Any) -> None:
    """Writes the fastest measurement of each workload and target, and what is recorded of kernels of networks."""
    best: dict[tuple[str, str], Any] = {}
    for measure_input, result in load_from_file(in_file):
        key = (str(measure_input.target), repr(measure_input.task.workload))
        if result.error_no == 0 and (key not in best or _mean(result) < _mean(best[key][1])):
            best[key] = (measure_input, result)
    with open(out_file, "w", encoding="utf-8") as file:
        file.writelines(encode(*pair) + "\n" for pair in best.values())
        file.writelines(lines_of_networks(in_file))


def split_workload(in_file: Any, clean: bool = True) -> list[str]:
    """Writes the measurements of each workload to a file of its own: x.log becomes x.000.wkl, x.001.wkl, .. Returns their
    names. clean: without errors."""
    groups: dict[str, list[str]] = {}
    for measure_input, result in load_from_file(in_file):
        lines = groups.setdefault(repr((str(measure_input.target), measure_input.task.workload)), [])
        if result.error_no == 0 or not clean:
            lines.append(encode(measure_input, result) + "\n")
    stem, _ = os.path.splitext(os.fspath(in_file))
    names = [f"{stem}.{number:03d}.wkl" for number in range(len(groups))]
    for name, lines in zip(names, groups.values()):
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(lines)
    return names


def lines_of_networks(path: Any) -> list[Any]:
    """The lines of a log that are records of treadle.tune."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line for line in file if line.startswith('{"kind":"plan"') and line.endswith("\n")]


def _mean(result):
    return sum(result.costs) / len(result.costs)
