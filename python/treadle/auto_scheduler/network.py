# SPDX-License-Identifier: Apache-2.0
"""Networks: their kernels as tasks, tuned together by `treadle.tune`. The log is its file of records."""
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _networks, transform
from ..error import Error
from .records import RecordToFile


def extract_tasks(mod: Any, params: Mapping[str, Any], target: Any, target_host: Any = None, hardware_params: Any = None,
                  include_simple_tasks: bool = False, dump_workload_to_dag_log: Any = None, opt_level: int = 3,
                  other_targets: Any = None) -> tuple[Any, Any]:
    """(tasks, how often each is called) of the kernels that have plans to choose from."""
    given = {"hardware_params": hardware_params, "dump_workload_to_dag_log": dump_workload_to_dag_log,
             "other_targets": other_targets}
    for name, value in given.items():
        if value is not None:
            raise Error(f"auto_scheduler.extract_tasks: {name} has no counterpart: the target says what the machine is")
    tasks = _networks.tasks(mod, params, target, opt_level)
    return tasks, [task.weight for task in tasks]


class TaskScheduler:
    """Tunes the kernels of one network: those that promise most come first, and the whole network decides in the end."""

    def __init__(self, tasks: Sequence[Any], task_weights: Sequence[Any] | None = None,
                 objective_func: Callable[..., Any] | None = None, strategy: str = "gradient", load_model_file: Any = None,
                 load_log_file: Any = None, alpha: float = 0.2, beta: int = 2, gamma: float = 0.5,
                 backward_window_size: int = 3, callbacks: Sequence[Any] | None = None) -> None:
        for name, value in (("objective_func", objective_func), ("load_model_file", load_model_file), ("callbacks", callbacks)):
            if value is not None:
                raise Error(f"auto_scheduler.TaskScheduler: {name} has no counterpart: the network's time is what counts")
        if not hasattr(tasks, "__iter__") or not all(hasattr(task, "network") for task in tasks):
            raise Error(f"auto_scheduler.TaskScheduler: expected the tasks of extract_tasks, not {tasks!r}")
        networks = {id(task.network): task.network for task in tasks}
        if len(networks) != 1:
            raise Error(f"auto_scheduler.TaskScheduler: expected tasks of one network, not of {len(networks)}")
        (self.network,) = networks.values()
        self.tasks, self.log = list(tasks), load_log_file

    def tune(self, tune_option: Any, search_policy: Any = "default", search_policy_params: Any = None,
             adapative_training: bool = False, per_task_early_stopping: Any = None, *, adaptive_training: bool = False) -> Any:
        """Measures `num_measure_trials` candidates, and appends to the file of the RecordToFile among the callbacks."""
        files = [callback.filename for callback in tune_option.measure_callbacks if isinstance(callback, RecordToFile)]
        if len(files) != 1 or (self.log is not None and self.log != files[0]):
            raise Error("auto_scheduler.TaskScheduler.tune: say where records go by one measure callback "
                        "RecordToFile(path); what that file has isn't measured again")
        return _networks.tune(self.network, files[0], max(1, tune_option.num_measure_trials))


def is_auto_scheduler_enabled() -> bool:
    """Whether the current pass context asks for recorded plans."""
    return bool(transform.PassContext.current().config.get("relay.backend.use_auto_scheduler", False))


class ApplyHistoryBest(_networks.Records):
    """Builds inside take the confirmed records of a file."""

    def __init__(self, records: Any, n_lines: int | None = None, include_compatible: bool = False) -> None:
        if n_lines is not None or include_compatible:
            raise Error("auto_scheduler.ApplyHistoryBest: n_lines and include_compatible have no counterpart: records hold "
                        "for the machine that they were measured on")
        super().__init__(records)
