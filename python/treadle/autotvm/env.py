# SPDX-License-Identifier: Apache-2.0
"""Which configuration a template is run with when it is called."""
import threading
from typing import Any

from .._networks import Records
from ..error import Error
from .space import FallbackConfigEntity

_local = threading.local()


def query(target: Any, workload: Any) -> Any:
    """The configuration that the innermost context which knows one gives."""
    for context in reversed(getattr(_local, "stack", None) or []):
        config = context.find(target, workload)
        if config is not None:
            return config
    return FallbackConfigEntity()


class _Innermost(type):
    @property
    def current(cls):
        stack = getattr(_local, "stack", None)
        return stack[-1] if stack else FallbackContext()


class DispatchContext(metaclass=_Innermost):
    """Base of those that know configurations; the innermost that does gives it. `DispatchContext.current` is the
    innermost of this thread."""

    def __enter__(self):
        stack = getattr(_local, "stack", None) or []
        _local.stack = [*stack, self]
        return self

    def __exit__(self, *_):
        _local.stack = _local.stack[:-1]

    def find(self, target: Any, workload: Any) -> Any:
        return None

    def query(self, target: Any, workload: Any) -> Any:
        """The configuration of a workload: this context's, else what those around give."""
        config = self.find(target, workload)
        return query(target, workload) if config is None else config


class FallbackContext(DispatchContext):
    """Knows none: templates run with the first value of each knob."""


class ApplyConfig(DispatchContext):
    """The same configuration for all."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def find(self, target: Any, workload: Any) -> Any:
        return self.config


class ApplyHistoryBest(DispatchContext):
    """The fastest configurations of logs (paths, or pairs of inputs and results), for equal targets only. Builds of
    networks inside take what a log confirms of their kernels."""

    def __init__(self, records: Any) -> None:
        self.best: dict[Any, Any] = {}
        self._of_networks: Any = None
        self.load(records)

    def load(self, records: Any) -> None:
        """Adds the measurements of a log, of several (a list of paths), or pairs of inputs and results."""
        from .record import lines_of_networks, load_from_buffer, load_from_file

        if isinstance(records, (list, tuple)) and records and not (isinstance(records[0], tuple) and len(records[0]) == 2):
            for each in records:
                self.load(each)
            return
        path = records if isinstance(records, str) or hasattr(records, "__fspath__") else None
        if path is not None and lines_of_networks(path):
            if self._of_networks is not None:
                raise Error("ApplyHistoryBest: several logs have records of networks; concatenate them, as one file")
            self._of_networks = Records(path)
        pairs = records
        if hasattr(records, "read"):
            pairs = load_from_buffer(records)
        elif path is not None or not hasattr(records, "__iter__"):
            pairs = load_from_file(records)
        for measure_input, result in pairs:
            if result.error_no != 0:
                continue
            key = (str(measure_input.task.target), repr(measure_input.task.workload))
            cost = sum(result.costs) / len(result.costs)
            if key not in self.best or cost < self.best[key][0]:
                self.best[key] = (cost, measure_input.config)

    def update(self, target: Any, workload: Any, cfg: Any) -> None:
        """Sets the configuration of a workload, whatever the logs have."""
        self.best[(str(target), repr(workload))] = (0.0, cfg)

    def __enter__(self):
        if self._of_networks is not None:
            self._of_networks.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        if self._of_networks is not None:
            self._of_networks.__exit__(*error)
        super().__exit__(*error)

    def find(self, target: Any, workload: Any) -> Any:
        if target is not None:
            found = self.best.get((str(target), repr(workload)))
            return found and found[1]
        known = [value for (_, other), value in self.best.items() if other == repr(workload)]
        return min(known, key=lambda pair: pair[0])[1] if known else None


apply_history_best = ApplyHistoryBest
