# SPDX-License-Identifier: Apache-2.0
"""Logs: one JSON object per line. {"i": [[workload key, target], plans], "r": [costs, error_no, all_cost, timestamp],
"v": "treadle-1"}: a list of plans says what each kernel of the computation does."""
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._arguments import path

VERSION = "treadle-1"


class MeasureErrorNo:
    """What MeasureResult.error_no says."""

    NO_ERROR, INSTANTIATION_ERROR, COMPILE_HOST, COMPILE_DEVICE, RUNTIME_DEVICE = 0, 1, 2, 3, 4
    WRONG_ANSWER, BUILD_TIMEOUT, RUN_TIMEOUT, UNKNOWN_ERROR = 5, 6, 7, 8


class MeasureInput(NamedTuple):
    workload_key: str
    target: str
    plans: tuple


class MeasureResult(NamedTuple):
    """costs: seconds; 1e9 where there was an error, whose text is `error_msg`."""

    costs: tuple
    error_no: int
    all_cost: float
    timestamp: float
    error_msg: str = ""


def dump(measure_input: Any, result: Any) -> str:
    """A line of a file of records."""
    return json.dumps({"i": [[measure_input.workload_key, measure_input.target], list(measure_input.plans)],
                       "r": [list(result.costs), result.error_no, result.all_cost, result.timestamp],
                       "e": result.error_msg, "v": VERSION})


def _load(line):
    try:
        data = json.loads(line)
        (key, target), plans = data["i"]
        if data["v"] != VERSION:
            return None
        return MeasureInput(key, target, tuple(plans)), MeasureResult(tuple(data["r"][0]), *data["r"][1:], data["e"])
    except (ValueError, KeyError, TypeError):
        return None


# Errors of a choice that was the fastest by itself, but not beside the default.
NOT_FASTER = "not faster than the default in turns"
NOT_EQUAL = "fails beside the default, or gives another result"


class RecordReader:
    """Pairs of inputs and results of a log; lines that are torn or of other programs are left out."""

    def __init__(self, filename: Any) -> None:
        self.filename = path("records", filename)

    def __iter__(self):
        with open(self.filename, encoding="utf-8", errors="replace") as file:
            for line in file:
                pair = _load(line)
                if pair is not None:
                    yield pair

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> tuple[Any, Any]:
        pairs = list(self)[skip_lines:]
        pairs = pairs if max_lines is None else pairs[:max_lines]
        return [i for i, _ in pairs], [r for _, r in pairs]


load_records = RecordReader


class RecordToFile:
    """A callback that appends each measurement to a log."""

    def __init__(self, filename: Any) -> None:
        self.filename = path("RecordToFile", filename)

    def __call__(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        save_records(self.filename, inputs, results)


def save_records(filename: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Appends records to a file: a line for each input with its result."""
    with open(filename, "a", encoding="utf-8") as file:
        file.write("".join(dump(i, r) + "\n" for i, r in zip(inputs, results)))


def distill_record_file(in_file: Any, out_file: Any) -> None:
    """Writes the fastest measurement of each workload and target."""
    keys = dict.fromkeys((measure_input.workload_key, measure_input.target) for measure_input, _ in RecordReader(in_file))
    best = [load_best_record(in_file, *key) for key in keys]
    with open(out_file, "w", encoding="utf-8") as file:
        file.writelines(dump(*pair) + "\n" for pair in best if pair[0] is not None)


def load_best_record(filename: Any, workload_key: str | None = None, target: Any = None) -> Any:
    """The fastest (input, result) of a workload and target; (None, None) where there is none. What turned out not to be
    faster than the default is left out."""
    found: dict[Any, Any] = {}
    for measure_input, result in RecordReader(filename):
        if workload_key not in (None, measure_input.workload_key) or str(target or measure_input.target) != measure_input.target:
            continue
        key = (measure_input.workload_key, measure_input.target, measure_input.plans)
        if result.error_msg in (NOT_FASTER, NOT_EQUAL):
            found.pop(key, None)
        elif result.error_no == 0 and (key not in found or min(result.costs) < min(found[key][1].costs)):
            found[key] = (measure_input, result)
    return min(found.values(), key=lambda pair: min(pair[1].costs), default=(None, None))
