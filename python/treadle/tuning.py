# SPDX-License-Identifier: Apache-2.0
"""Measured plans for a model's kernels: `tune` writes records that compilations use. docs/tuning.md."""
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _arguments
from ._ffi import Api
from .error import Error
from .model import serialised
from .target import Target, _text as _target_text

_api = Api("tune")


def seconds_of(time: object) -> float:
    """A number of seconds, or text such as 90s, 10m, 1h."""
    match = re.fullmatch(r"([0-9.]+)([smh]?)", str(time).strip())
    try:
        value = 0.0 if match is None else float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
    except (TypeError, ValueError):
        value = 0
    if not value > 0:
        raise Error(f"time: expected seconds, or text such as 90s, 10m or 1h, not {time!r}")
    return value


class Report:
    """Results of a tuning session. `ratio`, `interval`: the model's time relative to default plans; `accepted`: whether
    its records are used; `tasks`: a dict per tuning task; `graph`: a dict per algorithm or layout that was tried in the
    whole model; `save` writes a page."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.tasks, self.graph = data["tasks"], data["graph"]
        self.ratio = data["model"]["ratio"]
        self.interval = (data["model"]["lo"], data["model"]["hi"])
        self.accepted = data["model"]["accepted"]

    def __str__(self):
        return self.data["text"]

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes a page that needs nothing beside itself; with the ending .json the data."""
        json_wanted = os.fspath(path).endswith(".json")
        data = {key: value for key, value in self.data.items() if key not in ("text", "html")}
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n" if json_wanted else self.data["html"])


@_arguments.refuses_unknown
def tune(model: Any, output: "str | os.PathLike[str] | None" = None, time: float | str = "10m",
         target: str | Mapping[str, Any] | Target = "llvm -mcpu=native", shapes: Mapping[str, Iterable[int]] | None = None,
         dims: Mapping[str, int] | None = None, threads: int = 0, jobs: int = 0, seed: int = 0, resume: bool = True,
         dry_run: bool = False, graph: bool = True, trials: int = 0, opt_level: int = 3,
         pass_config: Mapping[str, Any] | None = None,
         progress: Callable[[str], object] | None = None) -> Report:
    """Tunes the kernels of an ONNX model (path, bytes or onnx.ModelProto) for `time`, and appends records to the file
    `output`. Returns a Report.

    threads: number of threads of the kernels (0: all).
    jobs: number of processes that compile candidates (0: one per processor).
    resume: do not measure again what the file contains.
    graph: also tune algorithms and layouts.
    trials: maximum number of candidates (0: limited by time only).
    progress: a function that is called with a line of text at intervals."""
    if output is None and not dry_run:
        raise Error("tune: say where records go: output='records.jsonl'")
    options = {"output": "" if output is None else _arguments.path("output", output), "seconds": seconds_of(time), "seed": int(seed),
               "resume": bool(resume), "dry_run": bool(dry_run), "graph": bool(graph),
               "trials": _arguments.whole("trials", trials), "threads": int(threads),
               "jobs": int(jobs) or os.cpu_count() or 1, "target": _target_text(target), "opt_level": int(opt_level),
               "shapes": _arguments.shapes(shapes),
               "dims": _arguments.dims(dims),
               "config": _arguments.texts(pass_config)}
    if isinstance(model, (str, os.PathLike)):
        return Report(json.loads(_api.Tune(os.fspath(model), json.dumps(options), progress)))
    with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(serialised(model)[0])
        return Report(json.loads(_api.Tune(path, json.dumps(options), progress)))


class Search:
    """The search for one task's plan, step by step, for those who measure elsewhere: `propose` gives plans (JSON) to
    race against `incumbent`, `tell` takes what became of them, in the same order: (valid, better, ratio to the default
    plan's time) of each. Proposals are a function of the seed and of the outcomes."""

    def __init__(self, task: Any, seed: int = 0, batch: int = 32, seeds: Any = (), tried: Any = ()) -> None:
        self._module = _api.Search(task, json.dumps({"seed": seed, "batch": batch}), list(seeds), list(tried))
        self._functions = {name: self._module[name] for name in ("propose", "tell", "state")}

    def propose(self) -> list[str]:
        return [str(plan) for plan in self._functions["propose"]()]

    def tell(self, outcomes: Iterable[tuple[bool, bool, float]]) -> None:
        self._functions["tell"](json.dumps([list(outcome) for outcome in outcomes]))

    @property
    def state(self) -> dict[str, Any]:
        return json.loads(str(self._functions["state"]()))

    @property
    def incumbent(self) -> str:
        return self.state["incumbent"]

    @property
    def ratio(self) -> float:
        return self.state["ratio"]


def tasks(path: "str | os.PathLike[str]", target: str | Target = "llvm -mcpu=native") -> list[str]:
    """The tasks of an ONNX file, as JSON texts that other processes take."""
    return [str(task) for task in _api.Tasks(os.fspath(path), str(target))]


def measure_batch(task: str, incumbent: str, plans: Iterable[str], threads: int = 0, jobs: int = 1) -> list[dict[str, Any]]:
    """Builds plans of a task and races each against the incumbent; a dict for each."""
    lines = _api.MeasureBatch(task, incumbent, list(plans), json.dumps({"threads": threads, "jobs": jobs}))
    return [json.loads(str(line)) for line in lines]


def confirm(task: str, plan: str, threads: int = 0) -> dict[str, Any]:
    """Races a plan against the default one in fresh processes; a dict."""
    return json.loads(str(_api.ConfirmPlan(task, plan, json.dumps({"threads": threads}))))


def record_line(task: str, **fields: Any) -> str:
    """The line of a record: plan, state, ratio, lo, hi, pairs, procs, threads, us, err, t."""
    return str(_api.RecordLine(task, json.dumps(fields)))


def append_records(path: "str | os.PathLike[str]", lines: Iterable[str]) -> None:
    """Appends whole lines to a file of records, under a lock."""
    _api.Append(os.fspath(path), "".join(lines))


def read_records(path: "str | os.PathLike[str]") -> dict[str, Any]:
    """What a file of records has: {"lines", "faults", "records"}."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return json.loads(str(_api.ReadRecords(file.read())))
