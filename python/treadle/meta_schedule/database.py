# SPDX-License-Identifier: Apache-2.0
"""Measurements of functions: a file of JSON lines, {"workload", "target", "decision", "run_secs", "error", "v"}. A decision
that is null is the schedule that functions without one get. Torn lines and those of other programs are left out."""
import hashlib
import json
import os

VERSION = 1
FILE = "database_tuning_record.json"


def workload_of(function):
    """What names a function: its text."""
    return hashlib.sha256(str(function).encode()).hexdigest()[:32]


class Database:
    """The measurements in a folder (or in memory, without one)."""

    def __init__(self, work_dir=None):
        self.path = None if work_dir is None else os.path.join(os.fspath(work_dir), FILE)
        self.records = []
        if self.path is not None:
            os.makedirs(os.fspath(work_dir), exist_ok=True)
            if os.path.exists(self.path):
                with open(self.path, encoding="utf-8", errors="replace") as file:
                    self.records = [record for record in map(_decoded, file) if record is not None]

    def __len__(self):
        return len(self.records)

    def commit(self, function, target, decision, seconds, error=""):
        """Adds a measurement."""
        record = {"workload": workload_of(function), "target": str(target), "decision": decision,
                  "run_secs": list(seconds), "error": error, "v": VERSION}
        self.records.append(record)
        if self.path is not None:
            from .. import tuning

            tuning.append_records(self.path, [json.dumps(record) + "\n"])

    def of(self, function, target):
        """All of a function on a target."""
        key = workload_of(function)
        return [r for r in self.records if r["workload"] == key and r["target"] == str(target)]

    def best(self, function, target):
        """The fastest measurement of a decision that no line calls an error; None without any."""
        records = self.of(function, target)
        refused = [r["decision"] for r in records if r["error"]]
        found = [r for r in records if r["run_secs"] and r["decision"] not in refused]
        return min(found, key=mean_of, default=None)


def mean_of(record):
    """Seconds of a run."""
    return sum(record["run_secs"]) / len(record["run_secs"])


JSONDatabase = Database
MemoryDatabase = Database


def _decoded(line):
    try:
        record = json.loads(line)
        whole = {"workload", "target", "decision", "run_secs", "error"} <= record.keys() and record["v"] == VERSION
    except (ValueError, KeyError, AttributeError):
        return None
    return record if whole else None
