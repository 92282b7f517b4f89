# SPDX-License-Identifier: Apache-2.0
"""Measurements of functions: a file of JSON lines, {"workload", "target", "decision", "run_secs", "error", "v"}. A decision
that is null is the schedule that functions without one get. Torn lines and those of other programs are left out."""
import hashlib
import json
import os
from collections.abc import Iterable
from typing import Any

from .._arguments import path
from .._refused import refused
from ..error import Error
from ..target import Target
from .scheduled import compile_tir, function_of

VERSION = 1
FILE = "database_tuning_record.json"


def workload_of(function: object) -> str:
    """What names a function: its text."""
    return hashlib.sha256(str(function).encode()).hexdigest()[:32]


class Database:
    """The measurements in a folder (or in memory, without one)."""

    def __init__(self, work_dir: Any = None) -> None:
        work_dir = None if work_dir is None else path("meta_schedule: work_dir", work_dir)
        self.path = None if work_dir is None else os.path.join(work_dir, FILE)
        self.records = []
        if self.path is not None:
            os.makedirs(work_dir, exist_ok=True)
            if os.path.exists(self.path):
                with open(self.path, encoding="utf-8", errors="replace") as file:
                    self.records = [record for record in map(_decoded, file) if record is not None]

    @staticmethod
    def create(kind: str = "json", *args: Any, **kwargs: Any) -> "Database":
        """A database of a kind: "json", "memory" or "union"."""
        return create(kind, *args, **kwargs)

    def __len__(self):
        return len(self.records)

    def dump_pruned(self, destination: "Database") -> None:
        """Commits the fastest measurement of each function and target to another database."""
        for workload, target in dict.fromkeys((r["workload"], r["target"]) for r in self.records):
            best = self._best([r for r in self.records if (r["workload"], r["target"]) == (workload, target)])
            if best is not None:
                destination._append(best)

    def commit(self, function: object, target: object, decision: Any, seconds: Iterable[float], error: str = "") -> None:
        """Adds a measurement."""
        self._append({"workload": workload_of(function), "target": str(target), "decision": decision,
                      "run_secs": list(seconds), "error": error, "v": VERSION})

    def _append(self, record):
        self.records.append(record)
        if self.path is not None:
            from .. import tuning

            tuning.append_records(self.path, [json.dumps(record) + "\n"])

    def of(self, function: object, target: object) -> list[dict[str, Any]]:
        """All of a function on a target."""
        key = workload_of(function)
        return [r for r in self.records if r["workload"] == key and r["target"] == str(target)]

    def best(self, function: object, target: object) -> dict[str, Any] | None:
        """The fastest measurement of a decision that no line calls an error; None without any."""
        return self._best(self.of(function, target))

    @staticmethod
    def _best(records):
        refused = [r["decision"] for r in records if r["error"]]
        found = [r for r in records if r["run_secs"] and r["decision"] not in refused]
        return min(found, key=mean_of, default=None)


    def get_all_tuning_records(self) -> list[dict[str, Any]]:
        """The measurements of all functions, the latest last."""
        return list(self.records)

    def has_workload(self, mod: Any) -> bool:
        """Whether there is a measurement of a function, for any target."""
        key = workload_of(function_of(mod))
        return any(record["workload"] == key for record in self.records)

    def query_tuning_record(self, mod: Any, target: Any, workload_name: str = "main") -> dict[str, Any] | None:
        """The fastest measurement of a function on a target; None without any."""
        return self.best(function_of(mod), Target(target))

    def query_schedule(self, mod: Any, target: Any, workload_name: str = "main") -> Any:
        """The schedule of the fastest measurement; None without any."""
        return compile_tir(self, mod, target)

    def query_ir_module(self, mod: Any, target: Any, workload_name: str = "main") -> Any:
        """The module that this schedule gives; None without any."""
        schedule = self.query_schedule(mod, target)
        return None if schedule is None else schedule.mod

    def query(self, mod: Any, target: Any, *, workload_name: str = "main", kind: str = "schedule") -> Any:
        """One of the above: of the kind "schedule", "record" or "ir_module"."""
        kinds = {"schedule": self.query_schedule, "record": self.query_tuning_record, "ir_module": self.query_ir_module}
        if kind not in kinds:
            raise Error(f"meta_schedule.Database.query: kind: expected one of {', '.join(kinds)}, not {kind!r}")
        return kinds[kind](mod, target)


def mean_of(record: dict[str, Any]) -> float:
    """Seconds of a run."""
    return sum(record["run_secs"]) / len(record["run_secs"])


class JSONDatabase(Database):
    """Of a folder, or of the folder that a file of records is in."""

    def __init__(self, path_workload: Any = None, path_tuning_record: Any = None, *, work_dir: Any = None,
                 module_equality: str = "structural") -> None:
        if path_tuning_record is not None:
            work_dir = os.path.dirname(os.fspath(path_tuning_record)) or "."
        super().__init__(path_workload if work_dir is None else work_dir)


class MemoryDatabase(Database):
    """Kept nowhere else."""

    def __init__(self, module_equality: str = "structural") -> None:
        super().__init__()


class UnionDatabase(Database):
    """What several databases have, the fastest of all; what is measured anew goes to none of them."""

    def __init__(self, *databases: Any) -> None:
        super().__init__()
        self.records = [record for database in databases for record in database.records]


def create(kind: str = "json", *args: Any, **kwargs: Any) -> Database:
    """A database of a kind: "json", "memory" or "union"."""
    kinds = {"json": JSONDatabase, "memory": MemoryDatabase, "union": UnionDatabase}
    if kind not in kinds:
        raise Error(f"meta_schedule.database.create: expected one of {', '.join(kinds)}, not {kind!r}")
    return kinds[kind](*args, **kwargs)


def _of_records(name):
    return refused(f"meta_schedule.database.{name}", "a database is a file of JSON lines; tune_tir writes them, compile_tir "
                   "takes the best one")


OrderedUnionDatabase, ScheduleFnDatabase, PyDatabase, TuningRecord, Workload = map(_of_records, (
    "OrderedUnionDatabase", "ScheduleFnDatabase", "PyDatabase", "TuningRecord", "Workload"))


def _decoded(line):
    try:
        record = json.loads(line)
        whole = {"workload", "target", "decision", "run_secs", "error"} <= record.keys() and record["v"] == VERSION
    except (ValueError, KeyError, AttributeError):
        return None
    return record if whole else None
